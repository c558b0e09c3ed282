// One row for each operation of tensors: how it is called with random operands and options, and what the result is.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tensor/reference_ops.hpp"
#include "uopc/tensor.hpp"

namespace uopc::plain {

using Tensors = std::vector<Tensor>;
using NdArrays = std::vector<NdArray>;

struct Range {
  double low = -2, high = 2;
};

// Draws the sizes, dtypes, values and options of a call. Round 0 has an axis of no elements where one is allowed, round
// 1 has axes of one element, later rounds have small and prime ones.
class Draw {
 public:
  // `for_gradient`: f32 wherever floats are allowed, distinct values, none near 0 (where there are kinks).
  Draw(uint64_t seed, int round, bool for_gradient) : random_(seed), round_(round), for_gradient_(for_gradient) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  double number(double low, double high) { return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53; }
  bool coin() { return below(2) == 1; }
  template <class T>
  T pick(std::initializer_list<T> all) {
    return all.begin()[below(static_cast<int64_t>(all.size()))];
  }
  bool for_gradient() const { return for_gradient_; }

  int64_t size() { return round_ == 1 ? 1 : pick<int64_t>({1, 2, 3, 4, 5, 7}); }
  Shape full_shape(int64_t least_ndim, int64_t most_ndim);  // of at least one element
  Shape shape(int64_t least_ndim, int64_t most_ndim);
  Shape broadcasting(Shape shape);  // some axes 1, some leading ones away
  int64_t axis(int64_t ndim) { return between(-ndim, ndim - 1); }
  std::vector<int64_t> some_axes(int64_t ndim);
  DType dtype(std::initializer_list<DType> all);

  NdArray array(Shape shape, DType d, Range range = {});
  NdArray indices(Shape shape, int64_t n, bool some_out_of_range);

 private:
  std::mt19937_64 random_;
  int round_;
  bool for_gradient_;
};

struct Call {
  NdArrays inputs;
  std::function<Tensors(const Context&, std::span<const Tensor>)> run;
  std::function<NdArrays(std::span<const NdArray>)> want;
};

// How near an element must be: `units` of 2^-24 (f32) of its scale, and for f16 `halves` of 2^-11 of its value (each
// the rounding of one f16 result) beside that. Other dtypes are exact.
struct Near {
  double units = 0;
  double halves = 1;
};

struct Row {
  std::string name;  // "pow", and "pow/number" of another form
  Near near;
  bool differentiable = false;
  std::function<Call(Draw&)> call;
};

inline Row row(std::string name, Near near, bool differentiable, std::function<Call(Draw&)> call) {
  return {std::move(name), near, differentiable, std::move(call)};
}
// A call with one result.
inline Call one(NdArrays inputs, std::function<Tensor(std::span<const Tensor>)> run,
                std::function<NdArray(std::span<const NdArray>)> want) {
  return {std::move(inputs), [run](const Context&, std::span<const Tensor> t) { return Tensors{run(t)}; },
          [want](std::span<const NdArray> a) { return NdArrays{want(a)}; }};
}

inline constexpr std::initializer_list<DType> kAllDTypes = {DType::F32, DType::F16, DType::I32, DType::Bool};
inline constexpr std::initializer_list<DType> kNumbers = {DType::F32, DType::F16, DType::I32};
inline constexpr std::initializer_list<DType> kFloats = {DType::F32, DType::F16};

void add_creation(std::vector<Row>& rows);
void add_movement(std::vector<Row>& rows);
void add_elementwise(std::vector<Row>& rows);
void add_reductions(std::vector<Row>& rows);
void add_nets(std::vector<Row>& rows);  // products, windows, lookups, norms, losses, attention
const std::vector<Row>& operation_rows();

}  // namespace uopc::plain
