// The choices that OPT >= 1 makes: loops, layouts, and indices without divisions.
#include <gtest/gtest.h>

#include "passes/hand_opt.hpp"
#include "passes/linear_form.hpp"
#include "passes/pack_operands.hpp"
#include "passes/tighten_indices.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

constexpr Machine kAvx2{8, 16, 2}, kAvx512{16, 32, 1}, kSse{4, 16, 1};

std::string choice(UOp value, const Machine& machine) {
  return to_string(hand_opt_choice(value, as_program(value, {}, LowerForm::Lanes), machine));
}

// (m, k) by (k, n), the second stored (n, k) where `turned`.
UOp product(Graph& g, int64_t m, int64_t n, int64_t k, bool turned) {
  const UOp a = g.buffer(m * k, DType::F32, 0).reshape({m, 1, k}).expand({m, n, k});
  const UOp b = g.buffer(n * k, DType::F32, 1);
  const UOp rows = turned ? b.reshape({n, k}) : b.reshape({k, n}).permute({1, 0});
  return (a * rows.reshape({1, n, k}).expand({m, n, k})).reduce(Op::Add, 1);
}

TEST(HandOpt, FillsTheRegistersWithATile) {
  Graph g;
  const UOp x = product(g, 96, 256, 64, false);
  EXPECT_EQ(choice(x, kAvx2), "Opts(upcast={0: 6, 1: 16}, thread=1, unroll=1, tile={}, gpu=False, local={})");
  EXPECT_EQ(choice(x, kAvx512), "Opts(upcast={0: 6, 1: 64}, thread=None, unroll=1, tile={}, gpu=False, local={})");
  EXPECT_EQ(choice(x, kSse), "Opts(upcast={0: 6, 1: 8}, thread=None, unroll=1, tile={}, gpu=False, local={})");
}

TEST(HandOpt, LeavesAloneWhatItCannotLoadAsVectors) {
  Graph g;
  const UOp narrow = g.buffer(300, DType::F32, 0).reshape({100, 3}).permute({1, 0}).reduce(Op::Add, 1);
  EXPECT_EQ(choice(narrow, kAvx2), to_string(Opts()));
  EXPECT_EQ(choice(g.buffer(100, DType::F32, 0).exp2(), kAvx2), to_string(Opts()));
}

TEST(HandOpt, SplitsTheChainOfAMaximum) {
  Graph g;
  const auto rows = [&](int64_t n) { return g.buffer(3 * n, DType::F32, 0).reshape({3, n}).reduce(Op::Max, 1); };
  EXPECT_NE(choice(rows(24), kAvx2).find("unroll=8"), std::string::npos);
  EXPECT_NE(choice(rows(12), kAvx2).find("unroll=4"), std::string::npos);
  EXPECT_NE(choice(rows(13), kAvx2).find("unroll=1"), std::string::npos);
}

TEST(HandOpt, ReductionsRunAsLanesByTheirSizeAlone) {
  Graph g;
  const auto unroll = [&](int64_t n, const Machine& m) {
    const UOp x = g.buffer(3 * n, DType::F32, 0).reshape({3, n});
    const UOp value = (x * g.buffer(n, DType::F32, 1).reshape({1, n}).expand({3, n})).reduce(Op::Add, 1);
    return hand_opt_choice(value, as_program(value, {}, LowerForm::Lanes), m).unroll;
  };
  for (const Machine& m : {kAvx2, Machine{}}) {
    EXPECT_EQ(unroll(31, m), 1);
    EXPECT_EQ(unroll(32, m), 16);
    EXPECT_EQ(unroll(127, m), 16);
    EXPECT_EQ(unroll(128, m), 32);
    EXPECT_EQ(unroll(1000, m), 64);
  }
}

TEST(HandOpt, KeepsTheOrderOfAFloatSumBesideAMaximum) {
  Graph g;
  const UOp x = g.buffer(512, DType::F32, 0).reshape({8, 64});
  EXPECT_NE(choice(x.reduce(Op::Max, 1) + (x * x).reduce(Op::Add, 1), kAvx2).find("unroll=1"), std::string::npos);
}

// Lowering checks the reductions of the value, also those that simplification removes from the plain program.
TEST(HandOpt, UnrollsWhatDividesEveryReduction) {
  Graph g;
  const UOp x = g.buffer(512, DType::F32, 0).reshape({8, 64}), y = g.buffer(8 * 63, DType::F32, 1).reshape({8, 63});
  const UOp value = x.reduce(Op::Max, 1) + (y.cast(DType::I32).reduce(Op::Add, 1) * 0).cast(DType::F32);
  const Opts opts = hand_opt_choice(value, as_program(value, {}, LowerForm::Lanes), kAvx2);
  EXPECT_NO_THROW(as_program(value, opts, LowerForm::Lanes));
}

TEST(PackOperands, StagesWhatLanesWouldGather) {
  Graph g;
  const auto staged = [&](UOp root) {
    std::vector<Shape> shapes;
    const UOp packed = pack_operands(std::span(&root, 1), kAvx2).front();
    for (UOp u : toposort(packed))
      if (u.is(Op::Stage)) shapes.push_back(u.shape());
    return shapes;
  };
  EXPECT_EQ(staged(product(g, 64, 67, 71, true)), (std::vector<Shape>{{5, 71, 16}}));
  EXPECT_EQ(staged(product(g, 64, 64, 71, false)), std::vector<Shape>{}) << "rows of 64 lie close together";
  EXPECT_EQ(staged(product(g, 64, 512, 64, false)), (std::vector<Shape>{{32, 64, 16}})) << "rows of 512 do not";
  EXPECT_EQ(staged(product(g, 8, 8, 8, true)), std::vector<Shape>{}) << "too small to pay";
  EXPECT_EQ(staged(product(g, 2, 512, 512, true)), std::vector<Shape>{}) << "read twice only";
}

TEST(TightenIndices, TakesTheDivisionsOutOfWindows) {
  Graph g;
  const UOp k = g.range_(3, 0), x = g.range_(26, 1);
  const UOp flat = k * 29 + x;
  EXPECT_EQ(simplify(tighten_indices(flat.floormod(g.constant(28)))), simplify(k + x));
  EXPECT_EQ(simplify(tighten_indices(flat.floordiv(g.constant(29)))), simplify(k));
  const UOp wide = g.range_(28, 1);  // 2 + 27 is past 28
  const UOp kept = (k * 29 + wide).floormod(g.constant(28));
  EXPECT_EQ(tighten_indices(kept), kept);
}

TEST(LinearForm, CollectsFactors) {
  Graph g;
  const UOp a = g.range_(8, 0), b = g.range_(8, 1);
  const auto form = linear_form((a * 3 + b) * 4 + a + 7);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->factor(a), 13);
  EXPECT_EQ(form->factor(b), 4);
  EXPECT_EQ(form->constant, 7);
  UOp long_sum = a;
  for (int i = 0; i < 200; i++) long_sum = long_sum + b.floordiv(g.constant(i + 2));
  EXPECT_FALSE(linear_form(long_sum));
}

}  // namespace
}  // namespace uopc
