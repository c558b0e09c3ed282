// The lines of DEBUG (A.8), but for the digits of its times.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "golden.hpp"
#include "uopc/passes.hpp"
#include "uopc/tensor.hpp"
#include "uopc/uir.hpp"

namespace uopc {
namespace {

// Times become 0 in the columns they stand in; only where a number is not padded may its length vary.
std::string mask(const std::string& text) {
  const std::regex kernel("  .{30} [ 0-9]{4}[.][0-9]{3} ms [ 0-9]{5}[.][0-9]{2} GFLOP/s(  [(]again: )?.*"),
      again("again: [0-9]+[.][0-9]{3} ms"), realize("(schedule|run) [0-9]+[.][0-9] ms");
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line); out += line + "\n") {
    if (line.starts_with("realize: ")) line = std::regex_replace(line, realize, "$1 0.0 ms");
    if (!std::regex_match(line, kernel)) continue;
    line.replace(33, 28, "   0.000 ms     0.00 GFLOP/s");
    line = std::regex_replace(line, again, "again: 0.000 ms");
  }
  return out;
}

// A matrix as NumPy prints it, rounded to 3 places.
std::string numpy_text(const Tensor& t) {
  const std::vector<float> v = t.to_vector<float>();
  const auto columns = static_cast<size_t>(t.shape()[1]);
  std::string text = "[";
  for (size_t i = 0; i < v.size(); i++) {
    text += i % columns == 0 ? (i == 0 ? "[" : " [") : " ";
    text += fmt::format("{:.3f}", v[i]);
    if (i % columns == columns - 1) text += i + 1 == v.size() ? "]]\n" : "]\n";
  }
  return text;
}

struct Printed {
  std::string lines, values;
};

Printed softmax_at(int level) {
  Printed p;
  Options o;
  o.opt = 0;
  o.debug = level;
  o.log = [&](std::string_view line) { p.lines += std::string(line) + "\n"; };
  Context ctx(o);
  const std::vector<float> v = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  p.values = numpy_text(Tensor::from(ctx, std::span<const float>(v), {3, 4}).softmax(-1).realize());
  return p;
}

std::string golden_text() {
  std::ifstream in(golden::directory() / "debug_levels.txt");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Debug, SaysWhatTheAppendixPrints) {
  std::string text;
  for (int level = 1; level <= 3; level++) {
    const Printed p = softmax_at(level);
    text += fmt::format("--- DEBUG={}\n", level) + p.lines + p.values;
  }
  // The appendix leaves out the prelude in front of each kernel, and the lines that are those of level 3.
  std::string source = softmax_at(4).lines;
  Graph g;
  const UOp program = as_program(parse(g, "%0 = buffer 4 : dtype=f32 slot=0"));
  const std::string whole = render_c(program), prelude = whole.substr(0, whole.size() - render_c_body(program).size());
  EXPECT_EQ(std::ranges::count(prelude, '\n'), 4);
  int preludes = 0;
  for (size_t at; (at = source.find(prelude)) != source.npos; preludes++) source.replace(at, prelude.size(), "...\n");
  EXPECT_EQ(preludes, 3);
  const size_t timing = source.find("\n  r_3  ");
  ASSERT_NE(timing, source.npos) << source;
  std::string level3 = golden_text();
  level3 = level3.substr(level3.find("--- DEBUG=3\n") + 12);
  level3 = level3.substr(0, level3.find("[["));
  EXPECT_EQ(mask(source.substr(timing + 1)), mask(level3));
  text += "--- DEBUG=4 OPT=0\n" + source.substr(0, timing + 1) + "...\n";
  EXPECT_EQ(mask(text), mask(golden_text()));
}

TEST(Debug, TheMaskKeepsColumns) {
  const std::string line = "  e_3_4                             0.033 ms     0.00 GFLOP/s";
  EXPECT_EQ(mask(line), "  e_3_4                             0.000 ms     0.00 GFLOP/s\n");
  EXPECT_EQ(mask("  e_3_4                           112.033 ms    71.50 GFLOP/s"), mask(line));
  EXPECT_NE(mask("  e_3_4                            0.033 ms     0.00 GFLOP/s"), mask(line));
  EXPECT_NE(mask("  e_3_4                             0.033 ms    0.00 GFLOP/s"), mask(line));
  EXPECT_NE(mask("realize:  3 kernels, schedule 1.0 ms, run 0.3 ms"),
            mask("realize: 3 kernels, schedule 1.0 ms, run 0.3 ms"));
  EXPECT_NE(mask("realize: 3 kernels, schedule 1.00 ms, run 0.3 ms"),
            mask("realize: 3 kernels, schedule 1.0 ms, run 0.3 ms"));
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
