// The two ways a tensor changes.
#include <fmt/format.h>

#include <cstring>

#include "ir/py_text.hpp"
#include "tensor/context_impl.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

// `v` and where it stands, moved back from a view to the value `base` it is a view of.
std::pair<UOp, UOp> move_back(UOp view, UOp base, UOp also, UOp v) {
  UOp inside = v.graph().constant(true).broadcast_to(v.shape());
  for (UOp u = view; u != base && u != also; u = u.src(0)) {
    const Shape& to = u.op() == Op::Buffer ? u.shape() : u.src(0).shape();
    if (u.is(Op::Reshape)) {
      v = v.reshape(to);
      inside = inside.reshape(to);
    } else if (u.is(Op::Permute)) {
      const Shape& order = u.arg<Shape>();
      Shape inverse(order.size());
      for (size_t k = 0; k < order.size(); k++) inverse[static_cast<size_t>(order[k])] = static_cast<int64_t>(k);
      v = v.permute(inverse);
      inside = inside.permute(inverse);
    } else if (u.is(Op::Shrink)) {
      auto around = u.arg<ShrinkArg>().bounds;
      for (size_t k = 0; k < around.size(); k++) around[k].second = to[k] - around[k].second;
      v = pad(v, around);
      inside = pad(inside, around);
    } else if (!(u.is(Op::Expand) && u.shape() == to)) {
      throw Error(ErrorCode::Type,
                  fmt::format("assign: the tensor is a view through {}; assign to what it is made of", name(u.op())));
    }
  }
  return {v, inside};
}

// Gives the tensor another value; its memory becomes the home of that.
void set_value(Tensor::Impl& t, std::shared_ptr<Value> v) {
  if (t.value->buffer && !t.home) t.home = t.value->buffer;
  std::vector<std::shared_ptr<Value>> old{t.value.exchange(std::move(v))};
  release(std::move(old));
}

void refuse_rearranged(const char* operation, const Tensor::Impl& t) {
  if (t.rearranged)
    throw Error(
        ErrorCode::Type,
        fmt::format("{}: the tensor is made of another by flip, a negative step, or a step that does not divide "
                    "the axis, which takes no assignments back; {} to what it is made of",
                    operation, operation));
}

}  // namespace

Tensor& Tensor::assign(const Tensor& v) {
  const Tensor both[] = {*this, v};
  check_one_context(both, "assign");
  if (v.shape() != shape() || v.dtype() != dtype())
    throw Error(ErrorCode::Type, fmt::format("assign: a tensor of dtypes.{}{} takes no dtypes.{}{}", name(dtype()),
                                             py_tuple(shape()), name(v.dtype()), py_tuple(v.shape())));
  refuse_rearranged("assign", *impl_);
  const std::shared_ptr<Value> value = v.impl()->value.shared();
  const auto& context = value->context;
  if (const auto base = impl_->base) {
    const Value& then = *impl_->base_value;
    const auto [moved, inside] = move_back(impl_->value->built_as, then.built_as, then.uop, value->uop);
    set_value(*base, std::make_shared<Value>(context, inside.where(moved, base->value->uop),
                                             std::vector<std::shared_ptr<Value>>{value, base->value.shared()}));
  }
  // A value that only `v` has is shared with it: computed once, into this tensor's memory.
  const bool shared = !value->buffer && value->handles == 1 && !v.impl()->home && !v.impl()->base;
  set_value(*impl_, shared ? value : std::make_shared<Value>(context, value->uop, std::vector{value}));
  if (impl_->base) impl_->home = nullptr;  // the memory is the base's
  return *this;
}

void Tensor::write(std::span<const std::byte> data) {
  uop_of(*this);
  refuse_rearranged("write", *impl_);
  const size_t bytes = static_cast<size_t>(numel() * itemsize(dtype()));
  if (data.size() != bytes)
    throw Error(ErrorCode::Type, fmt::format("write: a tensor of dtypes.{}{} takes {} bytes, not {}", name(dtype()),
                                             py_tuple(shape()), bytes, data.size()));
  if (impl_->base) {
    assign(from_bytes(context(), data, shape(), dtype()));
    return;
  }
  const auto context = impl_->value->context;
  std::shared_ptr<Buffer> b = impl_->home ? impl_->home : impl_->value->buffer;
  // Nobody else may see the change: not a value built on the old contents, nor another tensor in the same memory.
  const bool own = b && b.use_count() == 2 + b->captures && (!impl_->value->buffer || impl_->value.use_count() == 1);
  if (!own) b = context->new_buffer(dtype(), numel());
  if (!data.empty()) std::memcpy(b->data_to_overwrite(), data.data(), data.size());
  if (own && impl_->value->buffer) return;
  std::vector<std::shared_ptr<Value>> old{impl_->value.exchange(value_in(context, b, shape()))};
  release(std::move(old));
  impl_->home = nullptr;
}

}  // namespace uopc
