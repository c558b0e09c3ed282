#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensor/value.hpp"

namespace uopc {
namespace {

void check_count(const char* operation, __int128 n) {
  if (n > INT32_MAX) throw Error(ErrorCode::Type, fmt::format("{}: more than 2**31 - 1 elements", operation));
}

}  // namespace

Tensor Tensor::arange(const Context& ctx, int64_t end) {
  return arange(ctx, 0, end, 1);
}
Tensor Tensor::arange(const Context& ctx, int64_t begin, int64_t end, int64_t step) {
  if (step == 0) throw Error(ErrorCode::Type, "arange: a step of 0");
  const bool any = step > 0 ? begin < end : begin > end;
  // In 128 bits: the ends may be any.
  const __int128 distance = step > 0 ? __int128{end} - begin : __int128{begin} - end;
  const __int128 stride = step > 0 ? __int128{step} : -__int128{step};
  const __int128 n = any ? (distance - 1) / stride + 1 : 0;
  const __int128 last = __int128{begin} + (n - 1) * step;
  if (n > 0 && (std::min<__int128>(begin, last) < INT32_MIN || std::max<__int128>(begin, last) > INT32_MAX))
    throw Error(ErrorCode::Type, fmt::format("arange({}, {}, {}): not all are i32", begin, end, step));
  check_count("arange", n);
  std::vector<int32_t> all(static_cast<size_t>(n));
  for (size_t i = 0; i < all.size(); i++) all[i] = static_cast<int32_t>(begin + static_cast<int64_t>(i) * step);
  return from(ctx, std::span<const int32_t>(all), {static_cast<int64_t>(all.size())});
}
Tensor Tensor::linspace(const Context& ctx, double begin, double end, int64_t steps) {
  if (steps < 0) throw Error(ErrorCode::Type, fmt::format("linspace: {} steps", steps));
  check_count("linspace", steps);
  std::vector<float> all;
  for (int64_t i = 0; i < steps; i++) {
    const double t = steps > 1 ? static_cast<double>(i) / static_cast<double>(steps - 1) : 0;
    all.push_back(static_cast<float>(begin * (1 - t) + end * t));
  }
  return from(ctx, std::span<const float>(all), {steps});
}
Tensor Tensor::eye(const Context& ctx, int64_t n, DType dtype) {
  if (n < 0) throw Error(ErrorCode::Type, fmt::format("eye: {} rows", n));
  check_count("eye", __int128{n} * n);
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
