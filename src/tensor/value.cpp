#include "tensor/value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/py_text.hpp"
#include "tensor/context_impl.hpp"

namespace uopc {

Value::Value(std::shared_ptr<Context::Impl> c, UOp u, std::vector<std::shared_ptr<Value>> s)
    : context(std::move(c)),
      uop(u),
      built_as(u),
      sources(std::move(s)),
      id(context->next_id++),
      since(id),
      next(context->values) {
  for (const auto& source : sources) source->dependents++;
  if (next) next->previous = this;
  context->values = this;
}

Value::~Value() {
  (previous ? previous->next : context->values) = next;
  if (next) next->previous = previous;
  set_home(nullptr, nullptr);
  if (buffer) std::erase(buffer->holders, this);
  forget_sources();
}

void Value::place(std::shared_ptr<Buffer> memory) {
  set_home(nullptr, nullptr);
  if (buffer) std::erase(buffer->holders, this);
  uop = context->view(*memory, uop.shape());
  memory->holders.push_back(this);
  buffer = std::move(memory);
}

void Value::forget_sources() {
  if (sources.empty()) return;
  if (buffer) origin = std::exchange(built_as, uop);
  std::vector<std::shared_ptr<Value>> gone = std::move(sources);
  sources.clear();
  while (!gone.empty()) {
    const std::shared_ptr<Value> v = std::move(gone.back());
    gone.pop_back();
    if (--v->dependents > 0) continue;
    const bool dies = v.use_count() == 1;
    if (!dies && !v->buffer) continue;
    for (auto& s : v->sources) gone.push_back(std::move(s));
    if (!dies && !v->sources.empty()) v->origin = std::exchange(v->built_as, v->uop);
    v->sources.clear();
  }
}

void Value::set_home(std::shared_ptr<Buffer> memory, const ValueHandle* of) {
  if (home) home->awaited--;
  home = std::move(memory);
  home_of = home ? of : nullptr;
  if (home) home->awaited++;
}

void ValueHandle::let_go() {
  value_->handles--;
  if (value_->home_of == this) value_->set_home(nullptr, nullptr);
}

void ValueHandle::set(std::shared_ptr<Value> v) {
  let_go();
  v->handles++;
  value_.swap(v);
}

int64_t count_of(const Shape& shape) {
  int64_t n = 1;
  bool many = false;
  for (int64_t d : shape) {
    if (d == 0) return 0;
    many |= __builtin_mul_overflow(n, d, &n);
  }
  return many ? INT64_MAX : n;
}

UOp uop_of(const Tensor& t) {
  if (!t) throw Error(ErrorCode::Type, "an empty Tensor: default-constructed or moved from");
  return t.impl()->value->uop;
}

void check_one_context(std::span<const Tensor> operands, const char* operation) {
  for (const Tensor& t : operands) {
    if (!t) throw Error(ErrorCode::Type, std::string(operation) + ": an operand is an empty Tensor");
    if (t.impl()->value->context != operands.front().impl()->value->context)
      throw Error(ErrorCode::Type, std::string(operation) + ": the tensors belong to two Contexts");
  }
}

Tensor make_tensor(UOp uop, std::span<const Tensor> operands) {
  check_one_context(operands, "an operation");
  std::vector<std::shared_ptr<Value>> sources;
  for (const Tensor& t : operands) sources.push_back(t.impl()->value.shared());
  auto context = sources.front()->context;
  return Tensor(std::make_shared<Tensor::Impl>(std::make_shared<Value>(std::move(context), uop, std::move(sources))));
}

Tensor make_rearranged(UOp uop, const Tensor& of) {
  Tensor t = make_tensor(uop, {of});
  t.impl()->rearranged = true;
  return t;
}

Tensor same_value(const Tensor& of) {
  uop_of(of);
  return Tensor(std::make_shared<Tensor::Impl>(of.impl()->value.shared()));
}

Tensor same_view(const Tensor& of) {
  Tensor t = same_value(of);
  const auto& from = of.impl();
  t.impl()->base = from->base ? from->base : from;
  t.impl()->moves = from->moves;
  t.impl()->rearranged = from->rearranged;
  return t;
}

Tensor make_view(UOp uop, const Tensor& of) {
  if (of.impl() && of.impl()->rearranged) return make_rearranged(uop, of);
  Tensor t = make_tensor(uop, {of});
  const auto& from = of.impl();
  std::vector<Movement> moves;
  for (UOp u = uop; u != uop_of(of); u = u.src(0)) {
    Movement m{u.op(), u.src(0).shape(), u.shape(), {}, {}};
    if (u.is(Op::Permute)) m.order = u.arg<Shape>();
    if (u.is(Op::Shrink)) m.bounds = u.arg<ShrinkArg>().bounds;
    moves.push_back(std::move(m));
  }
  std::ranges::reverse(moves);
  t.impl()->base = from->base ? from->base : from;
  t.impl()->moves = from->moves;
  t.impl()->moves.insert(t.impl()->moves.end(), moves.begin(), moves.end());
  return t;
}

std::shared_ptr<Value> value_in(const std::shared_ptr<Context::Impl>& context, std::shared_ptr<Buffer> memory,
                                const Shape& shape) {
  auto value = std::make_shared<Value>(context, context->view(*memory, shape), std::vector<std::shared_ptr<Value>>{});
  value->place(std::move(memory));
  return value;
}

Tensor make_leaf(const Context& ctx, Shape shape, DType dtype, Scalar fill) {
  if (dtype == DType::Void) throw Error(ErrorCode::Type, "a tensor of dtypes.void");
  int64_t n = 1;
  for (int64_t d : shape) {
    if (d < 0 || (d > 0 && n > INT32_MAX / d))
      throw Error(ErrorCode::Type,
                  fmt::format("a tensor of shape {}: sizes are not negative, and there are fewer than 2**31 elements",
                              py_tuple(shape)));
    n *= d;
  }
  const auto& c = ctx.impl();
  return Tensor(std::make_shared<Tensor::Impl>(value_in(c, c->new_buffer(dtype, n, fill), shape)));
}

Tensor iota(const Context& ctx, int64_t n) {
  auto& known = ctx.impl()->iotas[n];
  if (auto value = known.lock()) return Tensor(std::make_shared<Tensor::Impl>(std::move(value)));
  const Tensor t = make_leaf(ctx, {n}, DType::I32, 0);
  const auto& value = t.impl()->value;
  auto* data = static_cast<int32_t*>(value->buffer->data_to_overwrite());
  for (int64_t i = 0; i < n; i++) data[i] = static_cast<int32_t>(i);
  known = value.shared();
  return t;
}

Tensor random_key(const Context& ctx) {
  const Tensor t = make_leaf(ctx, {2}, DType::I32, 0);
  const auto& buffer = t.impl()->value->buffer;
  ctx.impl()->draw_key(static_cast<int32_t*>(buffer->data_to_overwrite()));
  if (ctx.impl()->recording) ctx.impl()->recording->keys.push_back(buffer);
  return t;
}

}  // namespace uopc
