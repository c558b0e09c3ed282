// How plans grow: linearly with the graph, whatever kernels share and however often a value is read elsewhere than at
// its own index.
#include <gtest/gtest.h>

#include "ir/walk.hpp"
#include "uopc/passes.hpp"
#include "uopc/plan.hpp"

namespace uopc {
namespace {

struct Size {
  size_t kernels = 0, refs = 0, nodes = 0;  // nodes of all programs
};

Size size_of(const std::vector<UOp>& values, int opt) {
  std::vector<PlanResult> results;
  for (UOp v : values) results.push_back({v, {}});
  const Plan plan = make_plan(results, {opt}).plan;
  Size s;
  s.kernels = plan.kernels.size();
  for (const PlanKernel& k : plan.kernels) {
    s.refs += k.refs.size();
    post_order(k.program, [&](UOp) { s.nodes++; });
  }
  return s;
}

// `build` makes the values of a graph of n layers.
template <class Build>
void expect_linear(int64_t n, size_t refs_a_layer, size_t nodes_a_layer, Build&& build) {
  for (int opt : {0, 1}) {
    const auto measure = [&](int64_t layers) {
      Graph g;
      return size_of(build(g, layers), opt);
    };
    const Size whole = measure(n), half = measure(n / 2);
    EXPECT_LE(whole.refs, refs_a_layer * static_cast<size_t>(n)) << "opt " << opt;
    EXPECT_LE(whole.nodes, nodes_a_layer * static_cast<size_t>(n)) << "opt " << opt;
    EXPECT_LE(whole.refs, half.refs * 9 / 4 + 10) << "opt " << opt << ", half of the layers " << half.refs;
    EXPECT_LE(whole.nodes, half.nodes * 9 / 4 + 100) << "opt " << opt << ", half of the layers " << half.nodes;
  }
}

// A residual chain: each layer adds to h a column of row sums of a movement of h.
template <class Move>
std::vector<UOp> residual(Graph& g, int64_t layers, Move&& move) {
  UOp h = g.buffer(16, DType::F32, 0);
  for (int64_t i = 0; i < layers; i++) {
    const UOp moved = move(h);
    const UOp sums = moved.exp2().reduce(Op::Add, static_cast<int64_t>(moved.ndim()));
    h = (moved.reshape({16}) + sums.broadcast_to({16}) * g.buffer(1, DType::F32, i + 1).broadcast_to({16}));
  }
  return {h};
}

TEST(PlanGrowth, ResidualChain) {
  expect_linear(400, 24, 400, [](Graph& g, int64_t n) { return residual(g, n, [](UOp h) { return h; }); });
}

TEST(PlanGrowth, WhatKernelsShareIsAReshape) {
  expect_linear(400, 24, 400, [](Graph& g, int64_t n) {
    return residual(g, n, [](UOp h) { return h.reshape({2, 8}); });
  });
}

TEST(PlanGrowth, WhatKernelsShareIsPermuted) {
  expect_linear(400, 24, 400, [](Graph& g, int64_t n) {
    return residual(g, n, [](UOp h) { return h.reshape({2, 8}).permute({1, 0}).reshape({4, 4}); });
  });
}

TEST(PlanGrowth, ManyResultsShareAReshape) {
  expect_linear(400, 24, 400, [](Graph& g, int64_t n) {
    UOp h = g.buffer(16, DType::F32, 0);
    for (int64_t i = 0; i < 80; i++) h = h * g.buffer(16, DType::F32, i + 1);
    const UOp shared = h.reshape({4, 4});
    std::vector<UOp> values;
    for (int64_t i = 0; i < n; i++) values.push_back(shared + static_cast<double>(i));
    return values;
  });
}

TEST(PlanGrowth, ManyResultsShareAStack) {
  expect_linear(400, 24, 400, [](Graph& g, int64_t n) {
    UOp parts[] = {g.buffer(16, DType::F32, 0), g.buffer(16, DType::F32, 1)};
    for (int64_t i = 2; i < 160; i++) parts[i % 2] = parts[i % 2] * g.buffer(16, DType::F32, i);
    const UOp shared = g.stack(parts).reshape({4, 8});
    std::vector<UOp> values;
    for (int64_t i = 0; i < n; i++) values.push_back(shared + static_cast<double>(i));
    return values;
  });
}

TEST(PlanGrowth, ManyResultsShareANumber) {
  expect_linear(400, 24, 2000, [](Graph& g, int64_t n) {
    UOp h = g.buffer(1, DType::F32, 0).reshape({});
    for (int64_t i = 0; i < n; i++) h = h * g.buffer(1, DType::F32, i + 1).reshape({});
    std::vector<UOp> values;
    for (int64_t i = 0; i < n; i++) values.push_back(h + static_cast<double>(i));
    return values;
  });
}

// x[i - by], zeros in front.
UOp shifted(UOp x, int64_t by) {
  const std::pair<int64_t, int64_t> amount{by, 0};
  return pad(x, std::span(&amount, 1)).shrink({{0, x.shape()[0]}});
}

TEST(PlanGrowth, AChainOfSumsWithWhatWasShifted) {
  for (bool doubling : {false, true})
    expect_linear(40, 6, 1000, [&](Graph& g, int64_t n) {
      UOp x = g.buffer(1 << 10, DType::F32, 0);
      for (int64_t i = 0; i < n; i++) x = x + shifted(x, doubling ? int64_t{1} << (i % 9) : 1);
      return std::vector<UOp>{x};
    });
}

TEST(PlanGrowth, AChainOfSumsOfTwoParts) {
  expect_linear(40, 6, 1000, [](Graph& g, int64_t n) {
    UOp x = g.buffer(128, DType::F32, 0);
    for (int64_t i = 0; i < n; i++) {
      const std::pair<int64_t, int64_t> front{1, 0};
      x = pad(x.shrink({{0, 127}}) * x.shrink({{1, 128}}), std::span(&front, 1));
    }
    return std::vector<UOp>{x};
  });
}

TEST(PlanGrowth, AChainOfSumsWithTheTranspose) {
  expect_linear(40, 6, 1000, [](Graph& g, int64_t n) {
    UOp x = g.buffer(64, DType::F32, 0).reshape({8, 8});
    for (int64_t i = 0; i < n; i++) {
      const UOp other = x.permute({1, 0}).reshape({64}) * g.buffer(64, DType::F32, i + 1);
      x = x + other.reshape({8, 8});
    }
    return std::vector<UOp>{x};
  });
}

TEST(PlanGrowth, AChainOfReductionsOfAStack) {
  expect_linear(40, 6, 1000, [](Graph& g, int64_t n) {
    UOp x = g.buffer(64, DType::F32, 0);
    for (int64_t i = 0; i < n; i++) {
      const UOp both = g.stack({x, shifted(x, 1)});
      x = both.permute({1, 0}).reduce(Op::Add, 1);
    }
    return std::vector<UOp>{x};
  });
}

// What is not shared is not cut, however long it is.
TEST(PlanGrowth, ALongChainReadAtOneIndexIsOneKernel) {
  for (int opt : {0, 1}) {
    Graph g;
    UOp x = g.buffer(16, DType::F32, 0);
    for (int64_t i = 0; i < 300; i++) {
      x = x * x + g.buffer(16, DType::F32, i + 1);
      x = i % 2 ? x.reshape({16}) : x.reshape({4, 4}).permute({1, 0}).reshape({16});
    }
    EXPECT_EQ(size_of({x}, opt).kernels, 1u);
    EXPECT_EQ(size_of({x + shifted(x, 1)}, opt).kernels, 2u);
  }
}

}  // namespace
}  // namespace uopc
