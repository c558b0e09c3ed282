#include <cmath>
#include <numbers>

#include "tensor/operands.hpp"

namespace uopc {
namespace {

constexpr double kLog2E = std::numbers::log2e, kLn2 = std::numbers::ln2, kPi = std::numbers::pi;

UOp add(UOp a, UOp b) {
  return a.dtype() == DType::Bool ? a.max(b) : a + b;
}
UOp sub(UOp a, UOp b) {
  return a - b;
}
UOp mul(UOp a, UOp b) {
  return a * b;
}
UOp div(UOp a, UOp b) {
  return a / b;
}
UOp less(UOp a, UOp b) {
  return a < b;
}
UOp greater(UOp a, UOp b) {
  return a > b;
}
UOp less_equal(UOp a, UOp b) {  // a NaN is neither
  return is_float(a.dtype()) ? a.lt(b).max(a.eq(b)) : a <= b;
}
UOp greater_equal(UOp a, UOp b) {
  return less_equal(b, a);
}
UOp exp_of(UOp x) {
  return (x * kLog2E).exp2();
}
// 1 / (1 + exp(-x)): exp overflows to infinity, of which the reciprocal is 0.
UOp sigmoid_of(UOp x) {
  return (exp_of(-x) + 1.0).recip();
}
UOp abs_of(UOp x) {
  return x.max(-x);
}
UOp floor_of(UOp x) {
  // From 2^23 on every float is whole; a cast of those, or of NaN, would saturate.
  const UOp whole = x.cast(DType::I32).cast(x.dtype());
  const UOp down = x.lt(whole).where(whole - 1.0, whole);
  return abs_of(x).lt(8388608.0).where(down, x);
}

// Divisions of i32 give f32.
DType quotient_dtype(DType d) {
  return is_float(d) ? d : DType::F32;
}
DType number_dtype(DType d) {
  return d == DType::Bool ? DType::I32 : d;
}

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  return binary("add", a, b, add);
}
Tensor operator+(const Tensor& a, Scalar b) {
  return binary("add", a, b, add);
}
Tensor operator+(Scalar a, const Tensor& b) {
  return binary("add", a, b, add);
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  return binary("sub", a, b, sub, number_dtype(promote(a.dtype(), b.dtype())));
}
Tensor operator-(const Tensor& a, Scalar b) {
  return binary("sub", a, b, sub, number_dtype(promote(a.dtype(), b)));
}
Tensor operator-(Scalar a, const Tensor& b) {
  return binary("sub", a, b, sub, number_dtype(promote(b.dtype(), a)));
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return binary("mul", a, b, mul);
}
Tensor operator*(const Tensor& a, Scalar b) {
  return binary("mul", a, b, mul);
}
Tensor operator*(Scalar a, const Tensor& b) {
  return binary("mul", a, b, mul);
}
Tensor operator/(const Tensor& a, const Tensor& b) {
  return binary("div", a, b, div, quotient_dtype(promote(a.dtype(), b.dtype())));
}
Tensor operator/(const Tensor& a, Scalar b) {
  return binary("div", a, b, div, quotient_dtype(promote(a.dtype(), b)));
}
Tensor operator/(Scalar a, const Tensor& b) {
  return binary("div", a, b, div, quotient_dtype(promote(b.dtype(), a)));
}
#define UOPC_COMPARE(sign, name)                           \
  Tensor operator sign(const Tensor& a, const Tensor& b) { \
    return binary(#name, a, b, name);                      \
  }                                                        \
  Tensor operator sign(const Tensor& a, Scalar b) {        \
    return binary(#name, a, b, name);                      \
  }                                                        \
  Tensor operator sign(Scalar a, const Tensor& b) {        \
    return binary(#name, a, b, name);                      \
  }
UOPC_COMPARE(<, less)
UOPC_COMPARE(>, greater)
UOPC_COMPARE(<=, less_equal)
UOPC_COMPARE(>=, greater_equal)
#undef UOPC_COMPARE
Tensor operator-(const Tensor& a) {
  return a.neg();
}

Tensor Tensor::neg() const {
  return *this * -1;
}
Tensor Tensor::reciprocal() const {
  return unary_float(*this, [](UOp x) { return x.recip(); });
}
Tensor Tensor::exp() const {
  return unary_float(*this, exp_of);
}
Tensor Tensor::exp2() const {
  return unary_float(*this, [](UOp x) { return x.exp2(); });
}
Tensor Tensor::log() const {
  return unary_float(*this, [](UOp x) { return x.log2() * kLn2; });
}
Tensor Tensor::log2() const {
  return unary_float(*this, [](UOp x) { return x.log2(); });
}
Tensor Tensor::sqrt() const {
  return unary_float(*this, [](UOp x) { return x.sqrt(); });
}
Tensor Tensor::rsqrt() const {
  return unary_float(*this, [](UOp x) { return x.sqrt().recip(); });
}
Tensor Tensor::sin() const {
  return unary_float(*this, [](UOp x) { return x.sin(); });
}
Tensor Tensor::cos() const {
  return unary_float(*this, [](UOp x) { return (kPi / 2 - x).sin(); });
}
Tensor Tensor::tan() const {
  return sin() / cos();
}
Tensor Tensor::tanh() const {
  return unary_float(*this, [](UOp x) { return sigmoid_of(x * 2.0) * 2.0 - 1.0; });
}
Tensor Tensor::sigmoid() const {
  return unary_float(*this, sigmoid_of);
}
Tensor Tensor::relu() const {
  return maximum(0);
}
Tensor Tensor::leaky_relu(double slope) const {
  return (*this < 0).where(*this * slope, *this);
}
Tensor Tensor::gelu() const {
  return *this * 0.5 * (((*this + square() * *this * 0.044715) * std::sqrt(2 / kPi)).tanh() + 1.0);
}
Tensor Tensor::silu() const {
  return *this * sigmoid();
}
// max(x, 0) + log(1 + exp(-|x|)): nothing overflows.
Tensor Tensor::softplus() const {
  return maximum(0) + (abs().neg().exp() + 1.0).log();
}
Tensor Tensor::elu(double alpha) const {
  return (*this < 0).where((exp() - 1.0) * alpha, *this);
}
Tensor Tensor::abs() const {
  return maximum(neg());
}
Tensor Tensor::sign() const {
  return (*this > 0).where(1, (*this < 0).where(-1, zeros_like())).cast(dtype());
}
Tensor Tensor::floor() const {
  return is_float(dtype()) ? unary_float(*this, floor_of) : *this;
}
Tensor Tensor::ceil() const {
  return is_float(dtype()) ? unary_float(*this, [](UOp x) { return -floor_of(-x); }) : *this;
}
Tensor Tensor::trunc() const {
  return (*this < 0).where(ceil(), floor());
}
Tensor Tensor::round() const {
  if (!is_float(dtype())) return *this;
  return unary_float(*this, [](UOp x) {
    const UOp down = floor_of(x), rest = x - down;
    const UOp odd = (down - floor_of(down * 0.5) * 2.0).ne(0.0);
    return rest.lt(0.5).where(down, (rest > 0.5).max(odd).where(down + 1.0, down));
  });
}
Tensor Tensor::square() const {
  return *this * *this;
}
Tensor Tensor::isnan() const {
  return ne(*this);
}
Tensor Tensor::isinf() const {
  return is_float(dtype()) ? abs().eq(INFINITY) : ne(*this);
}
Tensor Tensor::logical_not() const {
  return make_tensor(uop_of(*this).cast(DType::Bool).logical_not(), {*this});
}

Tensor Tensor::clamp(std::optional<Scalar> low, std::optional<Scalar> high) const {
  Tensor x = *this;
  if (low) x = (x < *low).where(*low, x);
  if (high) x = (x > *high).where(*high, x);
  return x;
}
Tensor Tensor::pow(Scalar exponent) const {
  const double e = exponent.as_float();
  if (e == std::trunc(e) && std::abs(e) <= 64) {
    auto n = static_cast<uint64_t>(std::abs(e));
    std::optional<Tensor> out;
    for (Tensor power = *this; n != 0; n >>= 1) {
      if (n & 1) out = out ? *out * power : power;
      if (n > 1) power = power.square();
    }
    const Tensor value = out ? *out : ones_like();
    return e < 0 ? value.reciprocal() : value;
  }
  if (e == 0.5) return sqrt();
  return pow(full_like(exponent).cast(is_float(dtype()) ? dtype() : DType::F32));
}
// exp2(y log2|x|), with the sign of an odd power; NaN for a negative base and a power that is not whole.
Tensor Tensor::pow(const Tensor& exponent) const {
  const Tensor x = cast(is_float(dtype()) ? dtype() : DType::F32);
  const Tensor y = exponent.cast(promote(x.dtype(), exponent.dtype()));
  const Tensor size = (x.abs().log2() * y).exp2();
  const Tensor whole = y.eq(y.floor()), odd = (y * 0.5).floor().ne(y * 0.5).logical_and(whole);
  const Tensor negative = whole.where(odd.where(size.neg(), size), static_cast<double>(NAN));
  return y.eq(0).where(1.0, (x < 0).where(negative, size));
}
Tensor Tensor::minimum(const Tensor& b) const {
  return binary("minimum", *this, b, [](UOp x, UOp y) { return x.minimum(y); });
}
Tensor Tensor::minimum(Scalar b) const {
  return binary("minimum", *this, b, [](UOp x, UOp y) { return x.minimum(y); });
}
Tensor Tensor::maximum(const Tensor& b) const {
  return binary("maximum", *this, b, [](UOp x, UOp y) { return x.max(y); });
}
Tensor Tensor::maximum(Scalar b) const {
  return binary("maximum", *this, b, [](UOp x, UOp y) { return x.max(y); });
}
Tensor Tensor::floordiv(const Tensor& b) const {
  return binary("floordiv", *this, b, [](UOp x, UOp y) { return x.floordiv(y); });
}
Tensor Tensor::floordiv(Scalar b) const {
  return binary("floordiv", *this, b, [](UOp x, UOp y) { return x.floordiv(y); });
}
Tensor Tensor::mod(const Tensor& b) const {
  return binary("mod", *this, b, [](UOp x, UOp y) { return x.floormod(y); });
}
Tensor Tensor::mod(Scalar b) const {
  return binary("mod", *this, b, [](UOp x, UOp y) { return x.floormod(y); });
}
Tensor Tensor::eq(const Tensor& b) const {
  return binary("eq", *this, b, [](UOp x, UOp y) { return x.eq(y); });
}
Tensor Tensor::eq(Scalar b) const {
  return binary("eq", *this, b, [](UOp x, UOp y) { return x.eq(y); });
}
Tensor Tensor::ne(const Tensor& b) const {
  return binary("ne", *this, b, [](UOp x, UOp y) { return x.ne(y); });
}
Tensor Tensor::ne(Scalar b) const {
  return binary("ne", *this, b, [](UOp x, UOp y) { return x.ne(y); });
}
Tensor Tensor::logical_and(const Tensor& b) const {
  return binary("logical_and", *this, b, mul, DType::Bool);
}
Tensor Tensor::logical_or(const Tensor& b) const {
  return binary("logical_or", *this, b, add, DType::Bool);
}

Tensor Tensor::where(const Tensor& a, const Tensor& b) const {
  const Tensor all[] = {*this, a, b};
  check_one_context(all, "where");
  const DType d = promote(a.dtype(), b.dtype());
  const Shape shape = broadcast_shape("where", this->shape(), broadcast_shape("where", a.shape(), b.shape()));
  const auto brought = [&](const Tensor& t, DType to) { return uop_of(t).cast(to).broadcast_to(shape); };
  return make_tensor(brought(*this, DType::Bool).where(brought(a, d), brought(b, d)), all);
}
Tensor Tensor::where(const Tensor& a, Scalar b) const {
  const UOp u = uop_of(a).cast(promote(a.dtype(), b));
  return where(make_tensor(u, {a}), make_tensor(u.graph().constant(b, u.dtype()), {a}));
}
Tensor Tensor::where(Scalar a, const Tensor& b) const {
  const UOp u = uop_of(b).cast(promote(b.dtype(), a));
  return where(make_tensor(u.graph().constant(a, u.dtype()), {b}), make_tensor(u, {b}));
}

}  // namespace uopc
