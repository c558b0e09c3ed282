// gradient: identities, selections, what it costs. Values come from `run`.
#include <gtest/gtest.h>

#include <limits>

#include "small_stack.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

UOp vector(Graph& g, std::initializer_list<double> values) {
  std::vector<UOp> parts;
  for (double v : values) parts.push_back(g.constant(v));
  return g.stack(parts);
}

UOp d(UOp root, UOp target) {
  return gradient(root, root.const_like(1.0), std::span(&target, 1))[0];
}
std::string text(UOp u) {
  return to_string(run(u));
}

TEST(Gradient, DetachLetsNothingPass) {
  Graph g;
  const UOp x = vector(g, {1, 2, 3});
  EXPECT_EQ(text(d(x * x.detach(), x)), "[1.0, 2.0, 3.0]");
  EXPECT_EQ(text(d(x * x.stage(), x)), "[2.0, 4.0, 6.0]");
  EXPECT_EQ(text(d(x.detach(), x)), "[0.0, 0.0, 0.0]");
}

TEST(Gradient, TiesShare) {
  Graph g;
  const UOp x = vector(g, {2, 2, 1});
  EXPECT_EQ(text(d(x.reduce(Op::Max, 1), x)), "[0.5, 0.5, 0.0]");
  const UOp y = vector(g, {2, 1, 3});
  EXPECT_EQ(text(d(x.max(y), x)), "[0.5, 1.0, 0.0]");
  EXPECT_EQ(text(d(x.max(y), y)), "[0.5, 0.0, 1.0]");
  EXPECT_EQ(text(d(y.max(x), x)), "[0.5, 1.0, 0.0]");
  EXPECT_EQ(text(d(x.max(x), x)), "[1.0, 1.0, 1.0]");
}

TEST(Gradient, ABranchNotTakenContributesZeroAlsoWhereItsDerivativeIsInfinite) {
  Graph g;
  const UOp x = vector(g, {0, 4}), zero = x.const_like(0.0), at_zero = x.eq(0.0);
  EXPECT_EQ(text(d(at_zero.where(zero, x * x.sqrt()), x)), "[0.0, 3.0]");
  EXPECT_EQ(text(d(at_zero.where(zero, x * x.recip()), x)), "[0.0, 0.0]");
  EXPECT_EQ(text(d(at_zero.where(zero, x.recip()), x)), "[0.0, -0.0625]");
  EXPECT_EQ(text(d(at_zero.where(zero, x.log2() * 0.0 + x), x)), "[0.0, 1.0]");
  EXPECT_EQ(text(d(at_zero.where(zero, x.sqrt()), x)), "[0.0, 0.25]");
  // 2^2000 is infinite, and so is its derivative.
  const UOp big = vector(g, {2000, 1}), small = big.lt(100.0);
  EXPECT_EQ(text(d(small.where(big * 3.0, big.exp2()), big)), "[inf, 3.0]");
  EXPECT_EQ(text(d(small.where(big.exp2() * big, big), big.exp2())), "[0.0, 1.0]");
  EXPECT_EQ(text(d(small.where(big.exp2() * 0.5, big), big)).substr(0, 5), "[1.0,");
}

// A net's loss picks the label of each row by a WHERE: the products below it must stay bare.
TEST(Gradient, AProductBelowABroadcastIsNotGuarded) {
  Graph g;
  const UOp x = vector(g, {2, 3}), w = vector(g, {5, 7}), picks = vector(g, {1, 4}).lt(2.0);
  const UOp dot = (x * w).reduce(Op::Add, 1).reshape({1}).expand({2});
  const UOp grad = d(picks.where(dot, dot.const_like(0.0)), x);
  int guards = 0;
  for (UOp u : toposort(grad)) guards += u.is(Op::Where);
  EXPECT_EQ(guards, 1) << "the branch's own";
  EXPECT_EQ(text(grad), "[5.0, 7.0]");
}

TEST(Gradient, SecondDerivatives) {
  Graph g;
  const UOp x = vector(g, {1, 2, -3});
  const UOp first = d(x * x * x, x);
  EXPECT_EQ(text(first), "[3.0, 12.0, 27.0]");
  EXPECT_EQ(text(d(first, x)), "[6.0, 12.0, -18.0]");
}

