// A loop program as a list of statements: what every back end prints, emits or interprets.
//
// The contract of A.4: a node sits inside every RANGE it transitively depends on, except those that an END on the path
// closed. Loops nest in increasing idx. Within a scope, statements stand in topological order, and a loop stands where
// its last END stands.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "uopc/uop.hpp"

namespace uopc {

struct Line {
  enum class Kind : uint8_t {
    Alloc,  // declaration of scratch memory
    Load,   // a value with a name
    Store,
    Barrier,
    Alu,    // an ALU value used more than once, or too deep to stay inside its user: a value with a name
    Open,   // RANGE: the loop's head
    Close,  // RANGE: the loop's end
  };
  Kind kind;
  UOp node;
};

// Every node that is not on a line of its own (single-use ALU, INDEX, CONST, AFTER) is part of the lines that use it.
// Such an expression is at most `kMaxInlineDepth` deep, so back ends may recurse over it.
inline constexpr int kMaxInlineDepth = 200;

// The cell that a LOAD or STORE reaches.
struct Cell {
  UOp memory;  // BUFFER or ALLOC
  UOp index;   // flat, i32
};

struct Linearized {
  std::vector<Line> lines;
  std::vector<UOp> params;  // the BUFFERs, by slot
  bool has_line(UOp u) const { return with_line.contains(u); }
  const Cell& cell(UOp load_or_store) const { return cells.at(load_or_store); }
  UOpMap<char> with_line;  // the values that have a name: LOADs and Alu lines
  UOpMap<Cell> cells;      // of every LOAD and STORE
};

// Throws Error(Type) for a RANGE that no END closes, an END that is not innermost, and effects whose order is circular.
Linearized linearize(UOp sink);

// The RANGEs each node of `order` (a toposort) sits in, by idx, lowest first.
std::vector<std::vector<UOp>> scopes(std::span<const UOp> order);

// For each RANGE of `order`, the RANGE its loop stands directly in (null: the kernel itself); same index as `order`,
// null for other nodes.
std::vector<UOp> loop_targets(std::span<const UOp> order);

// The memory an address is in: the BUFFER or ALLOC below INDEX, AFTER and the movement ops. Walks them: for the LOADs and
// STOREs of a program `Linearized::cell` knows.
UOp memory_of(UOp address);

}  // namespace uopc
