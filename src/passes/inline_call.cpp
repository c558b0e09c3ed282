#include "ir/walk.hpp"
#include "uopc/passes.hpp"

namespace uopc {

UOp inline_call(UOp call) {
  if (!call.is(Op::Call))
    throw Error(ErrorCode::Type, std::string("inline_call needs a CALL, got Ops.") + name(call.op()));
  // Nodes of the body with the arguments in place of its PARAMs. The body of a CALL inside it has PARAMs of its own:
  // the walk goes into that CALL's arguments only.
  NodeMap<UOp> inlined;
  std::vector<std::pair<UOp, uint32_t>> stack;  // a node and the next source to look at
  const auto enter = [&](UOp u) {
    if (inlined.contains(u)) return;
    if (u.is(Op::Param)) {
      inlined.insert(u, call.src(1 + u.arg<ParamArg>().slot));
    } else {
      stack.emplace_back(u, u.is(Op::Call) ? 1 : 0);
    }
  };
  std::vector<UOp> src;
  enter(call.src(0));
  while (!stack.empty()) {
    auto& [u, next] = stack.back();
    if (next < u.src().size()) {
      enter(u.src(next++));
      continue;
    }
    const UOp done = u;
    stack.pop_back();
    src.assign(done.src().begin(), done.src().end());
    for (size_t i = done.is(Op::Call) ? 1 : 0; i < src.size(); i++) src[i] = inlined.at(src[i]);
    inlined.insert(done, with_sources(done, src));
  }
  return inlined.at(call.src(0));
}

}  // namespace uopc
