#include "codegen/llvm/lanes.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "passes/linear_form.hpp"

namespace uopc::codegen {
const Lanes::Loop* Lanes::opened_at(size_t open) const {
  const auto at = std::ranges::lower_bound(loops_, open, {}, &Loop::open);
  return at != loops_.end() && at->open == open ? &*at : nullptr;
}

class LaneFinder {
 public:
  LaneFinder(const Linearized& program, const Regions& regions, Bounds& bounds, bool check_bounds)
      : program_(program), regions_(regions), bounds_(bounds), check_bounds_(check_bounds) {}

  Lanes run() {
    std::vector<size_t> open;
    for (size_t i = 0; i < program_.lines.size(); i++) {
      const auto& [kind, u] = program_.lines[i];
      if (kind == Line::Kind::Open) open.push_back(i);
      if (kind == Line::Kind::Load || kind == Line::Kind::Store) note_alloc(i, u, open.size());
      if (kind != Line::Kind::Close) continue;
      const UOp range = program_.lines[open.back()].node;
      if (range.arg<RangeArg>().kind == AxisType::Upcast)
        candidates_.push_back({open.back(), i, range, 0, open.size()});
      open.pop_back();
    }
    std::ranges::sort(candidates_, {}, &Candidate::open);
    for (Candidate& c : candidates_)
      if (lanes_.loops_.empty() || c.open > lanes_.loops_.back().close) take(c);
    return std::move(lanes_);
  }

 private:
  struct Candidate {
    size_t open, close;
    UOp range;
    int64_t width;
    size_t depth;  // loops around its body, itself included
  };
  struct AllocUse {
    size_t first, last;  // lines
    bool begins_with_store;
    size_t depth;  // of the first
  };
  struct Access {
    UOp index;
    bool store;
    int64_t stride;
  };

  void note_alloc(size_t line, UOp u, size_t depth) {
    const UOp memory = program_.cell(u).memory;
    if (!memory.is(Op::Alloc)) return;
    const bool store = program_.lines[line].kind == Line::Kind::Store;
    const auto [use, fresh] = allocs_.insert(memory, {line, line, store, depth});
    if (!fresh) use->last = line;
  }

  void take(Candidate& c) {
    const UOp size = c.range.src(0);
    if (!size.is_const()) return;
    c.width = size.value().as_int();
    if (c.width < 2 || c.width > Lanes::kMaxWidth) return;
    for (const Region& r : regions_.list)
      if (r.begin > c.open && r.begin < c.close) return;
    strides_ = NodeMap<int64_t>();
    own_ = NodeMap<char>();
    found_.clear();
    private_.clear();
    std::map<uint32_t, std::vector<Access>> accesses;  // by memory
    set(c.range, 1);
    for (size_t i = c.open + 1; i < c.close; i++) {
      const auto& [kind, u] = program_.lines[i];
      switch (kind) {
        case Line::Kind::Open:
          if (stride(u.src(0)) != 0 || u.arg<RangeArg>().kind == AxisType::Thread) return;
          break;
        case Line::Kind::Alu:
          own_.insert(u, 1);
          stride_of_parts(u);
          break;
        case Line::Kind::Load:
        case Line::Kind::Store: {
          const auto& [memory, index] = program_.cell(u);
          const int64_t s = stride(index);
          if (s != 0 && check_bounds_) {
            const Interval known = bounds_.of(index);
            if (!known.empty() && (known.lo < 0 || known.hi >= memory.arg<ParamArg>().shape[0])) return;
          }
          const bool each = is_private(c, memory);
          if (kind == Line::Kind::Load) {
            own_.insert(u, 1);
            if (each || s != 0) set(u, Lanes::kIrregular);
          } else {
            stride(u.src(1));
          }
          if (!each) accesses[memory.id()].push_back({index, kind == Line::Kind::Store, s});
          break;
        }
        case Line::Kind::Barrier:
          return;
        default:
          break;
      }
    }
    for (const auto& [memory, list] : accesses)
      if (!independent(list, c.width)) return;
    const auto width = static_cast<int64_t>(std::bit_ceil(uint64_t(c.width)));
    lanes_.loops_.push_back({c.open, c.close, c.range, c.width, width});
    for (UOp u : found_) lanes_.strides_.insert(u, strides_.at(u));
    for (UOp u : private_) lanes_.copies_.insert(u, width);
  }

