#include "tensor/operation_rows.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace uopc::plain {

Shape Draw::full_shape(int64_t least_ndim, int64_t most_ndim) {
  Shape s(static_cast<size_t>(between(least_ndim, most_ndim)));
  for (int64_t& d : s) d = size();
  for (int64_t& d : s)
    if (count(s) > 150) d = 1;
  return s;
}
Shape Draw::shape(int64_t least_ndim, int64_t most_ndim) {
  Shape s = full_shape(round_ == 0 ? std::max<int64_t>(least_ndim, 1) : least_ndim, most_ndim);
  if (round_ == 0) s[static_cast<size_t>(below(static_cast<int64_t>(s.size())))] = 0;
  return s;
}
Shape Draw::broadcasting(Shape s) {
  for (int64_t& d : s)
    if (below(3) == 0) d = 1;
  if (!s.empty() && below(3) == 0) s.erase(s.begin());
  return s;
}
std::vector<int64_t> Draw::some_axes(int64_t ndim) {
  std::vector<int64_t> out;
  for (int64_t k = 0; k < ndim; k++)
    if (coin()) out.push_back(coin() ? k : k - ndim);
  if (out.size() > 1 && coin()) std::swap(out.front(), out.back());
  return out;
}
DType Draw::dtype(std::initializer_list<DType> all) {
  return for_gradient_ ? DType::F32 : pick(all);
}

NdArray Draw::array(Shape shape, DType d, Range range) {
  const int64_t n = count(shape);
  std::vector<int64_t> rank(static_cast<size_t>(n));
  std::iota(rank.begin(), rank.end(), 0);
  for (int64_t i = n; i > 1; i--) std::swap(rank[static_cast<size_t>(i - 1)], rank[static_cast<size_t>(below(i))]);
  int64_t next = 0;
  const bool halves = !for_gradient_ && below(3) == 0;  // equal values, and those that lie between two whole ones
  return make(d, std::move(shape), [&](const Index&) {
    double v = number(range.low, range.high);
    if (for_gradient_) {
      const double step = (range.high - range.low) / static_cast<double>(n);
      v = range.low + step * (static_cast<double>(rank[static_cast<size_t>(next++)]) + number(0.3, 0.7));
      if (std::abs(v) < 0.03) v = v < 0 ? -0.03 : 0.03;
    }
    if (halves) v = std::clamp(std::round(v * 2) / 2, range.low, range.high);
    return d == DType::Bool ? v > (range.low + range.high) / 2 : round_to(d, d == DType::I32 ? std::floor(v) : v);
  });
}
NdArray Draw::indices(Shape shape, int64_t n, bool some_out_of_range) {
  return make(DType::I32, std::move(shape), [&](const Index&) {
    return static_cast<double>(some_out_of_range || n == 0 ? between(-2, n + 1) : below(n));
  });
}

const std::vector<Row>& operation_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    add_creation(all);
    add_movement(all);
    add_elementwise(all);
    add_reductions(all);
    add_nets(all);
    return all;
  }();
  return rows;
}

}  // namespace uopc::plain
