#include "runtime/check_buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "uopc/error.hpp"

namespace uopc {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Run, message);
}

uint64_t byte_count(const KernelParam& p) {
  return static_cast<uint64_t>(p.size) * static_cast<uint64_t>(itemsize(p.dtype));
}

void check_overlap(std::span<const KernelParam> params, std::span<const BufferRef> buffers) {
  struct Piece {
    const char *begin, *end;
    size_t index;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < buffers.size(); i++) {
    // Of a longer buffer only the part that the kernel knows of counts.
    const char* data = static_cast<const char*>(buffers[i].data);
    if (const uint64_t bytes = byte_count(params[i])) pieces.push_back({data, data + bytes, i});
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return std::less<const char*>()(a.begin, b.begin); });
  // The piece that reaches furthest so far, of all and of the written ones.
  const Piece *any = nullptr, *written = nullptr;
  const auto overlaps = [](const Piece* before, const Piece& p) { return before && p.begin < before->end; };
  for (const Piece& p : pieces) {
    const bool writes = params[p.index].written;
    if (const Piece* other = overlaps(written, p) ? written : writes && overlaps(any, p) ? any : nullptr) {
      const auto [low, high] = std::minmax(params[other->index].slot, params[p.index].slot);
      fail(fmt::format("the buffers of slots {} and {} overlap, and slot {} is written", low, high,
                       params[writes ? p.index : other->index].slot));
    }
    if (!any || p.end > any->end) any = &p;
    if (writes && (!written || p.end > written->end)) written = &p;
  }
}

}  // namespace

void check_buffers(std::span<const KernelParam> params, std::span<const BufferRef> buffers) {
  if (params.size() != buffers.size())
    fail(fmt::format("the kernel takes {} buffers and was given {}", params.size(), buffers.size()));
  for (size_t i = 0; i < params.size(); i++) {
    const KernelParam& p = params[i];
    const uint64_t want = byte_count(p);
    if (buffers[i].dtype.value_or(p.dtype) != p.dtype)
      fail(fmt::format("the buffer of slot {} holds {}; the kernel takes {}", p.slot, name(*buffers[i].dtype),
                       name(p.dtype)));
    if (buffers[i].bytes < want)
      fail(fmt::format("the buffer of slot {} has {} bytes; {} elements of {} need {}", p.slot, buffers[i].bytes,
                       p.size, name(p.dtype), want));
    if (p.written && !buffers[i].writable) fail(fmt::format("the buffer of slot {} is const, and is written", p.slot));
    if (want && !buffers[i].data) fail(fmt::format("the buffer of slot {} is a null pointer", p.slot));
  }
  check_overlap(params, buffers);
}

}  // namespace uopc
