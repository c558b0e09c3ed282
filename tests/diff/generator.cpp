#include "diff/generator.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "diff/half.hpp"
#include "uopc/passes.hpp"

namespace uopc::diff {
namespace {

int64_t elements(const Shape& s) {
  return std::accumulate(s.begin(), s.end(), int64_t{1}, std::multiplies<>());
}

constexpr int64_t kMaxElements = 600;  // of any node
constexpr int64_t kMaxWork = 300'000;  // scalar steps of a program that recomputes everything at every use
constexpr int kMaxAxes = 5;            // of an inner node; roots have at most 4

const std::vector<double> kFloatSpecials = {
    0.0,          -0.0,          INFINITY,     -INFINITY,     NAN,          1e-45, -1e-45, 1.1754944e-38,
    3.4028235e38, -3.4028235e38, 16777216.0,   16777217.0,    -16777217.0,  1e-46, 0.1,    65504.0,
    65520.0,      6e-8,          2147483648.0, -2147483648.0, 2147483520.0, 1e30,  -1e-30};
const std::vector<int64_t> kIntSpecials = {0,     1,      -1,   INT32_MAX, INT32_MIN, INT32_MAX - 1, INT32_MIN + 1,
                                           65536, -65536, 46341};

class Maker {
 public:
  Maker(Graph& graph, uint64_t seed) : graph_(graph), rng_(seed) {
    wild_ = rng_.percent(25);
    budget_ = static_cast<int>(rng_.between(3, 40));
  }

  UOp root() {
    const Shape shape = random_shape(rng_.between(0, 4), 256);
    return make(random_dtype(), shape, static_cast<int>(rng_.between(2, 7)));
  }

  std::vector<Input> inputs(UOp root) {
    std::vector<Input> result;
    for (UOp b : buffers_of(root)) {
      const auto& a = b.arg<ParamArg>();
      result.push_back({a.slot, a.dtype, a.shape[0], random_data(rng_, a.dtype, a.shape[0], fills_.at(a.slot))});
    }
    return result;
  }

 private:
  // ---- what to make ----

  DType random_dtype() {
    const int64_t k = rng_.below(100);
    return k < 18 ? DType::Bool : k < 50 ? DType::I32 : k < 85 ? DType::F32 : DType::F16;
  }

  int64_t random_size() {
    static const std::vector<int64_t> kSizes = {2, 2, 3, 3, 4, 5, 6, 7, 8, 11, 13, 16, 17};
    const int64_t k = rng_.below(100);
    return k < 2 ? 0 : k < 20 ? 1 : rng_.pick(kSizes);
  }

  Shape random_shape(int64_t axes, int64_t limit) {
    Shape s;
    int64_t n = 1;
    for (int64_t i = 0; i < axes; i++) {
      int64_t d = random_size();
      if (n * d > limit) d = 1;
      if (n * d > 0) n *= d;
      s.push_back(d);
    }
    for (size_t i = s.size(); i > 1; i--)
      std::swap(s[i - 1], s[static_cast<size_t>(rng_.below(static_cast<int64_t>(i)))]);
    return s;
  }

  // Another shape of as many elements.
  Shape refactored(const Shape& shape) {
    int64_t n = elements(shape);
    Shape s;
    if (n == 0) {
      s = random_shape(rng_.between(0, 3), 16);
      s.insert(s.begin() + rng_.below(static_cast<int64_t>(s.size()) + 1), 0);
      return s;
    }
    while (n > 1 && s.size() < 4) {
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= n; d++)
        if (n % d == 0) divisors.push_back(d);
      const int64_t d = s.size() == 3 ? n : rng_.pick(divisors);
      s.push_back(d);
      n /= d;
    }
    while (s.size() < 4 && rng_.percent(25)) s.insert(s.begin() + rng_.below(static_cast<int64_t>(s.size()) + 1), 1);
    return s;
  }

  // ---- leaves ----

  Scalar random_scalar(DType d) {
    const bool special = rng_.percent(wild_ ? 35 : 4);
    if (d == DType::Bool) return Scalar(rng_.percent(50));
    if (d == DType::I32) return special ? Scalar(rng_.pick(kIntSpecials)) : Scalar(rng_.between(-9, 9));
    if (special) return Scalar(rng_.pick(kFloatSpecials));
    return rng_.percent(50) ? Scalar(static_cast<double>(rng_.between(-4, 4))) : Scalar(rng_.real(-3, 3));
  }

  UOp constant(DType d, const Shape& shape) {
    return remember(graph_.constant(random_scalar(d), d).broadcast_to(shape));
  }

