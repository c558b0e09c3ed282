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

}  // namespace
}  // namespace uopc
