// What the machine can do: fused multiply-adds on registers alone, memory read, memory copied past the cache.
#include <immintrin.h>
#include <omp.h>

#include <cstdlib>
#include <memory>

#include "contestant.hpp"

namespace rows {
namespace {

constexpr int kAccumulators = 16;

#ifdef __AVX512F__
using Vector = __m512;
constexpr int kLanes = 16;
Vector set(float x) {
  return _mm512_set1_ps(x);
}
Vector fma(Vector a, Vector b, Vector c) {
  return _mm512_fmadd_ps(a, b, c);
}
void store_past_cache(float* to, Vector x) {
  _mm512_stream_ps(to, x);
}
Vector load(const float* from) {
  return _mm512_load_ps(from);
}
#else
using Vector = __m256;
constexpr int kLanes = 8;
Vector set(float x) {
  return _mm256_set1_ps(x);
}
Vector fma(Vector a, Vector b, Vector c) {
  return _mm256_fmadd_ps(a, b, c);
}
void store_past_cache(float* to, Vector x) {
  _mm256_stream_ps(to, x);
}
Vector load(const float* from) {
  return _mm256_load_ps(from);
}
#endif

void multiply_add(int64_t flops, int threads, float* sink) {
  const int64_t rounds = flops / (2 * kAccumulators * kLanes) / threads;
#pragma omp parallel num_threads(threads)
  {
    Vector acc[kAccumulators];
    for (int i = 0; i < kAccumulators; i++) acc[i] = set(static_cast<float>(i));
    Vector a = set(0.999f), b = set(1e-3f);
    for (int64_t r = 0; r < rounds; r++) {
      asm volatile("" : "+x"(a), "+x"(b));
#pragma GCC unroll 16
      for (int i = 0; i < kAccumulators; i++) acc[i] = fma(acc[i], a, b);
    }
    Vector sum = acc[0];
    for (int i = 1; i < kAccumulators; i++) sum = fma(sum, a, acc[i]);
    alignas(64) float out[kLanes];
    __builtin_memcpy(out, &sum, sizeof out);
#pragma omp critical
    *sink += out[0];
  }
}

// Memory of a limit: aligned, touched by the threads that use it.
struct Stretch {
  float* data;
  int64_t count;
  explicit Stretch(int64_t n) : data(static_cast<float*>(std::aligned_alloc(1 << 21, static_cast<size_t>(n) * 4))), count(n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) data[i] = 1;
  }
  Stretch(const Stretch&) = delete;
  ~Stretch() { std::free(data); }
};

}  // namespace

std::optional<Work> make_limit(const Row& row, int threads) {
  omp_set_num_threads(threads);
  constexpr int64_t kCount = 64 << 20;
  if (row.kind == Kind::Fma) {
    auto sink = std::make_shared<float>(0.f);
    return Work{[=, flops = static_cast<int64_t>(row.work)] { multiply_add(flops, threads, sink.get()); }, {}};
  }
  if (row.kind == Kind::Read) {
    auto from = std::make_shared<Stretch>(kCount);
    auto sink = std::make_shared<float>(0.f);
    return Work{[=] {
                  float sum = 0;
                  const float* data = from->data;
#pragma omp parallel for simd reduction(+ : sum)
                  for (int64_t i = 0; i < kCount; i++) sum += data[i];
                  *sink = sum;
                },
                {}};
  }
  if (row.kind == Kind::Copy) {
    auto from = std::make_shared<Stretch>(kCount), to = std::make_shared<Stretch>(kCount);
    return Work{[=] {
                  const float* x = from->data;
                  float* y = to->data;
#pragma omp parallel for
                  for (int64_t i = 0; i < kCount; i += kLanes) store_past_cache(y + i, load(x + i));
                },
                {}};
  }
  return {};
}

}  // namespace rows
