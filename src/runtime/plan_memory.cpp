// Greedy by size, as memory planners of inference engines do (Pisarchyk and Lee, "Efficient Memory Management for Deep
// Neural Net Inference", 2020): the largest temporary first, each at the lowest offset that is free throughout its
// lifetime. A plan of a long chain with as many temporaries as kernels would make that quadratic, so past kExhaustive
// temporaries each takes, in the order in which they are written, the best block that has been given back.
#include <algorithm>
#include <map>
#include <numeric>

#include "runtime/compiled_plan.hpp"

namespace uopc {
namespace {

constexpr int64_t kAlignment = 64;
constexpr size_t kExhaustive = 1024;

struct Lifetime {
  int64_t bytes = 0;
  size_t first = SIZE_MAX, last = 0;  // kernels
  bool overlaps(const Lifetime& b) const { return first <= b.last && b.first <= last; }
};

std::vector<Lifetime> lifetimes(const Plan& plan) {
  std::vector<Lifetime> all(plan.temps.size());
  for (size_t i = 0; i < all.size(); i++) {
    const int64_t bytes = plan.temps[i].size * itemsize(plan.temps[i].dtype);
    all[i].bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  for (size_t k = 0; k < plan.kernels.size(); k++)
    for (const PlanRef& r : plan.kernels[k].refs) {
      if (r.kind != PlanRef::Kind::Tmp) continue;
      Lifetime& l = all[static_cast<size_t>(r.index)];
      l.first = std::min(l.first, k);
      l.last = std::max(l.last, k);
    }
  return all;
}

MemoryPlan place_by_size(const std::vector<Lifetime>& temps) {
  MemoryPlan plan;
  plan.offsets.assign(temps.size(), 0);
  std::vector<size_t> order(temps.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return temps[a].bytes > temps[b].bytes; });
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    if (temps[i].first == SIZE_MAX || temps[i].bytes == 0) continue;
    int64_t at = 0;
    for (size_t p : placed) {
      if (!temps[p].overlaps(temps[i])) continue;
      if (plan.offsets[p] - at >= temps[i].bytes) break;
      at = std::max(at, plan.offsets[p] + temps[p].bytes);
    }
    plan.offsets[i] = at;
    plan.bytes = std::max(plan.bytes, at + temps[i].bytes);
    placed.insert(std::ranges::upper_bound(placed, at, {}, [&](size_t p) { return plan.offsets[p]; }), i);
  }
  return plan;
}

MemoryPlan place_by_time(const std::vector<Lifetime>& temps, size_t kernels) {
  MemoryPlan plan;
  plan.offsets.assign(temps.size(), 0);
  std::vector<std::vector<size_t>> begins(kernels), ends(kernels);
  for (size_t i = 0; i < temps.size(); i++) {
    if (temps[i].first == SIZE_MAX || temps[i].bytes == 0) continue;
    begins[temps[i].first].push_back(i);
    ends[temps[i].last].push_back(i);
  }
  std::multimap<int64_t, int64_t> free;  // bytes to offset
  for (size_t k = 0; k < kernels; k++) {
    for (size_t i : begins[k]) {
      const auto block = free.lower_bound(temps[i].bytes);
      // A block more than twice as large waits for something larger.
      if (block != free.end() && block->first <= 2 * temps[i].bytes) {
        const auto [bytes, offset] = *block;
        free.erase(block);
        plan.offsets[i] = offset;
        if (bytes > temps[i].bytes) free.emplace(bytes - temps[i].bytes, offset + temps[i].bytes);
      } else {
        plan.offsets[i] = plan.bytes;
        plan.bytes += temps[i].bytes;
      }
    }
    for (size_t i : ends[k]) free.emplace(temps[i].bytes, plan.offsets[i]);
  }
  return plan;
}

}  // namespace

MemoryPlan plan_memory(const Plan& plan) {
  const std::vector<Lifetime> temps = lifetimes(plan);
  return temps.size() <= kExhaustive ? place_by_size(temps) : place_by_time(temps, plan.kernels.size());
}

}  // namespace uopc
