#include "passes/split_reductions.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/walk.hpp"
#include "passes/verify.hpp"

namespace uopc {
namespace {

// Results from which threads share those, and elements from which a second kernel pays.
constexpr int64_t kFewResults = 16, kManyElements = 1 << 18;
constexpr int64_t kMostParts = 64, kLeastParts = 32;

// The first that has enough elements: the stretches stay as long as they can be.
std::optional<size_t> axis_to_split(UOp reduce) {
  const Shape& shape = reduce.src(0).shape();
  for (size_t k = reduce.shape().size(); k < shape.size(); k++)
    if (shape[k] >= kMostParts) return k;
  return {};
}

// So many that little is left over.
int64_t parts_of(int64_t size) {
  int64_t best = kMostParts;
  for (int64_t n = kMostParts; n >= kLeastParts; n--)
    if (size % n < size % best) best = n;
  return best;
}

UOp part_of_axis(UOp x, size_t axis, int64_t begin, int64_t end) {
  std::vector<std::pair<int64_t, int64_t>> bounds;
  for (int64_t d : x.shape()) bounds.emplace_back(0, d);
  if (bounds[axis] == std::pair{begin, end}) return x;
  bounds[axis] = {begin, end};
  return x.shrink(bounds);
}

UOp split(UOp reduce) {
  if (!reduce.is(Op::Reduce)) return reduce;
  const UOp x = reduce.src(0);
  const Shape& kept = reduce.shape();
  const auto axis = axis_to_split(reduce);
  const int64_t elements = count_elements(x.shape());
  if (!axis || count_elements(kept) > kFewResults || elements < kManyElements || elements > kMaxElements) return reduce;
  const auto& [op, n] = reduce.arg<ReduceArg>();
  const int64_t size = x.shape()[*axis], parts = parts_of(size), whole = size / parts * parts;

  const UOp main = part_of_axis(x, *axis, 0, whole);
  Shape cut = main.shape(), order(cut.size() + 1);
  cut[*axis] /= parts;
  cut.insert(cut.begin() + static_cast<int64_t>(*axis), parts);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + static_cast<int64_t>(kept.size()), order.begin() + static_cast<int64_t>(*axis),
              order.begin() + static_cast<int64_t>(*axis) + 1);
  const UOp cells = main.reshape(cut).permute(order).reduce(op, n).stage();
  const UOp all = cells.reduce(op, 1);
  if (whole == size) return all;
  return reduce.graph().make(op, {all, part_of_axis(x, *axis, whole, size).reduce(op, n)});
}

}  // namespace

std::vector<UOp> split_reductions(std::span<const UOp> roots) {
  NodeMap<UOp> images;
  std::vector<UOp> out;
  for (UOp root : roots) out.push_back(map_graph(root, images, [](UOp, UOp u) { return split(u); }));
  return out;
}

}  // namespace uopc