  Fill random_fill() {
    const int64_t k = rng_.below(100);
    if (wild_)
      return {k < 40 ? Fill::Kind::Special : k < 70 ? Fill::Kind::Wide : k < 85 ? Fill::Kind::Small : Fill::Kind::Real};
    return {k < 40 ? Fill::Kind::Small : Fill::Kind::Real};
  }

  UOp new_buffer(DType d, int64_t size, Fill fill) {
    const auto slot = static_cast<int64_t>(fills_.size());
    fills_[slot] = fill;
    return graph_.buffer(size, d, slot);
  }

  // A view of a BUFFER, sometimes of one that is used already.
  UOp buffer_view(DType d, const Shape& shape) {
    const int64_t n = elements(shape);
    if (rng_.percent(40)) {
      std::vector<UOp> fitting;
      for (UOp b : buffers_)
        if (b.dtype() == d && b.shape()[0] >= n) fitting.push_back(b);
      if (!fitting.empty()) return view(rng_.pick(fitting), shape);
    }
    if (fills_.size() >= 6) return constant(d, shape);
    const int64_t extra = rng_.percent(20) ? rng_.between(1, 5) : 0;
    const UOp b = new_buffer(d, n + extra, random_fill());
    buffers_.push_back(b);
    return view(b, shape);
  }

  UOp view(UOp buffer, const Shape& shape) {
    const int64_t n = elements(shape), begin = rng_.below(buffer.shape()[0] - n + 1);
    UOp u = buffer;
    if (n != buffer.shape()[0]) u = u.shrink({{begin, begin + n}});
    return remember(shape == u.shape() ? u : u.reshape(shape));
  }

  UOp leaf(DType d, const Shape& shape) { return rng_.percent(75) ? buffer_view(d, shape) : constant(d, shape); }

  UOp remember(UOp u) {
    made_.push_back(u);
    return u;
  }

  // ---- inner nodes ----

  UOp make(DType d, const Shape& shape, int depth) {
    if (!made_.empty() && rng_.percent(14)) {
      std::vector<UOp> same;
      for (UOp u : made_)
        if (u.dtype() == d && elements(u.shape()) == elements(shape)) same.push_back(u);
      if (!same.empty()) {
        const UOp u = rng_.pick(same);
        return u.shape() == shape ? u : remember(u.reshape(shape));
      }
    }
    if (depth <= 0 || budget_-- <= 0) return leaf(d, shape);
    for (int attempt = 0; attempt < 8; attempt++)
      if (UOp u = attempt_node(d, shape, depth - 1)) return remember(u);
    return leaf(d, shape);
  }

  UOp attempt_node(DType d, const Shape& shape, int depth) {
    const int64_t axes = static_cast<int64_t>(shape.size()), n = elements(shape);
    switch (rng_.below(22)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return arithmetic(d, shape, depth);
      case 4:
      case 5:
      case 19:
      case 20:
        return unary(d, shape, depth);
      case 6:
        return cast(d, shape, depth);
      case 7:
        return make(DType::Bool, shape, depth).where(make(d, shape, depth), make(d, shape, depth));
      case 8:
        if (axes == 0 || shape[0] < 1 || shape[0] > 4) return {};
        {
          std::vector<UOp> parts;
          for (int64_t i = 0; i < shape[0]; i++) parts.push_back(make(d, Shape(shape.begin() + 1, shape.end()), depth));
          return graph_.stack(parts);
        }
      case 9:
        return index(d, shape, depth);
      case 10:
        return make(d, refactored(shape), depth).reshape(shape);
      case 11:
        if (axes == 0) return {};
        {
          Shape small = shape;
          for (int64_t& s : small)
            if (rng_.percent(60)) s = 1;
          return make(d, small, depth).expand(shape);
        }
      case 12:
      case 13:
        if (axes < 2) return {};
        {
          Shape order(shape.size()), from(shape.size());
          std::iota(order.begin(), order.end(), 0);
          for (size_t i = order.size(); i > 1; i--)
            std::swap(order[i - 1], order[static_cast<size_t>(rng_.below(static_cast<int64_t>(i)))]);
          for (size_t i = 0; i < order.size(); i++) from[static_cast<size_t>(order[i])] = shape[i];
          return make(d, from, depth).permute(order);
        }
      case 14:
        if (axes == 0) return {};
        {
          Shape from = shape;
          std::vector<std::pair<int64_t, int64_t>> bounds;
          for (int64_t& s : from) {
            const int64_t before = rng_.percent(50) ? rng_.below(4) : 0, after = rng_.percent(50) ? rng_.below(3) : 0;
            bounds.emplace_back(before, before + s);
            s += before + after;
          }
          if (elements(from) > kMaxElements) return {};
          return make(d, from, depth).shrink(bounds);
        }
      case 15:
      case 16:
      case 17:
        return reduce(d, shape, depth);
      case 18:
        return rng_.percent(70) ? make(d, shape, depth).stage() : make(d, shape, depth).detach();
      default:
        if (axes == 0 || n == 0) return {};
        return composite(d, shape, depth);
    }
  }

