// Chains of operations along rows, which are one kernel from level 1 on: equal to the reference's kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tensor/numbers.hpp"
#include "uopc/capture.hpp"
#include "uopc/context.hpp"

namespace uopc {
namespace {

using Function = std::function<Tensor(std::span<const Tensor>)>;

std::vector<float> values(int opt, int threads, const std::vector<Shape>& shapes, const Function& f) {
  Options o;
  o.opt = opt;
  o.threads = threads;
  Context ctx(o);
  std::vector<Tensor> in;
  for (const Shape& s : shapes) {
    int64_t n = 1;
    for (int64_t d : s) n *= d;
    in.push_back(tensor(ctx, numbers<64>(n, std::ssize(in) + 1), s));
  }
  return f(in).to_vector<float>();
}

// Sums are made in another order, of up to 600 elements here.
void expect_same(const std::vector<Shape>& shapes, const Function& f) {
  SCOPED_TRACE(testing::PrintToString(shapes));
  const std::vector<float> plain = values(0, 1, shapes, f);
  for (int threads : {1, 2, 3}) {
    const std::vector<float> rows = values(2, threads, shapes, f);
    ASSERT_EQ(rows.size(), plain.size());
    for (size_t i = 0; i < rows.size(); i++)
      ASSERT_NEAR(rows[i], plain[i], 1e-5 * (1 + std::abs(plain[i]))) << i << ", " << threads << " threads";
  }
}

const Shape kShapes[] = {{1, 1},   {3, 4},     {7, 1},     {1, 600},     {65, 64},        {64, 65},
                         {127, 3}, {131, 509}, {600, 600}, {2, 3, 67},   {1, 5, 1, 70},   {3, 1, 129},
                         {0, 5},   {5, 0},     {2, 0, 3},  {4, 33, 129}, {2, 2, 65, 130}, {8, 16, 16}};

TEST(Rows, Softmax) {
  for (const Shape& s : kShapes) expect_same({s}, [](auto x) { return x[0].softmax(-1); });
}
TEST(Rows, LogSoftmaxOfOtherAxes) {
  for (const Shape& s : kShapes) expect_same({s}, [](auto x) { return x[0].log_softmax(0); });
}
TEST(Rows, LayerNorm) {
  for (const Shape& s : kShapes) expect_same({s, {s.back()}}, [](auto x) { return x[0].layer_norm() * x[1]; });
}
TEST(Rows, NormsOfASumThatIsUsedAgain) {
  for (const Shape& s : kShapes)
    expect_same({s, s}, [](auto x) {
      const Tensor y = x[0] + x[1].exp();
      return y + y.rms_norm().softmax(-1);
    });
}
TEST(Rows, OfAProduct) {
  for (const auto& [m, k, n] : {std::tuple{1, 5, 7}, {67, 33, 65}, {130, 64, 128}, {129, 1, 66}, {7, 600, 1}})
    expect_same({{m, k}, {k, n}, {m, n}}, [](auto x) { return (x[0].matmul(x[1]) + x[2]).layer_norm(); });
}
TEST(Rows, Attention) {
  for (const auto& [t, s, d] :
       {std::tuple{1, 1, 1}, {3, 4, 5}, {64, 64, 16}, {65, 65, 64}, {131, 67, 33}, {200, 200, 64}})
    for (const bool causal : {false, true})
      expect_same({{2, 3, t, d}, {2, 3, s, d}, {2, 3, s, d}},
                  [causal](auto x) { return Tensor::scaled_dot_product_attention(x[0], x[1], x[2], {}, causal); });
}
TEST(Rows, AttentionAndWhatItsGradientReads) {
  for (int64_t t : {5, 66})
    expect_same({{2, t, 16}, {2, t, 16}, {2, t, 16}}, [](auto x) {
      const Tensor y = Tensor::scaled_dot_product_attention(x[0], x[1], x[2], {}, true);
      const std::vector<Tensor> all = (y * y).sum().gradient(x);
      return Tensor::stack({y, all[0], all[1], all[2]});
    });
}

TEST(Rows, OfNaNAndInfinityAreTheirOwn) {
  Context ctx;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x(4 * 70, 1);
  x[3] = kNaN, x[70 + 69] = kInf, x[140] = -kInf;
  const std::vector<float> y = tensor(ctx, x, {4, 70}).softmax(-1).to_vector<float>();
  for (size_t i = 0; i < 70; i++) {
    EXPECT_TRUE(std::isnan(y[i])) << i;
    EXPECT_TRUE(std::isnan(y[70 + i])) << i;
    EXPECT_NEAR(y[140 + i], i == 0 ? 0.0 : 1.0 / 69, 1e-8) << i;
    EXPECT_NEAR(y[210 + i], 1.0 / 70, 1e-8) << i;
  }
}

TEST(Rows, OfAnAssignmentReadTheOldValue) {
  for (int opt : {0, 2}) {
    Options o;
    o.opt = opt;
    Context ctx(o);
    Tensor x = tensor(ctx, numbers<64>(60 * 70, 1), {60, 70});
    x.realize();
    const std::vector<float> wanted = x.softmax(-1).to_vector<float>();
    x.assign(x.softmax(-1));
    const std::vector<float> got = x.to_vector<float>();
    for (size_t i = 0; i < got.size(); i++) ASSERT_NEAR(got[i], wanted[i], 1e-6 * wanted[i]) << i << ", opt " << opt;
  }
}

// Scores of 2048 x 2048 would be 16 MiB.
TEST(Rows, OfAttentionAreNotKept) {
  Options o;
  o.threads = 1;
  Context ctx(o);
  constexpr int64_t kT = 2048, kD = 16;
  const auto in = [&](int64_t seed) { return tensor(ctx, numbers<64>(kT * kD, seed), {1, kT, kD}).realize(); };
  const Tensor q = in(1), k = in(2), v = in(3);
  const Tensor y = Tensor::scaled_dot_product_attention(q, k, v).realize();
  EXPECT_LT(ctx.stats().live_bytes + ctx.stats().pooled_bytes, 4 << 20);
}

}  // namespace
}  // namespace uopc
