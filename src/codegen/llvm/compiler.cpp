#include "codegen/llvm/compiler.hpp"

#include "codegen/llvm/target_cpu.hpp"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"
#include "uopc/error.hpp"

namespace uopc::codegen {
namespace {

// The default handler would print, and exit on an error.
void keep_error(const llvm::DiagnosticInfo* info, void* words) {
  if (info->getSeverity() != llvm::DS_Error) return;
  llvm::raw_string_ostream out(*static_cast<std::string*>(words));
  llvm::DiagnosticPrinterRawOStream printer(out);
  info->print(printer);
  out << "; ";
}

}  // namespace

CpuCompiler::CpuCompiler(CompilerOptions options) : options_(std::move(options)) {}
CpuCompiler::~CpuCompiler() = default;

std::unique_ptr<TargetCpu> CpuCompiler::take_target() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto target = std::move(idle_.back());
      idle_.pop_back();
      return target;
    }
  }
  return std::make_unique<TargetCpu>(options_.cpu, options_.opt_level, options_.emit.strict_float);
}

unsigned CpuCompiler::lanes() {
  auto target = take_target();
  const unsigned n = target->math().max_lanes;
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(target));
  return n;
}

Code CpuCompiler::compile(const Linearized& program, const std::string& name, CodeForm form) {
  auto target = take_target();
  if (form == CodeForm::Object && !target->missing_feature().empty())
    throw Error(ErrorCode::Compile, "code for CPU '" + options_.cpu + "' cannot run on this machine, which lacks " +
                                        target->missing_feature());
  Code code;
  {
    llvm::LLVMContext context;
    std::string errors;
    context.setDiagnosticHandlerCallBack(keep_error, &errors);
    EmittedModule emitted = emit_module(context, program, name, options_.emit, *target);
    code.uses_openmp = emitted.uses_openmp;
    verify_module(*emitted.module);
    target->optimize(*emitted.module, emitted.shape);
    if (form == CodeForm::Ir) {
      llvm::raw_string_ostream out(code.bytes);
      emitted.module->print(out, nullptr);
    } else {
      code.bytes = target->emit(*emitted.module, emitted.shape, form == CodeForm::Assembly);
    }
    if (!errors.empty()) throw Error(ErrorCode::Compile, "LLVM: " + errors);
  }
  if (form == CodeForm::Object) code.machine_code_bytes = text_bytes(code.bytes);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(target));
  return code;
}

}  // namespace uopc::codegen
