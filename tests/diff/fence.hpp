// Memory whose neighbours are out of reach: a buffer placed in it ends, or begins, at a page that cannot be touched.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "uopc/kernel.hpp"

namespace uopc::diff {

class Fence {
 public:
  enum class Side : uint8_t { End, Begin };  // where the guard page is

  Fence();
  ~Fence();
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;

  // Places a copy of each of `contents` in a room of its own. What was placed before is gone.
  std::vector<BufferRef> place(std::span<const std::vector<std::byte>> contents, Side side);
  // The buffers as they are now. Throws Error(Run) when a byte beside one has changed.
  std::vector<std::vector<std::byte>> take();

 private:
  static constexpr size_t kRooms = 24, kRoomBytes = 40 << 10;

  std::byte* room(size_t i) const;
  std::byte* base_;
  size_t page_;
  std::vector<BufferRef> placed_;
};

}  // namespace uopc::diff
