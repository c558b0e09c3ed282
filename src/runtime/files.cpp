#include "runtime/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "uopc/error.hpp"

namespace uopc {
namespace {

std::string reason(int code) {
  return std::generic_category().message(code);
}

[[noreturn]] void fail(const char* what, const std::string& path, int code) {
  throw Error(ErrorCode::Run, fmt::format("cannot {} '{}': {}", what, path, reason(code)));
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ > 2) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }
  // The last chance of a file system to report a failed write.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

bool write_parts(int fd, std::span<const std::string_view> parts) {
  for (std::string_view part : parts)
    if (!write_all(fd, part)) return false;
  return true;
}

// `path` with its symbolic links followed, so that a rename replaces the file and not the link. A dangling link has no
// such name; its own is used.
std::string resolved(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (!real) return path;
  std::string out = real;
  std::free(real);
  return out;
}

}  // namespace

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::string read_file(const std::string& path) {
  const bool standard_input = path == "-";
  const std::string shown = standard_input ? "standard input" : path;
  File file(standard_input ? 0 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) fail("read", shown, errno);
  std::string out;
  struct stat info {};
  const bool regular = ::fstat(file.fd(), &info) == 0 && S_ISREG(info.st_mode);
  try {
    // One byte more than the file, so that its end is found without growing.
    out.resize(regular ? static_cast<size_t>(info.st_size) + 1 : 65536);
    for (size_t size = 0;;) {
      if (size == out.size()) out.resize(size * 2);
      const ssize_t n = ::read(file.fd(), out.data() + size, out.size() - size);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("read", shown, errno);
      size += static_cast<size_t>(n);
      if (n == 0) {
        out.resize(size);
        return out;
      }
    }
  } catch (const std::bad_alloc&) {
    fail("read", shown, ENOMEM);
  } catch (const std::length_error&) {
    fail("read", shown, EFBIG);
  }
}

void write_file(const std::string& path, std::span<const std::string_view> parts) {
  struct stat old {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) {
    File file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.fd() < 0 || !write_parts(file.fd(), parts) || !file.close()) fail("write", path, errno);
    return;
  }
  if (exists && ::access(path.c_str(), W_OK) != 0) fail("write", path, errno);
  const std::string target = resolved(path);
  std::string beside;
  int fd = -1;
  for (int attempt = 0; fd < 0 && attempt < 1000; attempt++) {
    beside = fmt::format("{}.{}.{}.tmp", target, ::getpid(), attempt);
    fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  if (fd < 0) fail("write", path, errno);
  File file(fd);
  const bool written = write_parts(file.fd(), parts) && (!exists || ::fchmod(file.fd(), old.st_mode & 07777) == 0);
  if (!written || !file.close() || ::rename(beside.c_str(), target.c_str()) != 0) {
    const int code = errno;
    ::unlink(beside.c_str());
    fail("write", path, code);
  }
}

TempDir::TempDir(const std::string& parent) : path_(parent + "/uopc-XXXXXX") {
  if (!::mkdtemp(path_.data())) fail("make a directory in", parent, errno);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace uopc
