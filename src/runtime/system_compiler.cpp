#include "runtime/system_compiler.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "runtime/files.hpp"
#include "uopc/error.hpp"

extern char** environ;

namespace uopc {
namespace {

constexpr size_t kMaxShown = 16 * 1024;  // bytes of a compiler's words in a message

// The settings of a child, freed with the scope.
struct SpawnSettings {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  explicit SpawnSettings(const char* output) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    // What this thread blocks or ignores is no business of the child's.
    posix_spawnattr_init(&attributes);
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    for (int signal : {SIGPIPE, SIGINT, SIGQUIT, SIGTERM, SIGCHLD}) sigaddset(&standard, signal);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
};

std::string shortened(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "\n...";
  return text;
}

}  // namespace

std::vector<std::string> split_words(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\f\v";
  std::vector<std::string> out;
  for (size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

void run_compiler(const std::vector<std::string>& command, const std::string& directory) {
  const std::string output = directory + "/output.txt";
  SpawnSettings settings(output.c_str());
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  if (const int code = posix_spawnp(&child, argv[0], &settings.files, &settings.attributes, argv.data(), environ))
    throw Error(ErrorCode::Compile,
                fmt::format("cannot start the C compiler '{}': {}", command[0], std::generic_category().message(code)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno == EINTR) continue;
    // A host that ignores SIGCHLD gets no status; whether there is a library then decides.
    status = 0;
    break;
  }
  if (status == 0) return;
  const std::string how = WIFEXITED(status) ? fmt::format("exit status {}", WEXITSTATUS(status))
                                            : fmt::format("signal {}", WTERMSIG(status));
  throw Error(ErrorCode::Compile, fmt::format("the C compiler failed with {}: {}\n{}", how, fmt::join(command, " "),
                                              shortened(read_file(output))));
}

}  // namespace uopc
