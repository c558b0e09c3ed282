#include "tensor/reference_ops.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace uopc::plain {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

// The exponent of the last bit of a float that has `digits` of them.
double to_digits(double v, int digits, int least, double most) {
  if (v == 0 || !std::isfinite(v)) return v;
  int e = 0;
  std::frexp(v, &e);
  const double unit = std::ldexp(1, std::max(e - digits, least)), r = std::nearbyint(v / unit) * unit;
  return std::abs(r) > most ? std::copysign(kInf, v) : r;
}

// Floats are not rounded.
double whole(DType d, double v) {
  return is_float(d) ? v : round_to(d, v);
}

}  // namespace

double round_to(DType d, double v) {
  switch (d) {
    case DType::F32:
      return static_cast<float>(v);
    case DType::F16:
      return to_digits(v, 11, -24, 65504);
    case DType::I32:
      return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(v)));
    default:
      return v != 0;
  }
}

uint16_t half_bits(double v) {
  const auto sign = static_cast<uint16_t>(std::signbit(v) ? 0x8000 : 0);
  const double size = std::abs(v);
  if (std::isnan(v)) return 0x7e00;
  if (std::isinf(v)) return sign | 0x7c00;
  if (size < 0x1p-14) return static_cast<uint16_t>(sign + std::lround(size * 0x1p24));
  int e = 0;
  const double m = std::frexp(size, &e);  // in [0.5, 1)
  return static_cast<uint16_t>(sign + ((e + 14) << 10) + std::lround((m * 2 - 1) * 1024));
}

int64_t count(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}
int64_t normal(int64_t axis, int64_t ndim) {
  return axis < 0 ? axis + ndim : axis;
}
Index place(const Shape& shape, int64_t offset) {
  Index i(shape.size());
  for (size_t k = shape.size(); k-- > 0; offset /= shape[k]) i[k] = offset % shape[k];
  return i;
}
double get(const NdArray& a, const Index& i) {
  int64_t offset = 0;
  for (size_t k = 0; k < i.size(); k++) offset = offset * a.shape[k] + i[k];
  return a.data[at(offset)];
}
NdArray make(DType d, Shape shape, const std::function<double(const Index&)>& f) {
  NdArray out{d, std::move(shape), {}, {}};
  for (int64_t i = 0; i < count(out.shape); i++) out.data.push_back(f(place(out.shape, i)));
  return out;
}
NdArray moved(const NdArray& a, Shape shape, const std::function<Index(const Index&)>& from) {
  return make(a.dtype, std::move(shape), [&](const Index& i) { return get(a, from(i)); });
}

DType larger(DType a, DType b) {
  for (DType d : {DType::F32, DType::F16, DType::I32})
    if (a == d || b == d) return d;
  return DType::Bool;
}
DType float_of(DType d) {
  return d == DType::F16 ? DType::F16 : DType::F32;
}
DType number_of(DType d) {
  return d == DType::Bool ? DType::I32 : d;
}
Shape common_shape(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t k = 1; k <= out.size(); k++) {
    const int64_t x = k <= a.size() ? a[a.size() - k] : 1, y = k <= b.size() ? b[b.size() - k] : 1;
    out[out.size() - k] = x == 1 ? y : x;
  }
  return out;
}
NdArray broadcast(const NdArray& a, const Shape& shape) {
  const auto from = [&](const Index& i) {
    Index own(i.end() - static_cast<int64_t>(a.shape.size()), i.end());
    for (size_t k = 0; k < own.size(); k++)
      if (a.shape[k] == 1) own[k] = 0;
    return own;
  };
  return moved(a, shape, from);
}
NdArray cast(NdArray a, DType d) {
  a.dtype = d;
  for (double& v : a.data) v = whole(d, v);
  return a;
}
NdArray map(const NdArray& a, DType d, const std::function<double(double)>& f) {
  return make(d, a.shape, [&](const Index& i) { return whole(d, f(get(a, i))); });
}
NdArray map(const NdArray& a, const NdArray& b, DType d, const std::function<double(double, double)>& f) {
  const Shape shape = common_shape(a.shape, b.shape);
  const NdArray x = broadcast(a, shape), y = broadcast(b, shape);
  return make(d, shape, [&](const Index& i) { return whole(d, f(get(x, i), get(y, i))); });
}
NdArray select(const NdArray& condition, const NdArray& a, const NdArray& b) {
  const Shape shape = common_shape(condition.shape, common_shape(a.shape, b.shape));
  const NdArray c = broadcast(condition, shape), x = broadcast(a, shape), y = broadcast(b, shape);
  return make(larger(a.dtype, b.dtype), shape, [&](const Index& i) { return get(c, i) != 0 ? get(x, i) : get(y, i); });
}
NdArray scaled_sum(NdArray a, const NdArray& b) {
  const NdArray x = broadcast(b, a.shape);
  a.dtype = larger(a.dtype, b.dtype);
  if (a.scale.empty()) a.scale.resize(a.data.size());
  for (size_t i = 0; i < a.data.size(); i++) {
    a.scale[i] = std::max(a.scale[i], std::abs(a.data[i])) + std::abs(x.data[i]) + std::abs(a.data[i] + x.data[i]);
    a.data[i] += x.data[i];
  }
  return a;
}