  // Scratch of one cell that every iteration writes before it reads it, and nobody else uses.
  bool is_private(const Candidate& c, UOp memory) {
    if (!memory.is(Op::Alloc) || memory.arg<ParamArg>().shape[0] != 1) return false;
    const AllocUse& use = allocs_.at(memory);
    if (use.first < c.open || use.last > c.close || !use.begins_with_store || use.depth != c.depth) return false;
    if (std::ranges::find(private_, memory) == private_.end()) private_.push_back(memory);
    return true;
  }

  // Whether no lane reaches what another one writes.
  static bool independent(const std::vector<Access>& list, int64_t width) {
    if (std::ranges::none_of(list, &Access::store)) return true;
    std::vector<std::pair<UOp, LinearForm>> forms;
    const int64_t stride = list.front().stride;
    for (const Access& a : list) {
      if (a.stride == Lanes::kIrregular || a.stride == 0 || a.stride != stride) return false;
      if (std::ranges::any_of(forms, [&](const auto& f) { return f.first == a.index; })) continue;
      auto form = linear_form(a.index);
      if (!form) return false;
      forms.emplace_back(a.index, *std::move(form));
    }
    for (size_t i = 0; i < forms.size(); i++)
      for (size_t k = 0; k < i; k++) {
        if (!forms[i].second.same_terms(forms[k].second)) return false;
        const int64_t distance = forms[i].second.constant - forms[k].second.constant;
        if (distance != 0 && distance % stride == 0 && std::abs(distance / stride) < width) return false;
      }
    return true;
  }

  void set(UOp u, int64_t stride) {
    if (strides_.insert(u, stride).second) found_.push_back(u);
  }

  int64_t stride(UOp u) {
    if (const int64_t* s = strides_.find(u)) return *s;
    if (u.is_const() || u.is(Op::Range) || !kAlu.has(u.op())) return 0;
    // A value with a name that did not come up in this loop was made outside.
    if (program_.has_line(u) || own_.contains(u)) return 0;
    return stride_of_parts(u);
  }

  int64_t stride_of_parts(UOp u) {
    bool varies = false;
    for (UOp s : u.src()) varies |= stride(s) != 0;
    own_.insert(u, 1);
    if (!varies) return 0;
    const int64_t s = linear_stride(u).value_or(Lanes::kIrregular);
    set(u, s == 0 ? Lanes::kIrregular : s);
    return strides_.at(u);
  }

  // Of an exact sum or product with a constant.
  std::optional<int64_t> linear_stride(UOp u) {
    if (u.dtype() != DType::I32 || !(u.is(Op::Add) || u.is(Op::Mul)) || !bounds_.exact(u)) return {};
    const int64_t x = stride(u.src(0)), y = stride(u.src(1));
    if (x == Lanes::kIrregular || y == Lanes::kIrregular) return {};
    if (u.is(Op::Add)) return x + y;
    if (u.src(1).is_const()) return x * u.src(1).value().as_int();
    if (u.src(0).is_const()) return y * u.src(0).value().as_int();
    return {};
  }

  const Linearized& program_;
  const Regions& regions_;
  Bounds& bounds_;
  const bool check_bounds_;
  std::vector<Candidate> candidates_;
  NodeMap<AllocUse> allocs_;
  Lanes lanes_;
  // Of the loop at hand.
  NodeMap<int64_t> strides_;  // not 0
  NodeMap<char> own_;         // looked at
  std::vector<UOp> found_, private_;
};

Lanes find_lanes(const Linearized& program, const Regions& regions, Bounds& bounds, bool check_bounds) {
  return LaneFinder(program, regions, bounds, check_bounds).run();
}

}  // namespace uopc::codegen
