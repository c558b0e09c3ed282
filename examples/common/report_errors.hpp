// What `main` of an example does with an exception: a line on standard error, and status 1.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "uopc/error.hpp"

template <class F>
int report_errors(F&& f) {
  try {
    f();
    return 0;
  } catch (const uopc::Error& e) {
    std::fflush(stdout);
    fmt::print(stderr, "{}: {}\n", uopc::error_name(e.code()), e.what());
  } catch (const std::exception& e) {
    std::fflush(stdout);
    fmt::print(stderr, "{}\n", e.what());
  }
  return 1;
}