TEST(Gradient, OfInnerNodesTheRootRepeatedAndIndependentTargets) {
  Graph g;
  const UOp x = vector(g, {1, 2}), inner = x * 2.0, root = inner * inner, other = vector(g, {7, 8});
  const UOp index = g.stack({g.constant(1), g.constant(2)});
  const UOp targets[] = {inner, x, x, root, other, index};
  const auto got = gradient(root, root.const_like(1.0), targets);
  EXPECT_EQ(text(got[0]), "[4.0, 8.0]");
  EXPECT_EQ(text(got[1]), "[8.0, 16.0]");
  EXPECT_EQ(got[1], got[2]);
  EXPECT_EQ(text(got[3]), "[1.0, 1.0]");
  EXPECT_EQ(text(got[4]), "[0.0, 0.0]");
  EXPECT_EQ(text(got[5]), "[0, 0]");
  EXPECT_EQ(text(d(x.lt(other).cast(DType::F32), x)), "[0.0, 0.0]");
  EXPECT_EQ(text(d(x.cast(DType::I32).cast(DType::F32), x)), "[0.0, 0.0]");
}

TEST(Gradient, PlacesWhatAnIndexTook) {
  Graph g;
  const UOp x = vector(g, {1, 2, 3, 4, 5});
  EXPECT_EQ(text(d(x.index(3) * 2.0, x)), "[0.0, 0.0, 0.0, 2.0, 0.0]");
  const UOp i = g.buffer(1, DType::I32, 0).index(g.constant(0)).load();
  const UOp picked = d(x.index(i) * 2.0, x);
  for (int64_t at = 0; at < 5; at++) {
    const std::pair<UOp, UOp> value{i, g.constant(at)};
    std::string want = "[0.0, 0.0, 0.0, 0.0, 0.0]";
    want[static_cast<size_t>(1 + 5 * at)] = '2';
    EXPECT_EQ(text(substitute(picked, std::span(&value, 1))), want);
  }
}

TEST(Gradient, PlacesWhatIndicesOfTwoAxesTook) {
  Graph g;
  const UOp x = g.buffer(6, DType::F32, 0).reshape({3, 2});
  const UOp i = g.buffer(1, DType::I32, 1).index(g.constant(0)).load();
  const UOp picked = gradient(x.index({i, g.constant(1)}), g.constant(5.0), std::span(&x, 1))[0];
  const std::pair<UOp, UOp> value{i, g.constant(2)};
  EXPECT_EQ(text(substitute(picked, std::span(&value, 1))), "[[0.0, 0.0], [0.0, 0.0], [0.0, 5.0]]");
}

TEST(Gradient, GoesThroughCalls) {
  Graph g;
  const UOp x = vector(g, {1, 2}), p = g.param(0, DType::F32, {2});
  EXPECT_EQ(text(d(g.call(p * p, std::vector<UOp>{x * 3.0}), x)), "[18.0, 36.0]");
}

TEST(Gradient, SumsOfHalfsAreSumsOfFloats) {
  Graph g;
  const UOp x = g.buffer(1, DType::F16, 0), y = g.buffer(4096, DType::F16, 1);
  const UOp grad = d(x.expand({4096}) * y, x);
  EXPECT_EQ(grad.dtype(), DType::F16);
  bool found = false;
  for (UOp u : toposort(grad)) {
    if (!u.is(Op::Reduce)) continue;
    found = true;
    EXPECT_EQ(u.dtype(), DType::F32);
  }
  EXPECT_TRUE(found);
}

TEST(Gradient, IsLinearInTheGraph) {
  Graph g;
  const UOp x = g.buffer(1, DType::F32, 0);
  UOp y = x;
  for (int k = 0; k < 64; k++) y = y + y;
  const size_t before = g.size();
  d(y, x);
  EXPECT_LT(g.size() - before, 200u);
}

