// Tensors in files.
#include "uopc/saved.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "uopc/error.hpp"

namespace uopc {
namespace {

class Saved : public testing::Test {
 protected:
  ~Saved() override { std::remove(path.c_str()); }
  void write(const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  std::string error_of(const std::function<void()>& f) {
    try {
      f();
    } catch (const Error& e) {
      std::string what = e.what();
      if (what.starts_with(path)) what.replace(0, path.size(), "FILE");
      return error_name(e.code()) + (": " + what);
    }
    return "no error";
  }
  void expect_equal(const nn::StateDict& a, const nn::StateDict& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); i++) {
      EXPECT_EQ(a[i].first, b[i].first);
      EXPECT_EQ(a[i].second.dtype(), b[i].second.dtype());
      EXPECT_EQ(a[i].second.shape(), b[i].second.shape());
      const auto x = a[i].second.bytes(), y = b[i].second.bytes();
      EXPECT_EQ(std::vector(x.begin(), x.end()), std::vector(y.begin(), y.end())) << a[i].first;
    }
  }
  nn::StateDict some() const {
    const Tensor x = Tensor::from(ctx, {1.5f, -2, 3, 4, 5, 6}, {2, 3});
    return {{"mask", x > 2.0},
            {"half", x.to_f16()},
            {"lazy.sum", x + x},
            {"none", Tensor::zeros(ctx, {0, 4})},
            {"count", Tensor::arange(ctx, 5)},
            {"scalar", Tensor::scalar(ctx, 2.5f)}};
  }

  const Context ctx;
  const std::string path =
      testing::TempDir() + "uopc_saved_test." + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(Saved, SafetensorsRoundTrip) {
  const nn::StateDict s = some();
  save_safetensors(path, s, {{"epoch", "3"}});
  expect_equal(s, load_safetensors(ctx, path));
  EXPECT_EQ(safetensors_metadata(path), (std::map<std::string, std::string>{{"epoch", "3"}}));
  save_safetensors(path, {});
  EXPECT_TRUE(load_safetensors(ctx, path).empty());
}

TEST_F(Saved, NpzAndNpyRoundTrip) {
  const nn::StateDict s = some();
  save_npz(path, s);
  expect_equal(s, load_npz(ctx, path));
  for (const auto& [name, t] : s) {
    save_npy(path, t);
    expect_equal({{"", t}}, {{"", load_npy(ctx, path)}});
  }
}

TEST_F(Saved, ErrorsNameTheFile) {
  write("junk");
  EXPECT_EQ(error_of([&] { load_safetensors(ctx, path); }),
            "ParseError: FILE: not a safetensors file: 4 bytes, of which 8 give the header's length");
  EXPECT_EQ(error_of([&] { load_npz(ctx, path); }), "ParseError: FILE: not a zip file: 4 bytes");
  EXPECT_EQ(error_of([&] { load_npy(ctx, path); }).substr(0, 18), "ParseError: FILE: ");
  EXPECT_EQ(error_of([&] { load_npy(ctx, path + "/none"); }).substr(0, 22), "RunError: cannot read ");
}

TEST_F(Saved, AFailedSaveKeepsTheOldFile) {
  const Tensor t = Tensor::ones(ctx, {2});
  save_safetensors(path, {{"a", t}});
  EXPECT_EQ(error_of([&] { save_safetensors(path, {{"a", t}, {"a", t}}); }), "UOpError: 'a' names two tensors");
  EXPECT_EQ(error_of([&] {
              save_safetensors(path, {{"a", Tensor()}});
            }),
            "UOpError: save_safetensors: 'a' is an empty tensor");
  EXPECT_EQ(load_safetensors(ctx, path).size(), 1u);
}

}  // namespace
}  // namespace uopc
