// The slow truths a kernel is compared with: an interpreter, and the C text through the system compiler.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "uopc/engine.hpp"
#include "uopc/kernel.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// The BUFFERs that a loop program takes, by slot, and how it uses them.
UOPC_API std::vector<KernelParam> program_params(UOp program);

// Runs a loop program (root SINK) step by step with the values of docs/semantics.md. Checks every index. Throws
// Error(Run) as Kernel does.
UOPC_API void interpret(UOp program, std::span<const BufferRef> buffers);

// C text compiled by the system compiler and loaded: a function `name` that takes one pointer per buffer. Names in the
// cache are a hash of source, compiler and flags. Throws Error(Compile) with the compiler's words.
class UOPC_API Program {
 public:
  const std::string& name() const;
  const std::string& library_path() const;
  void operator()(std::span<void* const> buffers) const;  // nothing is checked

 private:
  friend UOPC_API Program compile_c(const std::string& source, const std::string& name, const Options& options);
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};
UOPC_API Program compile_c(const std::string& source, const std::string& name = "kernel", const Options& options = {});

// Renders `program`, compiles it and runs it on `buffers` (by slot), with Kernel's checks of number, size and overlap;
// Options::check_bounds and the rest of `options` as for an Engine.
UOPC_API void run_c(UOp program, std::span<const BufferRef> buffers, const Options& options = {});

}  // namespace uopc