NdArray fold(const NdArray& a, const std::vector<int64_t>* axes, bool keepdim, DType d, const Fold& f) {
  const auto n = static_cast<int64_t>(a.shape.size());
  std::vector<bool> folded(at(n), axes == nullptr);
  if (axes != nullptr)
    for (int64_t k : *axes) folded[at(normal(k, n))] = true;
  Shape kept = a.shape, shape;
  for (size_t k = 0; k < kept.size(); k++) {
    if (folded[k]) kept[k] = 1;
    if (!folded[k] || keepdim) shape.push_back(kept[k]);
  }
  std::vector<Values> cells(at(count(kept)));
  for (int64_t i = 0; i < count(a.shape); i++) {
    const Index from = place(a.shape, i);
    int64_t to = 0;
    for (size_t k = 0; k < kept.size(); k++) to = to * kept[k] + (folded[k] ? 0 : from[k]);
    cells[at(to)].push_back(a.data[at(i)]);
  }
  NdArray out{d, shape, {}, {}};
  for (const Values& v : cells) {
    const auto [value, scale] = f(v);
    out.data.push_back(value);
    out.scale.push_back(scale);
  }
  return out;
}
NdArray along(const NdArray& a, int64_t axis, DType d, const std::function<Values(const Values&)>& f) {
  NdArray out{d, a.shape, Values(a.data.size()), {}};
  if (a.data.empty()) return out;
  const int64_t k = normal(axis, static_cast<int64_t>(a.shape.size())), n = a.shape[at(k)];
  int64_t inner = 1;
  for (size_t j = at(k) + 1; j < a.shape.size(); j++) inner *= a.shape[j];
  for (int64_t start = 0; start < count(a.shape); start++) {
    if (start / inner % n != 0) continue;
    Values row;
    for (int64_t i = 0; i < n; i++) row.push_back(a.data[at(start + i * inner)]);
    row = f(row);
    for (int64_t i = 0; i < n; i++) out.data[at(start + i * inner)] = row[at(i)];
  }
  return out;
}
std::pair<double, double> sum_of(const Values& v) {
  Sum s;
  for (double x : v) s.add(x);
  return {s.value, s.scale()};
}
std::pair<double, double> mean_of(const Values& v) {
  const auto [sum, scale] = sum_of(v);
  const auto n = static_cast<double>(v.size());
  return {sum / n, scale / n};
}
// The mean that is taken off is rounded, by up to 2^-24 of its own scale. That counts with the largest distance from
// it, and squared.
std::pair<double, double> variance_of(const Values& v, int64_t correction) {
  const auto [mean, mean_scale] = mean_of(v);
  Sum s;
  double far = 0;
  for (double x : v) {
    s.add((x - mean) * (x - mean));
    far = std::max(far, std::abs(x - mean));
  }
  const double n = std::max<double>(0, static_cast<double>(v.size()) - static_cast<double>(correction));
  const double of_mean = (far + 0x1p-24 * mean_scale) * mean_scale * static_cast<double>(v.size());
  return {s.value / n, (s.scale() + 4 * of_mean) / n};
}
double log_sum_exp(const Values& v) {
  double most = -kInf, sum = 0;
  for (double x : v) most = std::max(most, x);
  if (most == -kInf) return most;
  for (double x : v) sum += std::exp(x - most);
  return std::log(sum) + most;
}
Values softmax_of(const Values& v) {
  const double whole = log_sum_exp(v);
  Values out;
  for (double x : v) out.push_back(whole == -kInf ? 0 : std::exp(x - whole));
  return out;
}

