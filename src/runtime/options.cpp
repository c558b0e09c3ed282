#include <cstdio>
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
  if (std::string cc; read("CC", cc) && !cc.empty()) o.cc = std::move(cc);
  read("CFLAGS", o.cflags);
  const auto read_level = [](const char* name, int most, int& to) {
    const char* v = std::getenv(name);
    if (!v || !*v) return;
    if (v[0] < '0' || v[0] > '0' + most || v[1] != 0)
      throw Error(ErrorCode::Parse,
                  std::string(name) + "='" + v + "' is not a number from 0 to " + std::to_string(most));
    to = v[0] - '0';
  };
  read_level("DEBUG", 4, o.debug);
  read_level("OPT", 2, o.opt);
  o.log = [](std::string_view line) {
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fputc('\n', stdout);
  };
  std::string home;
  if (!read("UOPC_CACHE", o.c_cache_dir) && read("HOME", home) && !home.empty()) o.c_cache_dir = home + "/.cache/uopc";
  return o;
}

}  // namespace uopc
