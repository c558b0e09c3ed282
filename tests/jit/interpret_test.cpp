#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "error_of.hpp"
#include "golden.hpp"
#include "ir/fold.hpp"
#include "ir/half.hpp"
#include "small_stack.hpp"
#include "uopc/error.hpp"
#include "uopc/passes.hpp"
#include "uopc/reference.hpp"
#include "uopc/uir.hpp"

namespace uopc {
namespace {

using Bytes = std::vector<std::byte>;

void put(Bytes& out, Scalar v, DType d) {
  const auto append = [&](auto value) {
    const size_t at = out.size();
    out.resize(at + sizeof value);
    std::memcpy(&out[at], &value, sizeof value);
  };
  switch (d) {
    case DType::Bool:
      return append(static_cast<uint8_t>(v.as_bool()));
    case DType::I32:
      return append(static_cast<int32_t>(v.as_int()));
    case DType::F32:
      return append(static_cast<float>(v.as_float()));
    default:
      return append(half_from_double(v.as_float()));
  }
}

Scalar take(const Bytes& in, size_t i, DType d) {
  const auto get = [&]<class T>(T v) {
    std::memcpy(&v, &in[i * sizeof v], sizeof v);
    return v;
  };
  switch (d) {
    case DType::Bool:
      return get(uint8_t{}) != 0;
    case DType::I32:
      return get(int32_t{});
    case DType::F32:
      return get(float{});
    default:
      return half_to_float(get(uint16_t{}));
  }
}

std::vector<Scalar> interesting(DType d) {
  if (d == DType::Bool) return {false, true};
  std::mt19937 random(static_cast<unsigned>(d));
  std::vector<Scalar> out;
  if (d == DType::I32) {
    for (int64_t v : {0, 1, -1, 2, -2, 3, 7, -7, 65536, 16777217, INT32_MAX, INT32_MAX - 1, INT32_MIN, INT32_MIN + 1})
      out.emplace_back(v);
    for (int i = 0; i < 10; i++) out.emplace_back(static_cast<int32_t>(random()));
    return out;
  }
  const double inf = std::numeric_limits<double>::infinity();
  for (double v : {0.0,        -0.0, 1.0,          -1.0,    0.5,           3.0,          1e-40,
                   -1e-40,     6e-8, 65504.0,      70000.0, -2147483648.0, 2147483648.0, 2147483520.0,
                   16777216.0, 0.1,  1.0009765625, 1e30,    inf,           -inf,         std::nan("")})
    out.push_back(to_dtype(v, d));
  for (int i = 0; i < 10; i++) out.push_back(to_dtype(std::ldexp(static_cast<int32_t>(random()), -20), d));
  return out;
}

bool same(Scalar a, Scalar b) {
  if (a.is_float() && std::isnan(a.as_float())) return b.is_float() && std::isnan(b.as_float());
  return a == b;
}

// Each op on each pair (triple) of values of each dtype, as a kernel over arrays of them.
TEST(Interpret, EveryOpIsTheRunTimeTable) {
  const DType all[] = {DType::Bool, DType::I32, DType::F32, DType::F16};
  int cases = 0;
  const auto check = [&](Op op, DType source, DType result, Arg arg = {}) {
    const int arity = op == Op::Where ? 3 : kUnary.has(op) ? 1 : 2;
    const std::vector<Scalar> values = interesting(source);
    const std::vector<Scalar> first = op == Op::Where ? interesting(DType::Bool) : values;
    std::vector<std::vector<Scalar>> operands(static_cast<size_t>(arity));
    for (Scalar a : first)
      for (Scalar b : arity > 1 ? values : std::vector<Scalar>{0})
        for (Scalar c : arity > 2 ? values : std::vector<Scalar>{0}) {
          operands[0].push_back(a);
          if (arity > 1) operands[1].push_back(b);
          if (arity > 2) operands[2].push_back(c);
        }
    const size_t n = operands[0].size();
    Graph g;
    std::vector<UOp> sources;
    std::vector<Bytes> memory(operands.size() + 1);
    for (size_t k = 0; k < operands.size(); k++) {
      const DType d = op == Op::Where && k == 0 ? DType::Bool : source;
      sources.push_back(g.buffer(static_cast<int64_t>(n), d, static_cast<int64_t>(k)));
      for (Scalar v : operands[k]) put(memory[k], v, d);
    }
    memory.back().resize(n * static_cast<size_t>(itemsize(result)));
    const UOp program = as_program(g.make(op, sources, arg));
    std::vector<BufferRef> buffers(memory.begin(), memory.end());
    interpret(program, buffers);
    for (size_t i = 0; i < n; i++) {
      std::vector<Scalar> v;
      for (size_t k = 0; k < operands.size(); k++) v.push_back(operands[k][i]);
      const Scalar want = run_alu(op, result, source, v), got = take(memory.back(), i, result);
      ASSERT_TRUE(same(got, want)) << name(op) << " of " << name(source) << " to " << name(result) << " at " << i
                                   << ": " << to_string(PyValue{got}) << ", not " << to_string(PyValue{want});
      cases++;
    }
  };
  for (DType d : all) {
    for (Op op : {Op::Add, Op::Mul, Op::Max, Op::Where}) check(op, d, d);
    for (Op op : {Op::CmpLt, Op::CmpNe}) check(op, d, DType::Bool);
    for (DType to : all)
      if (to != d) check(Op::Cast, d, to, to);
    if (is_float(d))
      for (Op op : {Op::Recip, Op::Exp2, Op::Log2, Op::Sqrt, Op::Sin}) check(op, d, d);
  }
  check(Op::FloorDiv, DType::I32, DType::I32);
  check(Op::FloorMod, DType::I32, DType::I32);
  EXPECT_GT(cases, 10000);
}

// A hand-written loop program run on f32 buffers; the last one is the output.
std::vector<float> run_uir(const std::string& text, std::vector<std::vector<float>> memory) {
  Graph g;
  const UOp program = parse(g, text);
  std::vector<BufferRef> buffers(memory.begin(), memory.end());
  interpret(program, buffers);
  return memory.back();
}

TEST(Interpret, RoundsAfterEachOperation) {
  // a * a + c with a = 1 + 2^-12: one rounding would keep the 2^-24 that two lose.
  const float a = 1 + 0x1p-12f;
  Graph g;
  const UOp x = g.buffer(1, DType::F32, 0), y = g.buffer(1, DType::F32, 1);
  std::vector<float> xs = {a}, ys = {-(1 + 0x1p-11f)}, out(1);
  interpret(as_program(x * x + y), std::vector<BufferRef>{xs, ys, out});
  EXPECT_EQ(out[0], 0.0f);
  // Left to right: (big + 1) - big loses the 1.
  Graph h;
  const UOp z = h.buffer(3, DType::F32, 0);
  std::vector<float> zs = {1e8f, 1.0f, -1e8f}, sum(1);
  interpret(as_program(z.reduce(Op::Add, 1)), std::vector<BufferRef>{zs, sum});
  EXPECT_EQ(sum[0], 0.0f);
}

constexpr const char* kCopy = R"(%0 = buffer 4 : dtype=f32 slot=1
%1 = buffer 1 : dtype=i32 slot=0
%2 = index %1, 0
%3 = load %2
%4 = range %3 : idx=0 kind=loop
%5 = index %0, %4
%6 = cast %4 : dtype=f32
%7 = store %5, %6
%8 = end %7, %4
%9 = sink %8
)";

TEST(Interpret, LoopsMayEndAtDataAndRunNoTimes) {
  for (int n : {-5, 0, 1, 4}) {
    Graph g;
    std::vector<int32_t> count = {n};
    std::vector<float> out(4, -1), want(4, -1);
    for (int i = 0; i < n; i++) want[static_cast<size_t>(i)] = static_cast<float>(i);
    interpret(parse(g, kCopy), std::vector<BufferRef>{count, out});
    EXPECT_EQ(out, want) << n;
  }
}

TEST(Interpret, ScratchMemoryLivesInItsLoop) {
  // acc of the inner loop starts anew in each step of the outer one, and what was never written shows.
  const std::string text = R"(%0 = buffer 3 : dtype=f32 slot=0
%1 = range 3 : idx=0 kind=thread
%2 = index %0, %1
%3 = alloc 1 : dtype=f32 slot=0
%4 = after %3, %1
%5 = index %4, 0
%6 = load %5
%7 = store %2, %6
%8 = end %7, %1
%9 = sink %8
)";
  for (float v : run_uir(text, {{0, 0, 0}})) EXPECT_TRUE(std::isnan(v));
}

