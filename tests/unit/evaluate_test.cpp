#include <gtest/gtest.h>

#include "golden.hpp"
#include "passes/symbolic.hpp"
#include "uopc/passes.hpp"
#include "uopc/uir.hpp"

namespace uopc {
namespace {

std::string value_text(std::string_view uir) {
  Graph g;
  const auto v = to_python(evaluate(parse(g, uir)));
  return v ? to_string(*v) : "not a literal";
}

class GoldenEval : public testing::TestWithParam<std::string> {};
TEST_P(GoldenEval, IsALiteralAfterRewriting) {
  const auto c = golden::read(GetParam());
  EXPECT_EQ(value_text(c.at("uir")) + "\n", c.at("eval"));
}
INSTANTIATE_TEST_SUITE_P(Files, GoldenEval, testing::ValuesIn(golden::cases_with("eval")),
                         [](const auto& info) { return info.param; });

TEST(Evaluate, AluGoesThroughStacks) {
  EXPECT_EQ(value_text("%0 = stack 1, 2, 3\n%1 = stack %0, %0\n%2 = mul %1, %1\n%3 = add %2, 1"),
            "[[2, 5, 10], [2, 5, 10]]");
  EXPECT_EQ(value_text("%0 = stack 1, 2\n%1 = cmplt %0, 2\n%2 = where %1, 1.5, -1.0"), "[1.5, -1.0]");
  EXPECT_EQ(value_text("%0 = stack 1.75, -2.5\n%1 = cast %0 : dtype=i32"), "[1, -2]");
  EXPECT_EQ(value_text("%0 = stack 0.0, -0.0\n%1 = recip %0"), "[inf, -inf]");
  EXPECT_EQ(value_text("%0 = stack true, false\n%1 = cmpne %0, true"), "[False, True]");
}

TEST(Evaluate, IndexOfStacks) {
  const std::string rows = "%0 = stack 1, 2, 3\n%1 = mul %0, 10\n%2 = stack %0, %1\n";
  EXPECT_EQ(value_text(rows + "%3 = index %2, 1"), "[10, 20, 30]");
  EXPECT_EQ(value_text(rows + "%3 = index %2, 1, 2"), "30");
  EXPECT_EQ(value_text(rows + "%3 = index %2, 1\n%4 = index %3, 0"), "10");
  EXPECT_EQ(value_text(rows + "%3 = index %2, 1, 0\n%4 = floormod %3, 3\n%5 = index %0, %4"), "2");
  EXPECT_EQ(value_text(rows + "%3 = index %2"), "[[1, 2, 3], [10, 20, 30]]");
  EXPECT_EQ(value_text(rows + "%3 = index %2, 2"), "not a literal");
  EXPECT_EQ(value_text(rows + "%3 = index %2, -1"), "not a literal");
}

TEST(Evaluate, MovementOfLiterals) {
  const std::string six = "%0 = stack 1, 2, 3, 4, 5, 6\n%1 = reshape %0, (2, 3)\n";
  EXPECT_EQ(value_text(six), "[[1, 2, 3], [4, 5, 6]]");
  EXPECT_EQ(value_text(six + "%2 = permute %1, (1, 0)"), "[[1, 4], [2, 5], [3, 6]]");
  EXPECT_EQ(value_text(six + "%2 = shrink %1, ((1, 2), (1, 3))"), "[[5, 6]]");
  EXPECT_EQ(value_text(six + "%2 = reshape %1, (1, 3, 2)\n%3 = expand %2, (2, 3, 2)\n%4 = index %3, 1"),
            "[[1, 2], [3, 4], [5, 6]]");
  EXPECT_EQ(value_text(six + "%2 = reshape %1, (2, 1, 3)\n%3 = permute %2, (2, 0, 1)\n%4 = reshape %3, (6,)"),
            "[1, 4, 2, 5, 3, 6]");
  EXPECT_EQ(value_text("%0 = const 2.5\n%1 = reshape %0, (1, 1)\n%2 = expand %1, (2, 3)"),
            "[[2.5, 2.5, 2.5], [2.5, 2.5, 2.5]]");
}

TEST(Evaluate, CallsInsideCallsHaveParamsOfTheirOwn) {
  Graph g;
  const UOp p0 = g.param(0, DType::I32), p1 = g.param(1, DType::I32);
  const UOp square_args[] = {p1};
  const UOp square = g.call(p0 * p0, square_args, "square");  // of the outer p1
  const UOp args[] = {g.constant(7), g.constant(3)};
  const UOp call = g.call(p0 + square, args);
  EXPECT_EQ(to_string(*to_python(evaluate(call))), "16");
  const UOp inlined = inline_call(call);
  ASSERT_TRUE(inlined.is(Op::Add));
  EXPECT_EQ(inlined.src(1).src(0), square.src(0));
  EXPECT_EQ(inlined.src(1).src(1), g.constant(3));
  EXPECT_THROW(inline_call(p0), Error);
}

TEST(Evaluate, ResultsAreWrittenAsPythonDoes) {
  EXPECT_EQ(value_text("%0 = const 1e-05"), "1e-05");
  EXPECT_EQ(value_text("%0 = stack nan, inf\n%1 = mul %0, -1"), "[nan, -inf]");
  EXPECT_EQ(value_text("%0 = const 0.1 : dtype=f16"), "0.0999755859375");
  EXPECT_EQ(value_text("%0 = stack 1\n%1 = reshape %0, (1, 1)\n%2 = cmplt %1, 2"), "[[True]]");
}

TEST(Evaluate, WhatIsTooBigStaysAProgram) {
  EXPECT_EQ(value_text("%0 = const 1\n%1 = reshape %0, (1, 1)\n%2 = expand %1, (65536, 65536)"), "not a literal");
  EXPECT_EQ(value_text("%0 = const 1\n%1 = reshape %0, (1,)\n%2 = expand %1, (0,)"), "not a literal");
  Graph g;
  UOp u = g.constant(1);
  const auto doubled = [&](UOp v) {
    const UOp parts[] = {v, v};
    return g.stack(parts);
  };
  for (int i = 0; i < 40; i++) u = doubled(u);
  EXPECT_TRUE(evaluate(u + u).is(Op::Add));
  EXPECT_THROW(to_python(u), Error);
  std::vector<UOp> zeros(40, g.constant(0));
  EXPECT_EQ(evaluate(u.index(zeros)), g.constant(1));
  for (int i = 0; i < 40; i++) u = doubled(u);
  EXPECT_THROW(to_python(u), Error);
  // A long chain over many elements is left to a program.
  std::vector<UOp> row;
  for (int i = 0; i < 1000; i++) row.push_back(g.constant(i));
  UOp chain = g.stack(row);
  for (int i = 0; i < 10'000; i++) chain = chain * chain + chain;
  EXPECT_TRUE(evaluate(chain).is(Op::Add));
}

}  // namespace
}  // namespace uopc
