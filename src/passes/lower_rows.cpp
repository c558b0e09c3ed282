#include "passes/lower_rows.hpp"

#include <algorithm>
#include <vector>

#include "passes/merge_ends.hpp"
#include "passes/output_loops.hpp"
#include "passes/tighten_indices.hpp"
#include "passes/verify.hpp"

namespace uopc {
namespace {

class RowLoops {
 public:
  RowLoops(std::span<const RowStage> stages, size_t axes, int64_t block, bool threads)
      : stages_(stages),
        graph_(stages[0].value.graph()),
        ctx_(graph_),
        shape_(stages[0].value.shape().begin(), stages[0].value.shape().begin() + static_cast<int64_t>(axes)),
        block_(block),
        threads_(threads) {}

  UOp run() {
    const int64_t rows = shape_.back(), whole = rows / block_ * block_;
    if (whole > 0) blocks(0, rows / block_, block_);
    if (whole < rows) blocks(whole, 1, rows - whole);
    const UOp program = ctx_.simplify(graph_.sink(effects_));
    return merge_ends(ctx_.simplify(tighten_indices(program)));
  }

 private:
  // `n` blocks of `size` rows, from row `begin` on.
  void blocks(int64_t begin, int64_t n, int64_t size) {
    around_.clear();
    row_.clear();
    Shape turns(shape_.begin(), shape_.end() - 1);
    turns.push_back(n);
    if (threads_ && count_elements(turns) > 1) {
      // One loop for all, so that there is enough to share.
      around_.push_back(ctx_.new_range(count_elements(turns), AxisType::Thread));
      row_ = unravel(around_[0], turns);
    } else {
      for (int64_t count : turns) {
        if (count != 1) around_.push_back(ctx_.new_range(count, AxisType::Loop));
        row_.push_back(count == 1 ? graph_.constant(0) : around_.back());
      }
    }
    row_.back() = row_.back() * graph_.constant(size) + graph_.constant(begin);
    for (UOp& i : row_) i = ctx_.simplify(i);
    scratch_.assign(stages_.size(), {});
    for (size_t k = 0; k < stages_.size(); k++) stage(k, size);
  }

  struct Scratch {
    UOp memory;
    std::vector<UOp> uses;  // the stores into it, and what the stages that read it store
  };

  // Where stage `k` stores: memory of its own, or that of a stage whose readers are done.
  UOp make_scratch(size_t k, int64_t elements) {
    Scratch& own = scratch_[k];
    std::vector<UOp> after = around_;
    if (const auto over = stages_[k].over) {
      own.memory = scratch_[*over].memory;
      after.insert(after.end(), scratch_[*over].uses.begin(), scratch_[*over].uses.end());
    } else {
      own.memory = ctx_.new_alloc(std::max<int64_t>(1, elements), stages_[k].value.dtype());
    }
    return own.memory.after(after);
  }

  void note_uses(size_t k, const std::vector<UOp>& stores) {
    scratch_[k].uses = stores;
    NodeSet read;
    post_order(stages_[k].value, [&](UOp u) { read.insert(u); });
    for (size_t i = 0; i < k; i++)
      if (read.contains(stages_[i].into)) scratch_[i].uses.insert(scratch_[i].uses.end(), stores.begin(), stores.end());
  }

  void stage(size_t k, int64_t size) {
    const RowStage& s = stages_[k];
    const bool last = k + 1 == stages_.size();
    const auto rest = s.value.shape().begin() + static_cast<int64_t>(shape_.size());
    Shape inner{size};
    inner.insert(inner.end(), rest, s.value.shape().end());
    const Opts opts = within_block(s.opts);
    ctx_.set_unroll(opts.unroll, lanes_reduce(inner, opts, LowerForm::Lanes));
    const UOp place = last ? s.into : make_scratch(k, count_elements(inner));
    std::vector<UOp> stores;
    for (const OutputNest& nest : output_loops(ctx_, inner, opts, LowerForm::Lanes).nests)
      for (const std::vector<UOp>& copy : nest.copies) {
        std::vector<UOp> index = row_;
        index.back() = ctx_.simplify(index.back() + copy[0]);
        index.insert(index.end(), copy.begin() + 1, copy.end());
        const UOp scalar = ctx_.rangeify(s.value, index);
        const UOp at = last ? ravel(graph_, index, s.value.shape()) : ctx_.simplify(ravel(graph_, copy, inner));
        const UOp store = place.index(at).store(scalar);
        stores.push_back(nest.ranges.empty() ? store : store.end(nest.ranges));
      }
    if (last) {
      const UOp all = stores.size() == 1 ? stores[0] : graph_.sink(stores);
      effects_.push_back(around_.empty() ? all : all.end(around_));
      return;
    }
    note_uses(k, stores);
    std::vector<UOp> first = row_;
    first.resize(s.value.shape().size(), graph_.constant(0));
    const auto base = linear_form(ctx_.simplify(ravel(graph_, first, s.value.shape())));
    if (!base) throw Error(ErrorCode::NotImplemented, "rows of more axes than an index has terms");
    ctx_.read_from(s.into, {scratch_[k].memory.after(stores), *base});
  }

  // The row axis is the first of the block's.
  Opts within_block(const Opts& o) const {
    Opts out;
    const int64_t first = static_cast<int64_t>(shape_.size()) - 1;
    for (const auto& [axis, n] : o.upcast)
      if (axis >= first) out.upcast[axis - first] = n;
    for (const auto& [axis, n] : o.tile)
      if (axis > first) out.tile[axis - first] = n;
    out.unroll = o.unroll;
    return out;
  }

  const std::span<const RowStage> stages_;
  Graph& graph_;
  Ctx ctx_;
  const Shape shape_;
  const int64_t block_;
  const bool threads_;
  std::vector<UOp> around_, row_;  // the loops around the blocks at hand, and the index of a block's first row
  std::vector<Scratch> scratch_;   // by stage
  std::vector<UOp> effects_;
};

}  // namespace

UOp lower_rows(std::span<const RowStage> stages, size_t axes, int64_t block, bool threads) {
  return RowLoops(stages, axes, block, threads).run();
}

}  // namespace uopc
