// What an action throws, as text to compare.
#pragma once
#include <string>

#include "uopc/error.hpp"

namespace uopc {

// The message alone.
inline std::string error_of(auto action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// "RunError: " and the message.
inline std::string named_error_of(auto action) {
  try {
    action();
  } catch (const Error& e) {
    return std::string(error_name(e.code())) + ": " + e.what();
  }
  return "no error";
}

}  // namespace uopc
