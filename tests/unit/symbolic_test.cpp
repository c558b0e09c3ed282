#include <gtest/gtest.h>

#include "expr_text.hpp"
#include "passes/symbolic.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

// The simplified text of an expression, and its bounds before and after.
void check(const char* expr, int64_t lo, int64_t hi, const char* text, int line) {
  SCOPED_TRACE("line " + std::to_string(line) + ": " + expr);
  test::Exprs e;
  const UOp u = e(expr), s = simplify(u);
  EXPECT_EQ(e.text(s), text);
  EXPECT_EQ(vmin(s).as_int(), lo);
  EXPECT_EQ(vmax(s).as_int(), hi);
  EXPECT_EQ(simplify(s), s);
}
#define CHECK_EXPR(...) check(__VA_ARGS__, __LINE__)

constexpr int64_t kLowest = INT32_MIN, kHighest = INT32_MAX;

void check_text(const char* expr, const char* text, int line) {
  SCOPED_TRACE("line " + std::to_string(line) + ": " + expr);
  test::Exprs e;
  const UOp s = simplify(e(expr));
  EXPECT_EQ(e.text(s), text);
  EXPECT_EQ(simplify(s), s);
}
#define CHECK_TEXT(...) check_text(__VA_ARGS__, __LINE__)

TEST(Simplify, FoldsConstants) {
  CHECK_EXPR("2 + 3 * 4", 14, 14, "14");
  CHECK_EXPR("-7 // 2", -4, -4, "-4");
  CHECK_EXPR("-7 % 2", 1, 1, "1");
  CHECK_EXPR("2147483647 + 1", kLowest, kLowest, "-2147483648");
  CHECK_EXPR("65536 * 65536", 0, 0, "0");
  CHECK_EXPR("i32(7.9)", 7, 7, "7");
  CHECK_TEXT("16777217.0 + 2.0", "16777218.0");
  CHECK_TEXT("exp2(3.0)", "8.0");
  CHECK_TEXT("recip(0.0)", "inf");
  CHECK_TEXT("recip(-0.0)", "-inf");
  CHECK_TEXT("log2(1e-40)", "-132.87713623046875");
  CHECK_TEXT("16777217.0 < 16777216.5", "false");
  CHECK_TEXT("f32(f32(f))", "f");
  CHECK_TEXT("f16(f32(f16(f)))", "f16(f32(f16(f)))");
}

TEST(Simplify, FoldsToTheRunTimeValue) {
  CHECK_TEXT("max(nan, 1.0)", "1.0");
  CHECK_TEXT("max(1.0, nan)", "nan");
  CHECK_TEXT("max(0.0, -0.0)", "-0.0");
  CHECK_TEXT("exp2(nan)", "nan");
  CHECK_TEXT("i32(16777217.0)", "16777216");
  CHECK_TEXT("i32(3e9)", "2147483647");
  CHECK_TEXT("bool(1e-46)", "false");
}

TEST(Simplify, LeavesWhatTheAppendixDoesNotFold) {
  CHECK_EXPR("5 // 0", kLowest, kHighest, "(5//0)");
  CHECK_EXPR("5 % 0", kLowest, kHighest, "(5%0)");
  CHECK_EXPR("x // 0", kLowest, kHighest, "(x//0)");
  CHECK_EXPR("x % 0", kLowest, kHighest, "(x%0)");
  CHECK_EXPR("-2147483648 // -1", kLowest, kHighest, "(-2147483648//-1)");
  CHECK_EXPR("-2147483648 % -1", 0, 0, "0");
  CHECK_TEXT("i32(inf)", "i32(inf)");
  CHECK_TEXT("i32(nan)", "i32(nan)");
  CHECK_TEXT("f + 0.0", "(f+0.0)");
  CHECK_TEXT("f * 0.0", "(f*0.0)");
  CHECK_TEXT("(f + 1.0) + 2.0", "((f+1.0)+2.0)");
  CHECK_TEXT("(f + g) * 2.0", "((f+g)*2.0)");
  CHECK_TEXT("x + x", "(x+x)");
  CHECK_TEXT("r8 // 4 < 1", "((r8//4)<1)");
  CHECK_TEXT("f16(1.0) + f16(2.0)", "(f16(1.0)+f16(2.0))");
}

TEST(Simplify, ValuesThatBoundsDecide) {
  CHECK_EXPR("r2 < 2", 1, 1, "true");
  CHECK_EXPR("r2 < 0", 0, 0, "false");
  CHECK_EXPR("r2 < 1", 0, 1, "(r2<1)");
  CHECK_EXPR("r2 + 4 != 1", 1, 1, "true");
  CHECK_EXPR("r1 + 5", 5, 5, "5");
  CHECK_EXPR("where(r2 < 2, x, y)", kLowest, kHighest, "x");
  CHECK_EXPR("where(p, x, x)", kLowest, kHighest, "x");
  CHECK_EXPR("where(p, r4, r8)", 0, 7, "where(p, r4, r8)");
  CHECK_EXPR("bool(r4 + 1)", 1, 1, "true");
  CHECK_TEXT("r0 * 3 < 5", "((r0*3)<5)");
}

