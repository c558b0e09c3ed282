#include "diff/doubles_eval.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "diff/half.hpp"

namespace uopc::diff {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct FloatLimits {
  double eps;   // half a unit in the last place of 1
  double tiny;  // absolute error of any one operation, by underflow
  double max;   // largest finite value
  double
      range;  // operands and partial products beyond it, or below its inverse, may overflow or vanish in another order
};
FloatLimits limits(DType d) {
  if (d == DType::F16) return {0x1p-11, 0x1p-24, 65504, 0x1p12};
  return {0x1p-24, 0x1p-148, 3.4028234663852886e38, 1e36};
}

double round_to(DType d, double v) {
  return d == DType::F32 ? static_cast<double>(static_cast<float>(v)) : d == DType::F16 ? round_to_half(v) : v;
}

double wrap(int64_t v) {
  return static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(v))));
}
int64_t as_int(double v) {
  return static_cast<int64_t>(v);
}
bool is_nan(double v) {
  return v != v;
}

// ---- exact values --------------------------------------------------------------------------------------------------

double to_i32(double v) {
  if (is_nan(v)) return 0;
  return std::clamp(std::trunc(v) + 0.0, -2147483648.0, 2147483647.0);  // + 0.0: no negative zero
}

double exact_divide(Op op, double a, double b, Hazards& hazards) {
  const int64_t x = as_int(a), y = as_int(b);
  if (y == 0) {
    hazards.division = true;
    return 0;
  }
  if (x == INT32_MIN && y == -1) {
    hazards.division = true;
    return op == Op::FloorDiv ? a : 0;
  }
  const int64_t q = x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
  return static_cast<double>(op == Op::FloorDiv ? q : x - q * y);
}

// f32 operations go through float itself; f16 ones through float and one more rounding, which is innocuous.
double exact_binary(Op op, DType d, double a, double b, Hazards& hazards) {
  switch (op) {
    case Op::Add:
      if (d == DType::Bool) {
        if (a != 0 && b != 0) hazards.bool_sum = true;
        return a != 0 || b != 0;
      }
      if (d == DType::I32) return wrap(as_int(a) + as_int(b));
      return round_to(d, static_cast<double>(static_cast<float>(a) + static_cast<float>(b)));
    case Op::Mul:
      if (d == DType::Bool) return a != 0 && b != 0;
      if (d == DType::I32) return wrap(as_int(a) * as_int(b));
      return round_to(d, static_cast<double>(static_cast<float>(a) * static_cast<float>(b)));
    case Op::Max:
      return a > b ? a : b;
    case Op::CmpLt:
      return a < b;
    case Op::CmpNe:
      return a != b;
    default:
      return exact_divide(op, a, b, hazards);
  }
}

double exact_unary(Op op, DType d, double a) {
  const auto x = static_cast<float>(a);
  switch (op) {
    case Op::Recip:
      return round_to(d, static_cast<double>(1.0f / x));
    case Op::Sqrt:
      return round_to(d, static_cast<double>(std::sqrt(x)));
    case Op::Exp2:
      return round_to(d, std::exp2(a));
    case Op::Log2:
      return round_to(d, std::log2(a));
    default:
      return round_to(d, std::sin(a));
  }
}

double exact_cast(DType to, DType from, double a, Hazards& hazards) {
  if (to == DType::Bool) return a != 0;  // NaN is true
  if (to == DType::I32) {
    if (is_float(from) && !(a > -2147483649.0 && a < 2147483648.0)) hazards.cast = true;
    return to_i32(a);
  }
  return round_to(to, a);
}

// ---- values in double with a bound of the error --------------------------------------------------------------------

Element unknown(double exact) {
  Element e;
  e.exact = exact;
  e.known = false;
  return e;
}

// `v` in one piece: no sum or product that another order could touch.
Element single(double exact, double v, double error) {
  Element e;
  e.exact = exact;
  e.value = v;
  e.leaf = error;
  e.magnitude = std::fabs(v) + error;
  e.product_max = std::max(e.magnitude, 1.0);
  const double least = std::fabs(v) - error;
  e.product_min = v == 0 || is_nan(v) || std::isinf(v) ? 1 : std::min(std::max(least, 0.0), 1.0);
  return e;
}

