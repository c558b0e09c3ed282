// Reverse accumulation: from the root down, every node hands its gradient on to the sources that a target depends on.
//
// Where a NaN could come of 0 * infinity: RECIP, LOG2 and SQRT have infinite derivatives at finite values, so a zero
// gradient stays zero there. EXP2, SIN and MUL have them beside infinities only; they are guarded where every path to
// them goes through a branch of a WHERE, and elsewhere stay the bare product that a matmul needs to be fast. A path
// that goes on below a broadcast does not count: its gradient is a sum over elements of which one is taken as a rule (a
// loss that picks a row's label goes through a WHERE, and so would everything below it).
#include <fmt/format.h>

#include "ir/py_text.hpp"
#include "ir/walk.hpp"
#include "passes/derivatives.hpp"
#include "passes/kernelize.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Type, "gradient: " + message);
}

void check(UOp root, UOp seed, std::span<const UOp> targets) {
  if (!root || !seed) fail("an empty handle");
  if (!is_float(root.dtype())) fail(fmt::format("of a value of dtype {}, which is no float", name(root.dtype())));
  if (seed.dtype() != root.dtype() || seed.shape() != root.shape())
    fail(fmt::format("the seed has shape {} and dtype {}, the root {} and {}", py_tuple(seed.shape()),
                     name(seed.dtype()), py_tuple(root.shape()), name(root.dtype())));
  for (UOp t : targets) {
    if (!t) fail("an empty target");
    if (&t.graph() != &root.graph()) fail("a target of another Graph");
  }
  if (&seed.graph() != &root.graph()) fail("a seed of another Graph");
}

// Every CALL below `root` replaced by its body.
UOp inline_calls(UOp root, NodeMap<UOp>& images) {
  bool any = false;
  post_order(root, [&](UOp u) { any |= u.is(Op::Call); });
  if (!any) return root;
  return map_graph(root, images, [](UOp, UOp u) { return u.is(Op::Call) ? inline_call(u) : u; });
}

struct Sum {
  UOp g;
  bool masked = true;
};

}  // namespace

std::vector<UOp> gradient(UOp root, UOp seed, std::span<const UOp> targets) {
  check(root, seed, targets);
  NodeMap<UOp> images;
  root = inline_calls(root, images);
  NodeSet wanted;
  const auto image = [&](UOp t) {
    const UOp* inlined = images.find(t);
    return inlined ? *inlined : t;
  };
  for (UOp t : targets) wanted.insert(image(t));

  // The nodes that depend on a target, sources first.
  std::vector<UOp> path;
  NodeSet on_path;
  post_order(
      root,
      [&](UOp u) {
        bool needed = wanted.contains(u);
        for (size_t k = 0; k < u.src().size() && !needed; k++) needed = on_path.contains(u.src(k)) && flows(u, k);
        if (!needed) return;
        on_path.insert(u);
        path.push_back(u);
      },
      [](UOp u) { return is_float(u.dtype()) && !is_detach(u); });

  NodeMap<Sum> sums;
  sums[root] = {seed, false};
  for (size_t n = path.size(); n-- > 0;) {
    const UOp u = path[n];
    const Sum* sum = sums.find(u);
    if (!sum || !sum->g) continue;
    const Adjoint at{u, sum->g, sum->masked};
    for (size_t k = 0; k < u.src().size(); k++) {
      if (!on_path.contains(u.src(k)) || !flows(u, k)) continue;
      const Derivative& rule = *derivative_of(u.op());
      const UOp part = rule.part(at, k);
      if (!part) continue;
      Sum& to = sums[u.src(k)];
      to.g = add_parts(to.g, part);
      // One path that is always taken is enough for a derivative to count.
      to.masked &= (at.masked && !grows(u)) || rule.masks;
    }
  }

  std::vector<UOp> results;
  for (UOp t : targets) {
    const Sum* sum = sums.find(image(t));
    results.push_back(sum && sum->g && wanted.contains(image(t)) ? sum->g : t.const_like(0));
  }
  return results;
}

}  // namespace uopc
