#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/py_text.hpp"
#include "tensor/operands.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

using Bounds = std::vector<std::pair<int64_t, int64_t>>;

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorCode::Type, fmt::format(text, std::forward<Args>(args)...));
}

// A tensor of its own: `assign` to it does not change `of`.
Tensor apart_from(UOp u, const Tensor& of) {
  return make_tensor(u, {of});
}

Bounds whole(const Shape& shape) {
  Bounds b;
  for (int64_t d : shape) b.emplace_back(0, d);
  return b;
}

// Keeps [begin, end) of one axis.
UOp cut(UOp u, size_t axis, int64_t begin, int64_t end) {
  if (begin == 0 && end == u.shape()[axis]) return u;
  Bounds bounds = whole(u.shape());
  bounds[axis] = {begin, end};
  return u.shrink(std::move(bounds));
}

// Two blocks one after the other on axis 0, their values untouched: the first stands at the end of a block of the
// larger size, the second at the beginning of one.
UOp join(UOp a, UOp b) {
  const int64_t n = std::max(a.shape()[0], b.shape()[0]);
  if (a.shape()[0] == 0) return b;
  if (b.shape()[0] == 0) return a;
  Bounds front = Bounds(static_cast<size_t>(a.ndim())), back = front;
  front[0] = {n - a.shape()[0], 0};
  back[0] = {0, n - b.shape()[0]};
  const UOp both = a.graph().stack({pad(a, front), pad(b, back)});
  Shape shape(both.shape().begin() + 1, both.shape().end());
  shape[0] *= 2;
  return cut(both.reshape(shape), 0, n - a.shape()[0], n + b.shape()[0]);
}

Shape moved(int64_t ndim, int64_t from, int64_t to) {
  Shape order;
  for (int64_t k = 0; k < ndim; k++)
    if (k != from) order.push_back(k);
  order.insert(order.begin() + to, from);
  return order;
}

// The elements begin, begin + step, ... of one axis, `count` of them. They stand at one place in rows of `step`
// elements: a view where the axis has room for whole rows, and padded to it elsewhere.
UOp every(UOp u, size_t axis, int64_t begin, int64_t step, int64_t count) {
  if (count <= 1 || step == 1) return cut(u, axis, begin, begin + count);
  const int64_t n = u.shape()[axis], first = std::max<int64_t>(0, std::min(begin, n - count * step));
  if (first + count * step > n) {
    Bounds more(u.shape().size());
    more[axis].second = first + count * step - n;
    u = pad(u, more);
  }
  u = cut(u, axis, first, first + count * step);
  Shape rows = u.shape(), out = u.shape();
  rows[axis] = out[axis] = count;
  rows.insert(rows.begin() + static_cast<int64_t>(axis) + 1, step);
  return cut(u.reshape(rows), axis + 1, begin - first, begin - first + 1).reshape(out);
}

// One axis of `at`: as Python's slice.indices.
UOp slice(UOp u, size_t axis, const Slice& s) {
  if (s.step == 0) fail("at: a step of 0");
  const int64_t n = u.shape()[axis];
  const bool down = s.step < 0;
  const int64_t low = down ? -1 : 0, high = down ? n - 1 : n;  // -1: before the first
  const auto place = [&](std::optional<int64_t> i, int64_t absent) {
    return !i ? absent : std::clamp(*i < 0 ? *i + n : *i, low, high);
  };
  const int64_t from = place(s.begin, down ? high : low), to = place(s.end, down ? low : high);
  const int64_t distance = down ? from - to : to - from, step = down ? -std::max(s.step, -INT64_MAX) : s.step;
  if (distance <= 0) return cut(u, axis, 0, 0);
  const int64_t count = (distance - 1) / step + 1;
  u = every(u, axis, down ? from - (count - 1) * step : from, step, count);
  return down ? flip_axis(u, static_cast<int64_t>(axis)) : u;
}

