// What a plan costs beside its kernels: the replay of a recorded step, a step whose plan is known, and the making of a
// plan for a GPT-like training step (forward, backward), by its number of layers.
#include <benchmark/benchmark.h>

#include "uopc/uopc.hpp"

namespace {

using uopc::Tensor;
namespace nn = uopc::nn;

void replay_softmax(benchmark::State& state) {
  uopc::Context ctx;
  const Tensor x = Tensor::ones(ctx, {3, 4});
  uopc::Capture step([](std::span<const Tensor> in) { return std::vector<Tensor>{in[0].softmax(-1).realize()}; });
  for (int i = 0; i < 3; i++) step({x});
  for (auto _ : state) step({x});
  state.counters["kernels"] = static_cast<double>(step.kernels());
}
BENCHMARK(replay_softmax)->Name("plan/replay_of_softmax");

void known_softmax(benchmark::State& state) {
  uopc::Context ctx;
  const Tensor x = Tensor::ones(ctx, {3, 4});
  for (auto _ : state) x.softmax(-1).realize();
}
BENCHMARK(known_softmax)->Name("plan/lazy_softmax_known");

struct Block {
  nn::LayerNorm norm1, norm2;
  nn::MultiHeadAttention attention;
  nn::Linear up, down;
  explicit Block(const uopc::Context& ctx)
      : norm1(ctx, {32}), norm2(ctx, {32}), attention(ctx, 32, 2, true), up(ctx, 32, 128), down(ctx, 128, 32) {}
  template <class V>
  void visit(V&& v) {
    v("norm1", norm1);
    v("norm2", norm2);
    v("attention", attention);
    v("up", up);
    v("down", down);
  }
};

void schedule_gpt(benchmark::State& state) {
  uopc::Context ctx;
  std::vector<Block> blocks;
  std::vector<Tensor> parameters;
  for (int64_t i = 0; i < state.range(0); i++) blocks.emplace_back(ctx);
  Tensor h = Tensor::ones(ctx, {2, 8, 32});
  for (Block& b : blocks) {
    h = h + b.attention(b.norm1(h));
    h = h + b.down(b.up(b.norm2(h)).gelu());
    for (const Tensor& p : nn::parameters(b)) parameters.push_back(p);
  }
  const Tensor loss = h.square().mean();
  const std::vector<Tensor> gradients = loss.gradient(parameters);
  const auto nodes = static_cast<double>(ctx.stats().graph_nodes);
  size_t kernels = 0;
  for (auto _ : state) {
    std::vector<uopc::PlanResult> results{{loss.uop(), {}}};
    for (const Tensor& g : gradients) results.push_back({g.uop(), {}});
    kernels = uopc::make_plan(results, {1}).plan.kernels.size();
  }
  state.counters["nodes"] = nodes;
  state.counters["kernels"] = static_cast<double>(kernels);
}
BENCHMARK(schedule_gpt)->Name("plan/make_gpt_step")->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);

}  // namespace
