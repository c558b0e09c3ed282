#include "uopc/nn.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/py_text.hpp"
#include "tensor/value.hpp"
#include "uopc/error.hpp"

namespace uopc::nn {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Type, message);
}

void check_positive(const char* layer, const char* what, int64_t n) {
  if (n < 1) fail(fmt::format("{}: {} is {}; it is 1 or more", layer, what, n));
}

// PyTorch's kaiming_uniform with a = sqrt(5), and its bias: both within 1 / sqrt(fan_in).
Tensor uniform_by_fan_in(const Context& ctx, Shape shape, int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return Tensor::uniform(ctx, std::move(shape), -bound, bound);
}

void realize_both(const Tensor& weight, const Tensor& bias) {
  if (bias)
    Tensor::realize({weight, bias});
  else
    weight.realize();
}

}  // namespace

Linear::Linear(const Context& ctx, int64_t in, int64_t out, bool with_bias) {
  check_positive("Linear", "in", in);
  check_positive("Linear", "out", out);
  weight = uniform_by_fan_in(ctx, {out, in}, in);
  if (with_bias) bias = uniform_by_fan_in(ctx, {out}, in);
  realize_both(weight, bias);
}

Conv2d::Conv2d(const Context& ctx, int64_t in, int64_t out, std::pair<int64_t, int64_t> kernel, Conv2dOptions o,
               bool with_bias)
    : options(o) {
  check_positive("Conv2d", "in", in);
  check_positive("Conv2d", "out", out);
  check_positive("Conv2d", "the kernel's height", kernel.first);
  check_positive("Conv2d", "the kernel's width", kernel.second);
  check_positive("Conv2d", "groups", o.groups);
  if (in % o.groups != 0 || out % o.groups != 0)
    fail(fmt::format("Conv2d: {} and {} channels are not divisible into {} groups", in, out, o.groups));
  const int64_t fan_in = in / o.groups * kernel.first * kernel.second;
  weight = uniform_by_fan_in(ctx, {out, in / o.groups, kernel.first, kernel.second}, fan_in);
  if (with_bias) bias = uniform_by_fan_in(ctx, {out}, fan_in);
  realize_both(weight, bias);
}

LayerNorm::LayerNorm(const Context& ctx, Shape shape, double e, bool affine)
    : axes(static_cast<int64_t>(shape.size())), eps(e) {
  if (shape.empty()) fail("LayerNorm: no axes to normalize");
  if (!affine) return;
  weight = Tensor::ones(ctx, shape);
  bias = Tensor::zeros(ctx, std::move(shape));
  realize_both(weight, bias);
}

Tensor LayerNorm::operator()(const Tensor& x) const {
  check_one_context({x, weight ? weight : x, bias ? bias : x}, "LayerNorm");
  if (weight && (x.ndim() < axes || Shape(x.shape().end() - axes, x.shape().end()) != weight.shape()))
    fail(fmt::format("LayerNorm over {}: the operand has shape {}", py_tuple(weight.shape()), py_tuple(x.shape())));
  Tensor y = x.layer_norm(axes, eps);
  if (weight) y = y * weight;
  return bias ? y + bias : y;
}

RMSNorm::RMSNorm(const Context& ctx, int64_t size, double e) : eps(e) {
  check_positive("RMSNorm", "size", size);
  weight = Tensor::ones(ctx, {size});
  weight.realize();
}

Tensor RMSNorm::operator()(const Tensor& x) const {
  check_one_context({x, weight}, "RMSNorm");
  if (x.ndim() < 1 || x.shape().back() != weight.numel())
    fail(fmt::format("RMSNorm over {}: the operand has shape {}", weight.numel(), py_tuple(x.shape())));
  return x.rms_norm(eps) * weight;
}

BatchNorm::BatchNorm(const Context& ctx, int64_t channels, double e, double m) : eps(e), momentum(m) {
  check_positive("BatchNorm", "channels", channels);
  weight = Tensor::ones(ctx, {channels});
  bias = Tensor::zeros(ctx, {channels});
  running_mean = Tensor::zeros(ctx, {channels});
  running_var = Tensor::ones(ctx, {channels});
  Tensor::realize({weight, bias, running_mean, running_var});
}