// 0 above (or below) a diagonal of the last two axes.
Tensor triangle(const char* operation, const Tensor& t, int64_t diagonal, bool lower) {
  if (t.ndim() < 2) fail("{} of {}: two axes are needed", operation, py_tuple(t.shape()));
  const int64_t m = t.size(-2), n = t.size(-1);
  const Tensor rows = iota(t.context(), m).unsqueeze(-1), columns = iota(t.context(), n);
  const Tensor edge = rows + std::clamp(diagonal, -m, n);  // beyond those nothing changes
  const UOp u = uop_of(t), keep = uop_of(lower ? columns <= edge : columns >= edge).broadcast_to(u.shape());
  return make_tensor(keep.where(u, u.const_like(0)), {t, rows, columns});
}

}  // namespace

Tensor Tensor::reshape(Shape to) const {
  const UOp x = uop_of(*this);
  Shape known = to;
  int64_t open = -1;
  for (size_t k = 0; k < to.size(); k++) {
    if (to[k] >= 0) continue;
    if (to[k] != -1 || open >= 0) fail("reshape of {} to {}: one size may be -1", py_tuple(shape()), py_tuple(to));
    open = static_cast<int64_t>(k);
    known[k] = 1;
  }
  const int64_t n = count_of(known);
  if (open >= 0) {
    if (n == 0 || numel() % n != 0)
      fail("reshape of {} to {}: {} elements do not divide", py_tuple(shape()), py_tuple(to), numel());
    to[static_cast<size_t>(open)] = numel() / n;
  } else if (n != numel()) {
    fail("reshape of {} to {}: another number of elements", py_tuple(shape()), py_tuple(to));
  }
  return to == shape() ? same_view(*this) : make_view(x.reshape(std::move(to)), *this);
}

Tensor Tensor::expand(Shape to) const {
  const UOp x = uop_of(*this);
  const auto more = static_cast<int64_t>(to.size()) - ndim();
  if (more < 0) fail("expand of {} to {}: fewer axes", py_tuple(shape()), py_tuple(to));
  for (size_t k = 0; k < to.size(); k++) {
    const bool added = static_cast<int64_t>(k) < more;
    const int64_t own = added ? 1 : shape()[k - static_cast<size_t>(more)];
    if (to[k] == -1 && !added) to[k] = own;
    if (to[k] < 0 || (own != to[k] && own != 1)) fail("expand of {} to {}", py_tuple(shape()), py_tuple(to));
  }
  // Beside a reduction it may be more than memory has; it has a number all the same.
  if (count_of(to) == INT64_MAX) fail("expand of {} to {}: too many elements", py_tuple(shape()), py_tuple(to));
  return to == shape() ? same_view(*this) : make_view(x.broadcast_to(to), *this);
}

Tensor Tensor::permute(Shape order) const {
  const UOp x = uop_of(*this);
  if (static_cast<int64_t>(order.size()) != ndim())
    fail("permute of {} takes {} axes, not {}", py_tuple(shape()), ndim(), order.size());
  for (int64_t& k : order) k = normal_axis("permute", k, ndim());
  Shape sorted = order;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) fail("permute: {} names an axis twice", py_tuple(order));
  return std::ranges::is_sorted(order) ? same_view(*this) : make_view(x.permute(std::move(order)), *this);
}
Tensor Tensor::transpose(int64_t a, int64_t b) const {
  Shape order(static_cast<size_t>(ndim()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(normal_axis("transpose", a, ndim()))],
            order[static_cast<size_t>(normal_axis("transpose", b, ndim()))]);
  return permute(std::move(order));
}
Tensor Tensor::T() const {
  Shape order(static_cast<size_t>(ndim()));
  std::iota(order.rbegin(), order.rend(), 0);
  return permute(std::move(order));
}

Tensor Tensor::movedim(int64_t from, int64_t to) const {
  return permute(moved(ndim(), normal_axis("movedim", from, ndim()), normal_axis("movedim", to, ndim())));
}