TEST(Gradient, OfALongChainOnASmallStack) {
  on_small_stack([] {
    Graph g;
    const UOp x = g.buffer(4, DType::F32, 0);
    UOp y = x;
    for (int k = 0; k < 50'000; k++) y = y.sin() + x;
    const size_t before = g.size();
    EXPECT_EQ(d(y, x).shape(), Shape{4});
    EXPECT_LT(g.size() - before, 100'000u * 10);
  });
}

TEST(Gradient, BuildsOnlyWhatATargetNeeds) {
  Graph g;
  const UOp x = g.buffer(4, DType::F32, 0), y = g.buffer(4, DType::F32, 1);
  UOp beside = y;
  for (int k = 0; k < 1000; k++) beside = beside.sin();
  const UOp root = beside + x;
  EXPECT_EQ(d(root, x), root.const_like(1.0));
}

TEST(Gradient, RefusesWhatHasNone) {
  Graph g, h;
  const UOp x = g.buffer(4, DType::F32, 0), i = g.buffer(4, DType::I32, 1);
  EXPECT_THROW(d(i, i), Error);
  EXPECT_THROW(gradient(x, g.constant(1.0), std::span(&x, 1)), Error);
  const UOp strange = h.buffer(4, DType::F32, 0), none;
  EXPECT_THROW(d(x, strange), Error);
  EXPECT_THROW(d(x, none), Error);
}

TEST(Gradient, OfAMatmulIsTwoPlainLoops) {
  Graph g;
  const UOp a = g.buffer(6, DType::F32, 0), b = g.buffer(12, DType::F32, 1), seed = g.buffer(8, DType::F32, 2);
  const UOp wide_a = a.reshape({2, 1, 3}).expand({2, 4, 3});
  const UOp wide_b = b.reshape({3, 4}).permute({1, 0}).reshape({1, 4, 3}).expand({2, 4, 3});
  const UOp root = (wide_a * wide_b).reduce(Op::Add, 1);
  const UOp targets[] = {a, b};
  const auto got = gradient(root, seed.reshape({2, 4}), targets);
  EXPECT_EQ(render_c_body(lower(got[0], g.buffer(6, DType::F32, 3))),
            R"(void kernel(float* restrict data1, float* restrict data2, float* restrict data3) {
  for (int ridx0 = 0; ridx0 < 6; ridx0++) {
    float acc0;
    acc0 = 0.0f;
    for (int ridx1 = 0; ridx1 < 4; ridx1++) {
      float val1 = acc0;
      float val2 = data2[(((ridx0/3)*4)+ridx1)];
      float val3 = data1[(((ridx0%3)*4)+ridx1)];
      acc0 = (val1+(val2*val3));
    }
    float val4 = acc0;
    data3[ridx0] = val4;
  }
})"
            "\n");
  EXPECT_EQ(render_c_body(lower(got[1], g.buffer(12, DType::F32, 3))),
            R"(void kernel(float* restrict data0, float* restrict data2, float* restrict data3) {
  for (int ridx0 = 0; ridx0 < 12; ridx0++) {
    float acc0;
    acc0 = 0.0f;
    for (int ridx1 = 0; ridx1 < 2; ridx1++) {
      float val1 = acc0;
      float val2 = data2[((ridx1*4)+(ridx0%4))];
      float val3 = data0[((ridx1*3)+(ridx0/4))];
      acc0 = (val1+(val2*val3));
    }
    float val4 = acc0;
    data3[ridx0] = val4;
  }
})"
            "\n");
}

TEST(Gradient, OfAShrinkReadsEachElementOnce) {
  Graph g;
  const UOp x = g.buffer(6, DType::F32, 0), seed = g.buffer(4, DType::F32, 1);
  const UOp got = gradient(x.shrink({{1, 5}}), seed, std::span(&x, 1))[0];
  EXPECT_EQ(render_c_body(lower(got, g.buffer(6, DType::F32, 2))),
            R"(void kernel(float* restrict data1, float* restrict data2) {
  for (int ridx0 = 0; ridx0 < 6; ridx0++) {
    int alu1 = (ridx0+3);
    int alu2 = (alu1/4);
    float val3 = data1[(alu1%4)];
    data2[ridx0] = ((alu2<1)?0.0f:((alu2<2)?val3:0.0f));
  }
})"
            "\n");
}

}  // namespace
}  // namespace uopc
