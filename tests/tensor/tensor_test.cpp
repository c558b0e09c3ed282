// Tensors: values against plain loops, the kernels they become, assignment, capture.
#include "uopc/tensor.hpp"
#include "uopc/capture.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "error_of.hpp"
#include "golden.hpp"
#include "tensor/random_floats.hpp"
#include "uopc/passes.hpp"
#include "uopc/plan.hpp"

namespace uopc {
namespace {

using Floats = std::vector<float>;

Options plain() {
  Options o;
  o.opt = 0;
  return o;
}

void expect_near(const Floats& got, const std::vector<double>& want, double relative = 1e-5) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); i++)
    EXPECT_NEAR(got[i], want[i], relative * std::max(1.0, std::abs(want[i]))) << i;
}

TEST(Tensor, SoftmaxIsTheAppendixsThreeKernels) {
  std::string text;
  Options o = plain();
  o.debug = 4;
  o.log = [&](std::string_view line) { text += std::string(line) + "\n"; };
  Context ctx(o);
  const Tensor y = Tensor::arange(ctx, 12).cast(DType::F32).reshape({3, 4}).realize().softmax(-1);
  text.clear();
  std::vector<double> want;
  const double sum = 1 + std::exp(-1) + std::exp(-2) + std::exp(-3);
  for (int r = 0; r < 3; r++)
    for (int k = 3; k >= 0; k--) want.push_back(std::exp(-k) / sum);
  expect_near(y.to_vector<float>(), want);
  const auto c = golden::read("softmax_3x4_opt0");
  std::string kernels;
  std::istringstream lines(text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    inside = inside || line.starts_with("void ");
    if (inside) kernels += line + "\n";
    if (line == "}") inside = false;
  }
  EXPECT_EQ(kernels, c.at("kernels"));
}

TEST(Tensor, KernelCounts) {
  Context ctx(plain());
  const auto kernels = [&](const Tensor& t) {
    const int64_t before = ctx.stats().kernels_run;
    t.realize();
    return ctx.stats().kernels_run - before;
  };
  const Tensor x = Tensor::from(ctx, random_floats(32, 1), {4, 8}), w = Tensor::from(ctx, random_floats(64, 2), {8, 8}),
               b = Tensor::zeros(ctx, {8});
  EXPECT_EQ(kernels(x.softmax(-1)), 3);
  EXPECT_LE(kernels(x.layer_norm()), 4);
  EXPECT_LE(kernels(x.linear(w, b).relu().linear(w, b).relu()), 4);
}

TEST(Tensor, ElementwiseAgainstTheC_Library) {
  Context ctx;
  const Floats v = {-100, -3.5f, -2.5f, -1, -0.5f, -0.0f, 0, 0.25f, 0.5f, 1.5f, 2.5f, 3, 20, 100};
  const Tensor x = Tensor::from(ctx, std::span<const float>(v), {14});
  const auto check = [&](const char* name, const Tensor& t, const std::function<double(double)>& f, double tolerance) {
    SCOPED_TRACE(name);
    std::vector<double> want;
    for (float each : v) want.push_back(f(each));
    expect_near(t.to_vector<float>(), want, tolerance);
  };
  check(
      "tanh", x.tanh(), [](double a) { return std::tanh(a); }, 1e-6);
  check(
      "sigmoid", x.sigmoid(), [](double a) { return 1 / (1 + std::exp(-a)); }, 1e-6);
  check(
      "softplus", x.softplus(), [](double a) { return a > 30 ? a : std::log1p(std::exp(a)); }, 1e-6);
  check(
      "relu", x.relu(), [](double a) { return a > 0 ? a : 0; }, 0);
  check(
      "floor", x.floor(), [](double a) { return std::floor(a); }, 0);
  check(
      "ceil", x.ceil(), [](double a) { return std::ceil(a); }, 0);
  check(
      "round", x.round(), [](double a) { return std::nearbyint(a); }, 0);
  check(
      "trunc", x.trunc(), [](double a) { return std::trunc(a); }, 0);
  check(
      "abs", x.abs(), [](double a) { return std::abs(a); }, 0);
  for (float zero : {0.0f, -0.0f})
    EXPECT_FALSE(std::signbit(Tensor::scalar(ctx, zero).abs().item<float>())) << std::signbit(zero);
  check(
      "sin", x.sin(), [](double a) { return std::sin(a); }, 1e-6);
  check(
      "cos", x.cos(), [](double a) { return std::cos(a); }, 2e-5);
  check(
      "cube", x.pow(3), [](double a) { return a * a * a; }, 1e-6);
  check(
      "pow", x.pow(Tensor::full(ctx, {14}, 2.0)), [](double a) { return a * a; }, 1e-5);
  check(
      "clamp", x.clamp(-1, 2.0), [](double a) { return std::clamp(a, -1.0, 2.0); }, 0);
  EXPECT_TRUE(std::isnan(x.log().to_vector<float>()[0]));
}

