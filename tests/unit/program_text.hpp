// Programs of tests as text: .uir in, C out.
#pragma once
#include <string>
#include <string_view>

#include "uopc/uopc.hpp"

namespace uopc::test {

inline std::string c_of(std::string_view uir, const std::string& name = "kernel") {
  Graph g;
  return render_c_body(as_program(parse(g, uir)), name);
}

// "UOpError: message" of what `f` throws; "" when it throws nothing.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return std::string(error_name(e.code())) + ": " + e.what();
  }
  return "";
}
inline std::string c_error(std::string_view uir) {
  return error_of([&] { c_of(uir); });
}

}  // namespace uopc::test
