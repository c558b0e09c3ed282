// The value of a graph without buffers.
#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "ir/py_text.hpp"
#include "passes/symbolic.hpp"
#include "passes/verify.hpp"
#include "uopc/error.hpp"
#include "uopc/npy.hpp"
#include "uopc/passes.hpp"
#include "uopc/reference.hpp"

namespace uopc {
namespace {

// A value is a list of Python objects: past this it is a mistake, or an attack.
constexpr int64_t kMaxListed = int64_t{1} << 24;
constexpr size_t kMaxRank = 64;

}  // namespace

PyValue run(UOp root) {
  if (const std::vector<UOp> free = call_params(root); !free.empty())
    throw Error(ErrorCode::Type,
                fmt::format("cannot evaluate: PARAM slot {} is outside a CALL", free[0].arg<ParamArg>().slot));
  verify_nodes(root);  // before a constant that is no i32 is folded into one that is
  const UOp u = evaluate(root);
  for (UOp v : toposort(u))
    if (v.is(Op::Buffer))
      throw Error(ErrorCode::Type,
                  fmt::format("cannot evaluate: the graph reads BUFFER slot {}", v.arg<ParamArg>().slot));
  if (u.dtype() == DType::Void)
    throw Error(ErrorCode::Type, fmt::format("cannot evaluate: {} is an effect and has no value", name(u.op())));
  verify(u, PipelineStage::Graph);
  const int64_t n = count_elements(u.shape());
  if (n > kMaxListed || u.shape().size() > kMaxRank)
    throw Error(ErrorCode::Type, fmt::format("cannot evaluate: shape {} has more than {} elements or {} axes",
                                             py_tuple(u.shape()), kMaxListed, kMaxRank));
  if (std::optional<PyValue> literal = to_python(u)) return std::move(*literal);
  const UOp program = as_program(u);
  std::vector<std::byte> out(static_cast<size_t>(n * itemsize(u.dtype())));
  const BufferRef buffer = out;
  if (n > 0) interpret(program, std::span(&buffer, 1));
  return to_python(u.dtype(), u.shape(), out);
}

}  // namespace uopc
