#include "passes/rangeify.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "passes/symbolic.hpp"
#include "passes/verify.hpp"

namespace uopc {

UOp ravel(Graph& graph, std::span<const UOp> index, const Shape& shape) {
  UOp sum;
  int64_t stride = 1;
  std::vector<int64_t> strides(shape.size());
  for (size_t k = shape.size(); k-- > 0;) {
    strides[k] = stride;
    stride *= std::max<int64_t>(shape[k], 1);
  }
  for (size_t k = 0; k < shape.size(); k++) {
    if (index[k].is_const(0)) continue;
    const UOp term = strides[k] == 1 ? index[k] : index[k] * graph.constant(strides[k]);
    sum = sum ? sum + term : term;
  }
  return sum ? sum : graph.constant(0);
}

std::vector<UOp> unravel(UOp flat, const Shape& shape) {
  Graph& graph = flat.graph();
  std::vector<UOp> index(shape.size());
  const bool empty = std::ranges::find(shape, 0) != shape.end();
  int64_t stride = 1;
  for (size_t k = shape.size(); k-- > 0;) {
    if (empty || shape[k] == 1) {
      index[k] = graph.constant(0);
      continue;
    }
    const UOp quotient = stride == 1 ? flat : flat.floordiv(graph.constant(stride));
    index[k] = quotient.floormod(graph.constant(shape[k]));
    stride *= shape[k];
  }
  return index;
}

std::optional<size_t> innermost_reduced(UOp reduce) {
  const Shape& shape = reduce.src(0).shape();
  for (size_t k = shape.size(); k-- > reduce.shape().size();)
    if (shape[k] != 1) return k;
  return {};
}

Ctx::Ctx(Graph& graph, int64_t unroll, bool lanes)
    : graph_(graph), unroll_(unroll), lanes_(lanes), simplifier_(symbolic_rules()) {}

UOp Ctx::new_range(int64_t size, AxisType kind) {
  ranges_.push_back(graph_.range_(size, static_cast<int64_t>(ranges_.size()), kind));
  return ranges_.back();
}

Ctx::TupleId Ctx::intern(std::vector<UOp> tuple) {
  const auto [it, made] = tuple_ids_.try_emplace(std::move(tuple), static_cast<TupleId>(tuples_.size()));
  if (made) tuples_.push_back(&it->first);
  return it->second;
}

Ctx::Facts Ctx::facts(UOp expression) {
  if (const Facts* known = facts_.find(expression)) return *known;
  post_order(
      expression,
      [&](UOp u) {
        if (facts_.contains(u)) return;
        Facts f;
        for (UOp s : u.src()) {
          const Facts& from = facts_.at(s);
          f.open = sets_.unite(f.open, from.open);
          f.reduces = f.reduces || from.reduces;
        }
        if (u.is(Op::Range)) f.open = sets_.unite(f.open, sets_.single(static_cast<uint32_t>(u.arg<RangeArg>().idx)));
        if (u.is(Op::End)) {
          f.reduces = true;
          for (UOp r : u.src().subspan(1))
            f.open = sets_.minus(f.open, sets_.single(static_cast<uint32_t>(r.arg<RangeArg>().idx)));
        }
        facts_.insert(u, f);
      },
      [&](UOp u) { return !facts_.contains(u); });
  return facts_.at(expression);
}

Ctx::Facts Ctx::facts(TupleId at) {
  Facts all;
  for (UOp i : *tuples_[at]) {
    const Facts f = facts(i);
    all.open = sets_.unite(all.open, f.open);
    all.reduces = all.reduces || f.reduces;
  }
  return all;
}

UOp Ctx::rangeify(UOp value, std::span<const UOp> index) {
  const TupleId at = intern({index.begin(), index.end()});
  const bool first = max_steps_ == 0;
  int64_t more = first ? kFreeSteps : 0;
  post_order(value, [&](UOp) { more += kStepsPerNode; });
  max_steps_ = first ? more : std::max(max_steps_, std::min(max_steps_ + more, kMostSteps));
  std::vector<Frame> stack{{value, at}};
  while (!stack.empty()) {
    Frame& f = stack.back();
    const auto [u, inner] = next(f);
    if (!u) {
      memo_.emplace(key(f.u, f.at), build(f));
      stack.pop_back();
    } else if (!memo_.contains(key(u, inner))) {
      if (++steps_ > max_steps_)
        throw Error(
            ErrorCode::NotImplemented,
            fmt::format("a kernel of more than {} values: the same nodes are read at too many different indices",
                        max_steps_));
      stack.push_back({u, inner});
    }
  }
  return result(value, at);
}

// The index map of a view: where the source is read for `f.at` (A.4, "Movement and reduction").
Ctx::TupleId Ctx::source_index(const Frame& f) {
  const UOp u = f.u;
  const std::vector<UOp>& index = *tuples_[f.at];
  switch (u.op()) {
    case Op::Reshape: {
      std::vector<UOp> out = unravel(ravel(graph_, index, u.shape()), u.src(0).shape());
      for (UOp& i : out) i = simplify(i);
      return intern(std::move(out));
    }
    case Op::Expand: {
      std::vector<UOp> out = index;
      for (size_t k = 0; k < out.size(); k++)
        if (u.shape()[k] != u.src(0).shape()[k]) out[k] = graph_.constant(0);
      return intern(std::move(out));
    }
    case Op::Permute: {
      std::vector<UOp> out(index.size());
      for (size_t k = 0; k < out.size(); k++) out[static_cast<size_t>(u.arg<Shape>()[k])] = index[k];
      return intern(std::move(out));
    }
    case Op::Shrink: {
      std::vector<UOp> out = index;
      for (size_t k = 0; k < out.size(); k++) {
        const int64_t begin = u.arg<ShrinkArg>().bounds[k].first;
        if (begin != 0) out[k] = simplify(out[k] + graph_.constant(begin));
      }
      return intern(std::move(out));
    }
    default:
      return f.at;  // STAGE, LOAD
  }
}

bool Ctx::has_lanes(UOp reduce) const {
  const auto axis = innermost_reduced(reduce);
  return lanes_ && unroll_ > 1 && axis && reduce.src(0).shape()[*axis] >= 2 * unroll_;
}

void Ctx::open_reduction(Frame& f) {
  const Shape& shape = f.u.src(0).shape();
  const size_t kept = f.u.shape().size();
  const Facts at = facts(f.at);
  const size_t innermost = innermost_reduced(f.u).value_or(kept);
  const bool lanes = has_lanes(f.u);
  const bool unrolled = !lanes_ && innermost < shape.size() && shape[innermost] > 1;
  const int64_t copies = lanes || unrolled ? unroll_ : 1, rest = lanes ? shape[innermost] % copies : 0;
  const auto steps = [&](size_t k) { return k == innermost ? shape[k] / copies : shape[k]; };
  // Reads of one REDUCE inside the same loops share its loop. An index that was itself reduced may come out of that
  // very loop, so it gets one of its own.
  auto [it, made] = reduce_ranges_.try_emplace({f.u.id(), {at.reduces, at.reduces ? f.at : at.open}});
  ReduceRanges& ranges = it->second;
  if (made) {
    for (size_t k = kept; k < shape.size(); k++)
      if (steps(k) != 1) ranges.main.push_back(new_range(steps(k), AxisType::Reduce));
    if (lanes) ranges.lane = new_range(copies, AxisType::Upcast);
    for (size_t k = kept; k < shape.size() && rest > 0; k++)
      if (const int64_t n = k == innermost ? rest : shape[k]; n != 1)
        ranges.rest.push_back(new_range(n, AxisType::Reduce));
  }
  Loop loop;
  loop.ranges = ranges;
  // The index whose reduced part goes along `along`; of the innermost axis that is turned into its element by
  // `element`.
  const auto part = [&](const std::vector<UOp>& along, auto&& size, auto&& element) {
    std::vector<UOp> inner = *tuples_[f.at];
    for (size_t k = kept, r = 0; k < shape.size(); k++) {
      const UOp i = size(k) == 1 ? graph_.constant(0) : along[r++];
      inner.push_back(k == innermost ? simplify(element(i)) : i);
    }
    loop.parts.push_back(intern(std::move(inner)));
  };
  if (lanes) {
    part(ranges.main, steps, [&](UOp i) { return i * graph_.constant(copies) + ranges.lane; });
    if (rest > 0)
      part(
          ranges.rest, [&](size_t k) { return k == innermost ? rest : shape[k]; },
          [&](UOp i) { return i + graph_.constant(shape[innermost] - rest); });
    loop.acc = new_alloc(copies, f.u.dtype());
    if (!ranges.rest.empty()) loop.rest_acc = new_alloc(1, f.u.dtype());
  } else {
    for (int64_t c = 0; c < copies; c++)
      part(ranges.main, steps,
           [&](UOp i) { return copies == 1 ? i : i * graph_.constant(copies) + graph_.constant(c); });
    if (!ranges.main.empty()) loop.acc = new_alloc(1, f.u.dtype());
  }
  f.loop = static_cast<uint32_t>(loops_.size());
  loops_.push_back(std::move(loop));
}

UOp Ctx::build_reduction(const Frame& f) {
  const Loop& loop = loops_[f.loop];
  const Op op = f.u.arg<ReduceArg>().op;
  if (loop.ranges.lane) {
    const UOp sum = reduction_in_lanes(f, loop);
    if (loop.parts.size() == 1) return sum;
    return graph_.make(op,
                       {sum, serial_reduction(f, loop.rest_acc, loop.ranges.rest, result(f.u.src(0), loop.parts[1]))});
  }
  // A balanced tree of what one iteration reads.
  std::vector<UOp> values;
  for (TupleId part : loop.parts) values.push_back(result(f.u.src(0), part));
  while (values.size() > 1) {
    std::vector<UOp> pairs;
    for (size_t k = 0; k < values.size(); k += 2)
      pairs.push_back(k + 1 < values.size() ? graph_.make(op, {values[k], values[k + 1]}) : values[k]);
    values = std::move(pairs);
  }
  return serial_reduction(f, loop.acc, loop.ranges.main, values[0]);
}

std::vector<UOp> Ctx::loops_around(const Frame& f) {
  std::vector<UOp> outer;
  for (uint32_t idx : sets_.members(facts(f.at).open)) outer.push_back(ranges_[idx]);
  return outer;
}

UOp Ctx::serial_reduction(const Frame& f, UOp acc, const std::vector<UOp>& ranges, UOp value) {
  if (ranges.empty()) return value;
  const Op op = f.u.arg<ReduceArg>().op;
  const DType d = f.u.dtype();
  const UOp zero = graph_.constant(0);
  const UOp identity = graph_.constant(op == Op::Max ? dtypes::min(d) : Scalar(0), d);
  const UOp init = acc.after(loops_around(f)).index(zero).store(identity);
  std::vector<UOp> deps{init};
  deps.insert(deps.end(), ranges.begin(), ranges.end());
  const UOp old = acc.after(deps).index(zero).load();
  const UOp end = acc.index(zero).store(graph_.make(op, {old, value})).end(ranges);
  // The simplifier may find that a step does not depend on the value before (a MAX with true): the last step stores the
  // result all the same, but where there is none it is `init` that must have happened.
  const bool runs = std::ranges::none_of(ranges, [](UOp r) { return r.src(0).is_const(0); });
  return (runs ? acc.after({end}) : acc.after({init, end})).index(zero).load();
}

// An accumulator a lane; at the end the upper half of them goes into the lower one until two are left.
UOp Ctx::reduction_in_lanes(const Frame& f, const Loop& loop) {
  const Op op = f.u.arg<ReduceArg>().op;
  const DType d = f.u.dtype();
  const UOp acc = loop.acc;
  const UOp identity = graph_.constant(op == Op::Max ? dtypes::min(d) : Scalar(0), d);
  std::vector<UOp> outer = loops_around(f);
  const UOp first = new_range(unroll_, AxisType::Upcast);
  outer.push_back(first);
  const UOp init = acc.after(outer).index(first).store(identity).end({first});
  std::vector<UOp> ranges = loop.ranges.main;
  ranges.push_back(loop.ranges.lane);
  std::vector<UOp> deps{init};
  deps.insert(deps.end(), ranges.begin(), ranges.end());
  const UOp old = acc.after(deps).index(loop.ranges.lane).load();
  const UOp value = result(f.u.src(0), loop.parts[0]);
  UOp done = acc.index(loop.ranges.lane).store(graph_.make(op, {old, value})).end(ranges);
  for (int64_t half = unroll_ / 2; half > 1; half /= 2) {
    const UOp k = new_range(half, AxisType::Upcast);
    const UOp before = acc.after({done, k});
    const UOp both = graph_.make(op, {before.index(k).load(), before.index(k + graph_.constant(half)).load()});
    done = acc.index(k).store(both).end({k});
  }
  const UOp left = acc.after({done});
  return graph_.make(op, {left.index(graph_.constant(0)).load(), left.index(graph_.constant(1)).load()});
}

std::pair<UOp, Ctx::TupleId> Ctx::next(Frame& f) {
  const UOp u = f.u;
  const uint32_t step = f.step++;
  if (kAlu.has(u.op())) return step < u.src().size() ? std::pair{u.src(step), f.at} : std::pair<UOp, TupleId>{};
  switch (u.op()) {
    case Op::Const:
    case Op::Buffer:
      return {};
    case Op::Reshape:
    case Op::Expand:
    case Op::Permute:
    case Op::Shrink:
    case Op::Stage:
    case Op::Load:
      if (step > 0) return {};
      f.inner = source_index(f);
      return {u.src(0), f.inner};
    case Op::Reduce: {
      if (step == 0) open_reduction(f);
      const auto& parts = loops_[f.loop].parts;
      return step < parts.size() ? std::pair{u.src(0), parts[step]} : std::pair<UOp, TupleId>{};
    }
    case Op::Stack: {
      const std::vector<UOp>& index = *tuples_[f.at];
      const int64_t n = static_cast<int64_t>(u.src().size());
      if (step == 0) {
        const Interval i = simplifier_.bounds().of(index[0]);
        f.lo = static_cast<uint32_t>(std::clamp<int64_t>(i.lo, 0, n - 1));
        f.hi = i.empty() ? f.lo : static_cast<uint32_t>(std::clamp<int64_t>(i.hi, 0, n - 1));
        f.inner = intern({index.begin() + 1, index.end()});
      }
      return f.lo + step <= f.hi ? std::pair{u.src(f.lo + step), f.inner} : std::pair<UOp, TupleId>{};
    }
    case Op::Index: {
      const uint32_t count = static_cast<uint32_t>(u.src().size()) - 1;
      const TupleId scalar = intern({});
      if (step < count) return {u.src(1 + step), scalar};
      if (step > count) return {};
      std::vector<UOp> index;
      for (UOp i : u.src().subspan(1)) index.push_back(simplify(result(i, scalar)));
      index.insert(index.end(), tuples_[f.at]->begin(), tuples_[f.at]->end());
      f.inner = intern(std::move(index));
      return {u.src(0), f.inner};
    }
    case Op::Param:
      throw Error(ErrorCode::NotImplemented, fmt::format("{} outside a CALL has no value to lower", describe(u)));
    case Op::Call:
      throw Error(ErrorCode::NotImplemented, "CALL cannot be lowered: inline it first (inline_call)");
    case Op::Wmma:
      throw Error(ErrorCode::NotImplemented, "WMMA is reserved: nothing lowers or renders it");
    default:
      throw Error(ErrorCode::Type, fmt::format("{} is no shaped value", describe(u)));
  }
}

UOp Ctx::read_window(const Window& window, UOp index) {
  auto within = linear_form(index);
  if (!within) throw Error(ErrorCode::NotImplemented, fmt::format("{} as a place in a window", describe(index)));
  return window.memory.index(simplify(within->subtract(window.base).expression(graph_))).load();
}

UOp Ctx::build(const Frame& f) {
  const UOp u = f.u;
  if (kAlu.has(u.op())) {
    UOp src[3];
    for (size_t k = 0; k < u.src().size(); k++) src[k] = result(u.src(k), f.at);
    return graph_.make(u.op(), std::span<const UOp>(src, u.src().size()), u.arg());
  }
  switch (u.op()) {
    case Op::Const:
      return u;
    case Op::Buffer: {
      const UOp i = (*tuples_[f.at])[0];
      if (const Window* window = windows_.find(u)) return read_window(*window, i);
      const Interval at = simplifier_.bounds().of(i);
      // Below a view without elements indices are 0 and mean nothing. Its loops run no times, but a LOAD that does not
      // use their counters would stand outside them.
      if (!at.empty() && (at.lo >= u.shape()[0] || at.hi < 0)) return graph_.constant(0, u.dtype());
      return u.index(i).load();
    }
    case Op::Reduce:
      return build_reduction(f);
    case Op::Stack: {
      const UOp i = (*tuples_[f.at])[0];
      UOp chain = result(u.src(f.hi), f.inner);
      for (uint32_t k = f.hi; k-- > f.lo;)
        chain = i.lt(graph_.constant(int64_t{k} + 1)).where(result(u.src(k), f.inner), chain);
      return chain;
    }
    default:
      return result(u.src(0), f.inner);
  }
}

}  // namespace uopc
