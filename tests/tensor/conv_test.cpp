#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "error_of.hpp"
#include "tensor/numbers.hpp"
#include "uopc/tensor.hpp"

namespace uopc {
namespace {

int64_t places(int64_t n, int64_t k, int64_t s, int64_t p, int64_t d) {
  return (n + 2 * p - d * (k - 1) - 1) / s + 1;
}
void expect_near(const std::vector<float>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); i++) {
    if (std::isinf(want[i]))
      EXPECT_EQ(got[i], want[i]) << i;
    else
      EXPECT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::abs(want[i]))) << i;
  }
}

struct ConvCase {
  int64_t n, in, h, w, out, kh, kw;
  Conv2dOptions o;
};

TEST(Conv2d, IsTheSumOfItsWindows) {
  const ConvCase cases[] = {
      {2, 3, 5, 7, 4, 3, 3, {}},
      {1, 2, 6, 5, 3, 3, 2, {.padding = {1, 2}}},
      {1, 2, 8, 9, 2, 3, 3, {.stride = {2, 3}, .padding = {1, 1}}},
      {1, 1, 9, 9, 2, 3, 2, {.dilation = {2, 3}}},
      {1, 1, 11, 10, 2, 2, 3, {.stride = {3, 2}, .padding = {2, 1}, .dilation = {3, 2}}},
      {2, 4, 4, 4, 6, 3, 3, {.padding = {1, 1}, .groups = 2}},
      {1, 4, 5, 5, 4, 3, 3, {.groups = 4}},
      {1, 3, 4, 4, 2, 1, 1, {}},
      {1, 3, 5, 5, 2, 1, 1, {.stride = {2, 2}}},
      {1, 3, 9, 8, 2, 4, 4, {.stride = {4, 4}}},
      {1, 1, 5, 5, 1, 2, 2, {.stride = {5, 4}}},
      {1, 1, 3, 3, 1, 3, 3, {}},
      {1, 1, 2, 2, 1, 3, 3, {.stride = {7, 7}, .padding = {3, 3}}},
  };
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(&c - cases);
    const int64_t per = c.in / c.o.groups, each = c.out / c.o.groups;
    const auto x = numbers<64>(c.n * c.in * c.h * c.w, 1), w = numbers<64>(c.out * per * c.kh * c.kw, 2),
               b = numbers<64>(c.out, 3);
    const int64_t oh = places(c.h, c.kh, c.o.stride.first, c.o.padding.first, c.o.dilation.first);
    const int64_t ow = places(c.w, c.kw, c.o.stride.second, c.o.padding.second, c.o.dilation.second);
    std::vector<double> want;
    for (int64_t n = 0; n < c.n; n++)
      for (int64_t o = 0; o < c.out; o++)
        for (int64_t i = 0; i < oh; i++)
          for (int64_t j = 0; j < ow; j++) {
            double sum = b[static_cast<size_t>(o)];
            for (int64_t q = 0; q < per; q++)
              for (int64_t r = 0; r < c.kh; r++)
                for (int64_t s = 0; s < c.kw; s++) {
                  const int64_t y = i * c.o.stride.first - c.o.padding.first + r * c.o.dilation.first;
                  const int64_t z = j * c.o.stride.second - c.o.padding.second + s * c.o.dilation.second;
                  if (y < 0 || z < 0 || y >= c.h || z >= c.w) continue;
                  const int64_t channel = o / each * per + q;
                  sum += double{x[static_cast<size_t>(((n * c.in + channel) * c.h + y) * c.w + z)]} *
                         double{w[static_cast<size_t>(((o * per + q) * c.kh + r) * c.kw + s)]};
                }
            want.push_back(sum);
          }
    Context ctx;
    const auto y = Tensor::from(ctx, std::span<const float>(x), {c.n, c.in, c.h, c.w})
                       .conv2d(Tensor::from(ctx, std::span<const float>(w), {c.out, per, c.kh, c.kw}),
                               Tensor::from(ctx, std::span<const float>(b), {c.out}), c.o);
    EXPECT_EQ(y.shape(), (Shape{c.n, c.out, oh, ow}));
    expect_near(y.to_vector<float>(), want, 1e-5);
  }
}