double bound(const Element& e, const FloatLimits& l) {
  if (!std::isfinite(e.value)) return 0;
  return e.leaf + 4 * l.eps * (e.terms - 1) * e.magnitude;
}

Element add(const Element& a, const Element& b, DType d, double exact) {
  const FloatLimits l = limits(d);
  if ((a.known && is_nan(a.value)) || (b.known && is_nan(b.value))) return single(exact, NAN, 0);
  if (!a.known || !b.known) return unknown(exact);
  const double v = a.value + b.value;
  if (std::isinf(a.value) || std::isinf(b.value)) return is_nan(v) ? unknown(exact) : single(exact, v, 0);
  Element e = single(exact, v, 0);
  e.leaf = a.leaf + b.leaf + l.tiny;
  e.magnitude = a.magnitude + b.magnitude;
  e.terms = a.terms + b.terms;
  if (e.magnitude + bound(e, l) > l.range) return unknown(exact);
  return e;
}

Element multiply(const Element& a, const Element& b, DType d, double exact) {
  const FloatLimits l = limits(d);
  if ((a.known && is_nan(a.value)) || (b.known && is_nan(b.value))) return single(exact, NAN, 0);
  if (!a.known || !b.known) return unknown(exact);
  const double ea = bound(a, l), eb = bound(b, l), v = a.value * b.value;
  if (std::isinf(a.value) || std::isinf(b.value)) {
    const bool sure =
        (std::isinf(a.value) || std::fabs(a.value) > ea) && (std::isinf(b.value) || std::fabs(b.value) > eb);
    return is_nan(v) || !sure ? unknown(exact) : single(exact, v, 0);
  }
  const double magnitude = a.magnitude * b.magnitude;
  Element e = single(exact, v, 0);
  e.leaf = std::fabs(a.value) * eb + std::fabs(b.value) * ea + ea * eb +
           4 * l.eps * magnitude * std::max(a.terms, b.terms) + l.tiny;
  e.magnitude = magnitude;
  e.product_max = std::max(a.product_max * b.product_max, 1.0);
  e.product_min = a.product_min * b.product_min;
  if (e.product_max > l.range || e.product_min < 1 / l.range || magnitude > l.range) return unknown(exact);
  return e;
}

Element maximum(const Element& a, const Element& b, DType d, double exact) {
  if (!a.known || !b.known) return unknown(exact);
  const FloatLimits l = limits(d);
  const double v = a.value > b.value ? a.value : b.value;
  if (is_nan(v) || std::isinf(v)) return single(exact, v, 0);
  return single(exact, v, std::max(bound(a, l), bound(b, l)));
}

// A monotone function: the ends of the interval around `a` bound the error.
template <class F>
Element monotone(const Element& a, DType d, double exact, F f) {
  const FloatLimits l = limits(d);
  const double e = bound(a, l), v = f(a.value), lo = f(a.value - e), hi = f(a.value + e);
  if (is_nan(a.value)) return single(exact, NAN, 0);
  if (is_nan(lo) && is_nan(hi)) return single(exact, NAN, 0);
  if (std::isinf(v) && v == lo && v == hi) return single(exact, v, 0);
  if (is_nan(lo) || is_nan(hi) || std::isinf(lo) || std::isinf(hi) ||
      std::max(std::fabs(lo), std::fabs(hi)) > l.max / 4) {
    const bool overflow = std::min(lo, hi) > l.max * 1.01;
    return overflow ? single(exact, kInf, 0) : unknown(exact);
  }
  return single(exact, v, std::max(std::fabs(hi - v), std::fabs(lo - v)) + 8 * l.eps * std::fabs(v) + 2 * l.tiny);
}

