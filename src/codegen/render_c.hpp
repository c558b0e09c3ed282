// C text, with the additions that make it safe to run in this process.
#pragma once
#include <string>

#include "uopc/uop.hpp"

namespace uopc {

// Both off is the reference's text.
struct CTextOptions {
  // An index that bounds analysis cannot prove reads `data0[uopc_check(i,N)]`: where it is out of range, `int
  // uopc_index_error` (exported) becomes 1 and the access goes to element 0.
  bool check_bounds = false;
  // x // 0 and x % 0 are 0, INT_MIN // -1 wraps, and an ALLOC above 64 KiB lives on the heap.
  bool guarded = false;
};

// Prelude and kernel of a loop program (root SINK).
std::string render_c_text(UOp program, const std::string& name, const CTextOptions& options);

}  // namespace uopc
