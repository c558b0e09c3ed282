#include "uopc/engine.hpp"

#include <algorithm>
#include <mutex>
#include <thread>

#include "codegen/llvm/compiler.hpp"
#include "passes/linearize.hpp"
#include "passes/verify.hpp"
#include "runtime/deep_stack.hpp"
#include "runtime/kernel_impl.hpp"
#include "runtime/symbols.hpp"
#include "uopc/passes.hpp"
#include "uopc/reference.hpp"

namespace uopc {
namespace {

constexpr int kMaxThreads = 1024;

Options checked(Options o) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::Type, "Options::" + what); };
  if (o.threads < 0 || o.threads > kMaxThreads)
    refuse("threads is " + std::to_string(o.threads) + "; right are 0 to " + std::to_string(kMaxThreads));
  if (o.opt_level < 0 || o.opt_level > 3) refuse("opt_level is " + std::to_string(o.opt_level) + "; right are 0 to 3");
  if (o.opt < 0 || o.opt > 2) refuse("opt is " + std::to_string(o.opt) + "; right are 0 to 2");
  if (o.debug < 0 || o.debug > 4) refuse("debug is " + std::to_string(o.debug) + "; right are 0 to 4");
  return o;
}

codegen::CompilerOptions compiler_options(const Options& o) {
  codegen::CompilerOptions c;
  c.cpu = o.cpu;
  c.opt_level = o.opt_level;
  c.emit.strict_float = o.strict_float;
  c.emit.check_bounds = o.check_bounds;
  c.emit.threads = o.threads;
  c.emit.host_parallel_for = static_cast<bool>(o.parallel_for);
  return c;
}

struct Prepared {
  Graph graph;
  std::vector<KernelParam> params;
  Linearized program;
};

// In a Graph of its own: the caller's is only read.
void prepare(Prepared& p, UOp root, const Opts& opts, const std::string& name) {
  check_kernel_name(name);
  if (!root) throw Error(ErrorCode::Type, "there is no UOp to compile");
  const UOp copy = p.graph.import(root);
  // A loop program may come out of lowering, where simplification makes constants of data: a divisor of 0 is no mistake
  // of anybody's there.
  if (!copy.is(Op::Sink)) verify(copy, PipelineStage::Graph);
  const UOp program = as_program(copy, opts, LowerForm::Lanes);
  p.program = linearize(program);
  p.params = program_params(program);
}

}  // namespace

struct Engine::Impl {
  const Options options;
  const std::shared_ptr<const ParallelFor> hook;
  codegen::CpuCompiler compiler;
  std::once_flag linker_made, openmp_defined, machine_known;
  Machine machine;
  std::shared_ptr<Linker> linker;
  std::vector<RuntimeSymbol> symbols;

  explicit Impl(Options o)
      : options(checked(std::move(o))),
        hook(std::make_shared<const ParallelFor>(options.parallel_for)),
        compiler(compiler_options(options)),
        symbols(runtime_symbols(*hook)) {}

  // A kernel that is named like something that code calls would be called in its place.
  std::string symbol_of(const std::string& name) const {
    const bool taken = std::ranges::find(symbols, name, &RuntimeSymbol::first) != symbols.end() ||
                       name.starts_with("omp_") || name.starts_with("__");
    return taken ? name + ".kernel" : name;
  }

  std::unique_ptr<Linker::Object> link(const codegen::Code& code, const std::string& symbol) {
    std::call_once(linker_made, [&] { linker = std::make_shared<Linker>(symbols); });
    if (code.uses_openmp) std::call_once(openmp_defined, [&] { linker->define(openmp_symbols()); });
    return Linker::link(linker, code.bytes, symbol);
  }

  std::string text(UOp root, const Opts& opts, const std::string& name, codegen::CodeForm form) {
    Prepared p;
    prepare(p, root, opts, name);
    codegen::Code code;
    run_on_deep_stack([&] { code = compiler.compile(p.program, symbol_of(name), form); });
    return std::move(code.bytes);
  }
};

Engine::Engine(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Engine::~Engine() = default;

const Options& Engine::options() const {
  return impl_->options;
}

Machine Engine::machine() {
  std::call_once(impl_->machine_known, [&] {
    Machine m;
    m.lanes = impl_->compiler.lanes();
    m.registers = m.lanes >= 16 ? 32 : 16;
    m.threads = impl_->options.threads;
    if (m.threads == 0) m.threads = std::max(1u, std::thread::hardware_concurrency());
    impl_->machine = m;
  });
  return impl_->machine;
}

Kernel Engine::compile(UOp root, const Opts& opts, const std::string& name) {
  Prepared p;
  prepare(p, root, opts, name);
  auto kernel = std::make_shared<Kernel::Impl>();
  kernel->name = name;
  kernel->params = std::move(p.params);
  kernel->hook = impl_->hook;
  const std::string symbol = impl_->symbol_of(name);
  run_on_deep_stack([&] {
    const codegen::Code code = impl_->compiler.compile(p.program, symbol, codegen::CodeForm::Object);
    kernel->code_bytes = code.machine_code_bytes;
    kernel->object = impl_->link(code, symbol);
  });
  kernel->entry = reinterpret_cast<KernelEntry>(kernel->object->entry());
  return Kernel(std::move(kernel));
}

std::string Engine::llvm_ir(UOp root, const Opts& opts, const std::string& name) {
  return impl_->text(root, opts, name, codegen::CodeForm::Ir);
}

std::string Engine::assembly(UOp root, const Opts& opts, const std::string& name) {
  return impl_->text(root, opts, name, codegen::CodeForm::Assembly);
}

}  // namespace uopc
