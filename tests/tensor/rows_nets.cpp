// Products, windows, lookups, norms, losses, attention.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/operation_rows.hpp"

namespace uopc::plain {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

NdArray mean_over(const NdArray& terms, DType d, double rows) {
  NdArray out = fold(terms, nullptr, false, d, mean_of);
  out.scale[0] = std::max(out.scale[0], rows);
  return out;
}

Call matmul_call(Draw& d) {
  const Shape s = d.shape(3, 4);  // batch.., m, k
  Shape batch(s.begin(), s.end() - 2), other = d.broadcasting(batch);
  const int64_t m = *(s.end() - 2), k = s.back(), n = d.size();
  batch = d.broadcasting(batch);
  Shape left = batch, right = other;
  left.insert(left.end(), {m, k});
  right.insert(right.end(), {k, n});
  if (d.below(4) == 0) left = {k};
  if (d.below(4) == 0) right = {k};
  return one(
      {d.array(left, d.dtype(kAllDTypes)), d.array(right, d.dtype(kAllDTypes))},
      [](auto t) { return t[0].matmul(t[1]); }, [](auto in) { return matmul(in[0], in[1]); });
}

Call linear_call(Draw& d) {
  Shape s = d.shape(1, 3);
  const int64_t out = d.size();
  NdArrays in{d.array(s, d.dtype(kFloats)), d.array({out, s.back()}, d.dtype(kFloats))};
  if (d.coin()) in.push_back(d.array({out}, d.dtype(kFloats)));
  return one(
      in, [](auto t) { return t[0].linear(t[1], t.size() > 2 ? t[2] : Tensor()); },
      [](auto a) {
        const NdArray y = matmul(a[0], permute(a[1], {1, 0}));
        return a.size() > 2 ? scaled_sum(y, a[2]) : y;
      });
}

Call conv_call(Draw& d) {
  Conv2dOptions o;
  o.groups = d.pick<int64_t>({1, 1, 2, 3});
  const int64_t per = d.pick<int64_t>({1, 2, 3, 2, 0}), each = d.between(1, 2), kh = d.between(1, 3),
                kw = d.between(1, 3);
  o.stride = {d.between(1, 3), d.between(1, 3)};
  o.padding = {d.between(0, 2), d.between(0, 2)};
  o.dilation = {d.between(1, 2), d.between(1, 2)};
  const int64_t h = (kh - 1) * o.dilation.first + d.between(1, 4), w = (kw - 1) * o.dilation.second + d.between(1, 4);
  NdArrays in{d.array({d.pick<int64_t>({1, 2, 2, 0}), per * o.groups, h, w}, d.dtype(kFloats)),
              d.array({each * o.groups, per, kh, kw}, d.dtype(kFloats))};
  if (d.coin()) in.push_back(d.array({each * o.groups}, d.dtype(kFloats)));
  return one(
      in, [=](auto t) { return t[0].conv2d(t[1], t.size() > 2 ? t[2] : Tensor(), o); },
      [=](auto a) { return conv2d(a[0], a[1], a.size() > 2 ? &a[2] : nullptr, o); });
}

Call pool_call(Draw& d, bool average) {
  Pool2dOptions o;
  o.kernel = {d.between(1, 3), d.between(1, 3)};
  if (d.coin()) o.stride = std::pair(d.between(1, 3), d.between(1, 3));
  o.padding = {d.between(0, o.kernel.first / 2), d.between(0, o.kernel.second / 2)};
  o.dilation = {d.between(1, 2), d.between(1, 2)};
  o.count_include_pad = d.coin();
  Shape s = d.shape(0, 2);
  s.insert(s.end(), {(o.kernel.first - 1) * o.dilation.first + d.between(1, 4),
                     (o.kernel.second - 1) * o.dilation.second + d.between(1, 4)});
  return one(
      {d.array(s, d.dtype(average ? kAllDTypes : kNumbers))},
      [=](auto t) { return average ? t[0].avg_pool2d(o) : t[0].max_pool2d(o); },
      [=](auto a) { return pool2d(a[0], o, average); });
}

// What stands at an index; 0 out of range.
double looked_up(const NdArray& x, Index at, size_t k, double index) {
  at[k] = static_cast<int64_t>(index);
  return index >= 0 && at[k] < x.shape[k] ? get(x, at) : 0;
}

Call layer_norm_call(Draw& d) {
  const Shape s = d.shape(1, 3);
  const auto n = static_cast<int64_t>(s.size());
  const int64_t axes = d.between(1, n);
  const double eps = d.pick({1e-5, 0.1});
  return one(
      {d.array(s, d.dtype(kAllDTypes))}, [=](auto t) { return t[0].layer_norm(axes, eps); },
      [=](auto in) {
        std::vector<int64_t> last;
        for (int64_t k = 0; k < axes; k++) last.push_back(n - 1 - k);
        const NdArray mean = fold(in[0], &last, true, DType::F32, mean_of);
        const NdArray var = fold(in[0], &last, true, DType::F32, [](const Values& v) { return variance_of(v, 0); });
        const NdArray away = map(in[0], mean, DType::F32, [](double a, double b) { return a - b; });
        NdArray out = map(away, var, float_of(in[0].dtype), [&](double a, double v) { return a / std::sqrt(v + eps); });
        // The error of the mean, of up to 2 x 150 terms, over the deviation; then that of the deviation.
        const NdArray rms = broadcast(var, s);
        for (size_t i = 0; i < out.data.size(); i++)
          out.scale.push_back(8 / std::sqrt(rms.data[i] + eps) + std::abs(out.data[i]));
        return out;
      });
}
Call rms_norm_call(Draw& d) {
  const double eps = d.pick({d.for_gradient() ? 0.01 : 1e-6, 0.1});
  return one(
      {d.array(d.shape(1, 3), d.dtype(kAllDTypes))}, [=](auto t) { return t[0].rms_norm(eps); },
      [=](auto in) {
        const std::vector<int64_t> last{-1};
        const NdArray square =
            fold(map(in[0], DType::F32, [](double v) { return v * v; }), &last, true, DType::F32, mean_of);
        return map(in[0], square, float_of(in[0].dtype), [&](double v, double m) { return v / std::sqrt(m + eps); });
      });
}
Call batch_norm_call(Draw& d) {
  const Shape s = d.shape(2, 4);
  const bool weight = d.coin(), bias = d.coin();
  const auto per_channel = [&](Range r) { return d.array({s[1]}, DType::F32, r); };
  NdArrays in{d.array(s, d.dtype(kFloats)), per_channel({}), per_channel({0.5, 2}), per_channel({}), per_channel({})};
  return one(
      in, [=](auto t) { return t[0].batch_norm(weight ? t[3] : Tensor(), bias ? t[4] : Tensor(), t[1], t[2]); },
      [=](auto a) {
        NdArray out{DType::F32, s, {}, {}};
        for (int64_t i = 0; i < count(s); i++) {
          const auto c = static_cast<size_t>(place(s, i)[1]);
          const double w = weight ? a[3].data[c] : 1, b = bias ? a[4].data[c] : 0;
          const double x = a[0].data[static_cast<size_t>(i)], scale = a[2].data[c] * w;
          out.data.push_back((x - a[1].data[c]) * scale + b);
          out.scale.push_back((std::abs(x) + std::abs(a[1].data[c])) * std::abs(scale) + std::abs(b));
        }
        return out;
      });
}

Call cross_entropy_call(Draw& d) {
  const Shape s = d.full_shape(1, 3);
  const double smoothing = d.pick({0.0, 0.1, 0.7, 1.0});
  return one(
      {d.array(s, d.dtype(kFloats), {-5, 5}), d.indices(Shape(s.begin(), s.end() - 1), s.back(), d.coin())},
      [=](auto t) { return t[0].cross_entropy(t[1], smoothing); },
      [=](auto in) {
        NdArray losses{DType::F32, in[1].shape, {}, {}};
        for (int64_t i = 0; i < count(losses.shape); i++) {
          Values row;
          for (int64_t c = 0; c < s.back(); c++) row.push_back(in[0].data[static_cast<size_t>(i * s.back() + c)]);
          const double whole = log_sum_exp(row), label = in[1].data[static_cast<size_t>(i)];
          double mean = 0;
          for (double v : row) mean += (v - whole) / static_cast<double>(row.size());
          const bool known = label >= 0 && label < static_cast<double>(row.size());
          const double own = known ? row[static_cast<size_t>(label)] - whole : 0;
          losses.data.push_back(known ? -(1 - smoothing) * own - smoothing * mean : 0);
        }
        return mean_over(losses, DType::F32, 10);
      });
}
Call loss_call(Draw& d, bool squares) {
  const Shape s = d.full_shape(0, 3);
  return one(
      {d.array(s, d.dtype(kFloats), {-3, 3}), d.array(s, d.dtype(kNumbers), {0, 1})},
      [=](auto t) { return squares ? t[0].mse_loss(t[1]) : t[0].binary_cross_entropy_with_logits(t[1]); },
      [=](auto in) {
        const NdArray terms = map(in[0], in[1], DType::F32, [&](double x, double t) {
          return squares ? (x - t) * (x - t) : std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x)));
        });
        return mean_over(terms, float_of(larger(in[0].dtype, in[1].dtype)), 10);
      });
}

