#include "passes/accesses.hpp"

#include <algorithm>

#include "ir/walk.hpp"
#include "passes/linear_form.hpp"
#include "passes/output_loops.hpp"

namespace uopc {
namespace {

int64_t turns_of(UOp range) {
  return range && range.src(0).is_const() ? range.src(0).value().as_int() : 1;
}

bool contains(UOp u, UOp range) {
  bool found = false;
  post_order(u, [&](UOp v) { found |= v == range; });
  return found;
}

// range % width, or range // width.
bool is_part(UOp u, Op op, UOp range, int64_t width) {
  return u.is(op) && u.src(0) == range && u.src(1).is_const() && u.src(1).value().as_int() == width;
}

int64_t stride(const std::optional<LinearForm>& form, UOp range, int64_t width, bool* in_panels = nullptr) {
  if (!range) return 0;
  if (!form) return Access::kIrregular;
  int64_t whole = 0, within = 0;
  bool blocks = false;
  for (const auto& [id, term] : form->terms) {
    const auto& [u, factor] = term;
    if (u == range)
      whole = factor;
    else if (is_part(u, Op::FloorMod, range, width))
      within = factor;
    else if (is_part(u, Op::FloorDiv, range, width))
      blocks = true;
    else if (!u.is(Op::Range) && contains(u, range))
      return Access::kIrregular;
  }
  if (within == 0 && !blocks) return whole;
  if (in_panels) *in_panels = true;
  return whole == 0 && within != 0 ? within : Access::kIrregular;
}

}  // namespace

bool Access::reduced() const {
  return std::ranges::any_of(reduce_strides, [](int64_t s) { return s != 0; });
}

int64_t Accesses::turns() const {
  int64_t n = 1;
  for (const auto* list : {&loops, &reduce})
    for (UOp r : *list) n = std::min<int64_t>(INT32_MAX, n * turns_of(r));
  return n;
}

int64_t lane_width(int64_t size, const Machine& machine) {
  return size >= machine.tile_lanes() ? machine.tile_lanes() : lanes_of(size);
}

Accesses accesses(UOp plain, const Shape& shape, const Machine& machine) {
  Accesses out;
  std::vector<UOp> ranges, places;
  post_order(plain, [&](UOp u) {
    if (u.is(Op::Range)) (u.arg<RangeArg>().kind == AxisType::Reduce ? out.reduce : ranges).push_back(u);
    if (u.is(Op::Load) && u.src(0).is(Op::Index) && u.src(0).src(0).is(Op::Buffer)) places.push_back(u.src(0));
  });
  const auto idx = [](UOp u) { return u.arg<RangeArg>().idx; };
  std::ranges::sort(ranges, {}, idx);
  std::ranges::sort(out.reduce, {}, idx);
  // The plain form has a loop for each axis that is not of size 1, in their order; unused ones are not in the program.
  out.loops.assign(shape.size(), UOp());
  int64_t number = 0;
  for (size_t k = 0; k < shape.size(); k++) {
    if (shape[k] == 1) continue;
    const auto at = std::ranges::find(ranges, number++, idx);
    if (at != ranges.end()) out.loops[k] = *at;
  }
  for (UOp place : places) {
    Access a;
    a.buffer = place.src(0);
    a.index = place.src(1);
    const auto form = linear_form(a.index);
    for (size_t k = 0; k < shape.size(); k++) {
      bool in_panels = false;
      a.strides.push_back(stride(form, out.loops[k], lane_width(shape[k], machine), &in_panels));
      a.in_panels.push_back(in_panels);
    }
    for (UOp r : out.reduce) a.reduce_strides.push_back(stride(form, r, 0));
    out.loads.push_back(std::move(a));
  }
  return out;
}

}  // namespace uopc
