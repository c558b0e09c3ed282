// Shaped graphs to C text.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "golden.hpp"
#include "passes/rangeify.hpp"
#include "program_text.hpp"
#include "reference_eval.hpp"
#include "small_stack.hpp"

namespace uopc {
namespace {

using test::c_error;
using test::c_of;

class GoldenLower : public testing::TestWithParam<std::string> {};
TEST_P(GoldenLower, C) {
  const auto c = golden::read(GetParam());
  Graph g;
  const Opts opts = c.has("opts") ? parse_opts(c.at("opts")) : Opts();
  EXPECT_EQ(render_c_body(as_program(parse(g, c.at("uir")), opts)), c.at("lower_c"));
}
INSTANTIATE_TEST_SUITE_P(Files, GoldenLower, testing::ValuesIn(golden::cases_with("lower_c")),
                         [](const auto& info) { return info.param; });

TEST(Lower, SoftmaxKernels) {
  const std::string x = "%x = buffer 12 : dtype=f32 slot=0\n%r = reshape %x, (3, 4)\n";
  const std::string expf =
      "%m = buffer 3 : dtype=f32 slot=1\n%n = mul %m, -1.0\n%b = reshape %n, (3, 1)\n"
      "%d = add %r, %b\n%l = mul %d, 1.4426950408889634\n%e = exp2 %l\n";
  const auto golden = golden::read("softmax_3x4_opt0").at("kernels");
  EXPECT_EQ(c_of(x + "%s = reduce %r : op=max pop=1", "r_3") + c_of(x + expf + "%s = reduce %e : op=add pop=1", "r_3") +
                c_of(x + expf +
                         "%t = buffer 3 : dtype=f32 slot=2\n%u = recip %t\n%v = reshape %u, (3, 1)\n%w = mul %e, %v",
                     "e_3_4"),
            golden);
}

using test::Data;
using test::Memory;

Data floats(std::initializer_list<double> v) { return Data(v.begin(), v.end()); }
Data counting(int64_t n) {
  Data out;
  for (int64_t i = 0; i < n; i++) out.push_back(static_cast<double>(i));
  return out;
}

// ---- the rules that no golden text touches --------------------------------------------------------------------------

TEST(Lower, SizeOneAxesHaveNoLoopAndEmptyOnesRunNoTimes) {
  EXPECT_EQ(c_of("%a = buffer 3 : slot=0\n%r = reshape %a, (1, 3, 1)\n%s = reduce %r : op=add pop=1"),
            R"(void kernel(float* restrict data0, float* restrict data1) {
  for (int ridx0 = 0; ridx0 < 3; ridx0++) {
    float val1 = data0[ridx0];
    data1[ridx0] = val1;
  }
}
)");
  EXPECT_EQ(c_of("%a = buffer 0 : slot=0\n%r = reshape %a, (2, 0)\n%s = reduce %r : op=max pop=1"),
            R"(void kernel(float* restrict data1) {
  for (int ridx0 = 0; ridx0 < 2; ridx0++) {
    float acc0;
    acc0 = -INFINITY;
    for (int ridx1 = 0; ridx1 < 0; ridx1++) {
      float val1 = acc0;
      acc0 = ((val1>0.0f)?val1:0.0f);
    }
    float val2 = acc0;
    data1[ridx0] = val2;
  }
}
)");
}

TEST(Lower, OuterReductionIsNumberedFirst) {
  // A sum over rows of (the row's maximum, squared): the inner loop stands in the outer one.
  EXPECT_EQ(c_of("%a = buffer 12 : slot=0\n%r = reshape %a, (3, 4)\n%m = reduce %r : op=max pop=1\n%q = mul %m, %m\n"
                 "%s = reduce %q : op=add pop=1"),
            R"(void kernel(float* restrict data0, float* restrict data1) {
  float acc0;
  acc0 = 0.0f;
  for (int ridx0 = 0; ridx0 < 3; ridx0++) {
    float val1 = acc0;
    float acc1;
    acc1 = -INFINITY;
    for (int ridx1 = 0; ridx1 < 4; ridx1++) {
      float val2 = acc1;
      float val3 = data0[((ridx0*4)+ridx1)];
      acc1 = ((val2>val3)?val2:val3);
    }
    float val4 = acc1;
    acc0 = (val1+(val4*val4));
  }
  float val5 = acc0;
  data1[0] = val5;
}
)");
}

