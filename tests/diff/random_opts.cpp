#include "diff/random_opts.hpp"

#include <algorithm>
#include <numeric>

#include "ir/walk.hpp"

namespace uopc::diff {
namespace {

int64_t divisor(Rng& rng, int64_t n) {
  std::vector<int64_t> all;
  for (int64_t d = 1; d <= n && d <= 16; d++)
    if (n % d == 0) all.push_back(d);
  return all.empty() ? 1 : rng.pick(all);
}

int64_t random_unroll(Rng& rng, UOp value, bool reorder_sums) {
  int64_t common = 0;  // what every REDUCE may be unrolled by: its divisors
  bool reduces = false;
  post_order(value, [&](UOp u) {
    if (!u.is(Op::Reduce)) return;
    reduces = true;
    const Shape& shape = u.src(0).shape();
    for (size_t k = shape.size(); k-- > u.shape().size();) {
      if (shape[k] == 1) continue;
      common = std::gcd(common, shape[k]);
      break;
    }
    const bool ordered = is_float(u.dtype()) && (u.arg<ReduceArg>().op == Op::Max || !reorder_sums);
    if (ordered) common = 1;
  });
  if (!reduces) return 1;
  return common == 0 ? rng.between(1, 5) : divisor(rng, common);
}

}  // namespace

Opts random_opts(Rng& rng, UOp value, LowerForm form, bool reorder_sums) {
  Opts o;
  const Shape& shape = value.shape();
  const bool any = form == LowerForm::Lanes;
  for (size_t k = 0; k < shape.size(); k++) {
    const auto axis = static_cast<int64_t>(k);
    int64_t f = 1;
    if (rng.percent(60)) f = o.upcast[axis] = any ? rng.between(1, 9) : divisor(rng, shape[k]);
    if (rng.percent(30)) o.tile[axis] = f * (any ? rng.between(1, 4) : divisor(rng, shape[k] / f));
    if (rng.percent(20)) o.thread = axis;
  }
  o.unroll = random_unroll(rng, value, reorder_sums);
  return o;
}

LowerForm random_form(Rng& rng) {
  return rng.percent(60) ? LowerForm::Lanes : LowerForm::Unrolled;
}

}  // namespace uopc::diff
