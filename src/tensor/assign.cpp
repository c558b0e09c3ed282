// The two ways a tensor changes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ranges>

#include "ir/py_text.hpp"
#include "tensor/context_impl.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

// `v` and where it stands, moved back from a view to what it is a view of.
std::pair<UOp, UOp> move_back(std::span<const Movement> moves, UOp v) {
  UOp inside = v.graph().constant(true).broadcast_to(v.shape());
  for (const Movement& m : moves | std::views::reverse) {
    if (m.op == Op::Reshape) {
      v = v.reshape(m.from);
      inside = inside.reshape(m.from);
    } else if (m.op == Op::Permute) {
      Shape inverse(m.order.size());
      for (size_t k = 0; k < m.order.size(); k++) inverse[static_cast<size_t>(m.order[k])] = static_cast<int64_t>(k);
      v = v.permute(inverse);
      inside = inside.permute(inverse);
    } else if (m.op == Op::Shrink) {
      auto around = m.bounds;
      for (size_t k = 0; k < around.size(); k++) around[k].second = m.from[k] - around[k].second;
      v = pad(v, around);
      inside = pad(inside, around);
    } else if (m.from != m.to) {
      throw Error(ErrorCode::Type,
                  fmt::format("assign: the tensor is a view through {}; assign to what it is made of", name(m.op)));
    }
  }
  return {v, inside};
}

// Gives the tensor another value; its memory becomes the home of that.
void set_value(const std::shared_ptr<Tensor::Impl>& t, std::shared_ptr<Value> v) {
  const Value& old = *t->value;
  std::shared_ptr<Buffer> home = old.home_of == &t->value ? old.home : old.buffer;
  if (t->base) home = nullptr;  // the memory is the base's
  if (Recording* const recording = v->context->recording) {
    if (!home && !t->base && old.id < recording->first_id)
      throw Error(ErrorCode::Run,
                  fmt::format("assign: the captured function assigns a tensor of shape {} that had not been computed "
                              "before; realize it first",
                              py_tuple(t->shape)));
    recording->assigned.push_back(t);
  }
  t->value.set(v);
  v->set_home(std::move(home), &t->value);
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
  if (value == impl_->value.shared()) return *this;
  if (const auto base = impl_->base) {
    const auto [moved, inside] = move_back(impl_->moves, value->uop);
    set_value(base, std::make_shared<Value>(context, inside.where(moved, base->value->uop),
                                            std::vector<std::shared_ptr<Value>>{value, base->value.shared()}));
  }
  // A value that only `v` has is shared with it: computed once, into this tensor's memory.
  const bool shared = !value->buffer && value->handles == 1 && !value->home && !v.impl()->base;
  set_value(impl_, shared ? value : std::make_shared<Value>(context, value->uop, std::vector{value}));
  return *this;
}

void Tensor::write(const BufferRef& data) {
  uop_of(*this);
  refuse_rearranged("write", *impl_);
  const size_t bytes = static_cast<size_t>(numel() * itemsize(dtype()));
  if (data.bytes != bytes)
    throw Error(ErrorCode::Type, fmt::format("write: a tensor of dtypes.{}{} takes {} bytes, not {}", name(dtype()),
                                             py_tuple(shape()), bytes, data.bytes));
  if (data.dtype && *data.dtype != dtype())
    throw Error(ErrorCode::Type, fmt::format("write: a tensor of dtypes.{}{} takes no elements of dtypes.{}",
                                             name(dtype()), py_tuple(shape()), name(*data.dtype)));
  if (impl_->base) {
    assign(from_bytes(context(), {static_cast<const std::byte*>(data.data), bytes}, shape(), dtype()));
    return;
  }
  ValueHandle& own = impl_->value;
  const auto context = own->context;
  const bool mine = own->home_of == &own;
  std::shared_ptr<Buffer> b = mine ? own->home : own->buffer;
  // Nobody else may see the change: not a value built on the old contents, nor another tensor in the same memory.
  const auto stays = [&](const Value* v) { return v == own.get() && v->handles == 1; };
  const auto alone = [&] {
    return b->awaited == (mine ? 1 : 0) &&
           std::ranges::all_of(b->holders, [&](Value* v) { return stays(v) && v->dependents == 0; });
  };
  if (b && !alone() && b->captures > 0) {
    Value* const keep[] = {stays(own.get()) ? own.get() : nullptr};
    make_room(*context, {&b, 1}, keep);
  } else if (!b || !alone()) {
    b = context->new_buffer(dtype(), numel());
  }
  if (bytes > 0) std::memcpy(b->data_to_overwrite(), data.data, bytes);
  if (own->buffer == b) {
    own->origin = UOp();
    own->since = context->next_id++;
  } else {
    own.set(value_in(context, b, shape()));
  }
}

}  // namespace uopc
