#include "ir/bounds.hpp"

#include <gtest/gtest.h>

#include "expr_text.hpp"
#include "scalar_eval.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

constexpr int64_t kLowest = INT32_MIN, kHighest = INT32_MAX;

void check(const char* expr, int64_t lo, int64_t hi) {
  test::Exprs e;
  const UOp u = e(expr);
  EXPECT_EQ(vmin(u).as_int(), lo) << expr;
  EXPECT_EQ(vmax(u).as_int(), hi) << expr;
}

TEST(Bounds, OfEachOp) {
  check("7", 7, 7);
  check("x", kLowest, kHighest);
  check("r8", 0, 7);
  check("p", 0, 1);
  check("r8 + r4", 0, 10);
  check("r8 * -3", -21, 0);
  check("(r8 - 3) * (r4 - 5)", -20, 15);
  check("max(r8, 3)", 3, 7);
  check("r8 // 3", 0, 2);
  check("(r8 - 7) // 3", -3, 0);
  check("r8 % 3", 0, 2);
  check("(r2 + 10) % 8", 2, 3);
  check("r8 // r4", kLowest, kHighest);
  check("r8 % 0", kLowest, kHighest);
  check("x % 16", 0, 15);
  check("x // 16", -134217728, 134217727);
  check("where(p, r8, 10)", 0, 10);
  check("where(r4 < 9, r8, 10)", 0, 7);
  check("r4 < 3", 0, 1);
  check("r4 < 4", 1, 1);
  check("4 < r4", 0, 0);
  check("r4 != 4", 1, 1);
  check("5 != 5", 0, 0);
  check("i32(r4 < 2)", 0, 1);
  check("bool(r4 + 1)", 1, 1);
  check("bool(r1)", 0, 0);
  check("i32(f)", kLowest, kHighest);
}

TEST(Bounds, WhatMayLeaveI32IsAnything) {
  check("x + 1", kLowest, kHighest);
  check("r2 + 2147483647", kLowest, kHighest);
  check("r2 + 2147483646", 2147483646, 2147483647);
  check("r65537 * 65536", kLowest, kHighest);
  check("r32768 * 65536", 0, 32767 * 65536ll);
}

TEST(Bounds, LoopsThatNeverRun) {
  check("r0", 0, -1);
  check("r0 + 1", kLowest, kHighest);
  check("r0 < 1", 0, 1);
  check("where(p, r0, r4)", kLowest, kHighest);
}

TEST(Bounds, OfALoopWhoseEndIsAValue) {
  test::Exprs e;
  const UOp r = e.graph.range_(e("x % 10 + 1"), 5);
  EXPECT_EQ(vmin(r), Scalar(0));
  EXPECT_EQ(vmax(r), Scalar(9));
}

TEST(Bounds, HaveThePythonTypeOfTheirDtype) {
  test::Exprs e;
  EXPECT_EQ(vmin(e("p")), Scalar(false));
  EXPECT_EQ(vmax(e("f")), dtypes::max(DType::F32));
  EXPECT_EQ(vmin(e("2.5")), Scalar(2.5));
}

TEST(Bounds, ExactSumsAndProducts) {
  test::Exprs e;
  Bounds bounds;
  EXPECT_TRUE(bounds.exact(e("r8 * 4 + r4")));
  EXPECT_FALSE(bounds.exact(e("x * 4")));
  EXPECT_FALSE(bounds.exact(e("(x + 1) * 0 + r4")));  // the sum below may wrap, though the whole has bounds
  EXPECT_TRUE(bounds.exact(e("(x * 4) % 8 + r4")));   // what a division sees is its own affair
  EXPECT_FALSE(bounds.exact(e("r0 + 1")));
  EXPECT_EQ(bounds.terms(e("x + (y + z) * 2 + 1")), 3);
}

TEST(Bounds, HoldForRandomExpressions) {
  Graph graph;
  test::RandomExprs random(graph, 7);
  Bounds bounds;
  for (int i = 0; i < 4000; i++) {
    const UOp u = random.expr(random.below(4) ? DType::I32 : DType::Bool, 4);
    const Interval interval = bounds.of(u);
    ASSERT_EQ(vmin(u).as_int(), interval.lo);
    for (int k = 0; k < 10; k++) {
      const int64_t v = test::value_of(u, random.bindings()).as_int();
      ASSERT_LE(interval.lo, v);
      ASSERT_GE(interval.hi, v);
    }
  }
}

}  // namespace
}  // namespace uopc
