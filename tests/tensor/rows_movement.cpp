// Movement: exact, of every dtype.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "tensor/operation_rows.hpp"

namespace uopc::plain {
namespace {

constexpr Near kExact{0, 0};
using Pairs = std::vector<std::pair<int64_t, int64_t>>;

NdArray reshaped(NdArray a, Shape shape) {
  a.shape = std::move(shape);
  return a;
}
int64_t ndim(const NdArray& a) {
  return static_cast<int64_t>(a.shape.size());
}

// A shape of as many elements.
Shape another_shape(Draw& d, const Shape& s) {
  Shape out;
  for (int64_t n : s) {
    if (!out.empty() && d.coin())
      out.back() *= n;
    else if (n % 2 == 0 && n > 0 && d.coin())
      out.insert(out.end(), {2, n / 2});
    else
      out.push_back(n);
  }
  if (d.coin()) out.insert(out.begin(), 1);
  return out;
}

// Python's x[begin:end:step].
NdArray sliced(const NdArray& a, int64_t k, const Slice& s) {
  const int64_t n = a.shape[static_cast<size_t>(k)], low = s.step < 0 ? -1 : 0, high = s.step < 0 ? n - 1 : n;
  const auto clip = [&](std::optional<int64_t> i, int64_t absent) {
    if (!i) return absent;
    return std::min(std::max(*i < 0 ? *i + n : *i, low), high);
  };
  return cut(a, k, clip(s.begin, s.step < 0 ? high : low), clip(s.end, s.step < 0 ? low : high), s.step);
}

Call at_call(Draw& d) {
  const Shape shape = d.shape(1, 4);
  std::vector<At> places;
  const int64_t open = d.below(5);  // an ellipsis stands for this axis and the next
  for (int64_t k = 0; k < static_cast<int64_t>(shape.size()); k++) {
    const int64_t n = shape[static_cast<size_t>(k)];
    const auto end = [&] { return d.coin() ? std::optional<int64_t>() : d.between(-n - 1, n + 1); };
    if (d.below(4) == 0) places.push_back(kNewAxis);
    if (k == open) {
      places.push_back(kEllipsis);
      k++;
    } else if (n > 0 && d.below(3) == 0) {
      places.push_back(d.between(-n, n - 1));
    } else {
      places.push_back(Slice{end(), end(), d.pick<int64_t>({1, 1, 2, 3, -1, -2})});
    }
  }
  if (open >= static_cast<int64_t>(shape.size()) && places.size() > 1 && d.coin()) places.pop_back();
  const auto want = [places](std::span<const NdArray> in) {
    NdArray x = in[0];
    int64_t k = 0, used = 0;
    for (const At& p : places) used += p.kind == At::Kind::Number || p.kind == At::Kind::Slice;
    for (const At& p : places) {
      if (p.kind == At::Kind::NewAxis) {
        x.shape.insert(x.shape.begin() + k++, 1);
      } else if (p.kind == At::Kind::Ellipsis) {
        k += ndim(in[0]) - used;
      } else if (p.kind == At::Kind::Slice) {
        x = sliced(x, k++, p.slice);
      } else {
        const int64_t i = normal(p.number, x.shape[static_cast<size_t>(k)]);
        x = cut(x, k, i, i + 1);
        x.shape.erase(x.shape.begin() + k);
      }
    }
    return x;
  };
  return one(
      {d.array(shape, d.dtype(kAllDTypes))}, [places](auto t) { return t[0].at(places); }, want);
}

Call pad_call(Draw& d) {
  const Shape shape = d.shape(1, 3);
  const DType dtype = d.dtype(kAllDTypes);
  Pairs around;
  for (int64_t n : shape) {
    const int64_t before = d.between(n > 2 ? -1 : 0, 2);
    around.emplace_back(before, d.between(n > 2 ? -1 : 0, 2));
  }
  Scalar value = d.pick<Scalar>({0, -3, 7});
  if (is_float(dtype) && d.coin()) value = d.pick<Scalar>({0.0, -0.3, d.for_gradient() ? 0.7 : HUGE_VAL});
  if (dtype == DType::Bool) value = d.coin();
  const auto want = [=](std::span<const NdArray> in) {
    Shape out = shape;
    for (size_t k = 0; k < out.size(); k++) out[k] += around[k].first + around[k].second;
    return make(dtype, out, [&](Index i) {
      for (size_t k = 0; k < i.size(); k++) {
        i[k] -= around[k].first;
        if (i[k] < 0 || i[k] >= shape[k]) return round_to(dtype, value.as_float());
      }
      return get(in[0], i);
    });
  };
  return one(
      {d.array(shape, dtype)}, [=](auto t) { return t[0].pad(around, value); }, want);
}

// Pieces of an axis, of these sizes.
NdArrays pieces(const NdArray& x, int64_t axis, const Shape& sizes) {
  NdArrays out;
  int64_t begin = 0;
  for (int64_t n : sizes) {
    out.push_back(cut(x, axis, begin, begin + n));
    begin += n;
  }
  return out;
}
Call pieces_call(Draw& d,
                 std::function<std::pair<std::function<Tensors(const Tensor&, int64_t)>, Shape>(int64_t)> how) {
  const Shape shape = d.shape(1, 3);
  const int64_t n = static_cast<int64_t>(shape.size()), axis = d.axis(n);
  const auto [run, sizes] = how(shape[static_cast<size_t>(normal(axis, n))]);
  return {{d.array(shape, d.dtype(kAllDTypes))},
          [run = run, axis](const Context&, std::span<const Tensor> t) { return run(t[0], axis); },
          [sizes = sizes, axis](std::span<const NdArray> in) { return pieces(in[0], axis, sizes); }};
}
Shape in_sizes(int64_t n, int64_t size) {
  Shape out;
  for (int64_t begin = 0; begin < std::max<int64_t>(n, 1); begin += size) out.push_back(std::min(size, n - begin));
  return out;
}

Call joined(Draw& d, bool stacked) {
  Shape shape = d.shape(stacked ? 0 : 1, 3);
  const auto n = static_cast<int64_t>(shape.size());
  const int64_t axis = stacked ? d.between(-n - 1, n) : d.axis(n);
  NdArrays in;
  for (int64_t i = d.between(1, 5); i > 0; i--) {
    in.push_back(d.array(shape, d.dtype(kAllDTypes)));
    if (!stacked) shape[static_cast<size_t>(normal(axis, n))] = d.between(0, 4);
  }
  return one(
      in, [=](auto t) { return stacked ? Tensor::stack(t, axis) : Tensor::cat(t, axis); },
      [=](std::span<const NdArray> all) {
        NdArrays parts(all.begin(), all.end());
        if (stacked)
          for (NdArray& p : parts) p.shape.insert(p.shape.begin() + normal(axis, n + 1), 1);
        return join(parts, axis);
      });
}

Call triangle(Draw& d, bool lower) {
  const Shape shape = d.shape(2, 3);
  const int64_t diagonal = d.between(-4, 4);
  const auto want = [=](std::span<const NdArray> in) {
    return make(in[0].dtype, shape, [&](const Index& i) {
      const int64_t above = i.back() - *(i.end() - 2);
      return (lower ? above <= diagonal : above >= diagonal) ? get(in[0], i) : 0;
    });
  };
  return one(
      {d.array(shape, d.dtype(kAllDTypes))}, [=](auto t) { return lower ? t[0].tril(diagonal) : t[0].triu(diagonal); },
      want);
}

// A call on one array of a random shape.
Row of_one(const char* name, int64_t least, int64_t most,
           std::function<std::pair<std::function<Tensor(const Tensor&)>, std::function<NdArray(const NdArray&)>>(
               Draw&, const Shape&)>
               how) {
  return row(name, kExact, true, [=](Draw& d) {
    const Shape shape = d.shape(least, most);
    const auto [run, want] = how(d, shape);
    return one(
        {d.array(shape, d.dtype(kAllDTypes))}, [run = run](auto t) { return run(t[0]); },
        [want = want](auto in) { return want(in[0]); });
  });
}

}  // namespace

void add_movement(std::vector<Row>& rows) {
  const auto add = [&](Row r) { rows.push_back(std::move(r)); };
  using Run = std::function<Tensor(const Tensor&)>;
  using Want = std::function<NdArray(const NdArray&)>;
  using Both = std::pair<Run, Want>;
  const auto to_shape = [](Draw& d, const Shape& s, bool view) -> Both {
    Shape to = another_shape(d, s), given = to;
    if (count(s) > 0 && !given.empty() && d.coin())
      given[static_cast<size_t>(d.below(static_cast<int64_t>(to.size())))] = -1;
    return {[=](const Tensor& t) { return view ? t.view(given) : t.reshape(given); },
            [=](const NdArray& a) { return reshaped(a, to); }};
  };
  add(of_one("reshape", 0, 4, [=](Draw& d, const Shape& s) { return to_shape(d, s, false); }));
  add(of_one("view", 0, 4, [=](Draw& d, const Shape& s) { return to_shape(d, s, true); }));
  const auto wide = [](bool to) {
    return [=](Draw& d) {
      const Shape shape = d.shape(0, 4), from = d.broadcasting(shape);
      Shape given = shape;
      for (size_t k = 1; k <= from.size(); k++)
        if (from[from.size() - k] == shape[shape.size() - k] && d.coin()) given[given.size() - k] = -1;
      return one(
          {d.array(from, d.dtype(kAllDTypes))},
          [=](auto t) { return to ? t[0].broadcast_to(given) : t[0].expand(given); },
          [=](auto in) { return broadcast(in[0], shape); });
    };
  };
  add(row("expand", kExact, true, wide(false)));
  add(row("broadcast_to", kExact, true, wide(true)));
  add(of_one("permute", 0, 4, [](Draw& d, const Shape& s) -> Both {
    Shape order(s.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t k = order.size(); k > 1; k--)
      std::swap(order[k - 1], order[static_cast<size_t>(d.below(static_cast<int64_t>(k)))]);
    for (int64_t& k : order)
      if (d.coin()) k -= static_cast<int64_t>(s.size());
    return {[=](const Tensor& t) { return t.permute(order); }, [=](const NdArray& a) { return permute(a, order); }};
  }));
  add(of_one("transpose", 2, 4, [](Draw& d, const Shape& s) -> Both {
    const auto n = static_cast<int64_t>(s.size());
    const int64_t a = d.axis(n), b = d.axis(n);
    Index order(s.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[static_cast<size_t>(normal(a, n))], order[static_cast<size_t>(normal(b, n))]);
    return {[=](const Tensor& t) { return t.transpose(a, b); }, [=](const NdArray& x) { return permute(x, order); }};
  }));
  add(of_one("T", 0, 4, [](Draw&, const Shape& s) -> Both {
    Index order(s.size());
    std::iota(order.rbegin(), order.rend(), 0);
    return {[](const Tensor& t) { return t.T(); }, [=](const NdArray& x) { return permute(x, order); }};
  }));
  add(of_one("movedim", 1, 4, [](Draw& d, const Shape& s) -> Both {
    const auto n = static_cast<int64_t>(s.size());
    const int64_t from = d.axis(n), to = d.axis(n);
    Index order;
    for (int64_t k = 0; k < n; k++)
      if (k != normal(from, n)) order.push_back(k);
    order.insert(order.begin() + normal(to, n), normal(from, n));
    return {[=](const Tensor& t) { return t.movedim(from, to); }, [=](const NdArray& x) { return permute(x, order); }};
  }));
  add(of_one("shrink", 1, 4, [](Draw& d, const Shape& s) -> Both {
    Pairs bounds;
    for (int64_t n : s) {
      const int64_t a = d.between(0, n);
      bounds.emplace_back(a, d.between(a, n));
    }
    return {[=](const Tensor& t) { return t.shrink(bounds); },
            [=](NdArray x) {
              for (size_t k = 0; k < bounds.size(); k++)
                x = cut(x, static_cast<int64_t>(k), bounds[k].first, bounds[k].second);
              return x;
            }};
  }));
  add(of_one("narrow", 1, 3, [](Draw& d, const Shape& s) -> Both {
    const int64_t axis = d.axis(static_cast<int64_t>(s.size()));
    const int64_t n = s[static_cast<size_t>(normal(axis, static_cast<int64_t>(s.size())))];
    const int64_t start = d.between(0, n), length = d.between(0, n - start),
                  given = d.coin() && n > start ? start - n : start;
    return {[=](const Tensor& t) { return t.narrow(axis, given, length); },
            [=](const NdArray& x) { return cut(x, axis, start, start + length); }};
  }));
  add(row("at", kExact, true, at_call));
  add(row("operator[]", kExact, true, [](Draw& d) {
    const Shape s = d.full_shape(1, 3);
    const int64_t i = d.between(-s[0], s[0] - 1), from = normal(i, s[0]);
    return one(
        {d.array(s, d.dtype(kAllDTypes))}, [=](auto t) { return t[0][i]; },
        [=](auto in) { return reshaped(cut(in[0], 0, from, from + 1), Shape(s.begin() + 1, s.end())); });
  }));
  add(row("pad", kExact, true, pad_call));
  add(of_one("flip", 0, 3, [](Draw& d, const Shape& s) -> Both {
    const bool all = d.coin();
    const auto axes = d.some_axes(static_cast<int64_t>(s.size()));
    return {[=](const Tensor& t) { return all ? t.flip() : t.flip(axes); },
            [=](NdArray x) {
              for (int64_t k = 0; k < ndim(x); k++)
                if (all || std::count(axes.begin(), axes.end(), k) + std::count(axes.begin(), axes.end(), k - ndim(x)))
                  x = cut(x, k, x.shape[static_cast<size_t>(k)] - 1, -1, -1);
              return x;
            }};
  }));
  add(row("cat", kExact, true, [](Draw& d) { return joined(d, false); }));
  add(row("stack", kExact, true, [](Draw& d) { return joined(d, true); }));
  add(row("split", kExact, true, [](Draw& d) {
    return pieces_call(d, [&](int64_t n) {
      const int64_t size = d.between(1, 4);
      return std::pair([=](const Tensor& t, int64_t axis) { return t.split(size, axis); }, in_sizes(n, size));
    });
  }));
  add(row("split/sizes", kExact, true, [](Draw& d) {
    return pieces_call(d, [&](int64_t n) {
      const int64_t a = d.between(0, n), b = d.between(0, n - a);
      const Shape sizes{a, b, n - a - b};
      return std::pair([=](const Tensor& t, int64_t axis) { return t.split(sizes, axis); }, sizes);
    });
  }));
  add(row("chunk", kExact, true, [](Draw& d) {
    return pieces_call(d, [&](int64_t n) {
      const int64_t into = d.between(1, 4);
      return std::pair([=](const Tensor& t, int64_t axis) { return t.chunk(into, axis); },
                       in_sizes(n, std::max<int64_t>(1, (n + into - 1) / into)));
    });
  }));
  add(of_one("repeat", 0, 3, [](Draw& d, const Shape& s) -> Both {
    Shape times(s.size() + static_cast<size_t>(d.below(2)));
    for (int64_t& n : times) n = d.pick<int64_t>({1, 2, 3, 1, 0});
    return {[=](const Tensor& t) { return t.repeat(times); },
            [=](NdArray x) {
              x.shape.insert(x.shape.begin(), times.size() - x.shape.size(), 1);
              Shape out = x.shape;
              for (size_t k = 0; k < out.size(); k++) out[k] *= times[k];
              return moved(x, out, [&](Index i) {
                for (size_t k = 0; k < i.size(); k++) i[k] %= x.shape[k];
                return i;
              });
            }};
  }));
  add(of_one("repeat_interleave", 1, 3, [](Draw& d, const Shape& s) -> Both {
    const int64_t times = d.between(0, 3), axis = d.axis(static_cast<int64_t>(s.size()));
    return {[=](const Tensor& t) { return t.repeat_interleave(times, axis); },
            [=](const NdArray& x) {
              const auto k = static_cast<size_t>(normal(axis, ndim(x)));
              Shape out = x.shape;
              out[k] *= times;
              return moved(x, out, [&](Index i) {
                i[k] /= times;
                return i;
              });
            }};
  }));
  add(of_one("squeeze", 0, 4, [](Draw& d, const Shape& s) -> Both {
    const bool all = d.coin();
    const auto axes = d.some_axes(static_cast<int64_t>(s.size()));
    Shape out;
    for (int64_t k = 0, n = static_cast<int64_t>(s.size()); k < n; k++)
      if (s[static_cast<size_t>(k)] != 1 ||
          !(all || std::count(axes.begin(), axes.end(), k) + std::count(axes.begin(), axes.end(), k - n)))
        out.push_back(s[static_cast<size_t>(k)]);
    return {[=](const Tensor& t) { return all ? t.squeeze() : t.squeeze(axes); },
            [=](const NdArray& x) { return reshaped(x, out); }};
  }));
  add(of_one("unsqueeze", 0, 3, [](Draw& d, const Shape& s) -> Both {
    const int64_t axis = d.axis(static_cast<int64_t>(s.size()) + 1);
    Shape out = s;
    out.insert(out.begin() + normal(axis, static_cast<int64_t>(s.size()) + 1), 1);
    return {[=](const Tensor& t) { return t.unsqueeze(axis); }, [=](const NdArray& x) { return reshaped(x, out); }};
  }));
  add(of_one("flatten", 0, 4, [](Draw& d, const Shape& s) -> Both {
    const auto n = static_cast<int64_t>(s.size());
    if (n == 0) return {[](const Tensor& t) { return t.flatten(); }, [](const NdArray& x) { return reshaped(x, {1}); }};
    const int64_t a = d.below(n), b = d.between(a, n - 1);
    Shape out(s.begin(), s.begin() + a);
    out.push_back(count(Shape(s.begin() + a, s.begin() + b + 1)));
    out.insert(out.end(), s.begin() + b + 1, s.end());
    const int64_t last = d.coin() ? b : b - n;
    return {[=](const Tensor& t) { return t.flatten(a, last); }, [=](const NdArray& x) { return reshaped(x, out); }};
  }));
  add(of_one("unflatten", 1, 3, [](Draw& d, const Shape& s) -> Both {
    const int64_t axis = d.axis(static_cast<int64_t>(s.size()));
    const auto k = static_cast<size_t>(normal(axis, static_cast<int64_t>(s.size())));
    const int64_t n = s[k];
    const Shape sizes = n == 4 ? Shape{2, 2} : n == 0 ? Shape{3, 0} : Shape{n, 1};
    Shape out(s.begin(), s.begin() + static_cast<int64_t>(k));
    out.insert(out.end(), sizes.begin(), sizes.end());
    out.insert(out.end(), s.begin() + static_cast<int64_t>(k) + 1, s.end());
    return {[=](const Tensor& t) { return t.unflatten(axis, sizes); },
            [=](const NdArray& x) { return reshaped(x, out); }};
  }));
  add(of_one("roll", 1, 3, [](Draw& d, const Shape& s) -> Both {
    const int64_t shift = d.between(-9, 9), axis = d.axis(static_cast<int64_t>(s.size()));
    return {[=](const Tensor& t) { return t.roll(shift, axis); },
            [=](const NdArray& x) {
              const auto k = static_cast<size_t>(normal(axis, ndim(x)));
              return moved(x, x.shape, [&](Index i) {
                i[k] = ((i[k] - shift) % x.shape[k] + x.shape[k]) % x.shape[k];
                return i;
              });
            }};
  }));
  add(row("tril", kExact, true, [](Draw& d) { return triangle(d, true); }));
  add(row("triu", kExact, true, [](Draw& d) { return triangle(d, false); }));
}

}  // namespace uopc::plain
