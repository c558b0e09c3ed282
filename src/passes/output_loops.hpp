// The loops over a kernel's output, as Opts (A.7) ask for them.
//
// An axis of size n with upcast f and tile t is read at (block * (t / f) + inner) * f + copy: a loop over blocks of t,
// a loop within the block, and f copies of the body. Loops nest in this order: the THREAD axis (its blocks if tiled),
// the blocks of tiled axes, the rest, each in the order of the axes.
//
// LowerForm::Lanes makes one more loop of kind UPCAST, the innermost, out of the copies of the axis with the
// largest upcast factor, the last of equal ones. Where
// a size does not divide there, the rest of the axis has a nest of its own; the nests stand side by side, within the
// THREAD loop but for the rest of its own axis.
#pragma once
#include <optional>
#include <vector>

#include "passes/rangeify.hpp"
#include "uopc/opts.hpp"
#include "uopc/passes.hpp"

namespace uopc {

// Part of an axis: begin + (block * steps + inner) * copies + copy.
struct AxisPiece {
  int64_t begin, blocks, steps, copies;
};
struct SplitAxes {
  std::vector<std::vector<AxisPiece>> pieces;  // that make up each axis: one where its factors divide
  std::optional<size_t> lanes;                 // the axis whose copies are lanes
};
// The most of `size` elements that run as one vector, whose lanes are a power of two: all, where less than a register
// of 16 would be idle, or else the largest power of two in it.
int64_t lanes_of(int64_t size);
// Opts fit the shape (`check_opts`).
SplitAxes split_axes(const Shape& shape, const Opts& opts, LowerForm form);

// Whether `unroll` makes lanes, an accumulator each, out of a REDUCE: no output axis has them, and they fill a
// register.
bool lanes_reduce(const Shape& shape, const Opts& opts, LowerForm form);
inline constexpr int64_t kLeastLanes = 16;

struct OutputNest {
  bool in_thread = false;                // inside the THREAD loop
  std::vector<UOp> ranges;               // in the order of nesting, without that one
  std::vector<std::vector<UOp>> copies;  // the index of each copy of the body; the last axis is the fastest
};
struct OutputLoops {
  UOp thread;  // null without one
  std::vector<OutputNest> nests;
};

// Opts fit the shape (`check_opts`).
OutputLoops output_loops(Ctx& ctx, const Shape& shape, const Opts& opts, LowerForm form);

}  // namespace uopc