Call attention_call(Draw& d) {
  const Shape batch = d.shape(1, 2);
  const int64_t rows = d.size(), columns = d.size(), size = d.size(), out = d.size();
  const auto with = [&](int64_t m, int64_t n) {
    Shape s = batch;
    s.insert(s.end(), {m, n});
    return s;
  };
  const bool causal = d.coin(), is_bool = d.coin(), masked = d.coin();
  NdArrays in;
  for (const Shape& s : {with(rows, size), with(columns, size), with(columns, out)})
    in.push_back(d.array(s, d.dtype(kFloats)));
  Shape seen = with(rows, columns);
  if (d.coin()) seen = {rows, columns};
  if (d.coin()) seen[seen.size() - 2] = 1;
  if (masked && is_bool) in.push_back(d.array(seen, DType::Bool, {-1, 1.5}));
  if (masked && !is_bool) in.push_back(d.array(seen, DType::F32));
  return one(
      in,
      [=](auto t) { return Tensor::scaled_dot_product_attention(t[0], t[1], t[2], masked ? t[3] : Tensor(), causal); },
      [=](auto a) {
        const NdArray past =
            make(DType::F32, {rows, columns}, [&](const Index& i) { return causal && i[1] > i[0] ? -kInf : 0; });
        if (!masked) return attention(a[0], a[1], a[2], past);
        return attention(a[0], a[1], a[2], map(a[3], past, DType::F32, [&](double m, double p) {
                           return (is_bool ? (m != 0 ? 0 : -kInf) : m) + p;
                         }));
      });
}

}  // namespace

