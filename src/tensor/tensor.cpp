// What a Tensor is, and its contents.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ostream>

#include "ir/half.hpp"
#include "tensor/context_impl.hpp"
#include "uopc/npy.hpp"

namespace uopc {
namespace {

int32_t i32_of(int64_t v) {
  if (v < INT32_MIN || v > INT32_MAX)
    throw Error(ErrorCode::Type, fmt::format("from: {} is no i32; write a float for a tensor of f32", v));
  return static_cast<int32_t>(v);
}

}  // namespace

const Shape& Tensor::shape() const& {
  uop_of(*this);
  return impl_->shape;
}
Shape Tensor::shape() && {
  return std::as_const(*this).shape();
}
int64_t Tensor::size(int64_t axis) const {
  const int64_t k = axis < 0 ? axis + ndim() : axis;
  if (k < 0 || k >= ndim())
    throw Error(ErrorCode::Type, fmt::format("size: axis {} of a tensor of {} axes", axis, ndim()));
  return shape()[static_cast<size_t>(k)];
}
int64_t Tensor::numel() const {
  return count_of(shape());
}
DType Tensor::dtype() const {
  return uop_of(*this).dtype();
}
Context Tensor::context() const {
  uop_of(*this);
  return Context(impl_->value->context);
}
UOp Tensor::uop() const {
  return uop_of(*this);
}
bool Tensor::is_realized() const {
  uop_of(*this);
  return impl_->value->buffer != nullptr;
}

Tensor Tensor::from_bytes(const Context& ctx, std::span<const std::byte> data, Shape shape, DType dtype) {
  const Tensor t = make_leaf(ctx, std::move(shape), dtype, 0);
  const auto& b = t.impl()->value->buffer;
  if (data.size() != b->bytes())
    throw Error(ErrorCode::Type, fmt::format("a tensor of {} elements of dtypes.{} takes {} bytes, not {}", b->size,
                                             name(dtype), b->bytes(), data.size()));
  if (!data.empty()) std::memcpy(b->data_to_overwrite(), data.data(), data.size());
  return t;
}
Tensor Tensor::from(const Context& ctx, std::span<const float> data, Shape shape) {
  return from_bytes(ctx, std::as_bytes(data), std::move(shape), DType::F32);
}
Tensor Tensor::from(const Context& ctx, std::span<const int32_t> data, Shape shape) {
  return from_bytes(ctx, std::as_bytes(data), std::move(shape), DType::I32);
}
Tensor Tensor::from(const Context& ctx, std::span<const double> data, Shape shape) {
  const std::vector<float> rounded(data.begin(), data.end());
  return from(ctx, std::span<const float>(rounded), std::move(shape));
}
Tensor Tensor::from(const Context& ctx, std::span<const int64_t> data, Shape shape) {
  std::vector<int32_t> narrow;
  narrow.reserve(data.size());
  for (int64_t v : data) narrow.push_back(i32_of(v));
  return from(ctx, std::span<const int32_t>(narrow), std::move(shape));
}
Tensor Tensor::from(const Context& ctx, std::initializer_list<Scalar> data, Shape shape) {
  const bool floats = data.size() == 0 || std::ranges::any_of(data, &Scalar::is_float);
  const bool bools = !floats && std::ranges::all_of(data, &Scalar::is_bool);
  std::vector<float> f;
  std::vector<int32_t> i;
  std::vector<std::byte> b;
  for (const Scalar& v : data) {
    if (floats)
      f.push_back(static_cast<float>(v.as_float()));
    else if (bools)
      b.push_back(std::byte{v.as_bool()});
    else
      i.push_back(i32_of(v.as_int()));
  }
  if (bools) return from_bytes(ctx, b, std::move(shape), DType::Bool);
  return floats ? from(ctx, std::span<const float>(f), std::move(shape))
                : from(ctx, std::span<const int32_t>(i), std::move(shape));
}
Tensor Tensor::scalar(const Context& ctx, Scalar v) {
  return full(ctx, {}, v);
}
Tensor Tensor::zeros(const Context& ctx, Shape shape, DType dtype) {
  return make_leaf(ctx, std::move(shape), dtype, 0);
}
Tensor Tensor::ones(const Context& ctx, Shape shape, DType dtype) {
  return make_leaf(ctx, std::move(shape), dtype, 1);
}
Tensor Tensor::full(const Context& ctx, Shape shape, Scalar v) {
  return full(ctx, std::move(shape), v, dtypes::from_py(v));
}
Tensor Tensor::full(const Context& ctx, Shape shape, Scalar v, DType dtype) {
  return make_leaf(ctx, std::move(shape), dtype, v);
}
Tensor Tensor::empty(const Context& ctx, Shape shape, DType dtype) {
  return make_leaf(ctx, std::move(shape), dtype, 0);
}

std::span<const std::byte> Tensor::bytes() const {
  realize();
  const auto& b = impl_->value->buffer;
  return {static_cast<const std::byte*>(b->data()), b->bytes()};
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const std::span<const std::byte> data = bytes();
  const auto n = static_cast<size_t>(numel());
  std::vector<T> out(n);
  const auto each = [&]<class From>(From, auto convert) {
    for (size_t i = 0; i < n; i++) {
      From v;
      std::memcpy(&v, data.data() + i * sizeof v, sizeof v);
      out[i] = static_cast<T>(convert(v));
    }
  };
  // An integer of a float as the casts of semantics.md: saturated, NaN is 0.
  const auto number = [](float v) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(
          std::clamp<int64_t>(Scalar(v).as_int(), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    else
      return v;
  };
  switch (dtype()) {
    case DType::Void:
      break;
    case DType::Bool:
      each(uint8_t{}, [](uint8_t v) { return v != 0; });
      break;
    case DType::I32:
      each(int32_t{}, [](int32_t v) { return v; });
      break;
    case DType::F32:
      each(float{}, number);
      break;
    case DType::F16:
      each(uint16_t{}, [&](uint16_t v) { return number(half_to_float(v)); });
      break;
  }
  return out;
}
template UOPC_API std::vector<float> Tensor::to_vector() const;
template UOPC_API std::vector<double> Tensor::to_vector() const;
template UOPC_API std::vector<int32_t> Tensor::to_vector() const;
template UOPC_API std::vector<int64_t> Tensor::to_vector() const;
template UOPC_API std::vector<char> Tensor::to_vector() const;

template <class T>
T Tensor::item() const {
  if (numel() != 1) throw Error(ErrorCode::Type, fmt::format("item: the tensor has {} elements, not one", numel()));
  if constexpr (std::is_same_v<T, bool>)
    return to_vector<char>()[0] != 0;
  else
    return to_vector<T>()[0];
}
template UOPC_API float Tensor::item() const;
template UOPC_API double Tensor::item() const;
template UOPC_API int32_t Tensor::item() const;
template UOPC_API int64_t Tensor::item() const;
template UOPC_API bool Tensor::item() const;

std::string Tensor::to_string() const {
  const auto data = bytes();
  return uopc::to_string(to_python(dtype(), shape(), BufferRef(data.data(), data.size())));
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  return out << t.to_string();
}

Tensor Tensor::contiguous() const {
  return make_tensor(uop_of(*this).stage(), {*this});
}
Tensor Tensor::detach() const {
  return make_tensor(uop_of(*this).detach(), {*this});
}
Tensor Tensor::cast(DType d) const {
  if (d == DType::Void) throw Error(ErrorCode::Type, "cast to dtypes.void");
  return d == dtype() ? same_value(*this) : make_tensor(uop_of(*this).cast(d), {*this});
}
Tensor Tensor::clone() const {
  Tensor t = make_leaf(context(), shape(), dtype(), 0);
  t.assign(make_tensor(uop_of(*this), {*this}));  // this tensor stays as lazy as it is
  return t;
}

}  // namespace uopc
