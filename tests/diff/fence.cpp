#include "diff/fence.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace uopc::diff {
namespace {
constexpr auto kCanary = std::byte{0xC5};
}

Fence::Fence() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
  const size_t bytes = kRooms * (kRoomBytes + page_) + page_;
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw Error(ErrorCode::Run, "no memory for guarded buffers");
  base_ = static_cast<std::byte*>(p);
  for (size_t i = 0; i < kRooms; i++) mprotect(room(i), kRoomBytes, PROT_READ | PROT_WRITE);
}

Fence::~Fence() {
  munmap(base_, kRooms * (kRoomBytes + page_) + page_);
}

std::byte* Fence::room(size_t i) const {
  return base_ + page_ + i * (kRoomBytes + page_);
}

std::vector<BufferRef> Fence::place(std::span<const std::vector<std::byte>> contents, Side side) {
  if (contents.size() > kRooms) throw Error(ErrorCode::Run, "too many buffers for the fence");
  placed_.clear();
  for (size_t i = 0; i < contents.size(); i++) {
    const size_t n = contents[i].size();
    if (n > kRoomBytes) throw Error(ErrorCode::Run, "a buffer is too large for the fence");
    std::memset(room(i), static_cast<int>(kCanary), kRoomBytes);
    std::byte* at = side == Side::End ? room(i) + kRoomBytes - n : room(i);
    if (n > 0) std::memcpy(at, contents[i].data(), n);
    placed_.emplace_back(at, n);
  }
  return placed_;
}

std::vector<std::vector<std::byte>> Fence::take() {
  std::vector<std::vector<std::byte>> contents;
  for (size_t i = 0; i < placed_.size(); i++) {
    const auto* at = static_cast<const std::byte*>(placed_[i].data);
    const auto* end = at + placed_[i].bytes;
    for (const std::byte* p = room(i); p < room(i) + kRoomBytes; p++) {
      if (p == at) p = end;
      if (p < room(i) + kRoomBytes && *p != kCanary)
        throw Error(ErrorCode::Run, "buffer " + std::to_string(i) + ": a byte beside it was written");
    }
    contents.emplace_back(at, end);
  }
  return contents;
}

}  // namespace uopc::diff
