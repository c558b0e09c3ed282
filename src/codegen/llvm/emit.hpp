// A loop program as an LLVM module.
//
// The module has one external function, `int32_t name(ptr buffers, ptr context)`, a KernelEntry (kernel.hpp). It loads
// the pointers and passes them to an internal function as `noalias` parameters. It may refer to the symbols that
// src/runtime/symbols.cpp defines and to OpenMP's.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "codegen/llvm/target_cpu.hpp"
#include "passes/linearize.hpp"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace uopc::codegen {

// KernelContext::slot until an index was out of range; the entry sets it.
inline constexpr int64_t kNoSlot = INT64_MIN;

struct EmitOptions {
  bool strict_float = false;
  bool check_bounds = false;
  int threads = 0;
  bool host_parallel_for = false;
};

struct EmittedModule {
  std::unique_ptr<llvm::Module> module;
  CodeShape shape;
  bool uses_openmp;
};

// Throws Error(NotImplemented) for BARRIER and WMMA.
EmittedModule emit_module(llvm::LLVMContext& context, const Linearized& program, const std::string& name,
                          const EmitOptions& options, const TargetCpu& target);

}  // namespace uopc::codegen
