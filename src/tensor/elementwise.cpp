#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>

#include "passes/kernelize.hpp"
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
UOp equal(UOp a, UOp b) {
  return a.eq(b);
}
UOp not_equal(UOp a, UOp b) {
  return a.ne(b);
}
UOp less_equal(UOp a, UOp b) {  // a NaN is neither
  return is_float(a.dtype()) ? a.lt(b).max(a.eq(b)) : a <= b;
}
UOp greater_equal(UOp a, UOp b) {
  return less_equal(b, a);
}
// Of the bits that other users of the operands see.
template <UOp (*compare)(UOp, UOp)>
UOp of_pinned(UOp a, UOp b) {
  return compare(pin_rounding(a), pin_rounding(b));
}
UOp exp_of(UOp x) {
  return (x * kLog2E).exp2();
}
UOp polynomial(UOp x, std::initializer_list<double> coefficients) {  // the highest power first
  UOp sum;
  for (double c : coefficients) sum = sum ? sum * x + c : x.const_like(c);
  return sum;
}
// For comparisons: of a zero it is a zero of either sign.
UOp abs_of(UOp x) {
  return x.max(-x);
}
// |x| with derivative 1 at 0, for even functions whose other factor has the sign.
UOp size_of(UOp x) {
  return x.lt(0).where(-x, x);
}
// 1 / (1 + exp(-x)), with numerator and denominator times exp(x) below 0: no exp that overflows, whose derivative would
// be 0 * infinity.
UOp sigmoid_of(UOp x) {
  const UOp e = exp_of(-size_of(x));
  return x.lt(0).where(e, x.const_like(1.0)) * (e + 1.0).recip();
}
// (1 - t) / (1 + t) with t = exp(-2|x|). Near 0 that cancels: there it is x + x^3 p(x^2), to 2e-9 of x for |x| < 0.6.
UOp tanh_of(UOp x) {
  const UOp t = exp_of(size_of(x) * -2.0), far = (1.0 - t) * (t + 1.0).recip();
  const UOp z = x * x;
  const UOp near = x + x * z *
                           polynomial(z, {0.002344931218424481, -0.0083887736689762, 0.021782246687156726,
                                          -0.0539608544318777, 0.13333310116392585, -0.3333333321427201});
  return abs_of(x).lt(0.6).where(near, x.lt(0).where(-far, far));
}
// log(1 + x) for x in [-0.5, 1]: 2 atanh(s) with s = x / (2 + x), an odd series in |s| <= 1/3, to 2e-9 of it.
UOp log1p_near(UOp x) {
  const UOp s = x * (x + 2.0).recip(), w = s * s;
  return s * polynomial(w, {0.2322432927470185, 0.21706575788246596, 0.28592357995351697, 0.39999706331897517,
                            0.6666666732052768, 2.0});
}
// log(1 + x): the series where 1 + x would round x away.
UOp log1p_of(UOp x) {
  const UOp small = abs_of(x).lt(0.5);
  return small.where(log1p_near(small.where(x, x.const_like(0.0))), (x + 1.0).log2() * kLn2);
}
// exp(x) - 1 = 2 t / (1 - t) with t = tanh(x / 2), where exp(x) is near 1.
UOp expm1_of(UOp x) {
  const UOp small = abs_of(x).lt(1.0), t = tanh_of(small.where(x, x.const_like(0.0)) * 0.5);
  return small.where(t * 2.0 * (1.0 - t).recip(), exp_of(x) - 1.0);
}
UOp softplus_of(UOp x) {
  return x.lt(0).where(x.const_like(0.0), x) + log1p_near(exp_of(-size_of(x)));
}
// The tanh form: x (1 + tanh(u)) / 2 = x sigmoid(2 u).
UOp gelu_of(UOp x) {
  const double c = 2 * std::sqrt(2 / kPi);
  return x * sigmoid_of(x * (x * x * 0.044715 + 1.0) * c);
}
// 1 - 2 sin(x / 2)^2: to 1e-7 for every x, as halving is exact and SIN reduces its argument exactly.
UOp cos_of(UOp x) {
  const UOp s = (x * 0.5).sin();
  return 1.0 - s * s * 2.0;
}

