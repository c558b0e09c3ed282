// Compiles the kernels of a plan on all cores.
#pragma once
#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "uopc/engine.hpp"
#include "uopc/plan.hpp"

namespace uopc {

struct CompiledSet {
  std::vector<Kernel> kernels;  // empty where one was not reached, or failed
  // What stopped it: of the kernels that failed and the call of `before` that threw the first in order, whichever core
  // was quicker.
  std::exception_ptr stopped;
};

// Calls before(i) in order, in this thread and ahead of the compilation of kernel i, and waits for all that has begun.
CompiledSet compile_all(Engine& engine, std::span<const PlanKernel* const> kernels,
                        const std::function<void(size_t)>& before);

}  // namespace uopc
