// A shaped graph as scalar expressions over loop counters: an index tuple is pushed from a value down to the BUFFERs,
// through the index maps of the movement ops; a REDUCE becomes a loop around an accumulator.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/rewrite.hpp"
#include "passes/linear_form.hpp"
#include "passes/loop_nest.hpp"
#include "uopc/opts.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// The flat row-major index of `index` in `shape`, and back. Not simplified.
UOp ravel(Graph& graph, std::span<const UOp> index, const Shape& shape);
std::vector<UOp> unravel(UOp flat, const Shape& shape);

// The last axis that a REDUCE goes over and that is not of size 1.
std::optional<size_t> innermost_reduced(UOp reduce);

// What the values of one kernel share: loops and accumulators are numbered as they are made, and a value is built once
// for each index it is read at.
class Ctx {
 public:
  // `unroll`: of the innermost axis of every REDUCE, which it divides (`check_opts`). With `lanes` it is the number of
  // accumulators that run as lanes, a power of two of any axis of at least twice as many elements.
  explicit Ctx(Graph& graph, int64_t unroll = 1, bool lanes = false);

  Graph& graph() { return graph_; }

  // As the constructor's, of the values that are read from here on.
  void set_unroll(int64_t unroll, bool lanes) {
    unroll_ = unroll;
    lanes_ = lanes;
  }

  UOp new_range(int64_t size, AxisType kind);
  UOp new_alloc(int64_t size, DType dtype) { return graph_.alloc(size, dtype, next_acc_++); }

  // What stands for a BUFFER of the values within the kernel: its element `base` + i is element i of `memory`, an ALLOC
  // after the stores into it.
  struct Window {
    UOp memory;
    LinearForm base;
  };
  void read_from(UOp buffer, Window window) { windows_[buffer] = std::move(window); }
  UOp simplify(UOp u) { return simplifier_(u); }

  // The scalar at `index` of shaped value `value`. Linear in the number of distinct (node, index) pairs, which may be
  // exponential in the size of the graph (a chain of GEMMs): throws Error(NotImplemented) past kFreeSteps and
  // kStepsPerNode a node. Each further value may take kStepsPerNode a node, up to kMostSteps in all.
  UOp rangeify(UOp value, std::span<const UOp> index);

  static constexpr int64_t kFreeSteps = 500'000, kStepsPerNode = 30, kMostSteps = 10'000'000;

 private:
  using TupleId = uint32_t;
  struct ReduceRanges {
    std::vector<UOp> main;
    UOp lane;               // goes over the lanes' accumulators; null without them
    std::vector<UOp> rest;  // of the elements that are no whole turn of the lanes
  };
  struct Loop {  // a reduction at one index
    UOp acc, rest_acc;
    ReduceRanges ranges;
    std::vector<TupleId>
        parts;  // the indices that one iteration reads; of lanes, that of the main loop and of the rest
  };
  struct Frame {
    UOp u;
    TupleId at;
    uint32_t step = 0;        // sources asked for so far
    TupleId inner = 0;        // the index its source is read at, once known
    uint32_t loop = 0;        // of a REDUCE: one of loops_
    uint32_t lo = 0, hi = 0;  // of a STACK: the parts that the index can reach
  };
  struct Facts {                             // of a scalar expression
    IndexSets::Id open = IndexSets::kEmpty;  // the loops it sits in, by idx
    bool reduces = false;                    // it reads an accumulator
  };

  // The next value that `f` needs; none (a null UOp) when it can be built.
  std::pair<UOp, TupleId> next(Frame& f);
  UOp build(const Frame& f);
  UOp read_window(const Window& window, UOp index);
  UOp result(UOp u, TupleId at) const { return memo_.at(key(u, at)); }
  TupleId source_index(const Frame& f);
  void open_reduction(Frame& f);
  UOp build_reduction(const Frame& f);
  bool has_lanes(UOp reduce) const;
  UOp serial_reduction(const Frame& f, UOp acc, const std::vector<UOp>& ranges, UOp value);
  UOp reduction_in_lanes(const Frame& f, const Loop& loop);
  std::vector<UOp> loops_around(const Frame& f);

  static uint64_t key(UOp u, TupleId at) { return uint64_t{u.id()} << 32 | at; }
  TupleId intern(std::vector<UOp> tuple);
  Facts facts(UOp expression);
  Facts facts(TupleId at);

  struct TupleHash {
    size_t operator()(const std::vector<UOp>& t) const {
      size_t h = t.size();
      for (UOp u : t) h = (h ^ u.id()) * 0x9E3779B97F4A7C15u;
      return h ^ (h >> 29);
    }
  };

  Graph& graph_;
  int64_t unroll_;
  bool lanes_;
  NodeMap<Window> windows_;
  Rewriter simplifier_;
  std::unordered_map<uint64_t, UOp> memo_;
  std::unordered_map<std::vector<UOp>, TupleId, TupleHash> tuple_ids_;
  std::vector<const std::vector<UOp>*> tuples_;
  std::vector<UOp> ranges_;  // by idx
  std::vector<Loop> loops_;
  std::map<std::pair<uint32_t, std::pair<bool, uint32_t>>, ReduceRanges> reduce_ranges_;
  IndexSets sets_;
  NodeMap<Facts> facts_;
  int64_t next_acc_ = 0, steps_ = 0, max_steps_ = 0;
};

}  // namespace uopc
