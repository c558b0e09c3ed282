// What a plan costs beside its kernels: the replay of a recorded step, a step whose plan is known, the making of a plan
// for a GPT-like training step (forward, backward), by its number of layers, and the whole first run of such a step,
// most of which is the compilation of its kernels.
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

struct Step {
  Tensor loss;
  std::vector<Tensor> gradients;
};

Step gpt_step(const uopc::Context& ctx, int64_t layers) {
  std::vector<Block> blocks;
  std::vector<Tensor> parameters;
  for (int64_t i = 0; i < layers; i++) blocks.emplace_back(ctx);
  Tensor h = Tensor::ones(ctx, {2, 8, 32});
  for (Block& b : blocks) {
    h = h + b.attention(b.norm1(h));
    h = h + b.down(b.up(b.norm2(h)).gelu());
    for (const Tensor& p : nn::parameters(b)) parameters.push_back(p);
  }
  const Tensor loss = h.square().mean();
  return {loss, loss.gradient(parameters)};
}

void schedule_gpt(benchmark::State& state) {
  uopc::Context ctx;
  const Step step = gpt_step(ctx, state.range(0));
  const auto nodes = static_cast<double>(ctx.stats().graph_nodes);
  size_t kernels = 0;
  for (auto _ : state) {
    std::vector<uopc::PlanResult> results{{step.loss.uop(), {}}};
    for (const Tensor& g : step.gradients) results.push_back({g.uop(), {}});
    kernels = uopc::make_plan(results, {1}).plan.kernels.size();
  }
  state.counters["nodes"] = nodes;
  state.counters["kernels"] = static_cast<double>(kernels);
}
BENCHMARK(schedule_gpt)->Name("plan/make_gpt_step")->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);

void first_gpt_step(benchmark::State& state) {
  double compiled = 0;
  for (auto _ : state) {
    uopc::Context ctx;
    Step step = gpt_step(ctx, state.range(0));
    std::vector<Tensor> all{step.loss};
    for (const Tensor& g : step.gradients) all.push_back(g);
    Tensor::realize(all);
    compiled = static_cast<double>(ctx.stats().kernels_compiled);
  }
  state.counters["compiled"] = compiled;
}
BENCHMARK(first_gpt_step)
    ->Name("plan/first_gpt_step")
    ->Arg(1)
    ->Arg(4)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
