// The net must catch mistakes: each test plants one in a rule, in a pass or in front of a back end, and expects that
// some program of the suite's shows it.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "diff/harness.hpp"
#include "diff/random_opts.hpp"
#include "ir/rewrite.hpp"
#include "passes/symbolic.hpp"
#include "uopc/passes.hpp"

namespace uopc::diff {
namespace {

using Change = std::function<UOp(UOp)>;  // of a node whose sources are changed already; null: it stays

UOp changed(UOp root, const Change& change) {
  UOpMap<UOp> result;
  std::vector<UOp> src;
  for (UOp u : toposort(root)) {
    src.clear();
    for (UOp s : u.src()) src.push_back(result.at(s));
    const UOp same = u.graph().make(u.op(), src, u.arg());
    const UOp other = change(same);
    result[u] = other ? other : same;
  }
  return result.at(root);
}

// What the first program that shows the mistake says; empty: none does.
std::string caught(const NetOptions& options, Sample (*generate)(Graph&, uint64_t)) {
  Net net(options);
  for (uint64_t seed = 0; seed < (generate == random_loops ? kLoops : kGraphs); seed++) {
    auto graph = std::make_unique<Graph>();
    const Sample sample = generate(*graph, seed);
    net.add(std::move(graph), sample);
    net.flush();
    if (!net.findings().empty()) return net.findings()[0].where;
  }
  return {};
}

NetOptions quick() {
  NetOptions o;
  o.c = o.jit = false;
  return o;
}

void report(const std::string& finding) {
  EXPECT_NE(finding, "") << "no program shows the mistake";
  testing::Test::RecordProperty("finding", finding);
}

// ---- rules ---------------------------------------------------------------------------------------------------------

// The product's rules with `rule` in the place of the one of its name, or before all where there is none.
PatternMatcher rules_with(const Rule& rule) {
  std::vector<Rule> rules(symbolic_rules().rules().begin(), symbolic_rules().rules().end());
  const auto at = std::ranges::find(rules, rule.name, &Rule::name);
  if (at != rules.end()) {
    *at = rule;
  } else {
    rules.insert(rules.begin(), rule);
  }
  return PatternMatcher({{"changed", rules}});
}

void expect_rule_caught(const Rule& rule) {
  const PatternMatcher rules = rules_with(rule);
  NetOptions loops = quick(), graphs = quick();
  loops.simplify = [&](UOp program) { return graph_rewrite(program, rules); };
  graphs.lower = [&](UOp value, UOp out) { return graph_rewrite(lower(value, out), rules); };
  const std::string finding = caught(loops, random_loops);
  report(finding.empty() ? caught(graphs, random_graph) : finding);
}

const UPat x = var('x'), y = var('y'), z = var('z'), c = integer('c'), d = integer('d'), v = constant('v');

TEST(Mutants, SmallModuloWithoutItsUpperBound) {
  expect_rule_caught({"mod-small", x % c, x, 0 <= vmin(x)});
}
TEST(Mutants, SmallDivisionWithItsBoundOffByOne) {
  expect_rule_caught({"div-small", x / c, UPat(0), 0 <= vmin(x) && vmax(x) <= c});
}
TEST(Mutants, SmallDivisionOfNegatives) {
  expect_rule_caught({"div-small", x / c, UPat(0), vmax(x) <= 0});
}
TEST(Mutants, NestedModuloWithoutDivisibility) {
  expect_rule_caught({"mod-mod", (x % c) % d, x % d, 0 <= c && 0 <= d});
}
TEST(Mutants, DivisorsOfADivisionAdded) {
  expect_rule_caught({"div-div", (x / c) / d, x / (c + d), 0 <= c && 0 <= d});
}
TEST(Mutants, FactorsAdded) {
  expect_rule_caught({"mul-consts", (x * c) * d, x * (c + d)});
}
TEST(Mutants, DistributionForgetsATerm) {
  expect_rule_caught({"distribute", (x + y) * c, x * c + y});
}
TEST(Mutants, ConstantOfASumForgotten) {
  expect_rule_caught({"add-consts", (x + c) + d, x + c});
}
TEST(Mutants, FloatTimesZero) {
  expect_rule_caught({"float-times-zero", x * 0.0, UPat(0.0)});
}
TEST(Mutants, FloatPlusZero) {
  expect_rule_caught({"float-plus-zero", x + 0.0, x});
}
TEST(Mutants, NothingDiffersFromItself) {
  expect_rule_caught({"ne-itself", ne(x, x), UPat(false)});
}
TEST(Mutants, ConstantMovedAcrossAComparison) {
  expect_rule_caught({"const-right-lt", v < x, x < v});
}

// ---- passes --------------------------------------------------------------------------------------------------------

void expect_graph_change_caught(const Change& change) {
  NetOptions o = quick();
  o.lower = [&](UOp value, UOp out) { return lower(changed(value, change), out); };
  report(caught(o, random_graph));
}
void expect_program_change_caught(const Change& change) {
  NetOptions o = quick();
  o.lower = [&](UOp value, UOp out) { return changed(lower(value, out), change); };
  report(caught(o, random_graph));
}

TEST(Mutants, PermuteForItsInverse) {
  expect_graph_change_caught([](UOp u) {
    if (!u.is(Op::Permute)) return UOp();
    Shape inverse(u.shape().size());
    for (size_t k = 0; k < inverse.size(); k++)
      inverse[static_cast<size_t>(u.arg<Shape>()[k])] = static_cast<int64_t>(k);
    return u.src(0).permute(inverse).reshape(u.shape());
  });
}
TEST(Mutants, ShrinkOffByOne) {
  expect_graph_change_caught([](UOp u) {
    if (!u.is(Op::Shrink)) return UOp();
    auto bounds = u.arg<ShrinkArg>().bounds;
    for (auto& [begin, end] : bounds)
      if (begin > 0) begin--, end--;
    return u.src(0).shrink(bounds);
  });
}
TEST(Mutants, ReshapeInColumnOrder) {
  expect_graph_change_caught([](UOp u) {
    if (!u.is(Op::Reshape)) return UOp();
    Shape order(u.src(0).shape().size());
    std::iota(order.rbegin(), order.rend(), 0);
    return u.src(0).permute(order).reshape(u.shape());
  });
}
TEST(Mutants, StackBackwards) {
  expect_graph_change_caught([](UOp u) {
    if (!u.is(Op::Stack)) return UOp();
    const std::vector<UOp> parts(std::make_reverse_iterator(u.src().end()),
                                 std::make_reverse_iterator(u.src().begin()));
    return u.graph().stack(parts);
  });
}
TEST(Mutants, MaximumStartsAtZero) {
  expect_program_change_caught([](UOp u) {
    if (!u.is(Op::Store) || !u.src(1).is_const() || u.src(1).dtype() == DType::Bool) return UOp();
    if (u.src(1).value() != dtypes::min(u.src(1).dtype())) return UOp();
    return u.src(0).store(u.src(1).const_like(0));
  });
}
TEST(Mutants, ReductionLeavesOutItsLastStep) {
  expect_program_change_caught([](UOp u) {
    if (!u.is(Op::Range) || u.arg<RangeArg>().kind != AxisType::Reduce || u.src(0).value().as_int() < 1) return UOp();
    return u.graph().range_(u.src(0).value().as_int() - 1, u.arg<RangeArg>().idx, AxisType::Reduce);
  });
}
TEST(Mutants, MaximumWithItsOperandsSwapped) {
  expect_program_change_caught(
      [](UOp u) { return u.is(Op::Max) && is_float(u.dtype()) ? u.src(1).max(u.src(0)) : UOp(); });
}
TEST(Mutants, AccumulatorReadBeforeItIsSet) {
  expect_program_change_caught([](UOp u) {
    if (!u.is(Op::After) || !u.src(1).is(Op::Store)) return UOp();
    return u.src(0).after(u.src().subspan(2));
  });
}
TEST(Mutants, StrideOffByOne) {
  expect_program_change_caught([](UOp u) {
    if (!u.is(Op::Mul) || !u.src(0).is(Op::Range) || !u.src(1).is_const()) return UOp();
    return u.src(0) * (u.src(1).value().as_int() - 1);
  });
}
TEST(Mutants, HalfNotRounded) {
  expect_program_change_caught([](UOp u) {
    if (!u.is(Op::Cast) || u.dtype() != DType::F32 || !u.src(0).is(Op::Cast)) return UOp();
    return u.src(0).src(0).dtype() == DType::F32 ? u.src(0).src(0) : UOp();
  });
}
TEST(Mutants, DivisionTruncates) {
  expect_program_change_caught([](UOp u) {
    if (!u.is(Op::FloorDiv)) return UOp();
    const UOp a = u.src(0);
    return a.lt(0).where(-(-a).floordiv(u.src(1)), u);
  });
}

// ---- programs of Opts ------------------------------------------------------------------------------------------------

void expect_mapped_change_caught(const Change& change) {
  NetOptions o = quick();
  Rng rng(1);
  o.lower = [&](UOp value, UOp out) {
    const LowerForm form = random_form(rng);
    return changed(lower(value, out, random_opts(rng, value, form, false), form), change);
  };
  report(caught(o, random_graph));
}

TEST(Mutants, CopiesShareAnAccumulator) {
  expect_mapped_change_caught([](UOp u) {
    return u.is(Op::Alloc) ? u.graph().alloc(u.arg<ParamArg>().shape[0], u.dtype(), 0) : UOp();
  });
}
TEST(Mutants, WhatAFactorLeavesOverIsForgotten) {
  expect_mapped_change_caught([](UOp u) {
    if (!u.is(Op::Sink) || u.src().size() < 2 || !u.src(1).is(Op::End)) return UOp();
    return u.graph().sink(u.src().subspan(0, u.src().size() - 1));
  });
}
TEST(Mutants, ALaneIsLeftOut) {
  expect_mapped_change_caught([](UOp u) {
    if (!u.is(Op::Range) || u.arg<RangeArg>().kind != AxisType::Upcast) return UOp();
    return u.graph().range_(u.src(0).value().as_int() - 1, u.arg<RangeArg>().idx, AxisType::Upcast);
  });
}
TEST(Mutants, AThreadIsLeftOut) {
  expect_mapped_change_caught([](UOp u) {
    if (!u.is(Op::Range) || u.arg<RangeArg>().kind != AxisType::Thread || u.src(0).is_const(0)) return UOp();
    return u.graph().range_(u.src(0).value().as_int() - 1, u.arg<RangeArg>().idx, AxisType::Thread);
  });
}
TEST(Mutants, ACopyIsStoredTwice) {
  expect_mapped_change_caught([](UOp u) {
    if (!u.is(Op::Sink) || u.src().size() < 2 || !u.src(0).is(Op::Store) || !u.src(1).is(Op::Store)) return UOp();
    std::vector<UOp> stores(u.src().begin(), u.src().end());
    stores[1] = stores[0].src(0).store(stores[1].src(1));
    return u.graph().sink(stores);
  });
}
TEST(Mutants, ATreeForgetsItsLastTerm) {
  expect_mapped_change_caught([](UOp u) {
    if (!u.is(Op::Add) || u.dtype() != DType::I32 || !u.src(1).is(Op::Add)) return UOp();
    return u.src(0) + u.src(1).src(0);
  });
}

// ---- back ends -----------------------------------------------------------------------------------------------------

void expect_back_end_caught(bool jit, const Change& change) {
  NetOptions o = quick();
  o.c = !jit;
  o.jit = jit;
  o.for_back_ends = [&](UOp program) { return changed(program, change); };
  report(caught(o, random_graph));
}

TEST(Mutants, JitReassociates) {
  expect_back_end_caught(true, [](UOp u) {
    if (!u.is(Op::Add) || u.dtype() != DType::F32 || !u.src(0).is(Op::Add)) return UOp();
    return u.src(0).src(0) + (u.src(0).src(1) + u.src(1));
  });
}
TEST(Mutants, JitComparesWithOrEqual) {
  expect_back_end_caught(true, [](UOp u) {
    return u.is(Op::CmpLt) && is_float(u.src(0).dtype()) ? u.src(1).lt(u.src(0)).logical_not() : UOp();
  });
}
TEST(Mutants, CSelectsTheOtherBranch) {
  expect_back_end_caught(false, [](UOp u) { return u.is(Op::Where) ? u.src(0).where(u.src(2), u.src(1)) : UOp(); });
}

}  // namespace
}  // namespace uopc::diff
