// Which order of placing is best depends on the lifetimes, so several are tried and the smallest result is taken:
//   - by time: each temporary, as it is written, takes the smallest free block that holds it; blocks given back are
//     merged with their neighbours. n log n;
//   - the same from the last kernel to the first, which is as good where sizes grow as the former is where they shrink;
//   - up to kExhaustive temporaries, greedy by size as memory planners of inference engines do (Pisarchyk and Lee,
//     "Efficient Memory Management for Deep Neural Net Inference", 2020): the largest first, each at the lowest offset
//     that is free throughout its lifetime. Quadratic.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

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

// The gaps between what is placed; they never touch each other.
class FreeList {
 public:
  // The lowest of the smallest gaps that hold `bytes`; without one the end grows, over a gap there.
  int64_t take(int64_t bytes) {
    int64_t at = end_;
    if (const auto best = by_size_.lower_bound({bytes, 0}); best != by_size_.end()) {
      const auto [gap, offset] = *best;
      at = offset;
      remove(by_offset_.find(offset));
      if (gap > bytes) add(at + bytes, gap - bytes);
      return at;
    }
    if (!by_offset_.empty()) {
      const auto last = std::prev(by_offset_.end());
      if (last->first + last->second == end_) {
        at = last->first;
        remove(last);
      }
    }
    end_ = at + bytes;
    return at;
  }

  void give_back(int64_t offset, int64_t bytes) {
    const auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        remove(before);
      }
    }
    if (next != by_offset_.end() && offset + bytes == next->first) {
      bytes += next->second;
      remove(next);
    }
    add(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  using Gaps = std::map<int64_t, int64_t>;  // offset to bytes

  void add(int64_t offset, int64_t bytes) {
    by_offset_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }
  void remove(Gaps::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    by_offset_.erase(gap);
  }

  Gaps by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

MemoryPlan place_by_time(const std::vector<Lifetime>& temps, size_t kernels, bool backwards) {
  MemoryPlan plan;
  plan.offsets.assign(temps.size(), 0);
  std::vector<std::vector<size_t>> begins(kernels), ends(kernels);
  for (size_t i = 0; i < temps.size(); i++) {
    const auto [bytes, first, last] = temps[i];
    if (first == SIZE_MAX || bytes == 0) continue;
    begins[backwards ? kernels - 1 - last : first].push_back(i);
    ends[backwards ? kernels - 1 - first : last].push_back(i);
  }
  FreeList free;
  for (size_t k = 0; k < kernels; k++) {
    std::ranges::stable_sort(begins[k], [&](size_t a, size_t b) { return temps[a].bytes > temps[b].bytes; });
    for (size_t i : begins[k]) plan.offsets[i] = free.take(temps[i].bytes);
    for (size_t i : ends[k]) free.give_back(plan.offsets[i], temps[i].bytes);
  }
  plan.bytes = free.end();
  return plan;
}

}  // namespace

MemoryPlan plan_memory(const Plan& plan) {
  const std::vector<Lifetime> temps = lifetimes(plan);
  const size_t kernels = plan.kernels.size();
  MemoryPlan best = place_by_time(temps, kernels, false);
  const auto improve = [&](MemoryPlan other) {
    if (other.bytes < best.bytes) best = std::move(other);
  };
  improve(place_by_time(temps, kernels, true));
  if (temps.size() <= kExhaustive) improve(place_by_size(temps));
  return best;
}

}  // namespace uopc
