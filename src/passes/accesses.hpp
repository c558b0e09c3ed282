// How the loads of a kernel move with its loops.
#pragma once
#include <cstdint>
#include <vector>

#include "uopc/opts.hpp"
#include "uopc/uop.hpp"

namespace uopc {

struct Access {
  static constexpr int64_t kIrregular = INT64_MIN;

  UOp buffer, index;                    // the place that is read
  std::vector<int64_t> strides;         // by output axis; kIrregular where it is not one number
  std::vector<char> in_panels;          // by output axis: memory holds it in blocks of `lane_width`
  std::vector<int64_t> reduce_strides;  // by REDUCE loop

  bool reduced() const;  // it moves with a REDUCE loop
};

struct Accesses {
  std::vector<UOp> loops;   // by output axis; null for one of size 1
  std::vector<UOp> reduce;  // by idx
  std::vector<Access> loads;

  // Turns of all loops, one inside the other; at most INT32_MAX.
  int64_t turns() const;
};

// The lanes that an axis of `size` is given: all that a row of a register tile holds, or `lanes_of` a shorter axis.
int64_t lane_width(int64_t size, const Machine& machine);

// Of a program that was lowered without Opts from a value of `shape`. An axis that memory holds in blocks of
// `lane_width` has the stride within a block.
Accesses accesses(UOp plain, const Shape& shape, const Machine& machine);

}  // namespace uopc
