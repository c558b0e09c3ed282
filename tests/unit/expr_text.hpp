// Scalar expressions as text, for tests of arithmetic: "(r4*3+r3) // 3", "where(x < 2, x, 7)".
//
// Names: r4, r4a, r4b are different loop counters with 4 steps; x, y, z are i32 data; f, g, h f32 data; p, q bool data.
#pragma once
#include <cctype>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ir/py_text.hpp"
#include "uopc/uop.hpp"

namespace uopc::test {

class Exprs {
 public:
  Graph graph;

  UOp operator()(std::string_view text) {
    text_ = text;
    at_ = 0;
    const UOp u = comparison();
    if (skip(); at_ != text_.size()) fail("the end");
    return u;
  }

  UOp name(const std::string& n) {
    if (const auto it = names_.find(n); it != names_.end()) return it->second;
    const int64_t k = static_cast<int64_t>(names_.size());
    UOp u;
    if (n[0] == 'r' && n.size() > 1) {
      u = graph.range_(std::stoll(n.substr(1)), k);
    } else {
      const DType d = n[0] >= 'x' ? DType::I32 : n[0] >= 'p' ? DType::Bool : DType::F32;
      u = graph.buffer(1, d, k).index(0).load();
    }
    spelled_.emplace(u, n);
    return names_[n] = u;
  }

  std::string text(UOp u) const {
    if (const auto it = spelled_.find(u); it != spelled_.end()) return it->second;
    const auto s = [&](size_t i) { return text(u.src(i)); };
    const auto infix = [&](const char* sign) { return "(" + s(0) + sign + s(1) + ")"; };
    switch (u.op()) {
      case Op::Const:
        return u.value().is_bool() ? (u.value().as_bool() ? "true" : "false") : py_repr(u.value());
      case Op::Add:
        return infix("+");
      case Op::Mul:
        return infix("*");
      case Op::FloorDiv:
        return infix("//");
      case Op::FloorMod:
        return infix("%");
      case Op::CmpLt:
        return infix("<");
      case Op::CmpNe:
        return infix("!=");
      case Op::Cast:
        return std::string(uopc::name(u.dtype())) + "(" + s(0) + ")";
      default:
        break;
    }
    std::string t;
    for (char ch : std::string(uopc::name(u.op()))) t += static_cast<char>(std::tolower(ch));
    for (size_t i = 0; i < u.src().size(); i++) t += (i ? ", " : "(") + s(i);
    return t + ")";
  }

 private:
  [[noreturn]] void fail(const std::string& wanted) const {
    throw std::runtime_error("'" + std::string(text_) + "': " + wanted + " is missing at " + std::to_string(at_));
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') at_++;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  UOp comparison() {
    UOp a = sum();
    for (;;) {
      if (take("<")) {
        a = a.lt(sum());
      } else if (take("!=")) {
        a = a.ne(sum());
      } else {
        return a;
      }
    }
  }
  UOp sum() {
    UOp a = product();
    for (;;) {
      if (take("+")) {
        a = a + product();
      } else if (take("-")) {
        a = a - product();
      } else {
        return a;
      }
    }
  }
  UOp product() {
    UOp a = primary();
    for (;;) {
      if (take("*")) {
        a = a * primary();
      } else if (take("//")) {
        a = a.floordiv(primary());
      } else if (take("%")) {
        a = a % primary();
      } else {
        return a;
      }
    }
  }
  UOp primary() {
    if (take("(")) {
      const UOp u = comparison();
      if (!take(")")) fail("')'");
      return u;
    }
    skip();
    size_t end = at_;
    const auto in_word = [&](char ch) { return std::isalnum(static_cast<unsigned char>(ch)) || ch == '.'; };
    if (end < text_.size() && text_[end] == '-') end++;
    const bool number = end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]));
    while (end < text_.size() && (in_word(text_[end]) || (number && text_[end] == '-' && text_[end - 1] == 'e'))) end++;
    const std::string word(text_.substr(at_, end - at_));
    if (word.empty()) fail("an operand");
    at_ = end;
    if (word == "true" || word == "false") return graph.constant(word == "true");
    if (const auto number = py_number(word)) return graph.constant(*number);
    if (!take("(")) return name(word);
    std::vector<UOp> args{comparison()};
    while (take(",")) args.push_back(comparison());
    if (!take(")")) fail("')'");
    for (DType d : {DType::Bool, DType::I32, DType::F32, DType::F16})
      if (word == uopc::name(d)) return graph.make(Op::Cast, args, d);
    const auto op = op_from_name(word);
    if (!op) fail("a known function");
    return graph.make(*op, args);
  }

  std::string_view text_;
  size_t at_ = 0;
  std::map<std::string, UOp> names_;
  UOpMap<std::string> spelled_;
};

}  // namespace uopc::test