TEST(Lower, OneReductionAtTwoIndicesOfTheSameLoopsSharesItsLoop) {
  const std::string text = c_of(
      "%a = buffer 18 : slot=0\n%r = reshape %a, (3, 3, 2)\n%s = reduce %r : op=add pop=1\n%p = permute %s, (1, 0)\n"
      "%x = add %s, %p");
  EXPECT_EQ(text, R"(void kernel(float* restrict data0, float* restrict data1) {
  for (int ridx0 = 0; ridx0 < 3; ridx0++) {
    for (int ridx1 = 0; ridx1 < 3; ridx1++) {
      float acc0;
      acc0 = 0.0f;
      float acc1;
      acc1 = 0.0f;
      for (int ridx2 = 0; ridx2 < 2; ridx2++) {
        float val1 = acc0;
        float val2 = data0[(((ridx0*6)+(ridx1*2))+ridx2)];
        acc0 = (val1+val2);
        float val3 = acc1;
        float val4 = data0[(((ridx1*6)+(ridx0*2))+ridx2)];
        acc1 = (val3+val4);
      }
      float val5 = acc0;
      float val6 = acc1;
      data1[((ridx0*3)+ridx1)] = (val5+val6);
    }
  }
}
)");
}

TEST(Lower, ReductionIndexedByItsOwnResultHasALoopOfItsOwn) {
  // s = sums of rows; s[s[0]], where the index comes out of a loop over the same row.
  Graph g;
  const UOp s = g.buffer(4, DType::I32, 0).reshape({2, 2}).reduce(Op::Add, 1);
  const UOp twice = s.index(s.index(0));
  EXPECT_EQ(test::run_lowered(twice, {{0, {1, 0, 20, 22}}}), Data{42});
}

TEST(Lower, GatherByLoadedIndex) {
  EXPECT_EQ(c_of("%t = buffer 12 : slot=0\n%r = reshape %t, (4, 3)\n%i = buffer 2 : dtype=i32 slot=1\n"
                 "%k = index %i, 1\n%row = index %r, %k"),
            R"(void kernel(float* restrict data0, int* restrict data1, float* restrict data2) {
  int val1 = data1[1];
  for (int ridx0 = 0; ridx0 < 3; ridx0++) {
    float val2 = data0[floormod_i32(((val1*3)+ridx0),12)];
    data2[ridx0] = val2;
  }
}
)");
}

TEST(Lower, LoadAndStageAreTransparent) {
  EXPECT_EQ(c_of("%a = buffer 6 : slot=0\n%r = reshape %a, (2, 3)\n%l = load %r\n%s = stage %l"),
            c_of("%a = buffer 6 : slot=0\n%r = reshape %a, (2, 3)"));
}

TEST(Lower, BufferThatSimplifiesAwayIsNoParameter) {
  EXPECT_EQ(c_of("%a = buffer 4 : dtype=i32 slot=0\n%b = buffer 4 : dtype=i32 slot=1\n%m = mul %a, 0\n%x = add %b, %m"),
            R"(void kernel(int* restrict data1, int* restrict data2) {
  for (int ridx0 = 0; ridx0 < 4; ridx0++) {
    int val1 = data1[ridx0];
    data2[ridx0] = val1;
  }
}
)");
}

TEST(Lower, GemmFromMovementOps) {
  const auto c = golden::read("gemm_movement");
  Graph g;
  Data a, b, product;
  std::mt19937 random(1);
  for (int i = 0; i < 16; i++) a.push_back(static_cast<double>(random() % 9)), b.push_back(static_cast<double>(random() % 9));
  for (int i = 0; i < 16; i++) {
    double sum = 0;
    for (int k = 0; k < 4; k++) sum += a[i / 4 * 4 + k].as_float() * b[k * 4 + i % 4].as_float();
    product.push_back(sum);
  }
  EXPECT_EQ(test::run_lowered(parse(g, c.at("uir")), {{0, a}, {1, b}}), product);
}

// ---- programs that users of other compilers met ---------------------------------------------------------------------

TEST(Lower, FlatIndexThatLeavesI32IsAnError) {
  EXPECT_EQ(c_error("%b = buffer 1 : slot=0\n%r = reshape %b, (1, 1)\n%e = expand %r, (65536, 65536)\n"
                    "%f = reshape %e, (4294967296,)\n%s = shrink %f, ((4294967292, 4294967296),)"),
            "UOpError: RESHAPE to (4294967296,): an index exceeds i32");
  EXPECT_EQ(c_error("%b = buffer 1 : slot=0\n%r = reshape %b, (1, 1)\n%e = expand %r, (65536, 65536)"),
            "UOpError: a value of shape (65536, 65536): a flat index exceeds i32");
  // The same elements without a flat index are summed.
  EXPECT_EQ(c_error("%b = buffer 1 : slot=0\n%r = reshape %b, (1, 1)\n%e = expand %r, (65536, 65536)\n"
                    "%s = reduce %e : op=add pop=2"),
            "");
}

