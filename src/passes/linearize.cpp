#include "passes/linearize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>

#include "passes/loop_nest.hpp"
#include "passes/verify.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Type, message);
}

// An item is a node (its place in the order) or a loop (order.size() + its number); it stands directly in one scope,
// the kernel or a loop. Nodes that print nothing are items too: they carry the order from what they depend on to what
// depends on them. Only constants, BUFFERs and RANGEs need no place.
class Linearizer {
 public:
  explicit Linearizer(UOp sink) : order_(toposort(sink)), nest_(loop_nest(order_)), n_(order_.size()) {}

  Linearized run() {
    check_closed();
    name_values();
    place();
    check_races();
    connect();
    sort();
    emit();
    return std::move(out_);
  }

 private:
  using Item = uint32_t;
  static constexpr uint32_t kKernel = LoopNest::kKernel;
  static constexpr uint32_t kNowhere = UINT32_MAX;

  uint32_t at(UOp u) const { return nest_.position.at(u); }
  uint32_t depth(uint32_t scope) const { return scope == kKernel ? 0 : nest_.depth[scope]; }
  Item loop_item(uint32_t r) const { return static_cast<Item>(n_) + r; }

  void check_closed() {
    const IndexSets::Id open = nest_.inside[n_ - 1];
    if (open == IndexSets::kEmpty) return;
    fail(fmt::format("no END closes {}", describe(nest_.ranges[nest_.sets.members(open).front()])));
  }

  // Uses are counted by edges: `x*x` uses x twice.
  void name_values() {
    std::vector<uint32_t> uses(n_), depth(n_);
    for (UOp u : order_)
      for (UOp s : u.src()) uses[at(s)]++;
    for (size_t i = 0; i < n_; i++) {
      const UOp u = order_[i];
      if (u.is(Op::Buffer)) out_.params.push_back(u);
      if (u.is(Op::Load)) out_.with_line.emplace(u, 0);
      if (!kAlu.has(u.op()) && !u.is(Op::Index)) continue;
      for (UOp s : u.src()) depth[i] = std::max(depth[i], depth[at(s)]);
      if (u.is(Op::Index)) continue;
      depth[i]++;
      if (uses[i] < 2 && depth[i] <= kMaxInlineDepth) continue;
      out_.with_line.emplace(u, 0);
      depth[i] = 0;
    }
    std::ranges::sort(out_.params, {}, [](UOp b) { return b.arg<ParamArg>().slot; });
  }

  uint32_t common(uint32_t a, uint32_t b) const {
    while (depth(a) > depth(b)) a = nest_.parent[a];
    while (depth(b) > depth(a)) b = nest_.parent[b];
    while (a != b) a = nest_.parent[a], b = nest_.parent[b];
    return a;
  }

  void place() {
    scope_.assign(n_, kKernel);
    memory_.assign(n_, kNowhere);
    std::vector<Cell> cells(n_);  // of an address
    loop_key_.assign(nest_.ranges.size(), 0);
    std::vector<char> used(n_);
    for (uint32_t i = 0; i < n_; i++) {
      const UOp u = order_[i];
      IndexSets::Id inside = nest_.inside[i];
      if (nest_.closed[i] != IndexSets::kEmpty) {
        inside = nest_.closed[i];  // closed loops are inner to those that stay open
        for (uint32_t r : nest_.sets.members(inside)) loop_key_[r] = i;
      }
      scope_[i] = nest_.innermost(inside);
      if (u.is(Op::Alloc)) memory_[i] = i;
      if (u.is(Op::Alloc) || u.is(Op::Buffer)) cells[i].memory = u;
      if (u.is(Op::Index) || u.is(Op::After)) {
        memory_[i] = memory_[at(u.src(0))];
        cells[i] = cells[at(u.src(0))];
        if (u.is(Op::Index)) cells[i].index = u.src(1);
      }
      if (!u.is(Op::Load) && !u.is(Op::Store)) continue;
      out_.cells.emplace(u, cells[at(u.src(0))]);
      const uint32_t alloc = memory_[at(u.src(0))];
      if (alloc == kNowhere) continue;
      memory_[i] = alloc;
      scope_[alloc] = used[alloc] ? common(scope_[alloc], scope_[i]) : scope_[i];
      used[alloc] = 1;
    }
    // Shared memory belongs to the whole kernel.
    for (uint32_t i = 0; i < n_; i++)
      if (order_[i].is(Op::Alloc) && order_[i].addrspace() == AddrSpace::Shared) scope_[i] = kKernel;
  }

