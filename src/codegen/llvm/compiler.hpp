// Loop program to machine code: the whole LLVM side behind one class without LLVM in its interface.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "codegen/llvm/emit.hpp"
#include "passes/linearize.hpp"

namespace uopc::codegen {

struct CompilerOptions {
  std::string cpu;  // empty: the host's
  int opt_level = 2;
  EmitOptions emit;
};

enum class CodeForm : uint8_t { Object, Assembly, Ir };

struct Code {
  std::string bytes;
  size_t machine_code_bytes = 0;  // of an object
  bool uses_openmp = false;
};

// Thread-safe.
class CpuCompiler {
 public:
  explicit CpuCompiler(CompilerOptions options);
  ~CpuCompiler();

  // Deep in LLVM: wants a stack of 8 MiB. `name` is the symbol of the entry. An object must be able to run here, text
  // need not. Throws Error of Compile, NotImplemented and Internal.
  Code compile(const Linearized& program, const std::string& name, CodeForm form);

  // f32 in a vector register of the target.
  unsigned lanes();

 private:
  std::unique_ptr<TargetCpu> take_target();

  const CompilerOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<TargetCpu>> idle_;  // guarded by mutex_
};

}  // namespace uopc::codegen
