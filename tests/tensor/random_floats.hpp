// Numbers to compute with.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

namespace uopc {

inline std::vector<float> random_floats(size_t n, uint64_t seed, float low = -1, float high = 1) {
  std::mt19937_64 r(seed);
  std::uniform_real_distribution<float> d(low, high);
  std::vector<float> out(n);
  for (float& v : out) v = d(r);
  return out;
}

}  // namespace uopc
