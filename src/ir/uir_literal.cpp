// The literals of .uir: Python's numbers, true and false, tuples.
#include <charconv>
#include <cmath>

#include "ir/py_text.hpp"
#include "ir/uir_text.hpp"

namespace uopc {
namespace {

// The value of an integer literal that leaves int64, as Python's float() rounds it, or infinite; nothing when `s` is
// no integer.
std::optional<double> huge_int(std::string_view s) {
  const bool negative = s.starts_with('-');
  if (negative || s.starts_with('+')) s.remove_prefix(1);
  if (s.empty() || s[0] < '0' || s[0] > '9') return std::nullopt;
  double magnitude = 0;
  const char prefix = s[0] == '0' && s.size() > 2 ? static_cast<char>(s[1] | 0x20) : ' ';
  const int digit_bits = prefix == 'x' ? 4 : prefix == 'o' ? 3 : prefix == 'b' ? 1 : 0;
  if (digit_bits) {
    // The leading bits, the last of them sticky, so that the conversion below rounds as if it saw them all.
    uint64_t lead = 0;
    int dropped = 0;
    bool after_digit = true;
    for (char c : s.substr(2)) {
      if (c == '_') {
        if (!after_digit) return std::nullopt;
        after_digit = false;
        continue;
      }
      const char lower = static_cast<char>(c | 0x20);
      const int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
      if (digit >> digit_bits) return std::nullopt;
      after_digit = true;
      if (lead >> (64 - digit_bits) == 0) {
        lead = lead << digit_bits | digit;
      } else {
        lead |= digit != 0;
        if (dropped < 4096) dropped += digit_bits;
      }
    }
    if (!after_digit) return std::nullopt;
    magnitude = std::ldexp(static_cast<double>(lead), dropped);
  } else {
    if (s[0] == '0' || s.find_first_not_of("0123456789_") != s.npos) return std::nullopt;
    const auto v = py_number(std::string(s) + ".0");
    if (!v) return std::nullopt;
    magnitude = v->as_float();
  }
  return negative ? -magnitude : magnitude;
}

// Plain decimal digits, the common case; everything else is py_number's.
std::optional<Scalar> short_int(std::string_view s) {
  const size_t sign = s.starts_with('-');
  if (s.size() <= sign || s.size() > 18 || (s[sign] == '0' && s.size() > sign + 1)) return std::nullopt;
  int64_t v = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return Scalar(v);
}

std::optional<Scalar> scalar_literal(std::string_view s) {
  if (auto v = short_int(s)) return v;
  if (s == "true" || s == "True") return Scalar(true);
  if (s == "false" || s == "False") return Scalar(false);
  if (s == "+inf" || s == "+nan" || s == "-nan") return std::nullopt;
  return py_number(s);
}

[[noreturn]] void no_bool(std::string_view s) {
  parse_error("{} is no bool: write true or false", s);
}

// Refuses number `v`, written `s`, where it is no value of `target`. Beside an i32 an int may be any: the printer
// writes the constants of every graph, also those that `verify` refuses.
void check_exact(std::string_view s, Scalar v, DType target, Literal where) {
  const double d = v.as_float();
  if (target == DType::Bool && d != 0 && d != 1) no_bool(s);
  if (target != DType::I32) return;
  if (v.is_float()) {
    if (std::isnan(d)) parse_error("cannot convert float NaN to integer");
    if (std::isinf(d)) parse_error("cannot convert float infinity to integer");
  }
  if ((v.is_float() || where == Literal::Const) && (d < INT32_MIN || d > INT32_MAX))
    parse_error("{} does not fit i32 ({} to {})", s, INT32_MIN, INT32_MAX);
  if (v.is_float() && d != std::trunc(d))
    parse_error("{} is no i32{}", s,
                where == Literal::Const ? ": write an int, or dtype=f32"
                                        : ", as the other operands are: write an int, or cast them to f32");
}

// Takes the elements of tuple `s` one by one.
template <class Element>
void each_element(std::string_view s, std::string_view what, Element element) {
  if (s.size() < 2 || s.front() != '(' || s.back() != ')') parse_error("{} must be a tuple, got {}", what, py_repr(s));
  std::string_view rest = trim(s.substr(1, s.size() - 2));
  while (!rest.empty()) {
    element(trim(take(rest, [](char c) { return c == ','; })));
    if (!rest.empty()) rest = trim(rest.substr(1));
  }
}

}  // namespace

Scalar literal_value(std::string_view s, std::optional<DType> target, Literal where) {
  if (s.front() == '(') parse_error("no dtype for python value {}", s);
  const auto v = scalar_literal(s);
  if (!v) {
    if (const auto huge = huge_int(s)) {
      if (target == DType::Bool) no_bool(s);
      if (target && is_float(*target)) {
        if (std::isinf(*huge)) parse_error("int too large to convert to float");
        return *huge;
      }
      parse_error("integer {} is out of range", s);
    }
    parse_error("bad literal {}", py_repr(s));
  }
  if (!target || (v->is_bool() && where == Literal::Operand)) return *v;
  check_exact(s, *v, *target, where);
  return dtypes::convert(*v, *target);
}

int64_t int_literal(std::string_view s, std::string_view what) {
  if (const auto v = scalar_literal(s); v && v->is_int()) return v->as_int();
  if (!s.empty() && huge_int(s)) parse_error("{} {} is out of range", what, s);
  parse_error("{} must be an int, got {}", what, py_repr(s));
}

Shape shape_literal(std::string_view s, std::string_view what) {
  Shape shape;
  each_element(s, what, [&](std::string_view e) { shape.push_back(int_literal(e, "size")); });
  return shape;
}

ShrinkArg shrink_literal(std::string_view s) {
  ShrinkArg arg;
  each_element(s, "bounds", [&](std::string_view pair) {
    int64_t ends[2] = {}, n = 0;
    each_element(pair, "bounds of an axis", [&](std::string_view e) {
      if (n == 2) parse_error("bounds of an axis are (begin, end), got {}", pair);
      ends[n++] = int_literal(e, "bound");
    });
    if (n != 2) parse_error("bounds of an axis are (begin, end), got {}", pair);
    arg.bounds.emplace_back(ends[0], ends[1]);
  });
  return arg;
}

}  // namespace uopc
