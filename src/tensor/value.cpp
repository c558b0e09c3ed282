#include "tensor/value.hpp"

#include <cstring>

#include "tensor/context_impl.hpp"

namespace uopc {

Value::Value(std::shared_ptr<Context::Impl> c, UOp u, std::vector<std::shared_ptr<Value>> s)
    : context(std::move(c)), uop(u), built_as(u), sources(std::move(s)), next(context->values) {
  if (next) next->previous = this;
  context->values = this;
}

Value::~Value() {
  (previous ? previous->next : context->values) = next;
  if (next) next->previous = previous;
  release(std::move(sources));
}

void release(std::vector<std::shared_ptr<Value>> values) {
  while (!values.empty()) {
    const std::shared_ptr<Value> v = std::move(values.back());
    values.pop_back();
    if (!v || v.use_count() > 1) continue;
    for (auto& s : v->sources) values.push_back(std::move(s));
    v->sources.clear();
  }
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
  if (!t) throw Error(ErrorCode::Type, "an operand is an empty Tensor");
  return t.impl()->value->uop;
}

void check_one_context(std::span<const Tensor> operands, const char* operation) {
  for (const Tensor& t : operands) {
    uop_of(t);
    if (t.impl()->value->context != operands.front().impl()->value->context)
      throw Error(ErrorCode::Type, std::string(operation) + ": the tensors belong to two Contexts");
  }
}

Tensor make_tensor(UOp uop, std::span<const Tensor> operands) {
  check_one_context(operands, "an operation");
  std::vector<std::shared_ptr<Value>> sources;
  for (const Tensor& t : operands) sources.push_back(t.impl()->value.shared());
  auto context = sources.front()->context;
  return Tensor(std::make_shared<Tensor::Impl>(
      Tensor::Impl{std::make_shared<Value>(std::move(context), uop, std::move(sources))}));
}

Tensor make_rearranged(UOp uop, const Tensor& of) {
  Tensor t = make_tensor(uop, {of});
  t.impl()->rearranged = true;
  return t;
}

Tensor make_view(UOp uop, const Tensor& of) {
  if (of.impl() && of.impl()->rearranged) return make_rearranged(uop, of);
  Tensor t = make_tensor(uop, {of});
  const auto& from = of.impl();
  t.impl()->base = from->base ? from->base : from;
  t.impl()->base_value = from->base ? from->base_value : from->value.shared();
  return t;
}

std::shared_ptr<Value> value_in(const std::shared_ptr<Context::Impl>& context, std::shared_ptr<Buffer> memory,
                                const Shape& shape) {
  auto value = std::make_shared<Value>(context, context->view(*memory, shape), std::vector<std::shared_ptr<Value>>{});
  value->buffer = std::move(memory);
  return value;
}

Tensor make_leaf(const Context& ctx, Shape shape, DType dtype, Scalar fill) {
  if (dtype == DType::Void) throw Error(ErrorCode::Type, "a tensor of dtypes.void");
  int64_t n = 1;
  for (int64_t d : shape) {
    if (d < 0 || (d > 0 && n > INT32_MAX / d))
      throw Error(ErrorCode::Type, "a tensor's sizes are not negative, and it has fewer than 2**31 elements");
    n *= d;
  }
  const auto& c = ctx.impl();
  return Tensor(std::make_shared<Tensor::Impl>(Tensor::Impl{value_in(c, c->new_buffer(dtype, n, fill), shape)}));
}

Tensor iota(const Context& ctx, int64_t n) {
  auto& known = ctx.impl()->iotas[n];
  if (auto value = known.lock()) return Tensor(std::make_shared<Tensor::Impl>(Tensor::Impl{std::move(value)}));
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
