#include <gtest/gtest.h>

#include <cmath>

#include "diff/doubles_eval.hpp"
#include "diff/generator.hpp"
#include "diff/harness.hpp"

namespace uopc::diff {
namespace {

TEST(Generator, SameSeedSameProgram) {
  for (uint64_t seed = 0; seed < 50; seed++) {
    Graph a, b;
    const Sample x = random_graph(a, seed), y = random_graph(b, seed);
    EXPECT_EQ(a.import(y.root), x.root) << seed;
    ASSERT_EQ(x.inputs.size(), y.inputs.size());
    for (size_t i = 0; i < x.inputs.size(); i++) EXPECT_EQ(x.inputs[i].data, y.inputs[i].data) << seed;
  }
}

// What the tests in diff_test.cpp run.
TEST(Generator, EachOpDtypeAndRankOccursOften) {
  Coverage coverage;
  for (uint64_t seed = 0; seed < kGraphs; seed++) {
    Graph graph;
    coverage.add(random_graph(graph, seed).root);
  }
  for (uint64_t seed = 0; seed < kLoops; seed++) {
    Graph graph;
    coverage.add(random_loops(graph, seed).root);
  }
  EXPECT_GE(coverage.programs, 2000);
  const OpSet none{Op::Param, Op::Call, Op::Barrier, Op::Wmma};
  for (int op = 0; op < kOpCount; op++) {
    if (none.has(static_cast<Op>(op))) continue;
    EXPECT_GE(coverage.ops[op], 100) << name(static_cast<Op>(op));
  }
  for (DType d : {DType::Bool, DType::I32, DType::F32, DType::F16}) {
    EXPECT_GE(coverage.dtypes[static_cast<int>(d)], 1000) << name(d);
    for (Op op : {Op::Add, Op::Mul, Op::Max, Op::Where, Op::Cast, Op::Stack, Op::Index, Op::Reshape, Op::Expand,
                  Op::Permute, Op::Shrink, Op::Reduce, Op::Stage})
      EXPECT_GE(coverage.op_dtype[static_cast<int>(op)][static_cast<int>(d)], 50) << name(op) << " " << name(d);
  }
  for (int rank = 0; rank <= 4; rank++) EXPECT_GE(coverage.ranks[rank], 1000) << rank;
}

// The evaluator's two values must agree with each other, or one of them is wrong.
TEST(Generator, ExactValuesLieWithinTheBoundOfTheDoubles) {
  size_t elements = 0, known = 0;
  for (uint64_t seed = 0; seed < 2000; seed++) {
    Graph graph;
    const Sample s = random_graph(graph, seed);
    const Evaluated e = evaluate_doubles(s.root, s.inputs);
    for (const Element& x : e.elements) {
      elements++;
      if (!x.known) continue;
      known++;
      if (x.value != x.value) {
        EXPECT_NE(x.exact, x.exact) << "seed " << seed;
      } else if (x.value != x.exact) {
        EXPECT_LE(std::fabs(x.value - x.exact), error_bound(x, e.dtype)) << "seed " << seed << " exact " << x.exact;
      }
    }
  }
  EXPECT_GT(known, elements * 3 / 4);
  RecordProperty("elements", std::to_string(elements));
  RecordProperty("known", std::to_string(known));
}

}  // namespace
}  // namespace uopc::diff
