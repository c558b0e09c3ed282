#include "passes/pack_operands.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/walk.hpp"
#include "passes/accesses.hpp"
#include "passes/rangeify.hpp"
#include "passes/tighten_indices.hpp"
#include "passes/verify.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

// Reads of an element from which a copy pays where lanes would have to be gathered, and where only rows are far apart:
// those of a panel stay in the first level's cache, rows of a large matrix fall on few of its sets.
constexpr int64_t kReuseOfGathered = 8, kReuseOfRows = 48, kFarApart = 256, kSmall = 16 << 10;
// Reads of an element of a padded tensor from which a copy of it pays.
constexpr int64_t kReadsOfPadded = 4;
// The same of one that takes so many operations.
constexpr int64_t kReadsOfCostly = 4, kCostly = 8;
constexpr int64_t kMuchSmaller = 16;
// Products below which another kernel costs more than it saves.
constexpr int64_t kLeastWork = 1 << 17;

struct Operand {
  UOp value;
  std::vector<char> moves;       // by axis: whether it depends on it
  std::vector<int64_t> strides;  // by axis: the one that all loads have, 0 apart; kIrregular otherwise
};

// Values that are staged are read from memory.
UOp on_memory(UOp value) {
  NodeMap<UOp> images;
  int64_t slot = -1;
  post_order(
      value,
      [&](UOp u) {
        if (u.is(Op::Stage))
          images.insert(u, u.graph().buffer(count_elements(u.shape()), u.dtype(), slot--).reshape(u.shape()));
      },
      [](UOp u) { return !u.is(Op::Stage); });
  return map_graph(value, images, [](UOp, UOp u) { return u; });
}

Operand look_at(UOp value, const Machine& machine) {
  const Shape& shape = value.shape();
  Ctx ctx(value.graph());
  std::vector<UOp> index;
  for (int64_t n : shape) index.push_back(n == 1 ? value.graph().constant(0) : ctx.new_range(n, AxisType::Loop));
  const UOp scalar = ctx.simplify(tighten_indices(ctx.simplify(ctx.rangeify(on_memory(value), index))));
  const Accesses at = accesses(scalar, shape, machine);
  Operand o{value, {}, {}};
  for (size_t k = 0; k < shape.size(); k++) {
    o.moves.push_back(static_cast<bool>(at.loops[k]));
    int64_t stride = 0;
    for (const Access& a : at.loads) {
      if (a.strides[k] == 0) continue;
      stride = stride == 0 || stride == a.strides[k] ? a.strides[k] : Access::kIrregular;
    }
    o.strides.push_back(stride);
  }
  return o;
}

// `x` in the order of `axes`, those that it does not depend on dropped: the layout, and the way back.
class Panels {
 public:
  Panels(const Operand& x, size_t lane, size_t kept, int64_t width) : shape_(x.value.shape()), width_(width) {
    for (size_t k = 0; k < shape_.size(); k++)
      if (x.moves[k] && k != lane) (k < kept ? outer_ : reduced_).push_back(k);
    axes_ = outer_;
    axes_.insert(axes_.end(), reduced_.begin(), reduced_.end());
    axes_.push_back(lane);
  }

  UOp pack(UOp x) const {
    std::vector<std::pair<int64_t, int64_t>> first;
    for (size_t k = 0; k < shape_.size(); k++)
      first.emplace_back(0, std::ranges::find(axes_, k) != axes_.end() ? shape_[k] : 1);
    Shape order;
    for (size_t k : axes_) order.push_back(static_cast<int64_t>(k));
    for (size_t k = 0; k < shape_.size(); k++)
      if (std::ranges::find(axes_, k) == axes_.end()) order.push_back(static_cast<int64_t>(k));
    x = x.shrink(first).permute(order).reshape(plain());
    const int64_t n = plain().back(), more = (n + width_ - 1) / width_ * width_ - n;
    if (more > 0) {
      std::vector<std::pair<int64_t, int64_t>> around(axes_.size());
      around.back().second = more;
      x = pad(x, around);
    }
    // (outer, reduced, panel, lane) to (outer, panel, reduced, lane)
    const size_t o = outer_.size(), r = reduced_.size();
    Shape swap(o + r + 2);
    std::iota(swap.begin(), swap.end(), 0);
    std::rotate(swap.begin() + static_cast<int64_t>(o), swap.begin() + static_cast<int64_t>(o + r),
                swap.begin() + static_cast<int64_t>(o + r + 1));
    x = x.reshape(panels()).permute(swap).stage();
    Shape back(swap.size());
    for (size_t k = 0; k < swap.size(); k++) back[static_cast<size_t>(swap[k])] = static_cast<int64_t>(k);
    Shape padded = plain();
    padded.back() += more;
    x = x.permute(back).reshape(padded);
    if (more > 0) {
      std::vector<std::pair<int64_t, int64_t>> whole;
      for (int64_t d : plain()) whole.emplace_back(0, d);
      x = x.shrink(whole);
    }
    Shape ones = plain();
    ones.resize(shape_.size(), 1);
    Shape inverse(order.size());
    for (size_t k = 0; k < order.size(); k++) inverse[static_cast<size_t>(order[k])] = static_cast<int64_t>(k);
    x = x.reshape(ones).permute(inverse);
    return x.shape() == shape_ ? x : x.expand(shape_);
  }

