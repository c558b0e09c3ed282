// Kernels compiled so far, by the structure of their programs: equal kernels of one plan, or of two, are compiled once.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "uopc/kernel.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// Bounded: the least recently used go. Thread-safe. Of one Engine, whose options are not part of the key.
class KernelCache {
 public:
  explicit KernelCache(size_t most = 4096) : most_(most) {}

  // Makes a miss by `compile`, outside of the lock; what it throws passes through and leaves the cache as it was.
  Kernel get(UOp program, const std::function<Kernel()>& compile);
  std::optional<Kernel> find(UOp program);
  size_t size() const;
  void clear();

 private:
  using Key = std::vector<uint32_t>;
  struct Hash {
    size_t operator()(const Key& k) const;
  };
  using Entries = std::list<std::pair<const Key*, Kernel>>;  // most recently used first

  std::optional<Kernel> find(const Key& key);

  mutable std::mutex mutex_;
  const size_t most_;
  Entries order_;
  std::unordered_map<Key, Entries::iterator, Hash> by_key_;
};

}  // namespace uopc
