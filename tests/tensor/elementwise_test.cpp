// Element-wise operations where they are easily wrong: special values, small and huge arguments, dtypes, errors.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "error_of.hpp"
#include "uopc/tensor.hpp"

namespace uopc {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Tensor floats(const Context& ctx, const std::vector<float>& v) {
  return Tensor::from(ctx, std::span<const float>(v), {static_cast<int64_t>(v.size())});
}

// Equal, both NaN, or apart by `relative` of the value, and 1e-37 for subnormals.
void expect_close(const std::vector<float>& got, const std::vector<float>& in, const std::function<double(double)>& f,
                  double relative) {
  ASSERT_EQ(got.size(), in.size());
  for (size_t i = 0; i < in.size(); i++) {
    const double want = f(in[i]);
    const auto as_float = static_cast<float>(want);
    if (std::isnan(want))
      EXPECT_TRUE(std::isnan(got[i])) << in[i] << " gives " << got[i];
    else if (std::isinf(as_float))
      EXPECT_EQ(got[i], as_float) << in[i];
    else
      EXPECT_NEAR(got[i], want, relative * std::abs(want) + 1e-37) << in[i];
  }
}

const std::vector<float> kWide = {-kInf, -100,   -88,    -20, -5,    -1,    -0.7f, -0.61f, -0.59f,
                                  -0.1f, -1e-3f, -1e-6f, 0,   1e-6f, 1e-3f, 0.1f,  0.59f,  0.61f,
                                  0.7f,  1,      5,      20,  88,    100,   kInf,  kNaN};

TEST(Elementwise, SmoothFunctionsKeepTheirRelativePrecision) {
  Context ctx;
  const Tensor x = floats(ctx, kWide);
  const auto check = [&](const char* name, const Tensor& t, const std::function<double(double)>& f, double relative) {
    SCOPED_TRACE(name);
    expect_close(t.to_vector<float>(), kWide, f, relative);
  };
  const auto exp = [](double v) { return std::exp(v); };
  check("exp", x.exp(), exp, 1e-5);
  check(
      "tanh", x.tanh(), [](double v) { return std::tanh(v); }, 5e-7);
  check(
      "sigmoid", x.sigmoid(), [](double v) { return 1 / (1 + std::exp(-v)); }, 1e-5);
  check(
      "expm1", x.expm1(), [](double v) { return std::expm1(v); }, 1e-5);
  check(
      "log1p", x.log1p(), [](double v) { return std::log1p(v); }, 5e-7);
  check(
      "softplus", x.softplus(), [](double v) { return v > 40 ? v : std::log1p(std::exp(v)); }, 1e-5);
  check(
      "elu", x.elu(2), [](double v) { return v > 0 ? v : 2 * std::expm1(v); }, 1e-5);
}

TEST(Elementwise, CosineOfLargeArguments) {
  Context ctx;
  const std::vector<float> v = {0, 1e-4f, 1, 1.5707964f, 3.1415927f, 100, 1000, 1e6f, -1e6f, 1e9f};
  const auto got = floats(ctx, v).cos().to_vector<float>();
  for (size_t i = 0; i < v.size(); i++) EXPECT_NEAR(got[i], std::cos(static_cast<double>(v[i])), 3e-7) << v[i];
}

TEST(Elementwise, DerivativesAreFiniteFarOut) {
  Context ctx;
  const std::vector<float> v = {-1000, -100, -20, 0, 20, 100, 1000};
  const auto check = [&](const char* name, Tensor (Tensor::*f)() const, const std::function<double(double)>& d) {
    SCOPED_TRACE(name);
    const Tensor x = floats(ctx, v);
    expect_close((x.*f)().sum().gradient({x})[0].to_vector<float>(), v, d, 2e-5);
  };
  const auto sigmoid = [](double a) { return a < 0 ? std::exp(a) / (1 + std::exp(a)) : 1 / (1 + std::exp(-a)); };
  const auto bell = [&](double a) { return sigmoid(a) * sigmoid(-a); };
  check("sigmoid", &Tensor::sigmoid, bell);
  check("softplus", &Tensor::softplus, sigmoid);
  check("silu", &Tensor::silu, [&](double a) { return sigmoid(a) + a * bell(a); });
  check("tanh", &Tensor::tanh, [](double a) { return 4 / std::pow(std::exp(a) + std::exp(-a), 2); });
  check("gelu", &Tensor::gelu, [](double a) { return a < -10 ? 0 : a > 10 ? 1 : 0.5; });
}

TEST(Elementwise, ReluIsFlatAtZero) {
  Context ctx;
  const std::vector<float> v = {-2, -0.f, 0, 3, kNaN, kInf};
  const Tensor x = floats(ctx, v);
  const auto slope = x.relu().sum().gradient({x})[0].to_vector<float>();
  EXPECT_EQ((std::vector<float>(slope.begin(), slope.begin() + 4)), (std::vector<float>{0, 0, 0, 1}));
  expect_close(
      x.relu().to_vector<float>(), v, [](double a) { return a < 0 ? 0 : a; }, 0);
}

TEST(Elementwise, RoundingToWholeNumbers) {
  Context ctx;
  const std::vector<float> v = {-kInf, -8388609, -3.5f, -2.5f, -1.5f,      -1,      -0.5f, -0.25f, 0,    0.25f,
                                0.5f,  1,        1.5f,  2.5f,  8388607.5f, 8388609, 3e9f,  -3e9f,  kInf, kNaN};
  const Tensor x = floats(ctx, v);
  expect_close(
      x.floor().to_vector<float>(), v, [](double a) { return std::floor(a); }, 0);
  expect_close(
      x.ceil().to_vector<float>(), v, [](double a) { return std::ceil(a); }, 0);
  expect_close(
      x.trunc().to_vector<float>(), v, [](double a) { return std::trunc(a); }, 0);
  expect_close(
      x.round().to_vector<float>(), v, [](double a) { return std::nearbyint(a); }, 0);
  const std::vector<float> halves = {-1023.5f, -2.5f, 0.5f, 1023.5f, 1025, 65504, kInf, kNaN};
  const Tensor h = floats(ctx, halves).to_f16();
  EXPECT_EQ(h.floor().dtype(), DType::F16);
  expect_close(
      h.floor().to_vector<float>(), halves, [](double a) { return std::floor(a); }, 0);
  expect_close(
      h.round().to_vector<float>(), halves, [](double a) { return std::nearbyint(a); }, 0);
  for (float g : x.floor().sum().gradient({x})[0].to_vector<float>()) EXPECT_EQ(g, 0);
}

TEST(Elementwise, PowersAreIeees) {
  Context ctx;
  const std::vector<float> bases = {-kInf, -2, -1, -0.5f, 0, 0.5f, 1, 2, kInf, kNaN};
  const std::vector<float> exponents = {-kInf, -3, -2, -1.5f, -1, -0.5f, 0, 0.5f, 1, 1.5f, 2, 3, 70, 71, kInf, kNaN};
  const auto n = static_cast<int64_t>(bases.size()), m = static_cast<int64_t>(exponents.size());
  const auto all = floats(ctx, bases).reshape({n, 1}).pow(floats(ctx, exponents)).to_vector<float>();
  for (size_t i = 0; i < bases.size(); i++)
    for (size_t j = 0; j < exponents.size(); j++) {
      const double want = std::pow(static_cast<double>(bases[i]), static_cast<double>(exponents[j]));
      const float got = all[i * static_cast<size_t>(m) + j];
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got)) << bases[i] << " ** " << exponents[j] << " gives " << got;
      else if (std::isinf(want))
        EXPECT_EQ(got, want) << bases[i] << " ** " << exponents[j];
      else
        EXPECT_NEAR(got, want, 2e-6 * std::abs(want)) << bases[i] << " ** " << exponents[j];
    }
  for (float e : {-71.f, -3.f, -1.f, 0.f, 1.f, 2.f, 3.f, 1.5f, -1.5f, 71.f}) {
    const std::vector<float> some = {-2, -0.5f, 0.5f, 1, 2, kNaN};
    SCOPED_TRACE(e);
    expect_close(
        floats(ctx, some).pow(e).to_vector<float>(), some, [e](double a) { return std::pow(a, e); }, 1e-5);
  }
  const Tensor zero = floats(ctx, {0, 4});
  EXPECT_EQ(zero.pow(1.5).sum().gradient({zero})[0].to_vector<float>(), (std::vector<float>{0, 3}));
}