 private:
  Shape plain() const {
    Shape s;
    for (size_t k : axes_) s.push_back(shape_[k]);
    return s;
  }
  Shape panels() const {
    Shape s = plain();
    s.back() = (s.back() + width_ - 1) / width_;
    s.push_back(width_);
    return s;
  }

  const Shape shape_;
  const int64_t width_;
  std::vector<size_t> outer_, reduced_, axes_;  // the last of `axes_` is the lanes'
};

// a * b, or with a guard the same and 0 where the guarding factor is 0: the form of a derivative, in which the other
// factor may be infinite there.
struct Product {
  enum class Guard : uint8_t { None, A, B };
  UOp a, b;
  Guard guard = Guard::None;

  UOp value() const {
    Graph& graph = a.graph();
    const auto masked = [&](UOp by, UOp v) { return by.ne(by.const_like(0.0)).where(v, v.const_like(0.0)); };
    const UOp x = guard == Guard::B ? masked(b, a) : a, y = guard == Guard::A ? masked(a, b) : b;
    return graph.make(Op::Mul, {x, y});
  }
};

// Movement around the product is that of the factors.
std::optional<Product> product_in(UOp u) {
  std::vector<UOp> moves;
  for (; kMovement.has(u.op()); u = u.src(0)) moves.push_back(u);
  const auto moved = [&](UOp v) {
    for (size_t k = moves.size(); k-- > 0;) v = v.graph().make(moves[k].op(), {v}, moves[k].arg());
    return v;
  };
  if (u.is(Op::Mul)) return Product{moved(u.src(0)), moved(u.src(1))};
  if (!u.is(Op::Where) || !u.src(0).is(Op::CmpNe) || !u.src(1).is(Op::Mul)) return {};
  const auto is_zero = [](UOp v) {
    while (kMovement.has(v.op())) v = v.src(0);
    return v.is_const() && v.value().as_float() == 0;
  };
  const UOp by = u.src(0).src(0), a = u.src(1).src(0), b = u.src(1).src(1);
  if (!is_zero(u.src(0).src(1)) || !is_zero(u.src(2)) || (by != a && by != b)) return {};
  return Product{moved(a), moved(b), by == a ? Product::Guard::A : Product::Guard::B};
}

class Packer {
 public:
  explicit Packer(const Machine& machine) : machine_(machine) {}

  UOp reduce(UOp u) {
    if (!u.is(Op::Reduce) || u.arg<ReduceArg>().op != Op::Add || !is_float(u.dtype())) return u;
    const auto found = product_in(u.src(0));
    if (!found || u.ndim() == 0) return u;
    const Shape& shape = found->a.shape();
    const size_t kept = u.shape().size();
    int64_t steps = 1, work = 1;
    for (size_t k = 0; k < shape.size(); k++) {
      if (k >= kept) steps *= shape[k];
      work = std::min<int64_t>(INT32_MAX, work * shape[k]);
    }
    if (steps < 4 || work < kLeastWork) return u;
    const Operand x = look_at(without_masks(found->a), machine_), y = look_at(without_masks(found->b), machine_);
    const auto sum_of = [&](UOp a, UOp b) {
      const Product made{a, b, found->guard};
      return u.graph().make(Op::Reduce, {made.value()}, u.arg());
    };
    if (fits_already(x, y, kept)) return sum_of(kept_apart(x, kept), kept_apart(y, kept));
    // The last axis, in which stores are contiguous, but for a copy that is much smaller (a filter, beside an image).
    const Operand* best = nullptr;
    size_t lane = 0;
    for (size_t k = kept; k-- > 0;)
      for (const auto& [one, other] : {std::pair{&y, &x}, {&x, &y}}) {
        if (!one->moves[k] || other->moves[k] || u.shape()[k] < machine_.lanes / 2) continue;
        const int64_t reuse = reads_of_each(*one, kept);
        if (reuse < (one->strides[k] == 1 ? kReuseOfRows : kReuseOfGathered)) continue;
        if (best && elements(*best) <= kMuchSmaller * elements(*one)) continue;
        best = one;
        lane = k;
      }
    if (!best) return sum_of(kept_apart(x, kept), kept_apart(y, kept));
    const UOp packed = Panels(*best, lane, kept, lane_width(u.shape()[lane], machine_)).pack(best->value);
    return best == &x ? sum_of(packed, kept_apart(y, kept)) : sum_of(kept_apart(x, kept), packed);
  }

