#include "passes/check_opts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/py_text.hpp"
#include "ir/walk.hpp"
#include "passes/output_loops.hpp"
#include "passes/rangeify.hpp"
#include "passes/verify.hpp"

namespace uopc {
namespace {

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorCode::Type, fmt::format(text, std::forward<Args>(args)...));
}

void check_axis(const char* field, int64_t axis, const Shape& shape) {
  if (axis < 0 || axis >= static_cast<int64_t>(shape.size()))
    fail("Opts.{}: there is no axis {} in an output of shape {}", field, axis, py_tuple(shape));
}

void check_factors(const char* field, const std::map<int64_t, int64_t>& factors, const Shape& shape, LowerForm form) {
  for (const auto& [axis, n] : factors) {
    check_axis(field, axis, shape);
    const int64_t size = shape[static_cast<size_t>(axis)];
    if (n < 1) fail("Opts.{} of axis {} is {}; it is 1 or more", field, axis, n);
    if (form == LowerForm::Unrolled && size % n != 0)
      fail("Opts.{} of axis {}: {} does not divide its size {}", field, axis, n, size);
  }
}

void check_tiles(const Opts& opts) {
  for (const auto& [axis, n] : opts.tile) {
    const auto upcast = opts.upcast.find(axis);
    if (upcast != opts.upcast.end() && n % upcast->second != 0)
      fail("Opts.tile of axis {}: {} is no multiple of its upcast {}", axis, n, upcast->second);
  }
}

// Returns into how many copies it makes a body at most.
int64_t check_unroll(UOp value, const Opts& opts, LowerForm form) {
  const int64_t unroll = opts.unroll;
  if (unroll < 1) fail("Opts.unroll is {}; it is 1 or more", unroll);
  if (unroll == 1) return 1;
  const bool lanes = lanes_reduce(value.shape(), opts, form);  // copies of one body, which need not divide
  bool reduces = false;
  int64_t copies = 1;
  post_order(value, [&](UOp u) {
    if (!u.is(Op::Reduce)) return;
    reduces = true;
    const auto axis = innermost_reduced(u);
    const int64_t size = axis ? u.src(0).shape()[*axis] : 0;
    if (lanes) return;
    if (size % unroll != 0)
      fail("Opts.unroll: {} does not divide {}, the size of axis {} of {}", unroll, size, *axis, describe(u));
    if (size > 0) copies = unroll;
  });
  if (!reduces) fail("Opts.unroll is {}, but there is no REDUCE", unroll);
  return copies;
}

// `unrolled` of the body's copies are those of a REDUCE.
void check_copies(UOp value, const Opts& opts, LowerForm form, int64_t unrolled) {
  const SplitAxes axes = split_axes(value.shape(), opts, form);
  int64_t copies = std::min(unrolled, kMaxCopies + 1), bodies = copies;  // lanes are copies of one body
  for (size_t k = 0; k < axes.pieces.size(); k++) {
    int64_t n = 0;
    for (const AxisPiece& p : axes.pieces[k]) n += std::min(p.copies, kMaxCopies + 1);
    copies = std::min(copies * n, kMaxCopies + 1);
    bodies = std::min(bodies * (axes.lanes == k ? std::ssize(axes.pieces[k]) : n), kMaxCopies + 1);
  }
  if (copies > kMaxCopies)
    fail("Opts.upcast and Opts.unroll{} ask for more than {} copies of the kernel's body",
         form == LowerForm::Lanes ? ", lanes included," : "", kMaxCopies);
  if (bodies == 1) return;
  int64_t nodes = 0;
  post_order(value, [&](UOp) { nodes++; });
  if (nodes * bodies > kMaxCopiedNodes)
    fail("Opts.upcast and Opts.unroll ask for {} copies of {} nodes; {} in all are the most", bodies, nodes,
         kMaxCopiedNodes);
}

}  // namespace

void check_opts(UOp value, const Opts& opts, LowerForm form) {
  for (const auto& [field, set] : {std::pair{"gpu", opts.gpu}, {"local", !opts.local.empty()}})
    if (set) throw Error(ErrorCode::NotImplemented, fmt::format("Opts.{} is not yet supported", field));
  const Shape& shape = value.shape();
  if (opts.thread) check_axis("thread", *opts.thread, shape);
  check_factors("upcast", opts.upcast, shape, form);
  check_factors("tile", opts.tile, shape, form);
  check_tiles(opts);
  check_copies(value, opts, form, check_unroll(value, opts, form));
}

}  // namespace uopc
