// What OPT >= 1 makes of products, convolutions and maxima: the values are those of a loop in double, for sizes that
// no tile divides, every order of the operands' axes, and every vector width that this machine can run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tensor/numbers.hpp"
#include "uopc/plan.hpp"

namespace uopc {
namespace {

struct Case {
  int64_t batch, m, n, k;
  bool a_turned, b_turned;  // stored (k, m), (n, k)
};

Options options(const char* cpu, int opt) {
  Options o;
  o.cpu = cpu;
  o.opt = opt;
  o.threads = 2;
  return o;
}

class Mapped : public testing::TestWithParam<const char*> {
 protected:
  Context context(int opt = 1) {
    Context ctx(options(GetParam(), opt));
    try {
      Tensor::ones(ctx, {1}).neg().realize();
    } catch (const Error&) {
      return Context(options("", opt));
    }
    return ctx;
  }
};

TEST_P(Mapped, ProductsOfMatrices) {
  const Case cases[] = {{1, 61, 67, 71, false, false}, {1, 61, 67, 71, false, true},  {1, 67, 61, 71, true, false},
                        {1, 61, 67, 71, true, true},   {3, 64, 48, 33, false, true},  {1, 1000, 10, 37, false, true},
                        {1, 5, 300, 211, false, true}, {1, 300, 1, 700, false, true}, {1, 1, 513, 400, false, false},
                        {2, 128, 128, 16, true, false}};
  const Context ctx = context();
  for (const Case& c : cases) {
    SCOPED_TRACE(&c - cases);
    const auto a = numbers<64>(c.batch * c.m * c.k, 1), b = numbers<64>(c.batch * c.k * c.n, 2),
               bias = numbers<64>(c.n, 3);
    Tensor x = tensor(ctx, a, c.a_turned ? Shape{c.batch, c.k, c.m} : Shape{c.batch, c.m, c.k});
    Tensor y = tensor(ctx, b, c.b_turned ? Shape{c.batch, c.n, c.k} : Shape{c.batch, c.k, c.n});
    if (c.a_turned) x = x.transpose();
    if (c.b_turned) y = y.transpose();
    const auto got = (x.matmul(y) + tensor(ctx, bias, {c.n})).relu().to_vector<float>();
    for (int64_t t = 0; t < c.batch; t++)
      for (int64_t i = 0; i < c.m; i++)
        for (int64_t j = 0; j < c.n; j++) {
          double sum = 0, size = 0;
          for (int64_t k = 0; k < c.k; k++) {
            const double p = double{a[static_cast<size_t>(t * c.m * c.k + (c.a_turned ? k * c.m + i : i * c.k + k))]} *
                             double{b[static_cast<size_t>(t * c.n * c.k + (c.b_turned ? j * c.k + k : k * c.n + j))]};
            sum += p;
            size += std::abs(p);
          }
          const double want = std::max(0.0, sum + double{bias[static_cast<size_t>(j)]});
          // A sum of k terms in any order is off by k eps times the sum of their sizes at most.
          ASSERT_NEAR(got[static_cast<size_t>((t * c.m + i) * c.n + j)], want, static_cast<double>(c.k) * 6e-8 * size)
              << t << " " << i << " " << j;
        }
  }
}

TEST_P(Mapped, EqualsThePlainKernels) {
  const auto all = [](const Context& ctx) {
    std::vector<std::vector<float>> out;
    const Tensor x = tensor(ctx, numbers<64>(2 * 5 * 19 * 23, 1), {2, 5, 19, 23});
    const Tensor w = tensor(ctx, numbers<64>(7 * 5 * 9, 2), {7, 5, 3, 3});
    const Tensor half = tensor(ctx, numbers<64>(70 * 80, 3), {70, 80}).to_f16().realize();
    const Tensor ints = Tensor::arange(ctx, 60 * 70).reshape({60, 70}).mod(17).realize();
    Tensor::realize({x, w});
    const Tensor y = x.conv2d(w, {}, {.padding = {1, 1}});
    for (const Tensor& t :
         {y, y.relu().max_pool2d(), x.max({0, 2}), x.max(-1), x.softmax(-1), half.matmul(half.T()).to_f32(),
          ints.matmul(ints.T()).to_f32(), ints.eq(3).any(1).to_f32(), x.mean({0, 1}), x.argmax(3).to_f32(),
          x.conv2d(w, {}, {.stride = {2, 2}}).square().sum().gradient({x})[0]})
      out.push_back(t.to_vector<float>());
    return out;
  };
  const auto plain = all(Context(options("", 0))), mapped = all(context());
  ASSERT_EQ(plain.size(), mapped.size());
  for (size_t i = 0; i < plain.size(); i++) {
    SCOPED_TRACE(i);
    ASSERT_EQ(plain[i].size(), mapped[i].size());
    for (size_t k = 0; k < plain[i].size(); k++)
      ASSERT_NEAR(mapped[i][k], plain[i][k], 2e-5 * std::max(1.f, std::abs(plain[i][k]))) << k;
  }
}
INSTANTIATE_TEST_SUITE_P(Cpus, Mapped, testing::Values("", "x86-64", "x86-64-v3", "x86-64-v4"), [](const auto& info) {
  std::string name = *info.param ? info.param : "host";
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace uopc
