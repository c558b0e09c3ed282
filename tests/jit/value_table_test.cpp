// One test a row of the table in docs/semantics.md, through the JIT at every level.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/half.hpp"
#include "jit/jit_util.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace uopc {
namespace {

using jit::bytes;

constexpr int32_t kMin = std::numeric_limits<int32_t>::min(), kMax = std::numeric_limits<int32_t>::max();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Setting {
  int level;
  const char* cpu;
};

class ValueTable : public testing::TestWithParam<Setting> {
 protected:
  static Options make() {
    Options o = jit::options(GetParam().level);
    o.cpu = GetParam().cpu;
    return o;
  }
  Engine engine{make()};

  // `op` on buffers of x and y (each of one dtype), by data: nothing can be folded.
  template <class Out, class In>
  std::vector<Out> binary(const std::string& op, const std::string& dtype, std::vector<In> x, std::vector<In> y) {
    const std::string n = std::to_string(x.size());
    return jit::evaluate<Out>(engine,
                              "%0 = buffer " + n + " : dtype=" + dtype + " slot=0\n%1 = buffer " + n +
                                  " : dtype=" + dtype + " slot=1\n%2 = " + op + " %0, %1\n",
                              {bytes(x), bytes(y)});
  }
  template <class Out, class In>
  std::vector<Out> unary(const std::string& op, const std::string& dtype, std::vector<In> x) {
    const size_t colon = op.find(':');
    return jit::evaluate<Out>(engine,
                              "%0 = buffer " + std::to_string(x.size()) + " : dtype=" + dtype + " slot=0\n%1 = " +
                                  op.substr(0, colon) + " %0" + (colon == op.npos ? "" : " " + op.substr(colon)) + "\n",
                              {bytes(x)});
  }
};

template <class T>
void expect_same(const std::vector<T>& got, const std::vector<T>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); i++) {
    if constexpr (std::is_same_v<T, float>) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << i;
        continue;
      }
      EXPECT_EQ(std::signbit(got[i]), std::signbit(want[i])) << i;
    }
    EXPECT_EQ(got[i], want[i]) << i;
  }
}

TEST_P(ValueTable, MaxIsTheFirstWhenGreaterElseTheSecond) {
  expect_same(
      binary<float>("max", "f32", std::vector<float>{1, kNaN, 1, 0.0f, -0.0f, -3}, {kNaN, 1, 2, -0.0f, 0.0f, -4}),
      {kNaN, 1, 2, -0.0f, 0.0f, -3});
  expect_same(binary<int32_t>("max", "i32", std::vector<int32_t>{kMin, 3, -1}, {kMax, 2, -2}), {kMax, 3, -1});
}

TEST_P(ValueTable, ComparisonsWithNaN) {
  expect_same(binary<int8_t>("cmplt", "f32", std::vector<float>{1, kNaN, 1, -0.0f}, {kNaN, 1, 2, 0.0f}),
              std::vector<int8_t>{0, 0, 1, 0});
  expect_same(binary<int8_t>("cmpne", "f32", std::vector<float>{1, kNaN, 1, -0.0f}, {kNaN, kNaN, 1, 0.0f}),
              std::vector<int8_t>{1, 1, 0, 0});
}

TEST_P(ValueTable, DivisionByZeroIsZero) {
  const std::vector<int32_t> x = {5, -5, 0, kMin}, y = {0, 0, 0, 0};
  expect_same(binary<int32_t>("floordiv", "i32", x, y), {0, 0, 0, 0});
  expect_same(binary<int32_t>("floormod", "i32", x, y), {0, 0, 0, 0});
}

