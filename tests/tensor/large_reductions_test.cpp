// Reductions of many elements to few results, which are made in parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "uopc/capture.hpp"
#include "uopc/context.hpp"

namespace uopc {
namespace {

Context context(int threads) {
  Options o;
  o.threads = threads;
  return Context(o);
}

// Axes that 64 divides and that it does not, few rows and many, the split axis first and in the middle.
struct Case {
  Shape shape;
  std::vector<int64_t> axes;
};
const Case kCases[] = {{{1 << 19}, {0}},           {{300'007}, {0}},         {{2, 3, 90'001}, {0, 1, 2}},
                       {{127, 4099}, {0, 1}},      {{5, 127, 4099}, {1, 2}}, {{127, 3, 4099}, {0, 2}},
                       {{4099, 127, 1}, {0}},      {{70'001, 8}, {0}},       {{17, 70'001}, {1}},
                       {{63, 63, 101}, {0, 1, 2}}, {{10'000, 3}, {0, 1}},    {{2, 5000, 3}, {1, 2}},
                       {{2, 100, 7, 3}, {0, 2, 3}}};

// More elements than an i32 counts, none of them in memory.
TEST(LargeReductions, OfMoreElementsThanAFlatIndexHas) {
  const Context ctx = context(2);
  const Tensor row = Tensor::full(ctx, {1, 1 << 16}, 0.5f).realize(),
               one = Tensor::full(ctx, {1, 1, 1}, 0.5f).realize();
  EXPECT_EQ(row.expand({1 << 15, 1 << 16}).sum().item<float>(), 1 << 30);
  EXPECT_EQ(row.expand({1 << 15, 1 << 16}).max().item<float>(), 0.5f);
  EXPECT_EQ(one.expand({57, 813, 46341}).max().item<float>(), 0.5f);
}

TEST(LargeReductions, AreWhatADoubleSumIs) {
  for (const Case& c : kCases) {
    Context ctx = context(2);
    const Tensor x = Tensor::randn(ctx, c.shape).realize(), y = Tensor::randn(ctx, {c.shape.back()}).realize();
    const std::vector<float> a = x.to_vector<float>(), b = y.to_vector<float>();
    const std::vector<float> sums = (x * y).sum(c.axes).to_vector<float>(),
                             most = (x + y).max(c.axes).to_vector<float>();

    Shape at(c.shape.size(), 0);
    std::vector<double> sum(sums.size(), 0), size(sums.size(), 0);
    std::vector<float> largest(sums.size(), -INFINITY);
    for (float v : a) {
      size_t out = 0;
      for (size_t k = 0; k < at.size(); k++)
        if (std::ranges::find(c.axes, static_cast<int64_t>(k)) == c.axes.end())
          out = out * static_cast<size_t>(c.shape[k]) + static_cast<size_t>(at[k]);
      const float w = b[static_cast<size_t>(at.back())];
      sum[out] += static_cast<double>(v) * w;
      size[out] += std::abs(static_cast<double>(v) * w);
      largest[out] = std::max(largest[out], v + w);
      for (size_t k = at.size(); k-- > 0;) {
        if (++at[k] < c.shape[k]) break;
        at[k] = 0;
      }
    }
    SCOPED_TRACE(testing::PrintToString(c.shape));
    for (size_t i = 0; i < sums.size(); i++) EXPECT_NEAR(sums[i], sum[i], size[i] * 1e-6);
    EXPECT_EQ(most, largest);
  }
}

// Serial f32 is 2.7e-3 off here, and 64 accumulators as much: each sum of equal numbers rounds the same way.
TEST(LargeReductions, OfEqualNumbers) {
  Context ctx = context(1);
  const double sum = Tensor::full(ctx, {10'000'019}, 0.1).contiguous().sum().item<double>();
  EXPECT_NEAR(sum / (10'000'019 * static_cast<double>(0.1f)), 1, 1e-4);
}

// One accumulator is 1.9e-4 off.
TEST(LargeReductions, OfShortRowsAreMadeInLanes) {
  Context ctx = context(1);
  const double mean = Tensor::full(ctx, {10'000, 3}, 0.1).contiguous().mean().item<double>();
  EXPECT_NEAR(mean / static_cast<double>(0.1f), 1, 1e-5);
}

TEST(LargeReductions, AreTheSameWithAnyNumberOfThreads) {
  std::vector<float> first;
  for (const int threads : {1, 2, 3, 8}) {
    Context ctx = context(threads);
    const Tensor x = Tensor::randn(ctx, {3, 511, 601}).realize();
    std::vector<float> all = x.sum({1, 2}).to_vector<float>();
    all.push_back(x.square().mean().item<float>());
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << threads;
  }
}

TEST(LargeReductions, TakeOneKernelMore) {
  Context ctx = context(1);
  const auto kernels = [&](Shape shape) {
    Capture c([](std::span<const Tensor> x) { return std::vector<Tensor>{x[0].sum()}; });
    const Tensor x = Tensor::zeros(ctx, std::move(shape));
    c({x});
    c({x});
    return c.kernels();
  };
  EXPECT_EQ(kernels({1 << 17}), 1);
  EXPECT_EQ(kernels({1 << 18}), 2);
}

}  // namespace
}  // namespace uopc
