// Movement against plain loops over indices: Python's slices, padding, joins of special values, empty and size-1 axes,
// what `assign` goes back through, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "error_of.hpp"
#include "uopc/tensor.hpp"

namespace uopc {
namespace {

using Ints = std::vector<int32_t>;

// The places of Python's range(n)[begin:end:step], by walking it.
Ints python_slice(int64_t n, const Slice& s) {
  Ints out;
  const auto resolved = [&](int64_t v) { return v < 0 ? v + n : v; };
  if (s.step > 0) {
    const int64_t end = s.end ? std::min(resolved(*s.end), n) : n;
    for (int64_t i = s.begin ? std::max<int64_t>(resolved(*s.begin), 0) : 0; i < end; i += s.step)
      out.push_back(static_cast<int32_t>(i));
  } else {
    const int64_t end = s.end ? std::max<int64_t>(resolved(*s.end), -1) : -1;
    for (int64_t i = s.begin ? std::min(resolved(*s.begin), n - 1) : n - 1; i > end; i += s.step)
      out.push_back(static_cast<int32_t>(i));
  }
  return out;
}

TEST(Movement, EverySliceOfShortAxes) {
  Context ctx;
  const std::vector<std::optional<int64_t>> ends = {{}, -99, -4, -1, 0, 1, 3, 4, 99};
  for (int64_t n : {0, 1, 4, 5}) {
    std::vector<Tensor> got;
    std::vector<Ints> want;
    const Tensor x = Tensor::arange(ctx, n);
    for (auto begin : ends)
      for (auto end : ends)
        for (int64_t step : {1, 2, 3, 7, -1, -2, -3, -7}) {
          const Slice s{begin, end, step};
          got.push_back(x.at({s}));
          want.push_back(python_slice(n, s));
          ASSERT_EQ(got.back().numel(), static_cast<int64_t>(want.back().size())) << n << " " << step;
        }
    const Tensor all = Tensor::cat(got);
    Ints joined;
    for (const Ints& w : want) joined.insert(joined.end(), w.begin(), w.end());
    EXPECT_EQ(all.to_vector<int32_t>(), joined) << n;
  }
}

TEST(Movement, SlicesOfExtremeNumbers) {
  Context ctx;
  const Tensor x = Tensor::arange(ctx, 5);
  EXPECT_EQ(x.at({Slice{1, {}, INT64_MAX}}).to_vector<int32_t>(), (Ints{1}));
  EXPECT_EQ(x.at({Slice{{}, {}, INT64_MIN}}).to_vector<int32_t>(), (Ints{4}));
  EXPECT_EQ(x.at({Slice{INT64_MIN, INT64_MAX}}).to_vector<int32_t>(), (Ints{0, 1, 2, 3, 4}));
  EXPECT_EQ(x.at({Slice{INT64_MAX, INT64_MIN, -2}}).to_vector<int32_t>(), (Ints{4, 2, 0}));
}

TEST(Movement, PlacesOfSeveralAxes) {
  Context ctx;
  const Tensor x = Tensor::arange(ctx, 24).reshape({2, 3, 4});
  EXPECT_EQ(x.at({kNewAxis, 1, kEllipsis, kNewAxis, Slice{{}, {}, 2}}).shape(), (Shape{1, 3, 1, 2}));
  EXPECT_EQ(x.at({-1, -1, -1}).item<int32_t>(), 23);
  EXPECT_EQ(x.at({kEllipsis}).shape(), x.shape());
  EXPECT_EQ(x.at({}).shape(), x.shape());
  EXPECT_EQ(x.at({Slice{}, 1, Slice{3, 0, -2}}).to_vector<int32_t>(), (Ints{7, 5, 19, 17}));
  EXPECT_EQ(x.at({1, kEllipsis, 0}).to_vector<int32_t>(), (Ints{12, 16, 20}));
}

TEST(Movement, PadCutsAndFills) {
  Context ctx;
  const Tensor x = Tensor::arange(ctx, 6).reshape({2, 3}) + 1;
  EXPECT_EQ(x.pad({{1, 0}, {-1, 2}}, 9).to_vector<int32_t>(), (Ints{9, 9, 9, 9, 2, 3, 9, 9, 5, 6, 9, 9}));
  EXPECT_EQ(x.pad({{-1, 0}, {0, -2}}).to_vector<int32_t>(), (Ints{4}));
  EXPECT_EQ(x.pad({{-1, -1}, {0, 0}}).shape(), (Shape{0, 3}));
  EXPECT_EQ(Tensor::zeros(ctx, {0, 2}, DType::I32).pad({{1, 1}, {0, 0}}, 7).to_vector<int32_t>(), (Ints{7, 7, 7, 7}));
  const auto v = Tensor::from(ctx, {NAN, 1.f}).pad({{1, 1}}, -0.0).to_vector<float>();
  EXPECT_TRUE(std::signbit(v[0]) && std::signbit(v[3]));
  EXPECT_TRUE(std::isnan(v[1]));
  EXPECT_EQ(v[2], 1);
  EXPECT_EQ(Tensor::from(ctx, {1.f}).pad({{20, 1}}, -INFINITY).to_vector<float>()[0], -INFINITY);
}

TEST(Movement, JoinsMoveBitsOnly) {
  Context ctx;
  std::mt19937 r(3);
  for (int64_t axis : {0, 1, -1}) {
    std::vector<Tensor> parts;
    std::vector<std::vector<float>> rows(2);
    for (int64_t i = 0; i < 11; i++) {
      const int64_t n = r() % 4;
      std::vector<float> data;
      for (int64_t k = 0; k < 2 * n; k++) data.push_back(k % 3 == 0 ? -0.0f : k % 3 == 1 ? NAN : INFINITY);
      const Tensor t = Tensor::from(ctx, data, {2, n});
      parts.push_back(axis == 0 ? t.T() : t);
      for (size_t k = 0; k < data.size(); k++) rows[k / static_cast<size_t>(n)].push_back(data[k]);
    }
    Tensor joined = Tensor::cat(parts, axis);
    if (axis == 0) joined = joined.T();
    std::vector<float> want = rows[0];
    want.insert(want.end(), rows[1].begin(), rows[1].end());
    const auto got = joined.to_vector<float>();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); i++) {
      EXPECT_EQ(std::isnan(got[i]), std::isnan(want[i])) << i;
      if (!std::isnan(want[i])) {
        EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i])) << i;
      }
    }
  }
}

