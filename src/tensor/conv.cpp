#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ir/py_text.hpp"
#include "tensor/operands.hpp"

namespace uopc {
namespace {

using Two = std::pair<int64_t, int64_t>;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Type, message);
}

void check(const char* operation, Two kernel, Two stride, Two padding, Two dilation) {
  for (const auto& [what, two, low] :
       {std::tuple{"kernel", kernel, 1}, {"stride", stride, 1}, {"padding", padding, 0}, {"dilation", dilation, 1}})
    if (std::min(two.first, two.second) < low || std::max(two.first, two.second) > INT32_MAX)
      fail(fmt::format("{}: a {} of ({}, {}); it is at least {}, and less than 2**31", operation, what, two.first,
                       two.second, low));
}

// Axis `k` of size n as (places, kernel): place o and step j are element o * stride + j * dilation.
Tensor windows(const char* operation, const Tensor& x, int64_t k, int64_t kernel, int64_t stride, int64_t dilation) {
  const int64_t n = x.size(k), reach = dilation * (kernel - 1) + 1;
  if (n < reach)
    fail(fmt::format("{}: a window of {} does not fit into axis {} of {}", operation, reach, k, py_tuple(x.shape())));
  const int64_t places = (n - reach) / stride + 1;
  if (places == 1) stride = 1;
  if (stride == kernel && dilation == 1) return x.narrow(k, 0, places * kernel).unflatten(k, {places, kernel});
  if (kernel == 1)  // every stride-th element
    return x
        .at([&] {
          std::vector<At> all(static_cast<size_t>(k), Slice{});
          all.push_back(Slice{0, (places - 1) * stride + 1, stride});
          return all;
        }())
        .unsqueeze(k + 1);
  // The axis repeated, and read in rows of n + dilation: each row begins `dilation` further on. A stride takes every
  // stride-th of the places then. Rows of the repeated axis must hold places * stride elements.
  const int64_t row = n + dilation, copies = (kernel * row + n - 1) / n;
  Shape times(static_cast<size_t>(x.ndim()), 1);
  times[static_cast<size_t>(k)] = copies;
  Tensor y = x.repeat(times).narrow(k, 0, kernel * row).unflatten(k, {kernel, row});
  if (stride == 1) return y.narrow(k + 1, 0, places).transpose(k, k + 1);
  const int64_t span = places * stride;
  if (span > row) {
    std::vector<Two> more(static_cast<size_t>(y.ndim()));
    more[static_cast<size_t>(k) + 1].second = span - row;
    y = y.pad(more);
  }
  y = y.narrow(k + 1, 0, span).unflatten(k + 1, {places, stride}).narrow(k + 2, 0, 1).squeeze(k + 2);
  return y.transpose(k, k + 1);
}

// (.., H, W) to (.., OH, OW, KH, KW).
Tensor windows_2d(const char* operation, const Tensor& x, Two kernel, Two stride, Two dilation) {
  Tensor y = windows(operation, x, x.ndim() - 2, kernel.first, stride.first, dilation.first);  // .., OH, KH, W
  y = windows(operation, y, y.ndim() - 1, kernel.second, stride.second, dilation.second);      // .., OH, KH, OW, KW
  return y.transpose(-3, -2);
}

Tensor padded(const Tensor& x, Two padding, Scalar value) {
  std::vector<Two> around(static_cast<size_t>(x.ndim()));
  around[around.size() - 2] = {padding.first, padding.first};
  around[around.size() - 1] = {padding.second, padding.second};
  return x.pad(around, value);
}

}  // namespace

Tensor Tensor::conv2d(const Tensor& weight, const Tensor& bias, const Conv2dOptions& o) const {
  check_one_context({*this, weight, bias ? bias : weight}, "conv2d");
  if (ndim() != 4 || weight.ndim() != 4 || o.groups < 1 || size(1) % o.groups != 0 ||
      size(1) / o.groups != weight.size(1) || weight.size(0) % o.groups != 0)
    fail(
        fmt::format("conv2d: a weight of shape {} in {} groups does not take {}: (out, in / groups, height, width) and "
                    "(batch, in, height, width)",
                    py_tuple(weight.shape()), o.groups, py_tuple(shape())));
  if (bias && bias.shape() != Shape{weight.size(0)})
    fail(fmt::format("conv2d: a bias of shape {} beside a weight of shape {}: {} is right", py_tuple(bias.shape()),
                     py_tuple(weight.shape()), py_tuple(Shape{weight.size(0)})));
  const Two kernel{weight.size(2), weight.size(3)};
  check("conv2d", kernel, o.stride, o.padding, o.dilation);
  const Tensor x = windows_2d("conv2d", padded(*this, o.padding, 0), kernel, o.stride, o.dilation);
  const int64_t n = size(0), out = weight.size(0), in = weight.size(1), g = o.groups, oh = x.size(2), ow = x.size(3);
  // (N, G, 1, OH, OW, I, KH, KW) * (1, G, O, 1, 1, I, KH, KW)
  const Tensor taken =
      x.reshape({n, g, in, oh, ow, kernel.first, kernel.second}).permute({0, 1, 3, 4, 2, 5, 6}).unsqueeze(2);
  const Tensor w = weight.reshape({1, g, out / g, 1, 1, in, kernel.first, kernel.second});
  const DType d = promote(dtype(), weight.dtype()), within = d == DType::F16 ? DType::F32 : d;
  const Tensor y = (taken.cast(within) * w.cast(within)).sum({-3, -2, -1}).reshape({n, out, oh, ow});
  return bias ? rounded(y + bias.reshape({1, out, 1, 1}), promote(d, bias.dtype())) : rounded(y, d);
}

Tensor Tensor::avg_pool2d(const Pool2dOptions& o) const {
  const Two stride = o.stride.value_or(o.kernel);
  if (ndim() < 2) fail(fmt::format("avg_pool2d of {}: two axes are needed", py_tuple(shape())));
  check("avg_pool2d", o.kernel, stride, o.padding, o.dilation);
  const auto pooled = [&](const Tensor& x) {
    return windows_2d("avg_pool2d", padded(x, o.padding, 0), o.kernel, stride, o.dilation);
  };
  if (o.count_include_pad || o.padding == Two{0, 0}) return pooled(*this).mean({-2, -1});
  // A sum of f16 may be too large for one where the average is not. A window of nothing but padding is 0.
  const Tensor inside = pooled(Tensor::ones(context(), {size(-2), size(-1)})).sum({-2, -1}).maximum(1);
  const Tensor y = pooled(to_f32()).sum({-2, -1}) / inside;
  return rounded(y, dtype());
}
Tensor Tensor::max_pool2d(const Pool2dOptions& o) const {
  const Two stride = o.stride.value_or(o.kernel);
  if (ndim() < 2) fail(fmt::format("max_pool2d of {}: two axes are needed", py_tuple(shape())));
  check("max_pool2d", o.kernel, stride, o.padding, o.dilation);
  if (2 * o.padding.first > o.kernel.first || 2 * o.padding.second > o.kernel.second)
    fail(
        fmt::format("max_pool2d: a padding of ({}, {}) beside a kernel of ({}, {}); at most half of it is right, for a "
                    "window of nothing but padding has no largest element",
                    o.padding.first, o.padding.second, o.kernel.first, o.kernel.second));
  return windows_2d("max_pool2d", padded(*this, o.padding, dtypes::min(dtype())), o.kernel, stride, o.dilation)
      .max({-2, -1});
}

}  // namespace uopc
