// Every rule of the table by itself: both sides have the same value wherever its condition holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "passes/symbolic.hpp"
#include "scalar_eval.hpp"
#include "uopc/passes.hpp"
#include "uopc/uir.hpp"

namespace uopc {
namespace {

// `pattern` with random operands: nothing where they do not fit together.
class Instances {
 public:
  Instances(Graph& graph, test::RandomExprs& random) : graph_(graph), random_(random) {}

  std::optional<UOp> of(const UPat& pattern) {
    letters_.clear();
    try {
      return make(pattern, random_.dtype());
    } catch (const Error&) {
      return {};
    }
  }

 private:
  UOp make(const UPat& pattern, DType d) {
    const PatNode& p = *pattern;
    switch (p.kind) {
      case PatNode::Kind::Var:
        return letter(p.letter, [&] { return variable(d); });
      case PatNode::Kind::Integer:
        return letter(p.letter,
                      [&] { return graph_.constant(random_.below(3) ? 1 + random_.below(24) : random_.integer()); });
      case PatNode::Kind::Constant:
        return letter(p.letter, [&] { return random_.constant(d); });
      case PatNode::Kind::Literal:
        return graph_.constant(p.literal);
      case PatNode::Kind::Any:
        return alu(p.ops);
      default:
        break;
    }
    const bool index_math = p.op == Op::FloorDiv || p.op == Op::FloorMod;
    std::vector<UOp> src;
    for (size_t i = 0; i < p.src.size(); i++) {
      const bool condition = p.op == Op::Where && i == 0;
      src.push_back(make(p.src[i], condition ? DType::Bool : index_math ? DType::I32 : d));
    }
    if (p.op == Op::Cast) return graph_.make(p.op, src, random_.below(2) ? random_.dtype() : src[0].dtype());
    return graph_.make(p.op, src);
  }
  UOp variable(DType d) {
    if (d != DType::I32 || random_.below(3) == 0) return random_.expr(d, static_cast<int>(random_.below(3)));
    const UOp flat = random_.index_sum(1 + random_.below(12));
    switch (random_.below(4)) {
      case 0:
        return flat + graph_.constant(static_cast<int64_t>(random_.below(60)) - 30);
      case 1: {  // taken apart and put together
        const int64_t b = 1 + random_.below(6), k = 1 + random_.below(3);
        const UOp y = random_.below(2) ? flat : flat.floordiv(1 + random_.below(5));
        const UOp quotient =
            y.is(Op::FloorDiv) && random_.below(2) ? y.src(0).floordiv(y.src(1).value().as_int() * b) : y.floordiv(b);
        const UOp join[] = {quotient * (k * b), (y % b) * k};
        return random_.below(2) ? join[0] + join[1] : join[1] + flat + join[0];
      }
      default:
        return flat;
    }
  }
  UOp alu(OpSet ops) {
    for (;;) {
      const UOp u = random_.expr(random_.dtype(), 1 + static_cast<int>(random_.below(2)));
      if (ops.has(u.op())) return u;
    }
  }
  template <class F>
  UOp letter(char name, F&& f) {
    for (auto [n, u] : letters_)
      if (n == name) return u;
    const UOp u = f();
    letters_.emplace_back(name, u);
    return u;
  }

  Graph& graph_;
  test::RandomExprs& random_;
  std::vector<std::pair<char, UOp>> letters_;
};

const std::string kUnsafe = "order-unsafe-for-nan";

bool has_nan(UOp u, const test::Env& env) {
  for (UOp s : u.src())
    if (std::isnan(test::value_of(s, env).as_float())) return true;
  return false;
}

class EachRule : public testing::TestWithParam<int> {};

TEST_P(EachRule, KeepsTheValue) {
  const Rule& rule = symbolic_rules().rules()[GetParam()];
  const PatternMatcher alone({{"alone", {rule}}});
  Graph graph;
  test::RandomExprs random(graph, 1000 + GetParam());
  Instances instances(graph, random);
  Bounds bounds;
  int applied = 0;
  for (int i = 0; i < 60'000 && applied < 400; i++) {
    const auto before = instances.of(rule.before);
    if (!before) continue;
    const auto [after, number] = alone.rewrite(*before, bounds);
    if (!after) continue;
    applied++;
    for (int k = 0; k < 12; k++) {
      const test::Env env = random.bindings();
      const Scalar want = test::value_of(*before, env), got = test::value_of(after, env);
      if (rule.group == kUnsafe && (want.as_float() == 0 || has_nan(*before, env))) continue;
      ASSERT_TRUE(test::same_value(want, got)) << to_string(rule) << "\n" << to_uir(*before) << "->\n" << to_uir(after);
    }
  }
  EXPECT_GE(applied, 200) << to_string(rule);
}

INSTANTIATE_TEST_SUITE_P(Table, EachRule, testing::Range(0, static_cast<int>(symbolic_rules().rules().size())),
                         [](const auto& info) {
                           std::string name = symbolic_rules().rules()[info.param].name;
                           for (char& ch : name) ch = ch == '-' ? '_' : ch;
                           return name;
                         });

TEST(Rules, HaveNamesOfTheirOwn) {
  for (const Rule& a : symbolic_rules().rules()) {
    int same = 0;
    for (const Rule& b : symbolic_rules().rules()) same += a.name == b.name;
    EXPECT_EQ(same, 1) << a.name;
    EXPECT_FALSE(a.group.empty());
  }
}

TEST(Rules, TogetherKeepTheValueAndLeaveNothingToDo) {
  std::vector<RuleGroup> groups;
  for (const Rule& rule : symbolic_rules().rules())
    if (rule.group != kUnsafe) groups.push_back({rule.group, {rule}});
  const PatternMatcher safe(std::move(groups));
  std::vector<int64_t> fired;
  for (uint32_t seed = 0; seed < 40; seed++) {
    Graph graph;
    test::RandomExprs random(graph, seed);
    for (int i = 0; i < 100; i++) {
      UOp u = random.expr(random.dtype(), 2 + static_cast<int>(random.below(5)));
      if (i % 4 == 0) {
        const int64_t c = 1 + random.below(12);
        const UOp flat = random.index_sum(c);
        u = (flat.floordiv(c) * c + flat % c).floordiv(1 + random.below(12)) + random.index_sum(c) % c;
      }
      const UOp canonical = graph_rewrite(u, symbolic_rules(), {.fired = &fired});
      ASSERT_EQ(simplify(u), canonical);
      ASSERT_EQ(simplify(canonical), canonical) << to_uir(u) << "->\n" << to_uir(canonical);
      const UOp s = graph_rewrite(u, safe);
      for (int k = 0; k < 6; k++) {
        const test::Env env = random.bindings();
        const Scalar want = test::value_of(u, env), got = test::value_of(s, env);
        ASSERT_TRUE(test::same_value(want, got)) << to_uir(u) << "->\n" << to_uir(s);
      }
    }
  }
  // Bounds decide what these would: an i32 whose bounds are one value is a constant before they are tried.
  const std::vector<std::string> covered_by_bounds = {"mul-zero", "div-small", "mod-one", "where-true", "where-false"};
  const auto rules = symbolic_rules().rules();
  for (size_t i = 0; i < rules.size(); i++) {
    if (std::ranges::find(covered_by_bounds, rules[i].name) != covered_by_bounds.end()) continue;
    EXPECT_GT(fired[i], 0) << "never needed: " << to_string(rules[i]);
  }
}

}  // namespace
}  // namespace uopc
