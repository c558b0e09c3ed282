// The rules of arithmetic. Their order is part of their meaning: the C text of every program depends on it. Integer
// rules hold in wrapping arithmetic or say what must be known; float rules hold for NaN, infinities and signed zeros.
#include "passes/symbolic.hpp"

#include "ir/fold.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

UOp fold_constants(const Match& m) {
  Scalar values[3];
  size_t n = 0;
  for (UOp s : m.root.src()) {
    if (!s.is_const()) return {};
    values[n++] = s.value();
  }
  const auto v = fold(m.root.op(), m.root.dtype(), m.root.src(n - 1).dtype(), std::span(values, n));
  return v ? m.graph().constant(*v) : UOp();
}

UOp cast_to_own_dtype(const Match& m) {
  return m['x'].dtype() == m.root.dtype() ? m['x'] : UOp();
}

UOp single_value(const Match& m) {
  const UOp u = m.root;
  if ((u.dtype() != DType::I32 && u.dtype() != DType::Bool) || !u.shape().empty()) return {};
  const Interval i = m.bounds.of(u);
  if (!i.single()) return {};
  return m.graph().constant(u.dtype() == DType::Bool ? Scalar(i.lo != 0) : Scalar(i.lo));
}

// Past this many terms a product of a sum stays as it is: multiplying out a sum again and again would take time and
// space quadratic in the program.
constexpr int kMaxDistributedTerms = 8;

std::vector<RuleGroup> make_rules() {
  const UPat x = var('x'), y = var('y'), z = var('z');
  const UPat c = integer('c'), d = integer('d');  // i32 constants
  const UPat v = constant('v');                   // any constant

  std::vector<RuleGroup> groups;
  groups.push_back({"fold",
                    {
                        {"fold-constants", any_of(kAlu), fold_constants},
                        {"cast-to-own-dtype", node(Op::Cast, {x}), cast_to_own_dtype},
                        {"single-value", any_of(kAlu), single_value},
                    }});
  groups.push_back({"order",
                    {
                        {"const-right-add", v + x, x + v},
                        {"const-right-mul", v * x, x * v},
                        {"const-right-ne", ne(v, x), ne(x, v)},
                    }});
  // The order of operands decides what MAX gives of a NaN, and of zeros of both signs. The appendix calls it
  // commutative and orders its constants, so a constant is MAX's right operand, wherever the program wrote it.
  groups.push_back({"order-unsafe-for-nan", {{"const-right-max", max(v, x), max(x, v)}}});
  groups.push_back({"identity",
                    {
                        {"where-true", where(true, x, y), x},
                        {"where-false", where(false, x, y), y},
                        {"where-same", where(z, x, x), x},
                        {"add-zero", x + 0, x},
                        {"mul-one", x * 1, x},
                        {"mul-one-float", x * 1.0, x},
                        {"mul-true", x * true, x},
                        {"mul-zero", x * 0, 0},
                    }});
  groups.push_back({"sum",
                    {
                        {"add-consts", (x + c) + d, x + (c + d)},
                        {"const-outward", either_order((x + c) + y), (x + y) + c},
                    }});
  groups.push_back({"product",
                    {
                        {"mul-consts", (x * c) * d, x * (c * d)},
                        {"distribute", (x + y) * c, x * c + y * c, terms(x) + terms(y) <= kMaxDistributedTerms},
                    }});
  groups.push_back(division_rules());
  groups.push_back(ravel_rules());
  return groups;
}

}  // namespace

const PatternMatcher& symbolic_rules() {
  static const PatternMatcher rules(make_rules());
  return rules;
}

UOp simplify(UOp root) {
  return graph_rewrite(root, symbolic_rules());
}

}  // namespace uopc
