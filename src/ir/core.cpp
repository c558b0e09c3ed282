// The small tables behind op.hpp, dtype.hpp and error.hpp.
#include <fmt/format.h>

#include <limits>

#include "ir/py_text.hpp"
#include "uopc/dtype.hpp"
#include "uopc/error.hpp"
#include "uopc/op.hpp"

namespace uopc {

Error::~Error() = default;

const char* error_name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::Type:
      return "UOpError";
    case ErrorCode::Parse:
      return "ParseError";
    case ErrorCode::NotImplemented:
      return "NotImplementedError";
    case ErrorCode::Compile:
      return "CompileError";
    case ErrorCode::Run:
      return "RunError";
    case ErrorCode::Internal:
      return "InternalError";
  }
  return "Error";
}

std::optional<Op> op_from_name(std::string_view s) {
  const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; };
  for (int i = 0; i < kOpCount; i++) {
    const std::string_view candidate = kOps[i].name;
    if (candidate.size() != s.size()) continue;
    size_t k = 0;
    while (k < s.size() && upper(s[k]) == candidate[k]) k++;
    if (k == s.size()) return static_cast<Op>(i);
  }
  return std::nullopt;
}

void Scalar::not_an_int64(uint64_t v) {
  throw Error(ErrorCode::Type, fmt::format("{} is no int of 64 bits; write a float", v));
}

namespace dtypes {

DType from_name(std::string_view s) {
  for (size_t i = 0; i < std::size(kDTypes); i++)
    if (s == kDTypes[i].name) return static_cast<DType>(i);
  throw Error(ErrorCode::Type, fmt::format("unknown dtype {}", py_repr(s)));
}

Scalar min(DType d) {
  if (d == DType::Bool) return false;
  if (d == DType::I32) return int64_t{INT32_MIN};
  return -std::numeric_limits<double>::infinity();
}

Scalar max(DType d) {
  if (d == DType::Bool) return true;
  if (d == DType::I32) return int64_t{INT32_MAX};
  return std::numeric_limits<double>::infinity();
}

Scalar convert(Scalar s, DType d) {
  switch (d) {
    case DType::Bool:
      return s.as_bool();
    case DType::I32:
      return s.as_int();
    case DType::F32:
    case DType::F16:
      return s.as_float();
    case DType::Void:
      break;
  }
  throw Error(ErrorCode::Type, "there is no constant of dtypes.void");
}

}  // namespace dtypes
}  // namespace uopc