// From 2^23 on (f16: 2^10) every float is whole; a cast of those, or of NaN, would saturate.
UOp has_fraction(UOp x) {
  return abs_of(x).lt(x.dtype() == DType::F16 ? 1024.0 : 8388608.0);
}
UOp trunc_of(UOp x) {
  return has_fraction(x).where(x.cast(DType::I32).cast(x.dtype()), x);
}
UOp floor_of(UOp x) {
  const UOp whole = x.cast(DType::I32).cast(x.dtype());
  return has_fraction(x).where(x.lt(whole).where(whole - 1.0, whole), x);
}
UOp round_of(UOp x) {
  const UOp down = floor_of(x), rest = x - down;
  const UOp odd = (down - floor_of(down * 0.5) * 2.0).ne(0.0);
  return rest.lt(0.5).where(down, (rest > 0.5).max(odd).where(down + 1.0, down));
}
// Piecewise constant, so `f` of the detached value; whole numbers are new tensors all the same.
Tensor to_whole(const Tensor& t, UnaryUOp f) {
  const UOp x = uop_of(t);
  return make_tensor(is_float(x.dtype()) ? f(x.detach()) : x, {t});
}

// f in f32, rounded once for f16: what f rounds on its way would cost f16 several bits.
Tensor unary_wide(const Tensor& a, UnaryUOp f) {
  const UOp x = uop_of(a);
  return make_tensor(f(x.cast(DType::F32)).cast(is_float(x.dtype()) ? x.dtype() : DType::F32), {a});
}

// x^n by repeated squaring.
UOp whole_power(UOp x, uint64_t n) {
  UOp out;
  for (UOp power = x; n != 0; n >>= 1) {
    if (n & 1) out = out ? out * power : power;
    if (n > 1) power = power * power;
  }
  return out ? out : x.const_like(1);
}
// IEEE's pow: exp2(y log2|x|) with the sign of an odd power, beside the cases where that is NaN and pow is not. What
// the logarithm sees is 1 in place of 0, so that no derivative there is 0 * infinity.
UOp pow_of(UOp x, UOp y) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto c = [&](double v) { return x.const_like(v); };
  const UOp size = size_of(x), zero = x.eq(0), one = size.eq(1), finite = size.lt(inf);
  const UOp regular = (zero.where(c(1), size).log2() * y).exp2();
  const UOp of_zero = y.lt(0).where(c(inf), y.eq(0).where(c(1), (y > 0).where(c(0), y)));
  const UOp of_one = one * abs_of(y).lt(inf).logical_not();  // 1^inf, 1^nan
  const UOp to_zero = y.eq(0) * finite.logical_not();        // inf^0, nan^0
  const UOp power = zero.where(of_zero, of_one.max(to_zero).where(c(1), regular));
  const UOp fixed = y.detach(), half = fixed * 0.5;
  const UOp whole = fixed.eq(floor_of(fixed)), odd = whole * half.ne(floor_of(half));
  // Only -inf has powers that are not whole.
  const UOp negative = odd.where(-power, whole.max(finite.logical_not()).where(power, c(nan)));
  return x.lt(0).where(negative, power);
}
// Of i32, wrapping; a negative power of anything but 1 and -1 is 0.
UOp pow_of_i32(UOp x, UOp y) {
  UOp out = x.const_like(1), power = x;
  for (int64_t bit = 1; bit < (int64_t{1} << 31); bit *= 2) {
    out = y.floordiv(bit).floormod(2).ne(0).where(out * power, out);
    power = power * power;
  }
  const UOp odd = y.floormod(2).ne(0);
  const UOp minus = x.eq(-1).where(odd.where(x, x.const_like(1)), x.eq(1).where(x, x.const_like(0)));
  return y.lt(0).where(minus, out);
}

