#include "ir/bounds.hpp"

#include <algorithm>

#include "uopc/passes.hpp"

namespace uopc {
namespace {

constexpr int64_t kLowest = INT32_MIN, kHighest = INT32_MAX;

Interval anything(UOp u) {
  return u.dtype() == DType::Bool ? Interval{0, 1} : Interval{kLowest, kHighest};
}
bool bounded(UOp u) {
  return u.dtype() == DType::Bool || u.dtype() == DType::I32;
}

// The sources that the facts of `u` are made of; none where `u` has the bounds of its type.
std::span<const UOp> inputs(UOp u) {
  if (!bounded(u)) return {};
  switch (u.op()) {
    case Op::Add:
    case Op::Mul:
    case Op::Max:
    case Op::CmpLt:
    case Op::CmpNe:
    case Op::Cast:
      return bounded(u.src(0)) ? u.src() : std::span<const UOp>{};
    case Op::Where:
    case Op::Range:
      return u.src();
    case Op::FloorDiv:
    case Op::FloorMod: {
      if (!u.src(1).is_const()) return {};
      const int64_t c = u.src(1).value().as_int();
      return 0 < c && c <= kHighest ? u.src() : std::span<const UOp>{};
    }
    default:
      return {};
  }
}

int64_t floor_div(int64_t a, int64_t c) {
  return a / c - (a % c < 0);
}

// The interval before wrapping is looked at.
Interval apply(UOp u, Interval a, Interval b) {
  switch (u.op()) {
    case Op::Add:
      return {a.lo + b.lo, a.hi + b.hi};
    case Op::Mul: {
      const auto [lo, hi] = std::minmax({a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi});
      return {lo, hi};
    }
    case Op::Max:
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    case Op::CmpLt:
      return {a.hi < b.lo, a.lo < b.hi};
    case Op::CmpNe:
      return {a.hi < b.lo || b.hi < a.lo, !(a.single() && b.single() && a.lo == b.lo)};
    case Op::FloorDiv:
      return {floor_div(a.lo, b.lo), floor_div(a.hi, b.lo)};
    case Op::FloorMod: {
      const int64_t q = floor_div(a.lo, b.lo);
      if (q != floor_div(a.hi, b.lo)) return {0, b.lo - 1};
      return {a.lo - q * b.lo, a.hi - q * b.lo};
    }
    default:
      break;  // CAST
  }
  if (u.dtype() == DType::Bool) return {a.lo > 0 || a.hi < 0, !(a.lo == 0 && a.hi == 0)};
  return a;
}

}  // namespace

Bounds::Facts Bounds::derive(UOp u) {
  Facts facts{anything(u), true, 1};
  if (u.is_const() && bounded(u)) {
    const int64_t v = u.value().as_int();
    if (kLowest <= v && v <= kHighest) facts.interval = {v, v};
    return facts;
  }
  if (inputs(u).empty()) return facts;

  const auto of = [&](size_t i) -> const Facts& { return *known_.find(u.src(i)); };
  if (u.is(Op::Range)) {
    facts.interval = {0, std::max<int64_t>(of(0).interval.hi - 1, -1)};
    return facts;
  }
  if (u.is(Op::Where)) {
    const Interval c = of(0).interval, a = of(1).interval, b = of(2).interval;
    if (c.empty() || a.empty() || b.empty()) return facts;
    facts.interval = c.single() ? (c.lo ? a : b) : Interval{std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
    return facts;
  }
  const Facts& a = of(0);
  const Facts& b = of(u.src().size() - 1);
  const bool arithmetic = u.is(Op::Add) || u.is(Op::Mul);
  if (u.is(Op::Add)) facts.terms = static_cast<uint8_t>(std::min<int>(a.terms + b.terms, kManyTerms));
  facts.exact = !arithmetic || (a.exact && b.exact);
  if (a.interval.empty() || b.interval.empty()) {
    facts.exact = !arithmetic;
    return facts;
  }
  Interval r = apply(u, a.interval, b.interval);
  if (u.dtype() == DType::Bool) r = {std::min<int64_t>(r.lo, 1), std::min<int64_t>(r.hi, 1)};  // ADD is "or"
  if (r.lo < kLowest || r.hi > kHighest) {
    facts.exact = facts.exact && !arithmetic;
    return facts;
  }
  facts.interval = r;
  return facts;
}

const Bounds::Facts& Bounds::facts(UOp root) {
  if (const Facts* f = known_.find(root)) return *f;
  bool ready = true;
  for (UOp s : inputs(root)) ready = ready && known_.contains(s);
  if (!ready) {
    post_order(
        root,
        [&](UOp u) {
          if (u != root && !known_.contains(u)) known_.insert(u, derive(u));
        },
        [&](UOp u) { return !known_.contains(u) && !inputs(u).empty(); });
  }
  return *known_.insert(root, derive(root)).first;
}

namespace {
Scalar bound(UOp u, bool upper) {
  if (!bounded(u)) {
    if (u.is_const()) return u.value();
    return upper ? dtypes::max(u.dtype()) : dtypes::min(u.dtype());
  }
  Bounds bounds;
  const Interval i = bounds.of(u);
  const int64_t v = upper ? i.hi : i.lo;
  return u.dtype() == DType::Bool ? Scalar(v != 0) : Scalar(v);
}
}  // namespace

Scalar vmin(UOp u) {
  return bound(u, false);
}
Scalar vmax(UOp u) {
  return bound(u, true);
}

}  // namespace uopc
