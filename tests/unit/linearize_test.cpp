// The order, the scopes and the names of a loop program's statements, seen as C text.
#include <gtest/gtest.h>

#include <chrono>

#include "golden.hpp"
#include "passes/linearize.hpp"
#include "program_text.hpp"
#include "reference_eval.hpp"
#include "small_stack.hpp"

namespace uopc {
namespace {

using test::c_error;
using test::c_of;

// The loop program that `lower` with these Opts is to make: two accumulators that share a loop, four loads each.
TEST(Linearize, RegisterTile) {
  EXPECT_EQ(c_of(R"(
%data = buffer 64 : dtype=f32 slot=0
%out = buffer 8 : dtype=f32 slot=1
%r0 = range 4 : idx=0 kind=thread
%r1 = range 2 : idx=1 kind=reduce
%alu1 = mul %r0, 2
%alu2 = mul %r0, 16
%alu4 = mul %r1, 4
%alu5 = add %alu2, %alu4
%alu7 = add %alu4, %alu2
%acc0 = alloc 1 : slot=0
%acc0r = after %acc0, %r0
%acc0i = index %acc0r, 0
%init0 = store %acc0i, 0.0
%acc0l = after %acc0, %init0, %r1
%acc0p = index %acc0l, 0
%val3 = load %acc0p
%i6 = index %data, %alu5
%val6 = load %i6
%j8 = add %alu7, 1
%i8 = index %data, %j8
%val8 = load %i8
%j9 = add %alu7, 2
%i9 = index %data, %j9
%val9 = load %i9
%j10 = add %alu7, 3
%i10 = index %data, %j10
%val10 = load %i10
%s0 = add %val6, %val8
%s1 = add %val9, %val10
%s2 = add %s0, %s1
%s3 = add %val3, %s2
%acc0c = index %acc0, 0
%store0 = store %acc0c, %s3
%acc1 = alloc 1 : slot=1
%acc1r = after %acc1, %r0
%acc1i = index %acc1r, 0
%init1 = store %acc1i, 0.0
%acc1l = after %acc1, %init1, %r1
%acc1p = index %acc1l, 0
%val11 = load %acc1p
%j12 = add %alu5, 8
%i12 = index %data, %j12
%val12 = load %i12
%j13 = add %alu7, 9
%i13 = index %data, %j13
%val13 = load %i13
%j14 = add %alu7, 10
%i14 = index %data, %j14
%val14 = load %i14
%j15 = add %alu7, 11
%i15 = index %data, %j15
%val15 = load %i15
%t0 = add %val12, %val13
%t1 = add %val14, %val15
%t2 = add %t0, %t1
%t3 = add %val11, %t2
%acc1c = index %acc1, 0
%store1 = store %acc1c, %t3
%both = sink %store0, %store1
%end1 = end %both, %r1
%acc0e = after %acc0, %end1
%acc0f = index %acc0e, 0
%val16 = load %acc0f
%o0 = index %out, %alu1
%w0 = store %o0, %val16
%acc1e = after %acc1, %end1
%acc1f = index %acc1e, 0
%val17 = load %acc1f
%alu1p = add %alu1, 1
%o1 = index %out, %alu1p
%w1 = store %o1, %val17
%outs = sink %w0, %w1
%end0 = end %outs, %r0
%k = sink %end0
)"),
            golden::read("opts_cpu").at("lower_c"));
}

constexpr const char* kTwoLoops = R"(
%a = buffer 8 : dtype=i32 slot=0
%b = buffer 8 : dtype=i32 slot=1
%r = range 8 : idx=0
%ai = index %a, %r
%s = store %ai, %r
%e = end %s, %r
)";

TEST(Linearize, SiblingLoopsStandInTheOrderOfTheirEffects) {
  // The second loop reads backwards what the first has written.
  EXPECT_EQ(c_of(std::string(kTwoLoops) + R"(
%q = range 8 : idx=1
%bi = index %b, %q
%m = mul %q, -1
%n = add %m, 7
%done = after %a, %e
%x = index %done, %n
%v = load %x
%t = store %bi, %v
%f = end %t, %q
%k = sink %f)"),
            R"(void kernel(int* restrict data0, int* restrict data1) {
  for (int ridx0 = 0; ridx0 < 8; ridx0++) {
    data0[ridx0] = ridx0;
  }
  for (int ridx1 = 0; ridx1 < 8; ridx1++) {
    int val1 = data0[((ridx1*-1)+7)];
    data1[ridx1] = val1;
  }
}
)");
}

