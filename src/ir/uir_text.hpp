// What the parser and the printer of .uir share.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace uopc {

inline std::string lower_case(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}
inline std::string upper_case(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

// The name of a CALL is any string. One that could not stand in an attribute list as it is gets quotes, and "\xNN" for
// every byte but letters, digits and '_'.
std::string quote(std::string_view name);
// The name that `quote` wrote; nothing when the text is no name.
std::optional<std::string> unquote(std::string_view text);

}  // namespace uopc
