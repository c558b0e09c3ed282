#include <fmt/format.h>

#include "commands.hpp"
#include "io.hpp"
#include "uopc/passes.hpp"
#include "uopc/plan.hpp"
#include "uopc/uir.hpp"

namespace uopc::tool {
namespace {

std::string tuple(const Shape& shape) {
  std::string out = "(";
  for (size_t i = 0; i < shape.size(); i++) out += fmt::format("{}{}", i ? ", " : "", shape[i]);
  return out + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace

std::string show(const std::string& file, Show what) {
  Graph graph;
  const UOp root = read_program(graph, file);
  if (what == Show::Canonical) return to_uir(root);
  if (what == Show::Plan) return to_string(make_plan({root}).plan);
  if (what == Show::Value) return to_string(run(root)) + "\n";
  verify_nodes(root);
  return fmt::format("dtype={} shape={} addrspace={}\n", name(root.dtype()), tuple(root.shape()),
                     name(root.addrspace()));
}

}  // namespace uopc::tool
