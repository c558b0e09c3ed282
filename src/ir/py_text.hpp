// Text as Python prints and reads it. Byte parity with the reference depends on it; nothing here knows the locale.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "uopc/uop.hpp"

namespace uopc {

std::string py_repr(double v);             // shortest digits; exponent below 1e-4 and from 1e16: "1e-05", "16777217.0"
std::string py_repr(Scalar v);             // "True", "3", "2.5"
std::string py_repr(std::string_view s);   // "'text'", with Python's choice of quote and escapes; bytes are UTF-8
std::string py_tuple(const Shape& shape);  // "()", "(2,)", "(2, 3)"
std::string py_tuple(const ShrinkArg& arg);  // "((0, 1), (2, 3))"

// A name in .uir and in C: letters, digits and '_' of ASCII, no digit first.
bool is_identifier(std::string_view s);

// A whole Python number literal: "12", "-3", "0x_ff", "1_000", "1e-5", ".5", "inf", "-inf", "nan". Nothing when `s` is
// none, or an integer that leaves int64.
std::optional<Scalar> py_number(std::string_view s);

}  // namespace uopc
