#include "row.hpp"

#include <fmt/format.h>

namespace rows {
namespace {

Row gemm(int64_t m, int64_t n, int64_t k, double goal, int64_t batch = 1, std::vector<int> threads = {1, 2}) {
  const std::string size = m == n && n == k ? fmt::format("{}^3", m) : fmt::format("{}x{}x{}", m, n, k);
  return {.name = fmt::format("sgemm {}{}", batch == 1 ? "" : fmt::format("{} x ", batch), size),
          .kind = Kind::Gemm,
          .dims = {batch, m, n, k},
          .bound = Bound::Flops,
          .work = 2.0 * static_cast<double>(batch * m * n * k),
          .goal = goal,
          .threads = std::move(threads)};
}

constexpr double kMi = 1 << 20;

}  // namespace

const std::vector<Row>& all_rows() {
  static const std::vector<Row> rows = {
      gemm(64, 64, 64, 0.97, 1, {1}),
      gemm(128, 128, 128, 1.05),
      gemm(256, 256, 256, 0.97),
      gemm(512, 512, 512, 1.05),
      gemm(1024, 1024, 1024, 1.05),
      gemm(2048, 2048, 2048, 1.05),
      gemm(509, 521, 503, 1),
      gemm(1000, 37, 513, 1),
      gemm(1024, 64, 1024, 1),
      gemm(128, 128, 128, 1, 32),
      {"gemm + bias + gelu 1024^3", Kind::GemmGelu, {1, 1024, 1024, 1024}, Bound::Flops, 2.0 * 1024 * kMi, 1.2},
      {"gemv 4096", Kind::Gemv, {4096, 4096}, Bound::Read, 64 * kMi, 1.5},
      {"conv 3x3 32x64x56x56", Kind::Conv, {32, 64, 56, 64}, Bound::Flops, 2.0 * 32 * 56 * 56 * 64 * 64 * 9, 1},
      {"chain 4 x 64 MiB", Kind::Chain, {16 << 20}, Bound::Copy, 256 * kMi, 1.5},
      {"chain 4 x 64 KiB", Kind::Chain, {16 << 10}, Bound::Copy, 0.25 * kMi, 1.8},
      {"sum 64 MiB", Kind::Sum, {16 << 20}, Bound::Read, 64 * kMi, 1},
      {"softmax 4096x1024", Kind::Softmax, {4096, 1024}, Bound::Copy, 32 * kMi, 3},
      {"layer norm 4096x1024", Kind::LayerNorm, {4096, 1024}, Bound::Copy, 32 * kMi, 1.8},
      {"transpose 4096^2", Kind::Transpose, {4096, 4096}, Bound::Copy, 128 * kMi, 4},
      {"exp 4 Mi", Kind::Exp, {4 << 20}, Bound::Copy, 32 * kMi, 1.5},
      {"log 4 Mi", Kind::Log, {4 << 20}, Bound::Copy, 32 * kMi, 1.5},
      {"sin 4 Mi", Kind::Sin, {4 << 20}, Bound::Copy, 32 * kMi, 1.5},
      // Half of the scores are seen.
      {"causal attention 4x8x512x64", Kind::Attention, {4, 8, 512, 64}, Bound::Flops, 2.0 * 32 * 512 * 512 * 64, 3},
      {"causal attention 1x8x4096x64", Kind::Attention, {1, 8, 4096, 64}, Bound::Flops, 2.0 * 8 * 4096 * 4096 * 64, 3},
      // Forward, and backward by inputs (but the first layer's) and by weights.
      {"mlp 784-512-512-10 step, batch 128",
       Kind::MlpStep,
       {128},
       Bound::Flops,
       2.0 * 128 * (2.0 * 784 * 512 + 3.0 * 512 * 512 + 3.0 * 512 * 10),
       1.5},
      {"compile a small kernel", Kind::Compile, {}, Bound::Latency, 0, 40, {1}},
      {"call a tiny kernel", Kind::Call, {}, Bound::Latency, 0.1e-6, 1, {1}},
      {"replay a softmax's plan", Kind::Replay, {}, Bound::Latency, 5e-6, 1, {1}},
  };
  return rows;
}

const std::vector<Row>& limit_rows() {
  static const std::vector<Row> rows = {
      {"limit fma", Kind::Fma, {}, Bound::Flops, 2e9, 1},
      {"limit read", Kind::Read, {}, Bound::Read, 256 * kMi, 1},
      {"limit copy", Kind::Copy, {}, Bound::Copy, 512 * kMi, 1},
  };
  return rows;
}

const Row* find_row(const std::string& name) {
  for (const auto* list : {&all_rows(), &limit_rows()})
    for (const Row& row : *list)
      if (row.name == name) return &row;
  return nullptr;
}

}  // namespace rows