TEST(Interpret, ABoolInMemoryIsAnyNonzeroByte) {
  Graph g;
  const UOp x = g.buffer(3, DType::Bool, 0);
  std::vector<uint8_t> in = {0, 1, 255}, out(3, 9);
  interpret(as_program(x + x), std::vector<BufferRef>{in, out});
  EXPECT_EQ(out, (std::vector<uint8_t>{0, 1, 1}));
}

TEST(Interpret, EveryIndexIsChecked) {
  Graph g;
  std::vector<int32_t> count = {5};
  std::vector<float> out(4, -1);
  EXPECT_EQ(named_error_of([&] {
              interpret(parse(g, kCopy), std::vector<BufferRef>{count, out});
            }),
            "RunError: index 4 is out of range of BUFFER slot 1, which has 4 elements");
  const std::string gather = R"(%0 = buffer 1 : dtype=f32 slot=2
%1 = index %0, 0
%2 = alloc 8 : dtype=f32 slot=3
%3 = buffer 1 : dtype=i32 slot=0
%4 = index %3, 0
%5 = load %4
%6 = index %2, %5
%7 = load %6
%8 = store %1, %7
%9 = sink %8
)";
  for (int32_t bad : {-1, 8, INT32_MAX, INT32_MIN}) {
    std::vector<int32_t> index = {bad};
    std::vector<float> result(1);
    EXPECT_EQ(named_error_of([&] {
                interpret(parse(g, gather), std::vector<BufferRef>{index, result});
              }),
              "RunError: index " + std::to_string(bad) + " is out of range of ALLOC slot 3, which has 8 elements");
  }
}

