// What stands behind a Tensor.
//
// A Value is what a tensor is at one time: a UOp of the Context's Graph, and the Values it was built from, which keep
// the memory that the UOp reads alive. Realizing changes how it is known, not what it is: `uop` becomes a view of a
// BUFFER, `built_as` stays what dependents were built on. While there are dependents its sources stay too, since a
// gradient may go through them; with the last dependent they go. `assign` gives a Tensor another Value.
//
// Invariant: a BUFFER in a Value's UOp belongs to a Value reached through `sources`, or to itself.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "uopc/tensor.hpp"

namespace uopc {

class Buffer;
class ValueHandle;

struct Value : std::enable_shared_from_this<Value> {
  std::shared_ptr<Context::Impl> context;
  UOp uop;       // realized: BUFFER, or a RESHAPE of it
  UOp built_as;  // the UOp that dependents made before it was realized hold
  UOp origin;    // realized, its sources gone: what it was computed as, of BUFFERs that may hold other values since
  std::vector<std::shared_ptr<Value>> sources;
  std::shared_ptr<Buffer> buffer;  // realized only
  std::shared_ptr<Buffer> home;  // where it is to be computed: memory of the Tensor `home_of`, to which it was assigned
  const ValueHandle* home_of = nullptr;
  const int64_t id;        // by creation: sources have smaller ones
  int64_t since;           // the id of the time when its contents came about; later than `id` where they were written
  int64_t handles = 0;     // Tensors whose value it is
  int64_t dependents = 0;  // places in the sources of other Values
  Value *previous = nullptr, *next = nullptr;  // in the list of the Context's Values, the latest first

  Value(std::shared_ptr<Context::Impl> context, UOp uop, std::vector<std::shared_ptr<Value>> sources);
  ~Value();  // without recursion, however long the chain of sources
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  // It is computed: `memory` holds it, all of it. Its sources go once it has no dependents.
  void place(std::shared_ptr<Buffer> memory);
  void forget_sources();
  void set_home(std::shared_ptr<Buffer> memory, const ValueHandle* of);  // null: none
};

// A Tensor's hold on its Value, which is told from that of a Value built on it.
class ValueHandle {
 public:
  explicit ValueHandle(std::shared_ptr<Value> v) : value_(std::move(v)) { value_->handles++; }
  ValueHandle(const ValueHandle&) = delete;
  ValueHandle& operator=(const ValueHandle&) = delete;
  ~ValueHandle() { let_go(); }
  // Another value in its place. A home that the old one had on account of this Tensor is gone.
  void set(std::shared_ptr<Value> v);
  const std::shared_ptr<Value>& shared() const { return value_; }
  Value* operator->() const { return value_.get(); }
  Value& operator*() const { return *value_; }
  Value* get() const { return value_.get(); }

 private:
  void let_go();

  std::shared_ptr<Value> value_;
};

// A step from a tensor to a view of it.
struct Movement {
  Op op;  // RESHAPE, PERMUTE, SHRINK or EXPAND
  Shape from, to;
  Shape order;                                      // PERMUTE
  std::vector<std::pair<int64_t, int64_t>> bounds;  // SHRINK
};

struct Tensor::Impl {
  ValueHandle value;
  const Shape shape;
  std::shared_ptr<Impl> base;   // of a view: what `assign` changes
  std::vector<Movement> moves;  // from the base to here
  bool rearranged = false;      // seen in an order that `assign` does not go back through: it refuses

  explicit Impl(std::shared_ptr<Value> v) : value(std::move(v)), shape(value->uop.shape()) {}
};

// Computes the values together, in one plan; all of one Context.
void realize(std::vector<std::shared_ptr<Value>> values);

// The one way an operation makes its result: `uop` is built from the UOps of `operands` (`uop_of`), all of one Context.
Tensor make_tensor(UOp uop, std::span<const Tensor> operands);
inline Tensor make_tensor(UOp uop, std::initializer_list<Tensor> operands) {
  return make_tensor(uop, std::span(operands.begin(), operands.size()));
}
// The same, a view of `of`: movement that `assign` can go back through.
Tensor make_view(UOp uop, const Tensor& of);
// The same of other movement: `assign` to it, or to a view of it, is an error, where it would be lost.
Tensor make_rearranged(UOp uop, const Tensor& of);
// Another handle of a value: what an operation that changes nothing gives. As every result it keeps the value when `of`
// is assigned; `assign` to it changes `of` where it is a view.
Tensor same_view(const Tensor& of);
Tensor same_value(const Tensor& of);
// A leaf: memory of its own, which is filled with `fill` when it is first used.
Tensor make_leaf(const Context& ctx, Shape shape, DType dtype, Scalar fill);

// The number of elements; INT64_MAX where it is more. Sizes are not negative.
int64_t count_of(const Shape& shape);

// The UOp that an operation builds on. Throws Error(Type) for an empty tensor.
UOp uop_of(const Tensor& t);
// Throws Error(Type) unless all belong to one Context.
void check_one_context(std::span<const Tensor> operands, const char* operation);
inline void check_one_context(std::initializer_list<Tensor> operands, const char* operation) {
  check_one_context(std::span(operands.begin(), operands.size()), operation);
}

// i32 0..n-1 in memory of the Context, shared by all who ask: the source of indices (arange, one_hot, masks, random
// numbers).
Tensor iota(const Context& ctx, int64_t n);

// Two i32 numbers, key and counter, that no other random tensor of the Context has; drawn anew by each replay of a
// Capture.
Tensor random_key(const Context& ctx);

}  // namespace uopc
