#include "ir/fold.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ir/half.hpp"
#include "uopc/error.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kInt32Min = INT32_MIN;

int64_t wrap32(uint64_t v) {
  return static_cast<int32_t>(static_cast<uint32_t>(v));
}
int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) return wrap_mul(a, -1);
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double round_float(double v, DType d) {
  return d == DType::F16 ? round_to_half(v) : static_cast<float>(v);
}

// ---- the appendix's table ------------------------------------------------------------------------------------------

// Python's int(v) modulo 2^32; v is finite.
int64_t truncate_to_int(double v) {
  const double m = std::fmod(std::trunc(v), 4294967296.0);  // exact
  return wrap32(static_cast<uint64_t>(static_cast<int64_t>(m)));
}

Scalar truncate(DType d, Scalar v) {
  switch (d) {
    case DType::Bool:
      return v.as_bool();
    case DType::I32:
      return v.is_float() ? truncate_to_int(v.as_float()) : wrap32(v.bits());
    case DType::F16:
    case DType::F32:
      return round_float(v.as_float(), d);
    default:
      return v;
  }
}

bool less(Scalar a, Scalar b) {
  return a.is_float() || b.is_float() ? a.as_float() < b.as_float() : a.as_int() < b.as_int();
}
bool equal(Scalar a, Scalar b) {
  return a.is_float() || b.is_float() ? a.as_float() == b.as_float() : a.as_int() == b.as_int();
}

std::optional<Scalar> exec_unary(Op op, DType dtype, Scalar v) {
  const double x = v.as_float();
  switch (op) {
    case Op::Recip:
      return x != 0 ? 1.0 / x : std::copysign(kInf, x);
    case Op::Exp2:
      return x < 1024 ? std::exp2(x) : kInf;
    case Op::Log2:
      return x > 0 ? std::log2(x) : x == 0 ? -kInf : kNan;
    case Op::Sqrt:
      return x >= 0 ? std::sqrt(x) : kNan;
    case Op::Sin:
      return std::isfinite(x) ? std::sin(x) : kNan;
    case Op::Cast:
      if (dtype == DType::Bool) return v.as_bool();
      if (dtype != DType::I32) return x;
      if (!std::isfinite(x)) return {};
      return v;
    default:
      return {};
  }
}

std::optional<Scalar> exec_binary(Op op, DType dtype, Scalar a, Scalar b) {
  const bool real = is_float(dtype) || a.is_float() || b.is_float();
  switch (op) {
    case Op::Add:
      return real ? Scalar(a.as_float() + b.as_float()) : Scalar(wrap_add(a.as_int(), b.as_int()));
    case Op::Mul:
      return real ? Scalar(a.as_float() * b.as_float()) : Scalar(wrap_mul(a.as_int(), b.as_int()));
    case Op::Max:
      return less(a, b) ? b : a;
    case Op::FloorDiv:
      if (!b.as_bool() || (dtype == DType::I32 && a.as_int() == kInt32Min && b.as_int() == -1)) return {};
      return floor_div(a.as_int(), b.as_int());
    case Op::FloorMod:
      if (!b.as_bool()) return {};
      return floor_mod(a.as_int(), b.as_int());
    default:
      return {};
  }
}

// ---- the run-time table --------------------------------------------------------------------------------------------

// One NaN for all of arithmetic: which one the machine makes depends on operand order.
double canonical(double v) {
  return v != v ? kNan : v;
}

double run_real(Op op, DType d, double a, double b) {
  switch (op) {
    // The product or sum of two floats is exact or correctly rounded in double; the second rounding is harmless, as a
    // double has more than twice the digits of both formats.
    case Op::Add:
      return round_float(a + b, d);
    case Op::Mul:
      return round_float(a * b, d);
    case Op::Recip:
      return round_float(1.0 / a, d);
    case Op::Sqrt:
      return round_float(std::sqrt(a), d);
    case Op::Exp2:
      return round_float(std::exp2(a), d);
    case Op::Log2:
      return round_float(std::log2(a), d);
    default:
      return round_float(std::sin(a), d);
  }
}

int64_t run_int(Op op, int64_t a, int64_t b) {
  switch (op) {
    case Op::Add:
      return wrap32(static_cast<uint64_t>(a + b));
    case Op::Mul:
      return wrap32(static_cast<uint64_t>(a * b));
    case Op::FloorDiv:
      return b == 0 ? 0 : wrap32(static_cast<uint64_t>(floor_div(a, b)));
    default:
      return b == 0 ? 0 : floor_mod(a, b);
  }
}

}  // namespace

std::optional<Scalar> exec_alu(Op op, DType dtype, std::span<const Scalar> values) {
  if (!kAlu.has(op) || values.size() != static_cast<size_t>(info(op).min_sources)) return {};
  Scalar v[3];
  for (size_t i = 0; i < values.size(); i++) {
    const bool rounds = is_float(dtype) && op != Op::Cast && (values[i].is_float() || (op == Op::Where && i > 0));
    v[i] = rounds ? truncate(dtype, values[i]) : values[i];
  }
  if (op == Op::CmpLt) return less(v[0], v[1]);
  if (op == Op::CmpNe) return !equal(v[0], v[1]);
  std::optional<Scalar> r;
  if (op == Op::Where) {
    r = v[0].as_bool() ? v[1] : v[2];
  } else if (kUnary.has(op)) {
    r = exec_unary(op, dtype, v[0]);
  } else {
    r = exec_binary(op, dtype, v[0], v[1]);
  }
  if (r) r = truncate(dtype, *r);
  return r;
}

Scalar to_dtype(Scalar v, DType d) {
  switch (d) {
    case DType::Bool:
      return v.as_bool();
    case DType::I32:
      if (!v.is_float()) return wrap32(v.bits());
      return std::min(std::max(v.as_int(), kInt32Min), static_cast<int64_t>(INT32_MAX));
    case DType::F32:
    case DType::F16:
      return round_float(v.as_float(), d);
    default:
      return v;
  }
}

Scalar run_alu(Op op, DType dtype, DType source_dtype, std::span<const Scalar> values) {
  if (!kAlu.has(op) || values.size() != static_cast<size_t>(info(op).min_sources))
    throw Error(ErrorCode::Internal,
                std::string("run_alu: no value of ") + name(op) + " on " + std::to_string(values.size()) + " operands");
  if (op == Op::Where) return to_dtype(values[values[0].as_bool() ? 1 : 2], dtype);
  const Scalar a = to_dtype(values[0], source_dtype);
  const Scalar b = values.size() > 1 ? to_dtype(values[1], source_dtype) : a;
  switch (op) {
    case Op::Cast:
      return to_dtype(a, dtype);
    case Op::CmpLt:
      return less(a, b);
    case Op::CmpNe:
      return !equal(a, b);
    case Op::Max:
      return less(b, a) ? a : b;
    default:
      break;
  }
  if (is_float(dtype)) return canonical(run_real(op, dtype, a.as_float(), b.as_float()));
  if (dtype == DType::Bool) return op == Op::Add ? a.as_bool() || b.as_bool() : a.as_bool() && b.as_bool();
  return run_int(op, a.as_int(), b.as_int());
}

std::optional<Scalar> fold(Op op, DType dtype, DType source_dtype, std::span<const Scalar> values) {
  if (dtype == DType::F16 || source_dtype == DType::F16) return {};
  const bool comparison = op == Op::CmpLt || op == Op::CmpNe;
  if (!exec_alu(op, comparison ? source_dtype : dtype, values)) return {};
  return run_alu(op, dtype, source_dtype, values);
}

}  // namespace uopc