  // A thread has the ALLOCs of its own loop body. One outside is common to all threads, and a cell of it that does not
  // depend on the THREAD loop is written by all of them.
  void check_races() const {
    for (uint32_t i = 0; i < n_; i++) {
      const UOp u = order_[i];
      if (!u.is(Op::Store) || memory_[i] == kNowhere) continue;
      const std::vector<uint32_t>& varies = nest_.sets.members(nest_.inside[at(out_.cell(u).index)]);
      for (uint32_t s = scope_[i]; s != scope_[memory_[i]] && s != kKernel; s = nest_.parent[s])
        if (nest_.ranges[s].arg<RangeArg>().kind == AxisType::Thread && !std::ranges::binary_search(varies, s))
          fail(
              fmt::format("all threads of {} store to one cell of {}, which is declared outside that loop: order its "
                          "first STORE after the RANGE, or index it by the RANGE",
                          describe(nest_.ranges[s]), describe(order_[memory_[i]])));
    }
  }

  // `from` before `to`, where they meet: `to` itself or the loop around it, in the innermost scope common to both.
  // Returns that scope.
  uint32_t before(Item from, uint32_t from_scope, Item to, uint32_t to_scope) {
    while (depth(from_scope) > depth(to_scope)) from = loop_item(from_scope), from_scope = nest_.parent[from_scope];
    while (depth(to_scope) > depth(from_scope)) to = loop_item(to_scope), to_scope = nest_.parent[to_scope];
    while (from_scope != to_scope) {
      from = loop_item(from_scope), from_scope = nest_.parent[from_scope];
      to = loop_item(to_scope), to_scope = nest_.parent[to_scope];
    }
    if (from == to) fail(fmt::format("{} depends on what its own loop computes", describe_item(to)));
    edges_.emplace_back(from, to);
    return from_scope;
  }

  static bool has_place(UOp u) { return !u.is_const() && !u.is(Op::Buffer) && !u.is(Op::Range); }

  void connect() {
    for (uint32_t i = 0; i < n_; i++) {
      const UOp u = order_[i];
      if (u.is(Op::Range)) {
        const uint32_t r = nest_.number.at(u);
        if (has_place(u.src(0))) before(at(u.src(0)), scope_[at(u.src(0))], loop_item(r), nest_.parent[r]);
        continue;
      }
      // An ALLOC stands before its LOADs and STOREs; the addresses between have scopes of their own.
      if ((u.is(Op::Load) || u.is(Op::Store)) && memory_[i] != kNowhere)
        before(memory_[i], scope_[memory_[i]], i, scope_[i]);
      for (UOp s : u.src()) {
        if (!has_place(s) || s.is(Op::Alloc)) continue;
        const uint32_t k = at(s);
        const uint32_t meet = before(k, scope_[k], i, scope_[i]);
        if (nest_.closed[k] == IndexSets::kEmpty) continue;
        const uint32_t outer = nest_.sets.members(nest_.closed[k]).front();
        if (depth(meet) >= depth(outer))
          fail(fmt::format("{} uses {} after the END that closed it", describe(u), describe(nest_.ranges[outer])));
      }
    }
  }

