// The rules of `simplify`, for those who combine, enumerate or count them.
#pragma once
#include <optional>

#include "ir/rewrite.hpp"
#include "uopc/passes.hpp"

namespace uopc {

// All of them, in the order in which they are tried. A table of constants: made once, never changed.
const PatternMatcher& symbolic_rules();

// D1 to D7: division and modulo by a positive constant (divmod.cpp).
RuleGroup division_rules();
// D6: a flat index taken apart and put together again.
RuleGroup ravel_rules();

// CALLs inlined, ALU ops pushed through STACKs, movement ops and INDEX of literals resolved (evaluate.cpp).
const PatternMatcher& evaluate_rules();

// A literal (a constant, or STACKs of them) as nested lists; nothing for anything else.
std::optional<PyValue> to_python(UOp u);

}  // namespace uopc
