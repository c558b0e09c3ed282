// Which lines of a loop program become functions of their own, and what crosses between these.
//
// A THREAD loop is one, so that the runtime can call it from many threads. So is a part of a long stretch of lines:
// LLVM's time is quadratic in the size of a function.
#pragma once
#include <cstddef>
#include <vector>

#include "passes/linearize.hpp"

namespace uopc::codegen {

struct Region {
  enum class Kind : uint8_t { Kernel, Thread, Chunk };
  Kind kind;
  size_t begin, end;  // its lines; those of a Thread region begin with Open and end with Close
  int parent;
  std::vector<int> children;  // in the order of their lines

  // LOAD and ALU values, RANGEs and ALLOCs.
  std::vector<UOp> inputs;   // from outside
  std::vector<UOp> outputs;  // used outside
  std::vector<UOp> slots;    // inputs and outputs of its children: these pass through memory of this region
  std::vector<UOp> allocs;   // whose memory it provides: the innermost region around all uses

  std::vector<UOp> buffers;  // used here or in its children, by slot
};

struct Regions {
  std::vector<Region> list;  // a parent before its children; the first is the kernel
  size_t nodes;              // of the program, each counted where it is computed
};

// At most about `limit` nodes a function. THREAD loops inside a THREAD loop stay loops.
Regions find_regions(const Linearized& program, size_t limit);

}  // namespace uopc::codegen
