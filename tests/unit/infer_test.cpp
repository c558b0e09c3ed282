// The type checker (A.3): the messages that its script does not trigger, what each op infers, and what is not checked.
// The script's own messages are in golden_test.cpp.
#include <gtest/gtest.h>

#include <functional>

#include "uopc/uop.hpp"

namespace uopc {
namespace {

class Infer : public testing::Test {
 protected:
  UOp c(Scalar v) { return g.constant(v); }
  UOp buffer(int64_t n, DType d = DType::F32) { return g.buffer(n, d, 0); }
  UOp matrix() { return buffer(6).reshape({2, 3}); }

  std::string failure(const std::function<UOp()>& build) {
    const size_t before = g.size();
    try {
      build();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::Type);
      EXPECT_EQ(g.size(), before) << "a malformed node was kept";
      return e.what();
    }
    return "no error";
  }
  std::string failure(Op op, std::vector<UOp> src, Arg arg = {}) {
    return failure([&] { return g.make(op, src, arg); });
  }

  Graph g;
};

TEST_F(Infer, OtherMessages) {
  EXPECT_EQ(failure(Op::Const, {c(1)}, Scalar(2)), "CONST has no sources");
  EXPECT_EQ(failure(Op::Alloc, {}, ParamArg{0, DType::F32, {}, {}}), "ALLOC is flat");
  EXPECT_EQ(failure(Op::Stack, {}), "STACK of nothing");
  EXPECT_EQ(failure(Op::Stack, {c(1), matrix()}), "STACK srcs must agree in shape and dtype");
  EXPECT_EQ(failure(Op::Index, {buffer(4), buffer(4, DType::I32)}), "INDEX indices are i32 scalars");
  EXPECT_EQ(failure(Op::Index, {c(1), c(0)}), "INDEX: 1 indices into shape ()");
  EXPECT_EQ(failure(Op::Where, {c(true), c(1), c(1.0)}), "WHERE branches disagree: dtypes.i32 vs dtypes.f32");
  EXPECT_EQ(failure(Op::Where, {c(true), matrix(), matrix()}), "WHERE shape mismatch () (2, 3) (2, 3)");
  EXPECT_EQ(failure(Op::Sqrt, {c(1.0), c(1.0)}), "Ops.SQRT is unary");
  EXPECT_EQ(failure(Op::Cast, {}, DType::F32), "Ops.CAST is unary");
  EXPECT_EQ(failure(Op::Recip, {c(true)}), "Ops.RECIP needs a float, got dtypes.bool");
  EXPECT_EQ(failure(Op::FloorMod, {c(1.0), c(1.0)}), "Ops.FLOORMOD is integer only");
  EXPECT_EQ(failure(Op::CmpNe, {c(1), c(true)}), "Ops.CMPNE: dtype mismatch dtypes.i32 vs dtypes.bool (use CAST)");
  EXPECT_EQ(failure(Op::Max, {c(1), matrix()}), "Ops.MAX: shape mismatch () vs (2, 3) (broadcast with EXPAND)");
  EXPECT_EQ(failure(Op::Store, {c(1), c(1)}), "STORE needs memory");
  EXPECT_EQ(failure(Op::Store, {matrix().exp2(), c(1.0)}), "STORE needs memory");
  EXPECT_EQ(failure(Op::Load, {buffer(4).load()}), "LOAD needs memory");
  EXPECT_EQ(failure(Op::Range, {c(true)}, RangeArg{}), "RANGE end is i32");
  EXPECT_EQ(failure(Op::Expand, {matrix()}, Shape{2}), "EXPAND (2, 3) -> (2,)");
  EXPECT_EQ(failure(Op::Permute, {matrix()}, Shape{0}), "PERMUTE (0,) of (2, 3)");
  EXPECT_EQ(failure(Op::Permute, {matrix()}, Shape{-1, 0}), "PERMUTE (-1, 0) of (2, 3)");
  EXPECT_EQ(failure(Op::Permute, {matrix()}, Shape{1, 2}), "PERMUTE (1, 2) of (2, 3)");
  EXPECT_EQ(failure(Op::Shrink, {matrix()}, ShrinkArg{{{0, 1}}}), "SHRINK ((0, 1),) of (2, 3)");
  EXPECT_EQ(failure(Op::Shrink, {matrix()}, ShrinkArg{{{1, 0}, {0, 3}}}), "SHRINK ((1, 0), (0, 3)) of (2, 3)");
  EXPECT_EQ(failure(Op::Shrink, {matrix()}, ShrinkArg{{{-1, 1}, {0, 3}}}), "SHRINK ((-1, 1), (0, 3)) of (2, 3)");
  EXPECT_EQ(failure(Op::Reduce, {matrix()}, ReduceArg{Op::Add, 3}), "REDUCE (Ops.ADD, 3) of (2, 3)");
  EXPECT_EQ(failure(Op::Reduce, {matrix()}, ReduceArg{Op::Max, -1}), "REDUCE (Ops.MAX, -1) of (2, 3)");
  EXPECT_EQ(failure(Op::Reshape, {c(1)}, Shape{2, 3}), "RESHAPE () -> (2, 3)");
}

TEST_F(Infer, CallMessages) {
  const UOp x = g.param(0, DType::F32, {3}), y = g.param(1, DType::F32, {3});
  const UOp value = buffer(3);
  EXPECT_EQ(failure(Op::Call, {x, value, value}, CallArg{}), "CALL needs params 0..1, body has [0]");
  EXPECT_EQ(failure(Op::Call, {y, value}, CallArg{}), "CALL needs params 0..0, body has [1]");
  EXPECT_EQ(failure(Op::Call, {x + y}, CallArg{}), "CALL needs params 0..-1, body has [0, 1]");
  EXPECT_EQ(failure(Op::Call, {g.param(-1, DType::F32), value}, CallArg{}), "CALL needs params 0..0, body has [-1]");
  EXPECT_EQ(failure(Op::Call, {x, matrix()}, CallArg{}), "CALL arg 0: dtypes.f32(2, 3) != param dtypes.f32(3,)");
  EXPECT_EQ(failure(Op::Call, {x + y, value, buffer(3, DType::F16)}, CallArg{}),
            "CALL arg 1: dtypes.f16(3,) != param dtypes.f32(3,)");
  // The body of a CALL inside the body is a scope of its own; its arguments are not.
  const UOp inner = g.call(x + y, std::vector{x, value});
  EXPECT_EQ(failure([&] { return g.call(inner, std::vector{value, value}); }), "CALL needs params 0..1, body has [0]");
  EXPECT_EQ(g.call(inner, std::vector{value}).shape(), (Shape{3}));
}

// Where the reference would stop in Python's own words: a source or an arg that an op cannot do without.
TEST_F(Infer, CountsAndArgs) {
  EXPECT_EQ(failure(Op::Add, {c(1)}), "Ops.ADD takes 2 sources, got 1");
  EXPECT_EQ(failure(Op::Where, {c(true), c(1)}), "Ops.WHERE takes 3 sources, got 2");
  EXPECT_EQ(failure(Op::Load, {}), "Ops.LOAD takes at least 1 source, got 0");
  EXPECT_EQ(failure(Op::Store, {buffer(1)}), "Ops.STORE takes at least 2 sources, got 1");
  EXPECT_EQ(failure(Op::Wmma, {c(1), c(1)}), "Ops.WMMA takes at least 3 sources, got 2");
  EXPECT_EQ(failure(Op::Range, {c(1)}), "Ops.RANGE needs a RangeArg as its arg");
  EXPECT_EQ(failure(Op::Cast, {c(1)}, Scalar(1)), "Ops.CAST needs a DType as its arg");
  EXPECT_EQ(failure(Op::Stage, {c(1)}, Scalar(1)), "Ops.STAGE needs nothing, or 'detach', as its arg");
  EXPECT_EQ(failure(Op::Add, {c(1), c(1)}, Scalar(1)), "Ops.ADD has no arg");
  EXPECT_EQ(failure(Op::Exp2, {UOp()}), "Ops.EXP2: a source is an empty UOp");
  for (int i = 0; i < kOpCount; i++) {
    const Op op = static_cast<Op>(i);
    if (info(op).min_sources > 0) {
      EXPECT_NE(failure(op, {}), "no error") << name(op);
    }
  }
}

TEST_F(Infer, Results) {
  const auto expect = [](UOp u, DType dtype, const Shape& shape, AddrSpace space) {
    EXPECT_EQ(u.dtype(), dtype) << name(u.op());
    EXPECT_EQ(u.shape(), shape) << name(u.op());
    EXPECT_EQ(u.addrspace(), space) << name(u.op());
  };
  constexpr AddrSpace kValue = AddrSpace::Alu, kGlobal = AddrSpace::Global;
  const UOp m = matrix(), f = buffer(6, DType::F16);
  expect(c(true), DType::Bool, {}, kValue);
  expect(c(1), DType::I32, {}, kValue);
  expect(c(1.0), DType::F32, {}, kValue);
  expect(f, DType::F16, {6}, kGlobal);
  expect(g.alloc(2, DType::I32, 0), DType::I32, {2}, AddrSpace::Local);
  for (AddrSpace s : {kValue, kGlobal, AddrSpace::Local, AddrSpace::Shared})
    expect(g.alloc(2, DType::I32, 0, s), DType::I32, {2}, s);
  expect(g.param(0, DType::Bool, {2, 1}), DType::Bool, {2, 1}, kValue);
  expect(g.call(m, {}), DType::F32, {2, 3}, kGlobal);
  expect(g.stack(std::vector{m, m}), DType::F32, {2, 2, 3}, kValue);
  expect(m.index(1), DType::F32, {3}, kGlobal);
  expect(m.index({c(1), c(2)}), DType::F32, {}, kGlobal);
  expect(m.index({}), DType::F32, {2, 3}, kGlobal);
  expect(m.cast(DType::I32), DType::I32, {2, 3}, kValue);
  expect(f.sqrt(), DType::F16, {6}, kValue);
  expect(m + m, DType::F32, {2, 3}, kValue);
  expect(m < m, DType::Bool, {2, 3}, kValue);
  expect(m.ne(m), DType::Bool, {2, 3}, kValue);
  expect(c(7).floordiv(c(2)), DType::I32, {}, kValue);
  expect((m < m).where(m, m), DType::F32, {2, 3}, kValue);
  expect(m.load(), DType::F32, {2, 3}, kValue);
  expect(f.index(0).store(g.constant(1.0, DType::F16)), DType::Void, {}, kValue);
  expect(m.after({c(1)}), DType::F32, {2, 3}, kGlobal);
  expect(g.sink(std::vector{m}), DType::Void, {}, kValue);
  expect(m.end({}), DType::Void, {}, kValue);
  expect(g.barrier({}), DType::Void, {}, kValue);
  expect(g.range_(4, 0), DType::I32, {}, kValue);
  expect(f.reshape({3, 1, 2}), DType::F16, {3, 1, 2}, kGlobal);
  expect(f.reshape({1, 6}).expand({4, 6}), DType::F16, {4, 6}, kGlobal);
  expect(m.permute({1, 0}), DType::F32, {3, 2}, kGlobal);
  expect(m.shrink({{1, 1}, {1, 3}}), DType::F32, {0, 2}, kGlobal);
  expect(m.reduce(Op::Add, 0), DType::F32, {2, 3}, kValue);
  expect(m.reduce(Op::Max, 2), DType::F32, {}, kValue);
  expect(m.stage(), DType::F32, {2, 3}, kValue);
  expect(m.detach(), DType::F32, {2, 3}, kValue);
  expect(g.make(Op::Wmma, {f, f, m}), DType::F32, {2, 3}, kValue);
}

// "What _infer deliberately does not check", and what follows from its text.
TEST_F(Infer, NotChecked) {
  const UOp b = buffer(4), m = matrix();
  EXPECT_NO_THROW(g.make(Op::Load, {b, c(1), b}));
  EXPECT_NO_THROW(g.make(Op::Store, {b, c(1.0), c(2)}));
  EXPECT_NO_THROW(g.make(Op::After, {c(1)}));
  EXPECT_NO_THROW(g.make(Op::After, {c(1), m}));
  EXPECT_NO_THROW(g.make(Op::End, {}));
  EXPECT_NO_THROW(g.make(Op::End, {c(1), c(2.0)}));
  EXPECT_NO_THROW(g.make(Op::Barrier, {}));
  EXPECT_NO_THROW(g.make(Op::Barrier, {c(1)}));
  EXPECT_NO_THROW(g.make(Op::Sink, {c(1), m}));
  EXPECT_NO_THROW(g.make(Op::Store, {m, c(1.0)}));      // the pointer is no scalar
  EXPECT_NO_THROW(g.make(Op::Store, {b.index(0), m}));  // nor need the shapes agree
  EXPECT_NO_THROW(g.call(b, {}));                       // a BUFFER in a CALL body
  EXPECT_NO_THROW(g.make(Op::Wmma, {c(1), m, b, c(true)}));
  EXPECT_NO_THROW(g.make(Op::Range, {buffer(4, DType::I32)}, RangeArg{}));  // the end is no scalar
  EXPECT_NO_THROW(buffer(-3));
  EXPECT_NO_THROW(buffer(4, DType::Void));
  EXPECT_NO_THROW(g.param(-7, DType::Void, {-1, 0}));
  EXPECT_NO_THROW(g.constant(int64_t{1} << 40));
  EXPECT_NO_THROW(m.reshape({-2, -3}));
  EXPECT_NO_THROW(b.reshape({1, 4}).expand({-2, 4}));
  EXPECT_NO_THROW(g.make(Op::Add, {c(true), c(true)}));
  EXPECT_NO_THROW(g.make(Op::Cast, {c(1)}, DType::Void));
  EXPECT_NO_THROW(m.expand({2, 3}));
}

// A product of sizes is exact, however large.
TEST_F(Infer, HugeShapes) {
  const int64_t big = int64_t{1} << 62;
  const UOp b = buffer(big);
  EXPECT_NO_THROW(b.reshape({int64_t{1} << 31, int64_t{1} << 31}).reshape({big}));
  // 2^64 and 2^186: no product wraps to the 1 of a scalar.
  EXPECT_EQ(failure(Op::Reshape, {g.param(0, DType::F32, {big, 4})}, Shape{}),
            "RESHAPE (4611686018427387904, 4) -> ()");
  EXPECT_EQ(failure(Op::Reshape, {g.param(0, DType::F32, {big, big, big})}, Shape{}),
            "shape (4611686018427387904, 4611686018427387904, 4611686018427387904) has too many elements");
  EXPECT_NO_THROW(g.param(0, DType::F32, {big, big, 0, big}).reshape({0}));
}

}  // namespace
}  // namespace uopc
