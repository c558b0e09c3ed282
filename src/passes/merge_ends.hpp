#pragma once
#include "uopc/uop.hpp"

namespace uopc {

// ENDs over the same ranges become one END, whose body is all of theirs in order. Throws Error(Type) where one of them
// depends on another.
UOp merge_ends(UOp sink);

}  // namespace uopc
