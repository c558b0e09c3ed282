// What a call must satisfy before any code of a kernel runs.
#pragma once
#include <span>

#include "uopc/kernel.hpp"

namespace uopc {

// Throws Error(Run) when there are not as many buffers as parameters, one is smaller than its parameter, or a written
// one is const or overlaps another one.
void check_buffers(std::span<const KernelParam> params, std::span<const BufferRef> buffers);

}  // namespace uopc
