#include "runtime/kernel_cache.hpp"

#include "ir/structure.hpp"

namespace uopc {
namespace {

// With the slots, which say in which order a kernel takes its buffers.
std::vector<uint32_t> key_of(UOp program) {
  Structure s = structure(std::span(&program, 1));
  for (UOp b : s.buffers) s.words.push_back(static_cast<uint32_t>(b.arg<ParamArg>().slot));
  return std::move(s.words);
}

}  // namespace

size_t KernelCache::Hash::operator()(const Key& k) const {
  return static_cast<size_t>(hash_words(k));
}

std::optional<Kernel> KernelCache::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto at = by_key_.find(key);
  if (at == by_key_.end()) return {};
  order_.splice(order_.begin(), order_, at->second);
  return at->second->second;
}

std::optional<Kernel> KernelCache::find(UOp program) {
  return find(key_of(program));
}

Kernel KernelCache::get(UOp program, const std::function<Kernel()>& compile) {
  Key key = key_of(program);
  if (auto found = find(key)) return *found;
  Kernel kernel = compile();
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = by_key_.try_emplace(std::move(key));
  if (!fresh) return at->second->second;  // another thread was faster
  order_.emplace_front(&at->first, kernel);
  at->second = order_.begin();
  if (order_.size() > most_) {
    by_key_.erase(by_key_.find(*order_.back().first));
    order_.pop_back();
  }
  return kernel;
}

size_t KernelCache::size() const {
  const std::lock_guard lock(mutex_);
  return order_.size();
}

void KernelCache::clear() {
  const std::lock_guard lock(mutex_);
  by_key_.clear();
  order_.clear();
}

}  // namespace uopc
