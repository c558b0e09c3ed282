// What a kernel's status means to its caller.
#pragma once
#include <string>

#include "uopc/kernel.hpp"

namespace uopc {

// Error(Run) "kernel 'e_4': index 7 is out of range of slot 0, which has 4 elements".
[[noreturn]] void throw_kernel_error(const std::string& kernel, KernelStatus status, const KernelContext& context);

}  // namespace uopc
