#pragma once
#include "uopc/export.hpp"

#define UOPC_VERSION_MAJOR 0
#define UOPC_VERSION_MINOR 1
#define UOPC_VERSION_PATCH 0

namespace uopc {
// "MAJOR.MINOR.PATCH" of the library that is loaded, which may differ from the header's.
UOPC_API const char* version() noexcept;
}  // namespace uopc
