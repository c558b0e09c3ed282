// Division and modulo by a positive constant. The identities are those of floor division over the integers, and i32
// wraps; so whatever takes a numerator apart first asks whether its sums and products are exact.
#include <array>
#include <numeric>

#include "passes/symbolic.hpp"

namespace uopc {
namespace {

constexpr size_t kMaxTerms = 64;  // longer sums are left alone; keeps every rule application O(1)

// One term of a sum: core * factor; a constant is a factor without a core.
struct Term {
  UOp node, core;
  int64_t factor;
};

Term as_term(UOp u) {
  if (u.is_const()) return {u, UOp(), u.value().as_int()};
  if (u.is(Op::Mul) && u.src(1).is_const()) return {u, u.src(0), u.src(1).value().as_int()};
  return {u, u, 1};
}

// A sum as its terms from left to right, whatever the shape of its tree.
class Sum {
 public:
  // False when the sum has too many terms.
  bool flatten(UOp u, Bounds& bounds) {
    size_ = 0;
    if (bounds.terms(u) > static_cast<int>(kMaxTerms)) return false;
    std::array<UOp, kMaxTerms> stack;
    size_t depth = 0;
    stack[depth++] = u;
    while (depth > 0) {
      const UOp t = stack[--depth];
      if (t.is(Op::Add)) {
        stack[depth++] = t.src(1);
        stack[depth++] = t.src(0);
      } else {
        push(as_term(t));
      }
    }
    return true;
  }
  void push(Term t) { terms_[size_++] = t; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Term& operator[](size_t i) { return terms_[i]; }
  void erase(size_t i) {
    std::copy(terms_.begin() + i + 1, terms_.begin() + size_, terms_.begin() + i);
    size_--;
  }

  // Bounds of the sum where no partial sum, added from the left, can leave i32; else nothing.
  std::optional<Interval> exact_bounds(Bounds& bounds) const {
    Interval sum{0, 0};
    for (size_t i = 0; i < size_; i++) {
      const Term& t = terms_[i];
      Interval term{t.factor, t.factor};
      if (t.core) {
        const Interval core = bounds.of(t.core);
        term = {core.lo * t.factor, core.hi * t.factor};
        if (t.factor < 0) std::swap(term.lo, term.hi);
        if (core.empty()) return {};
      }
      sum = {sum.lo + term.lo, sum.hi + term.hi};
      if (term.lo < INT32_MIN || term.hi > INT32_MAX || sum.lo < INT32_MIN || sum.hi > INT32_MAX) return {};
    }
    return sum;
  }

  UOp build(Graph& graph) const {
    UOp sum;
    for (size_t i = 0; i < size_; i++) {
      const UOp t = build(terms_[i], graph);
      sum = sum ? sum + t : t;
    }
    return sum ? sum : graph.constant(0);
  }

 private:
  static UOp build(const Term& t, Graph& graph) {
    if (t.node) return t.node;
    if (!t.core) return graph.constant(t.factor);
    return t.factor == 1 ? t.core : t.core * graph.constant(t.factor);
  }

  std::array<Term, kMaxTerms> terms_;
  size_t size_ = 0;
};

int64_t floor_div(int64_t a, int64_t c) {
  return a / c - (a % c < 0);
}

// The numerator as c*taken + rest, with all the terms that c divides in `taken`; a constant gives its multiple of c.
// False where there are none, or where the sums are not exact.
bool split(const Match& m, Sum& taken, Sum& rest) {
  const int64_t c = m['c'].value().as_int();
  if (c <= 1 || !m.bounds.exact(m['x'])) return false;
  Sum numerator;
  if (!numerator.flatten(m['x'], m.bounds)) return false;
  for (size_t i = 0; i < numerator.size(); i++) {
    const Term t = numerator[i];
    if (!t.core) {
      const int64_t quotient = floor_div(t.factor, c), remainder = t.factor - quotient * c;
      if (quotient != 0) taken.push({UOp(), UOp(), quotient});
      if (remainder != 0) rest.push({UOp(), UOp(), remainder});
    } else if (t.factor % c == 0) {
      taken.push({UOp(), t.core, t.factor / c});
    } else {
      rest.push(t);
    }
  }
  return !taken.empty() && rest.exact_bounds(m.bounds);
}

// (a*c + b) // c is a + b // c.
UOp divide_sum(const Match& m) {
  Sum taken, rest;
  if (!split(m, taken, rest)) return {};
  const UOp quotient = taken.build(m.graph());
  return rest.empty() ? quotient : quotient + rest.build(m.graph()).floordiv(m['c']);
}

// (a*c + b) % c is b % c.
UOp modulo_of_sum(const Match& m) {
  Sum taken, rest;
  if (!split(m, taken, rest)) return {};
  return rest.empty() ? m.graph().constant(0) : rest.build(m.graph()).floormod(m['c']);
}

// (a*g + b) // (g*k) is a // k when 0 <= b < g, for the largest g that does it.
UOp cancel_common_factor(const Match& m) {
  const int64_t c = m['c'].value().as_int();
  if (c <= 1 || !m.bounds.exact(m['x'])) return {};
  Sum numerator;
  if (!numerator.flatten(m['x'], m.bounds)) return {};
  for (int64_t tried = c;;) {
    int64_t g = 1;  // the next smaller candidate
    for (size_t i = 0; i < numerator.size(); i++) {
      const int64_t divisor = std::gcd(numerator[i].factor, c);
      if (divisor < tried) g = std::max(g, divisor);
    }
    if (g == 1) return {};
    tried = g;
    Sum a, b;
    for (size_t i = 0; i < numerator.size(); i++) {
      const Term t = numerator[i];
      if (t.factor % g == 0) {
        a.push({UOp(), t.core, t.factor / g});
      } else {
        b.push(t);
      }
    }
    const auto rest = b.exact_bounds(m.bounds);
    if (!rest || rest->lo < 0 || rest->hi >= g || !a.exact_bounds(m.bounds)) continue;
    return a.build(m.graph()).floordiv(m.graph().constant(c / g));
  }
}

bool is_by_constant(UOp u, Op op, int64_t* divisor) {
  if (!u || !u.is(op) || !u.src(1).is_const()) return false;
  *divisor = u.src(1).value().as_int();
  return *divisor > 0;
}

// Whether `u` is y // b, where y // b may be written z // (a*b) when y is z // a.
bool is_quotient(UOp u, UOp y, int64_t b) {
  int64_t divisor, a;
  if (!is_by_constant(u, Op::FloorDiv, &divisor)) return false;
  if (u.src(0) == y && divisor == b) return true;
  return is_by_constant(y, Op::FloorDiv, &a) && u.src(0) == y.src(0) && divisor == a * b;
}

// In a sum, (y // b)*(k*b) + (y % b)*k is y*k, at the place of the first of the two.
UOp join_quotient_and_rest(const Match& m) {
  Sum sum;
  if (m.root.dtype() != DType::I32 || !sum.flatten(m.root, m.bounds)) return {};
  for (size_t r = 0; r < sum.size(); r++) {
    int64_t b;
    if (!is_by_constant(sum[r].core, Op::FloorMod, &b)) continue;
    const UOp y = sum[r].core.src(0);
    const int64_t k = sum[r].factor, scale = static_cast<int32_t>(static_cast<uint32_t>(k * b));
    for (size_t q = 0; q < sum.size(); q++) {
      if (sum[q].factor != scale || !sum[q].core || !is_quotient(sum[q].core, y, b)) continue;
      sum[std::min(q, r)] = {UOp(), y, k};
      sum.erase(std::max(q, r));
      return sum.build(m.graph());
    }
  }
  return {};
}

}  // namespace

RuleGroup division_rules() {
  const UPat x = var('x'), c = integer('c'), d = integer('d');
  const UPat small = 0 <= vmin(x) && vmax(x) < c;
  const UPat nested = 0 < c && 0 < d && c % d == 0;
  return {"division",
          {
              {"div-small", x / c, 0, small},
              {"mod-small", x % c, x, small},
              {"div-one", x / 1, x},
              {"mod-one", x % 1, 0},
              {"div-div", (x / c) / d, x / (c * d), 0 < c && 0 < d && fits(c * d)},
              {"mod-div", (x % c) / d, (x / d) % (c / d), nested},
              {"mod-mod", (x % c) % d, x % d, nested},
              {"div-sum", x / c, divide_sum},
              {"mod-sum", x % c, modulo_of_sum},
              {"div-common-factor", x / c, cancel_common_factor},
          }};
}

RuleGroup ravel_rules() {
  return {"ravel", {{"ravel-of-unravel", var('x') + var('y'), join_quotient_and_rest}}};
}

}  // namespace uopc
