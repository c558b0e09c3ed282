// Layers: their names, initial values, forms, and the states that load.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "error_of.hpp"
#include "uopc/error.hpp"
#include "uopc/nn.hpp"

namespace uopc {
namespace {

struct Net {
  nn::Conv2d conv;
  nn::BatchNorm norm;
  std::vector<nn::Linear> layers;
  std::optional<nn::LayerNorm> maybe, none;
  nn::Dropout dropout;
  Tensor scale;
  explicit Net(const Context& ctx)
      : conv(ctx, 2, 4, {3, 3}, {}, false),
        norm(ctx, 4),
        maybe(nn::LayerNorm(ctx, {5})),
        scale(Tensor::ones(ctx, {1})) {
    layers.emplace_back(ctx, 3, 5);
    layers.emplace_back(ctx, 5, 2, false);
  }
  template <class V>
  void visit(V&& v) {
    v("conv", conv);
    v("norm", norm);
    v("layers", layers);
    v("maybe", maybe);
    v("none", none);
    v("dropout", dropout);
    v("scale", scale);
  }
};

TEST(Nn, StateDictNamesAndOrder) {
  const Context ctx;
  Net net(ctx);
  std::vector<std::string> names;
  for (const auto& [name, t] : nn::state_dict(net)) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv.weight", "norm.weight", "norm.bias", "norm.running_mean",
                                             "norm.running_var", "layers.0.weight", "layers.0.bias", "layers.1.weight",
                                             "maybe.weight", "maybe.bias", "scale"}));
  EXPECT_EQ(nn::parameters(net).size(), names.size() - 2);
  EXPECT_EQ(nn::buffers(net).size(), 2u);
}

TEST(Nn, InitialValuesArePyTorchsDistributions) {
  const Context ctx;
  const nn::Linear linear(ctx, 64, 200);
  const nn::Conv2d conv(ctx, 8, 32, {3, 3}, {.groups = 2});
  const nn::Embedding embedding(ctx, 100, 64);
  EXPECT_EQ(linear.weight.shape(), (Shape{200, 64}));
  EXPECT_EQ(conv.weight.shape(), (Shape{32, 4, 3, 3}));
  const auto is_uniform = [](const Tensor& t, double bound) {
    double low = 0, high = 0, square = 0;
    const std::vector<double> v = t.to_vector<double>();
    for (double x : v) {
      low = std::min(low, x);
      high = std::max(high, x);
      square += x * x / static_cast<double>(v.size());
    }
    EXPECT_GE(low, -bound);
    EXPECT_LE(high, bound);
    EXPECT_NEAR(square, bound * bound / 3, bound * bound / 3 * (v.size() > 1000 ? 0.1 : 0.5));
  };
  is_uniform(linear.weight, 1 / std::sqrt(64.));
  is_uniform(linear.bias, 1 / std::sqrt(64.));
  is_uniform(conv.weight, 1 / std::sqrt(36.));
  double mean = 0, square = 0;
  for (double x : embedding.weight.to_vector<double>()) {
    mean += x / 6400;
    square += x * x / 6400;
  }
  EXPECT_NEAR(mean, 0, 0.06);
  EXPECT_NEAR(square, 1, 0.08);
  EXPECT_TRUE(linear.weight.is_realized());
}

TEST(Nn, BatchNormTrainsAndEvaluates) {
  Context ctx;
  nn::BatchNorm norm(ctx, 2);
  const Tensor x = Tensor::from(ctx, {1, 10, 3, 20, 5, 60}, {3, 2});
  {
    const TrainingMode training(ctx);
    const std::vector<float> y = norm(x).to_vector<float>();
    EXPECT_NEAR(y[0], -2 / std::sqrt(8. / 3 + 1e-5), 1e-5);
    EXPECT_NEAR(y[2], 0, 1e-5);
    EXPECT_NEAR(y[1], -20 / std::sqrt(1400. / 3 + 1e-5), 1e-5);
  }
  // 0.9 * 0 + 0.1 * mean, 0.9 * 1 + 0.1 * variance with n - 1.
  EXPECT_NEAR(norm.running_mean.to_vector<float>()[0], 0.3, 1e-6);
  EXPECT_NEAR(norm.running_mean.to_vector<float>()[1], 3, 1e-5);
  EXPECT_NEAR(norm.running_var.to_vector<float>()[0], 1.3, 1e-6);
  EXPECT_NEAR(norm.running_var.to_vector<float>()[1], 70.9, 1e-4);
  EXPECT_NEAR(norm(x).to_vector<float>()[0], (1 - 0.3) / std::sqrt(1.3 + 1e-5), 1e-5);
  EXPECT_NEAR(norm.running_mean.to_vector<float>()[0], 0.3, 1e-6);
  const TrainingMode training(ctx);
  EXPECT_EQ(error_of([&] { norm(x.narrow(0, 0, 1)); }),
            "BatchNorm in training mode: one value a channel in shape (1, 2)");
  EXPECT_EQ(error_of([&] {
              norm(Tensor::zeros(ctx, {2, 3}));
            }),
            "BatchNorm of 2 channels: the operand has shape (2, 3); (N, 2, ...) is wanted");
}

