#include "passes/loop_nest.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "passes/linearize.hpp"
#include "passes/verify.hpp"

namespace uopc {

IndexSets::Id IndexSets::intern(std::vector<uint32_t> members) {
  if (members.size() > kMaxLoopDepth)
    throw Error(ErrorCode::NotImplemented, fmt::format("loops nested more than {} deep", kMaxLoopDepth));
  const auto [it, made] = ids_.try_emplace(std::move(members), static_cast<Id>(members_.size()));
  if (made) members_.push_back(it->first);
  return it->second;
}

IndexSets::Id IndexSets::unite(Id a, Id b) {
  if (a == b || b == kEmpty) return a;
  if (a == kEmpty) return b;
  const std::pair key{std::min(a, b), std::max(a, b)};
  if (const auto it = unions_.find(key); it != unions_.end()) return it->second;
  std::vector<uint32_t> out;
  std::ranges::set_union(members_[a], members_[b], std::back_inserter(out));
  return unions_[key] = intern(std::move(out));
}

IndexSets::Id IndexSets::minus(Id a, Id b) {
  if (a == kEmpty || b == kEmpty) return a;
  const std::pair key{a, b};
  if (const auto it = differences_.find(key); it != differences_.end()) return it->second;
  std::vector<uint32_t> out;
  std::ranges::set_difference(members_[a], members_[b], std::back_inserter(out));
  return differences_[key] = intern(std::move(out));
}

namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Type, message);
}

// What an END wraps is repeated by its loops even where it does not use their counters: for each node, the ranges that
// an END above it puts it into. Effects only: a value is the same in every round.
std::vector<IndexSets::Id> forced_ranges(LoopNest& nest, std::span<const UOp> order) {
  std::vector<IndexSets::Id> forced(order.size(), IndexSets::kEmpty);
  for (size_t i = order.size(); i-- > 0;) {
    const UOp u = order[i];
    const auto pass = [&](UOp to, IndexSets::Id set) {
      constexpr OpSet kEffects{Op::Store, Op::Barrier, Op::End, Op::Sink, Op::After};
      if (!kEffects.has(to.op())) return;
      auto& slot = forced[nest.position.at(to)];
      slot = nest.sets.unite(slot, set);
    };
    if (u.is(Op::End) && !u.src().empty()) pass(u.src(0), nest.sets.unite(forced[i], nest.closed[i]));
    if (u.is(Op::Sink))
      for (UOp s : u.src()) pass(s, forced[i]);
    if (u.is(Op::After))
      for (UOp s : u.src().subspan(1)) pass(s, forced[i]);
  }
  return forced;
}

// Ranges that some node has in common nest in increasing order; the parent of a loop is the innermost of the loops it
// must stand in, directly or through a loop inside it. This is the elimination tree of the graph whose cliques are the
// sets (the highest number goes first), so joining neighbours within each set is enough.
void nest_loops(LoopNest& nest) {
  const uint32_t n = static_cast<uint32_t>(nest.ranges.size());
  std::vector<std::vector<uint32_t>> higher(n);
  for (IndexSets::Id id = 0; id < nest.sets.size(); id++) {
    const auto& members = nest.sets.members(id);
    for (size_t k = 1; k < members.size(); k++) higher[members[k - 1]].push_back(members[k]);
  }
  nest.parent.assign(n, LoopNest::kKernel);
  std::vector<uint32_t> top(n);  // union-find towards the outermost loop known so far
  for (uint32_t r = n; r-- > 0;) {
    top[r] = r;
    for (uint32_t k : higher[r]) {
      while (top[k] != k) k = top[k] = top[top[k]];
      if (k == r) continue;
      nest.parent[k] = r;
      top[k] = r;
    }
  }
  nest.depth.assign(n, 1);
  for (uint32_t r = 0; r < n; r++) {
    const uint32_t p = nest.parent[r];
    if (p == LoopNest::kKernel) continue;
    nest.depth[r] = nest.depth[p] + 1;
    if (nest.depth[r] > kMaxLoopDepth)
      throw Error(ErrorCode::NotImplemented, fmt::format("loops nested more than {} deep", kMaxLoopDepth));
    if (nest.ranges[p].arg<RangeArg>().idx == nest.ranges[r].arg<RangeArg>().idx)
      fail(fmt::format("two loops of one idx stand inside each other: {}", describe(nest.ranges[r])));
  }
}

}  // namespace

LoopNest loop_nest(std::span<const UOp> order) {
  LoopNest nest;
  nest.position = NodeMap<uint32_t>(order.size());
  for (uint32_t i = 0; i < order.size(); i++) {
    nest.position.insert(order[i], i);
    if (order[i].is(Op::Range)) nest.ranges.push_back(order[i]);
  }
  std::ranges::stable_sort(nest.ranges, {}, [](UOp r) { return r.arg<RangeArg>(); });
  for (uint32_t r = 0; r < nest.ranges.size(); r++) nest.number.insert(nest.ranges[r], r);

  nest.closed.assign(order.size(), IndexSets::kEmpty);
  for (size_t i = 0; i < order.size(); i++) {
    if (!order[i].is(Op::End)) continue;
    for (UOp s : order[i].src().subspan(std::min<size_t>(1, order[i].src().size())))
      if (s.is(Op::Range)) nest.closed[i] = nest.sets.unite(nest.closed[i], nest.sets.single(nest.number.at(s)));
  }
  nest.inside = forced_ranges(nest, order);
  for (size_t i = 0; i < order.size(); i++) {
    const UOp u = order[i];
    IndexSets::Id set = nest.inside[i];
    if (u.is(Op::Range)) set = nest.sets.unite(set, nest.sets.single(nest.number.at(u)));
    for (UOp s : u.src()) set = nest.sets.unite(set, nest.inside[nest.position.at(s)]);
    const IndexSets::Id closed = nest.closed[i];
    nest.inside[i] = nest.sets.minus(set, closed);
    if (closed == IndexSets::kEmpty || nest.inside[i] == IndexSets::kEmpty) continue;
    const uint32_t outer = nest.sets.members(closed).front(), open = nest.sets.members(nest.inside[i]).back();
    if (open > outer)
      fail(fmt::format("END closes {} while {} inside it is still open", describe(nest.ranges[outer]),
                       describe(nest.ranges[open])));
  }
  nest_loops(nest);
  return nest;
}

std::vector<std::vector<UOp>> scopes(std::span<const UOp> order) {
  const LoopNest nest = loop_nest(order);
  std::vector<std::vector<UOp>> out(order.size());
  for (size_t i = 0; i < order.size(); i++)
    for (uint32_t r : nest.sets.members(nest.inside[i])) out[i].push_back(nest.ranges[r]);
  return out;
}

std::vector<UOp> loop_targets(std::span<const UOp> order) {
  const LoopNest nest = loop_nest(order);
  std::vector<UOp> out(order.size());
  for (uint32_t r = 0; r < nest.ranges.size(); r++)
    if (nest.parent[r] != LoopNest::kKernel) out[nest.position.at(nest.ranges[r])] = nest.ranges[nest.parent[r]];
  return out;
}

}  // namespace uopc