TEST(Linearize, TriangleAndAccumulatorInNestedLoops) {
  EXPECT_EQ(c_of(R"(
%a = buffer 16 : dtype=f32 slot=0
%b = buffer 4 : dtype=f32 slot=1
%r = range 4 : idx=0
%n = add %r, 1
%q = range %n : idx=1 kind=reduce
%acc = alloc 1 : slot=0
%accr = after %acc, %r
%i = index %accr, 0
%init = store %i, 0.0
%accq = after %acc, %init, %q
%j = index %accq, 0
%old = load %j
%row = mul %r, 4
%at = add %row, %q
%p = index %a, %at
%v = load %p
%sum = add %old, %v
%c = index %acc, 0
%s = store %c, %sum
%e = end %s, %q
%acce = after %acc, %e
%l = index %acce, 0
%total = load %l
%o = index %b, %r
%t = store %o, %total
%f = end %t, %r
%k = sink %f)"),
            R"(void kernel(float* restrict data0, float* restrict data1) {
  for (int ridx0 = 0; ridx0 < 4; ridx0++) {
    float acc0;
    acc0 = 0.0f;
    for (int ridx1 = 0; ridx1 < (ridx0+1); ridx1++) {
      float val1 = acc0;
      float val2 = data0[((ridx0*4)+ridx1)];
      acc0 = (val1+val2);
    }
    float val3 = acc0;
    data1[ridx0] = val3;
  }
}
)");
}

TEST(Linearize, AnEndRepeatsWhatDoesNotUseItsRange) {
  EXPECT_EQ(c_of(R"(
%a = buffer 1 : dtype=i32 slot=0
%r = range 0 : idx=0
%i = index %a, 0
%v = load %i
%w = add %v, 1
%s = store %i, %w
%q = range 3 : idx=1
%e = end %s, %q
%f = end %e, %r
%k = sink %f)"),
            R"(void kernel(int* restrict data0) {
  int val1 = data0[0];
  for (int ridx0 = 0; ridx0 < 0; ridx0++) {
    for (int ridx1 = 0; ridx1 < 3; ridx1++) {
      data0[0] = (val1+1);
    }
  }
}
)");
}

TEST(Linearize, SeveralEndsOverOneRangeShareItsLoop) {
  // What follows the first END still waits for the whole loop.
  EXPECT_EQ(c_of(std::string(kTwoLoops) + R"(
%done = after %a, %e
%x = index %done, 7
%v = load %x
%c = buffer 1 : dtype=i32 slot=2
%ci = index %c, 0
%u = store %ci, %v
%bi = index %b, %r
%t = store %bi, 5
%f = end %t, %r
%k = sink %u, %f)"),
            R"(void kernel(int* restrict data0, int* restrict data1, int* restrict data2) {
  for (int ridx0 = 0; ridx0 < 8; ridx0++) {
    data0[ridx0] = ridx0;
    data1[ridx0] = 5;
  }
  int val1 = data0[7];
  data2[0] = val1;
}
)");
}

TEST(Linearize, SharedMemoryStandsFirstAndLocalMemoryWhereItIsUsed) {
  EXPECT_EQ(c_of(R"(
%a = buffer 4 : dtype=f32 slot=0
%r = range 4 : idx=0
%x = alloc 3 : slot=5
%xi = index %x, %r
%s = store %xi, 1.0
%y = alloc 1 : slot=1 space=shared
%yi = index %y, 0
%t = store %yi, 2.0
%ai = index %a, %r
%ax = after %x, %s
%ay = after %y, %t
%xj = index %ax, 2
%yj = index %ay, 0
%v = load %xj
%w = load %yj
%z = add %v, %w
%u = store %ai, %z
%e = end %u, %r
%k = sink %e)"),
            R"(void kernel(float* restrict data0) {
  float smem1[1];
  smem1[0] = 2.0f;
  float val1 = smem1[0];
  for (int ridx0 = 0; ridx0 < 4; ridx0++) {
    float acc5[3];
    acc5[ridx0] = 1.0f;
    float val2 = acc5[2];
    data0[ridx0] = (val2+val1);
  }
}
)");
}

