// The .uir text format (A.5).
#pragma once
#include <string>
#include <string_view>

#include "uopc/uop.hpp"

namespace uopc {

// The program in `text`, made in `graph`: the value of its last statement. Throws Error(Parse) whose message is
// "line N: 'STATEMENT': REASON", type errors included.
UOPC_API UOp parse(Graph& graph, std::string_view text);

// The canonical text, a newline after every line. `parse(g.graph(), to_uir(g)) == g` for every graph.
UOPC_API std::string to_uir(UOp root);

}  // namespace uopc
