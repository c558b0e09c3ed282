// Lookups by comparison: there is no vector of addresses in the op set, so an element is the sum over its axis of what
// stands where the index is. An index out of range finds nothing, which is 0.
#include <fmt/format.h>

#include <cstdint>

#include "ir/py_text.hpp"
#include "tensor/operands.hpp"

namespace uopc {
namespace {

void check_index(const char* operation, const Tensor& index) {
  if (index.dtype() != DType::I32)
    throw Error(ErrorCode::Type, fmt::format("{}: indices are i32, not {}", operation, name(index.dtype())));
}

}  // namespace

Tensor Tensor::gather(int64_t axis, const Tensor& index) const {
  check_one_context({*this, index}, "gather");
  check_index("gather", index);
  const int64_t k = normal_axis("gather", axis, ndim());
  bool fits = index.ndim() == ndim();
  for (int64_t i = 0; fits && i < ndim(); i++) fits = i == k || index.size(i) <= size(i);
  if (!fits)
    throw Error(ErrorCode::Type, fmt::format("gather on axis {} of {} by indices of shape {}", k, py_tuple(shape()),
                                             py_tuple(index.shape())));
  Tensor x = *this;
  for (int64_t i = 0; i < ndim(); i++)
    if (i != k) x = x.narrow(i, 0, index.size(i));
  const Tensor along = x.movedim(k, -1).unsqueeze(k);  // a place of size 1 where the axis was
  return index.unsqueeze(-1).eq(iota(context(), size(k))).where(along, 0).sum(-1).cast(dtype());
}
Tensor Tensor::index_select(int64_t axis, const Tensor& index) const {
  check_one_context({*this, index}, "index_select");
  check_index("index_select", index);
  const int64_t k = normal_axis("index_select", axis, ndim());
  if (index.ndim() != 1)
    throw Error(ErrorCode::Type,
                fmt::format("index_select by indices of shape {}: one axis is right", py_tuple(index.shape())));
  const Tensor x = movedim(k, -1).unsqueeze(-2);  // (.., 1, axis)
  const Tensor picked = index.unsqueeze(-1).eq(iota(context(), size(k))).where(x, 0).sum(-1).cast(dtype());
  return picked.movedim(-1, k);
}
Tensor Tensor::one_hot(int64_t classes) const {
  check_index("one_hot", *this);
  if (classes < 0 || classes > INT32_MAX)
    throw Error(ErrorCode::Type, fmt::format("one_hot: {} classes; from 0 to 2**31 - 1 are right", classes));
  return unsqueeze(-1).eq(iota(context(), classes)).cast(DType::F32);
}
Tensor Tensor::embedding(const Tensor& weight, const Tensor& index) {
  check_one_context({weight, index}, "embedding");
  check_index("embedding", index);
  if (weight.ndim() != 2)
    throw Error(ErrorCode::Type,
                fmt::format("embedding: a weight of shape {}; (count, size) is right", py_tuple(weight.shape())));
  const Tensor found = index.unsqueeze(-1).unsqueeze(-1).eq(iota(weight.context(), weight.size(0)));
  return found.where(weight.T(), 0).sum(-1).cast(weight.dtype());
}

}  // namespace uopc
