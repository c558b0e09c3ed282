// Creation and copies: exact, of every dtype.
#include <cmath>
#include <string>

#include "tensor/operation_rows.hpp"

namespace uopc::plain {
namespace {

constexpr Near kExact{0, 0};

// A tensor out of nothing but a Context.
Call made(std::function<Tensor(const Context&)> run, NdArray want) {
  return {{},
          [=](const Context& ctx, std::span<const Tensor>) { return Tensors{run(ctx)}; },
          [=](std::span<const NdArray>) { return NdArrays{want}; }};
}
NdArray filled(DType d, const Shape& shape, double v) {
  return make(d, shape, [&](const Index&) { return round_to(d, v); });
}

}  // namespace

void add_creation(std::vector<Row>& rows) {
  const auto add = [&](const char* name, std::function<Call(Draw&)> call) {
    rows.push_back(row(name, kExact, false, std::move(call)));
  };
  add("zeros", [](Draw& d) {
    const Shape s = d.shape(0, 3);
    const DType t = d.dtype(kAllDTypes);
    return made([=](const Context& c) { return Tensor::zeros(c, s, t); }, filled(t, s, 0));
  });
  add("empty", [](Draw& d) {
    const Shape s = d.shape(0, 3);
    const DType t = d.dtype(kAllDTypes);
    return made([=](const Context& c) { return Tensor::empty(c, s, t); }, filled(t, s, 0));
  });
  add("ones", [](Draw& d) {
    const Shape s = d.shape(0, 3);
    const DType t = d.dtype(kAllDTypes);
    return made([=](const Context& c) { return Tensor::ones(c, s, t); }, filled(t, s, 1));
  });
  add("full", [](Draw& d) {
    const Shape s = d.shape(0, 3);
    const DType t = d.dtype(kAllDTypes);
    const Scalar v = d.coin() ? Scalar(d.number(-3, 3)) : Scalar(d.between(-3, 3));
    return made([=](const Context& c) { return Tensor::full(c, s, v, t); },
                filled(t, s, t == DType::I32 ? std::trunc(v.as_float()) : v.as_float()));
  });
  add("full/own dtype", [](Draw& d) {
    const Shape s = d.shape(0, 3);
    const Scalar v = d.pick<Scalar>({0.1, -5, true});
    return made([=](const Context& c) { return Tensor::full(c, s, v); }, filled(v.is_bool()  ? DType::Bool
                                                                                : v.is_int() ? DType::I32
                                                                                             : DType::F32,
                                                                                s, v.as_float()));
  });
  add("scalar", [](Draw& d) {
    const Scalar v = d.pick<Scalar>({0.1, -5, true});
    return made([=](const Context& c) { return Tensor::scalar(c, v); }, filled(v.is_bool()  ? DType::Bool
                                                                               : v.is_int() ? DType::I32
                                                                                            : DType::F32,
                                                                               {}, v.as_float()));
  });
  add("arange", [](Draw& d) {
    const int64_t begin = d.between(-9, 9), end = d.between(-9, 9), step = d.pick<int64_t>({1, 2, 5, -1, -3});
    NdArray want{DType::I32, {}, {}, {}};
    for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) want.data.push_back(static_cast<double>(i));
    want.shape = {static_cast<int64_t>(want.data.size())};
    return made([=](const Context& c) { return Tensor::arange(c, begin, end, step); }, want);
  });
  add("arange/end", [](Draw& d) {
    const int64_t n = d.between(0, 9);
    return made([=](const Context& c) { return Tensor::arange(c, n); },
                make(DType::I32, {n}, [](const Index& i) { return static_cast<double>(i[0]); }));
  });
  add("linspace", [](Draw& d) {
    const double a = d.number(-5, 5), b = d.number(-5, 5);
    const int64_t n = d.between(0, 7);
    return made([=](const Context& c) { return Tensor::linspace(c, a, b, n); },
                make(DType::F32, {n}, [=](const Index& i) {
                  const double t = n > 1 ? static_cast<double>(i[0]) / static_cast<double>(n - 1) : 0;
                  return static_cast<double>(static_cast<float>(a * (1 - t) + b * t));
                }));
  });
  add("eye", [](Draw& d) {
    const int64_t n = d.between(0, 5);
    const DType t = d.dtype(kAllDTypes);
    return made([=](const Context& c) { return Tensor::eye(c, n, t); },
                make(t, {n, n}, [](const Index& i) { return i[0] == i[1]; }));
  });
  add("causal_mask", [](Draw& d) {
    const int64_t m = d.between(0, 5), n = d.between(0, 5);
    return made([=](const Context& c) { return Tensor::causal_mask(c, m, n); },
                make(DType::Bool, {m, n}, [](const Index& i) { return i[1] <= i[0]; }));
  });
  const auto like = [&](const char* name, auto run, double v) {
    add(name, [=](Draw& d) {
      return one(
          {d.array(d.shape(0, 3), d.dtype(kAllDTypes))}, [=](auto t) { return run(t[0]); },
          [=](auto in) { return filled(in[0].dtype, in[0].shape, v); });
    });
  };
  like(
      "zeros_like", [](const Tensor& t) { return t.zeros_like(); }, 0);
  like(
      "ones_like", [](const Tensor& t) { return t.ones_like(); }, 1);
  like(
      "full_like", [](const Tensor& t) { return t.full_like(3); }, 3);
  add("cast", [](Draw& d) {
    const DType from = d.dtype(kAllDTypes), to = d.dtype(kAllDTypes);
    return one(
        {d.array(d.shape(0, 3), from, {-9, 9})}, [=](auto t) { return t[0].cast(to); },
        [=](auto in) {
          return make(to, in[0].shape, [&](const Index& i) {
            const double v = get(in[0], i);
            return round_to(to, to == DType::I32 ? std::trunc(v) : v);
          });
        });
  });
  const auto itself = [&](const char* name, auto run, DType to) {
    rows.push_back(row(name, kExact, to != DType::F16 && std::string(name) != "detach", [=](Draw& d) {
      return one(
          {d.array(d.shape(0, 3), d.dtype(kFloats))}, [=](auto t) { return run(t[0]); },
          [=](auto in) {
            const DType own = to == DType::Void ? in[0].dtype : to;
            return make(own, in[0].shape, [&](const Index& i) {
              return own == DType::F16 ? round_to(own, get(in[0], i)) : get(in[0], i);
            });
          });
    }));
  };
  itself(
      "to_f32", [](const Tensor& t) { return t.to_f32(); }, DType::F32);
  itself(
      "to_f16", [](const Tensor& t) { return t.to_f16(); }, DType::F16);
  itself(
      "contiguous", [](const Tensor& t) { return (t * 1).contiguous() * 1; }, DType::Void);
  itself(
      "detach", [](const Tensor& t) { return t.detach(); }, DType::Void);
  itself(
      "clone", [](const Tensor& t) { return t.clone(); }, DType::Void);
}

}  // namespace uopc::plain
