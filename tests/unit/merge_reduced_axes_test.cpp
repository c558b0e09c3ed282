#include "passes/merge_reduced_axes.hpp"

#include <gtest/gtest.h>

namespace uopc {
namespace {

class MergeReducedAxes : public testing::Test {
 protected:
  UOp buffer(Shape shape, int64_t slot = 0) {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return g.buffer(n, DType::F32, slot).reshape(std::move(shape));
  }
  // The shape that is reduced in the end.
  static Shape merged(UOp x, int64_t n) {
    const UOp sum = x.reduce(Op::Add, n), out = merge_reduced_axes(std::span(&sum, 1))[0];
    EXPECT_EQ(out.shape(), sum.shape());
    return out.src(0).shape();
  }
  Graph g;
};

TEST_F(MergeReducedAxes, OfOneStretchBecomeOne) {
  const UOp x = buffer({4, 5, 6}), y = buffer({4, 5, 6}, 1);
  EXPECT_EQ(merged(x, 3), (Shape{120}));
  EXPECT_EQ(merged(x, 2), (Shape{4, 30}));
  EXPECT_EQ(merged(x, 1), (Shape{4, 5, 6}));
  EXPECT_EQ(merged((x * y + 2.0).exp2(), 2), (Shape{4, 30}));
  EXPECT_EQ(merged((x * y).stage(), 2), (Shape{4, 30}));
  EXPECT_EQ(merged(buffer({2, 2, 30}).exp2().reshape({4, 5, 6}), 2), (Shape{4, 30}));
  EXPECT_EQ(merged(buffer({4, 0, 6}), 2), (Shape{4, 0}));
}

TEST_F(MergeReducedAxes, BesideOperandsThatDoNotMoveAlongThem) {
  const UOp x = buffer({4, 5, 6}), mean = buffer({4, 1, 1}, 1), one = buffer({1, 1, 1}, 2);
  EXPECT_EQ(merged(x + mean.expand({4, 5, 6}), 2), (Shape{4, 30}));
  EXPECT_EQ(merged(x + one.expand({4, 5, 6}), 3), (Shape{120}));
  EXPECT_EQ(merged(x + mean.expand({4, 5, 6}), 3), (Shape{4, 30}));
}

TEST_F(MergeReducedAxes, ThatStayTogetherWhenOthersMove) {
  const UOp x = buffer({4, 5, 6, 7});
  EXPECT_EQ(merged(x.permute({1, 0, 2, 3}), 3), (Shape{5, 4, 42}));
  EXPECT_EQ(merged(x.permute({0, 3, 1, 2}), 2), (Shape{4, 7, 30}));
}

TEST_F(MergeReducedAxes, NotWhereAPlaceWouldNeedADivision) {
  const UOp x = buffer({4, 5, 6}), row = buffer({1, 1, 6}, 1);
  EXPECT_EQ(merged(x.permute({0, 2, 1}), 2), (Shape{4, 6, 5}));
  EXPECT_EQ(merged(x.shrink({{0, 4}, {0, 5}, {1, 6}}), 2), (Shape{4, 5, 5}));
  EXPECT_EQ(merged(x * row.expand({4, 5, 6}), 2), (Shape{4, 5, 6}));
  EXPECT_EQ(merged(x.permute({2, 1, 0}).exp2().reshape({2, 3, 20}), 2), (Shape{2, 3, 20}));
}

}  // namespace
}  // namespace uopc
