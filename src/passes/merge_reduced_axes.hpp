// Reduced axes that are one stretch of memory in every operand become one axis, which lanes and parts can share.
//
//   REDUCE(x (2, 10000, 3), 2)  ->  REDUCE(RESHAPE(x, (2, 30000)), 1)
//
// An operand whose place in the merged axis would need a division stays as it is.
#pragma once
#include <span>
#include <vector>

#include "uopc/uop.hpp"

namespace uopc {

std::vector<UOp> merge_reduced_axes(std::span<const UOp> roots);

}  // namespace uopc