Tensor Tensor::shrink(Bounds bounds) const {
  const UOp x = uop_of(*this);
  if (static_cast<int64_t>(bounds.size()) != ndim())
    fail("shrink of {} takes a (begin, end) an axis, not {}", py_tuple(shape()), bounds.size());
  for (size_t k = 0; k < bounds.size(); k++)
    if (bounds[k].first < 0 || bounds[k].first > bounds[k].second || bounds[k].second > shape()[k])
      fail("shrink of axis {} of {} to ({}, {})", k, py_tuple(shape()), bounds[k].first, bounds[k].second);
  return bounds == whole(shape()) ? same_view(*this) : make_view(x.shrink(std::move(bounds)), *this);
}
Tensor Tensor::narrow(int64_t axis, int64_t start, int64_t length) const {
  const int64_t k = normal_axis("narrow", axis, ndim()), n = size(k), begin = start < 0 ? start + n : start;
  if (begin < 0 || begin > n || length < 0 || length > n - begin)
    fail("narrow: {} from {} on in an axis of {}", length, start, n);
  Bounds b = whole(shape());
  b[static_cast<size_t>(k)] = {begin, begin + length};
  return shrink(std::move(b));
}

Tensor Tensor::at(std::vector<At> places) const {
  int64_t used = 0;
  bool open = false;
  for (const At& p : places) {
    used += p.kind == At::Kind::Number || p.kind == At::Kind::Slice;
    if (p.kind == At::Kind::Ellipsis && std::exchange(open, true)) fail("at: two ellipses");
  }
  if (used > ndim()) fail("at: {} places in a tensor of {} axes", used, ndim());
  UOp x = uop_of(*this);
  Shape out;
  size_t k = 0;
  const auto keep = [&] { out.push_back(x.shape()[k++]); };
  for (const At& p : places) switch (p.kind) {
      case At::Kind::Number: {
        const int64_t n = x.shape()[k], i = p.number < 0 ? p.number + n : p.number;
        if (i < 0 || i >= n) fail("at: {} in an axis of {}", p.number, n);
        x = cut(x, k++, i, i + 1);
        break;
      }
      case At::Kind::Slice:
        x = slice(x, k, p.slice);
        keep();
        break;
      case At::Kind::NewAxis:
        out.push_back(1);
        break;
      case At::Kind::Ellipsis:
        for (int64_t i = used; i < ndim(); i++) keep();
        break;
    }
  while (k < x.shape().size()) keep();
  if (x.shape() != out) x = x.reshape(std::move(out));
  if (x == uop_of(*this)) return same_view(*this);
  UOp from = x;
  while (from != uop_of(*this) && (from.is(Op::Reshape) || from.is(Op::Shrink))) from = from.src(0);
  return from == uop_of(*this) ? make_view(x, *this) : make_rearranged(x, *this);
}

Tensor Tensor::pad(Bounds around, Scalar value) const {
  if (static_cast<int64_t>(around.size()) != ndim())
    fail("pad of {} takes a (before, after) an axis, not {}", py_tuple(shape()), around.size());
  Bounds kept = whole(shape());
  bool grows = false;
  for (size_t k = 0; k < around.size(); k++) {
    auto& [before, after] = around[k];
    const int64_t n = shape()[k];
    if (before < -n || after < -n || before > INT32_MAX || after > INT32_MAX)
      fail("pad of axis {} of {} by ({}, {})", k, py_tuple(shape()), before, after);
    kept[k] = {std::max<int64_t>(0, -before), n - std::max<int64_t>(0, -after)};
    if (kept[k].first > kept[k].second) fail("pad of axis {} of {} by ({}, {})", k, py_tuple(shape()), before, after);
    before = std::max<int64_t>(0, before);
    after = std::max<int64_t>(0, after);
    grows = grows || before || after;
  }
  const Tensor x = shrink(kept);
  if (!grows) return x;
  const UOp u = uop_of(x);
  const UOp padded = uopc::pad(u, around);
  if (u.const_like(value) == u.const_like(0)) return make_tensor(padded, {x});
  const UOp inside = uopc::pad(u.graph().constant(true).broadcast_to(u.shape()), around);
  return make_tensor(inside.where(padded, padded.const_like(value)), {x});
}

