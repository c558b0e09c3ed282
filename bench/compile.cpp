// Compiling: UOps to a function pointer in a warm process, against the system compiler on the C text of the same
// program.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>

#include "uopc/uopc.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Programs that differ in a constant, so that nothing can be reused from the one before.
uopc::UOp elementwise(uopc::Graph& g, int64_t variant) {
  const uopc::UOp x = g.buffer(4096, uopc::DType::F32, 0), y = g.buffer(4096, uopc::DType::F32, 1);
  return uopc::as_program((x * (1.0 + static_cast<double>(variant)) + y).max(0.0));
}

uopc::UOp softmax_row_sum(uopc::Graph& g, int64_t variant) {
  const uopc::UOp x = g.buffer(64 * 256, uopc::DType::F32, 0).reshape({64, 256});
  return uopc::as_program((x * (1.0 + static_cast<double>(variant))).exp2().reduce(uopc::Op::Add, 1));
}

uopc::UOp matmul(uopc::Graph& g, int64_t variant) {
  const uopc::UOp a = g.buffer(64 * 64, uopc::DType::F32, 0).reshape({64, 1, 64}).expand({64, 64, 64});
  const uopc::UOp b = g.buffer(64 * 64, uopc::DType::F32, 1).reshape({1, 64, 64}).expand({64, 64, 64});
  return uopc::as_program((a * b).reduce(uopc::Op::Add, 1) * (1.0 + static_cast<double>(variant)));
}

using MakeProgram = uopc::UOp (*)(uopc::Graph&, int64_t);

// Each iteration compiles one program both ways. The time is the JIT's; `gcc_over_jit` is the ratio of the sums.
void compile_against_gcc(benchmark::State& state, MakeProgram make) {
  const uopc::Options options = uopc::Options::from_env();
  uopc::Options uncached = options;
  uncached.c_cache_dir.clear();
  uopc::Engine engine(options);
  int64_t variant = 0;
  {
    uopc::Graph g;
    engine.compile(make(g, variant++));
  }
  double jit = 0, gcc = 0;
  for (auto _ : state) {
    uopc::Graph g;
    const auto start = Clock::now();
    const uopc::UOp program = make(g, variant++);
    benchmark::DoNotOptimize(engine.compile(program).entry());
    const double t = seconds_since(start);
    state.SetIterationTime(t);
    jit += t;

    const auto gcc_start = Clock::now();
    benchmark::DoNotOptimize(uopc::compile_c(uopc::render_c(program), "kernel", uncached));
    gcc += seconds_since(gcc_start);
  }
  state.counters["gcc_ms"] = gcc * 1e3 / static_cast<double>(state.iterations());
  state.counters["gcc_over_jit"] = gcc / jit;
}

BENCHMARK_CAPTURE(compile_against_gcc, elementwise, elementwise)
    ->UseManualTime()
    ->Iterations(20)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile_against_gcc, exp2_sum, softmax_row_sum)
    ->UseManualTime()
    ->Iterations(20)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile_against_gcc, matmul, matmul)->UseManualTime()->Iterations(20)->Unit(benchmark::kMillisecond);

// y = x; n times y = 1 / (y + 1): one straight line of n statements.
void compile_chain(benchmark::State& state) {
  uopc::Engine engine;
  for (auto _ : state) {
    uopc::Graph g;
    uopc::UOp y = g.buffer(1, uopc::DType::F32, 0);
    for (int64_t i = 0; i < state.range(0); i++) y = (y + 1.0).recip();
    benchmark::DoNotOptimize(engine.compile(y).entry());
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(compile_chain)
    ->Arg(1000)
    ->Arg(10000)
    ->Arg(100000)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->Complexity();

void call_tiny_kernel(benchmark::State& state) {
  uopc::Engine engine;
  uopc::Graph g;
  const uopc::Kernel kernel = engine.compile(g.buffer(1, uopc::DType::F32, 0) * 2.0);
  float x = 1, y = 0;
  for (auto _ : state) kernel({uopc::BufferRef(&x, sizeof x), uopc::BufferRef(&y, sizeof y)});
  benchmark::DoNotOptimize(y);
}
BENCHMARK(call_tiny_kernel)->Unit(benchmark::kNanosecond);

}  // namespace