Element unary(Op op, const Element& a, DType d, double exact) {
  if (!a.known) return unknown(exact);
  const FloatLimits l = limits(d);
  switch (op) {
    case Op::Recip: {
      const double e = bound(a, l);
      if (is_nan(a.value)) return single(exact, NAN, 0);
      if (std::isinf(a.value)) return single(exact, 0, 0);
      if (std::fabs(a.value) <= e) return unknown(exact);  // also of an exact 0, whose sign is not kept
      const Element r = monotone(a, d, exact, [](double x) { return 1 / x; });
      return std::isinf(r.value) ? unknown(exact) : r;  // x * (1 / y) may become x / y, which need not overflow
    }
    case Op::Sqrt:
      return monotone(a, d, exact, [](double x) { return std::sqrt(x); });
    case Op::Exp2:
      return monotone(a, d, exact, [](double x) { return std::exp2(x); });
    case Op::Log2:
      return monotone(a, d, exact, [](double x) { return std::log2(x); });
    default:
      if (!std::isfinite(a.value)) return single(exact, NAN, 0);
      return single(exact, std::sin(a.value), std::min(bound(a, l), 2.0) + 8 * l.eps);
  }
}

Element truth(double exact, bool v) {
  return single(exact, v, 0);
}

Element compare(Op op, const Element& a, const Element& b, DType d, double exact) {
  if (!a.known || !b.known) return unknown(exact);
  const bool v = op == Op::CmpLt ? a.value < b.value : a.value != b.value;
  if (!is_float(d) || !std::isfinite(a.value) || !std::isfinite(b.value)) return truth(exact, v);
  const double e = bound(a, limits(d)) + bound(b, limits(d));
  if (e == 0 || std::fabs(a.value - b.value) > e) return truth(exact, v);
  return unknown(exact);
}

Element cast(DType to, DType from, const Element& a, double exact) {
  if (!a.known) return unknown(exact);
  const double e = is_float(from) ? bound(a, limits(from)) : 0;
  if (to == DType::Bool) {
    if (a.value == 0 && e == 0) return truth(exact, false);
    return is_nan(a.value) || std::fabs(a.value) > e ? truth(exact, true) : unknown(exact);
  }
  if (to == DType::I32) {
    const double lo = to_i32(a.value - e), hi = to_i32(a.value + e);
    return lo == hi ? single(exact, lo, 0) : unknown(exact);
  }
  if (!std::isfinite(a.value)) return single(exact, a.value, 0);
  const FloatLimits l = limits(to);
  const double rounded = round_to(to, a.value);
  if (e == 0 && rounded == a.value) return single(exact, a.value, 0);
  if (std::fabs(a.value) - e > l.max * 1.01) return single(exact, std::copysign(kInf, a.value), 0);
  if (std::fabs(a.value) + e > l.max * 0.99) return unknown(exact);
  return single(exact, a.value, e + 2 * l.eps * std::fabs(a.value) + l.tiny);
}

Element select(const Element& c, const Element& a, const Element& b, DType d, double exact) {
  if (c.known) {
    Element e = c.value != 0 ? a : b;
    e.exact = exact;
    return e;
  }
  if (!a.known || !b.known) return unknown(exact);
  if (a.value == b.value && (!is_float(d) || std::isinf(a.value))) return single(exact, a.value, 0);
  if (!is_float(d) || !std::isfinite(a.value) || !std::isfinite(b.value)) return unknown(exact);
  const double e = std::max(bound(a, limits(d)), bound(b, limits(d)));
  return single(exact, (a.value + b.value) / 2, e + std::fabs(a.value - b.value) / 2);
}

// ---- arrays --------------------------------------------------------------------------------------------------------

int64_t count(const Shape& s) {
  return std::accumulate(s.begin(), s.end(), int64_t{1}, std::multiplies<>());
}

// Calls f(index tuple) for every element of `shape` in row-major order.
template <class F>
void each_index(const Shape& shape, F f) {
  Shape at(shape.size(), 0);
  for (int64_t n = count(shape); n > 0; n--) {
    f(at);
    for (size_t i = shape.size(); i-- > 0;) {
      if (++at[i] < shape[i]) break;
      at[i] = 0;
    }
  }
}

size_t flat(const Shape& shape, const Shape& at) {
  int64_t n = 0;
  for (size_t i = 0; i < shape.size(); i++) n = n * shape[i] + at[i];
  return static_cast<size_t>(n);
}

bool identical(const Element& a, const Element& b) {
  return (is_nan(a.exact) && is_nan(b.exact)) || (a.exact == b.exact && std::signbit(a.exact) == std::signbit(b.exact));
}

struct Evaluator {
  std::span<const Input> inputs;
  Hazards hazards;
  UOpMap<std::vector<Element>> values;