TEST(Nn, RunningStatisticsNobodyAsksForStayOneStepDeep) {
  Context ctx;
  nn::BatchNorm norm(ctx, 2);
  const TrainingMode training(ctx);
  Context::Stats early;
  for (int i = 0; i < 100; i++) {
    if (i == 20) early = ctx.stats();
    norm(Tensor::full(ctx, {64, 2}, 1.0f)).realize();
  }
  EXPECT_LE(ctx.stats().live_bytes, early.live_bytes);
  EXPECT_EQ(ctx.stats().kernels_compiled, early.kernels_compiled);
  EXPECT_NEAR(norm.running_mean.to_vector<float>()[0], 1 - std::pow(0.9, 100), 1e-5);
}

TEST(Nn, DropoutInTrainingOnly) {
  Context ctx;
  const Tensor x = Tensor::ones(ctx, {1000});
  const nn::Dropout dropout{.p = 0.25};
  EXPECT_EQ(dropout(x).to_vector<float>(), std::vector<float>(1000, 1));
  const TrainingMode training(ctx);
  int zeros = 0;
  for (float v : dropout(x).to_vector<float>()) {
    EXPECT_TRUE(v == 0 || std::abs(v - 4.f / 3) < 1e-6f);
    zeros += v == 0;
  }
  EXPECT_NEAR(zeros, 250, 60);
}

TEST(Nn, AttentionSeesTheMask) {
  const Context ctx;
  const nn::MultiHeadAttention attention(ctx, 8, 2, true);
  const Tensor x = Tensor::randn(ctx, {2, 5, 8});
  const std::vector<float> all = attention(x).to_vector<float>();
  EXPECT_EQ(attention(x).shape(), (Shape{2, 5, 8}));
  // The future changes nothing.
  const Tensor changed = Tensor::cat({x.narrow(1, 0, 3), Tensor::zeros(ctx, {2, 2, 8})}, 1);
  const std::vector<float> some = attention(changed).to_vector<float>();
  for (size_t i = 0; i < 24; i++) EXPECT_NEAR(all[i], some[i], 1e-6);
  EXPECT_EQ(error_of([&] { attention(x[0]); }),
            "MultiHeadAttention: the operand has shape (5, 8); (B, T, size) is wanted");
  EXPECT_EQ(error_of([&] { nn::MultiHeadAttention(ctx, 8, 3); }),
            "MultiHeadAttention: size 8 is not divisible by 3 heads");
}

TEST(Nn, LoadSaysWhatIsWrongAndThenChangesNothing) {
  const Context ctx, other;
  nn::Linear linear(ctx, 2, 3);
  const Tensor w = Tensor::ones(other, {3, 2}), b = Tensor::zeros(other, {3});
  const auto load = [&](const nn::StateDict& s) { return error_of([&] { nn::load_state_dict(linear, s); }); };
  const std::vector<float> before = linear.weight.to_vector<float>();
  EXPECT_EQ(load({{"weight", w}}), "load: the state lacks 'bias'");
  EXPECT_EQ(load({{"weight", w}, {"bais", b}}), "load: the state lacks 'bias'; the model has no 'bais'");
  EXPECT_EQ(load({{"weight", w}, {"bias", b}, {"x", b}}), "load: the model has no 'x'");
  EXPECT_EQ(load({{"weight", w}, {"bias", w}}), "load: 'bias' is f32 (3,) in the model, f32 (3, 2) in the state");
  EXPECT_EQ(load({{"weight", w}, {"bias", Tensor::zeros(other, {3}, DType::I32)}}),
            "load: 'bias' is f32 (3,) in the model, i32 (3,) in the state");
  EXPECT_EQ(load({{"weight", w}, {"bias", b}, {"bias", b}}), "load: 'bias' occurs twice in the state");
  EXPECT_EQ(linear.weight.to_vector<float>(), before);
  EXPECT_EQ(load({{"bias", b}, {"weight", w}}), "no error");
  EXPECT_EQ(linear.weight.to_vector<float>(), std::vector<float>(6, 1));
}

struct Tied {
  nn::Embedding in;
  nn::Linear out;
  explicit Tied(const Context& ctx) : in(ctx, 5, 3), out(ctx, 3, 5, false) { out.weight = in.weight; }
  template <class V>
  void visit(V&& v) {
    v("in", in);
    v("out", out);
  }
};

TEST(TiedWeights, TrainOnceAndAreSavedByBothNames) {
  Context ctx;
  Tied net(ctx), other(ctx);
  ASSERT_EQ(nn::parameters(net).size(), 1u);
  nn::SGD optimizer(nn::parameters(net), 0.1);
  const std::vector<float> before = net.in.weight.to_vector<float>();
  optimizer.step(net.out(net.in(Tensor::from(ctx, {1, 4}))).square().mean());
  EXPECT_NE(net.in.weight.to_vector<float>(), before);
  nn::StateDict state = nn::state_dict(net);
  ASSERT_EQ(state.size(), 2u);
  nn::load_state_dict(other, state);
  EXPECT_EQ(other.out.weight.to_vector<float>(), net.in.weight.to_vector<float>());
  state[1].second = Tensor::zeros(ctx, {5, 3});
  const std::vector<float> loaded = other.in.weight.to_vector<float>();
  EXPECT_EQ(error_of([&] { nn::load_state_dict(other, state); }),
            "load: 'in.weight' and 'out.weight' are one tensor in the model, and differ in the state");
  EXPECT_EQ(other.in.weight.to_vector<float>(), loaded);
}

}  // namespace
}  // namespace uopc
