// Checks that `infer` leaves out.
#pragma once
#include <string>

#include "uopc/op.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// How messages name a node: "RANGE idx=0 kind=loop", "BUFFER slot=1", "FLOORDIV".
std::string describe(UOp u);

// What makes a program one that can be lowered (Graph, Kernel) or rendered (Loops): `verify` (passes.hpp) without its
// refusal of what can be rendered but not sensibly run.
void verify_structure(UOp root, PipelineStage stage);

// A kernel is a function of C, and a symbol of the code it becomes. Throws Error(Type).
void check_kernel_name(const std::string& name);

// Elements of memory or of a reshaped value that an i32 index can reach.
inline constexpr int64_t kMaxElements = int64_t{1} << 31;

// The number of elements, or kMaxElements + 1 where it is more. Sizes are not negative.
int64_t count_elements(const Shape& shape);

}  // namespace uopc