TEST(Conv2d, RefusesWhatDoesNotFit) {
  Context ctx;
  const auto x = Tensor::ones(ctx, {1, 4, 5, 5});
  EXPECT_THROW(x.conv2d(Tensor::ones(ctx, {2, 3, 3, 3})), Error);
  EXPECT_THROW(x.conv2d(Tensor::ones(ctx, {3, 2, 3, 3}), {}, {.groups = 2}), Error);
  EXPECT_THROW(x.conv2d(Tensor::ones(ctx, {2, 4, 6, 3})), Error);
  EXPECT_THROW(x.conv2d(Tensor::ones(ctx, {2, 4, 3, 3}), {}, {.stride = {0, 1}}), Error);
  EXPECT_THROW(x.conv2d(Tensor::ones(ctx, {2, 4, 3, 3}), {}, {.padding = {-1, 0}}), Error);
  EXPECT_THROW(x.conv2d(Tensor::ones(ctx, {2, 4, 3, 3}), Tensor::ones(ctx, {1, 2})), Error);
  try {
    x.conv2d(Tensor::ones(ctx, {2, 4, 3, 3}), Tensor::ones(ctx, {3}));
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::Type);
    EXPECT_NE(std::string(e.what()).find("bias"), std::string::npos) << e.what();
  }
}

TEST(Pool2d, IsTheMeanOrTheLargestOfItsWindows) {
  struct Case {
    int64_t h, w;
    Pool2dOptions o;
  };
  const Case cases[] = {
      {4, 6, {}},
      {5, 7, {.kernel = {2, 3}}},
      {5, 6, {.kernel = {3, 3}, .stride = {{1, 2}}}},
      {6, 6, {.kernel = {3, 2}, .stride = {{2, 2}}, .padding = {1, 1}}},
      {6, 6, {.kernel = {3, 2}, .stride = {{2, 2}}, .padding = {1, 1}, .count_include_pad = false}},
      {9, 8, {.kernel = {2, 3}, .stride = {{2, 1}}, .padding = {1, 1}, .dilation = {3, 2}}},
      {7, 7, {.kernel = {2, 2}, .stride = {{3, 3}}}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(&c - cases);
    const auto [kh, kw] = c.o.kernel;
    const auto [sh, sw] = c.o.stride.value_or(c.o.kernel);
    const int64_t oh = places(c.h, kh, sh, c.o.padding.first, c.o.dilation.first);
    const int64_t ow = places(c.w, kw, sw, c.o.padding.second, c.o.dilation.second);
    std::vector<float> x = numbers<64>(2 * c.h * c.w, 5);
    for (float& v : x) v -= 10;  // padding of 0 would be the largest
    std::vector<double> mean, most;
    for (int64_t n = 0; n < 2; n++)
      for (int64_t i = 0; i < oh; i++)
        for (int64_t j = 0; j < ow; j++) {
          double sum = 0, top = -std::numeric_limits<double>::infinity();
          int64_t inside = 0;
          for (int64_t r = 0; r < kh; r++)
            for (int64_t s = 0; s < kw; s++) {
              const int64_t y = i * sh - c.o.padding.first + r * c.o.dilation.first;
              const int64_t z = j * sw - c.o.padding.second + s * c.o.dilation.second;
              if (y < 0 || z < 0 || y >= c.h || z >= c.w) continue;
              const double v = x[static_cast<size_t>((n * c.h + y) * c.w + z)];
              sum += v, top = std::max(top, v), inside++;
            }
          mean.push_back(sum / static_cast<double>(c.o.count_include_pad ? kh * kw : inside));
          most.push_back(top);
        }
    Context ctx;
    const auto t = Tensor::from(ctx, std::span<const float>(x), {1, 2, c.h, c.w});
    EXPECT_EQ(t.avg_pool2d(c.o).shape(), (Shape{1, 2, oh, ow}));
    expect_near(t.avg_pool2d(c.o).to_vector<float>(), mean, 1e-5);
    expect_near(t.max_pool2d(c.o).to_vector<float>(), most, 0);
  }
}

TEST(Pool2d, AverageOfLargeF16StaysFinite) {
  Context ctx;
  const Pool2dOptions o{.kernel = {3, 3}, .stride = {{1, 1}}, .padding = {1, 1}, .count_include_pad = false};
  const auto y = Tensor::full(ctx, {1, 1, 3, 3}, 30000.0, DType::F16).avg_pool2d(o);
  EXPECT_EQ(y.dtype(), DType::F16);
  for (float v : y.to_vector<float>()) EXPECT_NEAR(v, 30000, 16);
}

TEST(Pool2d, WindowOfPaddingOnly) {
  Context ctx;
  const Pool2dOptions o{.kernel = {1, 1}, .stride = {{1, 1}}, .padding = {1, 1}, .count_include_pad = false};
  const auto x = Tensor::ones(ctx, {1, 1, 1, 1});
  EXPECT_EQ(x.avg_pool2d(o).to_vector<float>(), (std::vector<float>{0, 0, 0, 0, 1, 0, 0, 0, 0}));
  // The largest of no elements would be -inf, whose gradient no element could take.
  EXPECT_EQ(error_of([&] { x.max_pool2d(o); }),
            "max_pool2d: a padding of (1, 1) beside a kernel of (1, 1); at most half of it is right, for a window of "
            "nothing but padding has no largest element");
}

}  // namespace
}  // namespace uopc
