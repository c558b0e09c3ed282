#include "ir/py_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace uopc {

std::string py_repr(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  // Scientific form first: its digits are the shortest that read back, its exponent decides the notation.
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific).ptr;
  std::string_view s(buffer, end - buffer);
  const bool negative = s[0] == '-';
  if (negative) s.remove_prefix(1);
  const size_t e = s.find('e');
  int exponent = 0;
  std::from_chars(s.data() + e + (s[e + 1] == '+' ? 2 : 1), s.data() + s.size(), exponent);
  std::string digits(1, s[0]);
  if (e > 2) digits += s.substr(2, e - 2);

  std::string out = negative ? "-" : "";
  const int n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (n > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(-exponent - 1, '0') + digits;
  if (n <= exponent + 1) return out + digits + std::string(exponent + 1 - n, '0') + ".0";
  return out + digits.substr(0, exponent + 1) + "." + digits.substr(exponent + 1);
}

std::string py_repr(Scalar v) {
  if (v.is_bool()) return v.as_bool() ? "True" : "False";
  if (v.is_int()) return fmt::format_int(v.as_int()).str();
  return py_repr(v.as_float());
}

namespace {

// The length of the valid UTF-8 sequence at the start of `s`, and its code point; 0 when there is none.
size_t decode_utf8(std::string_view s, uint32_t& code) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t first = byte(0);
  const size_t n = first < 0x80 ? 1 : (first >> 5) == 6 ? 2 : (first >> 4) == 14 ? 3 : (first >> 3) == 30 ? 4 : 0;
  if (n == 0 || n > s.size()) return 0;
  if (n == 1) {
    code = first;
    return 1;
  }
  code = first & (0xFF >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[n] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
  return n;
}

}  // namespace

std::string py_repr(std::string_view s) {
  const bool has_single = s.find('\'') != s.npos, has_double = s.find('"') != s.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  while (!s.empty()) {
    const char c = s[0];
    uint32_t code = 0;
    const size_t n = decode_utf8(s, code);
    if (n == 0) {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
      s.remove_prefix(1);
      continue;
    }
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (code < 0x20 || (code >= 0x7F && code < 0xA1) || code == 0xAD) {
      out += fmt::format("\\x{:02x}", code);
    } else {
      out += s.substr(0, n);
    }
    s.remove_prefix(n);
  }
  return out + quote;
}

bool is_identifier(std::string_view s) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (s.empty() || !letter(s[0])) return false;
  return std::ranges::all_of(s, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::string py_tuple(const Shape& shape) {
  std::string out = "(";
  for (size_t i = 0; i < shape.size(); i++) out += fmt::format("{}{}", i ? ", " : "", shape[i]);
  return out + (shape.size() == 1 ? ",)" : ")");
}

std::string py_tuple(const ShrinkArg& arg) {
  std::string out = "(";
  for (size_t i = 0; i < arg.bounds.size(); i++)
    out += fmt::format("{}({}, {})", i ? ", " : "", arg.bounds[i].first, arg.bounds[i].second);
  return out + (arg.bounds.size() == 1 ? ",)" : ")");
}

namespace {

bool is_digit(char c, int base) {
  if (base <= 10) return c >= '0' && c < '0' + base;
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// `s` without the underscores that stand between two digits; nothing when one stands elsewhere.
std::optional<std::string> strip_underscores(std::string_view s, int base) {
  std::string out;
  for (size_t i = 0; i < s.size(); i++) {
    if (s[i] != '_') {
      out += s[i];
    } else if (i == 0 || i + 1 == s.size() || !is_digit(s[i - 1], base) || !is_digit(s[i + 1], base)) {
      return std::nullopt;
    }
  }
  return out;
}

// An unsigned decimal float literal: digits, a point, an exponent, at least one of the last two and one digit.
std::optional<double> decimal_float(const std::string& s) {
  size_t i = 0, digits = 0;
  const auto run = [&] {
    size_t n = 0;
    while (i < s.size() && is_digit(s[i], 10)) i++, n++;
    return n;
  };
  digits += run();
  if (i < s.size() && s[i] == '.') {
    i++;
    digits += run();
  }
  if (digits == 0) return std::nullopt;
  if (i < s.size() && (s[i] == 'e' || s[i] == 'E')) {
    i++;
    if (i < s.size() && (s[i] == '+' || s[i] == '-')) i++;
    if (run() == 0) return std::nullopt;
  }
  if (i != s.size()) return std::nullopt;
  double v = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (end != s.data() + s.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // Too large or too small for a double: which, the magnitude of the text tells.
    const size_t e = s.find_first_of("eE");
    const size_t first = s.find_first_of("123456789");
    const size_t point = std::min(s.find('.'), std::min(e, s.size()));
    int64_t exponent = 0;
    if (e != s.npos) {
      const char* from = s.data() + e + (s[e + 1] == '+' ? 2 : 1);
      if (std::from_chars(from, s.data() + s.size(), exponent).ec == std::errc::result_out_of_range)
        exponent = s[e + 1] == '-' ? INT64_MIN / 2 : INT64_MAX / 2;
    }
    const int64_t lead = static_cast<int64_t>(point) - static_cast<int64_t>(first);
    v = exponent + lead > 0 ? std::numeric_limits<double>::infinity() : 0.0;
  }
  return v;
}

}  // namespace

std::optional<Scalar> py_number(std::string_view s) {
  bool negative = false;
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) {
    negative = s[0] == '-';
    s.remove_prefix(1);
  }
  if (s.empty()) return std::nullopt;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (s == "inf") return Scalar(negative ? -kInf : kInf);
  if (s == "nan") return Scalar(std::numeric_limits<double>::quiet_NaN());

  int base = 10;
  if (s.size() > 2 && s[0] == '0') {
    const char c = s[1] | 0x20;
    base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
  }
  if (base != 10) {
    s.remove_prefix(2);
    if (s[0] == '_') s.remove_prefix(1);
  }
  const auto digits = strip_underscores(s, base);
  if (!digits || digits->empty()) return std::nullopt;
  const bool integer = std::ranges::all_of(*digits, [&](char c) { return is_digit(c, base); });
  if (!integer) {
    if (base != 10) return std::nullopt;
    const auto v = decimal_float(*digits);
    if (!v) return std::nullopt;
    return Scalar(negative ? -*v : *v);
  }
  // Python refuses leading zeros of a nonzero decimal.
  if (base == 10 && (*digits)[0] == '0' && digits->find_first_not_of('0') != digits->npos) return std::nullopt;
  uint64_t v = 0;
  if (std::from_chars(digits->data(), digits->data() + digits->size(), v, base).ec != std::errc()) return std::nullopt;
  const uint64_t limit = uint64_t{INT64_MAX} + (negative ? 1 : 0);
  if (v > limit) return std::nullopt;
  return Scalar(negative ? static_cast<int64_t>(-v) : static_cast<int64_t>(v));
}

}  // namespace uopc
