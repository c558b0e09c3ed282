// What the machine can do: fused multiply-adds on registers alone, memory read, memory copied past the cache.
#include <omp.h>

#include <cstdlib>
#include <memory>

#ifdef __SSE__
#include <immintrin.h>
#endif

#include "contestant.hpp"

namespace rows {
namespace {

constexpr int kAccumulators = 16;

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float Vector __attribute__((vector_size(4 * kLanes)));

void store_past_cache(float* to, Vector x) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, x);
#elif defined(__AVX__)
  _mm256_stream_ps(to, x);
#elif defined(__SSE__)
  _mm_stream_ps(to, x);
#else
  *reinterpret_cast<Vector*>(to) = x;
#endif
}

void multiply_add(int64_t flops, int threads, float* sink) {
  const int64_t rounds = flops / (2 * kAccumulators * kLanes) / threads;
#pragma omp parallel num_threads(threads)
  {
    Vector acc[kAccumulators] = {};
    volatile float unknown_scale = 0.999f, unknown_step = 1e-3f;
    const Vector scale = Vector{} + unknown_scale, step = Vector{} + unknown_step;
    for (int i = 0; i < kAccumulators; i++) acc[i] += static_cast<float>(i);
    for (int64_t r = 0; r < rounds; r++)
#pragma GCC unroll 16
      for (int i = 0; i < kAccumulators; i++) acc[i] = acc[i] * scale + step;
    for (int i = 1; i < kAccumulators; i++) acc[0] += acc[i];
#pragma omp critical
    *sink += acc[0][0];
  }
}

// Memory of a limit: aligned, touched by the threads that use it.
struct Stretch {
  float* data;
  explicit Stretch(int64_t n) : data(static_cast<float*>(std::aligned_alloc(1 << 21, static_cast<size_t>(n) * 4))) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) data[i] = 1;
  }
  Stretch(const Stretch&) = delete;
  ~Stretch() {
    std::free(data);
  }
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
                  for (int64_t i = 0; i < kCount; i += kLanes)
                    store_past_cache(y + i, *reinterpret_cast<const Vector*>(x + i));
                },
                {}};
  }
  return {};
}

}  // namespace rows
