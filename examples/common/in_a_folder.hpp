// Of a file to be written: its folder is there. Asked before the work whose result it takes.
#pragma once
#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>

inline CLI::Validator in_a_folder() {
  return {[](const std::string& file) {
            const auto folder = std::filesystem::path(file).parent_path();
            const bool there = folder.empty() || std::filesystem::is_directory(folder);
            return there ? std::string() : "there is no folder " + folder.string();
          },
          "FILE"};
}
