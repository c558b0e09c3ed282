// Nodes and builders (A.2, A.4): interning, walks, and the identities that builders promise.
#include "uopc/uop.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "error_of.hpp"
#include "small_stack.hpp"

namespace uopc {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Interning, EqualMeansTheSameNode) {
  Graph g;
  const UOp a = g.buffer(4, DType::F32, 0);
  EXPECT_EQ(a, g.buffer(4, DType::F32, 0));
  EXPECT_EQ(a + a, a + a);
  EXPECT_EQ(&(a + a).exp2().node(), &g.make(Op::Exp2, {g.make(Op::Add, {a, a})}).node());
  const size_t before = g.size();
  a + a;
  EXPECT_EQ(g.size(), before);
}

TEST(Handle, OfNothingIsAnErrorToAsk) {
  Graph g;
  const UOp none, a = g.buffer(4, DType::F32, 0);
  EXPECT_FALSE(none);
  EXPECT_EQ(none, UOp());
  EXPECT_NE(none, a);
  const std::string message = "an empty UOp (default-made, or of an empty tensor) has no node to ask";
  EXPECT_EQ(error_of([&] { none.op(); }), message);
  EXPECT_EQ(error_of([&] { none.shape(); }), message);
  EXPECT_EQ(error_of([&] { a + none; }), "Ops.ADD: a source is an empty UOp");
  EXPECT_EQ(error_of([&] { none.exp2(); }), message);
}

TEST(Interning, EveryPartOfTheKeyCounts) {
  Graph g;
  const UOp a = g.buffer(4, DType::F32, 0), b = g.buffer(4, DType::F32, 1);
  const UOp m = a.reshape({2, 2});
  const UOp nodes[] = {
      a,
      b,
      g.buffer(5, DType::F32, 0),
      g.buffer(4, DType::I32, 0),
      g.alloc(4, DType::F32, 0),
      g.alloc(4, DType::F32, 0, AddrSpace::Local),
      g.alloc(4, DType::F32, 0, AddrSpace::Shared),
      g.param(0, DType::F32, {4}),
      a + b,
      b + a,
      a * b,
      a + a,
      a.reshape({2, 2}),
      a.reshape({4, 1}),
      m.permute({1, 0}),
      m.permute({0, 1}),
      a.shrink({{0, 2}}),
      a.shrink({{0, 3}}),
      a.shrink({{1, 3}}),
      m.reduce(Op::Add, 1),
      m.reduce(Op::Max, 1),
      m.reduce(Op::Add, 2),
      a.stage(),
      a.detach(),
      a.cast(DType::F16),
      a.cast(DType::I32),
      g.range_(4, 0),
      g.range_(4, 1),
      g.range_(4, 0, AxisType::Thread),
      g.range_(5, 0),
      g.call(a, {}, "f"),
      g.call(a, {}, "g"),
      a.index(0),
      a.index(1),
      g.make(Op::Sink, {a}),
      g.make(Op::Sink, {a, a}),
      g.make(Op::Barrier, {a}),
      g.make(Op::End, {a}),
  };
  for (size_t i = 0; i < std::size(nodes); i++)
    for (size_t k = 0; k < std::size(nodes); k++) EXPECT_EQ(nodes[i] == nodes[k], i == k) << i << " " << k;
}

TEST(Interning, ConstantsDifferInKindAndSign) {
  Graph g;
  const Scalar values[] = {1, 1.0, true, 0, false, 0.0, -0.0, kNaN, -1, int64_t{1} << 32, 1e300};
  for (size_t i = 0; i < std::size(values); i++)
    for (size_t k = 0; k < std::size(values); k++)
      EXPECT_EQ(g.constant(values[i]) == g.constant(values[k]), i == k) << i << " " << k;
  EXPECT_EQ(g.constant(-kNaN), g.constant(kNaN));
  EXPECT_EQ(g.constant(std::bit_cast<double>(0x7ff0000000000001)), g.constant(kNaN));
  EXPECT_TRUE(g.constant(1).is_const(1));
  EXPECT_FALSE(g.constant(1).is_const(true));
  EXPECT_FALSE(g.constant(1).is_const(1.0));
}

