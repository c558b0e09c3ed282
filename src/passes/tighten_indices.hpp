// Divisions of indices that loop bounds make needless.
#pragma once
#include "uopc/uop.hpp"

namespace uopc {

// (sum of c * t) // n = (sum of (c // n) * t) + (sum of (c % n) * t) // n, and the remainder likewise: where bounds
// prove that the second sum is within [0, n), the division goes. A window's index ((k * 29) + x) % 28 becomes k + x so.
// Not among the rules of `simplify`, whose result is the reference's text.
UOp tighten_indices(UOp root);

}  // namespace uopc