TEST_P(ValueTable, ConstantDivisors) {
  const std::vector<int32_t> x = {7, -7, 8, -8, 0, kMin, kMax, 5};
  for (int32_t c : {1, -1, 2, -2, 3, -3, 8, 7, kMax, kMin}) {
    const std::string head = "%0 = buffer 8 : dtype=i32 slot=0\n";
    const auto q = jit::evaluate<int32_t>(engine, head + "%1 = floordiv %0, " + std::to_string(c) + "\n", {bytes(x)});
    const auto r = jit::evaluate<int32_t>(engine, head + "%1 = floormod %0, " + std::to_string(c) + "\n", {bytes(x)});
    for (size_t i = 0; i < x.size(); i++) {
      int64_t want = static_cast<int64_t>(x[i]) / c, rest = static_cast<int64_t>(x[i]) % c;
      if (rest != 0 && (rest < 0) != (c < 0)) want--, rest += c;
      EXPECT_EQ(q[i], static_cast<int32_t>(static_cast<uint32_t>(want))) << x[i] << " // " << c;
      EXPECT_EQ(r[i], static_cast<int32_t>(rest)) << x[i] << " % " << c;
    }
  }
}

TEST_P(ValueTable, IntMinByMinusOneWraps) {
  expect_same(binary<int32_t>("floordiv", "i32", std::vector<int32_t>{kMin, 7}, {-1, -1}), {kMin, -7});
  expect_same(binary<int32_t>("floormod", "i32", std::vector<int32_t>{kMin, 7}, {-1, -1}), {0, 0});
}

TEST_P(ValueTable, DivisionIsFloor) {
  const std::vector<int32_t> x = {7, -7, 7, -7, -6, kMin, 6}, y = {2, 2, -2, -2, 3, 3, 3};
  expect_same(binary<int32_t>("floordiv", "i32", x, y), {3, -4, -4, 3, -2, -715827883, 2});
  expect_same(binary<int32_t>("floormod", "i32", x, y), {1, 1, -1, -1, 0, 1, 0});
}

TEST_P(ValueTable, IntegersWrap) {
  expect_same(binary<int32_t>("add", "i32", std::vector<int32_t>{kMax, kMin, 1}, {1, -1, 2}), {kMin, kMax, 3});
  expect_same(binary<int32_t>("mul", "i32", std::vector<int32_t>{65536, kMin, 3}, {65536, -1, 4}), {0, kMin, 12});
  EXPECT_EQ(jit::evaluate<int32_t>(engine,
                                   "%0 = buffer 1 : dtype=i32 slot=0\n%1 = add %0, 2147483647\n%2 = add %1, 1\n"
                                   "%3 = cmplt %2, %0\n%4 = cast %3 : dtype=i32\n",
                                   {bytes(std::vector<int32_t>{5})}),
            std::vector<int32_t>{1});
}

TEST_P(ValueTable, BoolArithmeticIsLogic) {
  const std::vector<int8_t> x = {0, 0, 1, 1}, y = {0, 1, 0, 1};
  expect_same(binary<int8_t>("add", "bool", x, y), {0, 1, 1, 1});
  expect_same(binary<int8_t>("mul", "bool", x, y), {0, 0, 0, 1});
  expect_same(binary<int8_t>("max", "bool", x, y), {0, 1, 1, 1});
  expect_same(binary<int8_t>("cmplt", "bool", x, y), {0, 1, 0, 0});
  expect_same(binary<int8_t>("cmpne", "bool", x, y), {0, 1, 1, 0});
}

TEST_P(ValueTable, FloatToIntSaturates) {
  expect_same(
      unary<int32_t>("cast : dtype=i32", "f32", std::vector<float>{1.9f, -1.9f, 3e9f, -3e9f, kInf, -kInf, kNaN, -0.0f}),
      {1, -1, kMax, kMin, kMax, kMin, 0, 0});
}

TEST_P(ValueTable, ToBoolIsNotZero) {
  expect_same(unary<int8_t>("cast : dtype=bool", "f32", std::vector<float>{0, -0.0f, 1e-45f, kNaN, kInf}),
              {0, 0, 1, 1, 1});
  expect_same(unary<int8_t>("cast : dtype=bool", "i32", std::vector<int32_t>{0, 2, -1, 256}), {0, 1, 1, 1});
}

TEST_P(ValueTable, ConstantsRoundToF32) {
  expect_same(jit::evaluate<float>(engine, "%0 = buffer 1 : dtype=f32 slot=0\n%1 = add %0, 16777217.0\n",
                                   {bytes(std::vector<float>{2})}),
              {16777218.0f});
}

