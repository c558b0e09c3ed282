// Compiling: UOps to a function pointer in a warm process, against the system compiler on the C text of the same
// program.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>

#include "rows/small_kernel.hpp"
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

uopc::UOp matmul(uopc::Graph& g, int64_t variant) {
  const uopc::UOp a = g.buffer(64 * 64, uopc::DType::F32, 0).reshape({64, 1, 64}).expand({64, 64, 64});
  const uopc::UOp b = g.buffer(64 * 64, uopc::DType::F32, 1).reshape({1, 64, 64}).expand({64, 64, 64});
  return uopc::as_program((a * b).reduce(uopc::Op::Add, 1) * (1.0 + static_cast<double>(variant)));
}

using MakeProgram = uopc::UOp (*)(uopc::Graph&, int64_t);

// Each iteration compiles one program with gcc, then ten in the JIT, whose process is warm as a host's is. The time is
// the JIT's for one; `gcc_over_jit` is the ratio of the means.
void compile_against_gcc(benchmark::State& state, MakeProgram make, int opt_level) {
  constexpr int kBatch = 10;
  uopc::Options options = uopc::Options::from_env();
  options.opt_level = opt_level;
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
    {
      uopc::Graph g;
      const std::string text = uopc::render_c(make(g, variant++));
      const auto start = Clock::now();
      benchmark::DoNotOptimize(uopc::compile_c(text, "kernel", uncached));
      gcc += seconds_since(start);
    }
    const auto start = Clock::now();
    for (int i = 0; i < kBatch; i++) {
      uopc::Graph g;
      benchmark::DoNotOptimize(engine.compile(make(g, variant++)).entry());
    }
    const double one = seconds_since(start) / kBatch;
    state.SetIterationTime(one);
    jit += one;
  }
  state.counters["gcc_ms"] = gcc * 1e3 / static_cast<double>(state.iterations());
  state.counters["gcc_over_jit"] = gcc / jit;
}

void compile_benchmarks(const std::string& name, MakeProgram make) {
  for (int level : {1, 2})
    benchmark::RegisterBenchmark(("compile_against_gcc/" + name + "/O" + std::to_string(level)).c_str(),
                                 compile_against_gcc, make, level)
        ->UseManualTime()
        ->Iterations(10)
        ->Unit(benchmark::kMillisecond);
}

const bool registered = [] {
  compile_benchmarks("elementwise", elementwise);
  compile_benchmarks("exp2_sum", rows::small_kernel);
  compile_benchmarks("matmul", matmul);
  return true;
}();

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
