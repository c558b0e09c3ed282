// Handles that hold nothing, and tensors made of what a host has.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "error_of.hpp"
#include "uopc/capture.hpp"
#include "uopc/nn.hpp"

namespace uopc {
namespace {

TEST(Handles, AContextStaysWhatItIsWhenItIsMoved) {
  Context a;
  a.manual_seed(3);
  const Context b = std::move(a);
  EXPECT_EQ((Tensor::ones(a, {2}) + Tensor::ones(b, {2})).to_vector<float>(), std::vector<float>(2, 2));
  EXPECT_EQ(a.stats().realizes, b.stats().realizes);
}

TEST(Handles, AnEmptyKernelSaysSo) {
  const Kernel k;
  const char* const message = "RunError: an empty Kernel";
  EXPECT_NE(named_error_of([&] { k.name(); }).find(message), std::string::npos);
  EXPECT_NE(named_error_of([&] { k.params(); }).find(message), std::string::npos);
  EXPECT_NE(named_error_of([&] { k.entry(); }).find(message), std::string::npos);
  EXPECT_NE(named_error_of([&] { k.code_bytes(); }).find(message), std::string::npos);
  EXPECT_NE(named_error_of([&] { k({}); }).find(message), std::string::npos);
}

TEST(Handles, ACaptureThatWasMovedFromSaysSo) {
  const Context ctx;
  Capture a([](std::span<const Tensor> in) { return std::vector{in[0] + 1.0}; });
  Capture b = std::move(a);
  const Tensor x = Tensor::ones(ctx, {2});
  const char* const message = "RunError: a Capture that was moved from";
  EXPECT_NE(named_error_of([&] { a({x}); }).find(message), std::string::npos);
  EXPECT_NE(named_error_of([&] { a.recorded(); }).find(message), std::string::npos);
  EXPECT_NE(named_error_of([&] { a.kernels(); }).find(message), std::string::npos);
  EXPECT_EQ(b({x})[0].to_vector<float>(), std::vector<float>(2, 2));
}

TEST(Handles, AnOptimizerHasParametersThatTheLossDependsOn) {
  const Context ctx;
  const Tensor w = Tensor::ones(ctx, {2}), other = Tensor::ones(ctx, {2});
  nn::Adam adam({w});
  EXPECT_NE(error_of([&] { adam.step(other.sum()); }).find("depends on none of"), std::string::npos);
  EXPECT_NE(error_of([&] { adam.step(w.detach().sum()); }).find("depends on none of"), std::string::npos);
  EXPECT_EQ(w.to_vector<float>(), std::vector<float>(2, 1));
  nn::Adam moved = std::move(adam);
  moved.step(w.sum());
  EXPECT_NE(w.to_vector<float>(), std::vector<float>(2, 1));
  EXPECT_NE(error_of([&] { adam.step(w.sum()); }).find("moved from"), std::string::npos);
}

// A condition asks whether a handle is empty; of a comparison that is never meant.
static_assert(std::is_constructible_v<bool, const Tensor&>);
static_assert(!std::is_constructible_v<bool, Tensor>);

TEST(HostData, IsWrittenAsTheTypeThatItHas) {
  const Context ctx;
  Tensor x = Tensor::zeros(ctx, {2}), half = x.to_f16().realize(), i = Tensor::arange(ctx, 2).realize();
  x.write(std::vector<float>{1, 2});
  x.write(std::array<float, 2>{1, 2});
  EXPECT_NE(error_of([&] {
              x.write(std::vector<int32_t>{1, 2});
            }).find("takes no elements of dtypes.i32"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              i.write(std::vector<float>{1, 2});
            }).find("takes no elements of dtypes.f32"),
            std::string::npos);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
  half.write(std::vector<uint16_t>{0x3C00, 0x4000});
  EXPECT_EQ(half.to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(HostData, OfTypesThatNoTensorHasIsConverted) {
  const Context ctx;
  EXPECT_EQ(Tensor::from(ctx, std::vector<double>{0.1, 2}).to_vector<float>(), (std::vector<float>{0.1f, 2}));
  const Tensor i = Tensor::from(ctx, std::vector<int64_t>{1, -2}, {2, 1});
  EXPECT_EQ(i.dtype(), DType::I32);
  EXPECT_EQ(i.shape(), (Shape{2, 1}));
  EXPECT_EQ(i.to_vector<int32_t>(), (std::vector<int32_t>{1, -2}));
  const std::vector<float> v{1, 2, 3};
  EXPECT_EQ(Tensor::from(ctx, v).shape(), Shape{3});
  std::ostringstream out;
  out << Tensor::from(ctx, v);
  EXPECT_EQ(out.str(), "[1.0, 2.0, 3.0]");
}

}  // namespace
}  // namespace uopc
