// .uir: megabytes a second through the parser and the printer.
#include <benchmark/benchmark.h>

#include "uopc/uopc.hpp"

namespace {

// About `bytes` of text: a DAG in which every statement uses an early and a late one.
std::string program_text(size_t bytes) {
  std::string text = "%0 = buffer 4 : dtype=f32 slot=0\n";
  for (int64_t i = 1; text.size() < bytes; i++) {
    const std::string here = "%" + std::to_string(i), last = "%" + std::to_string(i - 1),
                      early = "%" + std::to_string(i / 2);
    text += here + (i % 4 == 0 ? " = recip " + last : (i % 2 ? " = add " : " = mul ") + last + ", " + early) + "\n";
  }
  return text;
}

void parse_text(benchmark::State& state) {
  const std::string text = program_text(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    uopc::Graph g;
    benchmark::DoNotOptimize(uopc::parse(g, text));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}
BENCHMARK(parse_text)->Arg(64 << 10)->Arg(8 << 20)->Unit(benchmark::kMillisecond);

void print_text(benchmark::State& state) {
  uopc::Graph g;
  const uopc::UOp root = uopc::parse(g, program_text(static_cast<size_t>(state.range(0))));
  size_t bytes = 0;
  for (auto _ : state) bytes = uopc::to_uir(root).size();
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}
BENCHMARK(print_text)->Arg(64 << 10)->Arg(8 << 20)->Unit(benchmark::kMillisecond);

}  // namespace
