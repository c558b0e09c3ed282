// Bounds of bool and i32 values. Every operation is checked for leaving i32, since arithmetic wraps: where it may, the
// bounds are those of the type.
#pragma once
#include <cstdint>

#include "ir/walk.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// lo <= value <= hi. `lo > hi`: the value never exists (the counter of a loop that runs no times).
struct Interval {
  int64_t lo, hi;
  bool empty() const { return lo > hi; }
  bool single() const { return lo == hi; }
};

// Answers queries about the nodes of one Graph and remembers them, so that a graph is walked once however much of it is
// shared. Nodes are immutable: the answers stay true while the Graph grows.
class Bounds {
 public:
  // Of a bool or i32 node; anything else has the bounds of i32.
  Interval of(UOp u) { return facts(u).interval; }

  // Whether the sums and products at the top of `u` (ADD and MUL down to the first other op) are the integers they look
  // like: none can leave i32.
  bool exact(UOp u) { return facts(u).exact; }

  // The number of terms of the ADD tree at the top of `u`; `kManyTerms` stands for that many or more.
  static constexpr uint8_t kManyTerms = 255;
  int terms(UOp u) { return facts(u).terms; }

 private:
  struct Facts {
    Interval interval;
    bool exact;
    uint8_t terms;
  };
  const Facts& facts(UOp u);
  Facts derive(UOp u);  // the sources' facts are known

  NodeMap<Facts> known_;
};

}  // namespace uopc
