#include "passes/row_groups.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/bounds.hpp"
#include "ir/walk.hpp"
#include "passes/accesses.hpp"
#include "passes/linear_form.hpp"
#include "passes/verify.hpp"

namespace uopc {
namespace {

constexpr int64_t kBlock = 64;        // rows of a block whose kernels share operands between rows
constexpr double kWorthwhile = 0.75;  // of the bytes moved
// Turns of a kernel's innermost loop from which it is worth threads, and blocks that are then enough to share. No
// number of threads is asked for: sums would be made in another order where kernels stay apart.
constexpr int64_t kThreadWork = 1 << 16, kLeastBlocks = 16;

int64_t product(Shape::const_iterator begin, Shape::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

double bytes_of(UOp value) {
  return static_cast<double>(count_elements(value.shape())) * static_cast<double>(itemsize(value.dtype()));
}

class Grouper {
 public:
  Grouper(std::span<const RowCandidate> kernels, const Machine& machine) : kernels_(kernels), machine_(machine) {
    for (size_t k = 0; k < kernels.size(); k++)
      if (kernels[k].place) maker_.insert(kernels[k].place, k);
    readers_.resize(kernels.size());
    for (size_t k = 0; k < kernels.size(); k++)
      for (UOp b : kernels[k].inputs)
        if (const size_t* maker = maker_.find(b)) readers_[*maker].push_back(k);
    accesses_.resize(kernels.size());
  }

  std::vector<RowGroup> run() {
    std::vector<char> taken(kernels_.size(), 0);
    std::vector<RowGroup> out;
    for (size_t root = kernels_.size(); root-- > 0;) {
      if (taken[root] || !of_rows(root)) continue;
      auto group = best_group(root, taken);
      if (!group) continue;
      for (size_t m : group->members) taken[m] = 1;
      out.push_back(std::move(*group));
    }
    return out;
  }

 private:
  bool of_rows(size_t k) const { return kernels_[k].value.ndim() > 0 && count_elements(kernels_[k].value.shape()) > 0; }

  const Accesses& access(size_t k) {
    if (!accesses_[k]) accesses_[k] = accesses(kernels_[k].plain, kernels_[k].value.shape(), machine_);
    return *accesses_[k];
  }

  std::optional<RowGroup> best_group(size_t root, const std::vector<char>& taken) {
    const bool reads_any = std::ranges::any_of(kernels_[root].inputs, [&](UOp b) { return maker_.contains(b); });
    if (!reads_any) return {};
    std::optional<RowGroup> best;
    for (size_t axes = kernels_[root].value.shape().size(); axes > 0; axes--) {
      RowGroup g{closure(root, axes, taken), {}, axes, 0, false};
      // The first is read by none but the others, and those that it reads are not among them any more.
      while (g.members.size() > 1 && !fits(g)) g.members.erase(g.members.begin());
      if (g.members.size() > (best ? best->members.size() : 1)) best = std::move(g);
    }
    return best;
  }

  // `root` and what it takes in, with rows of `axes` axes.
  std::vector<size_t> closure(size_t root, size_t axes, const std::vector<char>& taken) {
    std::vector<size_t> members{root};
    for (size_t k = root; k-- > 0;) {
      if (taken[k] || !kernels_[k].place || !of_rows(k) || readers_[k].empty()) continue;
      const bool wanted = std::ranges::all_of(readers_[k], [&](size_t r) {
        return std::ranges::find(members, r) != members.end() && reads_own_row(r, k, axes);
      });
      if (wanted) members.push_back(k);
    }
    std::ranges::reverse(members);
    return members;
  }

  // Whether `reader` reads the result of `maker` at the row that it computes only.
  bool reads_own_row(size_t reader, size_t maker, size_t axes) {
    const Shape &to = kernels_[reader].value.shape(), &from = kernels_[maker].value.shape();
    if (to.size() < axes || from.size() < axes || !std::equal(to.begin(), to.begin() + axes, from.begin()))
      return false;
    const int64_t row = product(from.begin() + axes, from.end());
    const Accesses& all = access(reader);
    for (const Access& a : all.loads) {
      if (buffer_of(reader, a) != kernels_[maker].place) continue;
      auto rest = linear_form(a.index);
      if (!rest) return false;
      LinearForm at_row;
      for (size_t k = 0; k < axes; k++)
        if (all.loops[k]) at_row.terms[all.loops[k].id()] = {all.loops[k], product(from.begin() + k + 1, from.end())};
      const UOp within = rest->subtract(at_row).expression(a.index.graph());
      for (size_t k = 0; k < axes; k++)
        if (all.loops[k] && depends(within, all.loops[k])) return false;
      const Interval i = bounds_.of(within);
      if (i.empty() || i.lo < 0 || i.hi >= row) return false;
    }
    return true;
  }

  static bool depends(UOp u, UOp range) {
    bool found = false;
    post_order(u, [&](UOp v) { found |= v == range; });
    return found;
  }

  UOp buffer_of(size_t kernel, const Access& a) const {
    return kernels_[kernel].inputs[static_cast<size_t>(a.buffer.arg<ParamArg>().slot)];
  }

  // The last reader of a result that reads it at the element that it makes itself.
  std::vector<std::optional<size_t>> reuse(const std::vector<size_t>& members) {
    std::vector<std::optional<size_t>> over(members.size());
    for (size_t i = 0; i + 1 < members.size(); i++) {
      const UOp made = kernels_[members[i]].value;
      const size_t last = std::ranges::max(readers_[members[i]]);
      const auto j = static_cast<size_t>(std::ranges::find(members, last) - members.begin());
      const UOp value = kernels_[last].value;
      if (j + 1 < members.size() && !over[j] && value.dtype() == made.dtype() && value.shape() == made.shape() &&
          reads_own_row(last, members[i], value.shape().size()))
        over[j] = i;
    }
    return over;
  }

  // Chooses the block, and tells whether the group pays.
  bool fits(RowGroup& g) {
    const size_t row_axis = g.axes - 1;
    const Shape& shape = kernels_[g.members.back()].value.shape();
    const int64_t rows = shape[row_axis], outer = product(shape.begin(), shape.begin() + row_axis);
    int64_t factor = 1;
    bool threads = false;
    for (size_t m : g.members) {
      const Opts& o = kernels_[m].opts;
      for (const auto& [axis, n] : o.upcast) {
        if (axis < static_cast<int64_t>(row_axis)) return false;
        if (axis == static_cast<int64_t>(row_axis)) factor = std::max(factor, n);
      }
      if (o.tile.contains(static_cast<int64_t>(row_axis))) return false;
      threads |= access(m).turns() >= kThreadWork;
    }
    g.over = reuse(g.members);
    g.block = 1;
    if (factor > 1) {
      // As many rows as half of the cache holds, in whole tiles.
      const int64_t held = static_cast<int64_t>(static_cast<double>(machine_.cache) / 2 / row_bytes(g));
      g.block = std::min(rows, std::min(kBlock, held) / factor * factor);
      if (g.block < std::min(rows, 2 * factor)) return false;
    }
    const int64_t blocks = outer * ((rows + g.block - 1) / g.block);
    if (threads && blocks < kLeastBlocks) return false;
    g.threads = threads && machine_.threads > 1;
    return pays(g, blocks, outer);
  }

  // Of scratch.
  double row_bytes(const RowGroup& g) const {
    double bytes = 1;
    for (size_t i = 0; i + 1 < g.members.size(); i++) {
      const UOp value = kernels_[g.members[i]].value;
      const Shape& shape = value.shape();
      if (!g.over[i])
        bytes += static_cast<double>(product(shape.begin() + g.axes, shape.end())) *
                 static_cast<double>(itemsize(value.dtype()));
    }
    return bytes;
  }

  bool pays(const RowGroup& g, int64_t blocks, int64_t outer) {
    const double scratch = row_bytes(g) * static_cast<double>(g.block);
    double apart = 0, rows_read = 0, shared_size = 0, shared_read = 0;
    NodeSet seen;
    for (size_t m : g.members) {
      const RowCandidate& k = kernels_[m];
      apart += bytes_of(k.value);
      NodeSet own;
      for (const Access& a : access(m).loads) {
        const UOp b = buffer_of(m, a);
        if (!own.insert(b)) continue;
        apart += bytes_of(b);
        const size_t* maker = maker_.find(b);
        if ((maker && std::ranges::find(g.members, *maker) != g.members.end()) || !seen.insert(b)) continue;
        if (a.strides[g.axes - 1] != 0) {
          rows_read += bytes_of(b);
        } else {
          const bool moves = std::ranges::any_of(a.strides.begin(), a.strides.begin() + (g.axes - 1),
                                                 [](int64_t s) { return s != 0; });
          shared_size += bytes_of(b) / static_cast<double>(moves ? outer : 1);
          shared_read += bytes_of(b) * static_cast<double>(blocks) / static_cast<double>(moves ? outer : 1);
        }
      }
    }
    const double cache = static_cast<double>(machine_.cache) / 2;
    if (scratch > cache) return false;
    const double result = bytes_of(kernels_[g.members.back()].value);
    const double together = result + rows_read + (shared_size + scratch <= cache ? shared_size : shared_read);
    return together <= apart * kWorthwhile;
  }

  const std::span<const RowCandidate> kernels_;
  const Machine& machine_;
  NodeMap<size_t> maker_;  // by place
  std::vector<std::vector<size_t>> readers_;
  std::vector<std::optional<Accesses>> accesses_;
  Bounds bounds_;
};

}  // namespace

std::vector<RowGroup> row_groups(std::span<const RowCandidate> kernels, const Machine& machine) {
  return Grouper(kernels, machine).run();
}

}  // namespace uopc