Tensor Tensor::flip(Axes axes) const {
  UOp x = uop_of(*this);
  for (int64_t k : normal_axes("flip", axes, ndim())) x = flip_axis(x, k);
  return make_rearranged(x, *this);
}

Tensor Tensor::cat(std::span<const Tensor> parts, int64_t axis) {
  if (parts.empty()) fail("cat of no tensors");
  check_one_context(parts, "cat");
  const int64_t k = normal_axis("cat", axis, parts[0].ndim());
  DType d = parts[0].dtype();
  for (const Tensor& p : parts) {
    d = promote(d, p.dtype());
    Shape same = p.shape();
    if (p.ndim() == parts[0].ndim()) same[static_cast<size_t>(k)] = parts[0].size(k);
    if (same != parts[0].shape())
      fail("cat on axis {} of {} and {}", k, py_tuple(parts[0].shape()), py_tuple(p.shape()));
  }
  const Shape to_front = moved(parts[0].ndim(), k, 0), back = moved(parts[0].ndim(), 0, k);
  std::vector<UOp> blocks;
  for (const Tensor& p : parts) blocks.push_back(uop_of(p).cast(d).permute(to_front));
  while (blocks.size() > 1) {
    std::vector<UOp> pairs;
    for (size_t i = 0; i < blocks.size(); i += 2)
      pairs.push_back(i + 1 < blocks.size() ? join(blocks[i], blocks[i + 1]) : blocks[i]);
    blocks = std::move(pairs);
  }
  return make_tensor(blocks[0].permute(back), parts);
}
Tensor Tensor::stack(std::span<const Tensor> parts, int64_t axis) {
  if (parts.empty()) fail("stack of no tensors");
  check_one_context(parts, "stack");
  DType d = parts[0].dtype();
  for (const Tensor& p : parts) {
    d = promote(d, p.dtype());
    if (p.shape() != parts[0].shape()) fail("stack of {} and {}", py_tuple(parts[0].shape()), py_tuple(p.shape()));
  }
  const int64_t n = parts[0].ndim() + 1, k = normal_axis("stack", axis, n);
  std::vector<UOp> all;
  for (const Tensor& p : parts) all.push_back(uop_of(p).cast(d));
  const UOp stacked = all[0].graph().stack(all);
  return make_tensor(k == 0 ? stacked : stacked.permute(moved(n, 0, k)), parts);
}
std::vector<Tensor> Tensor::split(int64_t size, int64_t axis) const {
  if (size < 1) fail("split into pieces of {}", size);
  const int64_t n = this->size(normal_axis("split", axis, ndim()));
  std::vector<Tensor> out;
  for (int64_t i = 0; i < std::max<int64_t>(n, 1); i += size) out.push_back(narrow(axis, i, std::min(size, n - i)));
  return out;
}
std::vector<Tensor> Tensor::split(Shape sizes, int64_t axis) const {
  const int64_t k = normal_axis("split", axis, ndim()), n = size(k);
  int64_t begin = 0;
  std::vector<Tensor> out;
  for (int64_t d : sizes) {
    if (d < 0 || d > n - begin) fail("split: {} do not add up to an axis of {}", py_tuple(sizes), n);
    out.push_back(narrow(k, begin, d));
    begin += d;
  }
  if (begin != n) fail("split: {} do not add up to an axis of {}", py_tuple(sizes), n);
  return out;
}
std::vector<Tensor> Tensor::chunk(int64_t n, int64_t axis) const {
  if (n < 1) fail("chunk into {} pieces", n);
  const int64_t whole = size(normal_axis("chunk", axis, ndim()));
  return split(whole == 0 ? 1 : (whole - 1) / n + 1, axis);
}
Tensor Tensor::repeat(Shape times) const {
  if (static_cast<int64_t>(times.size()) < ndim()) fail("repeat of {} takes a number an axis", py_tuple(shape()));
  Shape base(times.size() - shape().size(), 1), apart, wide, out;
  base.insert(base.end(), shape().begin(), shape().end());
  for (size_t k = 0; k < times.size(); k++) {
    if (times[k] < 0) fail("repeat {} times", times[k]);
    apart.insert(apart.end(), {1, base[k]});
    wide.insert(wide.end(), {times[k], base[k]});
    out.push_back(count_of({times[k], base[k]}));
  }
  if (count_of(out) > INT32_MAX)
    fail("repeat of {} by {}: more than 2**31 - 1 elements", py_tuple(shape()), py_tuple(times));
  return apart_from(uop_of(*this).reshape(apart).expand(wide).reshape(out), *this);
}
Tensor Tensor::repeat_interleave(int64_t times, int64_t axis) const {
  const int64_t k = normal_axis("repeat_interleave", axis, ndim());
  if (times < 0) fail("repeat_interleave {} times", times);
  Shape wide = shape();
  wide.insert(wide.begin() + k + 1, times);
  Shape out = shape();
  out[static_cast<size_t>(k)] = count_of({out[static_cast<size_t>(k)], times});
  if (count_of(out) > INT32_MAX) fail("repeat_interleave {} times: more than 2**31 - 1 elements", times);
  return apart_from(uop_of(unsqueeze(k + 1)).expand(wide).reshape(out), *this);
}
Tensor Tensor::squeeze(Axes axes) const {
  const auto list = normal_axes("squeeze", axes, ndim());
  Shape out;
  for (int64_t k = 0; k < ndim(); k++)
    if (size(k) != 1 || !std::ranges::binary_search(list, k)) out.push_back(size(k));
  return reshape(out);
}
Tensor Tensor::unsqueeze(int64_t axis) const {
  Shape out = shape();
  out.insert(out.begin() + normal_axis("unsqueeze", axis, ndim() + 1), 1);
  return reshape(out);
}
Tensor Tensor::flatten(int64_t first, int64_t last) const {
  if (ndim() == 0) return reshape({1});
  const int64_t a = normal_axis("flatten", first, ndim()), b = normal_axis("flatten", last, ndim());
  if (a > b) fail("flatten from axis {} to axis {}", first, last);
  Shape out(shape().begin(), shape().begin() + a);
  int64_t n = 1;
  for (int64_t k = a; k <= b; k++) n *= size(k);
  out.push_back(n);
  out.insert(out.end(), shape().begin() + b + 1, shape().end());
  return reshape(out);
}
Tensor Tensor::unflatten(int64_t axis, Shape sizes) const {
  const int64_t k = normal_axis("unflatten", axis, ndim());
  if (std::ranges::count(sizes, -1) == 0 && count_of(sizes) != size(k))
    fail("unflatten of axis {} of {} to {}", k, py_tuple(shape()), py_tuple(sizes));
  Shape out = shape();
  out.erase(out.begin() + k);
  out.insert(out.begin() + k, sizes.begin(), sizes.end());
  return reshape(out);
}
Tensor Tensor::roll(int64_t shift, int64_t axis) const {
  const int64_t k = normal_axis("roll", axis, ndim()), n = size(k);
  const int64_t by = n == 0 ? 0 : (shift % n + n) % n;
  return by == 0 ? same_value(*this) : cat({narrow(k, n - by, by), narrow(k, 0, n - by)}, k);
}
Tensor Tensor::tril(int64_t diagonal) const {
  return triangle("tril", *this, diagonal, true);
}
Tensor Tensor::triu(int64_t diagonal) const {
  return triangle("triu", *this, diagonal, false);
}

}  // namespace uopc