 private:
  // A padded tensor (a STACK below movement) that is read several times is staged: its elements would be chosen from
  // several loads at each read, and no vector can be loaded.
  static UOp without_masks(UOp x) {
    std::vector<UOp> chain;
    UOp u = x;
    for (; kMovement.has(u.op()); u = u.src(0)) chain.push_back(u);
    if (!u.is(Op::Stack)) return x;
    UOp smallest = u;
    while (!chain.empty() && !chain.back().is(Op::Expand)) {
      if (count_elements(chain.back().shape()) < count_elements(smallest.shape())) smallest = chain.back();
      chain.pop_back();
    }
    if (count_elements(x.shape()) / std::max<int64_t>(1, count_elements(smallest.shape())) < kReadsOfPadded) return x;
    const std::pair<UOp, UOp> staged{smallest, smallest.stage()};
    return substitute(x, std::span(&staged, 1));
  }

  // An operand that takes many operations and is read several times, computed once.
  static UOp kept_apart(const Operand& x, size_t kept) {
    if (reads_of_each(x, kept) < kReadsOfCostly) return x.value;
    int64_t cost = 0;
    NodeSet seen;
    post_order(
        x.value, seen, [&](UOp u) { cost += kAlu.has(u.op()); }, [](UOp u) { return !u.is(Op::Stage); });
    if (cost < kCostly) return x.value;
    std::vector<std::pair<int64_t, int64_t>> own;
    const Shape& shape = x.value.shape();
    for (size_t k = 0; k < shape.size(); k++) own.emplace_back(0, x.moves[k] ? shape[k] : 1);
    return x.value.shrink(own).stage().expand(shape);
  }

  // That it has of its own.
  static int64_t elements(const Operand& x) {
    int64_t n = 1;
    for (size_t k = 0; k < x.moves.size(); k++)
      if (x.moves[k]) n *= x.value.shape()[k];
    return n;
  }

  static int64_t reads_of_each(const Operand& x, size_t kept) {
    int64_t n = 1;
    for (size_t k = 0; k < kept; k++)
      if (!x.moves[k]) n *= x.value.shape()[k];
    return n;
  }

  // An axis that both take in steps of 0 or 1, whose rows are not far apart.
  bool fits_already(const Operand& x, const Operand& y, size_t kept) const {
    for (size_t k = 0; k < kept; k++) {
      const int64_t a = x.strides[k], b = y.strides[k];
      if ((a != 0 && a != 1) || (b != 0 && b != 1) || a + b == 0 || x.value.shape()[k] < machine_.lanes / 2) continue;
      const Operand& moving = a == 1 ? x : y;
      int64_t furthest = 0;
      int64_t reduced = 0;
      for (size_t i = kept; i < moving.moves.size(); i++) {
        reduced += moving.moves[i];
        if (moving.strides[i] != Access::kIrregular) furthest = std::max(furthest, std::abs(moving.strides[i]));
      }
      if (reduced != 1) return true;  // windows, which overlap
      if (a + b == 2 || furthest < kFarApart || elements(moving) < kSmall || reads_of_each(moving, kept) < kReuseOfRows)
        return true;
    }
    return false;
  }

  const Machine& machine_;
};

}  // namespace

std::vector<UOp> pack_operands(std::span<const UOp> roots, const Machine& machine) {
  Packer packer(machine);
  NodeMap<UOp> images;
  std::vector<UOp> out;
  for (UOp root : roots) out.push_back(map_graph(root, images, [&](UOp, UOp u) { return packer.reduce(u); }));
  return out;
}

}  // namespace uopc