TEST(Tensor, MovementIsNumPys) {
  Context ctx;
  const Tensor x = Tensor::arange(ctx, 24).reshape({2, 3, 4});
  using Ints = std::vector<int32_t>;
  EXPECT_EQ(x.at({1, Slice{{}, {}, -1}, Slice{1, {}, 2}}).to_vector<int32_t>(), (Ints{21, 23, 17, 19, 13, 15}));
  EXPECT_EQ(x.at({kEllipsis, -1}).to_vector<int32_t>(), (Ints{3, 7, 11, 15, 19, 23}));
  EXPECT_EQ(x.at({Slice{}, Slice{-2, 99}}).shape(), (Shape{2, 2, 4}));
  EXPECT_EQ(x.at({Slice{5, 2}}).shape(), (Shape{0, 3, 4}));
  EXPECT_EQ(x.transpose(0, -1).at({0}).to_vector<int32_t>(), (Ints{0, 12, 4, 16, 8, 20}));
  EXPECT_EQ(x[0][1].roll(1, 0).to_vector<int32_t>(), (Ints{7, 4, 5, 6}));
  EXPECT_EQ(x[0][0].repeat({2}).to_vector<int32_t>(), (Ints{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(x[0][0].pad({{1, -1}}, 9).to_vector<int32_t>(), (Ints{9, 0, 1, 2}));
  EXPECT_EQ(Tensor::cat({x[0][0], x[0][1].narrow(0, 0, 1), x[1][2]}).to_vector<int32_t>(),
            (Ints{0, 1, 2, 3, 4, 20, 21, 22, 23}));
  const Floats zero = Tensor::cat({Tensor::from(ctx, {-0.0f}), Tensor::from(ctx, {NAN, 1.f})}).to_vector<float>();
  EXPECT_TRUE(std::signbit(zero[0]));
  EXPECT_TRUE(std::isnan(zero[1]));
  EXPECT_EQ(x[0].narrow(1, 0, 3).tril().to_vector<int32_t>(), (Ints{0, 0, 0, 4, 5, 0, 8, 9, 10}));
  EXPECT_EQ(Tensor::stack({x[0][0], x[1][0]}, 1).to_vector<int32_t>(), (Ints{0, 12, 1, 13, 2, 14, 3, 15}));
  EXPECT_EQ(error_of([&] { x.reshape({5, -1}); }), "reshape of (2, 3, 4) to (5, -1): 24 elements do not divide");
  EXPECT_EQ(error_of([&] { x + Tensor::zeros(ctx, {3}); }), "add: can't broadcast (2, 3, 4) with (3,)");
}

TEST(Tensor, ReductionsOverAnyAxes) {
  Context ctx;
  const Floats v = random_floats(2 * 3 * 5, 3);
  const Tensor x = Tensor::from(ctx, std::span<const float>(v), {2, 3, 5});
  std::vector<double> sum(3, 0), most(3, -INFINITY);
  for (int a = 0; a < 2; a++)
    for (int b = 0; b < 3; b++)
      for (int c = 0; c < 5; c++) {
        sum[b] += v[(a * 3 + b) * 5 + c];
        most[b] = std::max<double>(most[b], v[(a * 3 + b) * 5 + c]);
      }
  expect_near(x.sum({0, -1}).to_vector<float>(), sum);
  expect_near(x.max({0, 2}).to_vector<float>(), most);
  EXPECT_EQ(x.sum(1, true).shape(), (Shape{2, 1, 5}));
  EXPECT_EQ(Tensor::from(ctx, {3.f, 7.f, 7.f, 1.f}).argmax().item<int>(), 1);
  EXPECT_EQ(Tensor::from(ctx, {3.f, 7.f, 1.f, 1.f}).argmin().item<int>(), 2);
  EXPECT_EQ(Tensor::zeros(ctx, {0, 4}).max(1).shape(), (Shape{0}));
  EXPECT_EQ(Tensor::zeros(ctx, {2, 0}).sum(1).to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(Tensor::full(ctx, {3}, 40000, DType::F16).mean().item<float>(), 40000);
  EXPECT_EQ(Tensor::ones(ctx, {4096}, DType::F16).sum().item<float>(), 4096);
  expect_near(Tensor::from(ctx, {1.f, 2.f, 4.f}).var().to_vector<float>(), {7.0 / 3});
  EXPECT_EQ(Tensor::arange(ctx, 5).cumsum().to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 3, 6, 10}));
  EXPECT_EQ(Tensor::from(ctx, {-INFINITY, -INFINITY}).logsumexp().item<float>(), -INFINITY);
}

TEST(Tensor, MatmulAndConvolutionAgainstLoops) {
  Context ctx;
  const Floats a = random_floats(2 * 3 * 5, 4), b = random_floats(5 * 4, 5);
  std::vector<double> want;
  for (int n = 0; n < 2; n++)
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 4; j++) {
        double s = 0;
        for (int k = 0; k < 5; k++) s += double(a[(n * 3 + i) * 5 + k]) * b[k * 4 + j];
        want.push_back(s);
      }
  const Tensor x = Tensor::from(ctx, std::span<const float>(a), {2, 3, 5}),
               y = Tensor::from(ctx, std::span<const float>(b), {5, 4});
  expect_near(x.matmul(y).to_vector<float>(), want);
  EXPECT_EQ(x[0][0].matmul(y).shape(), (Shape{4}));
  EXPECT_EQ(y.T().matmul(x[0][0]).shape(), (Shape{4}));
  EXPECT_EQ(x[0][0].matmul(x[0][1]).shape(), (Shape{}));

  const Floats in = random_floats(2 * 4 * 7 * 6, 6), w = random_floats(6 * 2 * 3 * 2, 7);
  for (const Conv2dOptions& o : {Conv2dOptions{.groups = 2}, Conv2dOptions{{2, 1}, {1, 2}, {1, 1}, 2},
                                 Conv2dOptions{{2, 3}, {2, 1}, {2, 2}, 2}, Conv2dOptions{{3, 2}, {0, 0}, {1, 1}, 2}}) {
    const int64_t oh = (7 + 2 * o.padding.first - o.dilation.first * 2 - 1) / o.stride.first + 1;
    const int64_t ow = (6 + 2 * o.padding.second - o.dilation.second - 1) / o.stride.second + 1;
    std::vector<double> out;
    for (int n = 0; n < 2; n++)
      for (int c = 0; c < 6; c++)
        for (int64_t i = 0; i < oh; i++)
          for (int64_t j = 0; j < ow; j++) {
            double s = 0;
            for (int k = 0; k < 2; k++)
              for (int p = 0; p < 3; p++)
                for (int q = 0; q < 2; q++) {
                  const int64_t r = i * o.stride.first - o.padding.first + p * o.dilation.first;
                  const int64_t t = j * o.stride.second - o.padding.second + q * o.dilation.second;
                  if (r < 0 || r >= 7 || t < 0 || t >= 6) continue;
                  s += double(in[((n * 4 + c / 3 * 2 + k) * 7 + r) * 6 + t]) * w[((c * 2 + k) * 3 + p) * 2 + q];
                }
            out.push_back(s);
          }
    const Tensor y2 = Tensor::from(ctx, std::span<const float>(in), {2, 4, 7, 6})
                          .conv2d(Tensor::from(ctx, std::span<const float>(w), {6, 2, 3, 2}), {}, o);
    EXPECT_EQ(y2.shape(), (Shape{2, 6, oh, ow}));
    expect_near(y2.to_vector<float>(), out);
  }
  const Tensor image = Tensor::arange(ctx, 16).cast(DType::F32).reshape({1, 1, 4, 4});
  EXPECT_EQ(image.max_pool2d().to_vector<float>(), (Floats{5, 7, 13, 15}));
  EXPECT_EQ(image.max_pool2d({.kernel = {3, 3}, .stride = {{1, 1}}}).to_vector<float>(), (Floats{10, 11, 14, 15}));
  EXPECT_EQ(image.neg().max_pool2d({.kernel = {2, 2}, .padding = {1, 1}}).to_vector<float>()[0], 0);
  EXPECT_EQ(image.avg_pool2d().to_vector<float>(), (Floats{2.5, 4.5, 10.5, 12.5}));
}

TEST(Tensor, Lookups) {
  Context ctx;
  const Tensor w = Tensor::arange(ctx, 12).cast(DType::F32).reshape({4, 3});
  const Tensor i = Tensor::from(ctx, {2, 0, 7});
  EXPECT_EQ(Tensor::embedding(w, i).to_vector<float>(), (Floats{6, 7, 8, 0, 1, 2, 0, 0, 0}));
  EXPECT_EQ(w.index_select(1, Tensor::from(ctx, {2, 1})).to_vector<float>(), (Floats{2, 1, 5, 4, 8, 7, 11, 10}));
  EXPECT_EQ(w.gather(0, Tensor::from(ctx, {3, 1, 0}).reshape({1, 3})).to_vector<float>(), (Floats{9, 4, 2}));
  EXPECT_EQ(w.gather(1, Tensor::from(ctx, {1, 0, 2, 2}).reshape({4, 1})).to_vector<float>(), (Floats{1, 3, 8, 11}));
  EXPECT_EQ(i.one_hot(3).to_vector<float>(), (Floats{0, 0, 1, 1, 0, 0, 0, 0, 0}));
}

TEST(Tensor, AttentionSeesTheMask) {
  Context ctx;
  const Floats a = random_floats(2 * 3 * 4, 8);
  const Tensor q = Tensor::from(ctx, std::span<const float>(a), {2, 3, 4});
  const Tensor causal = Tensor::scaled_dot_product_attention(q, q, q, {}, true);
  const Tensor masked = Tensor::scaled_dot_product_attention(q, q, q, Tensor::causal_mask(ctx, 3, 3));
  const Floats x = causal.to_vector<float>();
  expect_near(masked.to_vector<float>(), {x.begin(), x.end()});
  for (int k = 0; k < 4; k++) EXPECT_FLOAT_EQ(x[k], a[k]);
  const Tensor none = Tensor::scaled_dot_product_attention(q, q, q, Tensor::zeros(ctx, {3, 3}, DType::Bool));
  for (float v : none.to_vector<float>()) EXPECT_EQ(v, 0);
}

TEST(Tensor, RandomNumbersAreSpreadAndRepeatable) {
  Context a, b;
  const Floats u = Tensor::rand(a, {100000}).to_vector<float>();
  EXPECT_EQ(u, Tensor::rand(b, {100000}).to_vector<float>());
  const Floats v = Tensor::rand(a, {100000}).to_vector<float>();
  EXPECT_NE(u, v);
  double mean = 0, square = 0, neighbour = 0, across = 0;
  std::vector<int> buckets(256, 0);
  for (size_t i = 0; i < u.size(); i++) {
    ASSERT_GE(u[i], 0);
    ASSERT_LT(u[i], 1);
    mean += u[i];
    square += (u[i] - 0.5) * (u[i] - 0.5);
    neighbour += (u[i] - 0.5) * (u[(i + 1) % u.size()] - 0.5);
    across += (u[i] - 0.5) * (v[i] - 0.5);
    buckets[static_cast<size_t>(u[i] * 256)]++;
  }
  const double n = 1e5, sigma = 1 / std::sqrt(12 * n);
  EXPECT_NEAR(mean / n, 0.5, 4 * sigma);
  EXPECT_NEAR(square / n, 1.0 / 12, 0.002);
  EXPECT_NEAR(neighbour / n, 0, 4.0 / 12 / std::sqrt(n));
  EXPECT_NEAR(across / n, 0, 4.0 / 12 / std::sqrt(n));
  double chi = 0;
  for (int c : buckets) chi += (c - n / 256) * (c - n / 256) / (n / 256);
  EXPECT_NEAR(chi, 255, 5 * std::sqrt(2 * 255.0));
  double m = 0, s = 0;
  for (float x : Tensor::randn(a, {100000}).to_vector<float>()) {
    ASSERT_TRUE(std::isfinite(x));
    m += x;
    s += double(x) * x;
  }
  EXPECT_NEAR(m / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(s / n, 1, 0.02);
  for (int32_t x : Tensor::randint(a, {1000}, -3, 4).to_vector<int32_t>()) EXPECT_TRUE(x >= -3 && x < 4);
}

TEST(Assign, WorksInPlaceAndKeepsOldValues) {
  Context ctx;
  Tensor x = Tensor::from(ctx, {1.f, 2.f, 3.f});
  const void* memory = x.bytes().data();
  x.assign(x + 1).realize();
  EXPECT_EQ(x.to_vector<float>(), (Floats{2, 3, 4}));
  EXPECT_EQ(x.bytes().data(), memory);
  x.assign(x.flip()).realize();
  EXPECT_EQ(x.to_vector<float>(), (Floats{4, 3, 2}));
  EXPECT_EQ(x.bytes().data(), memory);
  const Tensor y = x * 10;
  x.assign(x - 1).realize();
  EXPECT_EQ(x.to_vector<float>(), (Floats{3, 2, 1}));
  EXPECT_EQ(y.to_vector<float>(), (Floats{40, 30, 20}));
}

TEST(Assign, OfViewsChangesWhatTheyAreViewsOf) {
  Context ctx;
  Tensor x = Tensor::from(ctx, {0.f, 1.f, 2.f, 3.f, 4.f});
  x.narrow(0, 1, 4).assign(x.narrow(0, 0, 4));
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 0, 1, 2, 3}));
  x.narrow(0, 0, 4).assign(x.narrow(0, 1, 4));
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 1, 2, 3, 3}));
  Tensor m = Tensor::zeros(ctx, {3, 3});
  m.T()[1].assign(Tensor::from(ctx, {1.f, 2.f, 3.f}));
  EXPECT_EQ(m.to_vector<float>(), (Floats{0, 1, 0, 0, 2, 0, 0, 3, 0}));
  EXPECT_EQ(error_of([&] {
              m.expand({2, 3, 3}).assign(Tensor::zeros(ctx, {2, 3, 3}));
            }),
            "assign: the tensor is a view through EXPAND; assign to what it is made of");
}

