// The derivative of every op, one row each.
#pragma once
#include <cstddef>

#include "uopc/uop.hpp"

namespace uopc {

// What flows back into node `u`: `g`, of u's shape and dtype. `masked` says that every path from the root came through
// a branch of a WHERE, so that a zero in `g` may stand for "not taken".
struct Adjoint {
  UOp u, g;
  bool masked = false;
};

struct Derivative {
  Op op;
  const char* formula;  // what source k gets; `g` is what u has, `ret` is u, x its source
  // The part of source k, of its shape and dtype; null when nothing flows.
  UOp (*part)(const Adjoint& at, size_t k);
  bool masks;  // the part is zero where the source was not chosen
};

// Null for an op that gradients do not pass (comparisons, integer division, leaves). Throws for one that has no place
// in a shaped graph.
const Derivative* derivative_of(Op op);

// Whether a gradient of `u` reaches its source k.
bool flows(UOp u, size_t k);

// a + b; null is nothing.
UOp add_parts(UOp a, UOp b);

}  // namespace uopc
