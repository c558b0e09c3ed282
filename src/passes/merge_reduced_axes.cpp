#include "passes/merge_reduced_axes.hpp"

#include <algorithm>

#include "ir/walk.hpp"
#include "passes/verify.hpp"

namespace uopc {
namespace {

bool is_memory(UOp u) {
  return u.is(Op::Buffer) || u.is(Op::Stage) || u.is(Op::Param);
}

// The axes of `order` from `first` on, as they follow each other below.
bool in_sequence(const Shape& order, size_t first) {
  for (size_t k = first + 1; k < order.size(); k++)
    if (order[k] != order[k - 1] + 1) return false;
  return true;
}

class Merger {
 public:
  UOp merged(UOp reduce) {
    if (!reduce.is(Op::Reduce)) return reduce;
    const auto& [op, n] = reduce.arg<ReduceArg>();
    const UOp x = reduce.src(0);
    if (count_elements(x.shape()) >= kMaxElements) return reduce;  // an axis is shorter
    for (int64_t m = n; m >= 2; m--) {
      if (!one_stretch(x, m)) continue;
      Shape shape(x.shape().begin(), x.shape().end() - m);
      shape.push_back(count_elements(Shape(x.shape().end() - m, x.shape().end())));
      return x.reshape(shape).reduce(op, n - m + 1);
    }
    return reduce;
  }

 private:
  // Whether every element of `root` is read at its own flat index, or at one for all.
  bool flat(UOp root) {
    const auto passes_on = [](UOp u) { return u.is(Op::Reshape) || kAlu.has(u.op()); };
    post_order(
        root,
        [&](UOp u) {
          if (flat_.contains(u)) return;
          const bool of_one = u.is(Op::Expand) && count_elements(u.src(0).shape()) == 1;
          const bool as_sources = passes_on(u) && std::ranges::all_of(u.src(), [&](UOp s) { return flat_.at(s) != 0; });
          flat_.insert(u, is_memory(u) || u.is_const() || of_one || as_sources);
        },
        [&](UOp u) { return passes_on(u) && !flat_.contains(u); });
    return flat_.at(root) != 0;
  }

  // Whether the last `m` axes of `root` are one axis of each operand, or none.
  bool one_stretch(UOp root, int64_t m) {
    bool all = true;
    NodeSet seen;
    post_order(
        root, seen, [&](UOp u) { all = all && (kAlu.has(u.op()) || leaf_in_one_stretch(u, m)); },
        [&](UOp u) { return all && kAlu.has(u.op()); });
    return all;
  }

  bool leaf_in_one_stretch(UOp u, int64_t m) {
    const auto first = u.shape().size() - static_cast<size_t>(m);
    if (u.is(Op::Permute)) return in_sequence(u.arg<Shape>(), first) && flat(u.src(0));
    if (!u.is(Op::Expand)) return flat(u);
    const Shape& from = u.src(0).shape();
    return std::all_of(from.begin() + static_cast<int64_t>(first), from.end(), [](int64_t d) { return d == 1; });
  }

  NodeMap<char> flat_;
};

}  // namespace

std::vector<UOp> merge_reduced_axes(std::span<const UOp> roots) {
  Merger merger;
  NodeMap<UOp> images;
  std::vector<UOp> out;
  for (UOp root : roots) out.push_back(map_graph(root, images, [&](UOp, UOp u) { return merger.merged(u); }));
  return out;
}

}  // namespace uopc