TEST(Assign, SwapsTwoTensors) {
  Context ctx;
  Tensor a = Tensor::from(ctx, {1.f, 2.f}), b = Tensor::from(ctx, {3.f, 4.f});
  const Tensor old = a * 1;
  a.assign(b + 0.5);
  b.assign(old);
  Tensor::realize({a, b});
  EXPECT_EQ(a.to_vector<float>(), (Floats{3.5, 4.5}));
  EXPECT_EQ(b.to_vector<float>(), (Floats{1, 2}));
}

TEST(Write, IsNotSeenByWhatWasBuiltBefore) {
  Context ctx;
  Tensor x = Tensor::from(ctx, {1.f, 2.f});
  const Tensor y = x + 0.5;
  const Floats v = {7, 8};
  x.write(std::span<const float>(v));
  EXPECT_EQ(y.to_vector<float>(), (Floats{1.5, 2.5}));
  EXPECT_EQ(x.to_vector<float>(), v);
}

TEST(Gradient, OfOrdinaryExpressions) {
  Context ctx;
  const Tensor x = Tensor::from(ctx, {1.f, 2.f, 3.f});
  EXPECT_EQ((x * x.detach()).sum().gradient({x})[0].to_vector<float>(), (Floats{1, 2, 3}));
  EXPECT_EQ(Tensor::from(ctx, {2.f, 2.f, 1.f}).max().gradient({x})[0].to_vector<float>(), (Floats{0, 0, 0}));
  const Tensor a = Tensor::zeros(ctx, {2}), b = Tensor::zeros(ctx, {2});
  EXPECT_EQ((a * 2 + b * 3).sum().gradient({a, b})[1].to_vector<float>(), (Floats{3, 3}));
  const Tensor y = x.square();
  const Tensor loss = (y * 2).sum();
  y.realize();
  EXPECT_EQ(loss.gradient({x})[0].to_vector<float>(), (Floats{4, 8, 12}));
  EXPECT_EQ(loss.gradient({y})[0].to_vector<float>(), (Floats{2, 2, 2}));
  const Tensor done = (x * 2).sum();
  done.realize();
  EXPECT_EQ(error_of([&] { done.gradient({x}); }),
            "gradient: the tensor has been computed, and how is not kept; take the gradient before realize or item");
}

