// Calls of operator new in this program so far, by any thread.
#pragma once
#include <cstdint>

int64_t allocations();
