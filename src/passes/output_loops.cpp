#include "passes/output_loops.hpp"

#include <bit>
#include <optional>

namespace uopc {
namespace {

int64_t factor_of(const std::map<int64_t, int64_t>& factors, size_t axis, int64_t absent) {
  const auto at = factors.find(static_cast<int64_t>(axis));
  return at == factors.end() ? absent : at->second;
}

std::vector<AxisPiece> pieces(int64_t size, int64_t upcast, int64_t tile, bool lanes) {
  if (size == 0) return {{0, 1, 0, 1}};
  std::vector<AxisPiece> out;
  int64_t done = 0;
  if (tile > 0 && size >= tile) {
    out.push_back({0, size / tile, tile / upcast, upcast});
    done = size / tile * tile;
  }
  if (const int64_t steps = (size - done) / upcast; steps > 0) {
    out.push_back({done, 1, steps, upcast});
    done += steps * upcast;
  }
  while (done < size) {
    const int64_t left = size - done, copies = lanes ? lanes_of(left) : left;
    out.push_back({done, 1, 1, copies});
    done += copies;
  }
  return out;
}

}  // namespace

int64_t lanes_of(int64_t size) {
  const auto above = static_cast<int64_t>(std::bit_ceil(uint64_t(size)));
  return above - size < 16 ? size : above / 2;
}

SplitAxes split_axes(const Shape& shape, const Opts& opts, LowerForm form) {
  SplitAxes axes;
  int64_t widest = 2;
  for (size_t k = 0; k < shape.size() && form == LowerForm::Lanes; k++)
    if (const int64_t f = factor_of(opts.upcast, k, 1); shape[k] > 1 && f >= widest) {
      axes.lanes = k;
      widest = f;
    }
  for (size_t k = 0; k < shape.size(); k++)
    axes.pieces.push_back(pieces(shape[k], factor_of(opts.upcast, k, 1), factor_of(opts.tile, k, 0), axes.lanes == k));
  return axes;
}

bool lanes_reduce(const Shape& shape, const Opts& opts, LowerForm form) {
  return form == LowerForm::Lanes && opts.unroll >= kLeastLanes && std::has_single_bit(uint64_t(opts.unroll)) &&
         !split_axes(shape, opts, form).lanes;
}

namespace {

class Loops {
 public:
  Loops(Ctx& ctx, const Shape& shape, const Opts& opts, LowerForm form)
      : ctx_(ctx), graph_(ctx.graph()), shape_(shape), opts_(opts), axes_(split_axes(shape, opts, form)) {}

  OutputLoops run() {
    // The THREAD loop goes over the largest piece of its axis. Other pieces of it have nests behind that loop.
    if (opts_.thread) {
      const auto axis = static_cast<size_t>(*opts_.thread);
      const AxisPiece& p = axes_.pieces[axis].front();
      const bool tiled = p.blocks != 1;
      const int64_t n = tiled ? p.blocks : p.steps;
      if (shape_[axis] != 1 && n != 1) {
        out_.thread = ctx_.new_range(n, AxisType::Thread);
        thread_is_block_ = tiled;
      }
    }
    std::vector<size_t> choice(shape_.size(), 0);
    do {
      add_nest(choice);
    } while (next(choice));
    return std::move(out_);
  }

 private:
  // The combinations of pieces, the last axis the fastest.
  bool next(std::vector<size_t>& choice) const {
    for (size_t k = choice.size(); k-- > 0;) {
      if (++choice[k] < axes_.pieces[k].size()) return true;
      choice[k] = 0;
    }
    return false;
  }

  void add_nest(const std::vector<size_t>& choice) {
    OutputNest nest;
    nest.in_thread = out_.thread && choice[static_cast<size_t>(*opts_.thread)] == 0;
    const auto loop = [&](int64_t size, AxisType kind) {
      if (size == 1) return graph_.constant(0);
      nest.ranges.push_back(ctx_.new_range(size, kind));
      return nest.ranges.back();
    };
    const size_t n = shape_.size();
    std::vector<UOp> block(n), inner(n), lane(n);
    if (nest.in_thread) (thread_is_block_ ? block : inner)[static_cast<size_t>(*opts_.thread)] = out_.thread;
    for (size_t k = 0; k < n; k++)
      if (const AxisPiece& p = piece(choice, k); !block[k]) block[k] = loop(p.blocks, AxisType::Loop);
    for (size_t k = 0; k < n; k++)
      if (const AxisPiece& p = piece(choice, k); !inner[k]) inner[k] = loop(p.steps, AxisType::Loop);
    if (axes_.lanes)
      if (const AxisPiece& p = piece(choice, *axes_.lanes); p.copies > 1)
        lane[*axes_.lanes] = loop(p.copies, AxisType::Upcast);

    std::vector<int64_t> copy(n, 0);
    for (bool more = true; more;) {
      std::vector<UOp> index;
      for (size_t k = 0; k < n; k++) index.push_back(place(piece(choice, k), block[k], inner[k], lane[k], copy[k]));
      nest.copies.push_back(std::move(index));
      more = false;
      for (size_t k = n; k-- > 0 && !more;) {
        if (lane[k]) continue;
        more = ++copy[k] < piece(choice, k).copies;
        if (!more) copy[k] = 0;
      }
    }
    out_.nests.push_back(std::move(nest));
  }

  const AxisPiece& piece(const std::vector<size_t>& choice, size_t axis) const {
    return axes_.pieces[axis][choice[axis]];
  }

  UOp place(const AxisPiece& p, UOp block, UOp inner, UOp lane, int64_t copy) {
    UOp at = inner;
    if (p.blocks != 1) at = block * graph_.constant(p.steps) + at;
    if (p.copies != 1) at = at * graph_.constant(p.copies) + (lane ? lane : graph_.constant(copy));
    if (p.begin != 0) at = at + graph_.constant(p.begin);
    return at == inner ? at : ctx_.simplify(at);
  }

  Ctx& ctx_;
  Graph& graph_;
  const Shape& shape_;
  const Opts& opts_;
  const SplitAxes axes_;
  bool thread_is_block_ = false;
  OutputLoops out_;
};

}  // namespace

OutputLoops output_loops(Ctx& ctx, const Shape& shape, const Opts& opts, LowerForm form) {
  return Loops(ctx, shape, opts, form).run();
}

}  // namespace uopc
