// Large reductions with few results, in parts that threads share.
//
//   sum(x)  ->  sum(STAGE(sum of each of 32 to 64 stretches of x))
//
// How many parts depends on the size alone, so that a sum is the same with any number of threads. What the parts leave
// over of an axis is reduced beside them.
#pragma once
#include <span>
#include <vector>

#include "uopc/uop.hpp"

namespace uopc {

std::vector<UOp> split_reductions(std::span<const UOp> roots);

}  // namespace uopc
