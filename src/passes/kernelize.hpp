// What the steps of make_plan share.
#pragma once
#include <span>
#include <vector>

#include "ir/walk.hpp"
#include "uopc/plan.hpp"

namespace uopc {

// STAGE(x, "detach").
bool is_detach(UOp u);

// The BUFFER of which `u` is all, in order: itself, or what it is a RESHAPE of. Null when there is none.
UOp whole_buffer(UOp u);

// `stage_broadcast_compute` of several results at once. A value is staged in all of them or in none.
std::vector<UOp> insert_stages(std::span<const UOp> roots, const CutOptions& options);

// Float operations of an evaluation that computes every node of a kernel's value once.
double count_flops(UOp value);

}  // namespace uopc
