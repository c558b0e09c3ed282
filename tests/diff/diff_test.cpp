// The net: random programs through every back end.
#include <gtest/gtest.h>

#include <unistd.h>
#include <csignal>
#include <cstring>

#include "diff/harness.hpp"
#include "uopc/uir.hpp"

namespace uopc::diff {
namespace {

constexpr uint64_t kShards = 8;
constexpr uint64_t kBatch = 50;  // programs to a C file

// What the program was at when it touched memory that is not its own.
char current[64] = "";
void on_fault(int number) {
  const char text[] = "\nfault in seed ";
  (void)!write(2, text, sizeof text - 1);
  (void)!write(2, current, std::strlen(current));
  (void)!write(2, "\n", 1);
  signal(number, SIG_DFL);
  raise(number);
}

using Generate = Sample (*)(Graph&, uint64_t);

// The program of `seed` made small.
void explain(Generate generate, uint64_t seed) {
  Graph graph;
  const Sample sample = generate(graph, seed);
  const Sample small = minimise(sample, [](const Sample& s) { return !check(s).empty(); });
  for (const Finding& f : check(small)) std::cerr << "minimised: " << f.where << "\n" << f.uir << "\n";
}

// At least `c` and `jit` programs must have been compared by C and by the JIT.
void run_net(Generate generate, uint64_t begin, uint64_t end, int c, int jit) {
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(s, on_fault);
  Net net;
  for (uint64_t seed = begin; seed < end; seed++) {
    std::snprintf(current, sizeof current, "%llu", static_cast<unsigned long long>(seed));
    auto graph = std::make_unique<Graph>();
    const Sample sample = generate(*graph, seed);
    net.add(std::move(graph), sample);
    if ((seed - begin) % kBatch == kBatch - 1 || seed + 1 == end) {
      std::snprintf(current, sizeof current, "up to %llu, in C", static_cast<unsigned long long>(seed));
      net.flush();
    }
  }
  std::set<uint64_t> shown;
  for (const Finding& f : net.findings()) {
    ADD_FAILURE() << f.where << "\n" << f.uir;
    if (shown.size() < 3 && shown.insert(f.seed).second) explain(generate, f.seed);
    if (shown.size() == 3) break;
  }
  EXPECT_EQ(net.findings().size(), 0u);
  EXPECT_GE(net.runs_of_c(), c);
  EXPECT_GE(net.runs_of_jit(), jit);
  EXPECT_LE(net.unknown_elements(), net.fast_elements() / 3);
}

class Shard : public testing::TestWithParam<uint64_t> {};

TEST_P(Shard, GraphsAgree) {
  run_net(random_graph, kGraphs / kShards * GetParam(), kGraphs / kShards * (GetParam() + 1), kGraphs / kShards,
          kGraphs / kShards * 2);
}
TEST_P(Shard, LoopsAgree) {
  run_net(random_loops, kLoops / kShards * GetParam(), kLoops / kShards * (GetParam() + 1), kLoops / kShards,
          kLoops / kShards);
}
INSTANTIATE_TEST_SUITE_P(Diff, Shard, testing::Range(uint64_t{0}, kShards));

}  // namespace
}  // namespace uopc::diff
