#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ir/py_text.hpp"
#include "tensor/operands.hpp"

namespace uopc {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Type, message);
}

void check_same_shape(const char* operation, const Tensor& x, const Tensor& target) {
  check_one_context({x, target}, operation);
  if (x.shape() != target.shape())
    fail(fmt::format("{} of {} takes a target of the same shape, not {}", operation, py_tuple(x.shape()),
                     py_tuple(target.shape())));
}

// Whether `s` broadcasts to `to` as it is.
bool broadcasts(const Shape& s, const Shape& to) {
  if (s.size() > to.size()) return false;
  for (size_t i = 1; i <= s.size(); i++)
    if (s[s.size() - i] != 1 && s[s.size() - i] != to[to.size() - i]) return false;
  return true;
}

}  // namespace

// Norms and losses compute in f32: squares of f16 are too large for f16 from 256 on.
Tensor Tensor::layer_norm(int64_t axes, double eps) const {
  if (axes < 1 || axes > ndim()) fail(fmt::format("layer_norm over {} axes of {}", axes, py_tuple(shape())));
  std::vector<int64_t> last;
  for (int64_t k = -axes; k < 0; k++) last.push_back(k);
  const Tensor x = to_f32(), away = x - x.mean(last, true);
  return rounded(away * (away.square().mean(last, true) + eps).rsqrt(), dtype());
}
Tensor Tensor::rms_norm(double eps) const {
  if (ndim() == 0) fail("rms_norm of a tensor without axes: at least one is needed");
  const Tensor x = to_f32();
  return rounded(x * (x.square().mean(-1, true) + eps).rsqrt(), dtype());
}
Tensor Tensor::batch_norm(const Tensor& weight, const Tensor& bias, const Tensor& mean, const Tensor& inv_std) const {
  check_one_context({*this, mean, inv_std, weight ? weight : mean, bias ? bias : mean}, "batch_norm");
  if (ndim() < 2) fail(fmt::format("batch_norm of {}: (batch, channels, ..) is right", py_tuple(shape())));
  for (const auto& [what, t] : {std::pair{"weight", &weight}, {"bias", &bias}, {"mean", &mean}, {"inv_std", &inv_std}})
    if (*t && t->shape() != Shape{size(1)})
      fail(fmt::format("batch_norm of {}: a {} of shape {}; {} is right", py_tuple(shape()), what, py_tuple(t->shape()),
                       py_tuple(Shape{size(1)})));
  Shape along(static_cast<size_t>(ndim()), 1);
  along[1] = size(1);
  const auto brought = [&](const Tensor& t) { return t.reshape(along); };
  Tensor x = (*this - brought(mean)) * brought(weight ? inv_std * weight : inv_std);
  return bias ? x + brought(bias) : x;
}

Tensor Tensor::dropout(double p) const {
  if (!(p >= 0 && p <= 1)) fail(fmt::format("dropout of {}: a share is from 0 to 1", p));
  if (!context().training() || p == 0) return same_value(*this);
  if (!is_float(dtype())) fail(fmt::format("dropout of {}: f16 or f32 is right", name(dtype())));
  if (p == 1) return zeros_like();
  return (rand(context(), shape()) >= p).where(*this * (1 / (1 - p)), 0).cast(dtype());
}

Tensor Tensor::cross_entropy(const Tensor& labels, double label_smoothing) const {
  check_one_context({*this, labels}, "cross_entropy");
  Shape rows = shape();
  if (rows.empty()) fail("cross_entropy of a tensor without axes");
  rows.pop_back();
  if (labels.shape() != rows || labels.dtype() != DType::I32)
    fail(fmt::format("cross_entropy of {} takes i32 labels of shape {}, not dtypes.{}{}", py_tuple(shape()),
                     py_tuple(rows), name(labels.dtype()), py_tuple(labels.shape())));
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    fail(fmt::format("cross_entropy: a label smoothing of {}: it is from 0 to 1", label_smoothing));
  const Tensor logs = cast(DType::F32).log_softmax(-1);
  const Tensor hit = labels.unsqueeze(-1).eq(iota(context(), size(-1)));
  const Tensor picked = hit.where(logs, 0).sum(-1);
  if (label_smoothing == 0) return picked.mean().neg();
  const Tensor known = (labels >= 0).logical_and(labels < size(-1));
  return (picked * (1 - label_smoothing) + known.where(logs.mean(-1) * label_smoothing, 0)).mean().neg();
}
// max(x, 0) - x t + log(1 + exp(-|x|))
Tensor Tensor::binary_cross_entropy_with_logits(const Tensor& target) const {
  check_same_shape("binary_cross_entropy_with_logits", *this, target);
  const Tensor x = to_f32();
  return rounded((x.softplus() - x * target).mean(), promote(dtype(), target.dtype()));
}
Tensor Tensor::mse_loss(const Tensor& target) const {
  check_same_shape("mse_loss", *this, target);
  return rounded((to_f32() - target).square().mean(), promote(dtype(), target.dtype()));
}

Tensor Tensor::causal_mask(const Context& ctx, int64_t rows, int64_t columns) {
  if (rows < 0 || columns < 0 || rows > INT32_MAX || columns > INT32_MAX)
    fail(fmt::format("causal_mask of {} by {}: from 0 to 2**31 - 1 each are right", rows, columns));
  return iota(ctx, columns) <= iota(ctx, rows).unsqueeze(-1);
}

Tensor Tensor::scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                                            bool causal, double dropout) {
  check_one_context({q, k, v, mask ? mask : q}, "scaled_dot_product_attention");
  if (q.ndim() < 2 || k.ndim() < 2 || v.ndim() < 2 || q.size(-1) != k.size(-1) || k.size(-2) != v.size(-2))
    fail(fmt::format("scaled_dot_product_attention of {}, {} and {}: (.., T, d), (.., S, d) and (.., S, e) are right",
                     py_tuple(q.shape()), py_tuple(k.shape()), py_tuple(v.shape())));
  // In f32 to the end: scores of f16 may be too large for f16 where the result is not.
  Tensor scores = q.to_f32().matmul(k.to_f32().transpose()) *
                  (1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, q.size(-1)))));
  if (mask && !broadcasts(mask.shape(), scores.shape()))
    fail(fmt::format("scaled_dot_product_attention: a mask of shape {}; one that broadcasts to {} is right",
                     py_tuple(mask.shape()), py_tuple(scores.shape())));
  const DType d = promote(promote(q.dtype(), k.dtype()), v.dtype());
  if (mask) scores = mask.dtype() == DType::Bool ? mask.where(scores, -INFINITY) : scores + mask;
  if (causal) scores = causal_mask(q.context(), q.size(-2), k.size(-2)).where(scores, -INFINITY);
  // Of a row that sees nothing the largest is -inf: shifted by 0 instead, its sum is 0.
  Tensor most = scores.max(-1, true).detach();
  if (mask) most = most.eq(-INFINITY).where(0.0, most);
  const Tensor e = (scores - most).exp();
  Tensor sum = e.sum(-1, true);
  if (mask || k.size(-2) == 0) sum = sum.eq(0).where(1.0, sum);
  // Divided behind the product, which has fewer elements than the weights.
  return rounded(e.dropout(dropout).matmul(v.to_f32()) / sum, d);
}

}  // namespace uopc
