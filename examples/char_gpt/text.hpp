// A text as numbers, one a character.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// The King James Bible, from Debian's program `bible`; a line a verse, without the verse's label. Throws
// std::runtime_error that says what to install.
std::string bible_text();
std::string read_text(const std::string& path);

class Text {
 public:
  explicit Text(std::string_view text);  // throws std::runtime_error when it is empty
  const std::vector<int32_t>& tokens() const { return tokens_; }
  int64_t alphabet() const { return static_cast<int64_t>(characters_.size()); }
  const std::string& characters() const { return characters_; }  // by token
  char character(int32_t token) const { return characters_[static_cast<size_t>(token)]; }
  // Characters that the alphabet lacks are left out.
  std::vector<int32_t> encode(std::string_view text) const;

 private:
  std::string characters_;
  std::vector<int32_t> tokens_;
};
