#include "tensor/operands.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/py_text.hpp"

namespace uopc {
namespace {

int rank(DType d) {
  switch (d) {
    case DType::Void:
    case DType::Bool:
      return 0;
    case DType::I32:
      return 1;
    case DType::F16:
      return 2;
    case DType::F32:
      return 3;
  }
  return 0;
}

}  // namespace

DType promote(DType a, DType b) {
  return rank(a) > rank(b) ? a : b;
}
DType promote(DType d, Scalar v) {
  if (v.is_float() && !is_float(d)) return DType::F32;
  if (v.is_int() && d == DType::Bool) return DType::I32;
  return d;
}

Shape broadcast_shape(const char* operation, const Shape& a, const Shape& b) {
  const size_t n = std::max(a.size(), b.size());
  Shape out(n);
  for (size_t k = 0; k < n; k++) {
    const int64_t x = k + a.size() < n ? 1 : a[k + a.size() - n];
    const int64_t y = k + b.size() < n ? 1 : b[k + b.size() - n];
    if (x != y && x != 1 && y != 1)
      throw Error(ErrorCode::Type, fmt::format("{}: can't broadcast {} with {}", operation, py_tuple(a), py_tuple(b)));
    out[k] = x == 1 ? y : x;
  }
  return out;
}

int64_t normal_axis(const char* operation, int64_t axis, int64_t ndim) {
  const int64_t k = axis < 0 ? axis + ndim : axis;
  if (k < 0 || k >= ndim)
    throw Error(ErrorCode::Type, fmt::format("{}: axis {} of a tensor of {} axes", operation, axis, ndim));
  return k;
}
std::vector<int64_t> normal_axes(const char* operation, const Axes& axes, int64_t ndim) {
  std::vector<int64_t> out;
  if (!axes.list) {
    for (int64_t k = 0; k < ndim; k++) out.push_back(k);
    return out;
  }
  for (int64_t axis : *axes.list) out.push_back(normal_axis(operation, axis, ndim));
  std::ranges::sort(out);
  if (std::ranges::adjacent_find(out) != out.end())
    throw Error(ErrorCode::Type, fmt::format("{}: an axis is given twice", operation));
  return out;
}

Tensor binary(const char* operation, const Tensor& a, const Tensor& b, BinaryUOp f, DType dtype) {
  const Tensor both[] = {a, b};
  check_one_context(both, operation);
  if (dtype == DType::Void) dtype = promote(a.dtype(), b.dtype());
  const Shape shape = broadcast_shape(operation, a.shape(), b.shape());
  return make_tensor(f(uop_of(a).cast(dtype).broadcast_to(shape), uop_of(b).cast(dtype).broadcast_to(shape)), both);
}
UOp number_like(const char* operation, UOp u, Scalar v) {
  if (u.dtype() == DType::I32 && v.is_int() && (v.as_int() < INT32_MIN || v.as_int() > INT32_MAX))
    throw Error(ErrorCode::Type, fmt::format("{}: {} does not fit i32", operation, v.as_int()));
  return u.const_like(v);
}

Tensor binary(const char* operation, const Tensor& a, Scalar b, BinaryUOp f, DType dtype) {
  if (dtype == DType::Void) dtype = promote(a.dtype(), b);
  const UOp u = uop_of(a).cast(dtype);
  return make_tensor(f(u, number_like(operation, u, b)), {a});
}
Tensor binary(const char* operation, Scalar a, const Tensor& b, BinaryUOp f, DType dtype) {
  if (dtype == DType::Void) dtype = promote(b.dtype(), a);
  const UOp u = uop_of(b).cast(dtype);
  return make_tensor(f(number_like(operation, u, a), u), {b});
}

Tensor rounded(const Tensor& y, DType d) {
  return d == DType::F16 ? y.to_f16() : y;
}

Tensor unary_float(const Tensor& a, UnaryUOp f) {
  const UOp u = uop_of(a);
  return make_tensor(f(is_float(u.dtype()) ? u : u.cast(DType::F32)), {a});
}

}  // namespace uopc
