// A plan as machine code: kernels, the memory of its temporaries, and how to run it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "uopc/engine.hpp"
#include "uopc/plan.hpp"

namespace uopc {

// Where each temporary stands in one block, so that two whose lifetimes overlap do not: temporaries share memory.
struct MemoryPlan {
  std::vector<int64_t> offsets;  // bytes, by temporary; multiples of 64
  int64_t bytes = 0;
};
MemoryPlan plan_memory(const Plan& plan);

// Kernels compiled so far, by the structure of their programs: equal kernels of one plan, or of two, are compiled once.
// Bounded: the least recently used go.
class KernelCache;
std::shared_ptr<KernelCache> make_kernel_cache(size_t most = 4096);

struct CompiledKernel {
  std::string name;
  Kernel code;
  std::vector<PlanRef> refs;
  double flops = 0;
  bool in_place = false;  // writes an input that it reads: running it twice is not running it once
};

struct CompiledPlan {
  std::vector<CompiledKernel> kernels;
  std::vector<PlanBuffer> inputs, temps, outs;
  MemoryPlan memory;
  int64_t newly_compiled = 0;
};

// Compiles with Options::progress told and asked; `log` gets C text at debug 4. Inputs as make_plan gave them. Keeps
// nothing of the plan's Graph.
CompiledPlan compile_plan(Engine& engine, KernelCache& cache, const PlanAndInputs& plan);

// Runs the kernels in order. Pointers by index; `scratch` has memory.bytes bytes aligned to 64. Throws Error(Run) that
// names the kernel. Timed and logged as Options::debug says; returns seconds. Allocates nothing at debug 0.
double run_plan(const Engine& engine, const CompiledPlan& plan, std::span<void* const> inputs,
                std::span<void* const> outs, void* scratch);

// A plan bound to its memory once and run many times: under 2 us a kernel beyond the kernels, no allocation.
class BoundPlan {
 public:
  BoundPlan(std::shared_ptr<const CompiledPlan> plan, std::span<void* const> inputs, std::span<void* const> outs,
            void* scratch);
  void rebind_input(size_t index, void* memory);
  void run() const;  // throws Error(Run)
 private:
  std::shared_ptr<const CompiledPlan> plan_;
  std::vector<void*> pointers_;                         // of all kernels, one after the other
  std::vector<std::vector<uint32_t>> places_of_input_;  // indices into pointers_
};

}  // namespace uopc
