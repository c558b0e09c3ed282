#include "tensor/allocations.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> count = 0;

constexpr std::align_val_t kUsual{alignof(std::max_align_t)};

}  // namespace

int64_t allocations() {
  return count;
}

// Of this whole program. The forms for arrays call these.
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  count++;
  const auto step = static_cast<size_t>(alignment);
  return std::aligned_alloc(step, (std::max<size_t>(bytes, 1) + step - 1) / step * step);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  if (void* p = operator new(bytes, alignment, std::nothrow)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes, kUsual, std::nothrow);
}
void* operator new(size_t bytes) {
  return operator new(bytes, kUsual);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t, std::align_val_t) noexcept {
  std::free(p);
}
