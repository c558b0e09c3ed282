#include <fmt/format.h>

#include <vector>

#include "tensor/value.hpp"

namespace uopc {

Tensor Tensor::arange(const Context& ctx, int64_t end) {
  return arange(ctx, 0, end, 1);
}
Tensor Tensor::arange(const Context& ctx, int64_t begin, int64_t end, int64_t step) {
  if (step == 0) throw Error(ErrorCode::Type, "arange: a step of 0");
  std::vector<int32_t> all;
  for (int64_t v = begin; step > 0 ? v < end : v > end; v += step) {
    if (v < INT32_MIN || v > INT32_MAX) throw Error(ErrorCode::Type, fmt::format("arange: {} is not an i32", v));
    all.push_back(static_cast<int32_t>(v));
  }
  return from(ctx, std::span<const int32_t>(all), {static_cast<int64_t>(all.size())});
}
Tensor Tensor::linspace(const Context& ctx, double begin, double end, int64_t steps) {
  if (steps < 0) throw Error(ErrorCode::Type, fmt::format("linspace: {} steps", steps));
  std::vector<float> all;
  for (int64_t i = 0; i < steps; i++) {
    const double t = steps > 1 ? static_cast<double>(i) / static_cast<double>(steps - 1) : 0;
    all.push_back(static_cast<float>(begin * (1 - t) + end * t));
  }
  return from(ctx, std::span<const float>(all), {steps});
}
Tensor Tensor::eye(const Context& ctx, int64_t n, DType dtype) {
  if (n < 0) throw Error(ErrorCode::Type, fmt::format("eye: {} rows", n));
  const Tensor i = iota(ctx, n);
  return i.reshape({n, 1}).eq(i).cast(dtype).clone();
}
Tensor Tensor::zeros_like() const {
  return full_like(0);
}
Tensor Tensor::ones_like() const {
  return full_like(1);
}
Tensor Tensor::full_like(Scalar v) const {
  return full(context(), shape(), v, dtype());
}

}  // namespace uopc