// Divisions of i32 give f32.
DType quotient_dtype(DType d) {
  return is_float(d) ? d : DType::F32;
}
DType number_dtype(DType d) {
  return d == DType::Bool ? DType::I32 : d;
}
UOp floordiv_of(UOp a, UOp b) {
  return a.floordiv(b);
}
UOp mod_of(UOp a, UOp b) {
  return a.floormod(b);
}
void check_divisor(const char* operation, Scalar b) {
  if (!b.is_float() && b.as_int() == 0) throw Error(ErrorCode::Type, fmt::format("{} by 0", operation));
}
DType integer_dtype(const char* operation, DType d) {
  if (is_float(d))
    throw Error(ErrorCode::Type, fmt::format("{} of dtypes.{}: it is of integers only", operation, name(d)));
  return number_dtype(d);
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
#define UOPC_COMPARE(sign, name, of_tensors)               \
  Tensor operator sign(const Tensor& a, const Tensor& b) { \
    return binary(#name, a, b, of_tensors);                \
  }                                                        \
  Tensor operator sign(const Tensor& a, Scalar b) {        \
    return binary(#name, a, b, name);                      \
  }                                                        \
  Tensor operator sign(Scalar a, const Tensor& b) {        \
    return binary(#name, a, b, name);                      \
  }
UOPC_COMPARE(<, less, less)
UOPC_COMPARE(>, greater, greater)
UOPC_COMPARE(<=, less_equal, of_pinned<less_equal>)
UOPC_COMPARE(>=, greater_equal, of_pinned<greater_equal>)
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
  return unary_wide(*this, exp_of);
}
Tensor Tensor::exp2() const {
  return unary_float(*this, [](UOp x) { return x.exp2(); });
}
Tensor Tensor::expm1() const {
  return unary_wide(*this, expm1_of);
}
Tensor Tensor::log() const {
  return unary_wide(*this, [](UOp x) { return x.log2() * kLn2; });
}
Tensor Tensor::log2() const {
  return unary_float(*this, [](UOp x) { return x.log2(); });
}
Tensor Tensor::log1p() const {
  return unary_wide(*this, log1p_of);
}
Tensor Tensor::sqrt() const {
  return unary_float(*this, [](UOp x) { return x.sqrt(); });
}
Tensor Tensor::rsqrt() const {
  return unary_wide(*this, [](UOp x) { return x.sqrt().recip(); });
}
Tensor Tensor::sin() const {
  return unary_float(*this, [](UOp x) { return x.sin(); });
}
Tensor Tensor::cos() const {
  return unary_wide(*this, cos_of);
}
Tensor Tensor::tan() const {
  return unary_wide(*this, [](UOp x) { return x.sin() * cos_of(x).recip(); });
}
Tensor Tensor::tanh() const {
  return unary_wide(*this, tanh_of);
}
Tensor Tensor::sigmoid() const {
  return unary_wide(*this, sigmoid_of);
}
// Flat at 0, where the slopes of a maximum meet; NaN stays NaN.
Tensor Tensor::relu() const {
  return is_float(dtype()) ? (*this <= 0).where(0, *this) : maximum(0);
}
Tensor Tensor::leaky_relu(double slope) const {
  return (*this < 0).where(*this * slope, *this);
}
Tensor Tensor::gelu() const {
  return unary_wide(*this, gelu_of);
}
Tensor Tensor::silu() const {
  return unary_wide(*this, [](UOp x) { return x * sigmoid_of(x); });
}
Tensor Tensor::softplus() const {
  return unary_wide(*this, softplus_of);
}
Tensor Tensor::elu(double alpha) const {
  return (*this > 0).where(*this, expm1() * alpha);
}
Tensor Tensor::abs() const {
  if (dtype() == DType::Bool) return cast(DType::I32);
  const UOp x = uop_of(*this);  // the larger of -0.0 and +0.0 may be either
  return make_tensor(is_float(dtype()) ? x.eq(0).where(x.const_like(0.0), abs_of(x)) : abs_of(x), {*this});
}
Tensor Tensor::sign() const {
  const UOp x = uop_of(*this);
  const auto c = [&](int v) { return x.const_like(v); };
  return make_tensor(x.dtype() == DType::Bool ? x : (x > 0).where(c(1), x.lt(0).where(c(-1), c(0))), {*this});
}
Tensor Tensor::floor() const {
  return to_whole(*this, floor_of);
}
Tensor Tensor::ceil() const {
  return to_whole(*this, [](UOp x) { return -floor_of(-x); });
}
Tensor Tensor::trunc() const {
  return to_whole(*this, trunc_of);
}
Tensor Tensor::round() const {
  return to_whole(*this, round_of);
}
Tensor Tensor::square() const {
  return *this * *this;
}
Tensor Tensor::isnan() const {
  const UOp x = uop_of(*this);
  return make_tensor(x.ne(x), {*this});
}
Tensor Tensor::isinf() const {
  return is_float(dtype()) ? abs().eq(INFINITY) : isnan();
}
Tensor Tensor::isfinite() const {
  return is_float(dtype()) ? abs() < INFINITY : isnan().logical_not();
}
Tensor Tensor::logical_not() const {
  return make_tensor(uop_of(*this).cast(DType::Bool).logical_not(), {*this});
}

Tensor Tensor::clamp(std::optional<Scalar> low, std::optional<Scalar> high) const {
  Tensor x = same_value(*this);
  if (low) x = (x < *low).where(*low, x);
  if (high) x = (x > *high).where(*high, x);
  return x;
}
Tensor Tensor::pow(Scalar exponent) const {
  const DType d = number_dtype(promote(dtype(), exponent));
  const double e = exponent.as_float();
  const bool whole = e == std::trunc(e) && std::abs(e) <= 64;
  const UOp own = uop_of(*this).cast(d);
  if (d == DType::I32 && e >= 0)
    return make_tensor(
        whole ? whole_power(own, static_cast<uint64_t>(e)) : pow_of_i32(own, number_like("pow", own, exponent)),
        {*this});
  const UOp x = own.cast(DType::F32);
  UOp y;
  if (whole)
    y = whole_power(x, static_cast<uint64_t>(std::abs(e)));
  else if (std::abs(e) == 0.5)
    y = x.sqrt();
  else
    y = pow_of(x, x.const_like(e));
  if (e < 0 && (whole || e == -0.5)) y = y.recip();
  return make_tensor(y.cast(is_float(d) ? d : DType::F32), {*this});
}
Tensor Tensor::pow(const Tensor& exponent) const {
  const DType d = number_dtype(promote(dtype(), exponent.dtype()));
  if (d == DType::I32) return binary("pow", *this, exponent, pow_of_i32, d);
  return binary("pow", *this, exponent, pow_of, DType::F32).cast(d);
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
  return binary("floordiv", *this, b, floordiv_of, integer_dtype("floordiv", promote(dtype(), b.dtype())));
}
Tensor Tensor::floordiv(Scalar b) const {
  check_divisor("floordiv", b);
  return binary("floordiv", *this, b, floordiv_of, integer_dtype("floordiv", promote(dtype(), b)));
}
Tensor Tensor::mod(const Tensor& b) const {
  return binary("mod", *this, b, mod_of, integer_dtype("mod", promote(dtype(), b.dtype())));
}
Tensor Tensor::mod(Scalar b) const {
  check_divisor("mod", b);
  return binary("mod", *this, b, mod_of, integer_dtype("mod", promote(dtype(), b)));
}
Tensor Tensor::eq(const Tensor& b) const {
  return binary("eq", *this, b, of_pinned<equal>);
}
Tensor Tensor::eq(Scalar b) const {
  return binary("eq", *this, b, equal);
}
Tensor Tensor::ne(const Tensor& b) const {
  return binary("ne", *this, b, of_pinned<not_equal>);
}
Tensor Tensor::ne(Scalar b) const {
  return binary("ne", *this, b, not_equal);
}
Tensor Tensor::logical_and(const Tensor& b) const {
  return binary("logical_and", *this, b, mul, DType::Bool);
}
Tensor Tensor::logical_or(const Tensor& b) const {
  return binary("logical_or", *this, b, add, DType::Bool);
}
Tensor Tensor::logical_xor(const Tensor& b) const {
  return binary(
      "logical_xor", *this, b, [](UOp x, UOp y) { return x.ne(y); }, DType::Bool);
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
  return where(make_tensor(u, {a}), make_tensor(number_like("where", u.graph().constant(0, u.dtype()), b), {a}));
}
Tensor Tensor::where(Scalar a, const Tensor& b) const {
  const UOp u = uop_of(b).cast(promote(b.dtype(), a));
  return where(make_tensor(number_like("where", u.graph().constant(0, u.dtype()), a), {b}), make_tensor(u, {b}));
}
Tensor Tensor::where(Scalar a, Scalar b) const {
  const DType d = promote(dtypes::from_py(a), dtypes::from_py(b));
  const UOp c = uop_of(*this), like = c.cast(d);
  return make_tensor(c.cast(DType::Bool).where(number_like("where", like, a), number_like("where", like, b)), {*this});
}

}  // namespace uopc
