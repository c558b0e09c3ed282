#include <fmt/format.h>

#include <algorithm>

#include "ir/py_text.hpp"
#include "passes/check_opts.hpp"
#include "passes/merge_ends.hpp"
#include "passes/output_loops.hpp"
#include "passes/rangeify.hpp"
#include "passes/tighten_indices.hpp"
#include "passes/verify.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Type, message);
}

void check_output(UOp value, UOp out) {
  if (!out) fail("the output is an empty UOp");
  if (!out.is(Op::Buffer)) fail(fmt::format("the output is a BUFFER, not {}", describe(out)));
  if (out.dtype() != value.dtype())
    fail(fmt::format("a value of dtypes.{} does not go into {} of dtypes.{}", name(value.dtype()), describe(out),
                     name(out.dtype())));
  const int64_t n = count_elements(value.shape());
  if (n > kMaxElements) fail(fmt::format("a value of shape {}: a flat index exceeds i32", py_tuple(value.shape())));
  for (int64_t d : value.shape())
    if (d > INT32_MAX) fail(fmt::format("a value of shape {}: an index exceeds i32", py_tuple(value.shape())));
  if (out.shape()[0] < n)
    fail(fmt::format("{} of {} elements is too small for a value of shape {}", describe(out), out.shape()[0],
                     py_tuple(value.shape())));
}

std::vector<UOp> buffers(UOp root) {
  std::vector<UOp> all;
  post_order(root, [&](UOp u) {
    if (u.is(Op::Buffer)) all.push_back(u);
  });
  return all;
}

}  // namespace

UOp lower(UOp value, UOp out, const Opts& opts, LowerForm form) {
  verify_structure(value, PipelineStage::Graph);
  check_output(value, out);
  for (UOp b : buffers(value))
    if (b.arg<ParamArg>().slot == out.arg<ParamArg>().slot)
      fail(fmt::format("{} is the output and is read as well", describe(b)));
  check_opts(value, opts, form);

  Graph& graph = value.graph();
  Ctx ctx(graph, opts.unroll, lanes_reduce(value.shape(), opts, form));
  const OutputLoops loops = output_loops(ctx, value.shape(), opts, form);
  std::vector<UOp> effects, threaded;
  for (const OutputNest& nest : loops.nests)
    for (const std::vector<UOp>& index : nest.copies) {
      const UOp scalar = ctx.rangeify(value, index);
      UOp effect = out.index(ravel(graph, index, value.shape())).store(scalar);
      std::vector<UOp> ranges = nest.ranges;
      // Nests of their own loops stand inside the THREAD loop together; a single one is closed with it.
      const bool shared = nest.in_thread && loops.nests.size() > 1;
      if (nest.in_thread && !shared) ranges.insert(ranges.begin(), loops.thread);
      if (!ranges.empty()) effect = effect.end(ranges);
      (shared ? threaded : effects).push_back(effect);
    }
  if (!threaded.empty()) {
    const UOp body = merge_ends(graph.sink(threaded));
    effects.insert(effects.begin(), body.end(std::span(&loops.thread, 1)));
  }
  const UOp program = ctx.simplify(graph.sink(effects));
  return merge_ends(form == LowerForm::Lanes ? ctx.simplify(tighten_indices(program)) : program);
}

UOp as_program(UOp root, const Opts& opts, LowerForm form) {
  if (!root) fail("an empty UOp is no program");
  if (root.is(Op::Sink)) {
    if (opts != Opts{}) fail(fmt::format("a loop program is not lowered: {} does not apply to it", to_string(opts)));
    return root;
  }
  if (root.dtype() == DType::Void)
    fail(fmt::format("{} has no value to lower (a loop program's root is a SINK)", describe(root)));
  const std::vector<UOp> inputs = buffers(root);
  const int64_t slot = static_cast<int64_t>(inputs.size());
  for (UOp b : inputs)
    if (b.arg<ParamArg>().slot == slot)
      fail(fmt::format("slot {}, which is to be the output's, is taken by an input: number the buffers from 0", slot));
  const int64_t n = count_elements(root.shape());
  return lower(root, root.graph().buffer(std::clamp<int64_t>(n, 1, kMaxElements), root.dtype(), slot), opts, form);
}

}  // namespace uopc
