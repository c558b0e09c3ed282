#include "runtime/lru_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>

namespace uopc {
namespace {

using Key = LruCache<int>::Key;

TEST(LruCache, TheLeastRecentlyUsedGo) {
  LruCache<int> c(2);
  c.insert({1}, 10);
  c.insert({2}, 20);
  ASSERT_NE(c.find({1}), nullptr);  // now {2} is the oldest
  EXPECT_EQ(c.insert({3}, 30), 30);
  EXPECT_EQ(c.find({2}), nullptr);
  EXPECT_EQ(*c.find({1}), 10);
  EXPECT_EQ(*c.find({3}), 30);
}

TEST(LruCache, OfOneKeepsTheLast) {
  LruCache<int> c(1);
  for (uint32_t i = 0; i < 5; i++) {
    EXPECT_EQ(c.insert({i}, static_cast<int>(i)), static_cast<int>(i));
    EXPECT_EQ(*c.find({i}), static_cast<int>(i));
    if (i > 0) {
      EXPECT_EQ(c.find({i - 1}), nullptr);
    }
  }
}

TEST(LruCache, AKeyThatIsThereGetsTheNewValue) {
  LruCache<std::shared_ptr<int>> c(2);
  const auto first = std::make_shared<int>(1), second = std::make_shared<int>(2);
  c.insert({1}, first);
  c.insert({2}, nullptr);
  EXPECT_EQ(c.insert({1}, second), second);
  EXPECT_EQ(first.use_count(), 1);
  c.insert({3}, nullptr);
  EXPECT_EQ(c.find({2}), nullptr) << "it was the least recently used";
  EXPECT_EQ(*c.find({1}), second);
  c.insert({4}, nullptr);
  c.insert({5}, nullptr);
  EXPECT_EQ(c.find({1}), nullptr);
  EXPECT_EQ(second.use_count(), 1);
}

TEST(LruCache, KeysThatArePrefixesDiffer) {
  LruCache<int> c(8);
  c.insert({}, 0);
  c.insert({0}, 1);
  c.insert({0, 0}, 2);
  EXPECT_EQ(*c.find({}), 0);
  EXPECT_EQ(*c.find({0}), 1);
  EXPECT_EQ(*c.find({0, 0}), 2);
  EXPECT_EQ(c.find({0, 0, 0}), nullptr);
}

// What falls out is destroyed at once: a cache of kernels must not hold their code longer.
TEST(LruCache, HoldsNoMoreThanItsBound) {
  LruCache<std::shared_ptr<int>> c(7);
  std::vector<std::weak_ptr<int>> all;
  const auto alive = [&] { return std::ranges::count_if(all, [](const auto& w) { return !w.expired(); }); };
  for (uint32_t i = 0; i < 100; i++) {
    auto value = std::make_shared<int>(static_cast<int>(i));
    all.push_back(value);
    c.insert({i, i * i}, std::move(value));
    EXPECT_EQ(alive(), std::min<int64_t>(i + 1, 7));
  }
  c.clear();
  EXPECT_EQ(alive(), 0);
  EXPECT_EQ(c.find({99, 99 * 99}), nullptr);
  c.insert({99, 99 * 99}, std::make_shared<int>(1));
  EXPECT_NE(c.find({99, 99 * 99}), nullptr);
}

TEST(LruCache, AgreesWithAListOfWhatWasUsed) {
  constexpr size_t kMost = 16;
  LruCache<int> c(kMost);
  std::deque<uint32_t> used;  // most recently first
  std::mt19937 rng(3);
  for (int step = 0; step < 20'000; step++) {
    const uint32_t k = rng() % 40;
    const auto at = std::ranges::find(used, k);
    const int* found = c.find({k, 7});
    ASSERT_EQ(found != nullptr, at != used.end()) << "step " << step;
    if (found) {
      ASSERT_EQ(*found, static_cast<int>(k));
      used.erase(at);
    } else {
      c.insert({k, 7}, static_cast<int>(k));
      if (used.size() == kMost) used.pop_back();
    }
    used.push_front(k);
  }
}

}  // namespace
}  // namespace uopc
