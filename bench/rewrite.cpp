// Graph work: nodes a second through construction, simplification, lowering and C text.
#include <benchmark/benchmark.h>

#include "uopc/uopc.hpp"

namespace {

// Index-like i32 arithmetic over two ranges: what `simplify` meets most.
uopc::UOp index_arithmetic(uopc::Graph& g, int64_t terms) {
  const uopc::UOp i = g.range_(64, 0), j = g.range_(48, 1);
  uopc::UOp sum = g.constant(0);
  for (int64_t k = 1; k <= terms; k++) {
    const uopc::UOp flat = i * (48 * k) + j * k + k;
    sum = sum + flat.floordiv(k) % 48 + flat.floordiv(48 * k);
  }
  return sum;
}

void build(benchmark::State& state) {
  size_t nodes = 0;
  for (auto _ : state) {
    uopc::Graph g;
    benchmark::DoNotOptimize(index_arithmetic(g, state.range(0)));
    nodes += g.size();
  }
  state.SetItemsProcessed(static_cast<int64_t>(nodes));
}
BENCHMARK(build)->Arg(1000)->Unit(benchmark::kMillisecond);

void simplify(benchmark::State& state) {
  size_t nodes = 0;
  for (auto _ : state) {
    state.PauseTiming();
    uopc::Graph g;
    const uopc::UOp root = index_arithmetic(g, state.range(0));
    const size_t size = g.size();
    state.ResumeTiming();
    benchmark::DoNotOptimize(uopc::simplify(root));
    nodes += size;
  }
  state.SetItemsProcessed(static_cast<int64_t>(nodes));
}
BENCHMARK(simplify)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond);

// Shaped graph to C text: a chain of element-wise ops and transposes.
void lower_and_render(benchmark::State& state) {
  size_t nodes = 0;
  for (auto _ : state) {
    uopc::Graph g;
    uopc::UOp x = g.buffer(6 * 8, uopc::DType::F32, 0).reshape({6, 8});
    for (int64_t k = 0; k < state.range(0); k++) {
      x = (x + x.recip()).permute({1, 0});
      nodes += 3;
    }
    benchmark::DoNotOptimize(uopc::render_c(uopc::as_program(x)));
  }
  state.SetItemsProcessed(static_cast<int64_t>(nodes));
}
BENCHMARK(lower_and_render)->Arg(100)->Arg(10000)->Unit(benchmark::kMillisecond);

}  // namespace
