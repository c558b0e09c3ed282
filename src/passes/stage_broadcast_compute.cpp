// Which values are computed once and kept, though the graph does not ask for it.
//
// Four kinds at every level, three more from level 1 on:
//   - a REDUCE that a growing EXPAND above it would repeat;
//   - a REDUCE that two kernels would compute, or one at two indices;
//   - an element-wise value that two kernels would compute and that takes more than kSharedCost operations (a single
//     number: kSharedNumberCost), so that the kernels of a residual chain grow linearly and not quadratically with its
//     length;
//   - the same of a value that one kernel would compute at two indices (a sum of a value and the value shifted), where
//     a chain of such would grow exponentially;
//   - from level 1 on, a large product of tensors within another reduction, which would hide it from register tiles;
//   - from level 1 on, an element-wise value of kRepeatedCost or more that an EXPAND repeats within a loop, so that it
//     cannot be computed outside of it (the activation that a matrix product reads);
//   - from level 1 on, an operand of a large product that takes kOperandCost or more and is read for kOperandRepeats
//     results or more: the product's inner loop has no room for it (the gradient below a relu, which two products and a
//     sum read).
#include <algorithm>
#include <numeric>

#include "passes/kernelize.hpp"
#include "passes/verify.hpp"

namespace uopc {
namespace {

constexpr int64_t kSharedCost = 64, kSharedNumberCost = 256, kLargestCost = 1'000'000;
constexpr int64_t kRepeats = 4, kLargeProduct = 1 << 17;
constexpr int64_t kOperandCost = 4, kOperandRepeats = 64;  // two loads and two operations

// An EXPAND that repeats an axis around one that goes on: what it repeats is computed anew in the inner loop.
bool repeats_inner_loop(UOp u) {
  const Shape& from = u.src(0).shape();
  const Shape& to = u.shape();
  bool repeated = false;
  for (size_t k = 0; k < to.size(); k++) {
    if (from[k] != to[k] && to[k] >= kRepeats) repeated = true;
    if (repeated && from[k] > 1) return true;
  }
  return false;
}

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0xD6E8FEB86659FD93u;
  return h ^ (h >> 32);
}

// At which element a value is read, by the element of the kernel's that needs it. Equal views are equal numbers;
// different numbers may be the same view. A RESHAPE keeps the flat index, and with it the view.
using View = uint64_t;
constexpr View kNoView = 0, kOwnElement = 1;

// The view of source `k` of `user`, which is read through `view`.
View view_of_source(UOp user, size_t k, View view) {
  if (kAlu.has(user.op()) || user.is(Op::Reshape) || user.is(Op::Reduce)) return view;
  if (user.is(Op::Expand) && !grows(user)) return view;
  View v = mix(mix(view, static_cast<uint64_t>(user.op()) + 1), k);
  for (int64_t d : user.src(0).shape()) v = mix(v, static_cast<uint64_t>(d));
  if (user.is(Op::Expand) || user.is(Op::Permute)) {
    for (int64_t d : user.arg<Shape>()) v = mix(v, static_cast<uint64_t>(d));
  } else if (user.is(Op::Shrink)) {
    for (const auto& [begin, end] : user.arg<ShrinkArg>().bounds)
      v = mix(mix(v, static_cast<uint64_t>(begin)), static_cast<uint64_t>(end));
  } else if (!user.is(Op::Stack)) {
    v = mix(v, user.id());
  }
  return std::max(v, kOwnElement + 1);
}

// The product under a sum of products of two tensors that a register tile suits; else empty.
UOp large_product(UOp u) {
  if (!u.is(Op::Reduce) || u.arg<ReduceArg>().op != Op::Add || !is_float(u.dtype())) return {};
  UOp product = u.src(0);
  while (kMovement.has(product.op())) product = product.src(0);
  if (product.is(Op::Where)) product = product.src(1);  // the guard of a derivative
  const bool large = product.is(Op::Mul) && product.src(0) != product.src(1) && !product.src(1).is_const() &&
                     count_elements(u.src(0).shape()) >= kLargeProduct;
  return large ? product : UOp();
}

class Stager {
 public:
  Stager(std::span<const UOp> roots, const CutOptions& options) : roots_(roots), options_(options) {
    post_order(roots, [&](UOp u) { order_.push_back(u); });
  }

  std::vector<UOp> run() {
    from_users();
    from_sources();
    std::vector<UOp> out;
    NodeMap<UOp> images;
    for (UOp root : roots_)
      out.push_back(map_graph(
          root, images, [&](UOp old, UOp u) { return staged_.contains(old) ? u.graph().make(Op::Stage, {u}) : u; }));
    return out;
  }

 private:
  static constexpr uint64_t kNobody = 0, kResult = uint64_t{1} << 32, kMany = UINT64_MAX;

