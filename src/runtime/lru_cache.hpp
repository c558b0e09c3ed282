// What has been made so far, by a key of words.
#pragma once
#include <cstdint>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/structure.hpp"

namespace uopc {

// Bounded: the least recently used go. Not thread-safe.
template <class T>
class LruCache {
 public:
  using Key = std::vector<uint32_t>;

  explicit LruCache(size_t most) : most_(most) {}

  // Null when there is none. Good until the next insertion.
  const T* find(const Key& key) {
    const auto at = by_key_.find(key);
    if (at == by_key_.end()) return nullptr;
    order_.splice(order_.begin(), order_, at->second);
    return &at->second->second;
  }

  // In place of what the key had. `most` is 1 or more, so that what is inserted stays.
  const T& insert(Key key, T value) {
    Entries one;
    one.emplace_front(nullptr, std::move(value));
    const auto [at, fresh] = by_key_.try_emplace(std::move(key), one.begin());
    if (!fresh) order_.erase(std::exchange(at->second, one.begin()));
    one.front().first = &at->first;
    order_.splice(order_.begin(), one);
    if (order_.size() > most_) {
      by_key_.erase(by_key_.find(*order_.back().first));
      order_.pop_back();
    }
    return order_.front().second;
  }

  void clear() {
    by_key_.clear();
    order_.clear();
  }

 private:
  struct Hash {
    size_t operator()(const Key& k) const { return static_cast<size_t>(hash_words(k)); }
  };
  using Entries = std::list<std::pair<const Key*, T>>;  // most recently used first

  const size_t most_;
  Entries order_;
  std::unordered_map<Key, typename Entries::iterator, Hash> by_key_;
};

}  // namespace uopc
