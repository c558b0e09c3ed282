// Element types, address spaces and the scalar that a CONST holds (A.2).
#pragma once
#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>

#include "uopc/export.hpp"

namespace uopc {

enum class DType : uint8_t { Void, Bool, I32, F32, F16 };

struct DTypeInfo {
  const char* name;   // as .uir spells it
  int itemsize;       // bytes
  const char* ctype;  // as C text spells it
};

inline constexpr DTypeInfo kDTypes[] = {
    {"void", 0, "void"}, {"bool", 1, "_Bool"}, {"i32", 4, "int"}, {"f32", 4, "float"}, {"f16", 2, "_Float16"},
};

constexpr const DTypeInfo& info(DType d) {
  return kDTypes[static_cast<int>(d)];
}
constexpr const char* name(DType d) {
  return info(d).name;
}
constexpr int itemsize(DType d) {
  return info(d).itemsize;
}
constexpr bool is_float(DType d) {
  return d == DType::F32 || d == DType::F16;
}

// Where a UOp lives. Alu is a plain value; the rest is memory.
enum class AddrSpace : uint8_t { Alu, Global, Local, Shared };

constexpr const char* name(AddrSpace s) {
  constexpr const char* names[] = {"ALU", "GLOBAL", "LOCAL", "SHARED"};
  return names[static_cast<int>(s)];
}

// A Python bool, int (of 64 bits; what leaves them is an Error(Type)) or float: the argument of a CONST. The kind is
// part of the value, so 1, 1.0 and true differ, and so do 0.0 and -0.0. There is one NaN.
class Scalar {
 public:
  enum class Kind : uint8_t { Bool, Int, Float };

  constexpr Scalar() = default;
  template <class T>
  requires std::same_as<T, bool>
  constexpr Scalar(T v) : kind_(Kind::Bool), bits_(v) {}
  template <class T>
  requires(std::integral<T> && !std::same_as<T, bool>) constexpr Scalar(T v)
      : kind_(Kind::Int), bits_(static_cast<uint64_t>(v)) {
    if constexpr (std::unsigned_integral<T>)
      if (v > uint64_t{INT64_MAX}) not_an_int64(v);
  }
  constexpr Scalar(float v) : Scalar(static_cast<double>(v)) {}
  constexpr Scalar(double v) : kind_(Kind::Float), bits_(std::bit_cast<uint64_t>(v == v ? v : kNaN)) {}
  template <class T>
  Scalar(T*) = delete;  // a pointer is not a bool

  constexpr Kind kind() const { return kind_; }
  constexpr bool is_bool() const { return kind_ == Kind::Bool; }
  constexpr bool is_int() const { return kind_ == Kind::Int; }
  constexpr bool is_float() const { return kind_ == Kind::Float; }
  constexpr uint64_t bits() const { return bits_; }

  // The value as Python's bool(), int() and float() would convert it; `as_int` of a float truncates toward zero and
  // saturates at the ends of int64, NaN gives 0.
  constexpr bool as_bool() const { return is_float() ? std::bit_cast<double>(bits_) != 0 : bits_ != 0; }
  constexpr int64_t as_int() const {
    if (!is_float()) return static_cast<int64_t>(bits_);
    const double v = std::bit_cast<double>(bits_);
    if (v != v) return 0;
    if (v >= 9223372036854775808.0) return INT64_MAX;
    if (v < -9223372036854775808.0) return INT64_MIN;
    return static_cast<int64_t>(v);
  }
  constexpr double as_float() const {
    return is_float() ? std::bit_cast<double>(bits_) : static_cast<double>(static_cast<int64_t>(bits_));
  }

  friend constexpr bool operator==(const Scalar&, const Scalar&) = default;

 private:
  [[noreturn]] UOPC_API static void not_an_int64(uint64_t v);  // throws Error(Type)
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  Kind kind_ = Kind::Int;
  uint64_t bits_ = 0;
};

namespace dtypes {
// Throws Error(Type) "unknown dtype 'f64'".
UOPC_API DType from_name(std::string_view name);
constexpr DType from_py(Scalar s) {
  return s.is_bool() ? DType::Bool : s.is_int() ? DType::I32 : DType::F32;
}
// The bounds that mean "anything": false..true, -2**31..2**31-1, -inf..inf.
UOPC_API Scalar min(DType d);
UOPC_API Scalar max(DType d);
// `s` converted to the Python type that constants of `d` have: bool, int, or float (also for f16).
UOPC_API Scalar convert(Scalar s, DType d);
}  // namespace dtypes

}  // namespace uopc
