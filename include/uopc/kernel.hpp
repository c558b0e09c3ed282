// A compiled kernel.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "uopc/dtype.hpp"
#include "uopc/error.hpp"
#include "uopc/export.hpp"

namespace uopc {

// One BUFFER of a kernel. bool is one byte (0 or 1), f16 is IEEE binary16.
struct KernelParam {
  int64_t slot;
  DType dtype;
  int64_t size;  // elements
  bool read, written;
};

// Memory that the caller owns. Needs the alignment of its element type only. Made of a pointer and a size, or of any
// contiguous container: std::vector, std::array, std::span, an array of C.
struct BufferRef {
  void* data = nullptr;
  size_t bytes = 0;
  bool writable = true;
  std::optional<DType> dtype;  // of a container of float, int32_t or bool; nothing: whatever the kernel takes

  BufferRef() = default;
  BufferRef(void* data, size_t bytes) : data(data), bytes(bytes) {}
  BufferRef(const void* data, size_t bytes) : data(const_cast<void*>(data)), bytes(bytes), writable(false) {}
  template <class R>
  requires(std::ranges::contiguous_range<R>&& std::ranges::sized_range<R>) BufferRef(R&& r)
      : BufferRef(std::ranges::data(r), std::ranges::size(r) * sizeof(*std::ranges::data(r))) {
    using T = std::remove_cvref_t<decltype(*std::ranges::data(r))>;
    static_assert(!std::is_arithmetic_v<T> || sizeof(T) <= 4, "no dtype has elements of this type (double, int64_t)");
    if constexpr (std::is_same_v<T, float>) dtype = DType::F32;
    if constexpr (std::is_same_v<T, int32_t>) dtype = DType::I32;
    if constexpr (std::is_same_v<T, bool>) dtype = DType::Bool;
  }
};

// What a kernel's code returns.
enum class KernelStatus : int32_t { Ok = 0, IndexOutOfRange = 1, OutOfMemory = 2, ParallelForFailed = 3 };

// What a call tells beyond its status; the slot, index and size of one access when the status is IndexOutOfRange.
struct KernelContext {
  int64_t slot = 0, index = 0, size = 0;
};

// The raw entry: one pointer per parameter in the order of `params()`. Returns a KernelStatus. Written buffers must not
// overlap any other one; buffers are not checked. `context` may be null.
using KernelEntry = int32_t (*)(void* const* buffers, KernelContext* context);

// A handle; copies share the code, which is freed with the last one. May outlive its Engine. Calling is safe from any
// number of threads at once, also inside a parallel region of the host's own, as long as they write different memory.
class UOPC_API Kernel {
 public:
  struct Impl;
  Kernel() = default;  // empty, as one moved from: it may be assigned to and tested; all else throws Error(Run)
  explicit Kernel(std::shared_ptr<const Impl> impl);
  explicit operator bool() const { return impl_ != nullptr; }

  const std::string& name() const;
  std::span<const KernelParam> params() const;  // by slot, lowest first

  // One buffer per parameter, in the order of `params()`, at least as large as it. Throws Error(Run) when their number,
  // a size or a dtype is wrong, a written one is const or overlaps another, an index is out of range
  // (Options::check_bounds), or memory ran out.
  void operator()(std::span<const BufferRef> buffers) const;
  void operator()(std::initializer_list<BufferRef> buffers) const {
    (*this)(std::span(buffers.begin(), buffers.size()));
  }

  KernelEntry entry() const;
  size_t code_bytes() const;

 private:
  const Impl& impl() const;

  std::shared_ptr<const Impl> impl_;
};

}  // namespace uopc