  UOp arithmetic(DType d, const Shape& shape, int depth) {
    if (d == DType::Bool) {
      if (fills_.size() < 6 && rng_.percent(8)) {  // which of them are NaN
        const UOp a = view(new_buffer(DType::F32, elements(shape), {Fill::Kind::Special}), shape);
        return a.ne(a);
      }
      const int64_t k = rng_.below(10);
      if (k < 8) {
        const DType from = random_dtype();
        const UOp a = make(from, shape, depth), b = rng_.percent(8) ? a : make(from, shape, depth);
        return k < 4 ? a.lt(b) : a.ne(b);
      }
      const UOp a = make(d, shape, depth), b = make(d, shape, depth);
      return k == 8 ? a.max(b) : rng_.percent(50) ? a * b : a + b;
    }
    if (is_float(d) && fills_.size() < 6 && rng_.percent(5))  // a zero that changes its sign twice
      return -view(new_buffer(d, elements(shape), {Fill::Kind::Small}), shape) + 0.0;
    if (d == DType::I32 && rng_.percent(40)) {
      const UOp a = make(d, shape, depth), b = divisor(shape, depth);
      return rng_.percent(50) ? a.floordiv(b) : a.floormod(b);
    }
    const UOp a = make(d, shape, depth);
    const UOp b = rng_.percent(25) ? constant(d, shape) : make(d, shape, depth);
    switch (rng_.below(8)) {
      case 0:
      case 1:
      case 2:
        return a + b;
      case 3:
      case 4:
        return a * b;
      case 5:
        return a.max(b);
      case 6:
        return rng_.percent(50) ? b + a : b * a;
      default:
        return rng_.percent(50) ? a - b : a.minimum(b);
    }
  }

  UOp divisor(const Shape& shape, int depth) {
    const int64_t k = rng_.below(100);
    if (k < 55)
      return graph_.constant(rng_.percent(75) ? rng_.between(1, 12) : rng_.between(-7, -1)).broadcast_to(shape);
    const UOp b = make(DType::I32, shape, depth);
    if (k < 75) return b.max(1);
    if (k < 92) return b.ne(0).where(b, b.const_like(3));
    return b;
  }

  UOp unary(DType d, const Shape& shape, int depth) {
    if (!is_float(d)) return {};
    const UOp a = make(d, shape, depth);
    switch (rng_.below(7)) {
      case 0:
        return a.recip();
      case 1:
        return a.exp2();
      case 2:
        return a.log2();
      case 3:
        return a.sqrt();
      case 4:
        return a.sin();
      case 5:
        return a * a.recip();
      default:
        return (a * a).sqrt();
    }
  }

  UOp cast(DType d, const Shape& shape, int depth) {
    DType from = random_dtype();
    if (from == d) return {};
    UOp a = make(from, shape, depth);
    if (d == DType::I32 && is_float(from) && rng_.percent(70)) a = a.max(-1e4).minimum(1e4);  // MAX drops a NaN
    return a.cast(d);
  }

  UOp index(DType d, const Shape& shape, int depth) {
    if (shape.size() + 1 > kMaxAxes) return {};
    const int64_t count = shape.size() + 2 <= kMaxAxes && rng_.percent(25) ? 2 : 1;
    Shape from = shape;
    std::vector<UOp> indices;
    for (int64_t i = 0; i < count; i++) {
      const int64_t n = rng_.between(1, 6);
      from.insert(from.begin() + i, n);
      const int64_t k = rng_.below(100);
      if (k < 35) {
        indices.push_back(graph_.constant(rng_.below(n)));
      } else if (k < 75 || fills_.size() >= 6) {
        indices.push_back(make(DType::I32, {}, depth).floormod(graph_.constant(n)));
      } else {
        const UOp b = new_buffer(DType::I32, 3, {Fill::Kind::Below, n});
        indices.push_back(b.index(rng_.below(3)));
      }
    }
    if (elements(from) > kMaxElements) return {};
    return make(d, from, depth).index(indices);
  }

  UOp reduce(DType d, const Shape& shape, int depth) {
    Shape from = shape;
    const int64_t count = rng_.percent(6) ? 0 : rng_.percent(70) ? 1 : 2;
    if (shape.size() + count > kMaxAxes) return {};
    for (int64_t i = 0; i < count; i++) from.push_back(random_size());
    if (elements(from) > kMaxElements) return {};
    if (d == DType::Bool && rng_.percent(70)) return make(d, from, depth).reduce(Op::Max, count);
    return make(d, from, depth).reduce(rng_.percent(60) ? Op::Add : Op::Max, count);
  }

