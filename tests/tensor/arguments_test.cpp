// Arguments no operation has a meaning for: each is an Error(Type) that says where, before anything runs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "error_of.hpp"
#include "uopc/nn.hpp"

namespace uopc {
namespace {

constexpr int64_t kMin = INT64_MIN, kMax = INT64_MAX;

TEST(Arguments, ThatFitNothingAreRefused) {
  const Context ctx;
  const Tensor x = Tensor::zeros(ctx, {2, 3, 4}), image = Tensor::zeros(ctx, {1, 2, 5, 5}),
               w = Tensor::zeros(ctx, {2, 2, 2, 2});
  const Tensor i = Tensor::arange(ctx, 4), none = Tensor::zeros(ctx, {0});
  const std::pair<const char*, std::function<Tensor()>> calls[] = {
      {"sizes are not negative", [&] { return Tensor::zeros(ctx, {-1}); }},
      {"sizes are not negative",
       [&] {
         return Tensor::zeros(ctx, {kMax, kMax});
       }},
      {"sizes are not negative",
       [&] {
         return Tensor::zeros(ctx, {kMax, 0, kMax});
       }},
      {"a tensor",
       [&] {
         return Tensor::from(ctx, {1.f, 2.f}, {3});
       }},
      {"a tensor",
       [&] {
         return Tensor::from(ctx, {1.f, 2.f}, {kMin});
       }},
      {"eye", [&] { return Tensor::eye(ctx, kMin); }},
      {"eye", [&] { return Tensor::eye(ctx, kMax); }},
      {"arange", [&] { return Tensor::arange(ctx, kMin, kMax, 1); }},
      {"arange", [&] { return Tensor::arange(ctx, 0, 5, 0); }},
      {"linspace", [&] { return Tensor::linspace(ctx, 0, 1, -1); }},
      {"causal_mask", [&] { return Tensor::causal_mask(ctx, -1, 2); }},
      {"causal_mask", [&] { return Tensor::causal_mask(ctx, kMax, kMax); }},
      {"rand", [&] { return Tensor::rand(ctx, {-2}); }},
      {"randint", [&] { return Tensor::randint(ctx, {2}, 3, 3); }},
      {"floordiv by 0", [&] { return i.floordiv(0); }},
      {"mod by 0", [&] { return i.mod(false); }},
      {"no i32",
       [&] {
         return Tensor::from(ctx, std::vector<int64_t>{1, int64_t{1} << 31});
       }},
      {"no int of 64 bits", [&] { return x * UINT64_MAX; }},
      {"one_hot", [&] { return i.one_hot(-1); }},
      {"one_hot", [&] { return i.one_hot(kMax); }},
      {"reshape",
       [&] {
         return x.reshape({kMax, kMax, 2});
       }},
      {"reshape",
       [&] {
         return x.reshape({-1, -1});
       }},
      {"reshape",
       [&] {
         return x.reshape({kMin, 2});
       }},
      {"reshape",
       [&] {
         return none.reshape({0, -1});
       }},
      {"expand",
       [&] {
         return x.expand({kMax, 2, 3, 4});
       }},
      {"expand",
       [&] {
         return x.expand({kMax, kMax, 2, 3, 4});
       }},
      {"expand",
       [&] {
         return x.expand({2, 3, -2});
       }},
      {"permute",
       [&] {
         return x.permute({0, 1, 1});
       }},
      {"permute",
       [&] {
         return x.permute({0, 1, kMin});
       }},
      {"transpose", [&] { return x.transpose(kMin, kMax); }},
      {"movedim", [&] { return x.movedim(0, kMax); }},
      {"shrink",
       [&] {
         return x.shrink({{0, 2}, {0, 3}, {kMin, kMax}});
       }},
      {"narrow", [&] { return x.narrow(1, kMin, kMax); }},
      {"narrow", [&] { return x.narrow(1, 1, kMax); }},
      {"at", [&] { return x.at({kMin}); }},
      {"at",
       [&] {
         return x.at({Slice{0, 2, 0}});
       }},
      {"at",
       [&] {
         return x.at({kEllipsis, kEllipsis});
       }},
      {"at",
       [&] {
         return x.at({0, 0, 0, 0});
       }},
      {"pad",
       [&] {
         return x.pad({{0, 0}, {0, 0}, {kMax, kMax}});
       }},
      {"pad",
       [&] {
         return x.pad({{0, 0}, {0, 0}, {kMin, 0}});
       }},
      {"pad",
       [&] {
         return x.pad({{INT32_MAX, INT32_MAX}, {INT32_MAX, INT32_MAX}, {0, 0}});
       }},
      {"flip", [&] { return x.flip(kMin); }},
      {"flip",
       [&] {
         return x.flip({0, -3});
       }},
      {"cat",
       [&] {
         return Tensor::cat({x, x}, kMin);
       }},
      {"cat",
       [&] {
         return Tensor::cat({x, i}, 0);
       }},
      {"stack",
       [&] {
         return Tensor::stack({x, i}, 0);
       }},
      {"stack", [&] { return Tensor::stack({x}, 4); }},
      {"split", [&] { return x.split(0)[0]; }},
      {"split",
       [&] {
         return x.split(Shape{kMax, kMax}, 1)[0];
       }},
      {"split",
       [&] {
         return x.split(Shape{-1, 4}, 1)[0];
       }},
      {"chunk", [&] { return x.chunk(kMin)[0]; }},
      {"repeat",
       [&] {
         return x.repeat({kMax, 1, 1});
       }},
      {"repeat",
       [&] {
         return x.repeat({-1, 1, 1});
       }},
      {"repeat_interleave", [&] { return x.repeat_interleave(kMax, 0); }},
      {"unsqueeze", [&] { return x.unsqueeze(4); }},
      {"squeeze", [&] { return x.squeeze(kMin); }},
      {"flatten", [&] { return x.flatten(2, 1); }},
      {"unflatten",
       [&] {
         return x.unflatten(0, {kMax, kMax});
       }},
      {"roll", [&] { return x.roll(kMin, kMin); }},
      {"sum", [&] { return x.sum(3); }},
      {"sum",
       [&] {
         return x.sum({0, -3});
       }},
      {"var", [&] { return x.var(kMax); }},
      {"argmax", [&] { return none.argmax(); }},
      {"argmin", [&] { return x.argmin(kMin); }},
      {"softmax", [&] { return Tensor::scalar(ctx, 1.0).softmax(); }},
      {"cumsum", [&] { return x.cumsum(kMax); }},
      {"matmul", [&] { return x.matmul(x); }},
      {"matmul", [&] { return x.matmul(Tensor::scalar(ctx, 1.0)); }},
      {"matmul",
       [&] {
         return x.matmul(Tensor::zeros(ctx, {5, 4, 2}));
       }},
      {"linear", [&] { return x.linear(x); }},
      {"linear",
       [&] {
         return x.linear(Tensor::zeros(ctx, {2, 4}), Tensor::zeros(ctx, {3}));
       }},
      {"linear",
       [&] {
         return x.linear(Tensor::zeros(ctx, {2, 4}), Tensor::zeros(ctx, {5, 2, 3, 2}));
       }},
      {"conv2d",
       [&] {
         return image.conv2d(w, {}, {.stride = {kMin, 1}});
       }},
      {"conv2d",
       [&] {
         return image.conv2d(w, {}, {.padding = {kMax, 1}});
       }},
      {"conv2d",
       [&] {
         return image.conv2d(w, {}, {.dilation = {kMax, 1}});
       }},
      {"conv2d", [&] { return image.conv2d(w, {}, {.groups = kMax}); }},
      {"avg_pool2d",
       [&] {
         return image.avg_pool2d({.kernel = {kMax, kMax}});
       }},
      {"avg_pool2d",
       [&] {
         return image.avg_pool2d({.kernel = {2, 2}, .dilation = {kMax, kMax}});
       }},
      {"max_pool2d",
       [&] {
         return image.max_pool2d({.kernel = {6, 1}});
       }},
      {"max_pool2d", [&] { return i.max_pool2d(); }},
      {"gather", [&] { return x.gather(kMin, i); }},
      {"index_select", [&] { return x.index_select(kMax, i); }},
      {"layer_norm", [&] { return x.layer_norm(kMin); }},
      {"tril", [&] { return i.tril(); }},
  };
  for (const auto& [word, call] : calls) {
    SCOPED_TRACE(std::string(word) + " of call " + std::to_string(&call - &calls[0].second));
    const std::string message = named_error_of([&] { call(); });
    EXPECT_TRUE(message.starts_with("UOpError: ")) << message;
    EXPECT_NE(message.find(word), std::string::npos) << message;
  }
}

TEST(Arguments, ThatAreEmptyOrOfAnotherContextAreNamedByTheOperation) {
  const Context ctx, other;
  const Tensor m = Tensor::ones(ctx, {2, 2}), i = Tensor::arange(ctx, 2), image = Tensor::ones(ctx, {1, 2, 2, 2});
  const nn::LayerNorm layer_norm(ctx, {2});
  const nn::RMSNorm rms_norm(ctx, 2);
  nn::BatchNorm batch_norm(ctx, 2);
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> calls[] = {
      {"matmul", [&](const Tensor& x) { return m.matmul(x); }},
      {"matmul", [&](const Tensor& x) { return x.matmul(m); }},
      {"linear", [&](const Tensor& x) { return x.linear(m); }},
      {"linear", [&](const Tensor& x) { return m.linear(x); }},
      {"conv2d", [&](const Tensor& x) { return image.conv2d(x); }},
      {"gather", [&](const Tensor& x) { return x.gather(0, m); }},
      {"index_select", [&](const Tensor& x) { return x.index_select(0, i); }},
      {"embedding", [&](const Tensor& x) { return Tensor::embedding(x, i); }},
      {"cross_entropy", [&](const Tensor& x) { return x.cross_entropy(i); }},
      {"mse_loss", [&](const Tensor& x) { return m.mse_loss(x); }},
      {"scaled_dot_product_attention", [&](const Tensor& x) { return Tensor::scaled_dot_product_attention(m, x, m); }},
      {"LayerNorm", layer_norm},
      {"RMSNorm", rms_norm},
      {"BatchNorm", [&](const Tensor& x) { return batch_norm(x); }},
  };
  for (const auto& [word, call] : calls) {
    SCOPED_TRACE(word);
    EXPECT_TRUE(error_of([&] { call(Tensor()); }).starts_with(std::string(word) + ": an operand is an empty Tensor"));
    EXPECT_TRUE(error_of([&] {
                  call(Tensor::ones(other, {2, 2}));
                }).starts_with(std::string(word) + ": the tensors belong to two Contexts"));
  }
}

TEST(Arguments, ThatAreHugeAndHaveAMeaning) {
  const Context ctx;
  const Tensor x = Tensor::arange(ctx, 6).reshape({2, 3}).to_f32(), image = Tensor::ones(ctx, {1, 1, 5, 5});
  using Floats = std::vector<float>;
  EXPECT_EQ(x.chunk(kMax, 1).size(), 3u);
  EXPECT_EQ(x.split(kMax, 1).size(), 1u);
  EXPECT_EQ(x.tril(kMax).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(x.triu(kMin).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(x.tril(kMin).to_vector<float>(), Floats(6, 0));
  EXPECT_EQ(x.roll(kMin, 1).shape(), x.shape());
  EXPECT_EQ(x.at({0, Slice{kMin, kMax, kMax}}).to_vector<float>(), Floats{0});
  EXPECT_EQ(x.at({0, Slice{kMax, kMin, kMin}}).to_vector<float>(), Floats{2});
  EXPECT_EQ(image.conv2d(Tensor::ones(ctx, {1, 1, 2, 2}), {}, {.stride = {INT32_MAX, 7}}).to_vector<float>(),
            Floats{4});
  EXPECT_EQ(image.max_pool2d({.stride = {{INT32_MAX, 3}}}).to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(x.var({}, kMin).to_vector<float>()[0], 17.5f / 9.223372e18f);
  EXPECT_EQ(x.var({}, kMax).to_vector<float>()[0], INFINITY);
  EXPECT_EQ(Tensor::arange(ctx, kMax, kMax).numel(), 0);
}

}  // namespace
}  // namespace uopc
