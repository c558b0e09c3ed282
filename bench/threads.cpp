// THREAD loops: exp2 over 16 Mi elements on one thread and on two, in turn, so that a change of the machine's speed
// meets both.
#include <benchmark/benchmark.h>

#include <chrono>

#include "uopc/uopc.hpp"

namespace {

constexpr int64_t kBlocks = 256, kBlock = 65536;

// out[i] = exp2(in[i]); the outer of two loops runs on threads.
uopc::UOp threaded_exp2(uopc::Graph& g) {
  const uopc::UOp in = g.buffer(kBlocks * kBlock, uopc::DType::F32, 0);
  const uopc::UOp out = g.buffer(kBlocks * kBlock, uopc::DType::F32, 1);
  const uopc::UOp block = g.range_(kBlocks, 0, uopc::AxisType::Thread), lane = g.range_(kBlock, 1);
  const uopc::UOp i = block * kBlock + lane;
  const uopc::UOp effect = out.index(i).store(in.index(i).load().exp2()).end({block, lane});
  return g.sink({&effect, 1});
}

double run_seconds(const uopc::Kernel& kernel, const std::vector<float>& in, std::vector<float>& out) {
  const auto start = std::chrono::steady_clock::now();
  kernel({in, out});
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void exp2_two_threads_against_one(benchmark::State& state) {
  uopc::Graph g;
  const uopc::UOp program = threaded_exp2(g);
  uopc::Options one, two;
  one.threads = 1;
  two.threads = 2;
  const uopc::Kernel serial = uopc::Engine(one).compile(program), threaded = uopc::Engine(two).compile(program);
  std::vector<float> in(kBlocks * kBlock), out(kBlocks * kBlock);
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<float>(i % 4096) / 128.0f - 16.0f;
  run_seconds(serial, in, out);
  run_seconds(threaded, in, out);
  double on_one = 0, on_two = 0;
  for (auto _ : state) {
    on_one += run_seconds(serial, in, out);
    const double t = run_seconds(threaded, in, out);
    on_two += t;
    state.SetIterationTime(t);
  }
  state.counters["one_over_two"] = on_one / on_two;
  state.SetItemsProcessed(state.iterations() * kBlocks * kBlock);
}
BENCHMARK(exp2_two_threads_against_one)->UseManualTime()->Iterations(20)->Unit(benchmark::kMillisecond);

}  // namespace
