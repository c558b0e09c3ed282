// What asks whether an element is the maximum, or equals another, sees the bits that the other kernels see. The values
// here are sums of products, which a kernel may contract or sum in its own order.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "uopc/nn.hpp"

namespace uopc {
namespace {

// At every level: which kernels compute a value twice depends on it.
class Maximum : public testing::TestWithParam<int> {
 protected:
  Context ctx_{[] {
    Options o;
    o.opt = GetParam();
    o.threads = 1;
    return o;
  }()};
  Tensor randn(Shape shape) { return Tensor::randn(ctx_, std::move(shape)).realize(); }
};

double total(const Tensor& t) {
  double sum = 0;
  for (float v : t.to_vector<float>()) sum += v;
  return sum;
}

TEST_P(Maximum, GradientOfAMaximumReachesOneElementOfEveryRow) {
  const Tensor a = randn({37, 53}), b = randn({37, 53}), c = randn({37, 53});
  const Tensor x = a * b + c;
  EXPECT_EQ(total(x.max(-1).sum().gradient({c})[0]), 37);
  EXPECT_EQ(total(x.min(0).sum().gradient({c})[0]), 53);
  EXPECT_EQ(total((x * x + a).max().gradient({a})[0].ne(0).cast(DType::F32)), 1);
}

TEST_P(Maximum, GradientOfAPoolReachesEveryWindow) {
  const Tensor x = randn({2, 3, 12, 12}), w = randn({4, 3, 3, 3}), bias = randn({4});
  const Tensor y = x.conv2d(w, bias).max_pool2d();
  EXPECT_EQ(total(y.sum().gradient({bias})[0]), 2 * 4 * 5 * 5);
}

TEST_P(Maximum, GradientOfAMaximumOfProducts) {
  const Tensor x = randn({33, 65}), w = randn({65, 31}), bias = randn({31});
  EXPECT_EQ(total((x.matmul(w) + bias).max(-1).sum().gradient({bias})[0]), 33);
  EXPECT_EQ(total(((x.matmul(w) + bias) * 0.01).tanh().max().gradient({bias})[0].ne(0).cast(DType::F32)), 1);
}

TEST_P(Maximum, PlaceIsWhereTheMaximumIs) {
  const Tensor a = randn({61, 47}), b = randn({61, 47}), c = randn({61, 47});
  const Tensor x = a * b + c * a, place = x.argmax(-1), best = x.max(-1);
  const std::vector<float> v = x.to_vector<float>();
  const std::vector<int32_t> at = place.to_vector<int32_t>();
  std::vector<int32_t> right(61, 0);
  for (size_t i = 0; i < 61; i++)
    for (size_t k = 1; k < 47; k++)
      if (v[i * 47 + k] > v[i * 47 + static_cast<size_t>(right[i])]) right[i] = static_cast<int32_t>(k);
  EXPECT_EQ(at, right);
  EXPECT_EQ(x.gather(-1, place.unsqueeze(-1)).squeeze(-1).eq(best).all().item<bool>(), true);
}

TEST_P(Maximum, ComparisonsOfTensors) {
  const Tensor a = randn({61, 47}), b = randn({61, 47}), c = randn({61, 47});
  const Tensor x = a * b + c, best = x.max(-1, true);
  EXPECT_EQ(x.eq(best).sum().item<int32_t>(), 61);
  EXPECT_EQ(x.ne(best).logical_not().sum().item<int32_t>(), 61);
  EXPECT_EQ((x >= best).sum().item<int32_t>(), 61);
  EXPECT_EQ((best <= x).sum().item<int32_t>(), 61);
}

INSTANTIATE_TEST_SUITE_P(Opt, Maximum, testing::Values(0, 1));

}  // namespace
}  // namespace uopc
