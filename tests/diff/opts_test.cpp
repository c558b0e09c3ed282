// The net of diff_test.cpp with every graph lowered under random Opts. Loops over the output change no order of
// addition, so that all back ends still agree to the bit; `unroll` does, and is left to integers.
#include <gtest/gtest.h>

#include "diff/harness.hpp"
#include "ir/walk.hpp"
#include "uopc/passes.hpp"

namespace uopc::diff {
namespace {

constexpr uint64_t kGraphsWithOpts = 600, kOptsShards = 4;

int64_t divisor(Rng& rng, int64_t n) {
  std::vector<int64_t> all;
  for (int64_t d = 1; d <= n && d <= 16; d++)
    if (n % d == 0) all.push_back(d);
  return all.empty() ? 1 : rng.pick(all);
}

// What `unroll` may be for every REDUCE of `value`: 1 where a sum of floats would be reordered.
int64_t random_unroll(Rng& rng, UOp value) {
  int64_t unroll = 0;
  post_order(value, [&](UOp u) {
    if (!u.is(Op::Reduce)) return;
    int64_t last = 1;
    const Shape& shape = u.src(0).shape();
    for (size_t k = u.shape().size(); k < shape.size(); k++)
      if (shape[k] != 1) last = shape[k];
    if (is_float(u.dtype())) unroll = 1;
    if (unroll == 0) unroll = divisor(rng, last);
    if (last % unroll != 0) unroll = 1;
  });
  post_order(value, [&](UOp u) {
    if (u.is(Op::Reduce) && is_float(u.dtype())) unroll = 1;
  });
  return std::max<int64_t>(unroll, 1);
}

Opts random_opts(Rng& rng, UOp value, LowerForm form) {
  Opts o;
  const Shape& shape = value.shape();
  for (size_t k = 0; k < shape.size(); k++) {
    const auto axis = static_cast<int64_t>(k);
    const bool any = form == LowerForm::Lanes;
    if (rng.percent(60)) o.upcast[axis] = any ? rng.between(1, 9) : divisor(rng, shape[k]);
    const int64_t f = o.upcast.contains(axis) ? o.upcast[axis] : 1;
    if (rng.percent(30)) o.tile[axis] = any ? f * rng.between(1, 4) : f * divisor(rng, shape[k] / f);
    if (rng.percent(20)) o.thread = axis;
  }
  o.unroll = random_unroll(rng, value);
  return o;
}

struct Count {
  int lanes = 0, unrolled = 0, threads = 0, tiles = 0;
};

class OptsShard : public testing::TestWithParam<uint64_t> {};

TEST_P(OptsShard, GraphsAgreeUnderAnyOpts) {
  Rng rng(GetParam() + 77);
  Count count;
  NetOptions options;
  options.lower = [&](UOp value, UOp out) {
    const LowerForm form = rng.percent(60) ? LowerForm::Lanes : LowerForm::Unrolled;
    const Opts opts = random_opts(rng, value, form);
    for (const auto& [axis, n] : opts.upcast) (form == LowerForm::Lanes ? count.lanes : count.unrolled) += n > 1;
    count.threads += opts.thread.has_value();
    count.tiles += !opts.tile.empty();
    return lower(value, out, opts, form);
  };
  Net net(options);
  const uint64_t n = kGraphsWithOpts / kOptsShards;
  for (uint64_t seed = n * GetParam(); seed < n * (GetParam() + 1); seed++) {
    auto graph = std::make_unique<Graph>();
    const Sample sample = random_graph(*graph, seed);
    net.add(std::move(graph), sample);
    if (seed % 50 == 49) net.flush();
  }
  net.flush();
  for (size_t i = 0; i < net.findings().size() && i < 3; i++)
    ADD_FAILURE() << net.findings()[i].where << "\n" << net.findings()[i].uir;
  EXPECT_EQ(net.findings().size(), 0u);
  EXPECT_GE(count.lanes, 100);
  EXPECT_GE(count.unrolled, 30);
  EXPECT_GE(count.threads, 30);
  EXPECT_GE(count.tiles, 30);
}
INSTANTIATE_TEST_SUITE_P(Opts, OptsShard, testing::Range(uint64_t{0}, kOptsShards));

}  // namespace
}  // namespace uopc::diff
