#include "contestant.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

namespace rows {

const std::vector<Contestant>& contestants() {
  static const std::vector<Contestant> all = {
      {"uopc", make_uopc},         {"limit", make_limit}, {"gcc", make_loops}, {"gcc -shared", make_system_compiler},
#ifdef UOPC_BENCH_OPENBLAS
      {"OpenBLAS", make_openblas},
#endif
#ifdef UOPC_BENCH_DNNL
      {"oneDNN", make_onednn},
#endif
  };
  return all;
}

std::vector<float> operand(const Row& row, size_t count, uint32_t seed) {
  const float shift = row.kind == Kind::Log ? 1 : 0;
  std::vector<float> v(count);
  for (size_t i = 0; i < count; i++) {
    uint32_t x = static_cast<uint32_t>(i) + 1 + seed * 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x7feb352du;  // lowbias32, by C. Wellons
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    x ^= x >> 16;
    v[i] = static_cast<float>(x >> 8) * 0x1p-24f - 0.5f + shift;
  }
  return v;
}

void measure(const Row& row, Work& work) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); };
  const auto run = [&](int repeats) {
    const auto start = Clock::now();
    for (int i = 0; i < repeats; i++) work.step();
    return since(start) / repeats;
  };
  run(3);
  // At least 20 us between two looks at the clock.
  const double once = std::min(run(1), run(1));
  const int repeats = row.kind == Kind::Compile ? 1 : static_cast<int>(std::clamp(20e-6 / once, 1.0, 10'000.0));
  nlohmann::json seconds = nlohmann::json::array();
  const auto start = Clock::now();
  while (seconds.size() < 5 || (since(start) < 0.4 && seconds.size() < 2000)) seconds.push_back(run(repeats));
  nlohmann::json line = {{"seconds", seconds}, {"sample", nlohmann::json::array()}};
  if (work.output) {
    const std::vector<float> values = work.output();
    const size_t step = std::max<size_t>(1, values.size() / 997);
    for (size_t i = 0; i < values.size(); i += step) line["sample"].push_back(values[i]);
  }
  fmt::print("{}\n", line.dump());
}

}  // namespace rows
