// Which UPCAST loops run as vectors, one lane an iteration, and what differs from lane to lane in them.
//
// A loop may when running its statements one after the other for all lanes gives what running its iterations one after
// the other gives: what an iteration writes, no other one reads or writes, scratch apart that each iteration writes
// first. Any other UPCAST loop is an ordinary loop. Lanes that no iteration has compute something, of zeros where they
// would come from memory, and are not stored.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "codegen/llvm/regions.hpp"
#include "ir/bounds.hpp"
#include "ir/walk.hpp"
#include "passes/linearize.hpp"

namespace uopc::codegen {

class Lanes {
 public:
  static constexpr int64_t kMaxWidth = 128;
  static constexpr int64_t kIrregular = INT64_MIN;

  struct Loop {
    size_t open, close;  // lines
    UOp range;
    int64_t active;  // iterations
    int64_t width;   // of the vectors: the next power of two, as LLVM takes others apart
    bool full() const { return active == width; }
  };

  // The loop that line `open` begins; null where it is none of these.
  const Loop* opened_at(size_t open) const;
  bool varies(UOp u) const { return strides_.contains(u); }
  // By how much an i32 value that varies grows from lane to lane; kIrregular where that is not one number.
  int64_t stride(UOp u) const {
    const int64_t* s = strides_.find(u);
    return s ? *s : 0;
  }
  // The width of the loop that has one ALLOC a lane; 1 for others.
  int64_t copies(UOp alloc) const {
    const int64_t* w = copies_.find(alloc);
    return w ? *w : 1;
  }

 private:
  friend class LaneFinder;
  std::vector<Loop> loops_;  // in order
  NodeMap<int64_t> strides_, copies_;
};

// With `check_bounds`, loops whose varying indices are not proved to be in range stay ordinary ones.
Lanes find_lanes(const Linearized& program, const Regions& regions, Bounds& bounds, bool check_bounds);

}  // namespace uopc::codegen
