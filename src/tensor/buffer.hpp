// Memory of tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "uopc/dtype.hpp"

namespace uopc {

struct Value;

// Keeps what is given back for the next one of its size.
class Pool {
 public:
  ~Pool();
  void* take(size_t bytes);  // aligned to 64; throws Error(Run) when there is none left
  void give(void* memory, size_t bytes) noexcept;
  void trim() noexcept;
  int64_t live_bytes() const { return live_; }
  int64_t pooled_bytes() const { return pooled_; }

 private:
  std::map<size_t, std::vector<void*>> free_;
  int64_t live_ = 0, pooled_ = 0;
};

// The memory of one BUFFER node, whose slot is the Buffer's alone in its Context. Made when it is first asked for, and
// filled with `fill` then.
class Buffer {
 public:
  Buffer(std::shared_ptr<Pool> pool, int64_t slot, DType dtype, int64_t size, Scalar fill)
      : slot(slot), dtype(dtype), size(size), pool_(std::move(pool)), fill_(fill) {}
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const int64_t slot;
  const DType dtype;
  const int64_t size;           // elements
  std::vector<Value*> holders;  // what is in it: each is all of it
  int64_t awaited = 0;          // Values whose home it is
  int64_t captures = 0;         // Captures that read or write it

  size_t bytes() const { return static_cast<size_t>(size * itemsize(dtype)); }
  void* data();               // filled
  void* data_to_overwrite();  // not filled when it is new

 private:
  void fill();

  std::shared_ptr<Pool> pool_;
  Scalar fill_;
  void* data_ = nullptr;
};

}  // namespace uopc
