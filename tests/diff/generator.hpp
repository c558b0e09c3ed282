// Seeded random programs and their data. The same seed makes the same program on every machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "uopc/uop.hpp"

namespace uopc::diff {

// A BUFFER of a program and what it holds before the run. bool is one byte, f16 is binary16.
struct Input {
  int64_t slot;
  DType dtype;
  int64_t size;
  std::vector<std::byte> data;
};

struct Sample {
  uint64_t seed = 0;
  UOp root;                   // a shaped graph, or a loop program (SINK)
  std::vector<Input> inputs;  // every BUFFER that `root` reaches, by slot
};

// What the suite runs: seeds from 0 on.
inline constexpr uint64_t kGraphs = 2000, kLoops = 1600;

class Rng {  // splitmix64
 public:
  explicit Rng(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t lo, int64_t hi) { return lo + below(hi - lo + 1); }  // both ends included
  bool percent(int p) { return below(100) < p; }
  double real(double lo, double hi) { return lo + (hi - lo) * (static_cast<double>(next() >> 11) * 0x1p-53); }
  template <class T>
  const T& pick(const std::vector<T>& v) {
    return v[static_cast<size_t>(below(static_cast<int64_t>(v.size())))];
  }

 private:
  uint64_t state_;
};

// A shaped graph: every op of the value, movement, reduce and kernel kinds but PARAM and CALL, every dtype but void, 0
// to 4 axes. Indices are in range for every data. About one in four is `wild`: infinities, NaN, subnormals, the ends of
// i32.
Sample random_graph(Graph& graph, uint64_t seed);

// A loop program of a shape that people write by hand: accumulators, siblings, scratch arrays, triangular and
// data-dependent ends, THREAD loops. No op in it is undefined in C, and floats stay exact in any order of addition.
Sample random_loops(Graph& graph, uint64_t seed);

// How the contents of an Input are drawn.
struct Fill {
  enum class Kind : uint8_t { Small, Real, Wide, Special, Below } kind = Kind::Small;
  int64_t below = 0;  // Kind::Below: integers of [0, below)
};
std::vector<std::byte> random_data(Rng& rng, DType dtype, int64_t size, Fill fill);

// BUFFERs that `root` reaches, by slot.
std::vector<UOp> buffers_of(UOp root);

}  // namespace uopc::diff
