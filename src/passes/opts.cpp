#include "uopc/opts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "ir/py_text.hpp"
#include "uopc/error.hpp"

namespace uopc {
namespace {

std::string dict(const std::map<int64_t, int64_t>& m) {
  std::string text = "{";
  for (const auto& [axis, n] : m) text += fmt::format("{}{}: {}", text.size() > 1 ? ", " : "", axis, n);
  return text + "}";
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Opts read() {
    Opts opts;
    if (word() != "Opts") fail("not of the form 'Opts(field=value, ..)', for example 'Opts(unroll=4)',");
    expect('(');
    std::string seen = ",";
    while (!accept(')')) {
      const std::string field = word();
      if (field.empty()) fail("a field is missing");
      if (seen.find("," + field + ",") != std::string::npos) fail(fmt::format("{} is given twice", field));
      seen += field + ",";
      expect('=');
      read_field(opts, field);
      if (accept(')')) break;
      expect(',');
    }
    skip_blanks();
    if (at_ != text_.size()) fail("there is something behind the ')'");
    return opts;
  }

 private:
  void read_field(Opts& opts, const std::string& field) {
    if (field == "upcast") {
      opts.upcast = read_dict();
    } else if (field == "tile") {
      opts.tile = read_dict();
    } else if (field == "local") {
      opts.local = read_dict();
    } else if (field == "unroll") {
      opts.unroll = factor();
    } else if (field == "thread") {
      if (peek() >= 'A') {
        one_of({"None"}, "thread is an axis or None");
        opts.thread.reset();
      } else {
        opts.thread = number();
      }
    } else if (field == "gpu") {
      opts.gpu = one_of({"True", "False"}, "gpu is True or False") == "True";
    } else {
      fail(fmt::format("there is no field '{}' (upcast, thread, unroll, tile, gpu, local)", field));
    }
  }

  std::map<int64_t, int64_t> read_dict() {
    std::map<int64_t, int64_t> m;
    expect('{');
    while (!accept('}')) {
      const int64_t axis = number();
      expect(':');
      if (!m.emplace(axis, factor()).second) fail(fmt::format("axis {} is given twice", axis));
      if (accept('}')) break;
      expect(',');
    }
    return m;
  }

  int64_t factor() {
    const int64_t n = number();
    if (n < 1) fail(fmt::format("{} is no factor: it is 1 or more", n));
    return n;
  }
  int64_t number() {
    skip_blanks();
    const size_t begin = at_;
    while (at_ < text_.size() && ((text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == '-')) at_++;
    const auto v = py_number(text_.substr(begin, at_ - begin));
    if (!v || !v->is_int()) fail("an integer is missing");
    if (v->as_int() < 0) fail(fmt::format("{} is negative", v->as_int()));
    return v->as_int();
  }
  // A value that is spelled in one of these ways; `rule` says so.
  std::string_view one_of(std::initializer_list<std::string_view> choices, const char* rule) {
    skip_blanks();
    const std::string_view value = text_.substr(at_, text_.find_first_of(",) \t\n", at_) - at_);
    if (std::ranges::find(choices, value) == choices.end()) fail(fmt::format("{}, not {},", rule, py_repr(value)));
    at_ += value.size();
    return value;
  }
  std::string word() {
    skip_blanks();
    const size_t begin = at_;
    while (at_ < text_.size() && ((text_[at_] >= 'a' && text_[at_] <= 'z') || (text_[at_] >= 'A' && text_[at_] <= 'Z')))
      at_++;
    return std::string(text_.substr(begin, at_ - begin));
  }
  char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    at_++;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}' is missing", c));
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) at_++;
  }
  [[noreturn]] void fail(const std::string& reason) const {
    throw Error(ErrorCode::Parse, fmt::format("Opts: {} at column {} of {}", reason, at_ + 1, py_repr(text_)));
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string to_string(const Opts& o) {
  return fmt::format("Opts(upcast={}, thread={}, unroll={}, tile={}, gpu={}, local={})", dict(o.upcast),
                     o.thread ? fmt::format("{}", *o.thread) : "None", o.unroll, dict(o.tile), o.gpu ? "True" : "False",
                     dict(o.local));
}

Opts parse_opts(std::string_view text) {
  return Reader(text).read();
}

}  // namespace uopc
