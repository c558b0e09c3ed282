#include "codegen/llvm/regions.hpp"

#include <algorithm>
#include <unordered_set>

#include "ir/walk.hpp"

namespace uopc::codegen {
namespace {

bool is_thread(UOp range) {
  return range.arg<RangeArg>().kind == AxisType::Thread;
}

class Finder {
 public:
  Finder(const Linearized& program, size_t limit) : program_(program), limit_(limit) {}

  Regions run() {
    cut();
    nest();
    find_homes();
    connect();
    for (auto& r : out_.list) std::ranges::sort(r.buffers, {}, [](UOp b) { return b.arg<ParamArg>().slot; });
    return std::move(out_);
  }

 private:
  struct Item {
    size_t begin, end, weight;
  };

  // Calls visit(leaf) for each named value, RANGE, ALLOC and BUFFER that the line's own expression reads. Returns the
  // number of nodes.
  template <class Visit>
  size_t leaves(const Line& line, Visit&& visit) {
    if (line.kind == Line::Kind::Alloc || line.kind == Line::Kind::Close) return 0;
    size_t nodes = 1;
    if (line.kind == Line::Kind::Load || line.kind == Line::Kind::Store) {
      const Cell& cell = program_.cell(line.node);
      stack_.assign({cell.memory, cell.index});
      if (line.kind == Line::Kind::Store) stack_.push_back(line.node.src(1));
    } else {
      const auto src = line.node.src();
      stack_.assign(src.rbegin(), src.rend());
    }
    while (!stack_.empty()) {
      const UOp u = stack_.back();
      stack_.pop_back();
      if (u.is_const()) continue;
      if (u.is(Op::Buffer) || u.is(Op::Alloc) || u.is(Op::Range) || program_.has_line(u)) {
        visit(u);
      } else {
        nodes++;
        stack_.insert(stack_.end(), u.src().rbegin(), u.src().rend());
      }
    }
    return nodes;
  }

  void add_region(Region::Kind kind, size_t begin, size_t end) {
    Region r{};
    r.kind = kind;
    r.begin = begin;
    r.end = end;
    out_.list.push_back(std::move(r));
  }

  // The weight that is left of a scope once it is cut into functions.
  size_t finish(const std::vector<Item>& items) {
    size_t total = 0;
    for (const auto& i : items) total += i.weight;
    if (total <= limit_) return total;
    size_t left = 0;
    for (size_t a = 0, b; a < items.size(); a = b) {
      size_t weight = items[a].weight;
      for (b = a + 1; b < items.size() && weight + items[b].weight <= limit_; b++) weight += items[b].weight;
      if (weight <= 2) {
        left += weight;
        continue;
      }
      add_region(Region::Kind::Chunk, items[a].begin, items[b - 1].end);
      left += 2;
    }
    return left;
  }

  void cut() {
    struct Scope {
      size_t open;
      std::vector<Item> items;
    };
    std::vector<Scope> scopes(1);
    size_t thread_depth = 0;
    for (size_t i = 0; i < program_.lines.size(); i++) {
      const Line& line = program_.lines[i];
      const size_t nodes = leaves(line, [](UOp) {});
      out_.nodes += nodes;
      if (line.kind == Line::Kind::Open) {
        if (!thread_depth && is_thread(line.node)) thread_depth = scopes.size();
        scopes.push_back({i, {}});
      } else if (line.kind == Line::Kind::Close) {
        const Scope scope = std::move(scopes.back());
        scopes.pop_back();
        size_t weight = finish(scope.items) + 2;
        if (thread_depth == scopes.size()) {
          add_region(Region::Kind::Thread, scope.open, i + 1);
          thread_depth = 0;
          weight = 2;
        }
        scopes.back().items.push_back({scope.open, i + 1, weight});
      } else {
        scopes.back().items.push_back({i, i + 1, nodes});
      }
    }
    finish(scopes[0].items);
    add_region(Region::Kind::Kernel, 0, program_.lines.size());
  }