// Central differences of f32: the step is 2^-7, so that its rounding errors and those of the values stay near 1e-3.
TEST(Gradient, OfNetsAgainstDifferences) {
  Context ctx;
  const auto check = [&](const char* name, Shape shape, const std::function<Tensor(const Tensor&)>& f) {
    SCOPED_TRACE(name);
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    Floats v = random_floats(static_cast<size_t>(n), 11, 0.2f, 0.9f);
    const auto value = [&](const Floats& at) {
      return f(Tensor::from(ctx, std::span<const float>(at), shape)).item<double>();
    };
    const Tensor x = Tensor::from(ctx, std::span<const float>(v), shape);
    const Floats g = f(x).gradient({x})[0].to_vector<float>();
    for (size_t i = 0; i < v.size(); i++) {
      constexpr float kStep = 1.0f / 128;
      Floats up = v, down = v;
      up[i] += kStep;
      down[i] -= kStep;
      EXPECT_NEAR(g[i], (value(up) - value(down)) / (2 * kStep), 1e-2) << i;
    }
  };
  const Tensor w = Tensor::from(ctx, random_floats(6 * 4, 12), {6, 4});
  const Tensor k = Tensor::from(ctx, random_floats(2 * 2 * 3 * 3, 13), {2, 2, 3, 3});
  const Tensor labels = Tensor::from(ctx, {1, 3, 0});
  check("linear", {3, 4}, [&](const Tensor& x) { return x.linear(w).tanh().sum(); });
  check("cross_entropy", {3, 4}, [&](const Tensor& x) { return x.cross_entropy(labels); });
  check("layer_norm", {2, 5}, [&](const Tensor& x) { return (x.layer_norm() * x).sum(); });
  check("gelu", {7}, [&](const Tensor& x) { return x.gelu().square().sum(); });
  check("softmax", {2, 4}, [&](const Tensor& x) { return (x.softmax(-1) * x).sum(); });
  check("conv2d", {1, 2, 5, 4}, [&](const Tensor& x) {
    return x.conv2d(k, {}, {{2, 1}, {1, 1}, {1, 1}, 1}).square().mean();
  });
  check("pool", {1, 1, 4, 5}, [&](const Tensor& x) {
    return x.avg_pool2d({.kernel = {3, 2}, .stride = {{1, 2}}}).square().sum();
  });
  check("embedding", {4, 2}, [&](const Tensor& x) { return Tensor::embedding(x, labels).square().sum(); });
  check("attention", {3, 2},
        [&](const Tensor& x) { return Tensor::scaled_dot_product_attention(x, x * 2, x, {}, true).square().sum(); });
  check("pad and cat", {2, 3}, [&](const Tensor& x) {
    return Tensor::cat({x.pad({{1, 0}, {0, 2}}).T(), x.square().pad({{1, 0}, {0, 2}}).T()}).pow(3).sum();
  });
}

