// How a THREAD loop, which is a function of its own, is run by many threads.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace llvm {
class Function;
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace uopc::codegen {

// Memory through which a function passes values to those cut out of it, in words of 8 bytes.
enum FrameWord : uint64_t {
  kFrameBuffers = 0,  // the kernel's arguments
  kFrameContext = 1,
  kFrameStatus = 2,     // i32: the highest KernelStatus of any thread
  kFrameFpControl = 3,  // i32: the caller's MXCSR, for threads that are not OpenMP's, which copies it itself
  kFrameValues = 4,
};

struct ThreadLoop {
  llvm::Function* body;           // i32 (ptr buffer..., ptr frame, i64 begin, i64 end)
  std::vector<unsigned> buffers;  // places in the kernel's argument of those that `body` takes
  std::string name;
};

struct ThreadOptions {
  int threads;             // 0: the runtime's number
  bool host_parallel_for;  // not OpenMP
};

// Runs the iterations 0..n-1 (i64; none when n <= 0) at the builder's place. `frame` holds kFrameBuffers and the loop's
// inputs. Returns the KernelStatus, an i32.
llvm::Value* emit_thread_loop(llvm::IRBuilderBase& b, const ThreadLoop& loop, llvm::Value* frame, llvm::Value* n,
                              const ThreadOptions& options);

}  // namespace uopc::codegen