TEST(Interpret, CallsAreChecked) {
  Graph g;
  const UOp program = as_program(g.buffer(4, DType::F32, 0).shrink({{1, 4}}));
  std::vector<float> memory(16);
  const auto call = [&](std::vector<BufferRef> buffers) {
    return named_error_of([&] { interpret(program, buffers); });
  };
  const auto at = [&](size_t i, size_t n) { return BufferRef(&memory[i], n * sizeof(float)); };
  EXPECT_EQ(call({at(0, 4), at(4, 3)}), "no error");
  std::vector<int32_t> ints(4);
  EXPECT_EQ(call({ints, at(8, 3)}), "RunError: the buffer of slot 0 holds i32; the kernel takes f32");
  EXPECT_EQ(call({at(0, 4)}), "RunError: the kernel takes 2 buffers and was given 1");
  EXPECT_EQ(call({at(0, 5), at(4, 9)}), "no error");
  EXPECT_EQ(call({at(0, 3), at(8, 3)}), "RunError: the buffer of slot 0 has 12 bytes; 4 elements of f32 need 16");
  EXPECT_EQ(call({at(0, 4), BufferRef(static_cast<const void*>(&memory[8]), 12)}),
            "RunError: the buffer of slot 1 is const, and is written");
  EXPECT_EQ(call({BufferRef(static_cast<void*>(nullptr), 16), at(8, 3)}),
            "RunError: the buffer of slot 0 is a null pointer");
  // y[i] = x[i + 1] in place would depend on the order of the steps.
  EXPECT_EQ(call({at(0, 4), at(0, 3)}), "RunError: the buffers of slots 0 and 1 overlap, and slot 1 is written");
  EXPECT_EQ(call({at(4, 4), at(2, 3)}), "RunError: the buffers of slots 0 and 1 overlap, and slot 1 is written");
  EXPECT_EQ(call({at(4, 4), at(1, 3)}), "no error");
  EXPECT_EQ(
      named_error_of([&] { interpret(g.buffer(4, DType::F32, 0), {}); }),
      "UOpError: the interpreter runs loop programs (root SINK), not a BUFFER; as_program makes one of a shaped graph");
}

TEST(Interpret, InputsMayShareMemory) {
  Graph g;
  const UOp sum = g.buffer(2, DType::F32, 0) + g.buffer(2, DType::F32, 1);
  std::vector<float> x = {1, 2}, out(2);
  interpret(as_program(sum), std::vector<BufferRef>{x, x, out});
  EXPECT_EQ(out, (std::vector<float>{2, 4}));
}

TEST(Interpret, RefusesWhatItCannotRun) {
  Graph g;
  const std::string barrier = R"(%0 = buffer 4 : dtype=f32 slot=0
%1 = range 4 : idx=0 kind=local
%2 = index %0, %1
%3 = alloc 4 : dtype=f32 slot=0 space=shared
%4 = index %3, %1
%5 = store %4, 1.0
%6 = barrier %5
%7 = after %3, %6
%8 = index %7, %1
%9 = load %8
%10 = store %2, %9
%11 = end %10, %1
%12 = sink %11
)";
  std::vector<float> out(4);
  EXPECT_TRUE(named_error_of([&] {
                interpret(parse(g, barrier), std::vector<BufferRef>{out});
              }).starts_with("NotImplementedError: BARRIER in the interpreter"));
  const std::string huge = R"(%0 = alloc 2000000000 : dtype=f32 slot=7