TEST(Plans, ASecondStepCompilesNothingAndMemoryIsFlat) {
  Context ctx;
  Tensor w = Tensor::from(ctx, random_floats(64, 1), {8, 8});
  const void* memory = w.bytes().data();
  Context::Stats warm;
  for (int step = 0; step < 2000; step++) {
    const Tensor x = Tensor::from(ctx, random_floats(32, static_cast<uint64_t>(step)), {4, 8});
    const Tensor loss = x.matmul(w).tanh().square().mean();
    const Tensor g = loss.gradient({w})[0];
    w.assign(w - g * 0.1);
    Tensor::realize({w, loss, g});
    if (step == 1500) warm = ctx.stats();
  }
  EXPECT_EQ(w.bytes().data(), memory);
  const auto s = ctx.stats();
  EXPECT_EQ(s.plans_made, 1);
  EXPECT_EQ(s.kernels_compiled, warm.kernels_compiled);
  EXPECT_EQ(s.live_bytes + s.pooled_bytes, warm.live_bytes + warm.pooled_bytes);
  EXPECT_LT(s.graph_nodes, 200000);
}

TEST(Capture, ReplaysWithOtherInputsAndTheSameMemory) {
  Context ctx;
  Tensor w = Tensor::from(ctx, {1.f, 1.f});
  Capture step([&](std::span<const Tensor> in) {
    w.assign(w + in[0]).realize();
    return std::vector<Tensor>{(w * 2).sum()};
  });
  Tensor x = Tensor::from(ctx, {1.f, 2.f});
  for (int i = 0; i < 5; i++) {
    const Floats v = {static_cast<float>(i), 1};
    x.write(std::span<const float>(v));
    const float got = step({x})[0].item<float>();
    EXPECT_EQ(got, 2.0f * (static_cast<float>(i * (i + 1) / 2 + 1) + static_cast<float>(i + 2))) << i;
  }
  EXPECT_TRUE(step.recorded());
  EXPECT_EQ(error_of([&] { step({Tensor::zeros(ctx, {3})}); }),
            "Capture: input 0 is dtypes.f32(3,), recorded with dtypes.f32(2,)");
}

