// What the parser and the printer of .uir are made of.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "uopc/uop.hpp"

namespace uopc {

template <class... Args>
[[noreturn]] void parse_error(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::Parse, fmt::format(format, std::forward<Args>(args)...));
}

inline bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
inline std::string_view trim(std::string_view s) {
  while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
  return s;
}

// Takes the piece of `s` up to the first character that `stop` accepts outside parentheses.
template <class Stop>
std::string_view take(std::string_view& s, Stop stop) {
  int64_t depth = 0;
  size_t i = 0;
  for (; i < s.size(); i++) {
    if (s[i] == '(') depth++;
    if (s[i] == ')' && depth > 0) depth--;
    if (depth == 0 && stop(s[i])) break;
  }
  const std::string_view piece = s.substr(0, i);
  s.remove_prefix(i);
  return piece;
}

inline std::string lower_case(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}
inline std::string upper_case(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

// ---- literals; each throws Error(Parse) when `s`, which is not empty, is none of its kind --------------------------

// Where a literal stands: as the value of a `const`, or as an operand, where a bool stays one whatever `target` is.
enum class Literal { Const, Operand };
// The value of scalar `s`, of `target`'s Python type where there is a target. Floats round, nothing else does.
Scalar literal_value(std::string_view s, std::optional<DType> target, Literal where);

// `what` names the literal in the error.
int64_t int_literal(std::string_view s, std::string_view what);
Shape shape_literal(std::string_view s, std::string_view what);
ShrinkArg shrink_literal(std::string_view s);

}  // namespace uopc