TEST(Linearize, ScopesAndLoopTargets) {
  Graph g;
  const UOp a = g.buffer(12, DType::F32, 0), r0 = g.range_(3, 0), r1 = g.range_(4, 1), r2 = g.range_(2, 2);
  const UOp store = a.index(r0 * g.constant(4) + r1).store(g.constant(1.0));
  const UOp end1 = store.end({r1});
  const UOp store2 = a.after({end1}).index(r2).store(g.constant(2.0));
  const UOp root = g.sink({{store2.end({r2}).end({r0})}});
  const auto order = toposort(root);
  const auto in = scopes(order);
  const auto targets = loop_targets(order);
  using Loops = std::vector<UOp>;
  for (size_t i = 0; i < order.size(); i++) {
    if (order[i] == store) {
      EXPECT_EQ(in[i], (Loops{r0, r1}));
    }
    if (order[i] == end1) {
      EXPECT_EQ(in[i], (Loops{r0}));
    }
    if (order[i] == store2) {
      EXPECT_EQ(in[i], (Loops{r0, r2}));
    }
    if (order[i] == r1) {
      EXPECT_EQ(in[i], (Loops{r1}));
    }
    if (order[i] == root) {
      EXPECT_EQ(in[i], Loops{});
    }
    const bool inner = order[i] == r1 || order[i] == r2;
    EXPECT_EQ(targets[i], inner ? r0 : UOp());
  }
}

TEST(LinearizeErrors, Scopes) {
  EXPECT_EQ(c_error("%a = buffer 8 : dtype=i32 slot=0\n%r = range 8 : idx=0\n%i = index %a, %r\n%s = store %i, %r\n"
                    "%k = sink %s"),
            "UOpError: no END closes RANGE idx=0 kind=loop");
  EXPECT_EQ(c_error("%a = buffer 8 : dtype=i32 slot=0\n%r = range 4 : idx=0\n%q = range 2 : idx=1 kind=reduce\n"
                    "%m = mul %r, 2\n%n = add %m, %q\n%i = index %a, %n\n%s = store %i, %r\n%e = end %s, %r\n"
                    "%f = end %e, %q\n%k = sink %f"),
            "UOpError: END closes RANGE idx=0 kind=loop while RANGE idx=1 kind=reduce inside it is still open");
  EXPECT_EQ(c_error(std::string(kTwoLoops) + "%d = after %a, %e\n%x = index %d, %r\n%v = load %x\n%bi = index %b, %r\n"
                                             "%t = store %bi, %v\n%f = end %t, %r\n%k = sink %f"),
            "UOpError: the order of effects is circular: RANGE idx=0 kind=loop must come both before and after another "
            "effect");
  EXPECT_EQ(c_error(std::string(kTwoLoops) + "%d = after %a, %e, %r\n%x = index %d, 0\n%v = load %x\n"
                                             "%bi = index %b, %r\n%t = store %bi, %v\n%f = end %t, %r\n%k = sink %f"),
            "UOpError: AFTER uses RANGE idx=0 kind=loop after the END that closed it");
  // Circular through a value that does not use the range itself.
  EXPECT_EQ(c_error(std::string(kTwoLoops) + "%d = after %a, %e\n%x = index %d, 0\n%v = load %x\n%bi = index %b, %r\n"
                                             "%t = store %bi, %v\n%f = end %t, %r\n%k = sink %f"),
            "UOpError: the order of effects is circular: LOAD must come both before and after another effect");
  EXPECT_EQ(c_error("%a = buffer 8 : dtype=i32 slot=0\n%r = range 4 : idx=0\n%q = range 2 : idx=0 kind=reduce\n"
                    "%m = mul %r, 2\n%n = add %m, %q\n%i = index %a, %n\n%s = store %i, %r\n%e = end %s, %r, %q\n"
                    "%k = sink %e"),
            "UOpError: two loops of one idx stand inside each other: RANGE idx=0 kind=reduce");
  EXPECT_EQ(c_error("%a = buffer 8 : dtype=i32 slot=0\n%r = range 4 : idx=1\n%n = add %r, 1\n%q = range %n : idx=0\n"
                    "%i = index %a, %q\n%s = store %i, %r\n%e = end %s, %r, %q\n%k = sink %e"),
            "UOpError: RANGE idx=0 kind=loop depends on what its own loop computes");
  EXPECT_EQ(c_error("%a = alloc 1 : slot=0\n%b = alloc 2 : slot=0\n%o = buffer 1 : slot=0\n%i = index %a, 0\n"
                    "%j = index %b, 0\n%s = store %i, 1.0\n%t = store %j, 1.0\n%k = sink %s, %t"),
            "UOpError: ALLOC slot=0 is declared twice in one scope, with another size or dtype");
}

