// Reductions. A sum is as near as its terms' sizes and number say (Sum).
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tensor/operation_rows.hpp"

namespace uopc::plain {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

using Run = Tensor (*)(const Tensor&, const Axes&, bool keepdim);
using FoldOf = std::pair<double, double> (*)(const Values&, DType);

// All axes, one, and several; keepdim or not. `full`: of at least one element.
void add_fold(std::vector<Row>& rows, const char* name, Near near, bool smooth, std::initializer_list<DType> dtypes,
              DType (*dtype)(DType), Run run, FoldOf f) {
  rows.push_back(row(name, near, smooth, [=](Draw& d) {
    const Shape s = d.shape(0, 4);
    const auto n = static_cast<int64_t>(s.size());
    const bool keepdim = d.coin();
    std::optional<std::vector<int64_t>> axes;
    if (n > 0 && d.below(4) != 0) axes = d.coin() ? d.some_axes(n) : std::vector<int64_t>{d.axis(n)};
    Axes given;
    if (axes) given = *axes;
    const DType from = d.dtype(dtypes);
    return one(
        {d.array(s, from)}, [=](auto t) { return run(t[0], given, keepdim); },
        [=](auto in) {
          return fold(in[0], axes ? &*axes : nullptr, keepdim, dtype(from),
                      [&](const Values& v) { return f(v, from); });
        });
  }));
}

DType same(DType d) {
  return d;
}
DType bool_of(DType) {
  return DType::Bool;
}
double least(DType d) {
  return d == DType::Bool ? 0 : d == DType::I32 ? -0x1p31 : -kInf;
}
double most(DType d) {
  return d == DType::Bool ? 1 : d == DType::I32 ? 0x1p31 - 1 : kInf;
}

void add_place(std::vector<Row>& rows, const char* name, bool largest) {
  rows.push_back(row(name, {0, 0}, false, [=](Draw& d) {
    const Shape s = d.full_shape(0, 3);
    const auto n = static_cast<int64_t>(s.size());
    const bool keepdim = d.coin();
    std::optional<int64_t> axis;
    if (n > 0 && d.coin()) axis = d.axis(n);
    return one(
        {d.array(s, d.dtype(kAllDTypes))},
        [=](auto t) { return largest ? t[0].argmax(axis, keepdim) : t[0].argmin(axis, keepdim); },
        [=](auto in) {
          const std::vector<int64_t> axes{axis.value_or(0)};
          return fold(in[0], axis ? &axes : nullptr, keepdim, DType::I32, [&](const Values& v) {
            const auto best = largest ? std::max_element(v.begin(), v.end()) : std::min_element(v.begin(), v.end());
            return std::pair(static_cast<double>(best - v.begin()), 0.0);
          });
        });
  }));
}

void add_along(std::vector<Row>& rows, const char* name, Near near, Tensor (Tensor::*run)(int64_t) const,
               Values (*want)(const Values&), DType (*dtype)(DType), double (*scale)(double) = nullptr) {
  rows.push_back(row(name, near, true, [=](Draw& d) {
    const Shape s = d.shape(1, 3);
    const int64_t axis = d.axis(static_cast<int64_t>(s.size()));
    return one(
        {d.array(s, d.dtype(kAllDTypes), {-5, 5})}, [=](auto t) { return (t[0].*run)(axis); },
        [=](auto in) {
          NdArray out = along(in[0], axis, dtype(in[0].dtype), want);
          if (scale != nullptr)
            for (double v : out.data) out.scale.push_back(scale(v));
          return out;
        });
  }));
}

}  // namespace

