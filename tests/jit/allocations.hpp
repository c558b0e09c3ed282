// Counts what is allocated.
#pragma once
#include <cstdint>

namespace uopc {

// Calls of operator new in this program by this thread.
int64_t allocations();

}  // namespace uopc
