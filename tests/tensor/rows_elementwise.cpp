// Element-wise operations. Tolerances are of one correctly rounded result where the operation is one; else of what the
// arguments' rounding inside does at the ends of the range, which the row says.
#include <algorithm>
#include <cmath>

#include "tensor/operation_rows.hpp"

namespace uopc::plain {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double one_of(double) {
  return 1;
}
DType same(DType d) {
  return d;
}
DType bool_of(DType) {
  return DType::Bool;
}

struct Unary {
  const char* name;
  Tensor (Tensor::*run)() const;
  double (*want)(double);
  Near near;
  Range range{-2, 2};
  bool smooth = true;
  DType (*dtype)(DType) = float_of;
  double (*scale)(double) = nullptr;  // of the argument; the size of the value where null
};

// Constants keep the types of a C++ call apart: a number and an array of one element.
struct Number {
  Scalar value;
  NdArray array;  // of the dtype that it has beside a tensor
};
DType beside(DType d, Scalar v) {
  if (v.is_float() && !is_float(d)) return DType::F32;
  return v.is_int() ? number_of(d) : d;
}
Number number(Draw& d, DType other, Range range) {
  Scalar v = d.for_gradient() || d.coin() ? Scalar(d.number(range.low, range.high))
                                          : Scalar(static_cast<int64_t>(std::floor(d.number(range.low, range.high))));
  const DType dtype = beside(other, v);
  return {v, make(dtype, {}, [&](const Index&) { return round_to(dtype, v.as_float()); })};
}

struct Binary {
  const char* name;
  double (*want)(double, double);
  DType (*dtype)(DType);  // of the larger dtype
  Near near;
  bool smooth;
  Range left{-2, 2}, right{-2, 2};
  std::initializer_list<DType> dtypes = kAllDTypes;
};

// Both operands tensors, and one a number. `f` takes a Tensor or a Scalar on each side.
template <bool number_left, class F>
void add_binary(std::vector<Row>& rows, const Binary& b, F f) {
  const auto want = [b](const NdArray& x, const NdArray& y) {
    return map(x, y, b.dtype(larger(x.dtype, y.dtype)), b.want);
  };
  rows.push_back(row(b.name, b.near, b.smooth, [=](Draw& d) {
    const Shape s = d.shape(0, 3);
    return one(
        {d.array(d.coin() ? s : d.broadcasting(s), d.dtype(b.dtypes), b.left),
         d.array(d.coin() ? s : d.broadcasting(s), d.dtype(b.dtypes), b.right)},
        [=](auto t) { return f(t[0], t[1]); }, [=](auto in) { return want(in[0], in[1]); });
  }));
  rows.push_back(row(std::string(b.name) + "/number", b.near, b.smooth, [=](Draw& d) {
    const DType dtype = d.dtype(b.dtypes);
    Number n = number(d, dtype, b.right);
    if (b.dtypes.size() == 2) n = {2, make(DType::I32, {}, [](const Index&) { return 2; })};  // integers only
    return one(
        {d.array(d.shape(0, 3), dtype, b.left)}, [=](auto t) { return f(t[0], n.value); },
        [=](auto in) { return want(in[0], n.array); });
  }));
  if constexpr (number_left)
    rows.push_back(row(std::string(b.name) + "/number left", b.near, b.smooth, [=](Draw& d) {
      const DType dtype = d.dtype(b.dtypes);
      const Number n = number(d, dtype, b.left);
      return one(
          {d.array(d.shape(0, 3), dtype, b.right)}, [=](auto t) { return f(n.value, t[0]); },
          [=](auto in) { return want(n.array, in[0]); });
    }));
}

double power(double x, double y) {
  return std::pow(x, y);
}
// Of whole numbers: a negative power is 0 but of 1 and -1.
double whole_power(double x, double y) {
  return y >= 0 || std::abs(x) == 1 ? std::pow(x, y) : 0;
}

}  // namespace

