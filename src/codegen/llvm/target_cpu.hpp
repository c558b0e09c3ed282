// The CPU that code is made for, and the way from a module to its object or assembly.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "codegen/llvm/math.hpp"

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace uopc::codegen {

// What decides how much a module is worth optimizing.
struct CodeShape {
  size_t nodes = 0;         // of the program
  bool has_checks = false;  // and with them branches in its loops
  bool has_loops = true;    // that run often enough to be worth vectorizing
  // Optimizing code of this length takes longer than anyone waits; nothing but its generation is left then.
  bool is_huge() const { return nodes > 20000; }
  // Too short for the optional passes of code generation to earn their time, which is the same for any code.
  bool is_small() const { return nodes <= 100 && !has_checks; }
};

// Runs on one thread at a time; LLVM's TargetMachine is not shareable.
class TargetCpu {
 public:
  // An empty `cpu` is the host. Throws Error(Compile) for a name that LLVM does not know or that has no 64-bit mode.
  TargetCpu(const std::string& cpu, int opt_level, bool strict_float);
  ~TargetCpu();

  const MathTarget& math() const { return math_; }
  // The first feature of this CPU that the machine we run on lacks; empty when its code runs here.
  const std::string& missing_feature() const { return missing_feature_; }

  // Triple and data layout; before anything is emitted.
  void prepare(llvm::Module& module) const;

  // Passes over the IR.
  void optimize(llvm::Module& module, const CodeShape& shape);

  // Code generation; the module is spent. Throws Error(Compile).
  std::string emit(llvm::Module& module, const CodeShape& shape, bool assembly);

 private:
  std::unique_ptr<llvm::TargetMachine> machine_;
  MathTarget math_;
  std::string missing_feature_;
  int opt_level_;
};

// Bytes of machine code in an object that `emit` made.
size_t text_bytes(const std::string& object);

// Throws Error(Internal) with the verifier's words when the module is malformed.
void verify_module(const llvm::Module& module);

}  // namespace uopc::codegen