TEST_P(ValueTable, HalfRoundsAfterEachOperation) {
  // 2049 is no f16: (2048 + 1) - 2048 is 0 when the sum is rounded, and 1 when it is not.
  const auto h = [](double v) { return half_from_double(v); };
  const std::string two = "%0 = buffer 4 : dtype=f16 slot=0\n%1 = buffer 4 : dtype=f16 slot=1\n";
  const std::vector<uint16_t> x = {h(2048), h(1), h(65504), h(0.1)}, y = {h(1), h(0x1p-11), h(65504), h(0.2)};
  const auto sum = jit::evaluate<uint16_t>(engine, two + "%2 = add %0, %1\n", {bytes(x), bytes(y)});
  for (size_t i = 0; i < 4; i++) EXPECT_EQ(sum[i], h(half_to_float(x[i]) + half_to_float(y[i]))) << i;
  // x * y + z, each step rounded.
  const auto fused = jit::evaluate<uint16_t>(engine, two + "%2 = mul %0, %0\n%3 = add %2, %1\n", {bytes(x), bytes(y)});
  for (size_t i = 0; i < 4; i++) {
    const double product = half_to_float(h(double{half_to_float(x[i])} * half_to_float(x[i])));
    EXPECT_EQ(fused[i], h(product + half_to_float(y[i]))) << i;
  }
  for (const char* op : {"recip", "sqrt", "exp2"}) {
    const auto got = unary<uint16_t>(op, "f16", std::vector<uint16_t>{h(3), h(0.5), h(0), h(10)});
    for (size_t i = 0; i < 4; i++) {
      const double v = half_to_float(std::vector<uint16_t>{h(3), h(0.5), h(0), h(10)}[i]);
      const double want = op[0] == 'r' ? 1 / v : op[0] == 's' ? std::sqrt(v) : std::exp2(v);
      EXPECT_EQ(got[i], h(want)) << op << " " << v;
    }
  }
}

TEST_P(ValueTable, HalfConversions) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); i++) all[i] = static_cast<uint16_t>(i);
  const auto wide = unary<float>("cast : dtype=f32", "f16", all);
  for (size_t i = 0; i < all.size(); i++) {
    const float want = half_to_float(all[i]);
    ASSERT_TRUE(wide[i] == want || (std::isnan(wide[i]) && std::isnan(want))) << i;
  }
  const std::vector<float> x = {0.1f,     65519.9f,   65520.0f, -1e9f,   0x1p-24f,
                                0x1p-25f, 0x1.8p-25f, kInf,     2049.0f, 2051.0f};
  const auto narrow = unary<uint16_t>("cast : dtype=f16", "f32", x);
  for (size_t i = 0; i < x.size(); i++) EXPECT_EQ(narrow[i], half_from_double(x[i])) << x[i];
  const std::vector<int32_t> n = {0, -1, 2049, 2051, 65519, 65520, kMin, 16777217};
  const auto from_int = unary<uint16_t>("cast : dtype=f16", "i32", n);
  for (size_t i = 0; i < n.size(); i++) EXPECT_EQ(from_int[i], half_from_double(n[i])) << n[i];
  expect_same(unary<int32_t>("cast : dtype=i32", "f16", std::vector<uint16_t>{half_from_double(-2.5), 0x7C00, 0x7E00}),
              {-2, kMax, 0});
}

TEST_P(ValueTable, RecipIsDivision) {
  expect_same(unary<float>("recip", "f32", std::vector<float>{3, 0.0f, -0.0f, kInf, kNaN, 1e-40f, 0x1.fffffep127f}),
              {1.0f / 3, kInf, -kInf, 0.0f, kNaN, kInf, 1 / 0x1.fffffep127f});
}

TEST_P(ValueTable, SqrtIsCorrectlyRounded) {
  expect_same(unary<float>("sqrt", "f32", std::vector<float>{2, 0.0f, -0.0f, -1, kInf, kNaN, 1e-40f}),
              {std::sqrt(2.0f), 0.0f, -0.0f, kNaN, kInf, kNaN, std::sqrt(1e-40f)});
}

