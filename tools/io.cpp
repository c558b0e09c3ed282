#include "io.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "uopc/error.hpp"
#include "uopc/uir.hpp"

namespace uopc::tool {
namespace {

[[noreturn]] void fail(std::string_view what) {
  throw Error(ErrorCode::Run, fmt::format("cannot {}: {}", what, std::generic_category().message(errno)));
}

std::string read_text(const std::string& path) {
  const bool standard_input = path == "-";
  const std::string what = standard_input ? "read standard input" : fmt::format("read '{}'", path);
  const int fd = standard_input ? 0 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(what);
  std::string out;
  char chunk[1 << 16];
  while (const ssize_t n = ::read(fd, chunk, sizeof chunk)) {
    if (n < 0 && errno != EINTR) fail(what);
    if (n > 0) out.append(chunk, static_cast<size_t>(n));
  }
  if (!standard_input) ::close(fd);
  return out;
}

bool only_comments(std::string_view text) {
  bool comment = false;
  for (char c : text) {
    if (c == '\n' || c == '\r') comment = false;
    if (c == '#') comment = true;
    if (!comment && c != ' ' && (c < '\t' || c > '\r')) return false;
  }
  return true;
}

}  // namespace

UOp read_program(Graph& graph, const std::string& path) {
  const std::string text = read_text(path);
  // The parser's error shows the statement at fault; here there is none, but a file.
  if (only_comments(text))
    throw Error(ErrorCode::Parse,
                fmt::format("{}: the program has no statement", path == "-" ? "standard input" : path));
  return parse(graph, text);
}

void write_output(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(1, text.data(), text.size());
    if (n < 0 && errno != EINTR) fail("write to standard output");
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
}

void occupy_standard_descriptors() {
  for (int fd = 0; fd <= 2; fd++)
    // Opening takes the lowest free one, which is `fd`. Reading from it, or writing to it, fails.
    if (::fcntl(fd, F_GETFD) < 0) static_cast<void>(::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY));
}

}  // namespace uopc::tool
