// The Opts of a kernel by a model of the machine.
#pragma once
#include "uopc/opts.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// `plain` is `value` lowered without Opts. For LowerForm::Lanes.
Opts hand_opt_choice(UOp value, UOp plain, const Machine& machine);

}  // namespace uopc
