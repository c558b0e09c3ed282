#include "passes/merge_ends.hpp"

#include <map>
#include <vector>

#include "ir/walk.hpp"
#include "passes/verify.hpp"

namespace uopc {
namespace {

// A walk in post-order in which the ENDs of a group are one node: its sources are those of all of them.
class Merger {
 public:
  UOp run(UOp sink) {
    find_groups(sink);
    std::vector<Frame> stack{frame(sink)};
    while (!stack.empty()) {
      Frame& f = stack.back();
      if (f.next == f.sources.size()) {
        build(f);
        stack.pop_back();
        continue;
      }
      const UOp s = f.sources[f.next++];
      if (!images_.contains(s)) stack.push_back(frame(s));
    }
    return images_.at(sink);
  }

 private:
  struct Group {
    std::vector<UOp> ends;
    std::vector<UOp> sources;
    bool open = false;
  };
  struct Frame {
    UOp u;
    Group* group;
    std::span<const UOp> sources;
    size_t next = 0;
  };

  void find_groups(UOp sink) {
    std::map<std::vector<uint32_t>, size_t> by_ranges;
    post_order(sink, [&](UOp u) {
      if (!u.is(Op::End)) return;
      std::vector<uint32_t> ids;
      for (UOp r : u.src().subspan(1)) ids.push_back(r.id());
      const auto [it, made] = by_ranges.try_emplace(std::move(ids), groups_.size());
      if (made) groups_.emplace_back();
      Group& g = groups_[it->second];
      g.ends.push_back(u);
      g.sources.insert(g.sources.end(), u.src().begin(), u.src().end());
      number_.insert(u, it->second);
    });
  }

  Frame frame(UOp u) {
    const size_t* number = number_.find(u);
    Group* group = number ? &groups_[*number] : nullptr;
    if (!group || group->ends.size() < 2) return {u, nullptr, u.src()};
    if (group->open) throw Error(ErrorCode::Type, describe(u) + " depends on another END of the same loops");
    group->open = true;
    return {u, group, group->sources};
  }

  void build(const Frame& f) {
    std::vector<UOp> src;
    if (!f.group) {
      for (UOp s : f.u.src()) src.push_back(images_.at(s));
      images_.insert(f.u, with_sources(f.u, src));
      return;
    }
    for (UOp e : f.group->ends) src.push_back(images_.at(e.src(0)));
    std::vector<UOp> ranges;
    for (UOp r : f.u.src().subspan(1)) ranges.push_back(images_.at(r));
    const UOp merged = f.u.graph().sink(src).end(ranges);
    for (UOp e : f.group->ends) images_.insert(e, merged);
  }

  std::vector<Group> groups_;
  NodeMap<size_t> number_;  // of an END: its group
  NodeMap<UOp> images_;
};

}  // namespace

UOp merge_ends(UOp sink) {
  return Merger().run(sink);
}

}  // namespace uopc
