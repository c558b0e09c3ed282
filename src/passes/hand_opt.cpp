// How a kernel is mapped onto the machine.
//
// A reduction is a tile of accumulators that stay in registers: `lanes` elements of one output axis, read and written
// as vectors, times `rows` elements of another one, for which those vectors are loaded once. The lane axis must move
// every load by 0 or 1 element, or a vector would be gathered one by one. A tile of r rows of v registers takes r * v +
// v + 2 registers; per step it does r * v products with r + v loads, of which a core does two each a cycle: the tile
// that fills the registers is the one that products bound.
//
// A reduction without such an axis runs its own innermost axis as lanes, each with an accumulator, where every load
// moves along it by 0 or 1 element. How many lanes depends on the size alone, so that a sum is the same on every
// machine.
//
// Without a reduction, an operand that memory holds along another axis than the result is turned: squares of a
// register's lanes by as many rows, in blocks of both axes, so that no line of either is fetched twice.
//
// Everything else LLVM vectorizes by itself. Kernels of much work are split over threads by their outermost loop.
#include "passes/hand_opt.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ir/walk.hpp"
#include "passes/accesses.hpp"
#include "passes/rangeify.hpp"

namespace uopc {
namespace {

// Turns of the innermost loop from which a fork (about 2 us, more when the threads sleep) pays. Tiles do some 40 of
// them in a nanosecond, other loops one.
constexpr int64_t kThreadWork = 1 << 16, kThreadWorkOfTiles = 1 << 20;
// Of a maximum's loop: a tree of so many hides the latency of its chain.
constexpr int64_t kMaxUnroll = 8;

// A running maximum of floats, which LLVM does not vectorize.
bool keeps_a_maximum(UOp plain) {
  bool found = false;
  post_order(plain, [&](UOp u) {
    if (!u.is(Op::Max) || !is_float(u.dtype())) return;
    for (UOp s : u.src()) found |= s.is(Op::Load) && s.src(0).is(Op::Index) && !s.src(0).src(0).is(Op::Buffer);
  });
  return found;
}

// Lanes of a reduction, and the size of its innermost axis from which that many pay for adding them up.
constexpr std::pair<int64_t, int64_t> kReduceLanes[] = {{64, 512}, {32, 128}, {16, 32}};

constexpr int64_t kTurnedBlock = 64;  // elements, on either axis

constexpr int64_t kInPanels = 1000;  // loads that an axis in panels counts for

class Chooser {
 public:
  Chooser(UOp value, UOp plain, const Machine& machine)
      : shape_(value.shape()),
        machine_(machine),
        at_(accesses(plain, shape_, machine)),
        has_max_(keeps_a_maximum(plain)) {
    // Of the value, not of `plain`: simplification may have removed one that lowering with Opts still opens.
    post_order(value, [&](UOp u) {
      if (u.is(Op::Reduce)) reductions_.push_back(u);
    });
  }

  Opts run() {
    Opts o;
    const auto lane = at_.reduce.empty() ? std::nullopt : lane_axis();
    if (lane)
      tile(o, *lane);
    else if (at_.reduce.empty())
      turn(o);
    else if (!reduce_in_lanes(o) && has_max_)
      unroll(o);
    choose_thread(o, lane);
    return o;
  }

 private:
  bool reduce_in_lanes(Opts& o) const {
    if (reductions_.size() != 1 || at_.reduce.empty() || !is_float(reductions_[0].dtype())) return false;
    const UOp range = at_.reduce.back();
    if (!range.src(0).is_const()) return false;
    const int64_t n = range.src(0).value().as_int();
    const auto axis = innermost_reduced(reductions_[0]);
    if (!axis || reductions_[0].src(0).shape()[*axis] != n) return false;
    const auto regular = [](const Access& a) {
      return !a.reduced() || a.reduce_strides.back() == 0 || a.reduce_strides.back() == 1;
    };
    const auto moves = [](const Access& a) { return a.reduced() && a.reduce_strides.back() == 1; };
    if (!std::ranges::all_of(at_.loads, regular) || std::ranges::none_of(at_.loads, moves)) return false;
    for (const auto& [lanes, least] : kReduceLanes)
      if (n >= least) {
        o.unroll = lanes;
        return true;
      }
    return false;
  }

  void turn(Opts& o) const {
    if (shape_.empty() || shape_.back() < machine_.lanes) return;
    const size_t last = shape_.size() - 1;
    std::optional<size_t> along;
    for (const Access& a : at_.loads) {
      if (a.strides[last] == 0 || a.strides[last] == 1 || a.strides[last] == Access::kIrregular) continue;
      for (size_t k = 0; k < last; k++)
        if (a.strides[k] == 1 && shape_[k] >= machine_.lanes) along = k;
    }
    if (!along) return;
    for (const size_t k : {*along, last}) {
      o.upcast[static_cast<int64_t>(k)] = machine_.lanes;
      if (shape_[k] >= 2 * kTurnedBlock) o.tile[static_cast<int64_t>(k)] = kTurnedBlock;
    }
  }