NdArray permute(const NdArray& a, const Index& order) {
  Shape shape;
  for (int64_t k : order) shape.push_back(a.shape[at(normal(k, static_cast<int64_t>(order.size())))]);
  return moved(a, shape, [&](const Index& i) {
    Index from(i.size());
    for (size_t k = 0; k < i.size(); k++) from[at(normal(order[k], static_cast<int64_t>(order.size())))] = i[k];
    return from;
  });
}
NdArray cut(const NdArray& a, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  const size_t k = at(normal(axis, static_cast<int64_t>(a.shape.size())));
  Shape shape = a.shape;
  shape[k] = 0;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) shape[k]++;
  return moved(a, shape, [&](Index i) {
    i[k] = begin + i[k] * step;
    return i;
  });
}
NdArray join(const std::vector<NdArray>& parts, int64_t axis) {
  const size_t k = at(normal(axis, static_cast<int64_t>(parts[0].shape.size())));
  DType d = DType::Bool;
  Shape shape = parts[0].shape;
  shape[k] = 0;
  for (const NdArray& p : parts) {
    shape[k] += p.shape[k];
    d = larger(d, p.dtype);
  }
  return make(d, shape, [&](Index i) {
    size_t p = 0;
    while (i[k] >= parts[p].shape[k]) i[k] -= parts[p++].shape[k];
    return get(parts[p], i);
  });
}

NdArray matmul(const NdArray& a, const NdArray& b) {
  const bool row = a.shape.size() == 1, column = b.shape.size() == 1;
  NdArray x = a, y = b;
  if (row) x.shape.insert(x.shape.begin(), 1);
  if (column) y.shape.push_back(1);
  const Shape batch =
      common_shape(Shape(x.shape.begin(), x.shape.end() - 2), Shape(y.shape.begin(), y.shape.end() - 2));
  const int64_t m = *(x.shape.end() - 2), inner = x.shape.back(), n = y.shape.back();
  const auto with = [&](int64_t rows, int64_t columns) {
    Shape s = batch;
    s.insert(s.end(), {rows, columns});
    return s;
  };
  x = broadcast(x, with(m, inner));
  y = broadcast(y, with(inner, n));
  const DType d = larger(a.dtype, b.dtype);
  NdArray out{d == DType::Bool ? DType::I32 : d, with(m, n), {}, {}};
  for (int64_t i = 0; i < count(out.shape); i++) {
    Index l = place(out.shape, i), r = l;
    Sum s;
    for (int64_t j = 0; j < inner; j++) {
      l.back() = *(r.end() - 2) = j;
      s.add(get(x, l) * get(y, r));
    }
    out.data.push_back(s.value);
    out.scale.push_back(s.scale());
  }
  if (column) out.shape.pop_back();
  if (row) out.shape.erase(out.shape.end() - (column ? 1 : 2));
  return out;
}

