// Rewriting a graph by rules until none applies.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/pattern.hpp"

namespace uopc {

// A rule's left side found at `root`.
struct Match {
  UOp root;
  const Bindings& vars;
  Bounds& bounds;
  UOp operator[](char letter) const { return vars[letter]; }
  Graph& graph() const { return root.graph(); }
};

// Builds the result where it is not an expression; a null UOp: the rule does not apply.
using AfterFunction = UOp (*)(const Match&);

struct Rule {
  std::string name;
  UPat before;
  UPat after;                        // or
  AfterFunction function = nullptr;  // in its place
  UPat when;                         // null: always
  std::string group;

  Rule(std::string name, UPat before, UPat after, UPat when = {})
      : name(std::move(name)), before(std::move(before)), after(std::move(after)), when(std::move(when)) {}
  // A literal 0 would otherwise be a null function.
  Rule(std::string name, UPat before, int after, UPat when = {})
      : Rule(std::move(name), std::move(before), UPat(after), std::move(when)) {}
  Rule(std::string name, UPat before, AfterFunction function, UPat when = {})
      : name(std::move(name)), before(std::move(before)), function(function), when(std::move(when)) {}
};

// "name: before -> after when condition"
std::string to_string(const Rule& rule);

struct RuleGroup {
  std::string name;
  std::vector<Rule> rules;
};

// An ordered list of rules, bucketed by root op: the first that matches and whose condition holds is applied.
class PatternMatcher {
 public:
  PatternMatcher() = default;
  explicit PatternMatcher(std::vector<RuleGroup> groups);

  std::span<const Rule> rules() const { return rules_; }

  // The rewritten node and the number of the rule; null and -1 when none applies.
  std::pair<UOp, int> rewrite(UOp u, Bounds& bounds) const;

  friend PatternMatcher operator+(const PatternMatcher& a, const PatternMatcher& b);

 private:
  struct Entry {  // one order of one rule's left side
    UPat before;
    uint64_t needs;  // ops that must be among the sources', one bit each
    int rule;
  };
  void add(Rule rule);

  std::vector<Rule> rules_;
  std::vector<Entry> by_op_[kOpCount];
};

struct RewriteOptions {
  // Applications of rules per node of the input, on top of a fixed allowance, after which the rules are taken to be
  // endless.
  int64_t max_steps_per_node = 1000;
  int64_t free_steps = 100'000;
  std::vector<int64_t>* fired = nullptr;  // counts applications by rule; grown as needed
};

// Bottom-up: sources first, then the node's rules in order; what a rule gives is rewritten the same way. Remembers what
// it has seen, so several roots of one Graph may be given one after the other. Throws Error(Internal) that names the
// rules when they undo each other. Bodies of CALLs are scopes of their own and stay as they are.
class Rewriter {
 public:
  explicit Rewriter(const PatternMatcher& rules, RewriteOptions options = {}) : rules_(rules), options_(options) {}
  UOp operator()(UOp root);
  Bounds& bounds() { return bounds_; }

 private:
  struct Frame {
    UOp original, node;  // `node`: with rewritten sources
    UOp awaited;         // what a rule made of `node`; null: no rule was applied yet
    uint32_t next;       // source to look at next
    int rule;
  };
  bool enter(UOp u);
  void finish(UOp result);
  UOp with_rewritten_sources(UOp u);
  void apply_rules();
  [[noreturn]] void endless(size_t from) const;

  const PatternMatcher& rules_;
  RewriteOptions options_;
  Bounds bounds_;
  NodeMap<UOp> done_;  // null: in progress
  std::vector<Frame> stack_;
  std::vector<UOp> src_;
  int64_t steps_ = 0, nodes_ = 0;
};

UOp graph_rewrite(UOp root, const PatternMatcher& rules, RewriteOptions options = {});

}  // namespace uopc