void add_nets(std::vector<Row>& rows) {
  const auto add = [&](const char* name, Near near, bool smooth, auto call) {
    rows.push_back(row(name, near, smooth, call));
  };
  add("matmul", {1}, true, matmul_call);
  add("dot", {1}, true, [](Draw& d) {
    const int64_t n = d.size();
    return one(
        {d.array({n}, d.dtype(kAllDTypes)), d.array({n}, d.dtype(kAllDTypes))}, [](auto t) { return t[0].dot(t[1]); },
        [](auto in) { return matmul(in[0], in[1]); });
  });
  add("linear", {2}, true, linear_call);
  add("conv2d", {1}, true, conv_call);
  add("avg_pool2d", {2}, true, [](Draw& d) { return pool_call(d, true); });
  add("max_pool2d", {0, 0}, true, [](Draw& d) { return pool_call(d, false); });

  add("gather", {0, 0}, true, [](Draw& d) {
    const Shape s = d.shape(1, 3);
    const int64_t axis = d.axis(static_cast<int64_t>(s.size()));
    const auto k = static_cast<size_t>(normal(axis, static_cast<int64_t>(s.size())));
    Shape taken = s;
    for (int64_t& n : taken) n = d.between(0, n);
    taken[k] = d.between(0, 5);
    return one(
        {d.array(s, d.dtype(kAllDTypes)), d.indices(taken, s[k], d.coin())},
        [=](auto t) { return t[0].gather(axis, t[1]); },
        [=](auto in) {
          return make(in[0].dtype, taken, [&](const Index& i) { return looked_up(in[0], i, k, get(in[1], i)); });
        });
  });
  add("index_select", {0, 0}, true, [](Draw& d) {
    const Shape s = d.shape(1, 3);
    const int64_t axis = d.axis(static_cast<int64_t>(s.size())), n = d.between(0, 5);
    const auto k = static_cast<size_t>(normal(axis, static_cast<int64_t>(s.size())));
    Shape taken = s;
    taken[k] = n;
    return one(
        {d.array(s, d.dtype(kAllDTypes)), d.indices({n}, s[k], d.coin())},
        [=](auto t) { return t[0].index_select(axis, t[1]); },
        [=](auto in) {
          return make(in[0].dtype, taken, [&](const Index& i) { return looked_up(in[0], i, k, get(in[1], {i[k]})); });
        });
  });
  add("one_hot", {0, 0}, false, [](Draw& d) {
    Shape s = d.shape(0, 3);
    const int64_t classes = d.size();
    return one(
        {d.indices(s, classes, true)}, [=](auto t) { return t[0].one_hot(classes); },
        [=](auto in) {
          Shape out = s;
          out.push_back(classes);
          return make(DType::F32, out, [&](Index i) {
            const int64_t c = i.back();
            i.pop_back();
            return get(in[0], i) == static_cast<double>(c);
          });
        });
  });
  add("embedding", {0, 0}, true, [](Draw& d) {
    const Shape s = d.shape(0, 2);
    const int64_t classes = d.size(), size = d.size();
    return one(
        {d.array({classes, size}, d.dtype(kFloats)), d.indices(s, classes, d.coin())},
        [](auto t) { return Tensor::embedding(t[0], t[1]); },
        [=](auto in) {
          Shape out = s;
          out.push_back(size);
          return make(in[0].dtype, out, [&](Index i) {
            const int64_t c = i.back();
            i.pop_back();
            return looked_up(in[0], {0, c}, 0, get(in[1], i));
          });
        });
  });

  add("layer_norm", {40}, true, layer_norm_call);
  add("rms_norm", {20}, true, rms_norm_call);
  add("batch_norm", {4}, true, batch_norm_call);
  add("dropout", {0, 0}, true, [](Draw& d) {
    return one(
        {d.array(d.shape(0, 3), d.dtype(kAllDTypes))}, [](auto t) { return t[0].dropout(0.3); },
        [](auto in) { return in[0]; });
  });
  add("cross_entropy", {8}, true, cross_entropy_call);
  add("binary_cross_entropy_with_logits", {8}, true, [](Draw& d) { return loss_call(d, false); });
  add("mse_loss", {8}, true, [](Draw& d) { return loss_call(d, true); });
  // The weights are as near as scores of up to 28 terms in an exp are.
  add("scaled_dot_product_attention", {60}, true, attention_call);
}

}  // namespace uopc::plain
