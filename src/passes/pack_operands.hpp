// Operands of products laid out in the order in which a register tile reads them.
#pragma once
#include <span>
#include <vector>

#include "uopc/opts.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// For every REDUCE(ADD) of a product in `roots` that many outputs share an operand of: that operand staged in panels of
// `lane_width` elements of one output axis, (.., panel, reduced axes, lane), where memory does not have it so already
// and the shared reads pay for the copy. Values do not change, nor does the order in which they are summed.
std::vector<UOp> pack_operands(std::span<const UOp> roots, const Machine& machine);

}  // namespace uopc
