// What the steps of make_plan share.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "ir/walk.hpp"
#include "uopc/plan.hpp"

namespace uopc {

// STAGE(x, "detach").
bool is_detach(UOp u);

// The BUFFER of which `u` is all, in order: itself, or what it is a RESHAPE of. Null when there is none.
UOp whole_buffer(UOp u);

// An EXPAND that repeats its source.
bool grows(UOp u);

// `stage_broadcast_compute` of several results at once. A value is staged in all of them or in none.
std::vector<UOp> insert_stages(std::span<const UOp> roots, const CutOptions& options);

// `x` with STAGE where computing it anew could round differently, so that its elements compare equal to themselves and
// to their maximum in every kernel. `share_stages` makes all users of the value read it there.
UOp pin_rounding(UOp x);

// The graph with every value that some STAGE is of read from that STAGE. Constants stay constants.
std::vector<UOp> share_stages(std::span<const UOp> roots);

// The value of a constant in any shape and dtype. Only as deep as `const_like` builds.
std::optional<double> uniform(UOp u);

// What an operation costs beside an addition, in the units of the thresholds on what is computed again and what is
// kept.
int64_t operation_cost(UOp u);
// The cost from which an element-wise value is kept rather than computed for each of its readers.
inline constexpr int64_t kRepeatedCost = 12;

// Float operations of an evaluation that computes every node of a kernel's value once.
double count_flops(UOp value);

}  // namespace uopc
