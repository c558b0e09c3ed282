#pragma once
#include "uopc/opts.hpp"
#include "uopc/passes.hpp"

namespace uopc {

// A kernel's body is copied at most so often, over all the loops that stand side by side, and its nodes come to at most
// so many then.
inline constexpr int64_t kMaxCopies = 4096, kMaxCopiedNodes = 4'000'000;

// Throws Error(Type) that says which field of `opts` does not fit `value` and why; Error(NotImplemented) for fields
// that lowering does not take.
void check_opts(UOp value, const Opts& opts, LowerForm form);

}  // namespace uopc
