#include <gtest/gtest.h>

#include <cmath>

#include "error_of.hpp"
#include "uopc/tensor.hpp"

namespace uopc {
namespace {

TEST(Create, ArangeIsPythonsRange) {
  Context ctx;
  using Ints = std::vector<int32_t>;
  EXPECT_EQ(Tensor::arange(ctx, 3).to_vector<int32_t>(), (Ints{0, 1, 2}));
  EXPECT_EQ(Tensor::arange(ctx, 7, -2, -3).to_vector<int32_t>(), (Ints{7, 4, 1}));
  EXPECT_EQ(Tensor::arange(ctx, 2, 9, 7).to_vector<int32_t>(), (Ints{2}));
  EXPECT_EQ(Tensor::arange(ctx, 5, 5).shape(), (Shape{0}));
  EXPECT_EQ(Tensor::arange(ctx, -5).shape(), (Shape{0}));
  EXPECT_EQ(Tensor::arange(ctx, 0, INT64_MAX, INT64_MAX).to_vector<int32_t>(), (Ints{0}));
  EXPECT_EQ(Tensor::arange(ctx, INT32_MIN, INT32_MAX, INT32_MAX).to_vector<int32_t>(),
            (Ints{INT32_MIN, -1, INT32_MAX - 1}));
  EXPECT_EQ(error_of([&] { Tensor::arange(ctx, 0, 5, 0); }), "arange: a step of 0");
  EXPECT_EQ(error_of([&] { Tensor::arange(ctx, INT64_MAX); }), "arange(0, 9223372036854775807, 1): not all are i32");
  EXPECT_EQ(error_of([&] { Tensor::arange(ctx, INT32_MIN, INT32_MAX); }), "arange: more than 2**31 - 1 elements");
}

TEST(Create, LinspaceEndsAtItsEnd) {
  Context ctx;
  const auto v = Tensor::linspace(ctx, -1, 0.1, 12).to_vector<float>();
  EXPECT_EQ(v.front(), -1);
  EXPECT_EQ(v.back(), 0.1f);
  for (size_t i = 0; i < v.size(); i++) EXPECT_NEAR(v[i], -1 + 0.1 * static_cast<double>(i), 1e-7);
  EXPECT_EQ(Tensor::linspace(ctx, 4, 9, 1).to_vector<float>(), (std::vector<float>{4}));
  EXPECT_EQ(Tensor::linspace(ctx, 4, 9, 0).shape(), (Shape{0}));
  EXPECT_EQ(error_of([&] { Tensor::linspace(ctx, 0, 1, -1); }), "linspace: -1 steps");
  EXPECT_EQ(error_of([&] { Tensor::linspace(ctx, 0, 1, int64_t{1} << 50); }), "linspace: more than 2**31 - 1 elements");
}

TEST(Create, EyeAndTensorsLikeOthers) {
  Context ctx;
  const Tensor e = Tensor::eye(ctx, 3, DType::F16);
  EXPECT_EQ(e.dtype(), DType::F16);
  EXPECT_EQ(e.to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(Tensor::eye(ctx, 0).shape(), (Shape{0, 0}));
  EXPECT_EQ(e.zeros_like().dtype(), DType::F16);
  EXPECT_EQ(e.full_like(2.5).to_vector<float>()[8], 2.5f);
  EXPECT_EQ(Tensor::arange(ctx, 3).ones_like().to_vector<int32_t>(), (std::vector<int32_t>{1, 1, 1}));
  EXPECT_EQ(Tensor::arange(ctx, 3).rand_like().dtype(), DType::F32);
  EXPECT_EQ(error_of([&] { Tensor::eye(ctx, int64_t{1} << 40); }), "eye: more than 2**31 - 1 elements");
}

TEST(Create, EqualTensorsAreTheirOwn) {
  Context ctx;
  Tensor a = Tensor::zeros(ctx, {2}), b = Tensor::zeros(ctx, {2});
  a.assign(a + 1);
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{0, 0}));
}

TEST(Create, FromNumbersAsWritten) {
  Context ctx;
  const Tensor whole = Tensor::from(ctx, {1, 2, 3, 4}, {2, 2}), mixed = Tensor::from(ctx, {1, NAN, 3});
  EXPECT_EQ(whole.dtype(), DType::I32);
  EXPECT_EQ(whole.shape(), (Shape{2, 2}));
  EXPECT_EQ(mixed.dtype(), DType::F32);
  EXPECT_EQ(mixed.to_vector<float>()[2], 3);
  EXPECT_EQ(Tensor::from(ctx, {1.5f, 2.0}).dtype(), DType::F32);
  EXPECT_EQ(Tensor::from(ctx, {true, false}).dtype(), DType::Bool);
  EXPECT_EQ(Tensor::from(ctx, {true, 2}).to_vector<int32_t>(), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(Tensor::from(ctx, {}, {0, 3}).dtype(), DType::F32);
  EXPECT_EQ(error_of([&] { Tensor::from(ctx, {int64_t{1} << 40}); }),
            "from: 1099511627776 is no i32; write a float for a tensor of f32");
}

}  // namespace
}  // namespace uopc