TEST(LinearizeErrors, TooDeep) {
  Graph g;
  UOp sum = g.constant(0);
  std::vector<UOp> ranges;
  for (int i = 0; i < 2000; i++) {
    ranges.push_back(g.range_(1, i));
    sum = sum + ranges.back();
  }
  const UOp end = g.buffer(1, DType::I32, 0).index(int64_t{0}).store(sum).end(ranges);
  EXPECT_EQ(test::error_of([&] { linearize(g.sink({&end, 1})); }),
            "NotImplementedError: loops nested more than 250 deep");
}

double seconds(auto&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(LinearizeStress, DeepChainHasNamesAndNeedsNoStack) {
  Graph g;
  Linearized program;
  on_small_stack([&] {
    const UOp a = g.buffer(1, DType::F32, 0), b = g.buffer(1, DType::F32, 1);
    UOp y = a.index(int64_t{0}).load();
    for (int i = 0; i < 50'000; i++) y = (y + y.const_like(1.0)).recip();
    const UOp s = b.index(int64_t{0}).store(y);
    const UOp root = g.sink({&s, 1});
    program = linearize(root);
    EXPECT_LT(render_c_body(root).size(), 2'000'000u);
  });
  EXPECT_EQ(program.lines.size(), 2u + 100'000 / (kMaxInlineDepth + 1));
  test::Memory memory{{0, {1.0}}, {1, {0.0}}};
  test::run_lines(program, memory);
  EXPECT_NEAR(memory[1][0].as_float(), 0.618034, 1e-6);
}

TEST(LinearizeStress, Doubling) {
  Graph g;
  UOp y = g.buffer(1, DType::F32, 0).index(int64_t{0}).load();
  for (int i = 0; i < 64; i++) y = y + y;
  const UOp s = g.buffer(1, DType::F32, 1).index(int64_t{0}).store(y);
  const UOp root = g.sink({&s, 1});
  EXPECT_LT(render_c_body(root).size(), 4000u);
}

// Statements, loops and orderings, each many: the time for ten times as many is about ten times as long.
TEST(LinearizeStress, ManyStatementsInManyLoops) {
  const auto run = [](int n) {
    Graph g;
    const UOp a = g.buffer(1'000'000, DType::I32, 0);
    UOp last = a;
    std::vector<UOp> ends;
    for (int i = 0; i < n; i++) {
      const UOp r = g.range_(2, i);
      const UOp at = last.index(r + r.const_like(i));
      const UOp e = at.store(at.load() * at.load()).end({r});
      last = i % 2 ? last.after({e}) : a.after({e});
      ends.push_back(e);
    }
    const UOp root = g.sink(ends);
    return seconds([&] { EXPECT_EQ(linearize(root).lines.size(), static_cast<size_t>(n) * 4); });
  };
  run(1000);
  EXPECT_LT(run(20'000), 60 * run(2000) + 0.1);
}

// An accumulator that stands outside a THREAD loop: every thread would add to the same cell.
TEST(Linearize, AThreadedStoreToOneCommonCellIsRefused) {
  const auto row_sums = [](const char* init_after, const char* kind) {
    return std::string("%in = buffer 32 : slot=0\n%out = buffer 4 : slot=1\n%i = range 4 : idx=0 kind=") + kind +
           "\n%k = range 8 : idx=1 kind=reduce\n%acc = alloc 1 : slot=0\n%a0 = after %acc" + init_after +
           "\n%p0 = index %a0, 0\n%init = store %p0, 0.0\n%a1 = after %acc, %init, %i, %k\n%p1 = index %a1, 0\n"
           "%old = load %p1\n%row = mul %i, 8\n%flat = add %row, %k\n%pin = index %in, %flat\n%x = load %pin\n"
           "%new = add %old, %x\n%p2 = index %acc, 0\n%put = store %p2, %new\n%sum = end %put, %k\n"
           "%a3 = after %acc, %sum\n%p3 = index %a3, 0\n%v = load %p3\n%po = index %out, %i\n%so = store %po, %v\n"
           "%done = end %so, %i\n%z = sink %done\n";
  };
  EXPECT_EQ(c_error(row_sums("", "thread")),
            "UOpError: all threads of RANGE idx=0 kind=thread store to one cell of ALLOC slot=0, which is declared outside "
            "that loop: order its first STORE after the RANGE, or index it by the RANGE");
  EXPECT_EQ(c_error(row_sums("", "loop")), "");
  EXPECT_EQ(c_error(row_sums(", %i", "thread")), "");
}

}  // namespace
}  // namespace uopc
