// Where temporaries stand: nothing that is alive at once overlaps, and little memory is taken beyond what is alive.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "runtime/compiled_plan.hpp"

namespace uopc {
namespace {

struct Lifetime {
  int64_t elements;    // of f32
  size_t first, last;  // kernels
};

// A plan of nothing but references: kernel k reads or writes each temporary whose lifetime begins or ends there.
Plan plan_of(const std::vector<Lifetime>& temps) {
  Plan p;
  for (size_t i = 0; i < temps.size(); i++) {
    const Lifetime& l = temps[i];
    p.temps.push_back({DType::F32, l.elements});
    p.kernels.resize(std::max(p.kernels.size(), l.last + 1));
    for (size_t k : {l.first, l.last}) p.kernels[k].refs.push_back({PlanRef::Kind::Tmp, static_cast<int64_t>(i)});
  }
  return p;
}

int64_t aligned_bytes(const Lifetime& l) {
  return (l.elements * 4 + 63) / 64 * 64;
}

int64_t peak_of_live_bytes(const std::vector<Lifetime>& temps) {
  std::vector<std::pair<size_t, int64_t>> changes;
  for (const Lifetime& l : temps) {
    changes.emplace_back(l.first, aligned_bytes(l));
    changes.emplace_back(l.last + 1, -aligned_bytes(l));
  }
  std::ranges::sort(changes);  // at one kernel what ends comes first
  int64_t live = 0, peak = 0;
  for (const auto& [kernel, bytes] : changes) peak = std::max(peak, live += bytes);
  return peak;
}

// Checks each pair by a sweep over the kernels: those that are alive, by offset, do not reach into the next.
void expect_sound(const std::vector<Lifetime>& temps, const MemoryPlan& m) {
  ASSERT_EQ(m.offsets.size(), temps.size());
  std::vector<std::vector<size_t>> begins, ends;
  for (size_t i = 0; i < temps.size(); i++) {
    const size_t n = std::max(begins.size(), temps[i].last + 1);
    begins.resize(n), ends.resize(n);
    begins[temps[i].first].push_back(i);
    ends[temps[i].last].push_back(i);
    ASSERT_EQ(m.offsets[i] % 64, 0);
    ASSERT_GE(m.offsets[i], 0);
    ASSERT_LE(m.offsets[i] + temps[i].elements * 4, m.bytes);
  }
  std::map<int64_t, int64_t> alive;  // offset to end
  for (size_t k = 0; k < begins.size(); k++) {
    for (size_t i : begins[k]) {
      if (temps[i].elements == 0) continue;
      const auto [at, fresh] = alive.emplace(m.offsets[i], m.offsets[i] + temps[i].elements * 4);
      ASSERT_TRUE(fresh) << "temporary " << i;
      ASSERT_TRUE(std::next(at) == alive.end() || at->second <= std::next(at)->first) << "temporary " << i;
      ASSERT_TRUE(at == alive.begin() || std::prev(at)->second <= at->first) << "temporary " << i;
    }
    for (size_t i : ends[k])
      if (temps[i].elements > 0) alive.erase(m.offsets[i]);
  }
}

void expect_within(double factor, const std::vector<Lifetime>& temps, const std::string& what) {
  SCOPED_TRACE(what);
  const MemoryPlan m = plan_memory(plan_of(temps));
  expect_sound(temps, m);
  const int64_t peak = peak_of_live_bytes(temps);
  EXPECT_LE(static_cast<double>(m.bytes), factor * static_cast<double>(peak))
      << "ratio " << static_cast<double>(m.bytes) / static_cast<double>(peak);
}

// Sizes from 1 to 2^16 elements, each power of two as likely as the next.
int64_t random_size(std::mt19937_64& rng) {
  const int64_t low = int64_t{1} << (rng() % 17);
  return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(low));
}

TEST(PlanMemory, RandomLifetimes) {
  for (size_t n : {1, 2, 3, 10, 100, 1024, 1025, 3000, 20'000}) {
    for (size_t longest : {1, 4, 40, 1000}) {
      std::mt19937_64 rng(n * 7 + longest);
      std::vector<Lifetime> temps;
      for (size_t i = 0; i < n; i++) temps.push_back({random_size(rng), i, i + 1 + rng() % longest});
      expect_within(1.5, temps, std::to_string(n) + " that live up to " + std::to_string(longest));
    }
  }
}

TEST(PlanMemory, SeveralOfOneKernel) {
  std::mt19937_64 rng(5);
  for (int round = 0; round < 50; round++) {
    std::vector<Lifetime> temps;
    for (size_t i = 0; i < 300; i++) {
      const size_t first = rng() % 60;
      temps.push_back({static_cast<int64_t>(rng() % 3) == 0 ? 0 : random_size(rng), first, first + rng() % 10});
    }
    expect_within(1.5, temps, "round " + std::to_string(round));
  }
}

TEST(PlanMemory, Chains) {
  for (size_t n : {10, 1000, 1025, 10'000}) {
    const auto chain = [&](auto size_of) {
      std::vector<Lifetime> temps;
      for (size_t i = 0; i < n; i++) temps.push_back({size_of(static_cast<int64_t>(i)), i, i + 1});
      return temps;
    };
    const auto count = static_cast<int64_t>(n);
    const std::string links = " of " + std::to_string(n);
    expect_within(1.0, chain([](int64_t) { return 1000; }), "even chain" + links);
    expect_within(1.01, chain([](int64_t i) { return 64 * (i + 1); }), "growing chain" + links);
    expect_within(1.01, chain([&](int64_t i) { return 64 * (count - i); }), "shrinking chain" + links);
    expect_within(1.5, chain([](int64_t i) { return 64 * (1 + i % 7); }), "sawtooth" + links);
    expect_within(1.5, chain([&](int64_t i) { return 64 * (1 + std::min(i, count - i)); }), "swelling chain" + links);
  }
}

// Forward and backward pass: what is computed first is needed longest.
TEST(PlanMemory, NestedLifetimes) {
  for (size_t n : {100, 5000}) {
    std::mt19937_64 rng(n);
    std::vector<Lifetime> temps;
    for (size_t i = 0; i < n; i++) temps.push_back({random_size(rng), i, 3 * n - i});
    for (size_t i = 0; i < n; i++) temps.push_back({random_size(rng), 2 * n - i - 1, 2 * n - i + 1});
    expect_within(1.2, temps, std::to_string(n) + " layers");
  }
}

TEST(PlanMemory, WhatNoKernelTakesNeedsNone) {
  Plan p;
  p.temps = {{DType::F32, 100}, {DType::F32, 3}};
  p.kernels.resize(1);
  p.kernels[0].refs = {{PlanRef::Kind::Tmp, 1}};
  EXPECT_EQ(plan_memory(p).bytes, 64);
  EXPECT_EQ(plan_memory(Plan{}).bytes, 0);
}

// Quadratic would be minutes.
TEST(PlanMemory, AHundredThousandTemporaries) {
  std::mt19937_64 rng(1);
  std::vector<Lifetime> temps;
  for (size_t i = 0; i < 100'000; i++) temps.push_back({random_size(rng), i, i + 1 + rng() % 5000});
  expect_within(1.5, temps, "random");
}

}  // namespace
}  // namespace uopc
