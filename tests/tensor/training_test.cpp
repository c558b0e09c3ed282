// Many steps of training: one plan, and no more memory than the first ones take.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "uopc/nn.hpp"

namespace uopc {
namespace {

int64_t resident_kib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
  return 0;
}

struct Net {
  nn::Embedding words;
  nn::MultiHeadAttention attention;
  nn::LayerNorm norm;
  nn::BatchNorm batch;
  nn::Dropout dropout{.p = 0.1};
  nn::Linear out;
  explicit Net(const Context& ctx)
      : words(ctx, 11, 8), attention(ctx, 8, 2, true, 0.1), norm(ctx, {8}), batch(ctx, 24), out(ctx, 24, 3) {}
  Tensor operator()(const Tensor& index) {
    const Tensor x = words(index);                              // (N, 3, 8)
    const Tensor y = norm(x + attention(x)).gelu().flatten(1);  // (N, 24)
    return out(dropout(batch(y)));
  }
  template <class V>
  void visit(V&& v) {
    v("words", words);
    v("attention", attention);
    v("norm", norm);
    v("batch", batch);
    v("out", out);
  }
};

// Rows of three words; a row's label is what its words add by their places, modulo 3.
struct Batch {
  std::vector<int32_t> words, labels;
  explicit Batch(uint32_t seed) {
    for (int i = 0; i < 16; i++) {
      int32_t sum = 0;
      for (int k = 0; k < 3; k++) {
        seed = seed * 1664525u + 1013904223u;
        words.push_back(static_cast<int32_t>((seed >> 16) % 11));
        sum += words.back() < 6 ? 0 : k == 0 ? 1 : 2;
      }
      labels.push_back(sum % 3);
    }
  }
};

Tensor loss_of(Net& net, const Context& ctx, int step) {
  const Batch batch(static_cast<uint32_t>(step));
  const Tensor x = Tensor::from(ctx, std::span<const int32_t>(batch.words), {16, 3});
  return net(x).cross_entropy(Tensor::from(ctx, std::span<const int32_t>(batch.labels), {16}), 0.05);
}

void train(int steps, int warm_up, int64_t allowed_kib) {
  Context ctx;
  Net net(ctx);
  nn::AdamW optimizer(nn::parameters(net), 3e-3);
  const std::vector<Tensor> running = nn::buffers(net);
  const TrainingMode training(ctx);
  Context::Stats early;
  int64_t resident = 0, most_nodes = 0;
  double first = 0, last = 0;
  for (int i = 0; i < steps; i++) {
    if (i == warm_up) {
      early = ctx.stats();
      resident = resident_kib();
    }
    const Tensor loss = loss_of(net, ctx, i);
    optimizer.step(loss, running);
    if (i < 50) first += loss.item<double>() / 50;
    if (i >= steps - 50) last += loss.item<double>() / 50;
    ASSERT_TRUE(std::isfinite(last));
    most_nodes = std::max(most_nodes, ctx.stats().graph_nodes);
  }
  const Context::Stats late = ctx.stats();
  EXPECT_EQ(late.plans_made, early.plans_made);
  EXPECT_EQ(late.plans_reused - early.plans_reused, steps - warm_up);  // one a step
  EXPECT_EQ(late.kernels_compiled, early.kernels_compiled);
  EXPECT_EQ(late.live_bytes, early.live_bytes);
  EXPECT_EQ(late.pooled_bytes, early.pooled_bytes);
  EXPECT_LT(most_nodes, 200000);
  EXPECT_LE(resident_kib() - resident, allowed_kib);
  EXPECT_LT(last, first);
}

TEST(Training, StepsAreOnePlan) {
#ifdef __SANITIZE_ADDRESS__
  const int64_t allowed = INT64_MAX;  // freed memory stays in AddressSanitizer's quarantine
#else
  const int64_t allowed = 65536;  // the graph grows up to its first collection
#endif
  train(300, 10, allowed);
}
TEST(Training, LongTenThousandStepsInFlatMemory) {
  train(10000, 3000, 4096);
}

TEST(Training, ContextsOnThreadsShareAnEngineAndNothingElse) {
  const auto losses = [](const std::shared_ptr<Engine>& engine) {
    Context ctx(engine);
    ctx.manual_seed(7);
    Net net(ctx);
    nn::AdamW optimizer(nn::parameters(net), 3e-3);
    const std::vector<Tensor> running = nn::buffers(net);
    const TrainingMode training(ctx);
    std::vector<float> out;
    for (int i = 0; i < 20; i++) {
      const Tensor loss = loss_of(net, ctx, i);
      optimizer.step(loss, running);
      out.push_back(loss.item<float>());
    }
    return out;
  };
  const auto alone = losses(std::make_shared<Engine>());
  const auto engine = std::make_shared<Engine>();
  std::vector<std::vector<float>> each(2);
  std::vector<std::thread> threads;
  for (auto& e : each) threads.emplace_back([&] { e = losses(engine); });
  for (std::thread& t : threads) t.join();
  for (const auto& e : each) EXPECT_EQ(e, alone);
}

}  // namespace
}  // namespace uopc
