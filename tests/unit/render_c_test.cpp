// C text of loop programs.
#include <gtest/gtest.h>

#include "codegen/c_style.hpp"
#include "codegen/render_c.hpp"
#include "golden.hpp"
#include "ir/py_text.hpp"
#include "program_text.hpp"

namespace uopc {
namespace {

using test::c_error;
using test::c_of;

class GoldenC : public testing::TestWithParam<std::string> {};
TEST_P(GoldenC, Text) {
  const auto c = golden::read(GetParam());
  EXPECT_EQ(c_of(c.at("uir")), c.at("c"));
}
INSTANTIATE_TEST_SUITE_P(Files, GoldenC, testing::ValuesIn(golden::cases_with("c")),
                         [](const auto& info) { return info.param; });

TEST(RenderC, Constants) {
  const auto rows = golden::table("cconst.tsv");
  ASSERT_GT(rows.size(), 30u);
  for (const auto& row : rows) {
    const DType d = dtypes::from_name(row.at(0));
    const auto v = row[1] == "True"    ? std::optional<Scalar>(true)
                   : row[1] == "False" ? std::optional<Scalar>(false)
                                       : py_number(row[1]);
    ASSERT_TRUE(v) << row[1];
    EXPECT_EQ(cconst(*v, d), row.at(2)) << row[0] << " " << row[1];
  }
}

TEST(RenderC, Prelude) {
  Graph g;
  EXPECT_EQ(render_c(g.sink({}), "nothing"), R"(#include <math.h>
#include <stdbool.h>
static inline int floordiv_i32(int a, int b) { int q = a / b; return (q * b != a && ((a < 0) != (b < 0))) ? q - 1 : q; }
static inline int floormod_i32(int a, int b) { int r = a % b; return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r; }
void nothing() {
}
)");
}


TEST(RenderC, KindsOfLoops) {
  const auto loop = [](const std::string& kind) {
    return c_of("%a = buffer 8 : dtype=i32 slot=0\n%r = range 8 : idx=0 kind=" + kind +
                "\n%i = index %a, %r\n%s = store %i, %r\n%e = end %s, %r\n%k = sink %e");
  };
  const std::string serial = loop("loop");
  for (const char* kind : {"reduce", "upcast", "global", "local"}) EXPECT_EQ(loop(kind), serial);
  EXPECT_EQ(loop("thread"), R"(void kernel(int* restrict data0) {
  #pragma omp parallel for
  for (int ridx0 = 0; ridx0 < 8; ridx0++) {
    data0[ridx0] = ridx0;
  }
}
)");
}

// A value stored to data1, as it prints.
std::string expression(const std::string& dtype, const std::string& lines) {
  const std::string text = c_of("%a = buffer 1 : slot=0 dtype=" + dtype + "\n%p = index %a, 0\n%x = load %p\n" + lines +
                                "\n%d = cast %y : dtype=f32\n%b = buffer 1 : slot=1\n%q = index %b, 0\n"
                                "%s = store %q, %d\n%k = sink %s");
  const size_t begin = text.find("data1[0] = ((float)(") + 20;
  return text.substr(begin, text.find(";", begin) - begin - 2);
}

TEST(RenderC, Operators) {
  EXPECT_EQ(expression("f16", "%y = recip %x"), "((_Float16)1.0f/val1)");
  EXPECT_EQ(expression("f16", "%y = exp2 %x"), "exp2(val1)");
  EXPECT_EQ(expression("f16", "%y = add %x, 1.5"), "(val1+((_Float16)(1.5f)))");
  EXPECT_EQ(expression("i32", "%y = floordiv %x, 3"), "floordiv_i32(val1,3)");
  EXPECT_EQ(expression("i32", "%m = floormod %x, 8\n%y = floordiv %m, 3"), "(floormod_i32(val1,8)/3)");
  EXPECT_EQ(expression("i32", "%m = max %x, 0\n%y = floormod %m, 3"), "(((val1>0)?val1:0)%3)");
  EXPECT_EQ(expression("i32", "%m = max %x, 0\n%y = floormod %m, -3"), "floormod_i32(((val1>0)?val1:0),-3)");
  EXPECT_EQ(expression("i32", "%m = max %x, 0\n%n = max %x, 1\n%y = floordiv %m, %n"),
            "floordiv_i32(((val1>0)?val1:0),((val1>1)?val1:1))");
  EXPECT_EQ(expression("i32", "%y = add %x, -2147483648"), "(val1+(-2147483647-1))");
  EXPECT_EQ(expression("bool", "%y = where %x, 1.0, 2.0"), "(val1?1.0f:2.0f)");
  EXPECT_EQ(expression("f32", "%y = max %x, nan"), "((val1>NAN)?val1:NAN)");
}

TEST(RenderC, ValuesUsedTwiceHaveNames) {
  EXPECT_EQ(c_of("%a = buffer 1 : slot=0\n%p = index %a, 0\n%x = load %p\n%s = sqrt %x\n%y = mul %s, %s\n"
                 "%h = cast 1.0 : dtype=f16\n%g = cast %h : dtype=f32\n%f = add %y, %g\n%w = store %p, %f\n%k = sink %w"),
            R"(void kernel(float* restrict data0) {
  float val1 = data0[0];
  float alu2 = sqrtf(val1);
  data0[0] = ((alu2*alu2)+((float)(((_Float16)(1.0f)))));
}
)");
}

