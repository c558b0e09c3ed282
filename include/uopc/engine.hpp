// The JIT: compiles graphs to machine code in this process.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "uopc/kernel.hpp"
#include "uopc/opts.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// Runs body(context, i0, i1) on disjoint pieces that cover [0, n), and returns when all are done.
using ParallelBody = void (*)(void* context, int64_t begin, int64_t end);
using ParallelFor = std::function<void(int64_t n, ParallelBody body, void* context)>;

// What is happening while a plan is compiled: of its kernels that are new, equal ones counted once.
struct CompileProgress {
  int64_t done, total;        // `done` are compiled, or are about to be on other cores
  const std::string& kernel;  // the next one's name; empty at the end
};

struct UOPC_API Options {
  int threads = 0;             // of a THREAD loop; 0: as many as the OpenMP runtime gives
  ParallelFor parallel_for{};  // runs THREAD loops in place of OpenMP; must be callable from any thread
  bool strict_float = false;   // no reassociation, no contraction: the order of operations is the program's
  bool check_bounds = true;    // indices that bounds analysis cannot prove are checked when they are used
  std::string cpu{};           // LLVM's name of the target CPU; empty: the host's
  int opt_level = 2;           // 0: fastest to compile .. 3: LLVM's whole -O3 pipeline

  // Tensors (tensor.hpp).
  int opt = 1;    // 0: the reference's kernels. 1 and 2: chosen by the optimizer
  int debug = 0;  // what `log` is told (A.8): 1 realizes, 2 kernels, 3 a second run of each, 4 C text of new plans
  std::function<void(std::string_view line)> log{};  // without a newline; nothing is printed without it
  // Called in the thread that realizes, ahead of each kernel and once more at the end. false: stop, as Error(Compile)
  // "cancelled after 1 of 3 kernels"; what it throws is passed on. What is compiled by then is kept.
  std::function<bool(const CompileProgress&)> progress{};

  // The reference path: C text through the system compiler (A.8).
  std::string cc = "gcc";
  std::string cflags =
      "-O3 -march=native -fopenmp -ffp-contract=fast -fassociative-math -fno-signed-zeros -fno-trapping-math";
  std::string c_cache_dir{};  // of compiled .so files; empty: a directory of its own, removed with the last Program

  // The defaults, with DEBUG, OPT, CC, CFLAGS and UOPC_CACHE of the environment (A.8; the cache defaults to
  // ~/.cache/uopc) and a `log` that prints to standard output. DEBUG, OPT and CC that are empty count as unset; a DEBUG
  // or OPT that is not one of its levels is an Error(Parse). The only place that reads the environment.
  static Options from_env();
};

// Thread-safe. Engines are independent of each other; a process may have several with different options. LLVM starts
// with the first compile.
class UOPC_API Engine {
 public:
  explicit Engine(Options options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Options& options() const;

  // `root` is a loop program (SINK) or a shaped graph, which is lowered into an output buffer of its own
  // (`as_program`); a SINK with Opts of its own is an Error(Type). Only reads `root`'s Graph. Throws Error of any code
  // but Parse and Run.
  Kernel compile(UOp root, const Opts& opts = {}, const std::string& name = "kernel");

  // What kernels are fitted to: the target CPU's vectors, and the threads of a THREAD loop.
  Machine machine();

  // The LLVM IR and the assembly of the code that `compile` makes.
  std::string llvm_ir(UOp root, const Opts& opts = {}, const std::string& name = "kernel");
  std::string assembly(UOp root, const Opts& opts = {}, const std::string& name = "kernel");

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace uopc
