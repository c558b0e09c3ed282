// Random Opts that fit a value.
#pragma once
#include "diff/generator.hpp"
#include "uopc/opts.hpp"
#include "uopc/passes.hpp"

namespace uopc::diff {

// With `reorder_sums`, `unroll` may change the order in which floats are added; that of a maximum of floats never
// changes, as NaN and zeros of both signs tell orders apart.
Opts random_opts(Rng& rng, UOp value, LowerForm form, bool reorder_sums);

LowerForm random_form(Rng& rng);

}  // namespace uopc::diff
