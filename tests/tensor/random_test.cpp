// Statistics of the random tensors. Seeds are fixed, so a bound of five standard deviations fails for a worse generator
// only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "error_of.hpp"
#include "uopc/tensor.hpp"

namespace uopc {
namespace {

constexpr int64_t kMany = 1 << 18;

// Standard deviations that the counts are off from `bins` alike ones.
double chi_square(const std::vector<size_t>& which, size_t bins) {
  std::vector<double> count(bins);
  for (size_t b : which) count[b]++;
  const double want = static_cast<double>(which.size()) / static_cast<double>(bins);
  double sum = 0;
  for (double c : count) sum += (c - want) * (c - want) / want;
  return (sum - static_cast<double>(bins - 1)) / std::sqrt(2.0 * static_cast<double>(bins - 1));
}
double correlation(const std::vector<float>& a, const std::vector<float>& b, size_t lag) {
  double sum = 0;
  for (size_t i = 0; i + lag < a.size(); i++) sum += (a[i] - 0.5) * (b[i + lag] - 0.5);
  return sum * 12 / std::sqrt(static_cast<double>(a.size() - lag));
}
size_t part(float v, double scale, size_t bins) {
  return static_cast<size_t>(v * scale) % bins;
}

TEST(Random, BitsAreAlikeAndNeighboursIndependent) {
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    Context ctx;
    ctx.manual_seed(seed);
    const auto v = Tensor::rand(ctx, {kMany}).to_vector<float>(), w = Tensor::rand(ctx, {kMany}).to_vector<float>();
    for (double scale : {256.0, 65536.0, 16777216.0}) {  // the three bytes of 24 bits
      std::vector<size_t> bytes, pairs;
      for (size_t i = 0; i < v.size(); i++) bytes.push_back(part(v[i], scale, 256));
      for (size_t i = 0; i + 1 < v.size(); i++) pairs.push_back(part(v[i], scale, 64) * 64 + part(v[i + 1], scale, 64));
      EXPECT_LT(std::abs(chi_square(bytes, 256)), 5) << scale;
      EXPECT_LT(std::abs(chi_square(pairs, 4096)), 5) << scale;
    }
    for (int bit = 0; bit < 24; bit++) {
      double ones = 0;
      for (float u : v) ones += static_cast<uint32_t>(u * 16777216) >> bit & 1;
      EXPECT_LT(std::abs(ones - kMany / 2.0) / std::sqrt(kMany / 4.0), 5) << bit;
    }
    for (size_t lag : {1, 2, 3, 4, 8, 64, 256, 1024}) EXPECT_LT(std::abs(correlation(v, v, lag)), 5) << lag;
    for (size_t lag : {0, 1, 2}) EXPECT_LT(std::abs(correlation(v, w, lag)), 5) << "two tensors, " << lag;
    const auto [low, high] = std::minmax_element(v.begin(), v.end());
    EXPECT_GE(*low, 0);
    EXPECT_LT(*high, 1);
  }
}

TEST(Random, SeedsAndCountersDiffer) {
  Context a, b, c;
  b.manual_seed(1);
  const auto of = [](Context& ctx) { return Tensor::rand(ctx, {kMany}).to_vector<float>(); };
  const auto x = of(a), y = of(b), z = of(c);
  EXPECT_EQ(x, z);
  EXPECT_LT(std::abs(correlation(x, y, 0)), 5);
  a.manual_seed(1);
  EXPECT_EQ(of(a), y);
}

TEST(Random, NormalsHaveTheirMoments) {
  Context ctx;
  const auto v = Tensor::randn(ctx, {4 * kMany}).to_vector<float>();
  double sums[5] = {}, serial = 0, beyond[2] = {};
  for (size_t i = 0; i < v.size(); i++) {
    ASSERT_TRUE(std::isfinite(v[i]));
    for (int p = 1; p < 5; p++) sums[p] += std::pow(static_cast<double>(v[i]), p);
    if (i > 0) serial += static_cast<double>(v[i]) * v[i - 1];
    beyond[0] += std::abs(v[i]) > 2;
    beyond[1] += std::abs(v[i]) > 4;
  }
  const auto n = static_cast<double>(v.size());
  EXPECT_LT(std::abs(sums[1]) / std::sqrt(n), 5);
  EXPECT_LT(std::abs(sums[2] - n) / std::sqrt(2 * n), 5);
  EXPECT_LT(std::abs(sums[3]) / std::sqrt(15 * n), 5);
  EXPECT_LT(std::abs(sums[4] - 3 * n) / std::sqrt(96 * n), 5);
  EXPECT_LT(std::abs(serial) / std::sqrt(n), 5);
  for (int k = 0; k < 2; k++) {
    const double share = k == 0 ? 0.0455002639 : 6.334248e-5;
    EXPECT_LT(std::abs(beyond[k] - share * n) / std::sqrt(share * n), 5) << k;
  }
}

TEST(Random, IntegersOfAnyRangeAreAlike) {
  Context ctx;
  for (auto [low, high] : {std::pair<int32_t, int32_t>{-3, 4},
                           {5, 6},
                           {0, 65537},
                           {-1'000'000'000, 600'000'000},
                           {INT32_MIN, -1},
                           {0, INT32_MAX}}) {
    const auto v = Tensor::randint(ctx, {kMany}, low, high).to_vector<int32_t>();
    const int64_t span = int64_t{high} - low, bins = std::min<int64_t>(span, 7);
    std::vector<size_t> which;
    for (int32_t i : v) {
      ASSERT_TRUE(i >= low && i < high) << i;
      which.push_back(static_cast<size_t>((int64_t{i} - low) * bins / span));
    }
    if (bins > 1) {
      EXPECT_LT(std::abs(chi_square(which, static_cast<size_t>(bins))), 5) << low << " " << high;
    }
  }
}

TEST(Random, UniformStaysBelowItsEnd) {
  Context ctx;
  for (auto [low, high] : {std::pair{-2.0, 3.0}, {1.0, 1.0000002}, {1e6, 1e6 + 0.125}, {-1.0, 0.0}}) {
    const auto v = Tensor::uniform(ctx, {kMany}, low, high).to_vector<float>();
    for (float u : v) ASSERT_TRUE(u >= static_cast<float>(low) && u < static_cast<float>(high)) << u;
  }
  EXPECT_EQ(Tensor::uniform(ctx, {2}, 3, 3).to_vector<float>(), (std::vector<float>{3, 3}));
}

TEST(Random, ErrorsSayWhatIsWrong) {
  Context ctx;
  EXPECT_EQ(error_of([&] { Tensor::randint(ctx, {2}, 3, 3); }), "randint: no number is in [3, 3)");
  EXPECT_EQ(error_of([&] { Tensor::randint(ctx, {2}, INT32_MIN, INT32_MAX); }),
            "randint: [-2147483648, 2147483647) has more than 2**31 - 1 numbers");
  EXPECT_EQ(error_of([&] { Tensor::uniform(ctx, {2}, 1, 0); }), "uniform: [1, 0) is no range of floats");
  EXPECT_EQ(error_of([&] {
              Tensor::rand(ctx, {-2, -3});
            }),
            "rand of shape (-2, -3): sizes are not negative, and there are at most 2**31 - 1 elements");
  EXPECT_EQ(Tensor::randn(ctx, {0, 4}).to_vector<float>().size(), 0u);
}

}  // namespace
}  // namespace uopc
