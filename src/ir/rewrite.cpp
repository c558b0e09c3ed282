#include "ir/rewrite.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace uopc {

std::string to_string(const Rule& rule) {
  std::string text = fmt::format("{}: {}", rule.name, to_string(rule.before));
  if (!rule.after.empty()) text += " -> " + to_string(rule.after);
  if (!rule.when.empty()) text += " when " + to_string(rule.when);
  return text;
}

// ---- PatternMatcher ------------------------------------------------------------------------------------------------

PatternMatcher::PatternMatcher(std::vector<RuleGroup> groups) {
  for (RuleGroup& group : groups)
    for (Rule& rule : group.rules) {
      rule.group = group.name;
      add(std::move(rule));
    }
}

void PatternMatcher::add(Rule rule) {
  const int number = static_cast<int>(rules_.size());
  for (const UPat& before : variants(rule.before)) {
    uint64_t needs = 0;
    for (const UPat& s : before->src) {
      if (s->kind == PatNode::Kind::Op) needs |= uint64_t{1} << static_cast<int>(s->op);
      if (s->kind == PatNode::Kind::Integer || s->kind == PatNode::Kind::Constant || s->kind == PatNode::Kind::Literal)
        needs |= uint64_t{1} << static_cast<int>(Op::Const);
    }
    for (int op = 0; op < kOpCount; op++) {
      const bool here = before->kind == PatNode::Kind::Op    ? before->op == static_cast<Op>(op)
                        : before->kind == PatNode::Kind::Any ? before->ops.has(static_cast<Op>(op))
                                                             : before->kind == PatNode::Kind::Var;
      if (here) by_op_[op].push_back({before, needs, number});
    }
  }
  rules_.push_back(std::move(rule));
}

PatternMatcher operator+(const PatternMatcher& a, const PatternMatcher& b) {
  PatternMatcher sum = a;
  for (const Rule& rule : b.rules_) sum.add(rule);
  return sum;
}

std::pair<UOp, int> PatternMatcher::rewrite(UOp u, Bounds& bounds) const {
  const std::vector<Entry>& entries = by_op_[static_cast<int>(u.op())];
  if (entries.empty()) return {UOp(), -1};
  uint64_t present = 0;
  for (UOp s : u.src()) present |= uint64_t{1} << static_cast<int>(s.op());
  Bindings vars;
  for (const Entry& entry : entries) {
    if (entry.needs & ~present) continue;
    vars.clear();
    if (!match(entry.before, u, vars)) continue;
    const Rule& rule = rules_[entry.rule];
    const bool applies = rule.when.empty() || holds(rule.when, vars, u.graph(), bounds);
    if (!applies) continue;
    const UOp result = rule.function ? rule.function({u, vars, bounds}) : build(rule.after, vars, u.graph());
    if (!result) continue;
    if (result.dtype() != u.dtype() || result.shape() != u.shape() || result == u)
      throw Error(
          ErrorCode::Internal,
          fmt::format("rewrite rule '{}' {} (Ops.{})", rule.name,
                      result == u ? "gives the node that it was given" : "changes the type of a node", name(u.op())));
    return {result, entry.rule};
  }
  return {UOp(), -1};
}

// ---- Rewriter ------------------------------------------------------------------------------------------------------

// Pushes a frame for `u`; false when its result is known.
bool Rewriter::enter(UOp u) {
  const auto [entry, fresh] = done_.insert(u, UOp());
  if (fresh) {
    stack_.push_back({u, u, UOp(), u.is(Op::Call) ? 1u : 0u, -1});
    return true;
  }
  if (*entry) return false;
  // `u` waits for a result that contains `u`.
  size_t from = 0;
  while (from < stack_.size() && stack_[from].original != u && stack_[from].node != u) from++;
  endless(from);
}

void Rewriter::finish(UOp result) {
  const Frame frame = stack_.back();
  stack_.pop_back();
  done_[frame.original] = result;
  if (frame.node != frame.original) done_[frame.node] = result;
}

UOp Rewriter::with_rewritten_sources(UOp u) {
  const size_t first = u.is(Op::Call) ? 1 : 0;
  size_t i = first;
  while (i < u.src().size() && done_.at(u.src(i)) == u.src(i)) i++;
  if (i == u.src().size()) return u;
  src_.assign(u.src().begin(), u.src().end());
  for (; i < src_.size(); i++) src_[i] = done_.at(src_[i]);
  return u.graph().make(u.op(), src_, u.arg());
}

// The sources of the top frame are rewritten: rewrite its node, or wait for what a rule made of it.
void Rewriter::apply_rules() {
  {
    Frame& frame = stack_.back();
    frame.node = with_rewritten_sources(frame.original);
    if (frame.node != frame.original) {
      const auto [entry, fresh] = done_.insert(frame.node, UOp());
      if (!fresh) {
        if (*entry) return finish(*entry);
        size_t from = 0;
        while (stack_[from].node != frame.node && stack_[from].original != frame.node) from++;
        endless(from);
      }
    }
  }
  const auto [result, rule] = rules_.rewrite(stack_.back().node, bounds_);
  if (!result) return finish(stack_.back().node);
  if (options_.fired) {
    if (options_.fired->size() < rules_.rules().size()) options_.fired->resize(rules_.rules().size());
    (*options_.fired)[rule]++;
  }
  stack_.back().rule = rule;
  stack_.back().awaited = result;
  if (++steps_ > options_.free_steps + options_.max_steps_per_node * nodes_) endless(0);
  if (!enter(result)) finish(done_.at(result));
}

UOp Rewriter::operator()(UOp root) {
  const uint32_t old = static_cast<uint32_t>(root.graph().size());  // nodes from here on are made by rules
  if (!stack_.empty()) {                                            // the last call threw
    stack_.clear();
    done_ = NodeMap<UOp>();
  }
  enter(root);
  while (!stack_.empty()) {
    Frame& frame = stack_.back();
    if (frame.awaited) {
      finish(done_.at(frame.awaited));
    } else if (frame.next < frame.original.src().size()) {
      enter(frame.original.src(frame.next++));
    } else {
      nodes_ += frame.original.id() < old;
      apply_rules();
    }
  }
  return done_.at(root);
}

void Rewriter::endless(size_t from) const {
  std::vector<std::string> names;
  for (size_t i = stack_.size(); i-- > from && names.size() < 6;) {
    if (!stack_[i].awaited) continue;
    std::string name = rules_.rules()[stack_[i].rule].name;
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  std::ranges::reverse(names);
  throw Error(ErrorCode::Internal, fmt::format("rewriting does not end after {} steps: the rules '{}' undo each other",
                                               steps_, fmt::join(names, "', '")));
}

UOp graph_rewrite(UOp root, const PatternMatcher& rules, RewriteOptions options) {
  return Rewriter(rules, options)(root);
}

}  // namespace uopc
