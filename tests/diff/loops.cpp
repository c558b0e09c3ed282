// Random loop programs, each one of the forms that are written by hand.
#include <algorithm>
#include <map>

#include "diff/generator.hpp"

namespace uopc::diff {
namespace {

class LoopMaker {
 public:
  LoopMaker(Graph& graph, uint64_t seed) : graph_(graph), rng_(seed) {}

  UOp root() {
    switch (rng_.below(8)) {
      case 0:
        return elementwise();
      case 1:
        return reduction(false);
      case 2:
        return reduction(true);
      case 3:
        return siblings();
      case 4:
        return scratch();
      case 5:
        return in_place();
      case 6:
        return scan();
      default:
        return loopless();
    }
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
  struct Axis {
    UOp range;
    int64_t size;  // the loop's steps, or their largest number
  };

  DType random_dtype() {
    const int64_t k = rng_.below(100);
    return k < 15 ? DType::Bool : k < 50 ? DType::I32 : k < 88 ? DType::F32 : DType::F16;
  }
  int64_t random_size() {
    static const std::vector<int64_t> kSizes = {2, 3, 4, 5, 7, 8, 11, 16, 17};
    const int64_t k = rng_.below(100);
    return k < 4 ? 0 : k < 12 ? 1 : rng_.pick(kSizes);
  }

  UOp buffer(DType d, int64_t size, Fill fill = {}) {
    const auto slot = static_cast<int64_t>(fills_.size());
    fills_[slot] = fill;
    return graph_.buffer(size, d, slot);
  }
  UOp constant(int64_t v) { return graph_.constant(v); }

  // `count` loops whose RANGEs follow those made before.
  std::vector<Axis> loops(int64_t count, AxisType inner, bool may_thread) {
    std::vector<Axis> axes;
    for (int64_t i = 0; i < count; i++) {
      const bool thread = may_thread && i == 0 && rng_.percent(25);
      const AxisType kind = thread            ? AxisType::Thread
                            : rng_.percent(5) ? AxisType::Upcast
                            : rng_.percent(3) ? AxisType::Global
                            : rng_.percent(3) ? AxisType::Local
                                              : inner;
      const int64_t size = random_size();
      axes.push_back({graph_.range_(size, next_range_++, kind), size});
    }
    return axes;
  }

  static std::vector<UOp> ranges(const std::vector<Axis>& axes) {
    std::vector<UOp> r;
    for (const Axis& a : axes) r.push_back(a.range);
    return r;
  }
  static int64_t steps(const std::vector<Axis>& axes) {
    int64_t n = 1;
    for (const Axis& a : axes) n *= a.size;
    return n;
  }

  // A different element for each step.
  UOp own_index(const std::vector<Axis>& axes) {
    if (axes.empty()) return constant(0);
    UOp i = axes[0].range;
    for (size_t k = 1; k < axes.size(); k++) i = i * axes[k].size + axes[k].range;
    return rng_.percent(25) ? constant(steps(axes) - 1) - i : i;
  }

  // Any index of [0, size) made of the loops' counters; size > 0.
  UOp some_index(const std::vector<Axis>& axes, int64_t size) {
    if (rng_.percent(12)) {
      const UOp b = buffer(DType::I32, 4, {Fill::Kind::Below, size});
      return b.index(axes.empty() ? constant(rng_.below(4)) : axes[0].range % 4).load();
    }
    UOp i = constant(rng_.below(size));
    for (const Axis& a : axes) {
      if (rng_.percent(20)) continue;
      const UOp term = rng_.percent(20) ? (a.range * rng_.between(-2, 2)).floordiv(rng_.between(1, 4)) : a.range;
      i = i + term * rng_.between(-3, 5);
    }
    return i.floormod(size);
  }

  UOp load(DType d, const std::vector<Axis>& axes) {
    const int64_t n = steps(axes);
    if (n > 0 && n <= 2048 && rng_.percent(50)) return buffer(d, n).index(own_index(axes)).load();
    const int64_t size = rng_.between(1, 24);
    return buffer(d, size).index(some_index(axes, size)).load();
  }

  std::vector<UOp> loads(const std::vector<Axis>& axes, int64_t count) {
    std::vector<UOp> values;
    for (int64_t i = 0; i < count; i++) values.push_back(load(random_dtype(), axes));
    for (const Axis& a : axes)
      if (rng_.percent(40)) values.push_back(a.range);
    return values;
  }

  UOp literal(DType d) {
    return graph_.constant(d == DType::Bool ? Scalar(rng_.percent(50)) : Scalar(rng_.between(-3, 3)), d);
  }

  UOp operand(DType d, const std::vector<UOp>& leaves) {
    std::vector<UOp> same, other;
    for (UOp u : leaves) (u.dtype() == d ? same : other).push_back(u);
    if (!same.empty() && rng_.percent(75)) return rng_.pick(same);
    if (!other.empty() && rng_.percent(60)) {
      const UOp u = rng_.pick(other);
      if (u.is(Op::Load) || u.is(Op::Range)) return u.cast(d);
    }
    return literal(d);
  }

  UOp value(DType d, const std::vector<UOp>& leaves, int depth) {
    if (depth <= 0) return operand(d, leaves);
    const auto sub = [&](DType t) { return value(t, leaves, depth - 1); };
    if (rng_.percent(15)) return sub(DType::Bool).where(sub(d), sub(d));
    if (d == DType::Bool) {
      const DType t = random_dtype();
      const UOp a = sub(t), b = sub(t);
      const int64_t k = rng_.below(4);
      return k == 0 ? a.lt(b) : k == 1 ? a.ne(b) : k == 2 ? a.lt(b) * a.ne(b) : a.lt(b).max(b.lt(a));
    }
    const UOp a = sub(d);
    switch (rng_.below(d == DType::I32 ? 8 : 4)) {
      case 0:
        return a + sub(d);
      case 1:
        return a * (rng_.percent(50) ? literal(d) : operand(d, leaves));
      case 2: {
        // The simplifier puts a constant on the right, which MAX of zeros tells apart: the constant stands there
        // already.
        const UOp b = sub(d);
        return is_variable(a) ? a.max(b) : b.max(a);
      }
      case 3: {
        const UOp twice = a + literal(d);  // used twice: a value with a name
        return is_variable(a) ? twice.max(twice * literal(d)) : twice + a;
      }
      case 4:
        return a.floordiv(divisor());
      case 5:
        return a.floormod(divisor());
      case 6:
        return rng_.percent(50) ? a.floordiv(divisor()).floordiv(divisor()) : a.floormod(divisor()).floormod(divisor());
      default:
        return a.floormod(divisor()).floordiv(divisor());
    }
  }

  int64_t divisor() { return rng_.percent(75) ? rng_.between(1, 9) : rng_.between(-5, -1); }

  static bool is_variable(UOp u) {
    return std::ranges::any_of(toposort(u), [](UOp s) { return s.is(Op::Load) || s.is(Op::Range); });
  }

  UOp output(DType d, const std::vector<Axis>& axes) { return buffer(d, std::max<int64_t>(1, steps(axes))); }

  UOp identity(Op op, DType d) {
    if (op == Op::Add) return graph_.constant(dtypes::convert(Scalar(0), d), d);
    return graph_.constant(dtypes::min(d), d);
  }

  // R13's form: the result of `op` over the `inner` loops at each step of `outer`.
  UOp accumulate(Op op, const std::vector<Axis>& outer, const std::vector<Axis>& inner, UOp term) {
    const UOp acc = graph_.alloc(1, term.dtype(), next_alloc_++);
    const UOp init = acc.after(ranges(outer)).index(0).store(identity(op, term.dtype()));
    std::vector<UOp> deps{init};
    for (UOp r : ranges(inner)) deps.push_back(r);
    const UOp old = acc.after(deps).index(0).load();
    const UOp step = acc.index(0).store(op == Op::Add ? old + term : old.max(term));
    return acc.after({step.end(ranges(inner))}).index(0).load();
  }

  UOp finish(const std::vector<UOp>& stores, const std::vector<Axis>& axes) {
    const UOp body = stores.size() == 1 ? stores[0] : graph_.sink(stores);
    if (axes.empty()) return graph_.sink(stores);
    return graph_.sink({{body.end(ranges(axes))}});
  }

  Op sum_or_max(DType d) { return d == DType::Bool || rng_.percent(40) ? Op::Max : Op::Add; }

  // ---- the forms ----

  UOp elementwise() {
    const auto axes = loops(rng_.between(1, 3), AxisType::Loop, true);
    const auto leaves = loads(axes, rng_.between(1, 3));
    std::vector<UOp> stores;
    for (int64_t i = rng_.between(1, 2); i > 0; i--) {
      const DType d = random_dtype();
      stores.push_back(output(d, axes).index(own_index(axes)).store(value(d, leaves, 3)));
    }
    return finish(stores, axes);
  }

  UOp reduction(bool ragged) {
    const auto outer = loops(rng_.between(ragged ? 1 : 0, 2), AxisType::Loop, true);
    std::vector<Axis> inner;
    if (ragged) {
      const bool triangular = rng_.percent(60);
      const int64_t most = triangular ? std::max<int64_t>(1, outer[0].size) : rng_.between(1, 12);
      const UOp end = triangular
                          ? outer[0].range + 1
                          : buffer(DType::I32, std::max<int64_t>(1, outer[0].size), {Fill::Kind::Below, most + 1})
                                .index(outer[0].range)
                                .load();
      inner.push_back({graph_.range_(end, next_range_++, AxisType::Reduce), most});
    } else {
      inner = loops(rng_.between(1, 2), AxisType::Reduce, false);
    }
    std::vector<Axis> all = outer;
    all.insert(all.end(), inner.begin(), inner.end());
    const DType d = random_dtype();
    const UOp sum = accumulate(sum_or_max(d), outer, inner, value(d, loads(all, 2), 2));
    std::vector<UOp> leaves = loads(outer, 1);
    leaves.push_back(sum);
    const UOp most = value(d, leaves, 1).max(sum);
    return finish({output(d, outer).index(own_index(outer)).store(rng_.percent(50) ? most : sum + most)}, outer);
  }

  UOp siblings() {
    const auto outer = loops(rng_.between(0, 2), AxisType::Loop, true);
    const DType d = rng_.percent(50) ? DType::I32 : DType::F32;
    const auto first = loops(1, AxisType::Reduce, false), second = loops(1, AxisType::Reduce, false);
    const auto joined = [&](const std::vector<Axis>& inner) {
      std::vector<Axis> all = outer;
      all.insert(all.end(), inner.begin(), inner.end());
      return all;
    };
    const UOp a = accumulate(sum_or_max(d), outer, first, value(d, loads(joined(first), 2), 2));
    UOp term = value(d, loads(joined(second), 2), 2);
    if (rng_.percent(70)) term = term + a;
    const UOp b = accumulate(sum_or_max(d), outer, second, term);
    return finish({output(d, outer).index(own_index(outer)).store(a.max(b) + b)}, outer);
  }

  UOp scratch() {
    const auto outer = loops(rng_.between(0, 1), AxisType::Loop, true);
    const int64_t n = rng_.between(1, 12);
    const DType d = random_dtype();
    const UOp tmp = graph_.alloc(n, d, next_alloc_++);
    const Axis fill{graph_.range_(n, next_range_++), n}, drain{graph_.range_(n, next_range_++), n};
    std::vector<Axis> all = outer;
    all.push_back(fill);
    const UOp filled = tmp.after(ranges(outer)).index(fill.range).store(value(d, loads(all, 2), 2)).end({fill.range});
    const UOp at = rng_.percent(50) ? constant(n - 1) - drain.range : (drain.range * rng_.between(1, 5)).floormod(n);
    const UOp v = tmp.after({filled}).index(at).load();
    all.back() = drain;
    return finish({output(d, all).index(own_index(all)).store(v.max(literal(d)))}, all);
  }

  UOp in_place() {
    const auto axes = loops(rng_.between(1, 2), AxisType::Loop, true);
    const DType d = random_dtype();
    const UOp b = output(d, axes), i = own_index(axes);
    const UOp old = b.index(i).load();
    std::vector<UOp> leaves = loads(axes, 1);
    leaves.push_back(old);
    return finish({b.index(i).store(value(d, leaves, 2).max(old))}, axes);
  }

  UOp scan() {
    const int64_t n = random_size();
    const DType d = rng_.percent(50) ? DType::I32 : DType::F32;
    const Axis axis{graph_.range_(n, next_range_++), n};
    const UOp acc = graph_.alloc(1, d, next_alloc_++);
    const UOp init = acc.index(0).store(literal(d));
    const UOp next = acc.after({init, axis.range}).index(0).load() + value(d, loads({axis}, 1), 1);
    const UOp step = acc.index(0).store(next);
    const UOp out = output(d, {axis}).index(axis.range).store(acc.after({step}).index(0).load());
    return finish({out}, {axis});
  }

  UOp loopless() {
    std::vector<UOp> stores;
    const auto leaves = loads({}, 3);
    for (int64_t i = rng_.between(1, 3); i > 0; i--) {
      const DType d = random_dtype();
      const UOp tmp = graph_.alloc(2, d, next_alloc_++);
      const UOp a = tmp.index(0).store(value(d, leaves, 3)), b = tmp.index(1).store(value(d, leaves, 1));
      const UOp ready = tmp.after({a, b});
      stores.push_back(output(d, {}).index(0).store(ready.index(1).load().max(ready.index(0).load())));
    }
    return graph_.sink(stores);
  }

  Graph& graph_;
  Rng rng_;
  int64_t next_range_ = 0, next_alloc_ = 0;
  std::map<int64_t, Fill> fills_;  // by slot
};

}  // namespace

Sample random_loops(Graph& graph, uint64_t seed) {
  LoopMaker maker(graph, seed + (uint64_t{1} << 40));
  const UOp root = maker.root();
  return {seed, root, maker.inputs(root)};
}

}  // namespace uopc::diff
