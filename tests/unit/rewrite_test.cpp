#include "ir/rewrite.hpp"

#include <gtest/gtest.h>

#include "expr_text.hpp"

namespace uopc {
namespace {

const UPat x = var('x'), y = var('y'), z = var('z'), c = integer('c'), d = integer('d');

std::string rewritten(const PatternMatcher& rules, const char* expr) {
  test::Exprs e;
  return e.text(graph_rewrite(e(expr), rules));
}

std::string failure(const PatternMatcher& rules, const char* expr, RewriteOptions options = {}) {
  test::Exprs e;
  try {
    graph_rewrite(e(expr), rules, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Internal);
    return error.what();
  }
  return "no error";
}

TEST(Pattern, ALetterIsTheSameThingEverywhere) {
  const PatternMatcher rules({{"test", {{"double", x + x, x * 2}}}});
  EXPECT_EQ(rewritten(rules, "x + x"), "(x*2)");
  EXPECT_EQ(rewritten(rules, "x + y"), "(x+y)");
}

TEST(Pattern, LiteralsAreOfOneType) {
  const PatternMatcher rules({{"test", {{"one", x * 1, x}}}});
  EXPECT_EQ(rewritten(rules, "x * 1"), "x");
  EXPECT_EQ(rewritten(rules, "f * 1.0"), "(f*1.0)");
  EXPECT_EQ(rewritten(rules, "p * true"), "(p*true)");
}

TEST(Pattern, EitherOrderTriesTheWrittenOneFirst) {
  const PatternMatcher rules({{"test", {{"out", either_order((x % c) + y), max(x, y)}}}});
  EXPECT_EQ(rewritten(rules, "x % 3 + y"), "max(x, y)");
  EXPECT_EQ(rewritten(rules, "y + x % 3"), "max(x, y)");
  EXPECT_EQ(rewritten(rules, "x % 3 + y % 4"), "max(x, (y%4))");
  const PatternMatcher nested({{"test", {{"deep", either_order(x + either_order(y * 2)) % c, y}}}});
  for (const char* expr : {"(x + y*2) % 5", "(x + 2*y) % 5", "(y*2 + x) % 5", "(2*y + x) % 5"})
    EXPECT_EQ(rewritten(nested, expr), "y") << expr;
}

TEST(Pattern, ConditionsSeeBoundsAndExactConstants) {
  const PatternMatcher rules({{"test",
                               {{"merge", (x / c) / d, x / (c * d), 0 < c && 0 < d && fits(c * d)},
                                {"small", x % c, x, 0 <= vmin(x) && vmax(x) < c}}}});
  EXPECT_EQ(rewritten(rules, "x // 3 // 4"), "(x//12)");
  EXPECT_EQ(rewritten(rules, "x // 65536 // 65536"), "((x//65536)//65536)");
  EXPECT_EQ(rewritten(rules, "x // -3 // 4"), "((x//-3)//4)");
  EXPECT_EQ(rewritten(rules, "r4 % 4"), "r4");
  EXPECT_EQ(rewritten(rules, "r5 % 4"), "(r5%4)");
}

TEST(Pattern, PrintsAsItIsWritten) {
  EXPECT_EQ(to_string(Rule("small", x % c, x, 0 <= vmin(x) && vmax(x) < c)),
            "small: (x % c) -> x when ((0 <= vmin(x)) && (vmax(x) < c))");
  EXPECT_EQ(to_string(where(true, max(x, y), x / 2)), "WHERE(true, MAX(x, y), (x // 2))");
}

TEST(Rewrite, BottomUpAndAgainOnResults) {
  const PatternMatcher rules({{"test", {{"step", x % 3, x % 2}, {"end", x % 2, x}}}});
  EXPECT_EQ(rewritten(rules, "(x % 3) + (y % 3) % 3"), "(x+y)");
}

TEST(Rewrite, TheFirstRuleWins) {
  const PatternMatcher first({{"a", {{"one", x + y, x}}}, {"b", {{"two", x + y, y}}}});
  EXPECT_EQ(rewritten(first, "x + y"), "x");
  const PatternMatcher sum = PatternMatcher({{"b", {{"two", x + y, y}}}}) + first;
  EXPECT_EQ(rewritten(sum, "x + y"), "y");
  ASSERT_EQ(sum.rules().size(), 3u);
  EXPECT_EQ(sum.rules()[1].group, "a");
}

TEST(Rewrite, CountsWhatFired) {
  const PatternMatcher rules({{"test", {{"one", x * 1, x}, {"zero", x + 0, x}}}});
  test::Exprs e;
  std::vector<int64_t> fired;
  graph_rewrite(e("(x*1) + ((y + 0) + (x*1))*1"), rules, {.fired = &fired});
  EXPECT_EQ(fired, (std::vector<int64_t>{2, 1}));  // x*1 is one node
}

TEST(Rewrite, NamesTheRulesThatUndoEachOther) {
  const PatternMatcher swap({{"test", {{"fine", x * 1, x}, {"flip", x + y, y + x}}}});
  EXPECT_EQ(failure(swap, "x + (y*1)"), "rewriting does not end after 3 steps: the rules 'flip' undo each other");
  const PatternMatcher pair({{"test", {{"out", (x + y) * c, x * c + y * c}, {"in", x * c + y * c, (x + y) * c}}}});
  EXPECT_EQ(failure(pair, "(x + y) * 3"),
            "rewriting does not end after 2 steps: the rules 'out', 'in' undo each other");
}

TEST(Rewrite, StopsRulesThatGrow) {
  const PatternMatcher inside({{"test", {{"wrap", x % y, (x % y) + 1}}}});
  EXPECT_NE(failure(inside, "x % y").find("'wrap'"), std::string::npos);
  const PatternMatcher outside({{"test", {{"more", x + c, (x * 3) + (c + 1)}}}});
  EXPECT_NE(failure(outside, "x + 1").find("'more'"), std::string::npos);
}

TEST(Rewrite, IsUsableAfterAnError) {
  const PatternMatcher rules({{"test", {{"one", x * 1, x}, {"flip", x + y, y + x}}}});
  test::Exprs e;
  Rewriter rewriter(rules);
  EXPECT_THROW(rewriter(e("(x + y) * 1")), Error);
  EXPECT_EQ(rewriter(e("x * 1")), e("x"));
}

TEST(Rewrite, RefusesARuleThatChangesTheType) {
  const PatternMatcher rules({{"test", {{"bad", x + y, x < y}}}});
  EXPECT_EQ(failure(rules, "x + y"), "rewrite rule 'bad' changes the type of a node (Ops.ADD)");
}

TEST(Rewrite, LeavesBodiesOfCallsAlone) {
  Graph g;
  const PatternMatcher rules({{"test", {{"zero", x * 0, 0}, {"one", x * 1, x}}}});
  const UOp p = g.param(0, DType::I32), body = p * 0;
  const UOp data = g.buffer(1, DType::I32, 0).index(0).load();
  const UOp arg[] = {data * 1}, plain[] = {data};
  EXPECT_EQ(graph_rewrite(g.call(body, arg), rules), g.call(body, plain));
}

TEST(Rewrite, SeesEachNodeOnce) {
  Graph g;
  UOp u = g.buffer(1, DType::I32, 0).index(0).load();
  const PatternMatcher rules({{"test", {{"flip", max(x, y), x % y}}}});
  for (int i = 0; i < 64; i++) u = u.max(u);
  std::vector<int64_t> fired;
  graph_rewrite(u, rules, {.fired = &fired});
  EXPECT_EQ(fired[0], 64);
}

}  // namespace
}  // namespace uopc