  // In each scope the first topological order by place in `order_`; a loop has the place of its last END.
  void sort() {
    const size_t items = n_ + nest_.ranges.size();
    std::vector<uint32_t> first(items + 1), waiting(items);
    for (auto [from, to] : edges_) first[from + 1]++, waiting[to]++;
    for (size_t k = 0; k < items; k++) first[k + 1] += first[k];
    std::vector<Item> after(edges_.size());
    std::vector<uint32_t> fill(first.begin(), first.end() - 1);
    for (auto [from, to] : edges_) after[fill[from]++] = to;

    using Entry = std::pair<uint32_t, Item>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    const auto key = [&](Item k) { return k < n_ ? k : loop_key_[k - n_]; };
    size_t left = 0;
    for (Item k = 0; k < items; k++) {
      if (k < n_ && !has_place(order_[k])) continue;
      left++;
      if (waiting[k] == 0) ready.emplace(key(k), k);
    }
    bodies_.assign(nest_.ranges.size() + 1, {});
    while (!ready.empty()) {
      const Item k = ready.top().second;
      ready.pop();
      left--;
      body(k < n_ ? scope_[k] : nest_.parent[k - n_]).push_back(k);
      for (uint32_t e = first[k]; e < first[k + 1]; e++)
        if (--waiting[after[e]] == 0) ready.emplace(key(after[e]), after[e]);
    }
    if (left == 0) return;
    std::string stuck;
    for (Item k = 0; k < items && stuck.empty(); k++)
      if (waiting[k] > 0 && (k >= n_ || order_[k].is(Op::Store) || order_[k].is(Op::Load))) stuck = describe_item(k);
    fail(fmt::format("the order of effects is circular: {} must come both before and after another effect", stuck));
  }

  std::vector<Item>& body(uint32_t scope) { return bodies_[scope == kKernel ? nest_.ranges.size() : scope]; }

  std::string describe_item(Item k) const { return describe(k < n_ ? order_[k] : nest_.ranges[k - n_]); }

  void emit() {
    struct Open {
      uint32_t scope;
      size_t next;
      std::vector<std::pair<bool, int64_t>> allocs;
    };
    std::map<std::pair<bool, int64_t>, UOp> declared;  // by space and slot: the names they have in C text
    std::vector<Open> open{{kKernel, 0, {}}};
    const auto declare = [&](UOp u) {
      const std::pair name{u.addrspace() == AddrSpace::Shared, u.arg<ParamArg>().slot};
      if (!declared.emplace(name, u).second)
        fail(fmt::format("{} is declared twice in one scope, with another size or dtype", describe(u)));
      open.back().allocs.push_back(name);
      out_.lines.push_back({Line::Kind::Alloc, u});
    };
    const auto is_shared = [](UOp u) { return u.is(Op::Alloc) && u.addrspace() == AddrSpace::Shared; };
    for (UOp u : order_)
      if (is_shared(u)) declare(u);
    while (!open.empty()) {
      const uint32_t scope = open.back().scope;
      if (open.back().next == body(scope).size()) {
        for (const auto& name : open.back().allocs) declared.erase(name);
        open.pop_back();
        if (scope != kKernel) out_.lines.push_back({Line::Kind::Close, nest_.ranges[scope]});
        continue;
      }
      const Item k = body(scope)[open.back().next++];
      if (k >= n_) {
        const uint32_t r = k - static_cast<Item>(n_);
        out_.lines.push_back({Line::Kind::Open, nest_.ranges[r]});
        open.push_back({r, 0, {}});
        continue;
      }
      const UOp u = order_[k];
      if (u.is(Op::Alloc) && !is_shared(u)) declare(u);
      if (u.is(Op::Load)) out_.lines.push_back({Line::Kind::Load, u});
      if (u.is(Op::Store)) out_.lines.push_back({Line::Kind::Store, u});
      if (u.is(Op::Barrier)) out_.lines.push_back({Line::Kind::Barrier, u});
      if (kAlu.has(u.op()) && out_.has_line(u)) out_.lines.push_back({Line::Kind::Alu, u});
    }
  }

  const std::vector<UOp> order_;
  LoopNest nest_;
  const size_t n_;
  std::vector<uint32_t> scope_;     // of each node: the loop it stands directly in (an END: the loop it ends)
  std::vector<uint32_t> memory_;    // of an address, LOAD or STORE: the ALLOC it reaches
  std::vector<uint32_t> loop_key_;  // of each loop: the place of its last END
  std::vector<std::pair<Item, Item>> edges_;
  std::vector<std::vector<Item>> bodies_;  // of each loop, then of the kernel
  Linearized out_;
};

}  // namespace

Linearized linearize(UOp sink) {
  verify_structure(sink, PipelineStage::Loops);
  return Linearizer(sink).run();
}

UOp memory_of(UOp address) {
  while (!address.is(Op::Buffer) && !address.is(Op::Alloc)) {
    if (address.src().empty()) throw Error(ErrorCode::Type, "not an address: " + describe(address));
    address = address.src(0);
  }
  return address;
}

}  // namespace uopc
