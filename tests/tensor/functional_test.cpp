#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tensor/numbers.hpp"
#include "uopc/tensor.hpp"

namespace uopc {
namespace {

TEST(Norms, LayerAndRms) {
  Context ctx;
  const auto x = numbers<32>(24, 1);
  for (int64_t axes = 1; axes <= 3; axes++) {
    const size_t n = axes == 1 ? 4 : axes == 2 ? 12 : 24;
    const auto got = tensor(ctx, x, {2, 3, 4}).layer_norm(axes).to_vector<float>();
    for (size_t r = 0; r < 24; r += n) {
      double mean = 0, var = 0;
      for (size_t i = r; i < r + n; i++) mean += double{x[i]} / static_cast<double>(n);
      for (size_t i = r; i < r + n; i++) var += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
      for (size_t i = r; i < r + n; i++) EXPECT_NEAR(got[i], (x[i] - mean) / std::sqrt(var + 1e-5), 2e-5) << axes;
    }
  }
  const auto got = tensor(ctx, x, {6, 4}).rms_norm().to_vector<float>();
  for (size_t r = 0; r < 24; r += 4) {
    double square = 0;
    for (size_t i = r; i < r + 4; i++) square += double{x[i]} * double{x[i]} / 4;
    for (size_t i = r; i < r + 4; i++) EXPECT_NEAR(got[i], x[i] / std::sqrt(square + 1e-6), 2e-5);
  }
  EXPECT_THROW(tensor(ctx, x, {24}).layer_norm(2), Error);
  EXPECT_THROW(tensor(ctx, x, {24}).layer_norm(0), Error);
  EXPECT_THROW(Tensor::scalar(ctx, 1.0).rms_norm(), Error);
}

TEST(Norms, LargeF16) {
  Context ctx;
  const auto x = Tensor::from(ctx, {300.f, -300.f, 300.f, -300.f}, {1, 4}).to_f16();
  for (const Tensor& y : {x.rms_norm(), x.layer_norm()}) {
    EXPECT_EQ(y.dtype(), DType::F16);
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, -1, 1, -1}));
  }
}

TEST(Norms, Batch) {
  Context ctx;
  const auto x = numbers<32>(24, 2), w = numbers<32>(3, 3), b = numbers<32>(3, 4), m = numbers<32>(3, 5);
  const std::vector<float> inv{.5f, 2.f, 1.25f};
  const auto t = tensor(ctx, x, {2, 3, 2, 2});
  const auto scale = tensor(ctx, inv, {3}), mean = tensor(ctx, m, {3});
  const auto full = t.batch_norm(tensor(ctx, w, {3}), tensor(ctx, b, {3}), mean, scale).to_vector<float>();
  const auto bare = t.batch_norm({}, {}, mean, scale).to_vector<float>();
  for (size_t i = 0; i < 24; i++) {
    const size_t c = i / 4 % 3;
    const double y = (double{x[i]} - m[c]) * inv[c];
    EXPECT_NEAR(bare[i], y, 1e-5);
    EXPECT_NEAR(full[i], y * w[c] + b[c], 2e-5);
  }
  const auto four = Tensor::ones(ctx, {1, 4}), square = Tensor::ones(ctx, {2, 2});
  EXPECT_THROW(four.batch_norm(square, square, square, square), Error);
  EXPECT_THROW(Tensor::ones(ctx, {4}).batch_norm({}, {}, four, four), Error);
}