TEST(Movement, TurnedTensorsOfEveryDType) {
  Context ctx;
  for (const DType d : {DType::F32, DType::F16, DType::I32, DType::Bool})
    for (const Shape& s :
         {Shape{15, 17}, {16, 16}, {64, 64}, {127, 130}, {129, 16}, {200, 3}, {3, 40, 33}, {2, 3, 20, 18}}) {
      int64_t n = 1;
      for (int64_t k : s) n *= k;
      const Tensor x = (Tensor::arange(ctx, n).mod(199) - 99).cast(d).reshape(s).contiguous();
      const std::vector<int32_t> values = x.to_vector<int32_t>();
      const Tensor turned = x.transpose(-2, -1).contiguous();
      const std::vector<int32_t> got = turned.to_vector<int32_t>(), back = turned.transpose().to_vector<int32_t>();
      const auto rows = static_cast<size_t>(s[s.size() - 2]), columns = static_cast<size_t>(s.back());
      for (size_t i = 0; i < values.size(); i++) {
        const size_t r = i / columns % rows, c = i % columns, block = i / (rows * columns) * rows * columns;
        ASSERT_EQ(got[block + c * rows + r], values[i]) << testing::PrintToString(s) << " " << name(d);
      }
      EXPECT_EQ(back, values);
    }
}

