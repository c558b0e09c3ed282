// Products of matrices as tensors, replayed from a Capture, in turn with the libraries that are there (OpenBLAS,
// oneDNN). Counters: GFLOP/s, and by the peer's name its time over ours, so that more than 1 is better for us.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <vector>

#include "uopc/capture.hpp"
#ifdef UOPC_BENCH_OPENBLAS
#include <cblas.h>
#endif
#ifdef UOPC_BENCH_DNNL
#include <dnnl.h>
#endif

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> v) {
  std::ranges::nth_element(v, v.begin() + static_cast<int64_t>(v.size() / 2));
  return v[v.size() / 2];
}

// Seconds of one product, several in a row where it is short.
double time_of(const std::function<void()>& f, double flops) {
  const int repeats = std::max(1, static_cast<int>(2e7 / flops));
  const double start = now();
  for (int i = 0; i < repeats; i++) f();
  return (now() - start) / repeats;
}

using Peer =
    std::function<void(int64_t m, int64_t n, int64_t k, bool turned, const float* a, const float* b, float* c)>;

std::vector<std::pair<const char*, Peer>> peers() {
  std::vector<std::pair<const char*, Peer>> all;
#ifdef UOPC_BENCH_OPENBLAS
  openblas_set_num_threads(1);
  all.emplace_back("openblas",
                   [](int64_t m, int64_t n, int64_t k, bool turned, const float* a, const float* b, float* c) {
                     const auto i = [](int64_t x) { return static_cast<int>(x); };
                     cblas_sgemm(CblasRowMajor, CblasNoTrans, turned ? CblasTrans : CblasNoTrans, i(m), i(n), i(k), 1,
                                 a, i(k), b, i(turned ? k : n), 0, c, i(n));
                   });
#endif
#ifdef UOPC_BENCH_DNNL
  omp_set_num_threads(1);
  all.emplace_back("dnnl", [](int64_t m, int64_t n, int64_t k, bool turned, const float* a, const float* b, float* c) {
    dnnl_sgemm('N', turned ? 'T' : 'N', m, n, k, 1, a, k, b, turned ? k : n, 0, c, n);
  });
#endif
  return all;
}

// The second operand is stored (n, k) where `turned`, as a layer's weight is.
void product(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool turned = state.range(3) != 0;
  const int threads = static_cast<int>(state.range(4));
  uopc::Options o;
  o.threads = threads;
  const uopc::Context ctx(o);
  const uopc::Tensor a = uopc::Tensor::rand(ctx, {m, k}),
                     b = uopc::Tensor::rand(ctx, turned ? uopc::Shape{n, k} : uopc::Shape{k, n});
  uopc::Tensor::realize({a, b});
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  std::vector<float> z(static_cast<size_t>(m * n));
  uopc::Capture capture([turned](std::span<const uopc::Tensor> in) {
    return std::vector<uopc::Tensor>{in[0].matmul(turned ? in[1].T() : in[1])};
  });
  const uopc::Tensor in[] = {a, b};
  std::vector<float> ours;
  for (int i = 0; i < 3; i++) ours = capture(in)[0].to_vector<float>();
  const double flops = 2.0 * static_cast<double>(m * n * k);
  // Pools of threads that spin beside each other spoil each other's time: peers are met on one thread.
  const auto others = threads == 1 ? peers() : std::vector<std::pair<const char*, Peer>>();
  std::vector<double> own;
  std::vector<std::vector<double>> theirs(others.size());
  for (auto _ : state) {
    own.push_back(time_of([&] { capture(in); }, flops));
    state.SetIterationTime(own.back());
    for (size_t p = 0; p < others.size(); p++)
      theirs[p].push_back(time_of([&] { others[p].second(m, n, k, turned, x.data(), y.data(), z.data()); }, flops));
  }
  state.counters["GFLOP/s"] = flops / median(own) / 1e9;
  for (size_t p = 0; p < others.size(); p++) {
    state.counters[others[p].first] = median(theirs[p]) / median(own);
    for (size_t i = 0; i < z.size(); i++)
      if (!(std::abs(z[i] - ours[i]) <= 1e-4f * static_cast<float>(k))) {
        state.SkipWithError("the peer computes something else");
        return;
      }
  }
}

void sizes(benchmark::internal::Benchmark* b) {
  for (int64_t threads : {1, 2}) {
    for (int64_t n : {64, 128, 256, 512, 1024}) b->Args({n, n, n, 0, threads});
    b->Args({512, 512, 512, 1, threads});
    b->Args({1000, 513, 37, 0, threads});
    b->Args({1024, 64, 1024, 0, threads});
    b->Args({509, 521, 503, 1, threads});
  }
}
BENCHMARK(product)
    ->Apply(sizes)
    ->UseManualTime()
    ->Iterations(15)
    ->Unit(benchmark::kMicrosecond)
    ->ArgNames({"m", "n", "k", "turned", "threads"});

}  // namespace
