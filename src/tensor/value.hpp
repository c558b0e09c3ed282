// What stands behind a Tensor.
//
// A Value is what a tensor is at one time: a UOp of the Context's Graph, and the Values it was built from, which keep
// the memory that the UOp reads alive. Realizing changes how it is known, not what it is: `uop` becomes a view of a
// BUFFER, `built_as` stays what dependents were built on, and the sources are let go. `assign` gives a Tensor another
// Value.
//
// Invariant: a BUFFER in a Value's UOp belongs to a Value reached through `sources`, or to itself.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "uopc/tensor.hpp"

namespace uopc {

class Buffer;

struct Value {
  std::shared_ptr<Context::Impl> context;
  UOp uop;       // realized: BUFFER, or a RESHAPE of it
  UOp built_as;  // the UOp that dependents made before it was realized hold
  std::vector<std::shared_ptr<Value>> sources;
  std::shared_ptr<Buffer> buffer;              // realized only
  int64_t handles = 0;                         // Tensors whose value it is
  Value *previous = nullptr, *next = nullptr;  // in the list of the Context's Values

  Value(std::shared_ptr<Context::Impl> context, UOp uop, std::vector<std::shared_ptr<Value>> sources);
  ~Value();  // without recursion, however long the chain of sources
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
};

// Lets `values` go; what dies with them is destroyed without recursion.
void release(std::vector<std::shared_ptr<Value>> values);

// A Tensor's hold on its Value, which is told from that of a Value built on it.
class ValueHandle {
 public:
  ValueHandle(std::shared_ptr<Value> v) : value_(std::move(v)) { value_->handles++; }
  ValueHandle(ValueHandle&& h) noexcept : value_(std::move(h.value_)) {}
  ValueHandle& operator=(ValueHandle&&) = delete;
  ~ValueHandle() {
    if (value_) value_->handles--;
  }
  // Another value in its place; returns the old one.
  std::shared_ptr<Value> exchange(std::shared_ptr<Value> v) {
    value_->handles--;
    v->handles++;
    return std::exchange(value_, std::move(v));
  }
  const std::shared_ptr<Value>& shared() const { return value_; }
  Value* operator->() const { return value_.get(); }
  Value& operator*() const { return *value_; }
  Value* get() const { return value_.get(); }
  int64_t use_count() const { return value_.use_count(); }

 private:
  std::shared_ptr<Value> value_;
};

struct Tensor::Impl {
  ValueHandle value;
  std::shared_ptr<Buffer> home{};       // memory that an assigned value is to be computed into; null without one
  std::shared_ptr<Impl> base{};         // of a view: what `assign` changes
  std::shared_ptr<Value> base_value{};  // what the base was when the view was made
  bool rearranged = false;              // seen in an order that `assign` does not go back through: it refuses
};

// The one way an operation makes its result: `uop` is built from the UOps of `operands` (`uop_of`), all of one Context.
Tensor make_tensor(UOp uop, std::span<const Tensor> operands);
inline Tensor make_tensor(UOp uop, std::initializer_list<Tensor> operands) {
  return make_tensor(uop, std::span(operands.begin(), operands.size()));
}
// The same, a view of `of`: movement that `assign` can go back through.
Tensor make_view(UOp uop, const Tensor& of);
// The same of other movement: `assign` to it, or to a view of it, is an error, where it would be lost.
Tensor make_rearranged(UOp uop, const Tensor& of);
// A leaf: memory of its own, which is filled with `fill` when it is first used.
Tensor make_leaf(const Context& ctx, Shape shape, DType dtype, Scalar fill);

// The number of elements; INT64_MAX where it is more. Sizes are not negative.
int64_t count_of(const Shape& shape);

// The UOp that an operation builds on. Throws Error(Type) for an empty tensor.
UOp uop_of(const Tensor& t);
// Throws Error(Type) unless all belong to one Context.
void check_one_context(std::span<const Tensor> operands, const char* operation);

// i32 0..n-1 in memory of the Context, shared by all who ask: the source of indices (arange, one_hot, masks, random
// numbers).
Tensor iota(const Context& ctx, int64_t n);

// Two i32 numbers, key and counter, that no other random tensor of the Context has; drawn anew by each replay of a
// Capture.
Tensor random_key(const Context& ctx);

}  // namespace uopc
