// LLVM recurses over what it compiles; the thread of a caller may have a small stack.
#pragma once
#include <functional>

namespace uopc {

// Runs `work` to its end on a thread of its own with a stack of 8 MiB. What it throws is thrown here.
void run_on_deep_stack(const std::function<void()>& work);

}  // namespace uopc
