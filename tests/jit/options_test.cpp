// The environment as options: read strictly, or not at all.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "error_of.hpp"
#include "uopc/engine.hpp"

namespace uopc {
namespace {

// Sets variables, and the rest of those that are read to nothing; puts all back at the end.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& set) {
    for (const char* name : {"DEBUG", "OPT", "CC", "CFLAGS", "UOPC_CACHE", "HOME"}) {
      if (const char* v = std::getenv(name)) before_[name] = v;
      unsetenv(name);
    }
    for (const auto& [name, value] : set) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const char* name : {"DEBUG", "OPT", "CC", "CFLAGS", "UOPC_CACHE", "HOME"}) unsetenv(name);
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::map<std::string, std::string> before_;
};

Options options_of(const std::map<std::string, std::string>& set) {
  const Environment e(set);
  return Options::from_env();
}

TEST(OptionsFromEnv, DefaultsOfTheAppendix) {
  const Options o = options_of({});
  EXPECT_EQ(o.debug, 0);
  EXPECT_EQ(o.opt, 1);
  EXPECT_EQ(o.cc, "gcc");
  EXPECT_EQ(o.cflags,
            "-O3 -march=native -fopenmp -ffp-contract=fast -fassociative-math -fno-signed-zeros -fno-trapping-math");
  EXPECT_EQ(o.c_cache_dir, "") << "without a home there is no place to keep it";
  EXPECT_TRUE(o.log);
  EXPECT_EQ(options_of({{"HOME", "/home/somebody"}}).c_cache_dir, "/home/somebody/.cache/uopc");
}

TEST(OptionsFromEnv, TakesEachVariable) {
  const Options o =
      options_of({{"DEBUG", "4"}, {"OPT", "2"}, {"CC", "clang"}, {"CFLAGS", "-O1"}, {"UOPC_CACHE", "/tmp/c"}});
  EXPECT_EQ(o.debug, 4);
  EXPECT_EQ(o.opt, 2);
  EXPECT_EQ(o.cc, "clang");
  EXPECT_EQ(o.cflags, "-O1");
  EXPECT_EQ(o.c_cache_dir, "/tmp/c");
  EXPECT_EQ(options_of({{"OPT", "0"}}).opt, 0);
  EXPECT_EQ(options_of({{"CFLAGS", ""}}).cflags, "") << "no flags is a choice";
}

TEST(OptionsFromEnv, AnEmptyLevelOrCompilerIsUnset) {
  const Options o = options_of({{"DEBUG", ""}, {"OPT", ""}, {"CC", ""}, {"UOPC_CACHE", ""}, {"HOME", "/h"}});
  EXPECT_EQ(o.debug, 0);
  EXPECT_EQ(o.opt, 1);
  EXPECT_EQ(o.cc, "gcc");
  EXPECT_EQ(o.c_cache_dir, "") << "an empty cache is a directory of its own";
}

TEST(OptionsFromEnv, RefusesWhatIsNotALevel) {
  for (const char* bad : {"5", "-1", "+1", "1.0", "1 ", " 1", "01", "0x1", "one", "true", "99999999999999999999"})
    EXPECT_EQ(named_error_of([&] {
                options_of({{"DEBUG", bad}});
              }),
              std::string("ParseError: DEBUG='") + bad + "' is not a number from 0 to 4");
  for (const char* bad : {"3", "-0", "2x"})
    EXPECT_EQ(named_error_of([&] {
                options_of({{"OPT", bad}});
              }),
              std::string("ParseError: OPT='") + bad + "' is not a number from 0 to 2");
}

}  // namespace
}  // namespace uopc
