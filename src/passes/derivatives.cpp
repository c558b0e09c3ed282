#include "passes/derivatives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "passes/kernelize.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

// ---- small graphs stay small ---------------------------------------------------------------------------------------

UOp full(UOp like, Shape shape, double v) {
  return like.graph().constant(v, like.dtype()).broadcast_to(shape);
}

UOp to_shape(UOp g, const Shape& shape) {
  if (g.shape() == shape) return g;
  if (const auto v = uniform(g)) return full(g, shape, *v);
  if (g.is(Op::Reshape)) g = g.src(0);
  return g.shape() == shape ? g : g.reshape(shape);
}

UOp grown(UOp g, const Shape& shape) {
  return g.shape() == shape ? g : g.expand(shape);
}

UOp times(UOp a, UOp b) {
  if (uniform(a) == 1.0) return b;
  if (uniform(b) == 1.0) return a;
  return a * b;
}

// g * d, and 0 where g is: the product would be NaN for an infinite d.
UOp guarded(UOp g, UOp d) {
  const auto v = uniform(g), w = uniform(d);
  if ((v && *v != 0) || (w && std::isfinite(*w))) return times(g, d);
  return g.ne(0.0).where(g * d, g.const_like(0.0));
}

UOp times(const Adjoint& at, UOp d) {
  return at.masked ? guarded(at.g, d) : times(at.g, d);
}

// Over the last n axes. f16 is summed in f32 and rounded once.
UOp sum_last(UOp g, int64_t n) {
  return g.cast(DType::F32).reduce(Op::Add, n).cast(g.dtype());
}

// `s`, a reduction of `x` over the last axes, beside every element of x.
UOp beside(UOp s, UOp x) {
  Shape ones = s.shape();
  ones.resize(x.shape().size(), 1);
  return grown(to_shape(s, ones), x.shape());
}

// 0, 1 .. n-1, out of log2(n) nodes: each step appends the same again, shifted.
UOp count_up(Graph& graph, int64_t n) {
  UOp x = graph.constant(0).reshape({1});
  for (int64_t m = 1; m < n; m *= 2) x = graph.stack({x, x + m}).reshape({2 * m});
  return x.shape()[0] == n ? x : x.shrink({{0, n}});
}

// ---- rules ---------------------------------------------------------------------------------------------------------

UOp d_cast(const Adjoint& at, size_t) {
  return at.g.cast(at.u.src(0).dtype());
}
UOp d_recip(const Adjoint& at, size_t) {
  return guarded(at.g, -(at.u * at.u));
}
UOp d_exp2(const Adjoint& at, size_t) {
  return times(at, at.u * std::numbers::ln2);
}
UOp d_log2(const Adjoint& at, size_t) {
  return guarded(at.g, at.u.src(0).recip() * std::numbers::log2e);
}
UOp d_sqrt(const Adjoint& at, size_t) {
  return guarded(at.g, at.u.recip() * 0.5);
}
// cos x = 1 - 2 sin^2(x/2): x + pi/2 would lose the low digits of a large x.
UOp d_sin(const Adjoint& at, size_t) {
  const UOp s = (at.u.src(0) * 0.5).sin();
  return times(at, s * s * -2.0 + 1.0);
}
UOp d_add(const Adjoint& at, size_t) {
  return at.g;
}
UOp d_mul(const Adjoint& at, size_t k) {
  return times(at, at.u.src(1 - k));
}

// a > b ? a : b is the value, also beside a NaN.
UOp d_max(const Adjoint& at, size_t k) {
  const UOp a = at.u.src(0), b = at.u.src(1), zero = at.g.const_like(0.0);
  const UOp equal_or = a.ne(b).where(k == 0 ? zero : at.g, at.g * 0.5);
  return b.lt(a).where(k == 0 ? at.g : zero, equal_or);
}

UOp d_where(const Adjoint& at, size_t k) {
  const UOp zero = at.g.const_like(0.0);
  return k == 1 ? at.u.src(0).where(at.g, zero) : at.u.src(0).where(zero, at.g);
}

UOp d_pass(const Adjoint& at, size_t) {
  return at.g;
}

UOp d_load(const Adjoint& at, size_t) {
  if (at.u.src().size() > 1) throw Error(ErrorCode::NotImplemented, "gradient of a LOAD with more than one source");
  return at.g;
}

UOp d_reshape(const Adjoint& at, size_t) {
  return to_shape(at.g, at.u.src(0).shape());
}

UOp d_expand(const Adjoint& at, size_t) {
  const Shape &from = at.u.src(0).shape(), &to = at.u.shape();
  Shape order, summed;
  double count = 1;
  for (size_t k = 0; k < to.size(); k++) {
    (from[k] != to[k] ? summed : order).push_back(static_cast<int64_t>(k));
    if (from[k] != to[k]) count *= static_cast<double>(to[k]);
  }
  if (summed.empty()) return at.g;
  if (const auto v = uniform(at.g)) return full(at.g, from, *v * count);
  order.insert(order.end(), summed.begin(), summed.end());
  const UOp moved = std::is_sorted(order.begin(), order.end()) ? at.g : at.g.permute(order);
  return to_shape(sum_last(moved, static_cast<int64_t>(summed.size())), from);
}

