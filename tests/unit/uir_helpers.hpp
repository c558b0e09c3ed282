// What a .uir text prints as, and how it fails.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "uopc/uir.hpp"

namespace uopc {

inline std::string canonical(std::string_view text) {
  Graph g;
  return to_uir(parse(g, text));
}
inline std::string failure(std::string_view text) {
  Graph g;
  try {
    parse(g, text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::Parse);
    return e.what();
  }
  return "no error";
}
// Of the last statement, without "line N: 'STATEMENT': ".
inline std::string reason(std::string_view text) {
  const std::string whole = failure(text);
  const size_t start = whole.find("': ");
  return start == whole.npos ? whole : whole.substr(start + 3);
}
inline Scalar constant(std::string_view literal) {
  Graph g;
  return parse(g, fmt::format("%0 = const {}", literal)).value();
}

}  // namespace uopc