void add_reductions(std::vector<Row>& rows) {
  add_fold(
      rows, "sum", {1}, true, kAllDTypes, number_of, [](const Tensor& t, const Axes& a, bool k) { return t.sum(a, k); },
      [](const Values& v, DType) { return sum_of(v); });
  add_fold(
      rows, "max", {0, 0}, true, kAllDTypes, same, [](const Tensor& t, const Axes& a, bool k) { return t.max(a, k); },
      [](const Values& v, DType d) {
        return std::pair(v.empty() ? least(d) : *std::max_element(v.begin(), v.end()), 0.0);
      });
  add_fold(
      rows, "min", {0, 0}, true, kAllDTypes, same, [](const Tensor& t, const Axes& a, bool k) { return t.min(a, k); },
      [](const Values& v, DType d) {
        return std::pair(v.empty() ? most(d) : *std::min_element(v.begin(), v.end()), 0.0);
      });
  add_fold(
      rows, "mean", {2}, true, kAllDTypes, float_of,
      [](const Tensor& t, const Axes& a, bool k) { return t.mean(a, k); },
      [](const Values& v, DType) { return mean_of(v); });
  for (int64_t correction : {0, 1}) {
    const std::string with = correction == 0 ? "/of a population" : "";
    const auto scaled = [=](bool root) {
      return [=](Draw& d) {
        const Shape s = d.shape(1, 3);
        const auto n = static_cast<int64_t>(s.size());
        const bool keepdim = d.coin();
        std::vector<int64_t> axes = d.some_axes(n);
        // Where a gradient is taken, of more than one value: the root of 0 has none.
        if (d.for_gradient()) {
          axes.clear();
          for (int64_t k = 0; k < n; k++) axes.push_back(k);
        }
        const NdArray x = d.array(s, d.dtype(kAllDTypes));
        const bool few = d.for_gradient() && count(s) < 2;
        return one(
            {x},
            [=](auto t) {
              if (few) return t[0].sum();
              return root ? t[0].std(axes, correction, keepdim) : t[0].var(axes, correction, keepdim);
            },
            [=](auto in) {
              if (few) return fold(in[0], nullptr, false, DType::F32, sum_of);
              return fold(in[0], &axes, keepdim, float_of(in[0].dtype), [&](const Values& v) {
                const auto [value, scale] = variance_of(v, correction);
                // d sqrt(v) = dv / (2 sqrt(v)), and no more than sqrt(dv)
                if (root && value == 0) return std::pair(0.0, std::sqrt(scale * 0x1p24));
                return root ? std::pair(std::sqrt(value), scale / std::sqrt(value)) : std::pair(value, scale);
              });
            });
      };
    };
    rows.push_back(row("var" + with, {2}, true, scaled(false)));
    rows.push_back(row("std" + with, {4}, true, scaled(true)));
  }
  add_fold(
      rows, "any", {0, 0}, false, kAllDTypes, bool_of,
      [](const Tensor& t, const Axes& a, bool k) { return t.any(a, k); },
      [](const Values& v, DType) {
        return std::pair(std::any_of(v.begin(), v.end(), [](double x) { return x != 0; }) ? 1.0 : 0.0, 0.0);
      });
  add_fold(
      rows, "all", {0, 0}, false, kAllDTypes, bool_of,
      [](const Tensor& t, const Axes& a, bool k) { return t.all(a, k); },
      [](const Values& v, DType) {
        return std::pair(std::all_of(v.begin(), v.end(), [](double x) { return x != 0; }) ? 1.0 : 0.0, 0.0);
      });
  add_place(rows, "argmax", true);
  add_place(rows, "argmin", false);
  // exp of up to 10 below the largest, and the sum of them; a logarithm is as near beside that distance and 1
  add_along(rows, "softmax", {60}, &Tensor::softmax, softmax_of, float_of);
  add_along(
      rows, "log_softmax", {60}, &Tensor::log_softmax,
      [](const Values& v) {
        const double whole = log_sum_exp(v);
        Values out;
        for (double x : v) out.push_back(x - whole);
        return out;
      },
      float_of, [](double x) { return 1 + std::abs(x); });
  add_fold(
      rows, "logsumexp", {40}, true, kAllDTypes, float_of,
      [](const Tensor& t, const Axes& a, bool k) { return t.logsumexp(a, k); },
      [](const Values& v, DType) { return std::pair(log_sum_exp(v), 6.0); });
  rows.push_back(row("cumsum", {1}, true, [](Draw& d) {
    const Shape s = d.shape(0, 3);
    const int64_t axis = s.empty() ? 0 : d.axis(static_cast<int64_t>(s.size()));
    return one(
        {d.array(s, d.dtype(kAllDTypes))}, [=](auto t) { return t[0].cumsum(axis); },
        [=](auto in) {
          const auto summed = [](const Values& v) {
            Values out;
            double sum = 0;
            for (double x : v) out.push_back(sum += x);
            return out;
          };
          if (s.empty()) return in[0];
          NdArray out = along(in[0], axis, number_of(in[0].dtype), summed);
          for (size_t i = 0; i < out.data.size(); i++) out.scale.push_back(2 * 7 * 8);  // 7 terms of up to 2
          return out;
        });
  }));
}

}  // namespace uopc::plain
