// EXP2, LOG2 and SIN against double libm over the whole range of f32: all exponents, both signs, subnormals, specials.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "jit/jit_util.hpp"

namespace uopc {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Distance of `got` from the exact `want` in units of the last place of the f32 nearest to it.
double ulp_error(float got, double want) {
  const float nearest = static_cast<float>(want);
  if (got == nearest) return 0.5;  // at most
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : kInf;
  if (std::isinf(nearest) || std::isinf(got)) {
    // Just below the overflow threshold either is within an ulp.
    const double max = std::numeric_limits<float>::max();
    return std::abs(std::abs(want) - max) <= std::ldexp(1.0, 104) && std::signbit(got) == std::signbit(nearest) ? 1
                                                                                                                : kInf;
  }
  int e;
  std::frexp(want, &e);
  const double ulp = std::ldexp(1.0, std::max(e - 24, -149));
  return std::abs(static_cast<double>(got) - want) / ulp;
}

struct Function {
  const char* op;
  double bound;
  std::function<double(double)> exact;
};

const Function kFunctions[] = {
    {"exp2", 1.0, [](double x) { return std::exp2(x); }},
    {"log2", 1.5, [](double x) { return x < 0 ? std::numeric_limits<double>::quiet_NaN() : std::log2(x); }},
    {"sin", 2.0, [](double x) { return std::isinf(x) ? std::numeric_limits<double>::quiet_NaN() : std::sin(x); }},
};

constexpr int kSamples = 1 << 18;

// Equally many of every exponent, then the range where the function has its shape, then values near multiples of pi/2.
std::vector<float> samples() {
  std::mt19937 random(1);
  std::vector<float> x = {0.0f, -0.0f, 1.0f, -1.0f, kInf, -kInf, kNaN, 1e-45f, -1e-45f, 0x1p-126f, 0x1.fffffep127f};
  while (x.size() < kSamples / 2) {
    const uint32_t exponent = static_cast<uint32_t>(x.size()) % 255;
    x.push_back(std::bit_cast<float>((static_cast<uint32_t>(random()) & 0x807FFFFFu) | exponent << 23));
  }
  std::uniform_real_distribution<float> narrow(-150.0f, 130.0f), unit(0.5f, 2.0f);
  while (x.size() < kSamples * 3 / 4) x.push_back(x.size() % 2 ? narrow(random) : unit(random));
  while (x.size() < kSamples)
    x.push_back(static_cast<float>((random() % (x.size() % 2 ? 100u : 100000u)) * 1.5707963267948966));
  return x;
}

struct Setting {
  int level;
  const char* cpu;
};

class Math : public testing::TestWithParam<Setting> {};

TEST_P(Math, StaysWithinItsBound) {
  Options o = jit::options(GetParam().level);
  o.cpu = GetParam().cpu;
  Engine engine(o);
  const std::vector<float> x = samples();
  for (const auto& f : kFunctions) {
    const std::string text = "%0 = buffer " + std::to_string(x.size()) + " : dtype=f32 slot=0\n%1 = " + f.op + " %0\n";
    std::vector<float> y;
    try {
      y = jit::evaluate<float>(engine, text, {jit::bytes(x)});
    } catch (const Error& e) {
      if (std::string(e.what()).find("cannot run on this machine") != std::string::npos) GTEST_SKIP() << e.what();
      throw;
    }
    double worst = 0;
    float at = 0;
    for (size_t i = 0; i < x.size(); i++) {
      const double error = ulp_error(y[i], f.exact(x[i]));
      if (error > worst) worst = error, at = x[i];
    }
    EXPECT_LE(worst, f.bound) << f.op << " of " << at;
    RecordProperty(std::string(f.op) + "_ulp", std::to_string(worst));
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Math,
                         testing::Values(Setting{0, ""}, Setting{1, ""}, Setting{2, ""}, Setting{3, ""},
                                         Setting{0, "x86-64"}, Setting{2, "x86-64"}, Setting{2, "x86-64-v3"},
                                         Setting{2, "x86-64-v4"}),
                         [](const auto& info) {
                           std::string name = std::string(info.param.cpu[0] ? info.param.cpu : "host") + "_O" +
                                              std::to_string(info.param.level);
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

// The same lanes whether a loop was vectorized or not: the functions have one meaning per argument.
TEST(MathForms, VectorizedLoopsGiveWhatScalarOnesGive) {
  Engine scalar(jit::options(0)), vectorized(jit::options(2));
  const std::vector<float> x = samples();
  for (const auto& f : kFunctions) {
    const std::string text = "%0 = buffer " + std::to_string(x.size()) + " : dtype=f32 slot=0\n%1 = " + f.op + " %0\n";
    const auto a = jit::evaluate<float>(scalar, text, {jit::bytes(x)});
    const auto b = jit::evaluate<float>(vectorized, text, {jit::bytes(x)});
    for (size_t i = 0; i < x.size(); i++)
      ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << f.op << " of " << x[i];
  }
}

TEST(MathForms, SpecialsAreExact) {
  Engine engine;
  const auto of = [&](const char* op, std::vector<float> x) {
    const std::string text = "%0 = buffer " + std::to_string(x.size()) + " : dtype=f32 slot=0\n%1 = " + op + " %0\n";
    return jit::evaluate<float>(engine, text, {jit::bytes(x)});
  };
  const auto expect = [](float got, float want) {
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got));
    } else {
      EXPECT_EQ(got, want);
      EXPECT_EQ(std::signbit(got), std::signbit(want));
    }
  };
  const auto e = of("exp2", {0.0f, -0.0f, 3.0f, -149.0f, -151.0f, 127.0f, 128.0f, kInf, -kInf, kNaN, -126.0f});
  const float e_want[] = {1, 1, 8, 0x1p-149f, 0, 0x1p127f, kInf, kInf, 0, kNaN, 0x1p-126f};
  for (size_t i = 0; i < e.size(); i++) expect(e[i], e_want[i]);
  const auto l = of("log2", {1.0f, 0.5f, 0x1p-149f, 0x1p127f, 0.0f, -0.0f, -1.0f, kInf, -kInf, kNaN});
  const float l_want[] = {0, -1, -149, 127, -kInf, -kInf, kNaN, kInf, kNaN, kNaN};
  for (size_t i = 0; i < l.size(); i++) expect(l[i], l_want[i]);
  const auto s = of("sin", {0.0f, -0.0f, kInf, -kInf, kNaN, 0x1p-149f, -0x1p-126f});
  const float s_want[] = {0.0f, -0.0f, kNaN, kNaN, kNaN, 0x1p-149f, -0x1p-126f};
  for (size_t i = 0; i < s.size(); i++) expect(s[i], s_want[i]);
}

// Every float there is.
TEST(MathForms, LongEveryFloat) {
  Engine engine;
  constexpr uint32_t kBlock = 1u << 22;
  for (const auto& f : kFunctions) {
    const std::string text = "%0 = buffer " + std::to_string(kBlock) + " : dtype=f32 slot=0\n%1 = " + f.op + " %0\n";
    const Kernel kernel = jit::compile(engine, text);
    std::vector<float> x(kBlock), y(kBlock);
    double worst = 0;
    float at = 0;
    for (uint64_t first = 0; first < uint64_t{1} << 32; first += kBlock) {
      for (uint32_t i = 0; i < kBlock; i++) x[i] = std::bit_cast<float>(static_cast<uint32_t>(first + i));
      kernel({x, y});
      for (uint32_t i = 0; i < kBlock; i++) {
        const double error = ulp_error(y[i], f.exact(x[i]));
        if (error > worst) worst = error, at = x[i];
      }
    }
    EXPECT_LE(worst, f.bound) << f.op << " of " << at;
    RecordProperty(std::string(f.op) + "_ulp", std::to_string(worst));
  }
}

}  // namespace
}  // namespace uopc