%1 = index %0, 0
%2 = store %1, 1.0
%3 = sink %2
)";
  EXPECT_EQ(
      named_error_of([&] { interpret(parse(g, huge), {}); }),
      "RunError: out of memory: ALLOC slot 7 of 2000000000 elements of f32 passes the limit of 4294967296 bytes in "
      "all");
}

TEST(Interpret, ALargeAllocIsNoStackAndNotTouchedWhole) {
  const std::string text = R"(%0 = buffer 1 : dtype=f32 slot=0
%1 = index %0, 0
%2 = alloc 100000000 : dtype=f32 slot=0
%3 = index %2, 99999999
%4 = store %3, 4.0
%5 = after %2, %4
%6 = index %5, 99999999
%7 = load %6
%8 = store %1, %7
%9 = sink %8
)";
  EXPECT_EQ(run_uir(text, {{0}})[0], 4.0f);
}

TEST(Interpret, RandomExpressionsMeanWhatTheTableSays) {
  // Random trees over one buffer of each dtype, folded by run_alu along the way.
  std::mt19937 random(11);
  for (int round = 0; round < 300; round++) {
    Graph g;
    struct Value {
      UOp u;
      Scalar v;
    };
    std::vector<Value> pool;
    std::vector<Bytes> memory;
    for (DType d : {DType::Bool, DType::I32, DType::F32, DType::F16})
      for (int k = 0; k < 2; k++) {
        const std::vector<Scalar> choices = interesting(d);
        const Scalar v = choices[random() % choices.size()];
        const UOp address = g.buffer(1, d, static_cast<int64_t>(memory.size())).index(0);
        memory.emplace_back();
        put(memory.back(), v, d);
        pool.push_back({address.load(), v});
      }
    for (int step = 0; step < 40; step++) {
      const Value a = pool[random() % pool.size()], b = pool[random() % pool.size()];
      const DType d = a.u.dtype();
      const Op ops[] = {Op::Add,   Op::Mul,  Op::Max,  Op::CmpLt, Op::CmpNe, Op::FloorDiv, Op::FloorMod,
                        Op::Recip, Op::Exp2, Op::Log2, Op::Sqrt,  Op::Sin,   Op::Cast};
      const Op op = ops[random() % std::size(ops)];
      const bool integer_only = op == Op::FloorDiv || op == Op::FloorMod;
      if (kBinary.has(op) && b.u.dtype() != d) continue;
      if (integer_only && d != DType::I32) continue;
      if (kUnary.has(op) && op != Op::Cast && !is_float(d)) continue;
      const DType to = op == Op::Cast ? b.u.dtype() : op == Op::CmpLt || op == Op::CmpNe ? DType::Bool : d;
      if (op == Op::Cast && to == d) continue;
      const Scalar values[] = {a.v, b.v};
      const std::span<const Scalar> used(values, kUnary.has(op) ? 1 : 2);
      const Scalar v = run_alu(op, to, d, used);
      // NaN has many bits, and a later cast to bool or i32 does not care which.
      const UOp sources[] = {a.u, b.u};
      pool.push_back({g.make(op, std::span(sources, used.size()), op == Op::Cast ? Arg(to) : Arg()), v});
    }
    std::vector<UOp> effects;
    const size_t inputs = memory.size();
    for (size_t i = inputs; i < pool.size(); i++) {
      const DType d = pool[i].u.dtype();
      effects.push_back(g.buffer(1, d, static_cast<int64_t>(memory.size())).index(0).store(pool[i].u));
      memory.emplace_back(static_cast<size_t>(itemsize(d)));
    }
    const UOp program = g.sink(effects);
    std::vector<BufferRef> buffers;
    for (const KernelParam& p : program_params(program)) buffers.emplace_back(memory[static_cast<size_t>(p.slot)]);
    interpret(program, buffers);
    for (size_t i = inputs; i < pool.size(); i++) {
      const Scalar got = take(memory[i], 0, pool[i].u.dtype());
      ASSERT_TRUE(same(got, pool[i].v)) << to_uir(g.sink(std::span(&effects[i - inputs], 1))) << to_string(PyValue{got})
                                        << ", not " << to_string(PyValue{pool[i].v});
    }
  }
}