  const std::vector<Element>& of(UOp u) const { return values.at(u); }

  Element binary(Op op, DType d, const Element& a, const Element& b) {
    if (op == Op::Max && is_float(d) && a.constant && !(a.exact > b.exact) && !(b.exact > a.exact) &&
        !identical(a, b)) {
      hazards.max_order = true;
      return unknown(a.exact > b.exact ? a.exact : b.exact);
    }
    const double exact = exact_binary(op, d, a.exact, b.exact, hazards);
    if (op == Op::CmpLt || op == Op::CmpNe) return compare(op, a, b, d, exact);
    if (is_float(d)) {
      if (op == Op::Add) return add(a, b, d, exact);
      if (op == Op::Mul) return multiply(a, b, d, exact);
      return maximum(a, b, d, exact);
    }
    if (!a.known || !b.known) return unknown(exact);
    Hazards seen;  // the exact values have reported theirs
    return single(exact, exact_binary(op, d, a.value, b.value, seen), 0);
  }

  std::vector<Element> load(UOp buffer) const {
    const auto& arg = buffer.arg<ParamArg>();
    for (const Input& in : inputs) {
      if (in.slot != arg.slot) continue;
      std::vector<Element> out;
      for (int64_t i = 0; i < in.size; i++) {
        const double v = read_element(in.data.data() + i * itemsize(in.dtype), in.dtype);
        out.push_back(single(v, v, 0));
      }
      return out;
    }
    throw Error(ErrorCode::Run, "no data for a BUFFER");
  }

  std::vector<Element> reduce(UOp u) {
    const auto& x = of(u.src(0));
    const auto& arg = u.arg<ReduceArg>();
    const size_t outer = static_cast<size_t>(count(u.shape()));
    const Shape& from = u.src(0).shape();
    const size_t inner = static_cast<size_t>(count(Shape(from.end() - arg.n, from.end())));
    if (inner == 1) return x;  // nothing to combine: no accumulator takes part
    const double identity = arg.op == Op::Add          ? 0
                            : u.dtype() == DType::I32  ? -2147483648.0
                            : u.dtype() == DType::Bool ? 0
                                                       : -kInf;
    std::vector<Element> out;
    const Hazards before = hazards;
    for (size_t i = 0; i < outer; i++) {
      Element acc = single(identity, identity, 0);
      for (size_t j = 0; j < inner; j++) acc = binary(arg.op, u.dtype(), acc, x[i * inner + j]);
      acc.constant = inner == 0;
      out.push_back(acc);
    }
    hazards.bool_sum = before.bool_sum;  // an accumulator is a _Bool, which C normalises
    return out;
  }

  // Elements of `u`'s source moved to where `u` has them.
  template <class F>
  std::vector<Element> moved(UOp u, F source_index) const {
    std::vector<Element> out;
    const auto& x = of(u.src(0));
    each_index(u.shape(), [&](const Shape& at) { out.push_back(x[flat(u.src(0).shape(), source_index(at))]); });
    return out;
  }

  // An index that rounding decides makes every element unknown.
  std::vector<Element> index(UOp u) const {
    Shape prefix;
    bool known = true;
    for (UOp i : u.src().subspan(1)) {
      const Element& e = of(i)[0];
      prefix.push_back(as_int(e.exact));
      known &= e.known && e.value == e.exact;
      if (prefix.back() < 0 || prefix.back() >= u.src(0).shape()[prefix.size() - 1])
        throw Error(ErrorCode::Run, "the generator made an index that is out of range");
    }
    std::vector<Element> out = moved(u, [&](const Shape& at) {
      Shape from = prefix;
      from.insert(from.end(), at.begin(), at.end());
      return from;
    });
    if (!known)
      for (Element& e : out) e = unknown(e.exact);
    return out;
  }

