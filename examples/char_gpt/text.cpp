#include "text.hpp"

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

std::string bible_text() {
  struct Close {
    void operator()(FILE* f) const { pclose(f); }
  };
  const std::unique_ptr<FILE, Close> pipe(popen("bible -f gen1:1-rev22:21 </dev/null 2>/dev/null", "r"));
  std::string all;
  std::array<char, 1 << 16> chunk;
  while (pipe)
    if (const size_t n = fread(chunk.data(), 1, chunk.size(), pipe.get()))
      all.append(chunk.data(), n);
    else
      break;

  std::string text;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    const size_t label = line.find(' ');  // "Ge1:1 In the beginning ..."
    if (label == std::string::npos || line.find(':') > label) continue;
    text.append(line, label + 1).push_back('\n');
  }
  if (text.empty())
    throw std::runtime_error(
        "the program `bible` gave no text; install Debian's packages bible-kjv and bible-kjv-text, or name a text "
        "with --text");
  return text;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be opened");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Text::Text(std::string_view text) {
  if (text.empty()) throw std::runtime_error("the text is empty");
  const std::set<char> used(text.begin(), text.end());
  characters_.assign(used.begin(), used.end());
  tokens_ = encode(text);
}

std::vector<int32_t> Text::encode(std::string_view text) const {
  std::array<int32_t, 256> token;
  token.fill(-1);
  for (size_t i = 0; i < characters_.size(); i++)
    token[static_cast<unsigned char>(characters_[i])] = static_cast<int32_t>(i);
  std::vector<int32_t> out;
  out.reserve(text.size());
  for (char c : text)
    if (const int32_t t = token[static_cast<unsigned char>(c)]; t >= 0) out.push_back(t);
  return out;
}
