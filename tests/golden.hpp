// Reading of tests/golden: cases in sections headed by "# name", and tab-separated tables.
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace uopc::golden {

inline std::filesystem::path directory() {
  return std::filesystem::path(UOPC_TEST_DATA) / "golden";
}

// The lines of a file without comments: lines that begin with "# ".
inline std::vector<std::string> lines(const std::string& file) {
  std::ifstream in(directory() / file);
  if (!in) throw std::runtime_error("cannot read " + file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with("# ")) out.push_back(line);
  return out;
}

// A table's rows, split at tabs.
inline std::vector<std::vector<std::string>> table(const std::string& file) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : lines(file)) {
    std::vector<std::string> row;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, '\t');) row.push_back(cell);
    rows.push_back(std::move(row));
  }
  return rows;
}

struct Case {
  std::string name;  // of the file, without .txt
  std::map<std::string, std::string> sections;
  bool has(const std::string& section) const { return sections.contains(section); }
  const std::string& at(const std::string& section) const { return sections.at(section); }
};

inline Case read(const std::string& name) {
  std::ifstream in(directory() / (name + ".txt"));
  if (!in) throw std::runtime_error("cannot read " + name);
  Case c{name, {}};
  std::string* section = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# ")) {
      section = &c.sections[line.substr(2, line.find_first_of(" :", 2) - 2)];
    } else if (section) {
      *section += line + '\n';
    }
  }
  return c;
}

// The names of the cases that have `section`, in order.
inline std::vector<std::string> cases_with(const std::string& section) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory())) {
    const auto& path = entry.path();
    if (path.extension() == ".txt" && read(path.stem()).has(section)) names.push_back(path.stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace uopc::golden
