// Shaped graphs to C text.
#include <gtest/gtest.h>

#include "golden.hpp"
#include "passes/rangeify.hpp"
#include "program_text.hpp"

namespace uopc {
namespace {

using test::c_error;
using test::c_of;

class GoldenLower : public testing::TestWithParam<std::string> {};
TEST_P(GoldenLower, C) {
  const auto c = golden::read(GetParam());
  if (c.has("opts")) {
    Graph g;
    const UOp value = parse(g, c.at("uir"));
    const std::string error = test::error_of([&] { as_program(value, parse_opts(c.at("opts"))); });
    EXPECT_EQ(error, "NotImplementedError: Opts.upcast is not supported yet");
    return;
  }
  EXPECT_EQ(c_of(c.at("uir")), c.at("lower_c"));
}
INSTANTIATE_TEST_SUITE_P(Files, GoldenLower, testing::ValuesIn(golden::cases_with("lower_c")),
                         [](const auto& info) { return info.param; });

TEST(Lower, SoftmaxKernels) {
  const std::string x = "%x = buffer 12 : dtype=f32 slot=0\n%r = reshape %x, (3, 4)\n";
  const std::string expf =
      "%m = buffer 3 : dtype=f32 slot=1\n%n = mul %m, -1.0\n%b = reshape %n, (3, 1)\n"
      "%d = add %r, %b\n%l = mul %d, 1.4426950408889634\n%e = exp2 %l\n";
  const auto golden = golden::read("softmax_3x4_opt0").at("kernels");
  EXPECT_EQ(c_of(x + "%s = reduce %r : op=max pop=1", "r_3") + c_of(x + expf + "%s = reduce %e : op=add pop=1", "r_3") +
                c_of(x + expf +
                         "%t = buffer 3 : dtype=f32 slot=2\n%u = recip %t\n%v = reshape %u, (3, 1)\n%w = mul %e, %v",
                     "e_3_4"),
            golden);
}

}  // namespace
}  // namespace uopc
