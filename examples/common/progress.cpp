#include "common/progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace {

constexpr int64_t kBarWidth = 24;
constexpr std::chrono::milliseconds kBetweenDrawings{100};

}  // namespace

bool on_terminal() {
  return isatty(STDOUT_FILENO) == 1;
}

Progress::Progress(std::string title, int64_t total)
    : title_(std::move(title)),
      total_(std::max<int64_t>(total, 1)),
      terminal_(on_terminal()),
      start_(std::chrono::steady_clock::now()),
      drawn_(start_) {}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::draw(int64_t done, const std::string& words) const {
  const int64_t filled = std::clamp<int64_t>(done * kBarWidth / total_, 0, kBarWidth);
  fmt::print("{}{} [{:#<{}}{:.<{}}] {}/{}  {}", terminal_ ? "\r\x1b[K" : "", title_, "", filled, "", kBarWidth - filled,
             done, total_, words);
}

void Progress::update(int64_t done, const std::string& words) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - drawn_ < kBetweenDrawings) return;
  drawn_ = now;
  draw(done, words);
  std::fflush(stdout);
}

void Progress::finish(const std::string& words) {
  draw(total_, words);
  fmt::print("\n");
  std::fflush(stdout);
}
