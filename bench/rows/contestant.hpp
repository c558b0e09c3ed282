// Who computes a row. Each measurement has a process of its own: two pools of threads that spin beside each other spoil
// both times, and two OpenMP runtimes in a process share symbols.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "row.hpp"

namespace rows {

struct Work {
  std::function<void()> step;                  // what is timed
  std::function<std::vector<float>()> output;  // of the last step; empty where there is nothing to compare
};

// Nothing where the contestant does not compute this kind.
using Maker = std::optional<Work> (*)(const Row& row, int threads);

std::optional<Work> make_uopc(const Row& row, int threads);
std::optional<Work> make_limit(const Row& row, int threads);
std::optional<Work> make_system_compiler(const Row& row, int threads);
std::optional<Work> make_loops(const Row& row, int threads);
#ifdef UOPC_BENCH_OPENBLAS
std::optional<Work> make_openblas(const Row& row, int threads);
#endif
#ifdef UOPC_BENCH_DNNL
std::optional<Work> make_onednn(const Row& row, int threads);
#endif

struct Contestant {
  std::string name;
  Maker make;
};
const std::vector<Contestant>& contestants();  // ours first

// The same data for everybody: element i of operand `seed`, in [-0.5, 0.5) (in [0.5, 1.5) for a logarithm).
std::vector<float> operand(const Row& row, size_t count, uint32_t seed);

// Runs a work by the clock and prints one line of JSON: {"seconds": [...], "sample": [...]}.
void measure(const Row& row, Work& work);

}  // namespace rows