TEST(Movement, StackAndSplitAreInverse) {
  Context ctx;
  const Tensor a = Tensor::from(ctx, {1, 2}), b = Tensor::from(ctx, {3.5f, 4.5f});
  EXPECT_EQ(Tensor::stack({a, b}, -1).to_vector<float>(), (std::vector<float>{1, 3.5f, 2, 4.5f}));
  const Tensor x = Tensor::arange(ctx, 14).reshape({2, 7});
  const auto pieces = x.split(3, 1);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[2].to_vector<int32_t>(), (Ints{6, 13}));
  EXPECT_EQ(Tensor::cat(pieces, 1).to_vector<int32_t>(), x.to_vector<int32_t>());
  const auto uneven = x.split(Shape{1, 0, 6}, -1);
  EXPECT_EQ(uneven[1].shape(), (Shape{2, 0}));
  EXPECT_EQ(Tensor::cat(uneven, 1).to_vector<int32_t>(), x.to_vector<int32_t>());
  EXPECT_EQ(x.chunk(3, 1)[2].shape(), (Shape{2, 1}));
  EXPECT_EQ(x.chunk(5, 1).size(), 4u);  // of two each
  EXPECT_EQ(Tensor::zeros(ctx, {0, 2}).split(4).size(), 1u);
}

