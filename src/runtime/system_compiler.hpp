// The system's C compiler as a child process.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace uopc {

// `text` split at blanks, as CC and CFLAGS are.
std::vector<std::string> split_words(std::string_view text);

// Runs `command` (found in PATH, no shell) in `directory`, which must be its own: its output goes to a file there.
// Throws Error(Compile) with what it printed when it fails or cannot be started.
void run_compiler(const std::vector<std::string>& command, const std::string& directory);

}  // namespace uopc