  // Parents first; of two regions over the same lines the later one is the outer.
  void nest() {
    std::ranges::reverse(out_.list);
    std::ranges::stable_sort(out_.list, [](const Region& a, const Region& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    const auto kernel = std::ranges::find(out_.list, Region::Kind::Kernel, &Region::kind);
    std::rotate(out_.list.begin(), kernel, kernel + 1);
    std::vector<int> open;
    region_of_.resize(program_.lines.size());
    size_t next = 0;
    for (size_t i = 0; i <= program_.lines.size(); i++) {
      while (!open.empty() && out_.list[open.back()].end <= i && out_.list[open.back()].kind != Region::Kind::Kernel)
        open.pop_back();
      while (next < out_.list.size() && out_.list[next].begin == i) {
        Region& r = out_.list[next];
        r.parent = open.empty() ? -1 : open.back();
        if (r.parent >= 0) out_.list[r.parent].children.push_back(static_cast<int>(next));
        open.push_back(static_cast<int>(next++));
      }
      if (i < program_.lines.size()) region_of_[i] = open.back();
    }
    depth_.resize(out_.list.size());
    for (size_t r = 1; r < out_.list.size(); r++) depth_[r] = depth_[out_.list[r].parent] + 1;
  }

  // The end of a THREAD loop is computed outside its function.
  int region_of(size_t line) const {
    const int r = region_of_[line];
    const Region& region = out_.list[r];
    return region.kind == Region::Kind::Thread && region.begin == line ? region.parent : r;
  }

  int common(int a, int b) const {
    while (a != b) (depth_[a] >= depth_[b] ? a : b) = out_.list[depth_[a] >= depth_[b] ? a : b].parent;
    return a;
  }

  void find_homes() {
    for (size_t i = 0; i < program_.lines.size(); i++) {
      const Line& line = program_.lines[i];
      if (line.kind == Line::Kind::Load || line.kind == Line::Kind::Alu || line.kind == Line::Kind::Open)
        home_.insert(line.node, region_of_[i]);
      leaves(line, [&](UOp u) {
        if (!u.is(Op::Alloc)) return;
        const int r = u.addrspace() == AddrSpace::Shared ? 0 : region_of(i);
        auto [home, fresh] = home_.insert(u, r);
        if (!fresh) *home = common(*home, r);
      });
    }
    for (const auto& line : program_.lines)
      if (line.kind == Line::Kind::Alloc)
        if (const int* home = home_.find(line.node)) out_.list[*home].allocs.push_back(line.node);
  }

  void add(std::vector<UOp> Region::*list, int region, UOp u) {
    const auto which = list == &Region::inputs ? 0u : list == &Region::outputs ? 1u : list == &Region::slots ? 2u : 3u;
    const uint64_t key = (uint64_t{static_cast<uint32_t>(region)} * 4 + which) << 32 | u.id();
    if (seen_.insert(key).second) (out_.list[region].*list).push_back(u);
  }

  void connect() {
    for (size_t i = 0; i < program_.lines.size(); i++)
      leaves(program_.lines[i], [&](UOp u) {
        const int user = region_of(i);
        if (u.is(Op::Buffer)) {
          for (int r = user; r >= 0; r = out_.list[r].parent) add(&Region::buffers, r, u);
          return;
        }
        const int home = home_.at(u), meet = common(user, home);
        for (int r = user; r != meet; r = out_.list[r].parent) {
          add(&Region::inputs, r, u);
          add(&Region::slots, out_.list[r].parent, u);
        }
        for (int r = home; r != meet; r = out_.list[r].parent) {
          add(&Region::outputs, r, u);
          add(&Region::slots, out_.list[r].parent, u);
        }
      });
  }

  const Linearized& program_;
  const size_t limit_;
  Regions out_{};
  std::vector<UOp> stack_;
  std::vector<int> region_of_, depth_;
  NodeMap<int> home_;  // the region that makes a value
  std::unordered_set<uint64_t> seen_;
};

}  // namespace

Regions find_regions(const Linearized& program, size_t limit) {
  return Finder(program, limit).run();
}

}  // namespace uopc::codegen
