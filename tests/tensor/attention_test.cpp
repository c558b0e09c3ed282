#include <gtest/gtest.h>

#include <cmath>

#include "tensor/numbers.hpp"
#include "uopc/tensor.hpp"

namespace uopc {
namespace {

constexpr int64_t kBatch = 2, kT = 3, kS = 4, kD = 5, kE = 2;

struct Inputs {
  std::vector<float> q = numbers<64>(kBatch * kT * kD, 1), k = numbers<64>(kBatch * kS * kD, 2),
                     v = numbers<64>(kBatch * kS * kE, 3);
};
// `added` of each (row, column), -inf where it is not seen.
template <class F>
void expect_attention(const Tensor& got, const Inputs& in, F added) {
  const auto y = got.to_vector<float>();
  ASSERT_EQ(got.shape(), (Shape{kBatch, kT, kE}));
  for (int64_t b = 0; b < kBatch; b++)
    for (int64_t t = 0; t < kT; t++) {
      double sum = 0, out[kE] = {};
      for (int64_t s = 0; s < kS; s++) {
        double score = 0;
        for (int64_t d = 0; d < kD; d++)
          score += double{in.q[static_cast<size_t>((b * kT + t) * kD + d)]} *
                   double{in.k[static_cast<size_t>((b * kS + s) * kD + d)]};
        const double p = std::exp(score / std::sqrt(double{kD}) + added(t, s));
        sum += p;
        for (int64_t e = 0; e < kE; e++) out[e] += p * in.v[static_cast<size_t>((b * kS + s) * kE + e)];
      }
      for (int64_t e = 0; e < kE; e++)
        EXPECT_NEAR(y[static_cast<size_t>((b * kT + t) * kE + e)], sum == 0 ? 0 : out[e] / sum, 1e-5) << b << t << e;
    }
}

TEST(CausalMask, IsTrueUpToTheRow) {
  Context ctx;
  EXPECT_EQ(Tensor::causal_mask(ctx, 2, 3).to_vector<int32_t>(), (std::vector<int32_t>{1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(Tensor::causal_mask(ctx, 3, 2).to_vector<int32_t>(), (std::vector<int32_t>{1, 0, 1, 1, 1, 1}));
  EXPECT_EQ(Tensor::causal_mask(ctx, 2, 3).dtype(), DType::Bool);
}

TEST(Attention, Masks) {
  Context ctx;
  const Inputs in;
  const auto q = tensor(ctx, in.q, {kBatch, kT, kD}), k = tensor(ctx, in.k, {kBatch, kS, kD}),
             v = tensor(ctx, in.v, {kBatch, kS, kE});
  const auto attend = [&](const Tensor& mask, bool causal) {
    return Tensor::scaled_dot_product_attention(q, k, v, mask, causal);
  };
  expect_attention(attend({}, false), in, [](int64_t, int64_t) { return 0.0; });
  expect_attention(attend({}, true), in, [](int64_t t, int64_t s) { return s <= t ? 0.0 : -INFINITY; });

  std::vector<float> add = numbers<64>(kT * kS, 4), seen;
  for (int64_t i = 0; i < kT * kS; i++) seen.push_back(i / kS != 1 && i % 3 != 1 ? 1.f : 0.f);
  const auto at = [](const std::vector<float>& m, int64_t t, int64_t s) {
    return double{m[static_cast<size_t>(t * kS + s)]};
  };
  expect_attention(attend(tensor(ctx, add, {kT, kS}), false), in, [&](int64_t t, int64_t s) { return at(add, t, s); });
  expect_attention(attend(tensor(ctx, add, {kT, kS}), true), in,
                   [&](int64_t t, int64_t s) { return s <= t ? at(add, t, s) : -INFINITY; });
  // Row 1 sees nothing.
  expect_attention(attend(tensor(ctx, seen, {kT, kS}).cast(DType::Bool), false), in,
                   [&](int64_t t, int64_t s) { return at(seen, t, s) != 0 ? 0.0 : -INFINITY; });
  for (int64_t i = 0; i < kS; i++) add[static_cast<size_t>(kS + i)] = -INFINITY;
  expect_attention(attend(tensor(ctx, add, {kT, kS}), false), in, [&](int64_t t, int64_t s) { return at(add, t, s); });
}

TEST(Attention, GradientPastARowThatSeesNothing) {
  Context ctx;
  const Inputs in;
  const auto q = tensor(ctx, in.q, {kBatch, kT, kD}), k = tensor(ctx, in.k, {kBatch, kS, kD}),
             v = tensor(ctx, in.v, {kBatch, kS, kE});
  const auto mask = Tensor::from(ctx, {1, 0, 1}).reshape({kT, 1}).cast(DType::Bool);
  const auto loss = Tensor::scaled_dot_product_attention(q, k, v, mask).square().sum();
  const auto slopes = loss.gradient({q, k, v});
  for (const Tensor& g : slopes)
    for (float x : g.to_vector<float>()) EXPECT_TRUE(std::isfinite(x));
  for (float x : slopes[0].narrow(1, 1, 1).to_vector<float>()) EXPECT_EQ(x, 0);
}

TEST(Attention, F16ScoresThatOverflowUnscaled) {
  Context ctx;
  const auto q = Tensor::full(ctx, {2, 64}, 40.0, DType::F16);
  for (const Tensor& mask : {Tensor{}, Tensor::ones(ctx, {2, 2}, DType::Bool)}) {
    const auto y = Tensor::scaled_dot_product_attention(q, q, q, mask);
    EXPECT_EQ(y.dtype(), DType::F16);
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(128, 40));
  }
}

TEST(Attention, DropoutOnlyInTraining) {
  Context ctx;
  const auto q = Tensor::ones(ctx, {64, 8}), v = Tensor::ones(ctx, {64, 1});
  const auto attend = [&] { return Tensor::scaled_dot_product_attention(q, q, v, {}, false, 0.5).to_vector<float>(); };
  for (float y : attend()) EXPECT_NEAR(y, 1, 1e-5);
  TrainingMode on(ctx);
  const auto rows = attend();
  double mean = 0;
  bool changed = false;
  for (float y : rows) mean += y / 64., changed |= std::abs(y - 1) > 1e-3;
  EXPECT_TRUE(changed);
  EXPECT_NEAR(mean, 1, 6. / 64);  // 4096 draws of 0 or 2: deviation 1 / 64
}

TEST(Attention, RefusesWhatDoesNotFit) {
  Context ctx;
  const auto q = Tensor::ones(ctx, {1, 2}), k = Tensor::ones(ctx, {4, 2});
  EXPECT_THROW(Tensor::scaled_dot_product_attention(q, Tensor::ones(ctx, {4, 3}), k), Error);
  EXPECT_THROW(Tensor::scaled_dot_product_attention(q, k, Tensor::ones(ctx, {3, 2})), Error);
  EXPECT_THROW(Tensor::scaled_dot_product_attention(q, k, k, Tensor::ones(ctx, {3, 4}, DType::Bool)), Error);
}

// All scores are 0: each row is the mean of the values.
TEST(Attention, OfKeysWithoutElementsIsTheMean) {
  const Context ctx;
  const Tensor none = Tensor::zeros(ctx, {3, 0}), v = Tensor::from(ctx, {1.f, 2.f, 6.f}, {3, 1});
  EXPECT_EQ(Tensor::scaled_dot_product_attention(none, none, v).to_vector<float>(), std::vector<float>(3, 3));
}

}  // namespace
}  // namespace uopc
