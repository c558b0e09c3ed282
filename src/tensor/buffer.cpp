#include "tensor/buffer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <string>

#include "ir/half.hpp"
#include "uopc/error.hpp"

namespace uopc {
namespace {

constexpr std::align_val_t kAlignment{64};

// Sizes are rounded up so that an eighth is wasted at most.
size_t size_class(size_t bytes) {
  const size_t step = std::max<size_t>(64, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

}  // namespace

Pool::~Pool() {
  trim();
}

void* Pool::take(size_t bytes) {
  if (bytes == 0) return nullptr;
  const size_t n = size_class(bytes);
  if (const auto at = free_.find(n); at != free_.end() && !at->second.empty()) {
    void* memory = at->second.back();
    at->second.pop_back();
    pooled_ -= static_cast<int64_t>(n);
    live_ += static_cast<int64_t>(n);
    return memory;
  }
  void* memory = ::operator new(n, kAlignment, std::nothrow);
  if (!memory) {
    trim();
    memory = ::operator new(n, kAlignment, std::nothrow);
  }
  if (!memory) throw Error(ErrorCode::Run, "out of memory: a tensor needs " + std::to_string(bytes) + " bytes");
  live_ += static_cast<int64_t>(n);
  return memory;
}

void Pool::give(void* memory, size_t bytes) noexcept {
  if (!memory) return;
  const size_t n = size_class(bytes);
  live_ -= static_cast<int64_t>(n);
  try {
    free_[n].push_back(memory);
    pooled_ += static_cast<int64_t>(n);
  } catch (const std::bad_alloc&) {
    ::operator delete(memory, kAlignment);
  }
}

void Pool::trim() noexcept {
  for (auto& [bytes, blocks] : free_)
    for (void* memory : blocks) ::operator delete(memory, kAlignment);
  free_.clear();
  pooled_ = 0;
}

Buffer::~Buffer() {
  pool_->give(data_, bytes());
}

void* Buffer::data_to_overwrite() {
  if (!data_) data_ = pool_->take(bytes());
  return data_;
}

void* Buffer::data() {
  if (!data_) {
    data_to_overwrite();
    fill();
  }
  return data_;
}

void Buffer::fill() {
  const auto n = static_cast<size_t>(size);
  switch (dtype) {
    case DType::Void:
      break;
    case DType::Bool:
      std::fill_n(static_cast<uint8_t*>(data_), n, static_cast<uint8_t>(fill_.as_bool()));
      break;
    case DType::I32:
      std::fill_n(static_cast<int32_t*>(data_), n, static_cast<int32_t>(fill_.as_int()));
      break;
    case DType::F32:
      std::fill_n(static_cast<float*>(data_), n, static_cast<float>(fill_.as_float()));
      break;
    case DType::F16:
      std::fill_n(static_cast<uint16_t*>(data_), n, half_from_double(fill_.as_float()));
      break;
  }
}

}  // namespace uopc
