// The rows of the table: what is computed, on which data, what bounds it, and how far ahead it should be.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace rows {

enum class Kind {
  Gemm,      // (batch, m, n, k): c = a b
  GemmGelu,  // (1, m, n, k): gelu(a b + bias)
  Gemv,      // (n, k): the matrix (n, k) times a vector
  Conv,      // (batch, channels, size, filters): 3x3, padded by 1
  Chain,     // (n): (a * b + c) * sigmoid(a)
  Sum,       // (n)
  Softmax,   // (rows, columns)
  LayerNorm,
  Transpose,
  Exp,  // (n)
  Log,
  Sin,
  Attention,  // (batch, heads, tokens, width): causal
  MlpStep,    // (batch): 784-512-512-10, cross entropy, AdamW
  Compile,    // a small kernel, UOps to pointer
  Call,       // of a tiny compiled kernel
  Replay,     // of a softmax's plan of small kernels
  Fma,        // limits: GFLOP/s of fused multiply-adds, GB/s of 256 MiB read or copied
  Read,
  Copy,
};

enum class Bound { Flops, Read, Copy, Latency };

struct Row {
  std::string name;
  Kind kind;
  std::vector<int64_t> dims;
  Bound bound;
  double work;  // flops, or bytes that must move; seconds of the goal where latency is the bound
  double goal;  // of the ratio
  std::vector<int> threads = {1, 2};
};

const std::vector<Row>& all_rows();
const std::vector<Row>& limit_rows();
const Row* find_row(const std::string& name);

}  // namespace rows
