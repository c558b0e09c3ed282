#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/py_text.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Type, message);
}

// The permutation that exchanges two axes; its own inverse.
Shape exchange(int64_t ndim, int64_t a, int64_t b) {
  Shape order(static_cast<size_t>(ndim));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return order;
}

// The parts one after the other on axis 0.
UOp join(std::initializer_list<UOp> parts) {
  const UOp stacked = parts.begin()->graph().stack(std::span(parts.begin(), parts.size()));
  Shape shape(stacked.shape().begin() + 1, stacked.shape().end());
  shape[0] *= stacked.shape()[0];
  return stacked.reshape(shape);
}

// Keeps [begin, end) of axis 0.
UOp cut(UOp x, int64_t begin, int64_t end) {
  if (begin == 0 && end == x.shape()[0]) return x;
  std::vector<std::pair<int64_t, int64_t>> bounds;
  for (int64_t d : x.shape()) bounds.emplace_back(0, d);
  bounds[0] = {begin, end};
  return x.shrink(bounds);
}

// Blocks of zeros as large as `x` beside it, of which the part asked for is kept. `x` doubles until one block is
// enough.
UOp pad_front_axis(UOp x, int64_t before, int64_t after) {
  Shape shape = x.shape();
  if (shape[0] == 0) {
    shape[0] = before + after;
    return x.graph().constant(0, x.dtype()).broadcast_to(shape);
  }
  while (before > x.shape()[0]) {
    before -= x.shape()[0];
    x = join({x.const_like(0), x});
  }
  while (after > x.shape()[0]) {
    after -= x.shape()[0];
    x = join({x, x.const_like(0)});
  }
  const int64_t n = x.shape()[0];
  const UOp zeros = x.const_like(0);
  if (before == 0) return after == 0 ? x : cut(join({x, zeros}), 0, n + after);
  if (after == 0) return cut(join({zeros, x}), n - before, 2 * n);
  return cut(join({zeros, x, zeros}), n - before, 2 * n + after);
}

// The n x n matrix that is true where row + column = n - 1. In flat order those are the places (n-1), 2(n-1), ..
// n(n-1): a row of n-1 with a single 1, repeated.
UOp anti_diagonal(Graph& graph, int64_t n) {
  const auto pad_flat = [](UOp u, int64_t before, int64_t after) {
    const std::pair<int64_t, int64_t> amount{before, after};
    return pad(u, std::span(&amount, 1));
  };
  const UOp row = pad_flat(graph.constant(true).reshape({1}), 0, n - 2);
  const UOp rows = row.reshape({1, n - 1}).expand({n, n - 1}).reshape({n * (n - 1)});
  return pad_flat(rows, n - 1, 1).reshape({n, n});
}

}  // namespace

UOp pad(UOp x, std::span<const std::pair<int64_t, int64_t>> before_after) {
  const int64_t ndim = x.ndim();
  if (static_cast<int64_t>(before_after.size()) != ndim)
    fail(fmt::format("pad of shape {} takes one (before, after) pair an axis, got {}", py_tuple(x.shape()),
                     before_after.size()));
  for (int64_t k = 0; k < ndim; k++) {
    const auto [before, after] = before_after[static_cast<size_t>(k)];
    const int64_t n = x.shape()[static_cast<size_t>(k)];
    if (before < 0 || after < 0) fail(fmt::format("pad of axis {} by a negative amount: ({}, {})", k, before, after));
    if (before > INT32_MAX || after > INT32_MAX || n + before + after > INT32_MAX)
      fail(fmt::format("pad of axis {} by ({}, {}): an index exceeds i32", k, before, after));
    if (before == 0 && after == 0) continue;
    if (k == 0) {
      x = pad_front_axis(x, before, after);
      continue;
    }
    const Shape order = exchange(ndim, 0, k);
    x = pad_front_axis(x.permute(order), before, after).permute(order);
  }
  return x;
}

UOp flip_axis(UOp x, int64_t axis) {
  const int64_t ndim = x.ndim();
  if (axis < 0 || axis >= ndim) fail(fmt::format("flip of axis {} of shape {}", axis, py_tuple(x.shape())));
  const int64_t n = x.shape()[static_cast<size_t>(axis)];
  if (n < 2) return x;
  if (n > 46340) fail(fmt::format("flip of an axis of {}: a flat index exceeds i32", n));
  const Shape order = exchange(ndim, axis, ndim - 1);
  const UOp last = x.permute(order);
  Shape rows = last.shape();  // (..., 1, n), then (..., n, n)
  rows.insert(rows.end() - 1, 1);
  Shape square = rows;
  square[square.size() - 2] = n;
  const UOp wide = last.reshape(rows).expand(square);
  const UOp chosen = anti_diagonal(x.graph(), n).broadcast_to(square);
  return chosen.where(wide, wide.const_like(0)).reduce(Op::Add, 1).permute(order);
}

}  // namespace uopc