TEST(Simplify, ConstantsToTheRight) {
  CHECK_EXPR("3 + x", kLowest, kHighest, "(x+3)");
  CHECK_EXPR("3 * r4", 0, 9, "(r4*3)");
  CHECK_EXPR("max(3, r8)", 3, 7, "max(r8, 3)");
  CHECK_EXPR("3 != x", 0, 1, "(x!=3)");
  CHECK_EXPR("3 < r8", 0, 1, "(3<r8)");
  CHECK_TEXT("1.5 + f", "(f+1.5)");
  CHECK_EXPR("x * 1", kLowest, kHighest, "x");
  CHECK_EXPR("x + 0", kLowest, kHighest, "x");
  CHECK_EXPR("x * 0", 0, 0, "0");
  CHECK_TEXT("f * 1.0", "f");
}

TEST(Simplify, SumsAndProductsWrap) {
  CHECK_EXPR("(x + 2147483647) + 1", kLowest, kHighest, "(x+-2147483648)");
  CHECK_EXPR("(x * 65536) * 65536", 0, 0, "0");
  CHECK_EXPR("(x + 1) + y", kLowest, kHighest, "((x+y)+1)");
  CHECK_EXPR("y + (x + 1)", kLowest, kHighest, "((x+y)+1)");
  CHECK_EXPR("(x + 1) + (y + 2)", kLowest, kHighest, "((y+x)+3)");
  CHECK_EXPR("(x + y) * 3", kLowest, kHighest, "((x*3)+(y*3))");
  CHECK_EXPR("(r2 * 2 + 1) * 16", 16, 48, "((r2*32)+16)");
}

TEST(Simplify, DivisionByAConstant) {
  CHECK_EXPR("r4 // 4", 0, 0, "0");
  CHECK_EXPR("r4 % 4", 0, 3, "r4");
  CHECK_EXPR("x // 1", kLowest, kHighest, "x");
  CHECK_EXPR("x % 1", 0, 0, "0");
  CHECK_EXPR("(r4*3 + r3) // 3", 0, 3, "r4");
  CHECK_EXPR("(r4*3 + r3) % 3", 0, 2, "r3");
  CHECK_EXPR("(r4*12 + r5*4 + r3) // 4", 0, 13, "((r4*3)+r5)");
  CHECK_EXPR("(r8*16 + r5 + 17) % 16", 1, 5, "(r5+1)");
  CHECK_EXPR("(r8 - 1) % 16", 0, 15, "((r8+15)%16)");
  CHECK_EXPR("(r8 - 1) // 16", -1, 0, "(((r8+15)//16)+-1)");
  CHECK_EXPR("(x // 3) // 4", -178956971, 178956970, "(x//12)");
  CHECK_EXPR("(x // 65536) // 65536", -1, 0, "((x//65536)//65536)");
  CHECK_EXPR("(r100 % 12) // 4", 0, 2, "((r100//4)%3)");
  CHECK_EXPR("(r100 % 12) % 4", 0, 3, "(r100%4)");
  CHECK_EXPR("(r8*4 + r4) // 8", 0, 3, "(r8//2)");
  CHECK_EXPR("(r8*4 + 1) // 8", 0, 3, "(r8//2)");
  CHECK_EXPR("(r9*12 + r3*4 + r4) // 24", 0, 4, "(r9//2)");
  CHECK_EXPR("(r8*4 + r5) // 8", 0, 4, "(((r8*4)+r5)//8)");
}

TEST(Simplify, FlatIndexTakenApartAndPutTogether) {
  CHECK_EXPR("(r24 // 4) * 4 + r24 % 4", 0, 23, "r24");
  CHECK_EXPR("(r24 // 12) * 12 + ((r24 // 4) % 3) * 4 + r24 % 4", 0, 23, "r24");
  CHECK_EXPR("(r24 // 12) * 24 + ((r24 // 4) % 3) * 8 + (r24 % 4) * 2 + 1", 1, 47, "((r24*2)+1)");
  CHECK_EXPR("(x // 4) * 4 + x % 4", kLowest, kHighest, "x");
  CHECK_EXPR("(x // 4) * 4 + y + x % 4", kLowest, kHighest, "(x+y)");
}

TEST(Simplify, ZerosOfBothSignsInOneGraph) {
  for (const bool negative_first : {false, true}) {
    test::Exprs e;
    if (negative_first) e("-0.0");
    EXPECT_EQ(e.text(simplify(e("recip(0.0) + f"))), "(f+inf)");
    EXPECT_EQ(e.text(simplify(e("recip(-0.0) + f"))), "(f+-inf)");
  }
}

// Data may be anything: what holds for integers need not hold where i32 wraps.
TEST(Simplify, LeavesDataThatMayWrap) {
  CHECK_EXPR("(x * 4) // 4", -536870912, 536870911, "((x*4)//4)");
  CHECK_EXPR("(x*48 + 241) // 16", -134217728, 134217727, "(((x*48)+241)//16)");
  CHECK_EXPR("(x*10 + 5) // 10", -214748365, 214748364, "(((x*10)+5)//10)");
  CHECK_EXPR("(x + 16) % 16", 0, 15, "((x+16)%16)");
  CHECK_EXPR("((r10 - 10)*48 + 241) // 16", -15, 12, "((r10*3)+-15)");
}

}  // namespace
}  // namespace uopc