TEST(Lower, PadThenReshapeStaysInside) {
  Graph g;
  const std::pair<int64_t, int64_t> amounts[] = {{2, 0}, {0, 0}, {0, 0}};
  const UOp x = pad(g.buffer(50, DType::F32, 0).reshape({2, 5, 5}), amounts).reshape({2, 2, 5, 5}).reshape({4, 5, 5});
  Data expected(50, 0.0);
  for (Scalar v : counting(50)) expected.push_back(v);
  EXPECT_EQ(test::run_lowered(x, {{0, counting(50)}}), expected);
}

TEST(Lower, ReductionsOfNothing) {
  Graph g;
  const UOp none = g.buffer(0, DType::F32, 0);
  EXPECT_EQ(test::run_lowered(none.reshape({0, 4}).reduce(Op::Max, 1), {{0, {}}}), Data{});
  const double lowest = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(test::run_lowered(none.reshape({2, 0}).permute({1, 0}).reduce(Op::Max, 1), {{0, {}}}), Data{});
  EXPECT_EQ(test::run_lowered(none.reshape({2, 0}).reduce(Op::Add, 1), {{0, {}}}), floats({0, 0}));
  const UOp no_bits = g.buffer(0, DType::Bool, 0).reshape({2, 0});  // its steps do not depend on each other
  EXPECT_EQ(test::run_lowered(no_bits.max(true).reduce(Op::Max, 1), {{0, {}}}), (Data{false, false}));
  EXPECT_EQ(test::run_lowered(none.reshape({0, 1}).expand({0, 3}).permute({1, 0}).reduce(Op::Max, 1), {{0, {}}}),
            floats({lowest, lowest, lowest}));
}