TEST(RenderC, NestedMaximaDoNotDoubleTheText) {
  Graph g;
  UOp y = g.buffer(30, DType::F32, 0).index(int64_t{0}).load();
  for (int i = 1; i < 30; i++) y = y.max(g.buffer(30, DType::F32, 0).index(i).load()).exp2();
  const UOp s = g.buffer(1, DType::F32, 1).index(int64_t{0}).store(y);
  const std::string text = render_c_body(g.sink({&s, 1}));
  EXPECT_LT(text.size(), 10'000u);
  // Up to 256 characters an operand is repeated.
  EXPECT_NE(text.find("((exp2f(((val1>val2)?val1:val2))>val3)?exp2f(((val1>val2)?val1:val2)):val3)"), std::string::npos);
}

TEST(RenderC, DeepExpressionsHaveNames) {
  Graph g;
  UOp y = g.buffer(1, DType::F32, 0).index(int64_t{0}).load();
  for (int i = 0; i < 401; i++) y = y.exp2();
  const UOp s = g.buffer(1, DType::F32, 1).index(int64_t{0}).store(y);
  const std::string text = render_c_body(g.sink({&s, 1}));
  EXPECT_EQ(static_cast<int>(std::count(text.begin(), text.end(), '\n')), 5);  // val1, alu2 and the store
  EXPECT_NE(text.find("  float alu2 = exp2f("), std::string::npos);
}

TEST(RenderC, NameMustBeAnIdentifier) {
  Graph g;
  for (const char* name : {"", "2x", "a b", "f(){}void g"})
    EXPECT_TRUE(test::error_of([&] { render_c(g.sink({}), name); }).starts_with("UOpError: kernel name")) << name;
}

TEST(RenderC, CheckedVariant) {
  Graph g;
  const UOp program = as_program(parse(g,
                                       "%t = buffer 8 : slot=0\n%i = buffer 1 : dtype=i32 slot=1\n%z = index %i, 0\n"
                                       "%x = index %t, %z"));
  const std::string text = render_c_text(program, "kernel", {.check_bounds = true, .guarded = true});
  EXPECT_NE(text.find("\nint uopc_index_error = 0;\n"), std::string::npos);
  EXPECT_NE(text.find("  int val1 = data1[0];\n  float val2 = data0[uopc_check(val1,8)];\n"), std::string::npos) << text;
  EXPECT_EQ(render_c_text(program, "kernel", {}), render_c(program, "kernel"));
}

}  // namespace
}  // namespace uopc
