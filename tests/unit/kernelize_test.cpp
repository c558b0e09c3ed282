// make_plan: the texts of the appendix, where graphs are cut, and what may be written in place.
#include "uopc/plan.hpp"

#include <gtest/gtest.h>

#include "golden.hpp"
#include "uopc/passes.hpp"
#include "uopc/uir.hpp"

namespace uopc {
namespace {

UOp softmax(UOp x) {
  const Shape row{x.shape()[0], 1};
  const UOp max = x.reduce(Op::Max, 1).reshape(row).broadcast_to(x.shape());
  const UOp e = ((x - max) * 1.4426950408889634).exp2();
  const UOp sum = e.reduce(Op::Add, 1).reshape(row).broadcast_to(x.shape());
  return e / sum;
}

TEST(MakePlan, CutsAtAStage) {
  const auto c = golden::read("plan_stage");
  Graph g;
  EXPECT_EQ(to_string(make_plan({parse(g, c.at("uir"))}).plan), c.at("plan"));
}

TEST(MakePlan, SoftmaxIsThreeKernels) {
  const auto c = golden::read("softmax_3x4_opt0");
  Graph g;
  const Plan plan = make_plan({softmax(g.buffer(12, DType::F32, 7).reshape({3, 4}))}).plan;
  std::string text;
  for (const PlanKernel& k : plan.kernels) text += render_c_body(k.program, k.name);
  EXPECT_EQ(text, c.at("kernels"));
  EXPECT_EQ(plan.temps, (std::vector<PlanBuffer>{{DType::F32, 3}, {DType::F32, 3}}));
  EXPECT_EQ(plan.outs, (std::vector<PlanBuffer>{{DType::F32, 12}}));
}

size_t kernels(UOp value, int opt) {
  const PlanResult r{value, {}};
  return make_plan(std::span(&r, 1), {opt}).plan.kernels.size();
}

TEST(MakePlan, LayerNormIsAtMostFourKernels) {
  for (int opt : {0, 1, 2}) {
    Graph g;
    const UOp x = g.buffer(96, DType::F32, 0).reshape({4, 24});
    const auto mean = [&](UOp u) { return (u.reduce(Op::Add, 1) * (1.0 / 24)).reshape({4, 1}).broadcast_to({4, 24}); };
    const UOp centered = x - mean(x);
    const UOp normal = centered / (mean(centered * centered) + 1e-5).sqrt();
    const UOp scale = g.buffer(24, DType::F32, 1), shift = g.buffer(24, DType::F32, 2);
    EXPECT_LE(kernels(normal * scale.broadcast_to({4, 24}) + shift.broadcast_to({4, 24}), opt), 4u) << "opt " << opt;
  }
}

TEST(MakePlan, SoftmaxIsThreeKernelsAndOneFromLevelOneOn) {
  Graph g;
  const UOp x = softmax(g.buffer(12, DType::F32, 0).reshape({3, 4}));
  EXPECT_EQ(kernels(x, 0), 3u);
  EXPECT_EQ(kernels(x, 1), 1u);
  EXPECT_EQ(kernels(x, 2), 1u);
}

TEST(MakePlan, AForwardPassIsAtMostTwoKernelsALayer) {
  constexpr int64_t kLayers = 6, kBatch = 8, kWidth = 16;
  for (int opt : {0, 1, 2}) {
    Graph g;
    UOp x = g.buffer(kBatch * kWidth, DType::F32, 0).reshape({kBatch, kWidth});
    for (int64_t i = 0; i < kLayers; i++) {
      const Shape cube{kBatch, kWidth, kWidth};
      const UOp w = g.buffer(kWidth * kWidth, DType::F32, 2 * i + 1).reshape({1, kWidth, kWidth}).expand(cube);
      const UOp product = (x.reshape({kBatch, 1, kWidth}).expand(cube) * w).reduce(Op::Add, 1);
      const UOp y = product + g.buffer(kWidth, DType::F32, 2 * i + 2).broadcast_to({kBatch, kWidth});
      x = y / ((y * -1.702).exp2() + 1.0);
    }
    EXPECT_LE(kernels(x, opt), static_cast<size_t>(2 * kLayers)) << "opt " << opt;
    EXPECT_GE(kernels(x, opt), opt == 0 ? static_cast<size_t>(kLayers) : 1u);
  }
}

// The gradient below a relu: its select has no room in the inner loop of the product that reads it.
TEST(MakePlan, AnOperandOfALargeProductIsMadeBeforeItFromLevelOneOn) {
  constexpr int64_t kRows = 64, kDepth = 64;
  const auto kernels_of_product = [&](int64_t columns, bool guarded, int opt) {
    Graph g;
    const UOp y = g.buffer(kRows * kDepth, DType::F32, 0).reshape({kRows, kDepth});
    const UOp seed = g.buffer(kRows * kDepth, DType::F32, 1).reshape({kRows, kDepth});
    const UOp left = guarded ? y.lt(0.5).where(seed, seed.const_like(0.0)) : seed;
    const Shape cube{kRows, columns, kDepth};
    const UOp right = g.buffer(columns * kDepth, DType::F32, 2).reshape({1, columns, kDepth}).expand(cube);
    return kernels((left.reshape({kRows, 1, kDepth}).expand(cube) * right).reduce(Op::Add, 1), opt);
  };
  EXPECT_EQ(kernels_of_product(64, true, 1), kernels_of_product(64, false, 1) + 1);
  EXPECT_EQ(kernels_of_product(32, true, 1), kernels_of_product(32, false, 1)) << "read too seldom";
  EXPECT_EQ(kernels_of_product(64, true, 0), kernels_of_product(64, false, 0));
}

TEST(MakePlan, AssignsInPlaceWhereEachElementIsReadAtTheIndexThatIsWritten) {
  Graph g;
  const UOp b = g.buffer(8, DType::F32, 0), other = g.buffer(8, DType::F32, 1);
  const PlanResult r{b * 2.0 + other, b};
  const auto p = make_plan(std::span(&r, 1));
  ASSERT_EQ(p.plan.kernels.size(), 1u);
  EXPECT_EQ(p.plan.kernels[0].refs, (std::vector<PlanRef>{{PlanRef::Kind::In, 0}, {PlanRef::Kind::In, 1}}));
  EXPECT_EQ(p.inputs, (std::vector<UOp>{b, other}));
  EXPECT_TRUE(p.plan.temps.empty());
  EXPECT_TRUE(p.plan.outs.empty());
}

TEST(MakePlan, AssignsThroughATemporaryOtherwise) {
  Graph g;
  const UOp b = g.buffer(8, DType::F32, 0);
  const PlanResult r{b.reshape({2, 4}).permute({1, 0}).reshape({8}), b};
  const auto p = make_plan(std::span(&r, 1));
  ASSERT_EQ(p.plan.kernels.size(), 2u) << to_string(p.plan);
  EXPECT_EQ(p.plan.temps.size(), 1u);
  EXPECT_EQ(p.plan.kernels[1].refs, (std::vector<PlanRef>{{PlanRef::Kind::Tmp, 0}, {PlanRef::Kind::In, 0}}));
}

TEST(MakePlan, SwapsThroughOneTemporary) {
  Graph g;
  const UOp a = g.buffer(8, DType::F32, 0), b = g.buffer(8, DType::F32, 1);
  const PlanResult r[] = {{b + 1.0, a}, {a + 2.0, b}};
  const auto p = make_plan(r);
  EXPECT_EQ(p.plan.kernels.size(), 3u) << to_string(p.plan);
  EXPECT_EQ(p.plan.temps.size(), 1u);
}

}  // namespace
}  // namespace uopc
