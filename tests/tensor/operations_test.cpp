// Every operation of tensors against the reference, on random shapes, dtypes and options; its gradient against central
// differences of the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "tensor/operation_rows.hpp"

namespace uopc::plain {
namespace {

constexpr int kRounds = 20, kGradientRounds = 6;

uint64_t seed_of(const std::string& name, int round) {
  uint64_t h = 14695981039346656037u;
  for (char c : name + std::to_string(round)) h = (h ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return h;
}

Tensor tensor_of(const Context& ctx, const NdArray& a) {
  if (a.dtype == DType::F32) {
    const std::vector<float> v(a.data.begin(), a.data.end());
    return Tensor::from(ctx, std::span<const float>(v), a.shape);
  }
  if (a.dtype == DType::I32) {
    const std::vector<int32_t> v(a.data.begin(), a.data.end());
    return Tensor::from(ctx, std::span<const int32_t>(v), a.shape);
  }
  std::vector<uint16_t> halves;
  std::vector<char> bools;
  for (double v : a.data) {
    halves.push_back(half_bits(v));
    bools.push_back(v != 0);
  }
  const auto bytes = a.dtype == DType::F16 ? std::as_bytes(std::span(halves)) : std::as_bytes(std::span(bools));
  return Tensor::from_bytes(ctx, bytes, a.shape, a.dtype);
}
Tensors tensors_of(const Context& ctx, const NdArrays& arrays) {
  Tensors out;
  for (const NdArray& a : arrays) out.push_back(tensor_of(ctx, a));
  return out;
}

std::string text(const Shape& s) {
  std::string out = "(";
  for (int64_t d : s) out += std::to_string(d) + ",";
  return out + ")";
}
std::string text(const std::string& name, int round, const NdArrays& inputs) {
  std::string out = name + ", round " + std::to_string(round) + ", of";
  for (const NdArray& a : inputs) out += " " + std::string(uopc::name(a.dtype)) + text(a.shape);
  return out;
}

void expect_near(const Tensor& got, const NdArray& want, const Near& near) {
  ASSERT_EQ(got.shape(), want.shape);
  ASSERT_EQ(got.dtype(), want.dtype);
  const Values v = got.to_vector<double>();
  ASSERT_EQ(v.size(), want.data.size());
  for (size_t i = 0; i < v.size(); i++) {
    const double w = want.data[i];
    if (std::isnan(w) && std::isnan(v[i])) continue;
    if (v[i] == w) continue;
    const double scale = std::max(i < want.scale.size() ? want.scale[i] : 0, std::abs(w));
    double allowed = is_float(want.dtype) ? near.units * 0x1p-24 * scale : 0;
    if (want.dtype == DType::F16) allowed += near.halves * (0x1p-11 * std::abs(w) + 0x1p-25);
    ASSERT_LE(std::abs(v[i] - w), allowed) << "element " << i << " is " << v[i] << ", not " << w;
  }
}

class Operation : public testing::TestWithParam<size_t> {};  // a row's index
class OperationGradient : public Operation {};

TEST_P(Operation, IsTheReferences) {
  const Row& row = operation_rows()[GetParam()];
  const Context ctx;
  for (int round = 0; round < kRounds; round++) {
    Draw draw(seed_of(row.name, round), round, false);
    const Call call = row.call(draw);
    SCOPED_TRACE(text(row.name, round, call.inputs));
    const Tensors got = call.run(ctx, tensors_of(ctx, call.inputs));
    const NdArrays want = call.want(call.inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); i++) {
      expect_near(got[i], want[i], row.near);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// A sum of all results, each with a weight of about 1.
NdArrays weights_of(const Call& call, Draw& draw) {
  NdArrays out;
  for (const NdArray& a : call.want(call.inputs)) out.push_back(draw.array(a.shape, DType::F32, {0.5, 1.5}));
  return out;
}
double weighted(const Call& call, const NdArrays& weights) {
  const NdArrays y = call.want(call.inputs);
  double sum = 0;
  for (size_t i = 0; i < y.size(); i++)
    for (size_t j = 0; j < y[i].data.size(); j++) sum += y[i].data[j] * weights[i].data[j];
  return sum;
}
Tensor weighted(const Call& call, const Context& ctx, const Tensors& in, const NdArrays& weights) {
  const Tensors y = call.run(ctx, in), w = tensors_of(ctx, weights);
  Tensor sum = Tensor::scalar(ctx, 0.0);
  for (size_t i = 0; i < y.size(); i++) sum = sum + (y[i] * w[i]).sum();
  return sum;
}
// `slopes`, of the float operands, against central differences of `f`, which is of call.inputs.
void expect_slopes(Call& call, const Tensors& in, const Tensors& slopes, const std::function<double()>& f, double step,
                   double tolerance) {
  size_t k = 0;
  for (size_t p = 0; p < in.size(); p++) {
    if (!is_float(in[p].dtype())) continue;
    const Values got = slopes[k++].to_vector<double>();
    Values& x = call.inputs[p].data;
    ASSERT_EQ(got.size(), x.size());
    for (size_t i = 0; i < x.size(); i++) {
      const double at = x[i];
      x[i] = at + step;
      const double above = f();
      x[i] = at - step;
      const double below = f();
      x[i] = at;
      const double want = (above - below) / (2 * step);
      ASSERT_NEAR(got[i], want, tolerance * std::max(1.0, std::abs(want))) << "operand " << p << ", element " << i;
    }
  }
}

// Of f32 sums whose terms, and so the gradients, are of the order of 1; the differences are precise to 1e-7 of it.
TEST_P(OperationGradient, IsTheReferences) {
  const Row& row = operation_rows()[GetParam()];
  const Context ctx;
  for (int round = 0; round < kGradientRounds; round++) {
    Draw draw(seed_of(row.name, round + 100), round, true);
    Call call = row.call(draw);
    SCOPED_TRACE(text(row.name, round, call.inputs));
    const NdArrays weights = weights_of(call, draw);
    const Tensors in = tensors_of(ctx, call.inputs);
    Tensors targets;
    for (const Tensor& t : in)
      if (is_float(t.dtype())) targets.push_back(t);
    const Tensors slopes = weighted(call, ctx, in, weights).gradient(targets);
    expect_slopes(
        call, in, slopes, [&] { return weighted(call, weights); }, 1e-4, 2e-5);
    if (HasFatalFailure()) return;
  }
}

// The slope along a direction, whose own slopes are mixed second differences: precise to 1e-5.
TEST_P(OperationGradient, HasTheGradientOfTheReference) {
  const Row& row = operation_rows()[GetParam()];
  const Context ctx;
  for (int round = 1; round < 4; round++) {
    Draw draw(seed_of(row.name, round + 200), round, true);
    Call call = row.call(draw);
    SCOPED_TRACE(text(row.name, round, call.inputs));
    NdArrays weights = weights_of(call, draw), along;
    for (const NdArray& a : call.inputs) along.push_back(draw.array(a.shape, DType::F32, {-1, 1}));
    const auto move = [&](double by) {
      for (size_t p = 0; p < call.inputs.size(); p++)
        if (is_float(call.inputs[p].dtype))
          for (size_t i = 0; i < along[p].data.size(); i++) call.inputs[p].data[i] += by * along[p].data[i];
    };
    const auto slope = [&] {
      constexpr double kStep = 1e-3;
      move(kStep);
      const double above = weighted(call, weights);
      move(-2 * kStep);
      const double below = weighted(call, weights);
      move(kStep);
      return (above - below) / (2 * kStep);
    };

    const Tensors in = tensors_of(ctx, call.inputs), v = tensors_of(ctx, along);
    Tensors targets, directions;
    for (size_t p = 0; p < in.size(); p++) {
      if (!is_float(in[p].dtype())) continue;
      targets.push_back(in[p]);
      directions.push_back(v[p]);
    }
    const Tensors first = weighted(call, ctx, in, weights).gradient(targets);
    Tensor sum = Tensor::scalar(ctx, 0.0);
    for (size_t i = 0; i < first.size(); i++) sum = sum + (first[i] * directions[i]).sum();
    const Tensors second = sum.gradient(targets);
    expect_slopes(call, in, second, slope, 1e-3, 1e-3);
    if (HasFatalFailure()) return;
  }
}

std::vector<size_t> rows_where(bool smooth_only) {
  std::vector<size_t> out;
  for (size_t i = 0; i < operation_rows().size(); i++)
    if (!smooth_only || operation_rows()[i].differentiable) out.push_back(i);
  return out;
}
std::string test_name(const testing::TestParamInfo<size_t>& info) {
  std::string out;
  for (char c : operation_rows()[info.param].name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out + "_" + std::to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, Operation, testing::ValuesIn(rows_where(false)), test_name);
INSTANTIATE_TEST_SUITE_P(Smooth, OperationGradient, testing::ValuesIn(rows_where(true)), test_name);

// The operation that a line of tensor.hpp declares: a member that gives tensors, or an operator.
std::string operation_in(std::string_view line) {
  const auto skip = [&](std::string_view word) {
    if (!line.starts_with(word)) return false;
    line.remove_prefix(word.size());
    return true;
  };
  if (skip("UOPC_TENSOR_OPERATOR(")) return "operator" + std::string(line.substr(0, line.find(')')));
  if (!skip("  ")) return "";
  skip("static ");
  skip("const ");
  if (!skip("Tensor ") && !skip("Tensor& ") && !skip("std::vector<Tensor> ")) return "";
  const size_t end = line.find('(');
  return end == std::string_view::npos ? "" : std::string(line.substr(0, end));
}

// What tensor.hpp declares has a row, or a test of its own where there is no one right result.
TEST(Operations, AreAllInTheTable) {
  const std::map<std::string, std::string> elsewhere = {// the test suites
                                                        {"from", "All/Operation"},
                                                        {"from_bytes", "All/Operation"},  // the operands of every row
                                                        {"gradient", "Smooth/OperationGradient"},
                                                        {"realize", "Plans"},
                                                        {"assign", "Assign"},
                                                        {"rand", "Random"},
                                                        {"uniform", "Random"},
                                                        {"randn", "Random"},
                                                        {"randint", "Random"},
                                                        {"rand_like", "Random"},
                                                        {"randn_like", "Random"}};
  std::ifstream file(std::string(UOPC_TEST_DATA) + "/../include/uopc/tensor.hpp");
  ASSERT_TRUE(file);
  std::set<std::string> declared;
  for (std::string line; std::getline(file, line);) declared.insert(operation_in(line));
  declared.erase("");
  declared.erase("operator=");  // of handles
  EXPECT_GT(declared.size(), 140u);
  std::set<std::string> rows;
  for (const Row& r : operation_rows())
    rows.insert(r.name.substr(0, r.name.find('/', r.name.starts_with("operator/") ? 9 : 0)));
  std::set<std::string> suites;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); i++) suites.insert(all.GetTestSuite(i)->name());
  for (const std::string& name : declared) {
    const auto other = elsewhere.find(name);
    if (other == elsewhere.end())
      EXPECT_TRUE(rows.contains(name)) << name << " has no row";
    else
      EXPECT_TRUE(suites.contains(other->second)) << name << " has no tests " << other->second;
  }
  for (const std::string& name : rows) EXPECT_TRUE(declared.contains(name)) << name << " is not declared";
}

// Elements are dropped by their share, or divided by the rest.
TEST(Operations, DropoutsShareAndScale) {
  Context ctx;
  const TrainingMode training(ctx);
  for (DType d : {DType::F32, DType::F16})
    for (double p : {0.0, 0.1, 0.5, 0.9, 1.0}) {
      const Tensor x = Tensor::full(ctx, {10007}, 3.0, d);
      int64_t kept = 0;
      for (double v : x.dropout(p).to_vector<double>()) {
        if (v == 0) continue;
        EXPECT_NEAR(v, 3 / (1 - p), (d == DType::F16 ? 0x1p-9 : 0x1p-22) * v);
        kept++;
      }
      EXPECT_NEAR(static_cast<double>(kept), 10007 * (1 - p), 5 * std::sqrt(10007 * p * (1 - p))) << p;
    }
}

}  // namespace
}  // namespace uopc::plain
