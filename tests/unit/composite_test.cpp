// pad and flip_axis against their definition.
#include <gtest/gtest.h>

#include <limits>

#include "program_text.hpp"
#include "reference_eval.hpp"

namespace uopc {
namespace {

using test::Data;
using Amounts = std::vector<std::pair<int64_t, int64_t>>;

Data numbers(int64_t n, DType d) {
  Data out;
  for (int64_t i = 0; i < n; i++) out.push_back(dtypes::convert(i % 2 ? i : -i - 1, d));
  return out;
}

void expect_padded(const Shape& shape, const Amounts& amounts, DType d) {
  Graph g;
  const Data x = numbers(test::count(shape), d);
  const UOp padded = pad(g.buffer(test::count(shape), d, 0).reshape(shape), amounts);
  Shape wide = shape;
  for (size_t k = 0; k < shape.size(); k++) wide[k] += amounts[k].first + amounts[k].second;
  ASSERT_EQ(padded.shape(), wide);
  Data expected;
  for (int64_t i = 0; i < test::count(wide); i++) {
    Shape at = test::position(i, wide);
    bool inside = true;
    for (size_t k = 0; k < at.size(); k++) {
      at[k] -= amounts[k].first;
      inside = inside && at[k] >= 0 && at[k] < shape[k];
    }
    expected.push_back(inside ? x[static_cast<size_t>(test::flat(at, shape))] : dtypes::convert(0, d));
  }
  EXPECT_EQ(test::run_lowered(padded, {{0, x}}), expected) << to_uir(padded);
}

TEST(Composite, Pad) {
  for (DType d : {DType::F32, DType::I32, DType::Bool, DType::F16}) {
    expect_padded({4}, {{0, 0}}, d);
    expect_padded({4}, {{1, 0}}, d);
    expect_padded({4}, {{0, 3}}, d);
    expect_padded({4}, {{4, 4}}, d);
    expect_padded({2, 3}, {{1, 2}, {0, 1}}, d);
    expect_padded({2, 3}, {{0, 0}, {2, 0}}, d);
    expect_padded({2, 1, 3}, {{1, 1}, {2, 1}, {0, 2}}, d);
    expect_padded({1}, {{100, 37}}, d);
    expect_padded({3, 2}, {{17, 0}, {0, 11}}, d);
    expect_padded({0, 2}, {{1, 2}, {1, 0}}, d);
    expect_padded({0}, {{0, 0}}, d);
    expect_padded({}, {}, d);
  }
}

TEST(Composite, PadOfOneSideIsOneSelect) {
  Graph g;
  const std::pair<int64_t, int64_t> amount{0, 4};
  EXPECT_EQ(render_c_body(as_program(pad(g.buffer(4, DType::F32, 0), {&amount, 1}))),
            R"(void kernel(float* restrict data0, float* restrict data1) {
  for (int ridx0 = 0; ridx0 < 8; ridx0++) {
    float val1 = data0[(ridx0%4)];
    data1[ridx0] = (((ridx0/4)<1)?val1:0.0f);
  }
}
)");
}

TEST(Composite, FlipAxis) {
  for (const auto& [shape, axis] : std::vector<std::pair<Shape, int64_t>>{
           {{5}, 0}, {{1}, 0}, {{2}, 0}, {{0}, 0}, {{3, 4}, 0}, {{3, 4}, 1}, {{2, 3, 4}, 1}, {{2, 0, 3}, 2}}) {
    for (DType d : {DType::F32, DType::I32, DType::Bool, DType::F16}) {
      Graph g;
      const Data x = numbers(test::count(shape), d);
      const UOp flipped = flip_axis(g.buffer(test::count(shape), d, 0).reshape(shape), axis);
      ASSERT_EQ(flipped.shape(), shape);
      Data expected;
      for (int64_t i = 0; i < test::count(shape); i++) {
        Shape at = test::position(i, shape);
        auto& k = at[static_cast<size_t>(axis)];
        k = shape[static_cast<size_t>(axis)] - 1 - k;
        expected.push_back(x[static_cast<size_t>(test::flat(at, shape))]);
      }
      EXPECT_EQ(test::run_lowered(flipped, {{0, x}}), expected) << to_uir(flipped);
    }
  }
}

TEST(Composite, FlipKeepsInfinities) {
  Graph g;
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(test::run_lowered(flip_axis(g.buffer(3, DType::F32, 0), 0), {{0, {inf, 2.0, -inf}}}),
            (Data{-inf, 2.0, inf}));
}

TEST(Composite, Errors) {
  Graph g;
  const UOp x = g.buffer(6, DType::F32, 0).reshape({2, 3});
  const auto pad_error = [&](const Amounts& a) { return test::error_of([&] { pad(x, a); }); };
  EXPECT_EQ(pad_error({{1, 1}}), "UOpError: pad of shape (2, 3) takes one (before, after) pair an axis, got 1");
  EXPECT_EQ(pad_error({{1, 1}, {0, -1}}), "UOpError: pad of axis 1 by a negative amount: (0, -1)");
  EXPECT_EQ(pad_error({{INT32_MAX, 1}, {0, 0}}), "UOpError: pad of axis 0 by (2147483647, 1): an index exceeds i32");
  EXPECT_EQ(test::error_of([&] { flip_axis(x, 2); }), "UOpError: flip of axis 2 of shape (2, 3)");
}

}  // namespace
}  // namespace uopc
