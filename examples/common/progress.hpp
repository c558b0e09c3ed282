// A line on the terminal that says how far a long job is: a bar, the steps done, and the words of the caller. Where
// standard output is no terminal, only the last line of each bar is printed.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

class Progress {
 public:
  Progress(std::string title, int64_t total);
  // `words` stand behind the bar; drawn at most ten times a second.
  void update(int64_t done, const std::string& words);
  // The last line, kept.
  void finish(const std::string& words);
  double seconds() const;

 private:
  void draw(int64_t done, const std::string& words) const;

  std::string title_;
  int64_t total_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_, drawn_;
};

// Whether standard output is a terminal.
bool on_terminal();