TEST(Interning, GraphsDoNotMix) {
  Graph g, other;
  const UOp a = g.constant(1), b = other.constant(1);
  EXPECT_NE(a, b);
  EXPECT_THROW(a + b, Error);
  EXPECT_THROW(g.make(Op::Sink, {b}), Error);
  EXPECT_EQ(other.size(), 1u);
  EXPECT_EQ(&b.graph(), &other);
  const UOp moved = g.import(other.constant(1) + other.constant(2));
  EXPECT_EQ(moved, a + g.constant(2));
  EXPECT_EQ(g.import(moved), moved);
}

TEST(Interning, TwoGraphsInTwoThreads) {
  size_t sizes[2] = {};
  const auto work = [](size_t* size) {
    Graph g;
    UOp u = g.param(0, DType::F32);
    for (int i = 0; i < 20'000; i++) u = u + static_cast<double>(i);
    *size = toposort(u).size();
  };
  std::thread first(work, &sizes[0]), second(work, &sizes[1]);
  first.join();
  second.join();
  EXPECT_EQ(sizes[0], 40'001u);
  EXPECT_EQ(sizes[1], 40'001u);
}

// Built, walked, copied and dropped without recursion.
TEST(Interning, AChainOfAMillionNodes) {
  on_small_stack([] {
    Graph g, copy;
    UOp u = g.param(0, DType::F32);
    for (int i = 0; i < 1'000'000; i++) u = i % 2 ? u.recip() : u.sqrt();
    EXPECT_EQ(g.size(), 1'000'001u);
    EXPECT_EQ(toposort(u).size(), 1'000'001u);
    EXPECT_EQ(toposort(copy.import(u)).size(), 1'000'001u);
    const UOp from = g.param(0, DType::F32), to = g.param(1, DType::F32);
    const std::pair<UOp, UOp> pair{from, to};
    EXPECT_EQ(call_params(substitute(u, {&pair, 1})), std::vector{to});
  });
}

// ---- walks ---------------------------------------------------------------------------------------------------------

TEST(Walks, ToposortIsDepthFirstPostOrder) {
  Graph g;
  const UOp b = g.buffer(4, DType::F32, 1), a = g.buffer(4, DType::F32, 0);
  const UOp sum = a + b, product = sum * a, root = g.stack(std::vector{product, b, sum});
  EXPECT_EQ(toposort(root), (std::vector{a, b, sum, product, root}));
  EXPECT_EQ(toposort(a), std::vector{a});
}

// Against the definition, on random DAGs.
TEST(Walks, ToposortMatchesRecursion) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; round++) {
    Graph g;
    std::vector<UOp> pool{g.param(0, DType::F32), g.param(1, DType::F32)};
    const auto pick = [&] { return pool[random() % pool.size()]; };
    for (int i = 0; i < 60; i++) {
      const UOp a = pick(), b = pick(), c = pick();
      pool.push_back(i % 3 ? a + b : g.make(Op::Where, {a < b, c, a}));
    }
    std::vector<UOp> expected;
    std::set<uint32_t> seen;
    const std::function<void(UOp)> visit = [&](UOp u) {
      if (!seen.insert(u.id()).second) return;
      for (UOp s : u.src()) visit(s);
      expected.push_back(u);
    };
    visit(pool.back());
    EXPECT_EQ(toposort(pool.back()), expected);
  }
}

TEST(Walks, DoublingIsLinear) {
  Graph g;
  UOp u = g.param(0, DType::F32);
  for (int i = 0; i < 64; i++) u = u + u;
  EXPECT_EQ(toposort(u).size(), 65u);
  EXPECT_EQ(call_params(u).size(), 1u);
  Graph copy;
  EXPECT_EQ(toposort(copy.import(u)).size(), 65u);
  const std::pair<UOp, UOp> pair{g.param(0, DType::F32), g.constant(1.0)};
  EXPECT_EQ(toposort(substitute(u, {&pair, 1})).size(), 65u);
}

TEST(Walks, SubstituteActsAtOnce) {
  Graph g;
  const UOp x = g.param(0, DType::F32), y = g.param(1, DType::F32), z = g.param(2, DType::F32);
  const auto swap = std::vector<std::pair<UOp, UOp>>{{x, y}, {y, x}};
  EXPECT_EQ(substitute(x + y * z, swap), y + x * z);
  // What is put in is not looked into again.
  EXPECT_EQ(substitute(x.exp2(), std::vector<std::pair<UOp, UOp>>{{x, x + 1.0}}), (x + 1.0).exp2());
  // The outermost match wins, and a root may be replaced whole.
  EXPECT_EQ(substitute((x + y) * z, std::vector<std::pair<UOp, UOp>>{{x + y, z}, {x, y}}), z * z);
  EXPECT_EQ(substitute(x, swap), y);
  EXPECT_EQ(substitute(z.sin(), swap), z.sin());
  const size_t before = g.size();
  EXPECT_EQ(substitute(z.sin(), {}), z.sin());
  EXPECT_EQ(g.size(), before);
  // A substitution is type-checked like any construction.
  EXPECT_THROW(substitute(x + y, std::vector<std::pair<UOp, UOp>>{{x, g.constant(1)}}), Error);
}

TEST(Walks, CallParamsStopAtANestedBody) {
  Graph g;
  const UOp x = g.param(0, DType::F32), y = g.param(1, DType::F32), z = g.param(2, DType::F32);
  const auto sorted = [](std::vector<UOp> v) {
    std::sort(v.begin(), v.end(), [](UOp a, UOp b) { return a.id() < b.id(); });
    return v;
  };
  const UOp inner = g.call(x * y, std::vector{z, z + 1.0});
  EXPECT_EQ(call_params(inner), std::vector{z});
  EXPECT_EQ(sorted(call_params(inner + x)), (std::vector{x, z}));
  // A PARAM that both a nested body and this one use belongs to both.
  EXPECT_EQ(sorted(call_params(g.call(x, std::vector{y}) + x)), (std::vector{x, y}));
  const UOp closed = g.call(x + 1.0, std::vector{g.constant(2.0)});
  EXPECT_TRUE(call_params(closed).empty());
  EXPECT_TRUE(call_params(g.call(closed, {})).empty());
  EXPECT_EQ(call_params(x), std::vector{x});
}

// ---- builders ------------------------------------------------------------------------------------------------------

class Builders : public testing::Test {
 protected:
  Graph g;
  UOp f = g.buffer(6, DType::F32, 0).reshape({2, 3});
  UOp f2 = g.buffer(6, DType::F32, 1).reshape({2, 3});
  UOp i = g.param(0, DType::I32), i2 = g.param(1, DType::I32);
  UOp b = g.param(2, DType::Bool);
};

TEST_F(Builders, DoNothingWhereThereIsNothingToDo) {
  EXPECT_EQ(f.cast(DType::F32), f);
  EXPECT_EQ(f.cast(DType::F16), g.make(Op::Cast, {f}, DType::F16));
  EXPECT_EQ(f.after({}), f);
  EXPECT_EQ(f.after({i}), g.make(Op::After, {f, i}));
  EXPECT_EQ(g.wrap(f), f);
  EXPECT_EQ(g.wrap(3), g.constant(3));
  EXPECT_EQ(f.broadcast_to({2, 3}), f);
}

TEST_F(Builders, Comparisons) {
  EXPECT_EQ(f < f2, g.make(Op::CmpLt, {f, f2}));
  EXPECT_EQ(f > f2, f2 < f);
  EXPECT_EQ(f >= f2, (f < f2).ne(true));
  EXPECT_EQ(f <= f2, (f2 < f).ne(true));
  EXPECT_EQ(f.ne(f2), g.make(Op::CmpNe, {f, f2}));
  EXPECT_EQ(f.eq(f2), f.ne(f2).ne(true));
  EXPECT_EQ(i.ne(3), g.make(Op::CmpNe, {i, g.constant(3)}));
  EXPECT_EQ(i.eq(3), i.ne(3).ne(true));
  EXPECT_EQ(b.logical_not(), g.make(Op::CmpNe, {b, g.constant(true)}));
  EXPECT_EQ(i > 3, g.make(Op::CmpLt, {g.constant(3), i}));
  EXPECT_EQ(3 < i, i > 3);
  EXPECT_EQ(i <= 3, (i > 3).ne(true));
  EXPECT_EQ((f < f2).ne(true).src(1), (f < f2).const_like(true));
}

TEST_F(Builders, Arithmetic) {
  EXPECT_EQ(f - f2, f + f2 * f2.const_like(-1));
  EXPECT_EQ(-i, i * -1);
  EXPECT_EQ(-i, g.make(Op::Mul, {i, g.constant(-1)}));
  EXPECT_EQ(f / f2, f * f2.recip());
  EXPECT_EQ(1.0 / f, f.const_like(1.0) * f.recip());
  EXPECT_EQ(i % i2, g.make(Op::FloorMod, {i, i2}));
  EXPECT_EQ(i.floordiv(4), g.make(Op::FloorDiv, {i, g.constant(4)}));
  EXPECT_EQ(2 + i, g.make(Op::Add, {g.constant(2), i}));
  EXPECT_EQ(f.minimum(f2), -((-f).max(-f2)));
  EXPECT_EQ(i.minimum(i2), (i < i2).where(i, i2));
  EXPECT_EQ(f.alu(Op::Add, std::vector{f2}), f + f2);
  EXPECT_EQ(f.alu(Op::Exp2), f.exp2());
  EXPECT_THROW(i / i2, Error);
  EXPECT_THROW(-b, Error);
  EXPECT_THROW(i.logical_not(), Error);
  EXPECT_THROW(f.alu(Op::Load), Error);
}

TEST_F(Builders, ConstLike) {
  EXPECT_EQ(i.const_like(2.9), g.constant(2));
  EXPECT_EQ(b.const_like(2), g.constant(true));
  EXPECT_EQ(f.const_like(2), g.constant(2.0).reshape({1, 1}).expand({2, 3}));
  EXPECT_EQ(g.buffer(1, DType::F32, 0).const_like(2), g.constant(2.0).reshape({1}));
  const UOp h = g.param(0, DType::F16, {3});
  EXPECT_EQ(h.const_like(2), g.constant(2.0).cast(DType::F16).reshape({1}).expand({3}));
  EXPECT_EQ((f * 2).src(1), f.const_like(2));
  EXPECT_THROW(g.sink({}).const_like(1), Error);
}

TEST_F(Builders, Constants) {
  EXPECT_EQ(g.constant(3), g.make(Op::Const, {}, Scalar(3)));
  EXPECT_EQ(g.constant(3, DType::F32), g.constant(3.0));
  EXPECT_EQ(g.constant(3, DType::F16), g.make(Op::Cast, {g.constant(3.0)}, DType::F16));
  EXPECT_EQ(g.constant(-2.7, DType::I32), g.constant(-2));
  EXPECT_EQ(g.constant(0.5, DType::Bool), g.constant(true));
  EXPECT_THROW(g.constant(1, DType::Void), Error);
}

TEST_F(Builders, Programs) {
  const UOp buffer = g.buffer(4, DType::I32, 0), r = g.range_(4, 2, AxisType::Thread);
  EXPECT_EQ(r, g.make(Op::Range, {g.constant(4)}, RangeArg{2, AxisType::Thread}));
  EXPECT_EQ(g.range_(i, 0), g.make(Op::Range, {i}, RangeArg{0, AxisType::Loop}));
  EXPECT_EQ(buffer.index(1), g.make(Op::Index, {buffer, g.constant(1)}));
  EXPECT_EQ(buffer.index(r).store(i), g.make(Op::Store, {buffer.index({r}), i}));
  EXPECT_EQ(buffer.index(r).load(), g.make(Op::Load, {buffer.index(r)}));
  EXPECT_EQ(buffer.end({r}), g.make(Op::End, {buffer, r}));
  EXPECT_EQ(g.sink(std::vector{buffer, r}), g.make(Op::Sink, {buffer, r}));
  EXPECT_EQ(g.barrier(std::vector{r}), g.make(Op::Barrier, {r}));
  EXPECT_EQ(f.stage(), g.make(Op::Stage, {f}));
  EXPECT_EQ(f.detach(), g.make(Op::Stage, {f}, DetachArg{}));
}

TEST_F(Builders, BroadcastTo) {
  const UOp v = g.buffer(3, DType::F32, 0);
  EXPECT_EQ(v.broadcast_to({2, 3}), v.reshape({1, 3}).expand({2, 3}));
  EXPECT_EQ(v.broadcast_to({1, 3}), v.reshape({1, 3}));
  EXPECT_EQ(v.reshape({3, 1}).broadcast_to({3, 2}), v.reshape({3, 1}).expand({3, 2}));
  EXPECT_EQ(g.constant(1).broadcast_to({0}), g.constant(1).reshape({1}).expand({0}));
  const auto failure = [](UOp u, const Shape& shape) -> std::string {
    try {
      u.broadcast_to(shape);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(failure(g.buffer(2, DType::F32, 0), {3}), "can't broadcast (3,) with (2,)");
  EXPECT_EQ(failure(f, {3}), "can't broadcast (3,) with (2, 3)");
}

// ---- args and types ------------------------------------------------------------------------------------------------

TEST(Args, RangesAreOrderedByIndexFirst) {
  std::vector<RangeArg> args = {
      {2, AxisType::Loop}, {1, AxisType::Local}, {-1, AxisType::Local}, {1, AxisType::Loop}, {10, AxisType::Loop}};
  std::sort(args.begin(), args.end());
  const std::vector<RangeArg> expected = {
      {-1, AxisType::Local}, {1, AxisType::Loop}, {1, AxisType::Local}, {2, AxisType::Loop}, {10, AxisType::Loop}};
  EXPECT_EQ(args, expected);
}

TEST(DTypes, Table) {
  EXPECT_EQ(dtypes::from_name("f16"), DType::F16);
  for (DType d : {DType::Void, DType::Bool, DType::I32, DType::F32, DType::F16})
    EXPECT_EQ(dtypes::from_name(name(d)), d);
  try {
    dtypes::from_name("f64");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::Type);
    EXPECT_STREQ(e.what(), "unknown dtype 'f64'");
  }
  EXPECT_EQ(dtypes::from_py(true), DType::Bool);
  EXPECT_EQ(dtypes::from_py(1), DType::I32);
  EXPECT_EQ(dtypes::from_py(1.0f), DType::F32);
  EXPECT_EQ(dtypes::min(DType::Bool), Scalar(false));
  EXPECT_EQ(dtypes::max(DType::Bool), Scalar(true));
  EXPECT_EQ(dtypes::min(DType::I32), Scalar(int64_t{INT32_MIN}));
  EXPECT_EQ(dtypes::max(DType::I32), Scalar(int64_t{INT32_MAX}));
  for (DType d : {DType::F32, DType::F16}) {
    EXPECT_EQ(dtypes::min(d), Scalar(-std::numeric_limits<double>::infinity()));
    EXPECT_EQ(dtypes::max(d), Scalar(std::numeric_limits<double>::infinity()));
  }
}

TEST(DTypes, ScalarsConvertAsPythonDoes) {
  EXPECT_EQ(Scalar(-2.7).as_int(), -2);
  EXPECT_EQ(Scalar(1e30).as_int(), INT64_MAX);
  EXPECT_EQ(Scalar(-1e30).as_int(), INT64_MIN);
  EXPECT_EQ(Scalar(kNaN).as_int(), 0);
  EXPECT_TRUE(Scalar(kNaN).as_bool());
  EXPECT_FALSE(Scalar(-0.0).as_bool());
  EXPECT_EQ(Scalar(true).as_float(), 1.0);
  EXPECT_EQ(Scalar(-3).as_float(), -3.0);
}

TEST(Ops, NamesInAnyCase) {
  EXPECT_EQ(op_from_name("cmplt"), Op::CmpLt);
  EXPECT_EQ(op_from_name("CmpLt"), Op::CmpLt);
  EXPECT_FALSE(op_from_name("cmp"));
  EXPECT_FALSE(op_from_name(""));
  for (int k = 0; k < kOpCount; k++) EXPECT_EQ(op_from_name(kOps[k].name), static_cast<Op>(k));
}

TEST(Ops, Groups) {
  EXPECT_EQ(kOpCount, 35);
  const auto members = [](OpSet set) {
    std::string text;
    for (int k = 0; k < kOpCount; k++)
      if (set.has(static_cast<Op>(k))) text += std::string(kOps[k].name) + " ";
    return text;
  };
  EXPECT_EQ(members(kUnary), "CAST RECIP EXP2 LOG2 SQRT SIN ");
  EXPECT_EQ(members(kBinary), "ADD MUL CMPLT FLOORDIV FLOORMOD CMPNE MAX ");
  EXPECT_EQ(members(kAlu), "CAST RECIP ADD MUL CMPLT FLOORDIV FLOORMOD WHERE CMPNE MAX EXP2 LOG2 SQRT SIN ");
  EXPECT_EQ(members(kCommutative), "ADD MUL CMPNE MAX ");
  EXPECT_EQ(members(kMovement), "RESHAPE EXPAND PERMUTE SHRINK ");
}

}  // namespace
}  // namespace uopc