TEST(Elementwise, PowersOfIntegers) {
  Context ctx;
  const Tensor x = Tensor::from(ctx, {-3, -1, 0, 1, 2});
  using Ints = std::vector<int32_t>;
  EXPECT_EQ(x.pow(3).dtype(), DType::I32);
  EXPECT_EQ(x.pow(3).to_vector<int32_t>(), (Ints{-27, -1, 0, 1, 8}));
  EXPECT_EQ(x.pow(Tensor::from(ctx, {5, -3, 0, -7, -1})).to_vector<int32_t>(), (Ints{-243, -1, 1, 1, 0}));
  EXPECT_EQ(x.pow(2.0).dtype(), DType::F32);
  EXPECT_EQ(x.pow(101).to_vector<int32_t>()[1], -1);
  EXPECT_FLOAT_EQ(x.pow(1.5).to_vector<float>()[4], 2.8284271f);
  EXPECT_FLOAT_EQ(x.pow(-2).to_vector<float>()[4], 0.25f);
}

TEST(Elementwise, ComparisonsWithNaNAreFalse) {
  Context ctx;
  const Tensor a = floats(ctx, {kNaN, 1, kNaN, 1, 2}), b = floats(ctx, {1, kNaN, kNaN, 1, 1});
  using Bools = std::vector<char>;
  EXPECT_EQ((a < b).to_vector<char>(), (Bools{0, 0, 0, 0, 0}));
  EXPECT_EQ((a > b).to_vector<char>(), (Bools{0, 0, 0, 0, 1}));
  EXPECT_EQ((a <= b).to_vector<char>(), (Bools{0, 0, 0, 1, 0}));
  EXPECT_EQ((a >= b).to_vector<char>(), (Bools{0, 0, 0, 1, 1}));
  EXPECT_EQ(a.eq(b).to_vector<char>(), (Bools{0, 0, 0, 1, 0}));
  EXPECT_EQ(a.ne(b).to_vector<char>(), (Bools{1, 1, 1, 0, 1}));
  EXPECT_EQ(a.isnan().to_vector<char>(), (Bools{1, 0, 1, 0, 0}));
  const Tensor far = floats(ctx, {kInf, -kInf, kNaN, 1, 3e38f});
  EXPECT_EQ(far.isinf().to_vector<char>(), (Bools{1, 1, 0, 0, 0}));
  EXPECT_EQ(far.isfinite().to_vector<char>(), (Bools{0, 0, 0, 1, 1}));
}

