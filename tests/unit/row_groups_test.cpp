// Kernels that go over the same rows, from level 1 on.
#include <gtest/gtest.h>

#include <string>

#include "uopc/passes.hpp"
#include "uopc/plan.hpp"

namespace uopc {
namespace {

class Rows : public testing::Test {
 protected:
  UOp buffer(Shape shape) {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return g.buffer(n, DType::F32, slot++).reshape(std::move(shape));
  }
  static UOp sum(UOp x) { return x.reduce(Op::Add, 1); }
  // A value of a row beside each of its elements.
  static UOp along(UOp rows, UOp x) {
    Shape one = rows.shape();
    one.push_back(1);
    return rows.reshape(one).expand(x.shape());
  }
  static Plan plan(std::initializer_list<UOp> values, Machine machine = {}) {
    std::vector<PlanResult> results;
    for (UOp v : values) results.push_back({v, {}});
    return make_plan(results, {1, machine}).plan;
  }
  static size_t kernels(std::initializer_list<UOp> values) { return plan(values).kernels.size(); }

  Graph g;
  int64_t slot = 0;
};

TEST_F(Rows, OfOneTensorAreOneKernelWithoutTemporaries) {
  const UOp x = buffer({100, 200});
  const Plan p = plan({x - along(sum(x), x)});
  ASSERT_EQ(p.kernels.size(), 1u);
  EXPECT_EQ(p.kernels[0].name, "r_100_200");
  EXPECT_EQ(p.kernels[0].refs, (std::vector<PlanRef>{{PlanRef::Kind::In, 0}, {PlanRef::Kind::Out, 0}}));
  EXPECT_EQ(p.kernels[0].flops, 3 * 100.0 * 200);
  EXPECT_TRUE(p.temps.empty());
}

TEST_F(Rows, ThatAreResultsThemselvesStayInMemory) {
  const UOp x = buffer({100, 200}), s = sum(x).stage();
  EXPECT_EQ(kernels({x - along(s, x), s}), 2u);
}

TEST_F(Rows, ThatOtherRowsReadStayInMemory) {
  const UOp x = buffer({100, 100}), s = sum(x).stage();
  EXPECT_EQ(kernels({x - s.reshape({1, 100}).expand({100, 100})}), 2u);  // the sum of each row beside each column
  EXPECT_EQ(kernels({x - along(flip_axis(s, 0), x)}), 3u);               // and the turned sums
  const UOp shifted = s.shrink({{1, 100}}), y = x.shrink({{0, 99}, {0, 100}});
  EXPECT_EQ(kernels({y - along(shifted, y)}), 2u);
}

TEST_F(Rows, OfTwoReadersNeedBoth) {
  const UOp x = buffer({100, 200}), s = sum(x * x).stage();
  const UOp one = (x - along(s, x)).stage(), other = (x * along(s, x)).stage();
  EXPECT_EQ(kernels({one + other}), 1u);
  EXPECT_EQ(kernels({one, other}), 3u);
}

// 1500 rows of 400 products with 400 x 400 numbers: in blocks, which the numbers are read again for.
TEST_F(Rows, OfAProductAreTakenInBlocks) {
  const UOp x = buffer({1500, 1, 400}), w = buffer({1, 400, 400});
  const Shape cube{1500, 400, 400};
  const UOp y = sum(x.expand(cube) * w.expand(cube)).stage();
  Machine machine;
  const Plan p = plan({y - along(sum(y), y)}, machine);
  ASSERT_EQ(p.kernels.size(),
            3u);  // the numbers in panels, the products, the rest: nothing is gained by the numbers' reads
  machine.cache = 4 << 20;
  EXPECT_EQ(plan({y - along(sum(y), y)}, machine).kernels.size(), 2u);
}

TEST_F(Rows, WithoutElementsAreNoKernel) {
  const UOp x = buffer({0, 200}), y = buffer({100, 0});
  EXPECT_EQ(kernels({x - along(sum(x), x)}), 0u);
  EXPECT_EQ(kernels({y - along(sum(y), y)}), 1u);  // the sums of nothing
}

TEST_F(Rows, AreSharedByThreads) {
  Machine machine;
  machine.threads = 4;
  const UOp x = buffer({1000, 200});
  const std::string text = to_string(plan({x - along(sum(x), x)}, machine));
  EXPECT_NE(text.find("#pragma omp parallel for"), std::string::npos) << text;
}

}  // namespace
}  // namespace uopc
