// What compiled code may call.
#pragma once
#include <vector>

#include "runtime/orc.hpp"
#include "uopc/engine.hpp"

namespace uopc {

// Memory, f16 conversions and the like. `hook` is what the code calls for a THREAD loop; it outlives the code.
std::vector<RuntimeSymbol> runtime_symbols(const ParallelFor& hook);

// The OpenMP runtime, loaded at the first call and never unloaded. It is not made visible to the host process, whose
// own loops may belong to another OpenMP runtime. Throws Error(Compile) when there is none.
std::vector<RuntimeSymbol> openmp_symbols();

}  // namespace uopc