TEST(Elementwise, ClampKeepsNaNAndItsDerivativeAtTheBounds) {
  Context ctx;
  const Tensor x = floats(ctx, {-2, -1, 0, 1, 2});
  EXPECT_EQ(x.clamp(-1, 1).to_vector<float>(), (std::vector<float>{-1, -1, 0, 1, 1}));
  EXPECT_EQ(x.clamp(-1, 1).sum().gradient({x})[0].to_vector<float>(), (std::vector<float>{0, 1, 1, 1, 0}));
  EXPECT_EQ(x.clamp({}, 0).to_vector<float>(), (std::vector<float>{-2, -1, 0, 0, 0}));
  EXPECT_EQ(x.clamp(1, -1).to_vector<float>(), (std::vector<float>{-1, -1, -1, -1, -1}));
  EXPECT_TRUE(std::isnan(floats(ctx, {kNaN}).clamp(0, 1).item<float>()));
}

TEST(Elementwise, DtypesOfTwoOperands) {
  Context ctx;
  const Tensor b = Tensor::full(ctx, {2}, true), i = Tensor::from(ctx, {1, 2}), f = floats(ctx, {1, 2}), h = f.to_f16();
  EXPECT_EQ((b + b).dtype(), DType::Bool);
  EXPECT_EQ((b + i).dtype(), DType::I32);
  EXPECT_EQ((i * h).dtype(), DType::F16);
  EXPECT_EQ((h - f).dtype(), DType::F32);
  EXPECT_EQ((h * 2.5).dtype(), DType::F16);
  EXPECT_EQ((i * 2.5).dtype(), DType::F32);
  EXPECT_EQ((i * 2).dtype(), DType::I32);
  EXPECT_EQ((b + 1).dtype(), DType::I32);
  EXPECT_EQ((b - b).to_vector<int32_t>(), (std::vector<int32_t>{0, 0}));
  EXPECT_EQ((i / i).dtype(), DType::F32);
  EXPECT_EQ((1 / i).to_vector<float>(), (std::vector<float>{1, 0.5f}));
  EXPECT_EQ((i < 1.5).to_vector<char>(), (std::vector<char>{1, 0}));
  EXPECT_EQ(i.exp().dtype(), DType::F32);
  EXPECT_EQ(h.tanh().dtype(), DType::F16);
  EXPECT_EQ((i < 2).where(1, 0.5).dtype(), DType::F32);
  EXPECT_EQ((i < 2).where(1, 2).to_vector<int32_t>(), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ((i < 2).where(i, 0.5).to_vector<float>(), (std::vector<float>{1, 0.5f}));
}

// The value in f32, rounded once: within an f16 of the exact one.
TEST(Elementwise, HalfPrecisionRoundsOnce) {
  Context ctx;
  const std::vector<float> v = {-9, -1, -0.25f, 0.0625f, 1, 5, 10};
  const Tensor x = floats(ctx, v).to_f16();
  const double half_ulp = 0x1.02p-11;
  expect_close(
      x.exp().to_vector<float>(), v, [](double a) { return std::exp(a); }, half_ulp);
  expect_close(
      x.tanh().to_vector<float>(), v, [](double a) { return std::tanh(a); }, half_ulp);
  expect_close(
      x.sigmoid().to_vector<float>(), v, [](double a) { return 1 / (1 + std::exp(-a)); }, half_ulp);
  expect_close(
      x.pow(3).to_vector<float>(), v, [](double a) { return a * a * a; }, half_ulp);
}

TEST(Elementwise, IntegerDivisionIsPythons) {
  Context ctx;
  const Tensor a = Tensor::from(ctx, {7, -7, 7, -7, INT32_MIN}), b = Tensor::from(ctx, {2, 2, -2, -2, -1});
  EXPECT_EQ(a.floordiv(b).to_vector<int32_t>(), (std::vector<int32_t>{3, -4, -4, 3, INT32_MIN}));
  EXPECT_EQ(a.mod(b).to_vector<int32_t>(), (std::vector<int32_t>{1, 1, -1, -1, 0}));
  EXPECT_EQ(a.floordiv(2).to_vector<int32_t>()[1], -4);
  EXPECT_EQ(a.minimum(b).to_vector<int32_t>()[4], INT32_MIN);
  EXPECT_EQ(a.sign().to_vector<int32_t>(), (std::vector<int32_t>{1, -1, 1, -1, -1}));
}

TEST(Elementwise, LogicOfBools) {
  Context ctx;
  const Tensor a = Tensor::from(ctx, {0, 0, 2, 2}), b = Tensor::from(ctx, {0, 3, 0, 3});
  using Bools = std::vector<char>;
  EXPECT_EQ(a.logical_and(b).to_vector<char>(), (Bools{0, 0, 0, 1}));
  EXPECT_EQ(a.logical_or(b).to_vector<char>(), (Bools{0, 1, 1, 1}));
  EXPECT_EQ(a.logical_xor(b).to_vector<char>(), (Bools{0, 1, 1, 0}));
  EXPECT_EQ(a.logical_not().to_vector<char>(), (Bools{1, 1, 0, 0}));
}

TEST(Elementwise, ErrorsSayWhatIsWrong) {
  Context ctx;
  const Tensor x = Tensor::zeros(ctx, {2, 3}), i = Tensor::from(ctx, {1, 2});
  EXPECT_EQ(error_of([&] { x + Tensor::zeros(ctx, {4}); }), "add: can't broadcast (2, 3) with (4,)");
  EXPECT_EQ(error_of([&] { x.floordiv(2); }), "floordiv of dtypes.f32: it is of integers only");
  EXPECT_EQ(error_of([&] { i + (int64_t{1} << 40); }), "add: 1099511627776 does not fit i32");
  EXPECT_EQ(error_of([&] { Tensor() + x; }), "add: an operand is an empty Tensor");
}

// Simplification drops the only BUFFER, whose slot is that of the kernel's output.
TEST(Elementwise, OfAnOperandThatCancels) {
  Context ctx;
  const Tensor i = Tensor::from(ctx, {1, 2});
  EXPECT_EQ((i * 0 + 7).to_vector<int32_t>(), (std::vector<int32_t>{7, 7}));
}

TEST(Elementwise, OfNoElements) {
  Context ctx;
  const Tensor none = Tensor::zeros(ctx, {0, 3});
  EXPECT_EQ(((none + 1).exp() * Tensor::ones(ctx, {1, 3})).shape(), (Shape{0, 3}));
  EXPECT_TRUE(none.tanh().to_vector<float>().empty());
  EXPECT_EQ((none + Tensor::ones(ctx, {2, 1, 1})).shape(), (Shape{2, 0, 3}));
}

}  // namespace
}  // namespace uopc
