#include "passes/merge_ends.hpp"

#include <gtest/gtest.h>

#include "program_text.hpp"
#include "small_stack.hpp"

namespace uopc {
namespace {

// Stores a constant at each step of `range`.
UOp loop(UOp memory, UOp range, int value) {
  return memory.index(range).store(memory.graph().constant(value)).end({range});
}

TEST(MergeEnds, OfOneLoopBecomeOneInOrder) {
  Graph g;
  const UOp a = g.buffer(4, DType::I32, 0), b = g.buffer(4, DType::I32, 1);
  const UOp r = g.range_(4, 0, AxisType::Loop), other = g.range_(4, 1, AxisType::Loop);
  const UOp merged = merge_ends(g.sink({{loop(b, r, 1), loop(a, other, 2), loop(a, r, 3)}}));
  EXPECT_EQ(render_c_body(merged), R"(void kernel(int* restrict data0, int* restrict data1) {
  for (int ridx0 = 0; ridx0 < 4; ridx0++) {
    data1[ridx0] = 1;
    data0[ridx0] = 3;
  }
  for (int ridx1 = 0; ridx1 < 4; ridx1++) {
    data0[ridx1] = 2;
  }
}
)");
  EXPECT_EQ(merge_ends(merged), merged);
}

TEST(MergeEnds, ThatDependOnEachOtherAreRefused) {
  Graph g;
  const UOp a = g.buffer(4, DType::I32, 0), b = g.buffer(4, DType::I32, 1), r = g.range_(4, 0, AxisType::Loop);
  const UOp second = b.index(r).store(a.after({loop(a, r, 3)}).index(0).load()).end({r});
  EXPECT_EQ(test::error_of([&] {
              merge_ends(g.sink({&second, 1}));
            }),
            "UOpError: END depends on another END of the same loops");
}

TEST(MergeEnds, OfALongChainOfLoopsOnASmallStack) {
  on_small_stack([] {
    Graph g;
    const UOp a = g.buffer(4, DType::I32, 0), b = g.buffer(4, DType::I32, 1);
    UOp x = a, y = b;
    int ends = 0;
    for (int i = 0; i < 20'000; i++) {
      const UOp r = g.range_(4, i, AxisType::Loop);
      x = a.after({loop(x, r, 1)});
      y = b.after({loop(y, r, 2)});
    }
    const UOp sink = merge_ends(g.sink({{x.index(0).store(g.constant(0)), y.index(0).store(g.constant(0))}}));
    for (UOp u : toposort(sink)) ends += u.is(Op::End);
    EXPECT_EQ(ends, 20'000);
  });
}

}  // namespace
}  // namespace uopc
