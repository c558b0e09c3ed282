// A plan as machine code: kernels, the memory of its temporaries, and how to run it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/lru_cache.hpp"
#include "uopc/engine.hpp"
#include "uopc/plan.hpp"

namespace uopc {

// Where each temporary stands in one block of memory. Two whose lifetimes, from the kernel that writes one to the last
// that reads it, overlap do not share a byte.
struct MemoryPlan {
  std::vector<int64_t> offsets;  // bytes, by temporary; multiples of 64
  int64_t bytes = 0;
};
MemoryPlan plan_memory(const Plan& plan);

// Kernels compiled so far, of one Engine: equal ones of one plan, or of two, are compiled once.
using KernelCache = LruCache<Kernel>;

struct CompiledKernel {
  std::string name;
  Kernel code;
  std::vector<PlanRef> refs;
  double flops = 0;
  std::vector<int64_t> overwrites;  // inputs that it reads and writes: running it twice is not running it once
};

struct CompiledPlan {
  std::vector<CompiledKernel> kernels;
  std::vector<PlanBuffer> inputs, temps, outs;
  MemoryPlan memory;
  int64_t newly_compiled = 0;  // kernels that the cache had not, equal ones once
};

// Compiles on all cores what the cache has not. Tells Options::progress of each of those kernels, equal ones once, and
// stops with Error(Compile) when it says so; kernels compiled until then stay in the cache. Of several kernels that
// fail the first one's error is thrown. At debug 4, Options::log gets the C text. Keeps nothing of the plan's Graph.
CompiledPlan compile_plan(Engine& engine, KernelCache& cache, const PlanAndInputs& plan);

// Runs the kernels in order; returns seconds. `scratch` has memory.bytes bytes, aligned to 64. Throws Error(Run) that
// names the kernel. Logs as Options::debug says.
double run_plan(const Engine& engine, const std::shared_ptr<const CompiledPlan>& plan, std::span<void* const> inputs,
                std::span<void* const> outs, void* scratch);

// A plan bound to its memory once and run many times.
class BoundPlan {
 public:
  BoundPlan(std::shared_ptr<const CompiledPlan> plan, std::span<void* const> inputs, std::span<void* const> outs,
            void* scratch);
  const CompiledPlan& plan() const { return *plan_; }
  void rebind_input(size_t index, void* memory);
  void run() const;               // allocates nothing; throws Error(Run)
  void run(size_t kernel) const;  // one of them

 private:
  std::shared_ptr<const CompiledPlan> plan_;
  std::vector<void*> pointers_;                // of all kernels, one after the other
  std::vector<size_t> first_;                  // by kernel
  std::vector<std::vector<size_t>> of_input_;  // places in pointers_
};

}  // namespace uopc