TEST(Interpret, DeepAndSharedGraphsOnASmallStack) {
  on_small_stack([] {
    Graph g;
    UOp y = g.buffer(1, DType::F32, 0);
    for (int i = 0; i < 50'000; i++) y = (y + 1.0).recip();
    std::vector<float> in = {1}, out(1);
    interpret(as_program(y), std::vector<BufferRef>{in, out});
    EXPECT_NEAR(out[0], 0.618034, 1e-6);
    UOp z = g.buffer(1, DType::F32, 0);
    for (int i = 0; i < 64; i++) z = z + z;
    interpret(as_program(z), std::vector<BufferRef>{in, out});
    EXPECT_EQ(out[0], 0x1p64f);
    // Effects that follow each other, each on what the one before left: 20,000 AFTERs deep.
    const UOp cell = g.buffer(1, DType::I32, 0);
    UOp done = cell.index(0).store(g.constant(0));
    for (int i = 0; i < 20'000; i++) {
      const UOp now = cell.after({done}).index(0);
      done = now.store(now.load() + 1);
    }
    std::vector<int32_t> count = {7};
    interpret(g.sink({&done, 1}), std::vector<BufferRef>{count});
    EXPECT_EQ(count[0], 20'000);
  });
}

std::string value_of(const std::string& text) {
  return named_error_of([&] {
           Graph g;
           throw Error(ErrorCode::Run, to_string(run(parse(g, text))));
         })
      .substr(10);
}

TEST(Run, PrintsValuesAsPython) {
  EXPECT_EQ(value_of("%0 = const 2.5\n"), "2.5");
  EXPECT_EQ(value_of("%0 = const true\n"), "True");
  EXPECT_EQ(value_of("%0 = const 0.00001\n"), "1e-05");
  EXPECT_EQ(value_of("%0 = const nan\n"), "nan");
  EXPECT_EQ(value_of("%0 = stack 1, 2, 3\n%1 = reduce %0 : op=add pop=1\n"), "6");
  EXPECT_EQ(value_of("%0 = stack 1.0, 2.0\n%1 = cast %0 : dtype=f16\n%2 = stack %1, %1\n"), "[[1.0, 2.0], [1.0, 2.0]]");
  EXPECT_EQ(value_of("%0 = stack -7, 7\n%1 = floordiv %0, 2\n"), "[-4, 3]");
  EXPECT_EQ(value_of("%0 = const 1.5\n%1 = reshape %0, (1, 1)\n%2 = expand %1, (2, 3)\n"),
            "[[1.5, 1.5, 1.5], [1.5, 1.5, 1.5]]");
  EXPECT_EQ(value_of("%0 = stack -2147483648\n%1 = floordiv %0, -1\n"), "[-2147483648]");
  EXPECT_EQ(value_of("%0 = stack -2147483648\n%1 = floormod %0, -1\n"), "[0]");
  EXPECT_EQ(value_of("%0 = stack 1, 2\n%1 = shrink %0, ((1, 1),)\n"), "[]");
}

TEST(Run, GoldenValues) {
  const std::vector<std::string> names = golden::cases_with("eval");
  EXPECT_GE(names.size(), 5u);
  for (const std::string& name : names) {
    const golden::Case c = golden::read(name);
    EXPECT_EQ(value_of(c.at("uir")) + "\n", c.at("eval")) << name;
  }
}

TEST(Run, RefusesWhatHasNoValue) {
  const auto refusal = [](const std::string& text) {
    return named_error_of([&] {
      Graph g;
      run(parse(g, text));
    });
  };
  EXPECT_EQ(refusal("%0 = buffer 4 : dtype=f32 slot=3\n"), "UOpError: cannot evaluate: the graph reads BUFFER slot 3");
  EXPECT_EQ(refusal("%0 = param : slot=0 dtype=i32\n%1 = add %0, 1\n"),
            "UOpError: cannot evaluate: PARAM slot 0 is outside a CALL");
  EXPECT_TRUE(refusal("%0 = alloc 4 : dtype=f32 slot=0\n%1 = index %0, 0\n%2 = store %1, 1.0\n%3 = sink %2\n")
                  .starts_with("UOpError: cannot evaluate: "));
  EXPECT_TRUE(
      refusal("%0 = const 1\n%1 = reshape %0, (1, 1)\n%2 = expand %1, (100000, 100000)\n").starts_with("UOpError: "));
  // A stack of stacks, doubled 40 times: small as a graph, not as a list.
  std::string doubled = "%0 = const 1\n";
  for (int i = 1; i <= 40; i++)
    doubled += "%" + std::to_string(i) + " = stack %" + std::to_string(i - 1) + ", %" + std::to_string(i - 1) + "\n";
  EXPECT_TRUE(refusal(doubled).starts_with("UOpError: ")) << refusal(doubled);
  EXPECT_EQ(refusal("%0 = floordiv 5, 0\n"), "UOpError: FLOORDIV by the constant 0");
}

}  // namespace
}  // namespace uopc
