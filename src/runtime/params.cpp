#include <algorithm>
#include <string>

#include "ir/walk.hpp"
#include "passes/linearize.hpp"
#include "uopc/reference.hpp"

namespace uopc {

std::vector<KernelParam> program_params(UOp program) {
  std::vector<KernelParam> params;
  NodeMap<UOp> memory;  // of an address, so that no chain of AFTERs is followed twice
  NodeMap<size_t> index;
  post_order(program, [&](UOp u) {
    if (u.is(Op::Buffer)) {
      const auto& arg = u.arg<ParamArg>();
      index.insert(u, params.size());
      params.push_back({arg.slot, arg.dtype, arg.shape[0], false, false});
    }
    if (u.is(Op::Buffer) || u.is(Op::Alloc)) memory[u] = u;
    if (u.src().empty()) return;
    const UOp* const from = memory.find(u.src(0));
    if (!from) return;
    const UOp m = *from;
    if (u.is(Op::Index) || u.is(Op::After)) memory[u] = m;
    const size_t* const i = index.find(m);
    if (!i) return;
    if (u.is(Op::Load)) params[*i].read = true;
    if (u.is(Op::Store)) params[*i].written = true;
  });
  std::ranges::sort(params, {}, &KernelParam::slot);
  const auto twin = std::ranges::adjacent_find(params, {}, &KernelParam::slot);
  if (twin != params.end())
    throw Error(ErrorCode::Type, "two different BUFFERs are in slot " + std::to_string(twin->slot));
  return params;
}

}  // namespace uopc