NdArray conv2d(const NdArray& x, const NdArray& w, const NdArray* bias, const Conv2dOptions& o) {
  const int64_t h = x.shape[2], wide = x.shape[3], per = w.shape[1], each = w.shape[0] / o.groups;
  const auto places = [](int64_t n, int64_t k, int64_t stride, int64_t padding, int64_t dilation) {
    return (n + 2 * padding - dilation * (k - 1) - 1) / stride + 1;
  };
  NdArray out{larger(x.dtype, w.dtype),
              {x.shape[0], w.shape[0], places(h, w.shape[2], o.stride.first, o.padding.first, o.dilation.first),
               places(wide, w.shape[3], o.stride.second, o.padding.second, o.dilation.second)},
              {},
              {}};
  if (out.dtype == DType::Bool) out.dtype = DType::I32;
  if (bias != nullptr) out.dtype = larger(out.dtype, bias->dtype);
  for (int64_t i = 0; i < count(out.shape); i++) {
    const Index p = place(out.shape, i);
    Sum s;
    for (int64_t c = 0; c < per; c++)
      for (int64_t r = 0; r < w.shape[2]; r++)
        for (int64_t t = 0; t < w.shape[3]; t++) {
          const int64_t u = p[2] * o.stride.first - o.padding.first + r * o.dilation.first;
          const int64_t v = p[3] * o.stride.second - o.padding.second + t * o.dilation.second;
          if (u < 0 || v < 0 || u >= h || v >= wide) continue;
          s.add(get(x, {p[0], p[1] / each * per + c, u, v}) * get(w, {p[1], c, r, t}));
        }
    if (bias != nullptr) s.add(bias->data[at(p[1])]);
    out.data.push_back(s.value);
    out.scale.push_back(s.scale());
  }
  return out;
}

NdArray pool2d(const NdArray& x, const Pool2dOptions& o, bool average) {
  const auto stride = o.stride.value_or(o.kernel);
  const size_t k = x.shape.size() - 2;
  NdArray out{average ? float_of(x.dtype) : x.dtype, x.shape, {}, {}};
  const auto places = [](int64_t n, int64_t kernel, int64_t step, int64_t padding, int64_t dilation) {
    return (n + 2 * padding - dilation * (kernel - 1) - 1) / step + 1;
  };
  out.shape[k] = places(x.shape[k], o.kernel.first, stride.first, o.padding.first, o.dilation.first);
  out.shape[k + 1] = places(x.shape[k + 1], o.kernel.second, stride.second, o.padding.second, o.dilation.second);
  for (int64_t i = 0; i < count(out.shape); i++) {
    Index p = place(out.shape, i);
    const int64_t top = p[k] * stride.first - o.padding.first, left = p[k + 1] * stride.second - o.padding.second;
    Sum s;
    double most = x.dtype == DType::Bool ? 0 : x.dtype == DType::I32 ? -0x1p31 : -kInf;
    int64_t inside = 0;
    for (int64_t r = 0; r < o.kernel.first; r++)
      for (int64_t t = 0; t < o.kernel.second; t++) {
        p[k] = top + r * o.dilation.first;
        p[k + 1] = left + t * o.dilation.second;
        if (p[k] < 0 || p[k + 1] < 0 || p[k] >= x.shape[k] || p[k + 1] >= x.shape[k + 1]) continue;
        s.add(get(x, p));
        most = std::max(most, get(x, p));
        inside++;
      }
    if (o.count_include_pad) inside = o.kernel.first * o.kernel.second;
    const auto n = static_cast<double>(std::max<int64_t>(inside, 1));
    out.data.push_back(average ? s.value / n : most);
    out.scale.push_back(average ? s.scale() / n : 0);
  }
  return out;
}

NdArray attention(const NdArray& q, const NdArray& k, const NdArray& v, const NdArray& added) {
  Index order(k.shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(*(order.end() - 1), *(order.end() - 2));
  const double scale = std::sqrt(static_cast<double>(q.shape.back()));
  NdArray scores = map(matmul(q, permute(k, order)), added, DType::F32,
                       [&](double score, double more) { return score / scale + more; });
  NdArray out = matmul(along(scores, -1, DType::F32, softmax_of), v);
  out.dtype = float_of(larger(q.dtype, larger(k.dtype, v.dtype)));
  return out;
}

}  // namespace uopc::plain
