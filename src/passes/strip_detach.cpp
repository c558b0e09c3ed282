#include "ir/walk.hpp"
#include "passes/kernelize.hpp"
#include "uopc/plan.hpp"

namespace uopc {

bool is_detach(UOp u) {
  return u.is(Op::Stage) && std::holds_alternative<DetachArg>(u.arg());
}

UOp strip_detach(UOp root) {
  NodeMap<UOp> images;
  return map_graph(root, images, [](UOp, UOp u) { return is_detach(u) ? u.src(0) : u; });
}

}  // namespace uopc
