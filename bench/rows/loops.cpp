// Plain loops as gcc makes them with -O3 -ffast-math, its vectors of libmvec and OpenMP.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "contestant.hpp"

namespace rows {
namespace {

using Floats = std::shared_ptr<std::vector<float>>;

void chain(int64_t n, const float* a, const float* b, const float* c, float* y) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; i++) y[i] = (a[i] * b[i] + c[i]) / (1 + expf(-a[i]));
}

void softmax(int64_t rows, int64_t n, const float* x, float* y) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; r++) {
    const float* from = x + r * n;
    float* to = y + r * n;
    float high = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) high = from[i] > high ? from[i] : high;
    for (int64_t i = 0; i < n; i++) sum += to[i] = expf(from[i] - high);
    const float scale = 1 / sum;
    for (int64_t i = 0; i < n; i++) to[i] *= scale;
  }
}

void layer_norm(int64_t rows, int64_t n, const float* x, float* y) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; r++) {
    const float* from = x + r * n;
    float sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += from[i];
    const float mean = sum / static_cast<float>(n);
    for (int64_t i = 0; i < n; i++) squares += (from[i] - mean) * (from[i] - mean);
    const float scale = 1 / sqrtf(squares / static_cast<float>(n) + 1e-5f);
    for (int64_t i = 0; i < n; i++) y[r * n + i] = (from[i] - mean) * scale;
  }
}

void transpose(int64_t n, int64_t m, const float* x, float* y) {
  constexpr int64_t kBlock = 32;
#pragma omp parallel for
  for (int64_t i = 0; i < n; i += kBlock)
    for (int64_t j = 0; j < m; j += kBlock)
      for (int64_t a = i; a < std::min(n, i + kBlock); a++)
        for (int64_t b = j; b < std::min(m, j + kBlock); b++) y[b * n + a] = x[a * m + b];
}

// Only the columns that a row sees.
void attention(int64_t heads, int64_t tokens, int64_t width, const float* q, const float* k, const float* v, float* y) {
  const float scale = 1 / sqrtf(static_cast<float>(width));
#pragma omp parallel for collapse(2) schedule(dynamic, 16)
  for (int64_t h = 0; h < heads; h++)
    for (int64_t t = 0; t < tokens; t++) {
      const float *key = k + h * tokens * width, *value = v + h * tokens * width, *query = q + (h * tokens + t) * width;
      float* out = y + (h * tokens + t) * width;
      std::vector<float> scores(static_cast<size_t>(t + 1));
      float high = -INFINITY, sum = 0;
      for (int64_t s = 0; s <= t; s++) {
        float dot = 0;
        for (int64_t d = 0; d < width; d++) dot += query[d] * key[s * width + d];
        scores[static_cast<size_t>(s)] = dot * scale;
        high = std::max(high, dot * scale);
      }
      for (float& s : scores) sum += s = expf(s - high);
      for (int64_t d = 0; d < width; d++) out[d] = 0;
      for (int64_t s = 0; s <= t; s++) {
        const float weight = scores[static_cast<size_t>(s)] / sum;
        for (int64_t d = 0; d < width; d++) out[d] += weight * value[s * width + d];
      }
    }
}

template <class F>
void each(int64_t n, const float* x, float* y, F f) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; i++) y[i] = f(x[i]);
}

}  // namespace

std::optional<Work> make_loops(const Row& row, int threads) {
  omp_set_num_threads(threads);
  int64_t count = 1;
  for (int64_t d : row.dims) count *= d;
  const auto in = [&](uint32_t seed) {
    return std::make_shared<std::vector<float>>(operand(row, static_cast<size_t>(count), seed));
  };
  const std::vector<int64_t> d = row.dims;
  const Floats y = std::make_shared<std::vector<float>>();
  const auto work = [&](auto step) {
    y->resize(static_cast<size_t>(row.kind == Kind::Sum ? 1 : count));
    return Work{step, [y] { return *y; }};
  };
  switch (row.kind) {
    case Kind::Chain:
      return work([=, a = in(1), b = in(2), c = in(3)] { chain(d[0], a->data(), b->data(), c->data(), y->data()); });
    case Kind::Sum:
      return work([=, x = in(1)] {
        const float* from = x->data();
        float sum = 0;
#pragma omp parallel for simd reduction(+ : sum)
        for (int64_t i = 0; i < d[0]; i++) sum += from[i];
        (*y)[0] = sum;
      });
    case Kind::Softmax:
      return work([=, x = in(1)] { softmax(d[0], d[1], x->data(), y->data()); });
    case Kind::LayerNorm:
      return work([=, x = in(1)] { layer_norm(d[0], d[1], x->data(), y->data()); });
    case Kind::Transpose:
      return work([=, x = in(1)] { transpose(d[0], d[1], x->data(), y->data()); });
    case Kind::Exp:
      return work([=, x = in(1)] { each(d[0], x->data(), y->data(), [](float v) { return expf(v); }); });
    case Kind::Log:
      return work([=, x = in(1)] { each(d[0], x->data(), y->data(), [](float v) { return logf(v); }); });
    case Kind::Sin:
      return work([=, x = in(1)] { each(d[0], x->data(), y->data(), [](float v) { return sinf(v); }); });
    case Kind::Attention:
      return work([=, q = in(1), k = in(2), v = in(3)] {
        attention(d[0] * d[1], d[2], d[3], q->data(), k->data(), v->data(), y->data());
      });
    default:
      return {};
  }
}

}  // namespace rows
