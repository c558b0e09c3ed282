// Optimizers against loops in double over PyTorch's formulas, and what a step costs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "error_of.hpp"
#include "uopc/error.hpp"
#include "uopc/nn.hpp"
#include "uopc/saved.hpp"

namespace uopc {
namespace {

std::vector<float> numbers(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> out(n);
  for (float& v : out) v = static_cast<float>(random() % 2001) / 500.f - 2.f;
  return out;
}

using Make = std::function<std::unique_ptr<nn::Optimizer>(std::vector<Tensor>)>;
// Updates one number, given the gradient and the number of the step, from 1.
struct Reference {
  double w, m = 0, v = 0;
};
using Update = std::function<void(Reference&, double g, int t, double lr)>;

void compare(const Make& make, const Update& update) {
  const Context ctx;
  const std::vector<float> start = numbers(6, 1);
  Tensor w = Tensor::from(ctx, std::span<const float>(start), {2, 3});
  auto optimizer = make({w});
  std::vector<Reference> want;
  for (float v : start) want.push_back({v});
  for (int t = 1; t <= 20; t++) {
    const double lr = t <= 10 ? 0.05 : 0.02;
    optimizer->set_lr(lr);
    const std::vector<float> g = numbers(6, 100 + static_cast<uint32_t>(t));
    const Tensor gradient = Tensor::from(ctx, std::span<const float>(g), {2, 3});
    optimizer->step_with(std::span(&gradient, 1));
    const std::vector<double> got = w.to_vector<double>();
    for (size_t i = 0; i < want.size(); i++) {
      update(want[i], g[i], t, lr);
      ASSERT_NEAR(got[i], want[i].w, 2e-6 * (1 + std::abs(want[i].w))) << "step " << t << ", element " << i;
    }
  }
}

TEST(Optim, SgdIsPyTorchs) {
  for (const nn::SGD::Settings s : {nn::SGD::Settings{},
                                    {.momentum = 0.9},
                                    {.weight_decay = 0.1},
                                    {.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}})
    compare([&](std::vector<Tensor> p) { return std::make_unique<nn::SGD>(std::move(p), 0.05, s); },
            [&](Reference& r, double g, int t, double lr) {
              g += s.weight_decay * r.w;
              if (s.momentum != 0) {
                r.m = t == 1 ? g : s.momentum * r.m + g;
                g = s.nesterov ? g + s.momentum * r.m : r.m;
              }
              r.w -= lr * g;
            });
}

TEST(Optim, AdamAndAdamWArePyTorchs) {
  for (const nn::Adam::Settings s :
       {nn::Adam::Settings{},
        {.weight_decay = 0.1},
        {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1, .decoupled = true}})
    compare([&](std::vector<Tensor> p) { return std::make_unique<nn::Adam>(std::move(p), 0.05, s); },
            [&](Reference& r, double g, int t, double lr) {
              if (s.decoupled)
                r.w *= 1 - lr * s.weight_decay;
              else
                g += s.weight_decay * r.w;
              r.m = s.beta1 * r.m + (1 - s.beta1) * g;
              r.v = s.beta2 * r.v + (1 - s.beta2) * g * g;
              const double bias1 = 1 - std::pow(s.beta1, t), bias2 = 1 - std::pow(s.beta2, t);
              r.w -= lr / bias1 * r.m / (std::sqrt(r.v) / std::sqrt(bias2) + s.eps);
            });
}

struct Mlp {
  nn::Linear first, second;
  explicit Mlp(const Context& ctx) : first(ctx, 2, 16), second(ctx, 16, 1) {}
  Tensor operator()(const Tensor& x) const { return second(first(x).tanh()); }
  template <class V>
  void visit(V&& v) {
    v("first", first);
    v("second", second);
  }
};

struct Xor {
  Tensor x, y;
  explicit Xor(const Context& ctx)
      : x(Tensor::from(ctx, {0, 0, 0, 1, 1, 0, 1, 1}, {4, 2})), y(Tensor::from(ctx, {0, 1, 1, 0}, {4, 1})) {}
};

TEST(Optim, LearnsXor) {
  const Context ctx;
  const Xor data(ctx);
  Mlp net(ctx);
  nn::Adam optimizer(nn::parameters(net), 0.05);
  for (int i = 0; i < 300; i++) optimizer.step(net(data.x).binary_cross_entropy_with_logits(data.y));
  const std::vector<float> out = net(data.x).to_vector<float>();
  EXPECT_LT(out[0], -1);
  EXPECT_GT(out[1], 1);
  EXPECT_GT(out[2], 1);
  EXPECT_LT(out[3], -1);
}

TEST(Optim, AStepReturnsTheLossThatItWasTakenFrom) {
  const Context ctx;
  const Xor data(ctx);
  Mlp net(ctx);
  nn::SGD optimizer(nn::parameters(net), 0.05);
  const Tensor loss = net(data.x).mse_loss(data.y), other = net(data.x).sum();
  EXPECT_EQ(optimizer.step(loss, {other}).impl(), loss.impl());
  EXPECT_TRUE(loss.is_realized());
  EXPECT_TRUE(other.is_realized());
}

TEST(Optim, FromTheSecondStepNothingIsCompiledAndMemoryIsFlat) {
  const Context ctx;
  const Xor data(ctx);
  Mlp net(ctx);
  nn::AdamW optimizer(nn::parameters(net), 0.01);
  const auto step = [&] { return optimizer.step(net(data.x).mse_loss(data.y)).item<float>(); };
  step();
  step();
  const Context::Stats before = ctx.stats();
  const std::byte* place = net.first.weight.bytes().data();
  float last = 0;
  for (int i = 0; i < 50; i++) {
    if (i == 25) optimizer.set_lr(0.001);
    last = step();
  }
  const Context::Stats after = ctx.stats();
  EXPECT_TRUE(std::isfinite(last));
  EXPECT_EQ(after.kernels_compiled, before.kernels_compiled);
  EXPECT_EQ(after.plans_made, before.plans_made);
  EXPECT_EQ(after.live_bytes, before.live_bytes);
  EXPECT_EQ(after.pooled_bytes, before.pooled_bytes);
  EXPECT_EQ(net.first.weight.bytes().data(), place);
}

// A run that is saved in the middle and taken up elsewhere ends with the same bits.
TEST(Optim, TrainingGoesOnFromAFile) {
  const std::string path = testing::TempDir() + "uopc_optim_test.safetensors";
  const auto train = [](Mlp& net, nn::Optimizer& o, const Xor& data, int steps) {
    for (int i = 0; i < steps; i++) o.step(net(data.x).mse_loss(data.y));
  };
  const Context a;
  const Xor data(a);
  Mlp net(a);
  nn::AdamW optimizer(nn::parameters(net), 0.01);
  train(net, optimizer, data, 5);
  nn::StateDict all = nn::state_dict(net);
  for (const auto& [name, t] : optimizer.state_dict()) all.emplace_back("optimizer." + name, t);
  save_safetensors(path, all);
  train(net, optimizer, data, 5);

  Context b;
  b.manual_seed(7);
  const Xor data_b(b);
  Mlp net_b(b);
  nn::AdamW optimizer_b(nn::parameters(net_b), 0.01);
  nn::StateDict model, statistics;
  for (const auto& [name, t] : load_safetensors(b, path)) {
    if (name.starts_with("optimizer."))
      statistics.emplace_back(name.substr(10), t);
    else
      model.emplace_back(name, t);
  }
  nn::load_state_dict(net_b, model);
  optimizer_b.load_state_dict(statistics);
  train(net_b, optimizer_b, data_b, 5);
  std::remove(path.c_str());
  const nn::StateDict x = nn::state_dict(net), y = nn::state_dict(net_b);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); i++)
    EXPECT_EQ(x[i].second.to_vector<float>(), y[i].second.to_vector<float>()) << x[i].first;
}