UOp d_permute(const Adjoint& at, size_t) {
  if (const auto v = uniform(at.g)) return full(at.g, at.u.src(0).shape(), *v);
  const Shape& order = at.u.arg<Shape>();
  Shape back(order.size());
  for (size_t k = 0; k < order.size(); k++) back[static_cast<size_t>(order[k])] = static_cast<int64_t>(k);
  return at.g.permute(back);
}

UOp d_shrink(const Adjoint& at, size_t) {
  const Shape& shape = at.u.src(0).shape();
  std::vector<std::pair<int64_t, int64_t>> amount;
  for (const auto& [begin, end] : at.u.arg<ShrinkArg>().bounds) amount.emplace_back(begin, shape[amount.size()] - end);
  return pad(at.g, amount);
}

UOp d_stack(const Adjoint& at, size_t k) {
  if (const auto v = uniform(at.g)) return full(at.g, at.u.src(k).shape(), *v);
  return at.g.index(static_cast<int64_t>(k));
}

// Zeros but for the element (row, ..) that was read. A constant place is a pad, one from data a comparison.
UOp d_index(const Adjoint& at, size_t) {
  const UOp x = at.u.src(0);
  const auto indices = at.u.src().subspan(1);
  Shape ones(indices.size(), 1);
  ones.insert(ones.end(), at.g.shape().begin(), at.g.shape().end());
  UOp g = to_shape(at.g, ones);
  std::vector<std::pair<int64_t, int64_t>> amount(ones.size(), {0, 0});
  for (size_t k = 0; k < indices.size(); k++) {
    const int64_t n = x.shape()[k], i = indices[k].is_const() ? indices[k].value().as_int() : -1;
    if (i >= 0 && i < n) {
      amount[k] = {i, n - 1 - i};
      continue;
    }
    if (n == 0) return {};
    Shape along(ones.size(), 1), wide = g.shape();
    along[k] = wide[k] = n;
    const UOp here = count_up(x.graph(), n).eq(indices[k].broadcast_to({n})).reshape(along);
    g = grown(here, wide).where(grown(g, wide), full(g, wide, 0.0));
  }
  return pad(g, amount);
}

UOp d_reduce(const Adjoint& at, size_t) {
  const UOp x = at.u.src(0);
  const auto& [op, n] = at.u.arg<ReduceArg>();
  if (n == 0) return at.g;
  if (const auto v = uniform(at.g); v && op == Op::Add) return full(at.g, x.shape(), *v);
  if (op == Op::Add) return beside(at.g, x);
  const UOp kept = pin_rounding(x);  // or no element would be the maximum
  const UOp largest = kept.eq(beside(kept == x ? at.u : kept.reduce(Op::Max, n), x));
  const UOp ties = largest.cast(DType::F32).reduce(Op::Add, n);  // at least 1, or all are NaN and none is chosen
  const UOp share = times(at.g.cast(DType::F32), ties.recip()).cast(at.g.dtype());
  return largest.where(beside(share, x), x.const_like(0.0));
}

constexpr Derivative kDerivatives[] = {
    {Op::Stack, "g[k]", d_stack, false},
    {Op::Index, "g at [i], 0 elsewhere", d_index, false},
    {Op::Cast, "cast(g)", d_cast, false},
    {Op::Recip, "-g * ret * ret", d_recip, false},
    {Op::Add, "g", d_add, false},
    {Op::Mul, "g * the other", d_mul, false},
    {Op::Where, "c ? g : 0, c ? 0 : g", d_where, true},
    {Op::Max, "g where larger, g/2 where equal", d_max, false},
    {Op::Exp2, "g * ret * ln2", d_exp2, false},
    {Op::Log2, "g / (x * ln2)", d_log2, false},
    {Op::Sqrt, "g / (2 * ret)", d_sqrt, false},
    {Op::Sin, "g * cos(x)", d_sin, false},
    {Op::Load, "g", d_load, false},
    {Op::Reshape, "g.reshape(x.shape)", d_reshape, false},
    {Op::Expand, "sum(g) over the grown axes", d_expand, false},
    {Op::Permute, "g.permute(inverse)", d_permute, false},
    {Op::Shrink, "pad(g)", d_shrink, false},
    {Op::Reduce, "ADD: g; MAX: g / ties where x == ret", d_reduce, false},
    {Op::Stage, "g", d_pass, false},
};

}  // namespace

const Derivative* derivative_of(Op op) {
  for (const Derivative& d : kDerivatives)
    if (d.op == op) return &d;
  switch (op) {
    case Op::Const:
    case Op::Param:
    case Op::Buffer:
    case Op::CmpLt:
    case Op::CmpNe:
    case Op::FloorDiv:
    case Op::FloorMod:
      return nullptr;
    case Op::Wmma:
      throw Error(ErrorCode::NotImplemented, "gradient of WMMA");
    default:
      throw Error(ErrorCode::Type,
                  fmt::format("gradient goes through shaped graphs; Ops.{} belongs to a loop program", name(op)));
  }
}

bool flows(UOp u, size_t k) {
  if (!is_float(u.dtype()) || !is_float(u.src(k).dtype()) || is_detach(u)) return false;
  if (!derivative_of(u.op())) return false;
  return !(u.is(Op::Index) && k > 0) && !(u.is(Op::Where) && k == 0) && !(u.is(Op::Load) && k > 0);
}

UOp add_parts(UOp a, UOp b) {
  if (!a) return b;
  return b ? a + b : a;
}

}  // namespace uopc
