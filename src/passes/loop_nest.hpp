// Which loops each node of a loop program sits in, and how the loops nest.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ir/walk.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// Sets of small numbers, interned: a program of many statements has few distinct ones. Set 0 is the empty one.
class IndexSets {
 public:
  using Id = uint32_t;
  static constexpr Id kEmpty = 0;

  IndexSets() : members_(1) { ids_[{}] = kEmpty; }
  Id single(uint32_t i) { return intern({i}); }
  Id unite(Id a, Id b);
  Id minus(Id a, Id b);
  const std::vector<uint32_t>& members(Id id) const { return members_[id]; }  // ascending
  size_t size() const { return members_.size(); }

 private:
  Id intern(std::vector<uint32_t> members);

  std::vector<std::vector<uint32_t>> members_;
  std::map<std::vector<uint32_t>, Id> ids_;
  std::map<std::pair<Id, Id>, Id> unions_, differences_;
};

// Loops nested deeper than this are refused.
inline constexpr size_t kMaxLoopDepth = 250;

struct LoopNest {
  static constexpr uint32_t kKernel = UINT32_MAX;  // the parent of an outermost loop

  std::vector<UOp> ranges;           // by idx, then by place in the order; the numbers below are indices into this
  std::vector<uint32_t> parent;      // the loop that each loop stands directly in
  std::vector<uint32_t> depth;       // 1 for an outermost loop
  IndexSets sets;
  std::vector<IndexSets::Id> inside;  // of each node of the order: the ranges it sits in; of an END: after it closed its own
  std::vector<IndexSets::Id> closed;  // of an END: the ranges it closes; of other nodes the empty set
  NodeMap<uint32_t> position;         // of a node in the order
  NodeMap<uint32_t> number;           // of a RANGE in `ranges`

  // The loop a node with these ranges stands directly in.
  uint32_t innermost(IndexSets::Id set) const { return set == IndexSets::kEmpty ? kKernel : sets.members(set).back(); }
};

// `order` is a toposort. Throws Error(Type) for an END that is not innermost and for loops of one idx inside each other.
LoopNest loop_nest(std::span<const UOp> order);

}  // namespace uopc
