// The sections `uir`, `canonical` and `type` of every golden case, and the exact messages of A.3 and A.5.
#include "golden.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "ir/py_text.hpp"
#include "uopc/uir.hpp"

namespace uopc {
namespace {

class GoldenUir : public testing::TestWithParam<std::string> {};
class GoldenType : public testing::TestWithParam<std::string> {};

TEST_P(GoldenUir, RoundTrip) {
  const auto c = golden::read(GetParam());
  Graph g;
  const UOp u = parse(g, c.at("uir"));
  const std::string text = to_uir(u);
  EXPECT_EQ(parse(g, text), u) << text;
  Graph other;
  EXPECT_EQ(to_uir(parse(other, text)), text);
  // A.4's examples are printed by the reference itself; the GEMM of A.5 is not.
  const bool printed = c.has("type") && c.name != "gemm_movement";
  if (c.has("canonical") || printed) {
    EXPECT_EQ(text, c.at(printed ? "uir" : "canonical"));
  }
}

TEST_P(GoldenType, Inferred) {
  const auto c = golden::read(GetParam());
  Graph g;
  const UOp u = parse(g, c.at("uir"));
  EXPECT_EQ(fmt::format("dtype={} shape={} addrspace={}\n", name(u.dtype()), py_tuple(u.shape()), name(u.addrspace())),
            c.at("type"));
}

const auto file_name = [](const auto& info) { return info.param; };
INSTANTIATE_TEST_SUITE_P(Files, GoldenUir, testing::ValuesIn(golden::cases_with("uir")), file_name);
INSTANTIATE_TEST_SUITE_P(Files, GoldenType, testing::ValuesIn(golden::cases_with("type")), file_name);

TEST(GoldenFiles, AreAllThere) {
  EXPECT_EQ(golden::cases_with("uir").size(), 34u);
  EXPECT_EQ(golden::cases_with("type").size(), 30u);
  EXPECT_EQ(golden::cases_with("lower_c").size(), 21u);
}

std::string parse_failure(std::string_view text) {
  Graph g;
  try {
    parse(g, text);
  } catch (const Error& e) {
    return fmt::format("{}: {}", error_name(e.code()), e.what());
  }
  return "no error";
}

TEST(GoldenErrors, Parse) {
  const std::vector<std::string> programs = {
      "%0 = buffer 4 : dtype=f32 slot=0\n%1 = add %0, %2",
      "%0 = buffer 4 : dtype=f32 slot=0\n%1 = frob %0",
      "%0 = buffer 2 : dtype=f32 slot=0\n%1 = buffer 3 : dtype=f32 slot=1\n%2 = add %0, %1",
      "%0 = buffer 4 : dtype=f64 slot=0",
      "%0 = buffer 4 : dtype=i32 slot=0\n%1 = exp2 %0",
  };
  std::vector<std::string> messages;
  for (const auto& p : programs) messages.push_back(parse_failure(p));
  EXPECT_EQ(messages, golden::lines("errors_parse.txt"));
}

// The scratch script of A.3, case by case.
TEST(GoldenErrors, Infer) {
  Graph g;
  const auto buffer = [&](int64_t n) { return g.buffer(n, DType::F32, 0); };
  const auto b23 = buffer(6).reshape({2, 3});
  const auto param = [&](int64_t slot) { return g.param(slot, DType::I32); };
  const auto c = [&](Scalar v) { return g.constant(v); };
  const std::vector<std::pair<std::string, std::function<void()>>> cases = {
      {"add i32 + f32", [&] { c(1) + c(1.0); }},
      {"shape mismatch",
       [&] {
         buffer(4).reshape({2, 2}) + buffer(4);
       }},
      {"floordiv float",
       [&] {
         g.make(Op::FloorDiv, {c(1.0), c(2.0)});
       }},
      {"exp2 of int", [&] { g.make(Op::Exp2, {c(3)}); }},
      {"where non-bool",
       [&] {
         g.make(Op::Where, {c(1), c(1), c(2)});
       }},
      {"stack mixed",
       [&] {
         g.make(Op::Stack, {c(1), c(2.0)});
       }},
      {"index float", [&] { buffer(4).index(c(1.0)); }},
      {"too many idx",
       [&] {
         buffer(4).index({c(0), c(0)});
       }},
      {"load of value", [&] { c(1.0).load(); }},
      {"store dtype", [&] { buffer(4).index(0).store(c(1)); }},
      {"reshape count", [&] { buffer(6).reshape({4}); }},
      {"expand non-1",
       [&] {
         b23.expand({4, 3});
       }},
      {"permute bad",
       [&] {
         b23.permute({0, 0});
       }},
      {"shrink oob",
       [&] {
         b23.shrink({{0, 3}, {0, 3}});
       }},
      {"reduce mul", [&] { buffer(6).reduce(Op::Mul, 1); }},
      {"buffer 2d",
       [&] {
         g.make(Op::Buffer, {}, ParamArg{0, DType::F32, {2, 3}, {}});
       }},
      {"range f32 end", [&] { g.make(Op::Range, {c(4.0)}); }},
      {"call slots", [&] { g.call(param(0) + param(1), std::vector{c(1)}); }},
      {"call arg type", [&] { g.call(param(0) * param(0), std::vector{c(1.0)}); }},
  };
  std::vector<std::string> messages;
  for (const auto& [name, build] : cases) {
    try {
      build();
      messages.push_back(name + " has no error");
    } catch (const Error& e) {
      messages.push_back(fmt::format("{:16s} {}: {}", name, error_name(e.code()), e.what()));
    }
  }
  EXPECT_EQ(messages, golden::lines("errors_infer.txt"));
}

}  // namespace
}  // namespace uopc
