// What the shared library exports. Everything else in it is hidden.
#pragma once

#if defined(__GNUC__)
#define UOPC_API __attribute__((visibility("default")))
#else
#define UOPC_API
#endif