TEST(Lower, DeepChainOnASmallStack) {
  Graph g;
  UOp y = g.buffer(1, DType::F32, 0);
  on_small_stack([&] {
    for (int i = 0; i < 50'000; i++) y = (y + 1.0).recip();
    EXPECT_GT(render_c(as_program(y)).size(), 500'000u);
  });
  EXPECT_NEAR(test::run_lowered(y, {{0, {1.0}}})[0].as_float(), 0.618034, 1e-6);
}

TEST(Lower, DeepChainOfViewsOnASmallStack) {
  on_small_stack([] {
    Graph g;
    UOp y = g.buffer(6, DType::F32, 0).reshape({2, 3});
    for (int i = 0; i < 25'000; i++) y = y.permute({1, 0}).reshape({2, 3}).stage().shrink({{0, 2}, {0, 3}});
    EXPECT_EQ(test::run_lowered(y, {{0, counting(6)}}), test::evaluate_shaped(y, {{0, counting(6)}}));
  });
}

TEST(Lower, Doubling) {
  Graph g;
  UOp y = g.buffer(4, DType::F32, 0);
  for (int i = 0; i < 64; i++) y = y + y;
  EXPECT_LT(render_c(as_program(y)).size(), 4000u);
  EXPECT_EQ(test::run_lowered(y, {{0, floats({1, 2, 0, 1})}})[0], Scalar(0x1p64));
}

TEST(Lower, StackOfManyParts) {
  Graph g;
  std::vector<UOp> parts;
  Data expected;
  for (int i = 0; i < 20'000; i++) {
    parts.push_back(g.constant(i * 7 % 1001));
    expected.push_back(parts.back().value());
  }
  const UOp table = g.stack(parts);
  const UOp program = as_program(table);
  EXPECT_LT(render_c(program).size(), 1'000'000u);
  EXPECT_EQ(test::run_lowered(table.shrink({{19'990, 20'000}}), {}), Data(expected.end() - 10, expected.end()));
  EXPECT_EQ(test::run_lowered(table.index(12'345), {}), Data{expected[12'345]});
}

TEST(Lower, ExponentialProgramIsRefused) {
  // Each level reads the one below at new indices: 2^40 values.
  Graph g;
  UOp y = g.buffer(9, DType::F32, 0).reshape({3, 3});
  for (int i = 0; i < 40; i++) {
    const UOp a = y.reshape({3, 1, 3}).expand({3, 3, 3}), b = y.permute({1, 0}).reshape({1, 3, 3}).expand({3, 3, 3});
    y = (a * b).reduce(Op::Add, 1);
  }
  EXPECT_TRUE(test::error_of([&] { as_program(y); }).starts_with("NotImplementedError: ")) << "a matrix power of 2^40";
}

// ---- errors -----------------------------------------------------------------------------------------------------------

TEST(LowerErrors, Output) {
  Graph g;
  const UOp a = g.buffer(4, DType::F32, 0);
  const auto error = [&](UOp value, UOp out) { return test::error_of([&] { lower(value, out); }); };
  EXPECT_EQ(error(a, a.reshape({2, 2})), "UOpError: the output is a BUFFER, not RESHAPE (2, 2)");
  EXPECT_EQ(error(a, g.buffer(4, DType::I32, 1)),
            "UOpError: a value of dtypes.f32 does not go into BUFFER slot=1 of dtypes.i32");
  EXPECT_EQ(error(a, g.buffer(3, DType::F32, 1)),
            "UOpError: BUFFER slot=1 of 3 elements is too small for a value of shape (4,)");
  EXPECT_EQ(error(a, a), "UOpError: BUFFER slot=0 is the output and is read as well");
  EXPECT_EQ(c_error("%a = buffer 4 : slot=1"),
            "UOpError: slot 1, which is to be the output's, is taken by an input: number the buffers from 0");
  EXPECT_EQ(c_error("%a = buffer 4 : slot=0\n%i = index %a, 0\n%s = store %i, 1.0"),
            "UOpError: STORE has no value to lower (a loop program's root is a SINK)");
}

TEST(LowerErrors, NotImplemented) {
  EXPECT_EQ(c_error("%p = param : slot=0 dtype=f32\n%x = add %p, 1.0"),
            "NotImplementedError: PARAM slot=0 outside a CALL has no value to lower");
  EXPECT_EQ(c_error("%p = param : slot=0 dtype=f32\n%x = add %p, 1.0\n%c = call %x, 2.0"),
            "NotImplementedError: CALL cannot be lowered: inline it first (inline_call)");
  EXPECT_EQ(c_error(golden::read("wmma_1").at("uir")), "NotImplementedError: WMMA is reserved: nothing lowers or renders it");
  EXPECT_EQ(c_error(golden::read("barrier_1").at("uir")),
            "NotImplementedError: BARRIER in C text: one thread after another cannot wait for each other");
}

// ---- random graphs ----------------------------------------------------------------------------------------------------

class RandomGraph {
 public:
  RandomGraph(Graph& graph, DType dtype, uint32_t seed) : graph_(graph), dtype_(dtype), random_(seed) {}
  Memory inputs;

  UOp value(const Shape& shape, int depth) {
    const int64_t n = test::count(shape);
    if (depth == 0) return below(4) ? buffer(shape) : graph_.constant(constant(), dtype_).broadcast_to(shape);
    switch (below(12)) {
      case 0: {  // RESHAPE from another factoring
        Shape from{1, n};
        for (int64_t f : {2, 3, 4})
          if (n && n % f == 0 && below(2)) from = {f, n / f};
        if (below(3) == 0) from.push_back(1);
        return value(from, depth - 1).reshape(shape);
      }
      case 1: {
        Shape from = shape;
        for (int64_t& d : from)
          if (below(2)) d = 1;
        return value(from, depth - 1).expand(shape);
      }
      case 2: {
        Shape order(shape.size()), from(shape.size());
        for (size_t k = 0; k < order.size(); k++) order[k] = static_cast<int64_t>(k);
        std::shuffle(order.begin(), order.end(), random_);
        for (size_t k = 0; k < order.size(); k++) from[static_cast<size_t>(order[k])] = shape[k];
        return value(from, depth - 1).permute(order);
      }
      case 3: {
        Shape from = shape;
        std::vector<std::pair<int64_t, int64_t>> bounds;
        for (int64_t& d : from) {
          const int64_t begin = below(3);
          bounds.emplace_back(begin, begin + d);
          d = begin + d + below(2);
        }
        return value(from, depth - 1).shrink(bounds);
      }
      case 4: {  // a reduction, of one axis or two
        Shape from = shape;
        const int64_t axes = 1 + below(2);
        for (int64_t k = 0; k < axes; k++) from.push_back(below(8) == 0 ? 0 : 1 + below(3));
        return value(from, depth - 1).reduce(below(2) ? Op::Add : Op::Max, axes);
      }
      case 5: {
        if (shape.empty() || shape[0] == 0) break;
        std::vector<UOp> parts;
        const Shape rest(shape.begin() + 1, shape.end());
        for (int64_t k = 0; k < shape[0]; k++)
          parts.push_back(k && below(3) == 0 ? parts[static_cast<size_t>(below(k))] : value(rest, depth - 1));
        return graph_.stack(parts);
      }
      case 6: {  // a gather: an index that is data
        Shape from = shape;
        const int64_t size = 1 + below(4);
        from.insert(from.begin(), size);
        const UOp any = value({}, depth - 1);
        const UOp index = any.cast(DType::I32).floormod(graph_.constant(size));
        return value(from, depth - 1).index(index);
      }
      case 7: {
        if (n == 0 || shape.empty()) break;
        std::vector<std::pair<int64_t, int64_t>> amounts;
        Shape from = shape;
        for (int64_t& d : from) {
          const int64_t before = below(d + 1), after = below(d - before + 1);
          amounts.emplace_back(before, after);
          d -= before + after;
        }
        return pad(value(from, depth - 1), amounts);
      }
      case 8:
        if (shape.empty()) break;
        return flip_axis(value(shape, depth - 1), below(static_cast<int64_t>(shape.size())));
      case 9: {
        const UOp x = value(shape, depth - 1);
        if (is_float(dtype_)) return below(2) ? x.recip() : below(2) ? x.sqrt() : x.cast(DType::I32).cast(dtype_);
        if (dtype_ == DType::Bool) return x.logical_not();
        return below(2) ? x.floordiv(divisor()) : x.floormod(divisor());
      }
      case 10: {
        const UOp a = value(shape, depth - 1), b = value(shape, depth - 1);
        // The simplifier may exchange the operands of a MAX, which changes its value for NaN and zeros.
        return is_float(dtype_) || below(2) ? a.lt(b).where(a, b) : a.max(b);
      }
      default: break;
    }
    const UOp a = value(shape, depth - 1);
    const UOp b = below(3) == 0 ? a : below(2) ? value(shape, depth - 1) : a.const_like(constant());
    return below(2) ? a + b : a * b;
  }

  Shape shape() {
    Shape s;
    for (int64_t k = below(4); k > 0; k--) s.push_back(below(12) == 0 ? 0 : 1 + below(4));
    return s;
  }

 private:
  int64_t below(int64_t n) { return n > 0 ? static_cast<int64_t>(random_() % static_cast<uint64_t>(n)) : 0; }
  Scalar constant() {
    constexpr int kInts[] = {0, 1, -1, 2, 3, 7, -12, 100, 65536, INT32_MAX, INT32_MIN};
    constexpr double kFloats[] = {0.0, -0.0, 1.0, -1.5, 0.1, 3e38, 1e-40, 65504.0, 16777217.0, HUGE_VAL, -HUGE_VAL, NAN};
    if (is_float(dtype_)) return kFloats[below(std::size(kFloats))];
    const int v = kInts[below(std::size(kInts))];
    return dtype_ == DType::Bool ? Scalar(v > 1) : Scalar(v);
  }
  int divisor() {
    constexpr int kValues[] = {1, 2, 3, 4, 7, -2, 12};
    return kValues[below(std::size(kValues))];
  }
  UOp buffer(const Shape& shape) {
    const int64_t n = test::count(shape), slot = static_cast<int64_t>(inputs.size());
    if (slot > 2 && below(2))
      for (const auto& [s, data] : inputs)
        if (static_cast<int64_t>(data.size()) == n) return graph_.buffer(n, dtype_, s).reshape(shape);
    Data data;
    for (int64_t i = 0; i < n; i++) data.push_back(to_dtype(below(4) ? Scalar(below(30) - 15) : constant(), dtype_));
    inputs[slot] = data;
    return graph_.buffer(n, dtype_, slot).reshape(shape);
  }

  Graph& graph_;
  const DType dtype_;
  std::mt19937 random_;
};

class LowerRandom : public testing::TestWithParam<DType> {};
TEST_P(LowerRandom, AgreesWithTheShapedGraph) {
  int loops = 0;
  for (uint32_t seed = 0; seed < 2000; seed++) {
    Graph g;
    RandomGraph random(g, GetParam(), seed);
    const UOp value = random.value(random.shape(), 1 + static_cast<int>(seed % 5));
    const Data expected = test::evaluate_shaped(value, random.inputs);
    ASSERT_EQ(test::run_lowered(value, random.inputs), expected) << "seed " << seed << "\n" << to_uir(value);
    loops += !expected.empty();
  }
  EXPECT_GT(loops, 1300);
}
INSTANTIATE_TEST_SUITE_P(DTypes, LowerRandom, testing::Values(DType::I32, DType::F32, DType::F16, DType::Bool),
                         [](const auto& info) { return name(info.param); });

}  // namespace
}  // namespace uopc
