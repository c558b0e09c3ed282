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
#include <vector>

#include "uopc/tensor.hpp"

namespace uopc {

// Memory of one BUFFER node (its slot is unique in the Context). Made on first use: filled with `fill` then.
class Buffer;

struct Value {
  std::shared_ptr<Context::Impl> context;
  UOp uop;       // realized: BUFFER, or a RESHAPE of it
  UOp built_as;  // the UOp that dependents hold; equals `uop` until it is realized
  std::vector<std::shared_ptr<Value>> sources;
  std::shared_ptr<Buffer> buffer;  // realized only

  Value(std::shared_ptr<Context::Impl> context, UOp uop, std::vector<std::shared_ptr<Value>> sources);
  ~Value();  // iterative: a chain of a million drops without recursion
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
};

struct Tensor::Impl {
  std::shared_ptr<Value> value;
  std::shared_ptr<Buffer> home;  // memory that an assigned value is to be computed into; null without an assignment
  std::shared_ptr<Impl> base;    // of a view: what `assign` changes
};

// The one way an operation makes its result: `uop` is built from the UOps of `operands` (`uop_of`), all of one Context.
Tensor make_tensor(UOp uop, std::initializer_list<Tensor> operands);
Tensor make_tensor(UOp uop, std::span<const Tensor> operands);
// The same, a view of `of`: movement that `assign` can go back through.
Tensor make_view(UOp uop, const Tensor& of);

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
