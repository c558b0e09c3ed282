// What C-like kernel languages share: expressions, statements and names of a linearized program. A language overrides
// what it spells differently.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/bounds.hpp"
#include "passes/linearize.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// A constant of dtype `d`, as the appendix's `cconst` prints it (A.6).
std::string cconst(Scalar v, DType d);

class CRenderer {
 public:
  virtual ~CRenderer() = default;

  // The kernel's text, from its head to the closing brace.
  std::string render(const Linearized& program, const std::string& name);

 protected:
  virtual const char* type_name(DType d) const { return info(d).ctype; }
  virtual std::string head(const std::vector<UOp>& params, const std::string& name) const;
  virtual void declare(UOp alloc);
  virtual void open_loop(UOp range);
  virtual void close_loop(UOp range);
  virtual void barrier(UOp u);
  virtual void cell(const Cell& c);  // appended to the expression

  // "acc0", "smem0", "data0"; and of a RANGE "ridx0", unless `named` gave it another one.
  std::string memory_name(UOp memory) const;
  void named(UOp u, std::string name) { names_[u] = std::move(name); }

  // Appends the text of `u` to the expression being built: a name, or the ALU expression that is part of this line.
  void value(UOp u);
  void append(std::string_view text) { expr_ += text; }
  void append_int(int64_t v);
  // The text of `u` alone.
  std::string text_of(UOp u);

  void line(std::string_view text);  // a line of the current scope
  void indent() { depth_++; }
  void outdent() { depth_--; }
  Bounds& bounds() { return bounds_; }

 private:
  struct Task;
  std::vector<Task> alu(UOp u);
  std::string fresh(const char* prefix) { return prefix + std::to_string(++counter_); }
  void statement(const Line& l, const Linearized& program);

  UOpMap<std::string> names_;
  Bounds bounds_;
  std::string out_, expr_;
  int counter_ = 0, depth_ = 0;
};

}  // namespace uopc