  struct Uses {
    uint64_t owner = kNobody;  // the one kernel that computes the value: kResult + its number, or id of the cut + 1
    View view = kNoView;
    bool joins = false;      // two uses lie in different kernels, or are of two views; or it is moved, and that is so
    bool broadcast = false;  // an EXPAND above repeats it
    bool repeated = false;   // in an inner loop, and only movement lies between
    bool operand = false;    // of a large product, which reads it kOperandRepeats times
    bool reduced = false;    // a REDUCE of the same kernel is made of it
  };

  void use(Uses& u, uint64_t owner, View view) {
    if (u.owner == kNobody) {
      u.owner = owner;
    } else if (u.owner != owner || owner == kMany) {
      u.owner = kMany;
      u.joins = true;
    }
    if (u.view == kNoView) {
      u.view = view;
    } else if (u.view != view) {
      u.view = std::max(mix(u.view, view), kOwnElement + 1);  // both
      u.joins = true;
    }
  }

  void mark_operand(UOp u) {
    int64_t repeats = 1;
    for (; kMovement.has(u.op()); u = u.src(0))
      if (const int64_t from = count_elements(u.src(0).shape()); grows(u) && from > 0)
        repeats *= count_elements(u.shape()) / from;
    if (kAlu.has(u.op()) && repeats >= kOperandRepeats) uses_[u].operand = true;
  }

  // From the results down: users are seen before what they use.
  void from_users() {
    for (size_t i = 0; i < roots_.size(); i++) use(uses_[roots_[i]], kResult + i, kOwnElement);
    for (size_t i = order_.size(); i-- > 0;) {
      const UOp u = order_[i];
      const Uses own = uses_[u];
      if (u.is(Op::Reduce) && (own.broadcast || own.joins || own.owner == kMany)) staged_.insert(u);
      if (const UOp product = options_.opt > 0 ? large_product(u) : UOp()) {
        if (own.reduced) staged_.insert(u);
        for (UOp operand : product.src()) mark_operand(operand);
      }
      const bool cut = u.is(Op::Stage) || staged_.contains(u);
      for (size_t k = 0; k < u.src().size(); k++) {
        Uses& s = uses_[u.src(k)];
        use(s, cut ? uint64_t{u.id()} + 1 : own.owner, cut ? kOwnElement : view_of_source(u, k, own.view));
        s.joins |= own.joins && kMovement.has(u.op()) && !u.is(Op::Shrink);
        s.broadcast |= grows(u) || (own.broadcast && !cut);
        s.repeated |= u.is(Op::Expand) && repeats_inner_loop(u);
        s.repeated |= own.repeated && kMovement.has(u.op());
        s.reduced |= u.is(Op::Reduce) || (own.reduced && !cut);
      }
    }
  }

  // From the buffers up: what an operation costs depends on the cuts below it. Counts a value used twice twice, which
  // only makes a long chain of those be staged earlier.
  void from_sources() {
    NodeMap<int64_t> costs;
    for (UOp u : order_) {
      int64_t cost = operation_cost(u);
      for (UOp source : u.src()) cost = std::min(kLargestCost, cost + costs.at(source));
      const bool large = cost > (u.ndim() > 0 ? kSharedCost : kSharedNumberCost);
      const Uses& uses = uses_.at(u);
      const bool shared = uses.joins && large && (kAlu.has(u.op()) || u.is(Op::Shrink) || u.is(Op::Stack));
      const bool repeated = kAlu.has(u.op()) && options_.opt > 0 && uses.repeated && cost >= kRepeatedCost;
      if (shared || repeated || (uses.operand && cost >= kOperandCost)) staged_.insert(u);
      costs.insert(u, u.is(Op::Stage) || staged_.contains(u) ? 1 : cost);
    }
  }

  std::span<const UOp> roots_;
  const CutOptions options_;
  std::vector<UOp> order_;
  NodeMap<Uses> uses_;
  NodeSet staged_;
};

}  // namespace

bool grows(UOp u) {
  return u.is(Op::Expand) && u.shape() != u.src(0).shape();
}

int64_t operation_cost(UOp u) {
  switch (u.op()) {
    case Op::Exp2:
    case Op::Log2:
    case Op::Sin:
      return 8;
    case Op::Sqrt:
    case Op::Recip:
    case Op::FloorDiv:
    case Op::FloorMod:
      return 4;
    default:
      return kAlu.has(u.op()) || u.is(Op::Stack) || u.is(Op::Buffer) ? 1 : 0;
  }
}

UOp whole_buffer(UOp u) {
  while (u.is(Op::Reshape)) u = u.src(0);
  return u.is(Op::Buffer) ? u : UOp();
}

std::vector<UOp> insert_stages(std::span<const UOp> roots, const CutOptions& options) {
  return Stager(roots, options).run();
}

UOp stage_broadcast_compute(UOp root) {
  return insert_stages(std::span(&root, 1), {}).front();
}

}  // namespace uopc