void add_elementwise(std::vector<Row>& rows) {
  const Unary unary[] = {
      {"neg", &Tensor::neg, [](double x) { return -x; }, {1}, {}, true, number_of},
      {"operator-/one", &Tensor::neg, [](double x) { return -x; }, {1}, {}, true, number_of},
      {"reciprocal", &Tensor::reciprocal, [](double x) { return 1 / x; }, {3}, {0.2, 4}},
      // The rounding of x log2(e), of up to 15: 15 half units, and that of the constant
      {"exp", &Tensor::exp, [](double x) { return std::exp(x); }, {34}, {-10, 10}},
      {"exp2", &Tensor::exp2, [](double x) { return std::exp2(x); }, {4}, {-10, 10}},
      {"expm1", &Tensor::expm1, [](double x) { return std::expm1(x); }, {24}, {-6, 6}},
      {"log", &Tensor::log, [](double x) { return std::log(x); }, {6}, {0.05, 9}},
      {"log2", &Tensor::log2, [](double x) { return std::log2(x); }, {4}, {0.05, 9}},
      {"log1p", &Tensor::log1p, [](double x) { return std::log1p(x); }, {8}, {-0.95, 5}},
      {"sqrt", &Tensor::sqrt, [](double x) { return std::sqrt(x); }, {2}, {0.05, 9}},
      {"rsqrt", &Tensor::rsqrt, [](double x) { return 1 / std::sqrt(x); }, {4}, {0.05, 9}},
      {"sin", &Tensor::sin, [](double x) { return std::sin(x); }, {4}, {-20, 20}},
      // 1 - 2 sin(x / 2)^2 is precise beside 1
      {"cos", &Tensor::cos, [](double x) { return std::cos(x); }, {6}, {-20, 20}, true, float_of, one_of},
      {"tan",
       &Tensor::tan,
       [](double x) { return std::tan(x); },
       {8},
       {-1.4, 1.4},
       true,
       float_of,
       [](double x) { return 1 / (std::cos(x) * std::cos(x)); }},
      {"tanh", &Tensor::tanh, [](double x) { return std::tanh(x); }, {8}, {-4, 4}},
      {"sigmoid", &Tensor::sigmoid, sigmoid, {34}, {-10, 10}},
      {"relu", &Tensor::relu, [](double x) { return std::max(x, 0.0); }, {0, 0}, {}, true, number_of},
      // x sigmoid(2 u) where u reaches 11
      {"gelu",
       &Tensor::gelu,
       [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
       {80},
       {-4, 4}},
      {"silu", &Tensor::silu, [](double x) { return x * sigmoid(x); }, {34}, {-8, 8}},
      {"softplus", &Tensor::softplus, [](double x) { return std::log1p(std::exp(x)); }, {34}, {-10, 10}},
      {"abs", &Tensor::abs, [](double x) { return std::abs(x); }, {0, 0}, {}, true, number_of},
      {"sign", &Tensor::sign, [](double x) { return x > 0   ? 1.
                                                    : x < 0 ? -1.
                                                            : 0.; }, {0, 0}, {}, true, same},
      {"floor", &Tensor::floor, [](double x) { return std::floor(x); }, {0, 0}, {-9, 9}, true, same},
      {"ceil", &Tensor::ceil, [](double x) { return std::ceil(x); }, {0, 0}, {-9, 9}, true, same},
      {"round", &Tensor::round, [](double x) { return std::nearbyint(x); }, {0, 0}, {-9, 9}, true, same},
      {"trunc", &Tensor::trunc, [](double x) { return std::trunc(x); }, {0, 0}, {-9, 9}, true, same},
      {"square", &Tensor::square, [](double x) { return x * x; }, {1}, {}, true, same},
      {"isnan", &Tensor::isnan, [](double) { return 0.; }, {0, 0}, {}, false, bool_of},
      {"isinf", &Tensor::isinf, [](double) { return 0.; }, {0, 0}, {}, false, bool_of},
      {"isfinite", &Tensor::isfinite, [](double) { return 1.; }, {0, 0}, {}, false, bool_of},
      {"logical_not", &Tensor::logical_not, [](double x) { return x == 0 ? 1. : 0.; }, {0, 0}, {}, false, bool_of},
  };
  for (const Unary& u : unary)
    rows.push_back(row(u.name, u.near, u.smooth, [u](Draw& d) {
      // A range of positive numbers is of floats: whole ones would be 0.
      const DType dtype = u.range.low > 0 ? d.dtype(kFloats) : d.dtype(kAllDTypes);
      return one(
          {d.array(d.shape(0, 3), dtype, u.range)},
          [u](auto t) { return std::string_view(u.name) == "operator-/one" ? -t[0] : (t[0].*u.run)(); },
          [u](auto in) {
            NdArray out = map(in[0], u.dtype(in[0].dtype), u.want);
            if (u.scale != nullptr)
              for (double x : in[0].data) out.scale.push_back(u.scale(x));
            return out;
          });
    }));
  const auto with_slope = [&](const char* name, auto run, auto want, Near near) {
    rows.push_back(row(name, near, true, [=](Draw& d) {
      const double slope = d.number(0.1, 2);
      return one(
          {d.array(d.shape(0, 3), d.dtype(kAllDTypes), {-4, 4})}, [=](auto t) { return run(t[0], slope); },
          [=](auto in) {
            return map(in[0], float_of(in[0].dtype), [&](double x) { return x > 0 ? x : want(x, slope); });
          });
    }));
  };
  // The slope is rounded to f16 as well.
  with_slope(
      "leaky_relu", [](const Tensor& t, double a) { return t.leaky_relu(a); }, [](double x, double a) { return x * a; },
      {3, 2.1});
  with_slope(
      "elu", [](const Tensor& t, double a) { return t.elu(a); }, [](double x, double a) { return a * std::expm1(x); },
      {24, 3.1});

  add_binary<true>(rows, {"operator+", [](double x, double y) { return x + y; }, same, {1.01}, true},
                   [](const auto& a, const auto& b) { return a + b; });
  add_binary<true>(rows, {"operator-", [](double x, double y) { return x - y; }, number_of, {1.01}, true},
                   [](const auto& a, const auto& b) { return a - b; });
  add_binary<true>(rows, {"operator*", [](double x, double y) { return x * y; }, same, {1.01}, true},
                   [](const auto& a, const auto& b) { return a * b; });
  // a (1 / b): two roundings
  add_binary<true>(
      rows,
      {"operator/", [](double x, double y) { return x / y; }, float_of, {3.1, 2.1}, true, {0.5, 3}, {0.5, 3}, kFloats},
      [](const auto& a, const auto& b) { return a / b; });
  rows.push_back(row("operator//of integers", {3.1}, false, [](Draw& d) {
    const Shape s = d.shape(0, 3);
    NdArray by = d.array(s, DType::I32, {1, 9});
    return one(
        {d.array(s, d.pick({DType::I32, DType::Bool}), {-9, 9}), by}, [](auto t) { return t[0] / t[1]; },
        [](auto in) { return map(in[0], in[1], DType::F32, [](double x, double y) { return x / y; }); });
  }));
  const auto compare = [](const char* name, double (*want)(double, double)) {
    return Binary{name, want, bool_of, {0, 0}, false};
  };
  add_binary<true>(rows, compare("operator<", [](double x, double y) { return x < y ? 1. : 0.; }),
                   [](const auto& a, const auto& b) { return a < b; });
  add_binary<true>(rows, compare("operator>", [](double x, double y) { return x > y ? 1. : 0.; }),
                   [](const auto& a, const auto& b) { return a > b; });
  add_binary<true>(rows, compare("operator<=", [](double x, double y) { return x <= y ? 1. : 0.; }),
                   [](const auto& a, const auto& b) { return a <= b; });
  add_binary<true>(rows, compare("operator>=", [](double x, double y) { return x >= y ? 1. : 0.; }),
                   [](const auto& a, const auto& b) { return a >= b; });
  add_binary<false>(rows, compare("eq", [](double x, double y) { return x == y ? 1. : 0.; }),
                    [](const auto& a, const auto& b) { return a.eq(b); });
  add_binary<false>(rows, compare("ne", [](double x, double y) { return x != y ? 1. : 0.; }),
                    [](const auto& a, const auto& b) { return a.ne(b); });
  add_binary<false>(rows, {"minimum", [](double x, double y) { return std::min(x, y); }, same, {0, 0}, true},
                    [](const auto& a, const auto& b) { return a.minimum(b); });
  add_binary<false>(rows, {"maximum", [](double x, double y) { return std::max(x, y); }, same, {0, 0}, true},
                    [](const auto& a, const auto& b) { return a.maximum(b); });

  const auto integers = [&](const char* name, double (*want)(double, double), auto f) {
    rows.push_back(row(name, {0, 0}, false, [=](Draw& d) {
      const Shape s = d.shape(0, 3);
      const Range by = d.coin() ? Range{1, 6} : Range{-6, -1e-9};
      return one(
          {d.array(s, d.pick({DType::I32, DType::Bool}), {-9, 9}), d.array(d.broadcasting(s), DType::I32, by)},
          [=](auto t) { return f(t[0], t[1]); }, [=](auto in) { return map(in[0], in[1], DType::I32, want); });
    }));
    rows.push_back(row(std::string(name) + "/number", {0, 0}, false, [=](Draw& d) {
      const int64_t by = d.pick<int64_t>({1, 2, 3, 7, -1, -2, -5});
      return one(
          {d.array(d.shape(0, 3), d.pick({DType::I32, DType::Bool}), {-9, 9})},
          [=](auto t) { return f(t[0], Scalar(by)); },
          [=](auto in) { return map(in[0], DType::I32, [&](double x) { return want(x, static_cast<double>(by)); }); });
    }));
  };
  integers(
      "floordiv", [](double x, double y) { return std::floor(x / y); },
      [](const Tensor& a, const auto& b) { return a.floordiv(b); });
  integers(
      "mod", [](double x, double y) { return x - y * std::floor(x / y); },
      [](const Tensor& a, const auto& b) { return a.mod(b); });

  const auto logical = [&](const char* name, Tensor (Tensor::*f)(const Tensor&) const, bool (*want)(bool, bool)) {
    rows.push_back(row(name, {0, 0}, false, [=](Draw& d) {
      const Shape s = d.shape(0, 3);
      return one(
          {d.array(s, d.dtype(kAllDTypes)), d.array(d.broadcasting(s), d.pick({DType::I32, DType::Bool}))},
          [=](auto t) { return (t[0].*f)(t[1]); },
          [=](auto in) {
            return map(in[0], in[1], DType::Bool, [&](double x, double y) { return want(x != 0, y != 0); });
          });
    }));
  };
  logical("logical_and", &Tensor::logical_and, [](bool x, bool y) { return x && y; });
  logical("logical_or", &Tensor::logical_or, [](bool x, bool y) { return x || y; });
  logical("logical_xor", &Tensor::logical_xor, [](bool x, bool y) { return x != y; });

  // exp2(y log2 x) with y log2 x up to 9
  rows.push_back(row("pow", {40}, true, [](Draw& d) {
    const Shape s = d.shape(0, 3);
    return one(
        {d.array(s, d.dtype(kFloats), {0.2, 3}), d.array(d.broadcasting(s), d.dtype(kNumbers), {-2, 3})},
        [](auto t) { return t[0].pow(t[1]); },
        [](auto in) { return map(in[0], in[1], larger(in[0].dtype, in[1].dtype), power); });
  }));
  rows.push_back(row("pow/of integers", {0, 0}, false, [](Draw& d) {
    const Shape s = d.shape(0, 3);
    return one(
        {d.array(s, d.pick({DType::I32, DType::Bool}), {-4, 5}), d.array(s, DType::I32, {-3, 6})},
        [](auto t) { return t[0].pow(t[1]); }, [](auto in) { return map(in[0], in[1], DType::I32, whole_power); });
  }));
  rows.push_back(row("pow/number", {40}, true, [](Draw& d) {
    const DType dtype = d.dtype(kFloats);
    const Scalar e = d.pick<Scalar>({0, 1, 2, 3, 5, -1, -2, 0.5, -0.5, 1.3, -2.7});
    const bool whole = e.as_float() == std::floor(e.as_float());
    return one(
        {d.array(d.shape(0, 3), dtype, whole && e.as_float() > 0 ? Range{-2, 2} : Range{0.3, 3})},
        [=](auto t) { return t[0].pow(e); },
        [=](auto in) { return map(in[0], dtype, [&](double x) { return std::pow(x, e.as_float()); }); });
  }));
  rows.push_back(row("pow/integers to a number", {8}, false, [](Draw& d) {
    const int64_t e = d.between(-2, 5);
    return one(
        {d.array(d.shape(0, 3), DType::I32, {1, 6})}, [=](auto t) { return t[0].pow(e); },
        [=](auto in) { return map(in[0], e < 0 ? DType::F32 : DType::I32, [&](double x) { return std::pow(x, e); }); });
  }));

  rows.push_back(row("clamp", {0, 0}, true, [](Draw& d) {
    const DType dtype = d.dtype(kNumbers);
    const bool low = d.coin(), high = d.coin(), whole = dtype == DType::I32;
    const double least = whole ? -1 : -0.75, most = whole ? 1 : 0.75;
    const auto scalar = [&](bool given, double v) {
      return given ? std::optional(whole ? Scalar(static_cast<int64_t>(v)) : Scalar(v)) : std::nullopt;
    };
    const auto a = scalar(low, least), b = scalar(high, most);
    return one(
        {d.array(d.shape(0, 3), dtype, {-3, 3})}, [=](auto t) { return t[0].clamp(a, b); },
        [=](auto in) {
          return map(in[0], dtype, [&](double x) { return low && x < least ? least : high && x > most ? most : x; });
        });
  }));
  rows.push_back(row("where", {0, 0}, true, [](Draw& d) {
    const Shape s = d.shape(0, 3);
    return one(
        {d.array(d.broadcasting(s), d.pick({DType::Bool, DType::I32})), d.array(s, d.dtype(kAllDTypes)),
         d.array(d.broadcasting(s), d.dtype(kAllDTypes))},
        [](auto t) { return t[0].where(t[1], t[2]); }, [](auto in) { return select(in[0], in[1], in[2]); });
  }));
  for (int form : {0, 1, 2, 3})
    rows.push_back(
        row(form == 3 ? "masked_fill" : "where/number " + std::to_string(form), {0, 0}, form != 2, [=](Draw& d) {
          const Shape s = d.shape(0, 3);
          const DType dtype = d.dtype(kAllDTypes);
          const Number n = number(d, dtype, {-2, 2}), m{true, make(DType::Bool, {}, [](const Index&) { return 1; })};
          return one(
              {d.array(d.broadcasting(s), DType::Bool), d.array(s, dtype)},
              [=](auto t) {
                return form == 0   ? t[0].where(t[1], n.value)
                       : form == 1 ? t[0].where(n.value, t[1])
                       : form == 2 ? t[0].where(m.value, false)
                                   : t[1].masked_fill(t[0], n.value);
              },
              [=](auto in) {
                const DType own = larger(dtype, n.array.dtype);
                if (form == 2) return in[0];
                return form == 0 ? select(in[0], cast(in[1], own), n.array) : select(in[0], n.array, cast(in[1], own));
              });
        }));
}

}  // namespace uopc::plain
