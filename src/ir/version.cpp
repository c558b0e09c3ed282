#include "uopc/version.hpp"

#define UOPC_TEXT_OF(x) #x
#define UOPC_TEXT(x) UOPC_TEXT_OF(x)

namespace uopc {

const char* version() noexcept {
  return UOPC_TEXT(UOPC_VERSION_MAJOR) "." UOPC_TEXT(UOPC_VERSION_MINOR) "." UOPC_TEXT(UOPC_VERSION_PATCH);
}

}  // namespace uopc