  void unroll(Opts& o) const {
    // It is for every REDUCE of the kernel: each one's innermost axis must be a multiple, and a sum of floats keeps the
    // order of the program (strict_float).
    const auto divides_all = [&](int64_t f) {
      return std::ranges::all_of(reductions_, [&](UOp r) {
        if (r.arg<ReduceArg>().op != Op::Max && is_float(r.dtype())) return false;
        const Shape& shape = r.src(0).shape();
        for (size_t k = shape.size(); k-- > r.shape().size();)
          if (shape[k] != 1) return shape[k] % f == 0;
        return true;
      });
    };
    o.unroll = kMaxUnroll;
    while (o.unroll > 1 && !divides_all(o.unroll)) o.unroll /= 2;
  }

  int64_t count(size_t axis, auto&& is) const {
    return std::ranges::count_if(at_.loads, [&](const Access& a) { return a.reduced() && is(a.strides[axis]); });
  }

  bool in_panels(size_t axis) const {
    return std::ranges::any_of(at_.loads, [&](const Access& a) { return a.reduced() && a.in_panels[axis]; });
  }

  // The axis that runs as vectors: no load inside the reduction is gathered. Of several, one that most loads move along
  // with or that an operand was packed for, and of these the last, which is the one that stores are contiguous in.
  std::optional<size_t> lane_axis() const {
    std::optional<size_t> best;
    int64_t best_units = 0;
    for (size_t k = 0; k < shape_.size(); k++) {
      if (shape_[k] < machine_.lanes / 2 || !at_.loops[k]) continue;
      if (count(k, [](int64_t s) { return s != 0 && s != 1; }) > 0) continue;
      const int64_t units = count(k, [](int64_t s) { return s == 1; }) + (in_panels(k) ? kInPanels : 0);
      if (units > 0 && units >= best_units) {
        best = k;
        best_units = units;
      }
    }
    return best;
  }

  // The axis whose copies share what the lanes load.
  std::optional<size_t> row_axis(size_t lane) const {
    std::optional<size_t> best;
    int64_t best_shared = 0;
    for (size_t k = 0; k < shape_.size(); k++) {
      if (k == lane || !at_.loops[k] || shape_[k] < 2 || in_panels(k)) continue;
      int64_t shared = 0;
      for (const Access& a : at_.loads)
        if (a.reduced() && a.strides[k] == 0) shared += a.strides[lane] == 1 ? 1000 : 1;
      shared = shared * 4 + (shape_[k] >= 4);
      if (shared > best_shared && shared >= 4) {
        best = k;
        best_shared = shared;
      }
    }
    return best;
  }

  void tile(Opts& o, size_t lane) const {
    const int64_t width = lane_width(shape_[lane], machine_);
    const int64_t registers = (width + machine_.lanes - 1) / machine_.lanes;
    o.upcast[static_cast<int64_t>(lane)] = width;
    const auto row = row_axis(lane);
    if (!row) return;
    const int64_t most = std::clamp<int64_t>((machine_.registers - registers - 2) / registers, 1, 8);
    int64_t rows = std::min(most, shape_[*row]);
    if (shape_[*row] % rows != 0 && rows > 4 && shape_[*row] % (rows - 1) == 0) rows--;
    if (rows > 1) o.upcast[static_cast<int64_t>(*row)] = rows;
  }

  void choose_thread(Opts& o, std::optional<size_t> lane) const {
    if (machine_.threads < 2 || at_.turns() < (lane ? kThreadWorkOfTiles : kThreadWork)) return;
    const auto blocks = [&](size_t k) {
      const auto at = o.upcast.find(static_cast<int64_t>(k));
      return shape_[k] / (at == o.upcast.end() ? 1 : at->second);
    };
    const int64_t enough = 2 * machine_.threads;
    // An axis that is no part of the tile first, then the lanes': a thread's panel stays in its cache.
    for (size_t k = 0; k < shape_.size(); k++)
      if (!o.upcast.contains(static_cast<int64_t>(k)) && at_.loops[k] && blocks(k) >= enough) {
        o.thread = static_cast<int64_t>(k);
        return;
      }
    if (lane && blocks(*lane) >= enough) {
      o.thread = static_cast<int64_t>(*lane);
      return;
    }
    for (size_t k = 0; k < shape_.size(); k++)
      if (at_.loops[k] && blocks(k) >= machine_.threads) {
        o.thread = static_cast<int64_t>(k);
        return;
      }
  }

  const Shape shape_;
  const Machine& machine_;
  const Accesses at_;
  const bool has_max_;
  std::vector<UOp> reductions_;
};

}  // namespace

Opts hand_opt_choice(UOp value, UOp plain, const Machine& machine) {
  return Chooser(value, plain, machine).run();
}

}  // namespace uopc