  std::vector<Element> node(UOp u) {
    const DType d = u.dtype();
    std::vector<Element> out;
    switch (u.op()) {
      case Op::Const: {
        const double v = round_to(d, u.value().as_float());
        out.push_back(single(v, v, 0));
        out[0].constant = true;
        return out;
      }
      case Op::Buffer:
        return load(u);
      case Op::Stack:
        for (UOp s : u.src()) out.insert(out.end(), of(s).begin(), of(s).end());
        return out;
      case Op::Index:
        return index(u);
      case Op::Reshape:
      case Op::Stage:
        return of(u.src(0));
      case Op::Expand:
        return moved(u, [&](Shape at) {
          for (size_t i = 0; i < at.size(); i++)
            if (u.src(0).shape()[i] == 1) at[i] = 0;
          return at;
        });
      case Op::Permute:
        return moved(u, [&](const Shape& at) {
          Shape from(at.size());
          for (size_t k = 0; k < at.size(); k++) from[static_cast<size_t>(u.arg<Shape>()[k])] = at[k];
          return from;
        });
      case Op::Shrink:
        return moved(u, [&](Shape at) {
          for (size_t i = 0; i < at.size(); i++) at[i] += u.arg<ShrinkArg>().bounds[i].first;
          return at;
        });
      case Op::Reduce:
        return reduce(u);
      case Op::Where: {
        const auto &c = of(u.src(0)), &a = of(u.src(1)), &b = of(u.src(2));
        for (size_t i = 0; i < c.size(); i++)
          out.push_back(select(c[i], a[i], b[i], d, c[i].exact != 0 ? a[i].exact : b[i].exact));
        for (size_t i = 0; i < c.size(); i++)
          out[i].constant =
              (a[i].constant && b[i].constant) || (c[i].constant && (c[i].exact != 0 ? a : b)[i].constant);
        return out;
      }
      case Op::Cast: {
        const DType from = u.src(0).dtype();
        for (const Element& a : of(u.src(0))) {
          out.push_back(cast(d, from, a, exact_cast(d, from, a.exact, hazards)));
          out.back().constant = a.constant;
        }
        return out;
      }
      default:
        break;
    }
    if (kUnary.has(u.op())) {
      if (d == DType::F16 && u.op() != Op::Recip) hazards.half_function = true;
      for (const Element& a : of(u.src(0))) {
        out.push_back(unary(u.op(), a, d, exact_unary(u.op(), d, a.exact)));
        out.back().constant = a.constant;
      }
      return out;
    }
    if (kBinary.has(u.op())) {
      const auto &a = of(u.src(0)), &b = of(u.src(1));
      for (size_t i = 0; i < a.size(); i++) {
        out.push_back(binary(u.op(), u.src(0).dtype(), a[i], b[i]));
        out.back().constant = a[i].constant && b[i].constant;
      }
      return out;
    }
    throw Error(ErrorCode::Type, std::string("not an op of a shaped graph: ") + name(u.op()));
  }
};

}  // namespace

Evaluated evaluate_doubles(UOp root, std::span<const Input> inputs) {
  Evaluator e{inputs, {}, {}};
  for (UOp u : toposort(root)) e.values[u] = e.node(u);
  return {root.dtype(), root.shape(), std::move(e.values[root]), e.hazards};
}

double error_bound(const Element& e, DType dtype) {
  if (!e.known) return kInf;
  return is_float(dtype) ? 1.01 * bound(e, limits(dtype)) : 0;  // the bound is rounded itself
}

double read_element(const std::byte* at, DType dtype) {
  if (dtype == DType::Bool) return static_cast<double>(static_cast<uint8_t>(*at));
  if (dtype == DType::F16) {
    uint16_t h;
    std::memcpy(&h, at, sizeof h);
    return half_to_double(h);
  }
  if (dtype == DType::I32) {
    int32_t i;
    std::memcpy(&i, at, sizeof i);
    return i;
  }
  float f;
  std::memcpy(&f, at, sizeof f);
  return static_cast<double>(f);
}

void write_element(std::byte* at, DType dtype, double value) {
  if (dtype == DType::Bool) {
    *at = static_cast<std::byte>(value != 0);
  } else if (dtype == DType::F16) {
    const uint16_t h = half_bits(value);
    std::memcpy(at, &h, sizeof h);
  } else if (dtype == DType::I32) {
    const auto i = static_cast<int32_t>(value);
    std::memcpy(at, &i, sizeof i);
  } else {
    const auto f = static_cast<float>(value);
    std::memcpy(at, &f, sizeof f);
  }
}

}  // namespace uopc::diff
