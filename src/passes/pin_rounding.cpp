// One value, one rounding.
//
// Two kernels that compute the same expression may round it differently: one contracts a multiplication and an
// addition, or sums in another order. Where a program asks whether an element *is* the maximum, or equals another, one
// ulp is everything. Such a value is therefore kept in memory, and all that use it read it there.
#include <optional>

#include "passes/kernelize.hpp"

namespace uopc {
namespace {

// Whether every kernel that computes `u` gets the same bits: it reads memory, moves, chooses and compares.
bool rounds_nowhere(UOp u) {
  constexpr OpSet kExact = kMovement | OpSet{Op::Const, Op::Param, Op::Stack, Op::Index, Op::Max,
                                             Op::Where, Op::CmpLt, Op::CmpNe, Op::Cast,  Op::Load};
  bool exact = true;
  post_order(
      u,
      [&](UOp v) {
        if (v.is(Op::Buffer) || (v.is(Op::Stage) && !is_detach(v)) || !is_float(v.dtype())) return;
        if (v.is(Op::Reduce)) {
          exact = exact && v.arg<ReduceArg>().op == Op::Max;
        } else if (v.is(Op::Mul)) {
          exact = exact && (uniform(v.src(1)) == -1.0 || uniform(v.src(0)) == -1.0);
        } else if (!is_detach(v)) {
          exact = exact && kExact.has(v.op());
        }
      },
      [&](UOp v) { return exact && (!v.is(Op::Stage) || is_detach(v)); });
  return exact;
}

}  // namespace

std::optional<double> uniform(UOp u) {
  for (int depth = 0; depth < 4; depth++) {
    if (u.is_const()) return u.value().as_float();
    if (!u.is(Op::Expand) && !u.is(Op::Reshape) && !(u.is(Op::Cast) && is_float(u.dtype()))) return {};
    u = u.src(0);
  }
  return {};
}

UOp pin_rounding(UOp x) {
  if (!is_float(x.dtype()) || rounds_nowhere(x)) return x;
  std::vector<UOp> moved;
  while (kMovement.has(x.op()) || is_detach(x)) {
    moved.push_back(x);
    x = x.src(0);
  }
  Graph& graph = x.graph();
  x = graph.make(Op::Stage, {x});
  for (size_t i = moved.size(); i-- > 0;) {
    std::vector<UOp> sources(moved[i].src().begin(), moved[i].src().end());
    sources[0] = x;
    x = graph.make(moved[i].op(), sources, moved[i].arg());
  }
  return x;
}

std::vector<UOp> share_stages(std::span<const UOp> roots) {
  NodeSet kept;  // what some STAGE is of
  post_order(roots, [&](UOp u) {
    if (u.is(Op::Stage) && !uniform(u.src(0))) kept.insert(u.src(0));
  });
  if (kept.size() == 0) return {roots.begin(), roots.end()};
  std::vector<UOp> out;
  NodeMap<UOp> images;
  for (UOp root : roots)
    out.push_back(map_graph(root, images, [&](UOp old, UOp u) {
      if (old.is(Op::Stage)) return u.src(0).is(Op::Stage) ? u.src(0) : u;
      return kept.contains(old) ? u.graph().make(Op::Stage, {u}) : u;
    }));
  return out;
}

}  // namespace uopc
