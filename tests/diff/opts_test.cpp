// The net of diff_test.cpp with every graph lowered under random Opts. Loops over the output change no order of
// addition, so that all back ends still agree to the bit, with each other and with the graph. `unroll` does: every
// other graph goes through a net in which floats are added in any order, and the graph's meaning is met within its
// bounds.
#include <gtest/gtest.h>

#include "diff/harness.hpp"
#include "diff/random_opts.hpp"
#include "uopc/passes.hpp"

namespace uopc::diff {
namespace {

constexpr uint64_t kGraphsWithOpts = 800, kOptsShards = 4;

struct Count {
  int lanes = 0, unrolled = 0, threads = 0, tiles = 0, trees = 0, nests = 0;
};

// Programs whose SINK has loops side by side: what a factor leaves over.
bool has_epilogue(UOp program) {
  for (UOp u : toposort(program))
    if (u.is(Op::Sink) && u.src().size() > 1 && u.src(0).is(Op::End) && u.src(1).is(Op::End)) return true;
  return false;
}

class OptsShard : public testing::TestWithParam<uint64_t> {};

TEST_P(OptsShard, GraphsAgreeUnderAnyOpts) {
  Rng rng(GetParam() + 77);
  Count count;
  const auto net_of = [&](bool reorder_sums) {
    NetOptions options;
    options.any_order = reorder_sums;
    options.lower = [&rng, &count, reorder_sums](UOp value, UOp out) {
      const LowerForm form = random_form(rng);
      const Opts opts = random_opts(rng, value, form, reorder_sums);
      for (const auto& [axis, n] : opts.upcast) (form == LowerForm::Lanes ? count.lanes : count.unrolled) += n > 1;
      count.threads += opts.thread.has_value();
      count.tiles += !opts.tile.empty();
      count.trees += opts.unroll > 1;
      const UOp program = lower(value, out, opts, form);
      count.nests += has_epilogue(program);
      return program;
    };
    return options;
  };
  Net exact(net_of(false)), any_order(net_of(true));
  const uint64_t n = kGraphsWithOpts / kOptsShards;
  for (uint64_t seed = n * GetParam(); seed < n * (GetParam() + 1); seed++) {
    auto graph = std::make_unique<Graph>();
    const Sample sample = random_graph(*graph, seed);
    (seed % 2 ? any_order : exact).add(std::move(graph), sample);
    if (seed % 100 == 99) exact.flush(), any_order.flush();
  }
  for (Net* net : {&exact, &any_order}) {
    net->flush();
    for (size_t i = 0; i < net->findings().size() && i < 3; i++)
      ADD_FAILURE() << net->findings()[i].where << "\n" << net->findings()[i].uir;
    EXPECT_EQ(net->findings().size(), 0u);
    EXPECT_GE(net->runs_of_c(), static_cast<int>(n / 2));
    EXPECT_GE(net->runs_of_jit(), static_cast<int>(n));
  }
  EXPECT_GE(count.lanes, 100);
  EXPECT_GE(count.unrolled, 30);
  EXPECT_GE(count.threads, 30);
  EXPECT_GE(count.tiles, 30);
  EXPECT_GE(count.trees, 10);
  EXPECT_GE(count.nests, 30);
}
INSTANTIATE_TEST_SUITE_P(Opts, OptsShard, testing::Range(uint64_t{0}, kOptsShards));

}  // namespace
}  // namespace uopc::diff