TEST(Dropout, OnlyInTraining) {
  Context ctx;
  const auto x = Tensor::ones(ctx, {20000});
  EXPECT_EQ(x.dropout(.25).to_vector<float>(), std::vector<float>(20000, 1));
  TrainingMode on(ctx);
  const auto y = x.dropout(.25).to_vector<float>();
  const auto dropped = std::count(y.begin(), y.end(), 0.f);
  EXPECT_NEAR(static_cast<double>(dropped), 5000, 6 * std::sqrt(20000 * .25 * .75));
  for (float v : y) EXPECT_NEAR(v, v == 0 ? 0 : 1 / .75, 1e-6);
  EXPECT_NE(y, x.dropout(.25).to_vector<float>());
  EXPECT_EQ(x.dropout(0).to_vector<float>(), std::vector<float>(20000, 1));
  EXPECT_EQ(Tensor::from(ctx, {INFINITY, NAN, -1.f}).dropout(1).to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_THROW(x.dropout(-.1), Error);
  EXPECT_THROW(x.dropout(1.1), Error);
  EXPECT_THROW(Tensor::arange(ctx, 4).dropout(.25), Error);
}

TEST(CrossEntropy, OfRows) {
  Context ctx;
  const auto x = numbers<32>(2 * 3 * 5, 6);
  const std::vector<int32_t> labels{0, 4, 2, 1, 3, 3};
  for (double smoothing : {0.0, 0.1, 1.0}) {
    double want = 0;
    for (size_t r = 0; r < 6; r++) {
      double sum = 0, logs = 0;
      for (size_t c = 0; c < 5; c++) sum += std::exp(double{x[r * 5 + c]});
      for (size_t c = 0; c < 5; c++) logs += x[r * 5 + c] - std::log(sum);
      const double picked = x[r * 5 + static_cast<size_t>(labels[r])] - std::log(sum);
      want -= ((1 - smoothing) * picked + smoothing * logs / 5) / 6;
    }
    const auto loss =
        tensor(ctx, x, {2, 3, 5}).cross_entropy(Tensor::from(ctx, std::span<const int32_t>(labels), {2, 3}), smoothing);
    EXPECT_EQ(loss.shape(), Shape{});
    EXPECT_NEAR(loss.item<float>(), want, 1e-5);
  }
}

TEST(CrossEntropy, SmoothedLabelsOutOfRangeHaveNoLossAndNoGradient) {
  const Context ctx;
  const Tensor x = Tensor::from(ctx, {1.f, 2.f, 3.f, 4.f}, {2, 2}), labels = Tensor::from(ctx, {-1, 2});
  const Tensor loss = x.cross_entropy(labels, 0.1);
  const Tensor g = loss.gradient({x})[0];
  EXPECT_EQ(loss.item<float>(), 0);
  EXPECT_EQ(g.to_vector<float>(), std::vector<float>(4, 0));
}

TEST(CrossEntropy, ImpossibleClassAndLargeLogits) {
  Context ctx;
  const auto label = Tensor::from(ctx, {0});
  EXPECT_NEAR(Tensor::from(ctx, {0.f, -INFINITY, 0.f}, {1, 3}).cross_entropy(label).item<float>(), std::log(2.0), 1e-6);
  EXPECT_NEAR(Tensor::from(ctx, {-1000.f, 1000.f}, {1, 2}).cross_entropy(label).item<float>(), 2000, 1e-2);
  const auto x = Tensor::zeros(ctx, {1, 3});
  EXPECT_THROW(x.cross_entropy(label, 3), Error);
  EXPECT_THROW(x.cross_entropy(label.reshape({1, 1})), Error);
  EXPECT_THROW(x.cross_entropy(label.to_f32()), Error);
}

TEST(BinaryCrossEntropy, StableAndDifferentiable) {
  Context ctx;
  const std::vector<float> x{-1000, -3, -.5f, 0, 0, 2, 1000}, t{0, 1, .25f, 0, 1, 1, 1};
  double want = 0;
  for (size_t i = 0; i < 7; i++)
    want += (std::max(double{x[i]}, 0.0) - double{x[i]} * t[i] + std::log1p(std::exp(-std::abs(double{x[i]})))) / 7;
  const auto a = tensor(ctx, x, {7}), b = tensor(ctx, t, {7});
  const auto loss = a.binary_cross_entropy_with_logits(b);
  const auto slope = loss.gradient({a})[0].to_vector<float>();
  EXPECT_NEAR(loss.item<float>(), want, 1e-5);
  for (size_t i = 0; i < 7; i++) EXPECT_NEAR(slope[i], (1 / (1 + std::exp(-double{x[i]})) - t[i]) / 7, 1e-6) << i;
}

TEST(Losses, GradientReadAfterTheLoss) {
  Context ctx;
  const auto x = Tensor::from(ctx, {1.f, 2.f}), kept = Tensor::from(ctx, {3.f, 4.f});
  const auto loss = (x * kept * Tensor::from(ctx, {5.f, 6.f})).sum();
  const auto slope = loss.gradient({x})[0];
  EXPECT_EQ(loss.item<float>(), 63);
  EXPECT_EQ(slope.to_vector<float>(), (std::vector<float>{15, 24}));

  const auto middle = x.square() * kept, end = middle.sum();
  const auto first = end.gradient({x})[0], second = first.square().sum().gradient({x})[0];
  EXPECT_EQ(middle.to_vector<float>(), (std::vector<float>{3, 16}));
  EXPECT_EQ(end.item<float>(), 19);
  EXPECT_EQ(second.to_vector<float>(), (std::vector<float>{72, 256}));  // d (2 x k)^2 = 8 x k^2
  EXPECT_EQ(first.to_vector<float>(), (std::vector<float>{6, 16}));
}

TEST(Losses, TargetsAreOfTheSameShape) {
  Context ctx;
  const auto x = Tensor::from(ctx, {1.f, 2.f, 3.f}), t = Tensor::from(ctx, {1.f, 0.f, 1.f});
  EXPECT_NEAR(x.mse_loss(t).item<float>(), 8.0 / 3, 1e-6);
  EXPECT_THROW(x.mse_loss(t.reshape({3, 1})), Error);
  EXPECT_THROW(x.binary_cross_entropy_with_logits(t.reshape({3, 1})), Error);
}

TEST(F16, IsSummedInF32AndRoundedOnce) {
  Context ctx;
  const auto ones = Tensor::ones(ctx, {4096}, DType::F16), large = Tensor::full(ctx, {2}, 300.0, DType::F16);
  const auto opposite = Tensor::from(ctx, {300.f, -300.f}).to_f16();
  const auto expect = [](const Tensor& y, double want) {
    EXPECT_EQ(y.dtype(), DType::F16);
    EXPECT_EQ(y.item<double>(), want);
  };
  expect(ones.matmul(ones), 4096);
  expect(large.matmul(opposite), 0);
  expect(large.linear(opposite.reshape({1, 2}), Tensor::full(ctx, {1}, 0.5, DType::F16)), 0.5);
  expect(ones.reshape({1, 4, 32, 32}).conv2d(ones.reshape({1, 4, 32, 32})), 4096);
  expect(large.reshape({1, 2, 1, 1}).conv2d(opposite.reshape({1, 2, 1, 1})), 0);
  expect(opposite.std({}, 0), 300);
  expect(Tensor::from(ctx, {300.f, 0.f, 0.f, 0.f}).to_f16().mse_loss(Tensor::zeros(ctx, {4}, DType::F16)),
         22496);  // 22500
  expect((ones.softmax() - 1.0 / 4096).abs().max(), 0);
  expect(ones.logsumexp(), 9.3203125);  // 1 + 12 ln 2, to 2^-7
}

}  // namespace
}  // namespace uopc
