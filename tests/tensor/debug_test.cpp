// The lines of DEBUG (A.8), times masked.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "golden.hpp"
#include "uopc/tensor.hpp"

namespace uopc {
namespace {

TEST(Debug, SaysWhatTheAppendixPrints) {
  std::string text;
  for (int level = 1; level <= 3; level++) {
    text += "--- DEBUG=" + std::to_string(level) + "\n";
    Options o;
    o.opt = 0;
    o.debug = level;
    o.log = [&](std::string_view line) { text += std::string(line) + "\n"; };
    Context ctx(o);
    const std::vector<float> v = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    Tensor::from(ctx, std::span<const float>(v), {3, 4}).softmax(-1).realize();
  }
  text = std::regex_replace(text, std::regex("[0-9]+\\.[0-9]+ ms"), "T ms");
  text = std::regex_replace(text, std::regex(" {5}T ms"), " T ms");
  text = std::regex_replace(text, std::regex("[0-9]+\\.[0-9]+ GFLOP"), "T GFLOP");
  std::ifstream in(golden::directory() / "debug_levels.txt");
  std::ostringstream want;
  want << in.rdbuf();
  // Of the padding in front of a number only that there is some is compared.
  const auto squeezed = [](std::string s) { return std::regex_replace(s, std::regex(" +(T (ms|GFLOP))"), " $1"); };
  EXPECT_EQ(squeezed(text), squeezed(want.str()));
}

TEST(Debug, AThirdRunDoesNotChangeWhatIsWrittenInPlace) {
  Options o;
  o.debug = 3;
  o.log = [](std::string_view) {};
  Context ctx(o);
  Tensor x = Tensor::from(ctx, {1.f, 2.f});
  x.assign(x * 3).realize();
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{3, 6}));
}

TEST(Progress, IsToldAndMayStop) {
  Options o;
  int64_t calls = 0, allowed = 1;
  o.progress = [&](const CompileProgress& p) { return p.done == p.total || calls++ < allowed; };
  Context ctx(o);
  const Tensor y = Tensor::from(ctx, {1.f, 2.f, 3.f}).softmax(-1);
  try {
    y.realize();
    FAIL() << "was not stopped";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::Compile);
    EXPECT_STREQ(e.what(), "cancelled after 1 of 3 kernels");
  }
  EXPECT_FALSE(y.is_realized());
  allowed = 100;
  EXPECT_NEAR(y.to_vector<float>()[2], 0.66524, 1e-4);
  EXPECT_EQ(ctx.stats().kernels_compiled, 2) << "what was compiled before the stop was lost";
}

}  // namespace
}  // namespace uopc