TEST(Movement, RepeatsRollsAndFlips) {
  Context ctx;
  const Tensor x = Tensor::arange(ctx, 4).reshape({2, 2});
  EXPECT_EQ(x.repeat({2, 1, 2}).to_vector<int32_t>(), (Ints{0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(x.repeat({0, 1}).shape(), (Shape{0, 2}));
  EXPECT_EQ(x.repeat_interleave(2, 0).to_vector<int32_t>(), (Ints{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(x.roll(3, 1).to_vector<int32_t>(), (Ints{1, 0, 3, 2}));
  EXPECT_EQ(x.roll(-1, 0).to_vector<int32_t>(), (Ints{2, 3, 0, 1}));
  EXPECT_EQ(x.flip().to_vector<int32_t>(), (Ints{3, 2, 1, 0}));
  EXPECT_EQ(x.flip(-1).to_vector<int32_t>(), (Ints{1, 0, 3, 2}));
  EXPECT_EQ(x.movedim(0, 1).to_vector<int32_t>(), (Ints{0, 2, 1, 3}));
  EXPECT_EQ(Tensor::zeros(ctx, {2, 3, 4}).movedim(-1, 0).shape(), (Shape{4, 2, 3}));
}

TEST(Movement, ShapesOfAxesMadeAndMerged) {
  Context ctx;
  const Tensor x = Tensor::zeros(ctx, {1, 3, 1, 4});
  EXPECT_EQ(x.squeeze().shape(), (Shape{3, 4}));
  EXPECT_EQ(x.squeeze({0, 1}).shape(), (Shape{3, 1, 4}));
  EXPECT_EQ(x.unsqueeze(-1).shape(), (Shape{1, 3, 1, 4, 1}));
  EXPECT_EQ(x.flatten(1, -2).shape(), (Shape{1, 3, 4}));
  EXPECT_EQ(x.flatten().shape(), (Shape{12}));
  EXPECT_EQ(Tensor::scalar(ctx, 1.0).flatten().shape(), (Shape{1}));
  EXPECT_EQ(x.unflatten(-1, {2, -1}).shape(), (Shape{1, 3, 1, 2, 2}));
  EXPECT_EQ(x.expand({5, -1, 2, -1}).shape(), (Shape{5, 3, 2, 4}));
  EXPECT_EQ(x.reshape({-1, 6}).shape(), (Shape{2, 6}));
  EXPECT_EQ(Tensor::zeros(ctx, {0, 4}).reshape({-1, 2}).shape(), (Shape{0, 2}));
  EXPECT_EQ(x.narrow(3, -3, 2).shape(), (Shape{1, 3, 1, 2}));
}

TEST(Movement, TrianglesKeepNaNOut) {
  Context ctx;
  const Tensor x = Tensor::full(ctx, {2, 2, 3}, INFINITY);
  for (int64_t d : {int64_t{-5}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{5}, INT64_MIN, INT64_MAX}) {
    const auto low = x.tril(d).to_vector<float>(), up = x.triu(d).to_vector<float>();
    for (int64_t k = 0; k < 12; k++) {
      const int64_t row = k / 3 % 2, column = k % 3;
      EXPECT_EQ(low[static_cast<size_t>(k)], column - row <= d ? INFINITY : 0) << d << " " << k;
      EXPECT_EQ(up[static_cast<size_t>(k)], column - row >= d ? INFINITY : 0) << d << " " << k;
    }
  }
  EXPECT_EQ(Tensor::ones(ctx, {2, 2}, DType::Bool).tril().dtype(), DType::Bool);
}

TEST(Movement, AssignGoesBackThroughStridedViews) {
  Context ctx;
  Tensor x = Tensor::zeros(ctx, {6}, DType::I32);
  x.at({Slice{1, {}, 2}}).assign(Tensor::from(ctx, {1, 2, 3}));
  EXPECT_EQ(x.to_vector<int32_t>(), (Ints{0, 1, 0, 2, 0, 3}));
  x.reshape({2, 3}).T().at({1}).assign(Tensor::from(ctx, {8, 9}));
  EXPECT_EQ(x.to_vector<int32_t>(), (Ints{0, 8, 0, 2, 9, 3}));
}

// An assignment that would not be seen in the tensor is refused, not lost.
TEST(Movement, AssignThroughOtherMovementIsAnError) {
  Context ctx;
  const Tensor x = Tensor::arange(ctx, 5), v = Tensor::from(ctx, {7, 8, 9});
  EXPECT_NE(error_of([&] { x.flip().assign(x + 0); }), "no error");
  EXPECT_NE(error_of([&] { x.at({Slice{{}, {}, 2}}).assign(v); }), "no error");  // does not fill rows of two
  EXPECT_NE(error_of([&] { x.at({Slice{{}, {}, -2}}).assign(v); }), "no error");
  EXPECT_NE(error_of([&] {
              x.reshape({5, 1}).expand({5, 2}).assign(Tensor::zeros(ctx, {5, 2}, DType::I32));
            }),
            "no error");
  EXPECT_NE(error_of([&] { x.flip().narrow(0, 0, 3).assign(v); }), "no error");
  EXPECT_NE(error_of([&] { x.flip().write(std::span<const int32_t>(Ints{1, 2, 3, 4, 5})); }), "no error");
  EXPECT_EQ(x.to_vector<int32_t>(), (Ints{0, 1, 2, 3, 4}));
}

TEST(Movement, RolledAndRepeatedTensorsAreTheirOwn) {
  Context ctx;
  const Tensor x = Tensor::arange(ctx, 3), zero = Tensor::zeros(ctx, {3}, DType::I32);
  for (Tensor t : {x.roll(3, 0), x.repeat({1}), x.repeat_interleave(1, 0), x.floor()}) t.assign(zero);
  EXPECT_EQ(x.to_vector<int32_t>(), (Ints{0, 1, 2}));
}

// Where nothing is to be done the result is a tensor all the same: it keeps its value when its operand changes.
TEST(Movement, ThatChangesNothingGivesATensorOfItsOwn) {
  using Same = Tensor (*)(const Tensor&);
  const std::pair<const char*, Same> views[] = {
      {"reshape",
       [](const Tensor& x) {
         return x.reshape({2, 3});
       }},
      {"expand",
       [](const Tensor& x) {
         return x.expand({2, -1});
       }},
      {"permute",
       [](const Tensor& x) {
         return x.permute({0, 1});
       }},
      {"shrink",
       [](const Tensor& x) {
         return x.shrink({{0, 2}, {0, 3}});
       }},
      {"narrow", [](const Tensor& x) { return x.narrow(1, 0, 3); }},
      {"at", [](const Tensor& x) { return x.at({}); }},
      {"pad",
       [](const Tensor& x) {
         return x.pad({{0, 0}, {0, 0}});
       }},
      {"squeeze", [](const Tensor& x) { return x.squeeze(); }},
      {"flatten", [](const Tensor& x) { return x.flatten(1); }},
      {"of a view", [](const Tensor& x) { return x.T().narrow(0, 0, 3).T(); }},
  };
  const std::pair<const char*, Same> values[] = {
      {"cast", [](const Tensor& x) { return x.to_f32(); }},
      {"clamp", [](const Tensor& x) { return x.clamp({}, {}); }},
      {"dropout", [](const Tensor& x) { return x.dropout(); }},
      {"roll", [](const Tensor& x) { return x.roll(3, 1); }},
      {"cat", [](const Tensor& x) { return Tensor::cat({x}); }},
      {"repeat",
       [](const Tensor& x) {
         return x.repeat({1, 1});
       }},
      {"flip", [](const Tensor& x) { return x.flip(Axes{std::vector<int64_t>{}}); }},
      {"contiguous", [](const Tensor& x) { return x.contiguous(); }},
      {"detach", [](const Tensor& x) { return x.detach(); }},
      {"clone", [](const Tensor& x) { return x.clone(); }},
  };
  const std::vector<float> ones(6, 1), twos(6, 2), threes(6, 3);
  for (bool realized : {false, true}) {
    const auto check = [&](const char* name, Same same, bool view) {
      SCOPED_TRACE(name);
      const Context ctx;
      Tensor x = Tensor::ones(ctx, {2, 3}) * 1.0;
      if (realized) x.realize();
      Tensor y = same(x);
      x.assign(x + 1.0);
      EXPECT_EQ(y.to_vector<float>(), ones);
      EXPECT_EQ(x.to_vector<float>(), twos);
      y = same(x);
      x.write(threes);
      EXPECT_EQ(y.to_vector<float>(), twos);
      if (std::string_view(name) == "flip") return;
      y = same(x);
      y.assign(y - 1.0);
      EXPECT_EQ(y.to_vector<float>(), twos);
      EXPECT_EQ(x.to_vector<float>(), view ? twos : threes);
    };
    for (const auto& [name, same] : views) check(name, same, true);
    for (const auto& [name, same] : values) check(name, same, false);
  }
}

TEST(Movement, ErrorsSayWhatIsWrong) {
  Context ctx;
  const Tensor x = Tensor::zeros(ctx, {2, 3});
  EXPECT_EQ(error_of([&] { x.reshape({4, -1}); }), "reshape of (2, 3) to (4, -1): 6 elements do not divide");
  EXPECT_EQ(error_of([&] { x.reshape({-1, -1}); }), "reshape of (2, 3) to (-1, -1): one size may be -1");
  EXPECT_EQ(error_of([&] {
              x.reshape({int64_t{1} << 40, int64_t{1} << 40});
            }),
            "reshape of (2, 3) to (1099511627776, 1099511627776): another number of elements");
  EXPECT_EQ(error_of([&] { x.at({0, 0, 0}); }), "at: 3 places in a tensor of 2 axes");
  EXPECT_EQ(error_of([&] { x.at({2}); }), "at: 2 in an axis of 2");
  EXPECT_EQ(error_of([&] { x.at({kEllipsis, kEllipsis}); }), "at: two ellipses");
  EXPECT_EQ(error_of([&] { x.at({Slice{0, 1, 0}}); }), "at: a step of 0");
  EXPECT_EQ(error_of([&] { x.narrow(1, 2, 2); }), "narrow: 2 from 2 on in an axis of 3");
  EXPECT_EQ(error_of([&] { x.narrow(1, INT64_MAX, INT64_MAX); }),
            "narrow: 9223372036854775807 from 9223372036854775807 on in an axis of 3");
  EXPECT_EQ(error_of([&] { x.transpose(0, 2); }), "transpose: axis 2 of a tensor of 2 axes");
  EXPECT_EQ(error_of([&] { x.permute({0, -2}); }), "permute: (0, 0) names an axis twice");
  EXPECT_EQ(error_of([&] { x.expand({-1, 2, 3}); }), "expand of (2, 3) to (-1, 2, 3)");
  EXPECT_EQ(error_of([&] { x.pad({{-2, -1}, {0, 0}}); }), "pad of axis 0 of (2, 3) by (-2, -1)");
  EXPECT_EQ(error_of([&] { x.pad({{INT64_MIN, 0}, {0, 0}}); }).substr(0, 24), "pad of axis 0 of (2, 3) ");
  EXPECT_EQ(error_of([&] { Tensor::cat({x, x.T()}); }), "cat on axis 0 of (2, 3) and (3, 2)");
  EXPECT_EQ(error_of([&] { Tensor::cat(std::span<const Tensor>{}); }), "cat of no tensors");
  EXPECT_EQ(error_of([&] { x.split(Shape{1, 1}, 1); }), "split: (1, 1) do not add up to an axis of 3");
  EXPECT_EQ(error_of([&] { x.repeat({1 << 20, 1 << 20}); }).substr(0, 16), "repeat of (2, 3)");
}

}  // namespace
}  // namespace uopc