Tensor BatchNorm::operator()(const Tensor& x) {
  check_one_context({x, weight, bias, running_mean, running_var}, "BatchNorm");
  if (x.ndim() < 2 || x.size(1) != weight.numel())
    fail(fmt::format("BatchNorm of {} channels: the operand has shape {}; (N, {}, ...) is wanted", weight.numel(),
                     py_tuple(x.shape()), weight.numel()));
  if (!x.context().training()) return x.batch_norm(weight, bias, running_mean, (running_var + eps).rsqrt());

  std::vector<int64_t> axes{0};
  for (int64_t a = 2; a < x.ndim(); a++) axes.push_back(a);
  const int64_t n = x.numel() / x.size(1);
  if (n < 2) fail(fmt::format("BatchNorm in training mode: one value a channel in shape {}", py_tuple(x.shape())));
  const Tensor wide = x.to_f32(), mean = wide.mean(axes);
  Shape one_each(static_cast<size_t>(x.ndim()), 1);
  one_each[1] = x.size(1);
  const Tensor var = (wide - mean.reshape(one_each)).square().mean(axes);
  // Lazy, and at most one step deep: a statistic would else hold the batches of all steps until somebody asks.
  if (!running_mean.is_realized() || !running_var.is_realized()) Tensor::realize({running_mean, running_var});
  const double unbiased = static_cast<double>(n) / static_cast<double>(n - 1);  // what PyTorch keeps
  running_mean.assign(running_mean * (1 - momentum) + mean.detach() * momentum);
  running_var.assign(running_var * (1 - momentum) + var.detach() * (momentum * unbiased));
  return x.batch_norm(weight, bias, mean, (var + eps).rsqrt());
}

Embedding::Embedding(const Context& ctx, int64_t count, int64_t size) {
  check_positive("Embedding", "count", count);
  check_positive("Embedding", "size", size);
  weight = Tensor::randn(ctx, {count, size});
  weight.realize();
}

MultiHeadAttention::MultiHeadAttention(const Context& ctx, int64_t size, int64_t n, bool is_causal, double p)
    : heads(n), causal(is_causal), dropout(p) {
  check_positive("MultiHeadAttention", "heads", n);
  if (size % n != 0) fail(fmt::format("MultiHeadAttention: size {} is not divisible by {} heads", size, n));
  for (Linear* l : {&query, &key, &value, &out}) *l = Linear(ctx, size, size);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Tensor& mask) const {
  if (x.ndim() != 3)
    fail(fmt::format("MultiHeadAttention: the operand has shape {}; (B, T, size) is wanted", py_tuple(x.shape())));
  const int64_t batch = x.size(0), length = x.size(1), size = x.size(2);
  const auto split = [&](const Tensor& t) { return t.reshape({batch, length, heads, size / heads}).transpose(1, 2); };
  const Tensor y =
      Tensor::scaled_dot_product_attention(split(query(x)), split(key(x)), split(value(x)), mask, causal, dropout);
  return out(y.transpose(1, 2).reshape({batch, length, size}));
}

// Everything is judged before anything is written.
void load(const StateDict& to, const StateDict& from) {
  std::map<std::string_view, const Tensor*> given, wanted;
  for (const auto& [name, t] : from)
    if (!given.emplace(name, &t).second) fail(fmt::format("load: {} occurs twice in the state", py_repr(name)));
  std::string missing, left_over;
  for (const auto& [name, t] : to) {
    if (!wanted.emplace(name, &t).second)
      fail(fmt::format("load: two tensors of the model are named {}", py_repr(name)));
    if (!given.contains(name)) missing += (missing.empty() ? "" : ", ") + py_repr(name);
  }
  for (const auto& [name, t] : from)
    if (!wanted.contains(name)) left_over += (left_over.empty() ? "" : ", ") + py_repr(name);
  if (!missing.empty() || !left_over.empty())
    fail(fmt::format("load: {}{}{}{}{}", missing.empty() ? "" : "the state lacks ", missing,
                     missing.empty() || left_over.empty() ? "" : "; ", left_over.empty() ? "" : "the model has no ",
                     left_over));
  for (const auto& [name, t] : to) {
    const Tensor& v = *given.at(name);
    if (!v) fail(fmt::format("load: {} is an empty tensor in the state", py_repr(name)));
    if (v.shape() != t.shape() || v.dtype() != t.dtype())
      fail(fmt::format("load: {} is {} {} in the model, {} {} in the state", py_repr(name), uopc::name(t.dtype()),
                       py_tuple(t.shape()), uopc::name(v.dtype()), py_tuple(v.shape())));
  }
  std::vector<Tensor> all, theirs;
  for (const auto& [name, t] : to) {
    all.push_back(t);
    theirs.push_back(*given.at(name));
  }
  if (!all.empty()) Tensor::realize(all);
  if (!theirs.empty()) Tensor::realize(theirs);
  // Through host memory: a state may belong to another Context, and may be of the model's own tensors.
  std::vector<std::vector<std::byte>> bytes;
  for (const auto& [name, t] : to) {
    const std::span<const std::byte> b = given.at(name)->bytes();
    bytes.emplace_back(b.begin(), b.end());
  }
  std::map<const Tensor::Impl*, size_t> first;
  for (size_t i = 0; i < to.size(); i++) {
    const auto [at, fresh] = first.emplace(to[i].second.impl().get(), i);
    if (!fresh && bytes[at->second] != bytes[i])
      fail(fmt::format("load: {} and {} are one tensor in the model, and differ in the state",
                       py_repr(to[at->second].first), py_repr(to[i].first)));
  }
  for (size_t i = 0; i < to.size(); i++)
    if (first.at(to[i].second.impl().get()) == i) Tensor(to[i].second).write(bytes[i]);
}

}  // namespace uopc::nn
