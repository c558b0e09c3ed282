// A plain evaluator of shaped graphs, written from the appendix and docs/semantics.md and sharing nothing with the
// passes and back ends: every node becomes an array, op by op. It is the independent truth of the differential tests.
//
// Every element has two values. `exact` is what the program's own order of operations gives when each operation rounds
// to its dtype: bit for bit what every strict back end must give (EXP2, LOG2 and SIN apart). `value` is the same in
// double without rounding, with a bound of how far a compiled program may be from it, whatever order it adds and
// multiplies in and whether or not it contracts.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "diff/generator.hpp"
#include "uopc/uop.hpp"

namespace uopc::diff {

struct Element {
  double exact = 0;  // every value of every dtype is a double

  // Of a sum: `magnitude` is the sum of the terms' magnitudes, `terms` their number, `leaf` the sum of their errors.
  double value = 0, leaf = 0, magnitude = 0;
  double terms = 1;
  double product_max = 1, product_min = 1;  // bounds of every partial product of the factors of `value`
  bool known = true;                        // false: rounding decides (a comparison of near values, an overflow, ...)
  bool constant = false;                    // made of CONSTs alone
};

// Operations whose C text is undefined or has another value than ours: such a program is compared without C.
struct Hazards {
  bool division = false;       // a zero divisor, INT_MIN // -1: the C text traps
  bool cast = false;           // NaN or an out-of-range float to i32
  bool bool_sum = false;       // true + true inside an expression is 2 in C
  bool half_function = false;  // SQRT, EXP2, LOG2, SIN of f16 are double functions in C
  // MAX of a constant and a value, in this order, whose other order gives something else (a NaN, zeros of both signs):
  // the simplifier puts constants on the right. Every back end sees the same order, which the evaluator cannot know.
  bool max_order = false;
  bool any() const { return division || cast || bool_sum || half_function; }
};

struct Evaluated {
  DType dtype = DType::Void;
  Shape shape;
  std::vector<Element> elements;  // row-major
  Hazards hazards;                // of the whole graph
};

// Throws Error(Type) for an op that shaped graphs do not have.
Evaluated evaluate_doubles(UOp root, std::span<const Input> inputs);

// How far `e.value` may be from a compiled program's: infinite where it is not known.
double error_bound(const Element& e, DType dtype);

// Elements in memory, as doubles, and back (rounded already).
double read_element(const std::byte* at, DType dtype);
void write_element(std::byte* at, DType dtype, double value);

}  // namespace uopc::diff
