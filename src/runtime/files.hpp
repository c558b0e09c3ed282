// Whole files: read, and replaced in one step.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "uopc/export.hpp"

namespace uopc {

// The bytes of `path`, or of standard input for "-". Throws Error(Run) "cannot read 'PATH': REASON".
std::string read_file(const std::string& path);

// Puts `parts`, one after the other, into `path`: written beside it and renamed, so that a reader or a failure never
// sees half a file. A pipe or a device is written as it is. Throws Error(Run) "cannot write 'PATH': REASON".
void write_file(const std::string& path, std::span<const std::string_view> parts);

// Writes all of `text` to the open file `fd`. False with errno set on failure.
bool write_all(int fd, std::string_view text);

// A fresh directory that only this user can enter, removed with what it holds.
class TempDir {
 public:
  // Made inside `parent`. Throws Error(Run).
  explicit TempDir(const std::string& parent);
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace uopc