  UOp composite(DType d, const Shape& shape, int depth) {
    const auto axis = static_cast<size_t>(rng_.below(static_cast<int64_t>(shape.size())));
    if (rng_.percent(50)) {
      if (d == DType::Bool || elements(shape) * shape[axis] > kMaxElements) return {};
      return flip_axis(make(d, shape, depth), static_cast<int64_t>(axis));
    }
    Shape from = shape;
    std::vector<std::pair<int64_t, int64_t>> around(shape.size(), {0, 0});
    for (size_t i = 0; i < shape.size(); i++) {
      if (i != axis && rng_.percent(70)) continue;
      const int64_t before = rng_.below(std::min<int64_t>(from[i], 3)),
                    after = rng_.below(std::min<int64_t>(from[i] - before, 3));
      around[i] = {before, after};
      from[i] -= before + after;
    }
    return pad(make(d, from, depth), around);
  }

  Graph& graph_;
  Rng rng_;
  bool wild_;
  int budget_;
  std::map<int64_t, Fill> fills_;  // by slot
  std::vector<UOp> buffers_, made_;
};

// Scalar steps that lowering `root` without sharing may take: what stands below a reduction is computed at every step.
double work(UOp root) {
  UOpMap<double> per_element;
  for (UOp u : toposort(root)) {
    double w = 1;
    for (UOp s : u.src()) w += per_element[s];
    if (u.is(Op::Reduce))
      w *= static_cast<double>(
          std::max<int64_t>(1, elements(u.src(0).shape()) / std::max<int64_t>(1, elements(u.shape()))));
    per_element[u] = w;
  }
  return per_element[root] * static_cast<double>(elements(root.shape()));
}

double random_real(Rng& rng, DType d, Fill::Kind kind) {
  switch (kind) {
    case Fill::Kind::Small:
      return static_cast<double>(rng.between(-5, 5));
    case Fill::Kind::Real:
      return rng.percent(5) ? 0.0 : rng.real(-3, 3);
    case Fill::Kind::Wide:
      return std::ldexp(rng.real(-2, 2),
                        static_cast<int>(d == DType::F16 ? rng.between(-24, 15) : rng.between(-140, 127)));
    case Fill::Kind::Special:
      return rng.percent(40) ? rng.pick(kFloatSpecials) : rng.real(-100, 100);
    case Fill::Kind::Below:
      break;
  }
  return 0;
}

int32_t random_int(Rng& rng, Fill fill) {
  switch (fill.kind) {
    case Fill::Kind::Small:
      return static_cast<int32_t>(rng.between(-9, 9));
    case Fill::Kind::Real:
      return static_cast<int32_t>(rng.between(-1000, 1000));
    case Fill::Kind::Wide:
      return static_cast<int32_t>(rng.next());
    case Fill::Kind::Special:
      return static_cast<int32_t>(rng.percent(40) ? rng.pick(kIntSpecials) : rng.between(-99999, 99999));
    case Fill::Kind::Below:
      return static_cast<int32_t>(rng.below(fill.below));
  }
  return 0;
}

}  // namespace

std::vector<UOp> buffers_of(UOp root) {
  std::vector<UOp> result;
  for (UOp u : toposort(root))
    if (u.is(Op::Buffer)) result.push_back(u);
  std::ranges::sort(result, {}, [](UOp b) { return b.arg<ParamArg>().slot; });
  return result;
}

std::vector<std::byte> random_data(Rng& rng, DType dtype, int64_t size, Fill fill) {
  std::vector<std::byte> data(static_cast<size_t>(size * itemsize(dtype)));
  std::byte* at = data.data();
  for (int64_t i = 0; i < size; i++, at += itemsize(dtype)) {
    if (dtype == DType::Bool) {
      *at = static_cast<std::byte>(rng.below(2));
    } else if (dtype == DType::I32) {
      const int32_t v = random_int(rng, fill);
      std::memcpy(at, &v, sizeof v);
    } else if (dtype == DType::F32) {
      const auto v = static_cast<float>(random_real(rng, dtype, fill.kind));
      std::memcpy(at, &v, sizeof v);
    } else {
      const uint16_t v = half_bits(round_to_half(random_real(rng, dtype, fill.kind)));
      std::memcpy(at, &v, sizeof v);
    }
  }
  return data;
}

Sample random_graph(Graph& graph, uint64_t seed) {
  for (uint64_t attempt = 0;; attempt++) {
    Maker maker(graph, seed * 64 + attempt);
    const UOp root = maker.root();
    if (work(root) > kMaxWork) continue;
    return {seed, root, maker.inputs(root)};
  }
}

}  // namespace uopc::diff
