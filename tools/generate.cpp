#include "commands.hpp"
#include "io.hpp"
#include "uopc/passes.hpp"

namespace uopc::tool {

std::string generate(const GenerateRequest& request, Language language) {
  const Opts opts = parse_opts(request.opts);
  Graph graph;
  const UOp root = read_program(graph, request.file);
  if (language == Language::C) {
    const UOp program = as_program(root, opts, request.lanes ? LowerForm::Lanes : LowerForm::Unrolled);
    return request.prelude ? render_c(program) : render_c_body(program);
  }
  Engine engine(request.options);
  return language == Language::LlvmIr ? engine.llvm_ir(root, opts) : engine.assembly(root, opts);
}

}  // namespace uopc::tool
