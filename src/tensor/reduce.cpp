#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/py_text.hpp"
#include "passes/kernelize.hpp"
#include "tensor/operands.hpp"

namespace uopc {
namespace {

// The axes moved to the end and reduced there; their sizes 1 where they are kept.
UOp reduce_axes(UOp x, Op op, const std::vector<int64_t>& axes, bool keepdim) {
  Shape order, kept = x.shape();
  for (int64_t k = 0; k < x.ndim(); k++)
    if (!std::ranges::binary_search(axes, k)) order.push_back(k);
  order.insert(order.end(), axes.begin(), axes.end());
  for (int64_t k : axes) kept[static_cast<size_t>(k)] = 1;
  const UOp last = std::ranges::is_sorted(order) ? x : x.permute(order);
  const UOp out = last.reduce(op, static_cast<int64_t>(axes.size()));
  return keepdim ? out.reshape(kept) : out;
}

int64_t count(const Tensor& t, const std::vector<int64_t>& axes) {
  int64_t n = 1;
  for (int64_t k : axes) n *= t.shape()[static_cast<size_t>(k)];
  return n;
}

// f16 is summed in f32 and rounded once.
Tensor sum_in_f32(const Tensor& t, const std::vector<int64_t>& axes, bool keepdim) {
  return make_tensor(reduce_axes(uop_of(t).cast(DType::F32), Op::Add, axes, keepdim), {t});
}

Tensor var_in_f32(const Tensor& t, const std::vector<int64_t>& axes, int64_t correction, bool keepdim) {
  const Tensor x = t.to_f32(), away = x - x.mean(axes, true);
  const double n = std::max(0.0, static_cast<double>(count(t, axes)) - static_cast<double>(correction));
  return away.square().sum(axes, keepdim) * (1.0 / n);
}

Tensor first_place(const char* operation, const Tensor& t, std::optional<int64_t> axis, bool keepdim, bool of_max) {
  Tensor x = t;
  if (!axis) {
    x = x.reshape({-1});
    axis = 0;
  }
  const int64_t k = normal_axis(operation, *axis, x.ndim()), n = x.shape()[static_cast<size_t>(k)];
  if (n == 0) throw Error(ErrorCode::Type, fmt::format("{} over an axis of no elements", operation));
  x = make_tensor(pin_rounding(uop_of(x)), {x});
  const Tensor best = of_max ? x.max(k, true) : x.min(k, true);
  Shape along(static_cast<size_t>(x.ndim()), 1);
  along[static_cast<size_t>(k)] = n;
  // Counted from the end, the largest is the first place. Where nothing equals the best (NaN), it is the last.
  const Tensor from_end = n - iota(t.context(), n).reshape(along);
  Tensor out = n - x.eq(best).where(from_end, 1).max(k, keepdim);
  if (keepdim && t.ndim() != x.ndim()) out = out.reshape(Shape(static_cast<size_t>(t.ndim()), 1));
  return out;
}

}  // namespace

Tensor Tensor::sum(Axes axes, Keepdim keepdim) const {
  const auto list = normal_axes("sum", axes, ndim());
  if (dtype() == DType::F16) return sum_in_f32(*this, list, keepdim).cast(DType::F16);
  const UOp x = uop_of(*this);
  return make_tensor(reduce_axes(x.dtype() == DType::Bool ? x.cast(DType::I32) : x, Op::Add, list, keepdim), {*this});
}
Tensor Tensor::max(Axes axes, Keepdim keepdim) const {
  return make_tensor(reduce_axes(uop_of(*this), Op::Max, normal_axes("max", axes, ndim()), keepdim), {*this});
}
Tensor Tensor::min(Axes axes, Keepdim keepdim) const {
  // The largest of what is turned around: -x, or for i32 -1 - x, which cannot overflow.
  if (dtype() == DType::Bool) return logical_not().max(axes, keepdim).logical_not();
  if (dtype() == DType::I32) return -1 - (-1 - *this).max(axes, keepdim);
  return neg().max(axes, keepdim).neg();
}
Tensor Tensor::mean(Axes axes, Keepdim keepdim) const {
  const auto list = normal_axes("mean", axes, ndim());
  const Tensor sum = sum_in_f32(*this, list, keepdim) * (1.0 / static_cast<double>(count(*this, list)));
  return rounded(sum, dtype());
}
Tensor Tensor::var(Axes axes, int64_t correction, Keepdim keepdim) const {
  return rounded(var_in_f32(*this, normal_axes("var", axes, ndim()), correction, keepdim), dtype());
}
Tensor Tensor::std(Axes axes, int64_t correction, Keepdim keepdim) const {
  return rounded(var_in_f32(*this, normal_axes("std", axes, ndim()), correction, keepdim).sqrt(), dtype());
}
Tensor Tensor::any(Axes axes, Keepdim keepdim) const {
  return cast(DType::Bool).max(axes, keepdim);
}
Tensor Tensor::all(Axes axes, Keepdim keepdim) const {
  return cast(DType::Bool).min(axes, keepdim);
}
Tensor Tensor::argmax(std::optional<int64_t> axis, Keepdim keepdim) const {
  return first_place("argmax", *this, axis, keepdim, true);
}
Tensor Tensor::argmin(std::optional<int64_t> axis, Keepdim keepdim) const {
  return first_place("argmin", *this, axis, keepdim, false);
}

Tensor Tensor::softmax(int64_t axis) const {
  const int64_t k = normal_axis("softmax", axis, ndim());
  const Tensor x = to_f32(), e = (x - x.max(k, true).detach()).exp();  // the shift has no gradient
  return rounded(e / e.sum(k, true), dtype());
}
Tensor Tensor::log_softmax(int64_t axis) const {
  const int64_t k = normal_axis("log_softmax", axis, ndim());
  const Tensor x = to_f32(), away = x - x.max(k, true).detach();
  return rounded(away - away.exp().sum(k, true).log(), dtype());
}
Tensor Tensor::logsumexp(Axes axes, Keepdim keepdim) const {
  const auto list = normal_axes("logsumexp", axes, ndim());
  const Tensor x = to_f32(), most = x.max(list, true).detach();
  // Infinity minus infinity would be NaN where the answer is infinity.
  const Tensor shift = most.isinf().where(0.0, most);
  const Tensor out = rounded((x - shift).exp().sum(list, true).log() + shift, dtype());
  if (keepdim) return out;
  Shape shape;
  for (int64_t k = 0; k < ndim(); k++)
    if (!std::ranges::binary_search(list, k)) shape.push_back(this->shape()[static_cast<size_t>(k)]);
  return out.reshape(shape);
}
Tensor Tensor::cumsum(int64_t axis) const {
  if (ndim() == 0) return same_value(*this);
  const int64_t k = normal_axis("cumsum", axis, ndim()), n = shape()[static_cast<size_t>(k)];
  const Tensor x = (dtype() == DType::Bool ? cast(DType::I32) : *this).transpose(k, -1);
  const Tensor i = iota(context(), n);
  const Tensor before = i <= i.reshape({n, 1});  // (to, from)
  return before.where(x.unsqueeze(-2), 0).sum(-1).cast(x.dtype()).transpose(k, -1);
}

}  // namespace uopc
