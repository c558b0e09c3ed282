// The integer rules proved: no values at all make the two sides of a rule differ. Sums, products, comparisons and
// selections over vectors of 32 bits; division over vectors of 5, where every letter, constants included, is still free
// (a rule knows the width only as "does not leave it").
#ifdef UOPC_HAVE_Z3
#include <gtest/gtest.h>
#include <z3++.h>

#include <algorithm>
#include <map>
#include <set>

#include "passes/symbolic.hpp"

namespace uopc {
namespace {

using Kind = PatNode::Kind;

class Prover {
 public:
  explicit Prover(unsigned width) : width_(width), solver_(context_) {
    z3::params p(context_);
    p.set("timeout", 60'000u);
    solver_.set(p);
  }

  z3::check_result counterexample(const Rule& rule) {
    bools_.clear();
    find_bools(rule.before);
    if (!rule.when.empty()) solver_.add(truth(rule.when));
    solver_.add(value(rule.before) != value(rule.after));
    return solver_.check();
  }
  std::string model() {
    std::ostringstream text;
    text << solver_.get_model();
    return text.str();
  }

 private:
  bool is_bool_literal(const UPat& p) { return p->kind == Kind::Literal && p->literal.is_bool(); }
  void find_bools(const UPat& p) {
    const bool logic = std::ranges::any_of(p->src, [&](const UPat& s) { return is_bool_literal(s); });
    for (size_t i = 0; i < p->src.size(); i++) {
      const UPat& s = p->src[i];
      if (s->letter && (p->op == Op::Where ? i == 0 : logic)) bools_.insert(s->letter);
      find_bools(s);
    }
  }

  z3::expr letter(char name) {
    const std::string text(1, name);
    return bools_.contains(name) ? context_.bool_const(text.c_str()) : context_.bv_const(text.c_str(), width_);
  }
  // A letter's bounds: any two values around it.
  z3::expr bound(char name, bool upper) {
    const z3::expr b = context_.bv_const((std::string(1, name) + (upper ? "_hi" : "_lo")).c_str(), width_);
    solver_.add(upper ? z3::sle(letter(name), b) : z3::sle(b, letter(name)));
    return b;
  }

  z3::expr quotient(const z3::expr& a, const z3::expr& b) {
    const z3::expr zero = context_.bv_val(0, width_), one = context_.bv_val(1, width_);
    const z3::expr q = a / b;  // signed, truncates
    const z3::expr down = z3::srem(a, b) != zero && ((a < 0) != (b < 0));
    return z3::ite(b == zero, zero, z3::ite(down, q - one, q));
  }
  z3::expr remainder(const z3::expr& a, const z3::expr& b) {
    return z3::ite(b == 0, context_.bv_val(0, width_), z3::smod(a, b));
  }

  z3::expr value(const UPat& p) {
    switch (p->kind) {
      case Kind::Var:
      case Kind::Integer:
      case Kind::Constant:
        return letter(p->letter);
      case Kind::Literal:
        if (p->literal.is_bool()) return context_.bool_val(p->literal.as_bool());
        return context_.bv_val(p->literal.as_int(), width_);
      default:
        break;
    }
    const z3::expr a = value(p->src[0]), b = value(p->src[1]);
    switch (p->op) {
      case Op::Add:
        return a + b;
      case Op::Mul:
        return a.is_bool() ? a && b : a * b;
      case Op::Max:
        return z3::ite(a > b, a, b);
      case Op::CmpLt:
        return a < b;
      case Op::CmpNe:
        return a != b;
      case Op::FloorDiv:
        return quotient(a, b);
      case Op::FloorMod:
        return remainder(a, b);
      case Op::Where:
        return z3::ite(a, b, value(p->src[2]));
      default:
        throw std::runtime_error("no meaning of " + to_string(p));
    }
  }

  z3::expr no_overflow(const UPat& p) {
    if (p->kind != Kind::Op || (p->op != Op::Add && p->op != Op::Mul)) return context_.bool_val(true);
    const z3::expr a = value(p->src[0]), b = value(p->src[1]);
    const z3::expr own = p->op == Op::Add ? z3::bvadd_no_overflow(a, b, true) && z3::bvadd_no_underflow(a, b)
                                          : z3::bvmul_no_overflow(a, b, true) && z3::bvmul_no_underflow(a, b);
    return own && no_overflow(p->src[0]) && no_overflow(p->src[1]);
  }

  // Formulas of conditions are over the integers: twice the width holds them.
  z3::expr number(const UPat& p) {
    switch (p->kind) {
      case Kind::VMin:
      case Kind::VMax:
        return wide(bound(p->src[0]->letter, p->kind == Kind::VMax));
      case Kind::Integer:
      case Kind::Literal:
        return wide(value(p));
      default:
        break;
    }
    const z3::expr a = number(p->src[0]), b = number(p->src[1]);
    switch (p->op) {
      case Op::Mul:
        return a * b;
      case Op::Add:
        return a + b;
      case Op::FloorMod:
        return z3::smod(a, b);
      default:
        throw std::runtime_error("no number for " + to_string(p));
    }
  }
  z3::expr wide(const z3::expr& e) { return z3::sext(e, width_); }

  z3::expr truth(const UPat& p) {
    switch (p->kind) {
      case Kind::And:
        return truth(p->src[0]) && truth(p->src[1]);
      case Kind::LessEqual:
        if (mentions_terms(p)) return context_.bool_val(true);  // says nothing of values
        return number(p->src[0]) <= number(p->src[1]);
      case Kind::Equal:
        return number(p->src[0]) == number(p->src[1]);
      case Kind::Exact:
        return no_overflow(p->src[0]);
      case Kind::Fits: {
        const z3::expr v = number(p->src[0]);
        return v == wide(v.extract(width_ - 1, 0));
      }
      default:
        return number(p->src[0]) < number(p->src[1]);
    }
  }
  bool mentions_terms(const UPat& p) {
    return p->kind == Kind::Terms || std::ranges::any_of(p->src, [&](const UPat& s) { return mentions_terms(s); });
  }

  unsigned width_;
  z3::context context_;
  z3::solver solver_;
  std::set<char> bools_;
};

bool divides(const UPat& p) {
  return (p->kind == Kind::Op && (p->op == Op::FloorDiv || p->op == Op::FloorMod)) ||
         std::ranges::any_of(p->src, divides);
}
bool has_float(const UPat& p) {
  return (p->kind == Kind::Literal && p->literal.is_float()) || std::ranges::any_of(p->src, has_float);
}

void prove(const Rule& rule) {
  for (const UPat& before : variants(rule.before)) {
    Prover prover(divides(before) ? 5 : 32);
    Rule ordered = rule;
    ordered.before = before;
    const z3::check_result r = prover.counterexample(ordered);
    EXPECT_EQ(r, z3::unsat) << to_string(rule) << "\n" << (r == z3::sat ? prover.model() : "undecided");
  }
}

TEST(Z3, RulesThatAreExpressions) {
  int proved = 0;
  for (const Rule& rule : symbolic_rules().rules()) {
    if (rule.function || has_float(rule.before)) continue;
    prove(rule);
    proved++;
  }
  EXPECT_GE(proved, 18);
}

// What the rules that are functions rest on.
std::vector<Rule> identities() {
  const UPat x = var('x'), y = var('y'), z = var('z'), c = integer('c'), d = integer('d'), e = integer('e');
  const UPat positive = 0 < c;
  return {
      {"div-sum", (x * c + y) / c, x + y / c, positive && exact(x * c + y)},
      {"div-sum", (x * c + (y * c + z)) / c, (x + y) + z / c, positive && exact(x * c + (y * c + z))},
      {"div-sum", (x + d) / c, d / c + (x + d % c) / c, positive && exact(x + d) && exact(x + d % c)},
      {"mod-sum", (x * c + y) % c, y % c, positive && exact(x * c + y)},
      {"mod-sum", (x + d) % c, (x + d % c) % c, positive && exact(x + d) && exact(x + d % c)},
      {"div-common-factor", (x * c + y) / (c * d), x / d,
       positive && 0 < d && exact(x * c + y) && fits(c * d) && 0 <= vmin(y) && vmax(y) < c},
      {"ravel-of-unravel", (y / c) * (c * d) + (y % c) * d, y * d, positive},
      {"ravel-of-unravel", (z / (e * c)) * (c * d) + ((z / e) % c) * d, (z / e) * d, positive && 0 < e && fits(e * c)},
  };
}

TEST(Z3, IdentitiesBehindTheRulesThatAreFunctions) {
  std::set<std::string> covered = {"fold-constants", "cast-to-own-dtype", "single-value"};  // no algebra in them
  for (const Rule& rule : identities()) {
    prove(rule);
    covered.insert(rule.name);
  }
  for (const Rule& rule : symbolic_rules().rules())
    EXPECT_TRUE(!rule.function || covered.contains(rule.name)) << rule.name << " rests on no identity";
}

// The prover can say no: rules that hold for integers, or for positive numbers, only.
TEST(Z3, FindsTheHoleInAWrongRule) {
  const UPat x = var('x'), y = var('y'), c = integer('c'), d = integer('d');
  const Rule wrong[] = {
      {"wraps", (x * c) / c, x, 0 < c},
      {"wraps", (x * c + y) / c, x + y / c, 0 < c},
      {"divisor wraps", (x / c) / d, x / (c * d), 0 < c && 0 < d},
      {"negative", x % c, x, vmax(x) < c},
      {"negative", (x % c) / d, (x / d) % (c / d), c % d == 0},
      {"comparison", (x + c) < y, x < (y + -1), c == 1},
  };
  for (const Rule& rule : wrong) EXPECT_EQ(Prover(5).counterexample(rule), z3::sat) << to_string(rule);
}

}  // namespace
}  // namespace uopc
#endif