TEST_P(ValueTable, SubnormalsAreKept) {
  expect_same(binary<float>("add", "f32", std::vector<float>{1e-45f, 1e-40f, -1e-40f}, {0.0f, 1e-40f, 1e-45f}),
              {1e-45f, 1e-40f + 1e-40f, -1e-40f + 1e-45f});
  expect_same(binary<float>("mul", "f32", std::vector<float>{0x1p-100f}, {0x1p-40f}), {0x1p-140f});
}

#if defined(__x86_64__)
TEST_P(ValueTable, TheCallersFloatingPointModeStands) {
  const Kernel kernel = jit::compile(engine, "%0 = buffer 1 : dtype=f32 slot=0\n%1 = mul %0, 0.5\n");
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040);  // flush results, and operands, to zero
  const auto flushed = jit::run(kernel, {bytes(std::vector<float>{1e-40f})});
  const unsigned after = _mm_getcsr();
  _mm_setcsr(saved);
  EXPECT_EQ(jit::values<float>(flushed.back())[0], 0.0f);
  EXPECT_EQ(after & 0x8040, 0x8040u);
}
#endif

TEST_P(ValueTable, EmptyReductionsGiveTheIdentity) {
  const std::string head = "%0 = buffer 0 : dtype=f32 slot=0\n%1 = reshape %0, (2, 0)\n";
  expect_same(jit::evaluate<float>(engine, head + "%2 = reduce %1 : op=add pop=1\n", {}), {0, 0});
  expect_same(jit::evaluate<float>(engine, head + "%2 = reduce %1 : op=max pop=1\n", {}), {-kInf, -kInf});
}

TEST_P(ValueTable, TimesZeroIsNotZero) {
  expect_same(jit::evaluate<float>(engine, "%0 = buffer 3 : dtype=f32 slot=0\n%1 = mul %0, 0.0\n",
                                   {bytes(std::vector<float>{kInf, kNaN, 2})}),
              {kNaN, kNaN, 0.0f});
}

TEST_P(ValueTable, AnyNonzeroByteIsTrue) {
  expect_same(jit::evaluate<int32_t>(engine, "%0 = buffer 4 : dtype=bool slot=0\n%1 = cast %0 : dtype=i32\n",
                                     {bytes(std::vector<uint8_t>{0, 1, 2, 255})}),
              {0, 1, 1, 1});
  expect_same(jit::evaluate<uint8_t>(engine, "%0 = buffer 4 : dtype=bool slot=0\n%1 = max %0, %0\n",
                                     {bytes(std::vector<uint8_t>{0, 1, 2, 255})}),
              {0, 1, 1, 1});
}

TEST_P(ValueTable, StrictFloatKeepsTheProgramsOrder) {
  Options o = make();
  o.strict_float = true;
  Engine strict(o);
  // ((x + big) - big) and x*y + z, rounded at every step.
  expect_same(jit::evaluate<float>(strict, "%0 = buffer 1 : dtype=f32 slot=0\n%1 = add %0, 1e8\n%2 = add %1, -1e8\n",
                                   {bytes(std::vector<float>{1})}),
              {0.0f});
  const float x = 1 + 0x1p-12f, z = -(1 + 0x1p-11f);
  volatile float product = x * x;
  const float want = product + z;
  expect_same(jit::evaluate<float>(strict,
                                   "%0 = buffer 1 : dtype=f32 slot=0\n%1 = buffer 1 : dtype=f32 slot=1\n"
                                   "%2 = mul %0, %0\n%3 = add %2, %1\n",
                                   {bytes(std::vector<float>{x}), bytes(std::vector<float>{z})}),
              {want});
}

INSTANTIATE_TEST_SUITE_P(Levels, ValueTable,
                         testing::Values(Setting{0, ""}, Setting{1, ""}, Setting{2, ""}, Setting{3, ""},
                                         Setting{0, "x86-64"}, Setting{2, "x86-64"}),
                         [](const auto& info) {
                           return std::string(info.param.cpu[0] ? "baseline" : "host") + "_O" +
                                  std::to_string(info.param.level);
                         });

}  // namespace
}  // namespace uopc
