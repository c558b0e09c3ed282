#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "uopc/tensor.hpp"

namespace uopc {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Gather, TakesAlongEachAxis) {
  Context ctx;
  const int64_t size[] = {3, 4, 5}, take[] = {2, 3, 4};
  std::vector<float> x(60);
  for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i) - 20;
  const auto t = Tensor::from(ctx, std::span<const float>(x), {3, 4, 5});
  for (int64_t axis = 0; axis < 3; axis++) {
    std::vector<int32_t> index;
    for (int64_t i = 0; i < 24; i++) index.push_back(static_cast<int32_t>(i * 5 % (size[axis] + 2) - 1));
    std::vector<float> want;
    for (int64_t i = 0; i < 24; i++) {
      int64_t at[] = {i / (take[1] * take[2]), i / take[2] % take[1], i % take[2]};
      at[axis] = index[static_cast<size_t>(i)];
      const bool inside = at[axis] >= 0 && at[axis] < size[axis];
      want.push_back(inside ? x[static_cast<size_t>((at[0] * 4 + at[1]) * 5 + at[2])] : 0);
    }
    const auto picks = Tensor::from(ctx, std::span<const int32_t>(index), {2, 3, 4});
    EXPECT_EQ(t.gather(axis, picks).to_vector<float>(), want) << axis;
    EXPECT_EQ(t.gather(axis - 3, picks).to_vector<float>(), want) << axis;
  }
}

TEST(Gather, InfinityBesideThePickedDoesNotSpread) {
  Context ctx;
  const auto x = Tensor::from(ctx, {kInf, 1.f, NAN, 2.f}, {2, 2});
  EXPECT_EQ(x.gather(1, Tensor::from(ctx, {1, 1}).reshape({2, 1})).to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(Tensor::embedding(x.T(), Tensor::from(ctx, {1})).to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(x.index_select(1, Tensor::from(ctx, {1, 5})).to_vector<float>(), (std::vector<float>{1, 0, 2, 0}));
}

TEST(Gather, KeepsTheDtype) {
  Context ctx;
  const auto index = Tensor::from(ctx, {1, 0});
  for (DType d : {DType::Bool, DType::I32, DType::F16, DType::F32}) {
    const auto y = Tensor::from(ctx, {0, 1}).cast(d).gather(0, index);
    EXPECT_EQ(y.dtype(), d);
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 0}));
  }
}

TEST(IndexSelect, OfEachAxis) {
  Context ctx;
  const auto x = Tensor::arange(ctx, 24).reshape({2, 3, 4});
  const std::vector<int32_t> picks{2, 0, -1, 1, 9};
  const auto index = Tensor::from(ctx, std::span<const int32_t>(picks), {5});
  const int64_t size[] = {2, 3, 4};
  for (int64_t axis = 0; axis < 3; axis++) {
    Shape shape{2, 3, 4};
    shape[static_cast<size_t>(axis)] = 5;
    std::vector<float> want;
    for (int64_t a = 0; a < shape[0]; a++)
      for (int64_t b = 0; b < shape[1]; b++)
        for (int64_t c = 0; c < shape[2]; c++) {
          int64_t at[] = {a, b, c};
          at[axis] = picks[static_cast<size_t>(at[axis])];
          want.push_back(at[axis] >= 0 && at[axis] < size[axis] ? static_cast<float>((at[0] * 3 + at[1]) * 4 + at[2])
                                                                : 0);
        }
    EXPECT_EQ(x.index_select(axis, index).shape(), shape);
    EXPECT_EQ(x.index_select(axis, index).to_vector<float>(), want) << axis;
  }
}

TEST(OneHot, RowsAndOutOfRange) {
  Context ctx;
  const auto y = Tensor::from(ctx, {1, -1, 3, 2}).reshape({2, 2}).one_hot(3);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(y.dtype(), DType::F32);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
}

TEST(Embedding, RowsAndGradient) {
  Context ctx;
  const auto w = Tensor::from(ctx, {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {3, 2});
  const auto y = Tensor::embedding(w, Tensor::from(ctx, {2, 0, 2, 7}).reshape({2, 2}));
  EXPECT_EQ(y.shape(), (Shape{2, 2, 2}));
  const auto slope = y.sum().gradient({w})[0];
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{5, 6, 1, 2, 5, 6, 0, 0}));
  EXPECT_EQ(slope.to_vector<float>(), (std::vector<float>{1, 1, 0, 0, 2, 2}));
}

TEST(Lookups, RefuseWhatDoesNotFit) {
  Context ctx;
  const auto x = Tensor::ones(ctx, {2, 3});
  const auto index = Tensor::from(ctx, {0, 1});
  EXPECT_THROW(x.gather(0, index), Error);
  EXPECT_THROW(x.gather(2, index.reshape({2, 1})), Error);
  EXPECT_THROW(x.gather(1, Tensor::from(ctx, {0, 0, 0}).reshape({3, 1})), Error);
  EXPECT_THROW(x.gather(0, x), Error);
  EXPECT_THROW(x.index_select(0, index.reshape({2, 1})), Error);
  EXPECT_THROW(x.one_hot(3), Error);
  EXPECT_THROW(Tensor::embedding(Tensor::ones(ctx, {3}), index), Error);
}

}  // namespace
}  // namespace uopc