TEST(Optim, Refuses) {
  const Context ctx;
  const Tensor w = Tensor::zeros(ctx, {2}), i = Tensor::zeros(ctx, {2}, DType::I32);
  EXPECT_EQ(error_of([&] { nn::SGD({}); }), "an optimizer without parameters");
  EXPECT_EQ(error_of([&] { nn::SGD({w, w}); }), "parameters 0 and 1 are one tensor");
  EXPECT_EQ(error_of([&] { nn::SGD({w, i}); }), "parameter 1 is i32; floats train");
  EXPECT_EQ(error_of([&] { nn::SGD({w}, -1); }), "the optimizer: lr is -1, which is not in [0, inf)");
  EXPECT_EQ(error_of([&] { nn::SGD({w}, 1, {.nesterov = true}); }), "SGD: nesterov without momentum");
  EXPECT_EQ(error_of([&] { nn::Adam({w}, 1, {.beta2 = 1}); }), "Adam: beta2 is 1, which is not in [0, 1)");
  nn::SGD sgd({w});
  const Tensor g = Tensor::zeros(ctx, {3});
  EXPECT_EQ(error_of([&] { sgd.step_with(std::span(&g, 1)); }),
            "step: the gradient of parameter 0 has shape (3,), the parameter (2,)");
  EXPECT_EQ(error_of([&] { sgd.step_with({}); }), "step: 0 gradients for 1 parameters");
}

}  // namespace
}  // namespace uopc