TEST(Capture, DrawsRandomNumbersAnew) {
  Context ctx;
  Capture draw([&](std::span<const Tensor>) { return std::vector<Tensor>{Tensor::rand(ctx, {4})}; });
  std::vector<Floats> seen;
  for (int i = 0; i < 5; i++) seen.push_back(draw({})[0].to_vector<float>());
  for (size_t i = 1; i < seen.size(); i++) EXPECT_NE(seen[i], seen[i - 1]);
}

TEST(Contexts, DoNotMixAndShareAnEngine) {
  const auto engine = std::make_shared<Engine>();
  Context a(engine), b(engine);
  EXPECT_EQ(error_of([&] { Tensor::zeros(a, {2}) + Tensor::zeros(b, {2}); }),
            "add: the tensors belong to two Contexts");
  std::vector<std::thread> threads;
  std::vector<float> sums(4);
  for (size_t t = 0; t < sums.size(); t++)
    threads.emplace_back([&, t] {
      Context ctx(engine);
      Tensor x = Tensor::ones(ctx, {100});
      for (int i = 0; i < 50; i++) x.assign(x + static_cast<double>(t)).realize();
      sums[t] = x.sum().item<float>();
    });
  for (auto& t : threads) t.join();
  for (size_t t = 0; t < sums.size(); t++) EXPECT_EQ(sums[t], 100.0f * (1 + 50.0f * static_cast<float>(t)));
}

TEST(Tensors, OutliveTheirContextAndDieInLongChains) {
  Tensor x;
  {
    Context ctx;
    x = Tensor::ones(ctx, {2});
  }
  for (int i = 0; i < 200000; i++) x = x + 1;
  x = Tensor();
}

}  // namespace
}  // namespace uopc
