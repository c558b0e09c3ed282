#include <cstdlib>

#include "uopc/engine.hpp"

namespace uopc {

Options Options::from_env() {
  Options o;
  const auto read = [](const char* name, std::string& to) {
    const char* v = std::getenv(name);
    if (v) to = v;
    return v != nullptr;
  };
  read("CC", o.cc);
  read("CFLAGS", o.cflags);
  std::string home;
  if (!read("UOPC_CACHE", o.c_cache_dir) && read("HOME", home) && !home.empty()) o.c_cache_dir = home + "/.cache/uopc";
  return o;
}

}  // namespace uopc
