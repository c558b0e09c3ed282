// UPCAST loops: which become vectors, and that all of them compute what the interpreter does.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "passes/pack_operands.hpp"
#include "uopc/engine.hpp"
#include "uopc/passes.hpp"
#include "uopc/reference.hpp"
#include "uopc/uir.hpp"

namespace uopc {
namespace {

bool runs_as_vectors(UOp program, const std::string& type) {
  Engine engine;
  return engine.llvm_ir(program).find(type) != std::string::npos;
}

// Buffers of floats 0, 1, 2, .. through both.
void expect_as_interpreted(UOp program, const std::vector<int64_t>& sizes) {
  std::vector<std::vector<float>> got, want;
  for (int64_t n : sizes) {
    got.emplace_back(static_cast<size_t>(n));
    std::iota(got.back().begin(), got.back().end(), 0.f);
  }
  want = got;
  std::vector<BufferRef> a, b;
  for (size_t i = 0; i < got.size(); i++) {
    a.emplace_back(got[i].data(), got[i].size() * 4);
    b.emplace_back(want[i].data(), want[i].size() * 4);
  }
  Options o;
  o.strict_float = true;
  Engine(o).compile(program)(a);
  interpret(program, b);
  EXPECT_EQ(got, want);
}

TEST(Lanes, OfAProductOfMatrices) {
  Graph g;
  const auto at = [&](int64_t slot, int64_t n) { return g.buffer(n, DType::F32, slot); };
  const UOp a = at(0, 70).reshape({7, 1, 10}).expand({7, 13, 10});
  const UOp b = at(1, 130).reshape({10, 13}).permute({1, 0}).reshape({1, 13, 10}).expand({7, 13, 10});
  const UOp program = as_program((a * b).reduce(Op::Add, 1), parse_opts("Opts(upcast={0: 3, 1: 4})"), LowerForm::Lanes);
  EXPECT_TRUE(runs_as_vectors(program, "<4 x float>"));
  expect_as_interpreted(program, {70, 130, 91});
}

// Sizes that lanes divide and do not, below and above two turns of them; sums in sums, and a reduction over two axes.
TEST(Lanes, OfReductions) {
  for (const int64_t n : {31, 32, 33, 64, 97, 128, 257})
    for (const char* opts : {"Opts(unroll=16)", "Opts(unroll=32, thread=0)", "Opts(unroll=64, upcast={0: 1})"})
      for (const Op op : {Op::Add, Op::Max}) {
        SCOPED_TRACE(std::to_string(n) + " " + opts);
        Graph g;
        const UOp x = g.buffer(5 * n, DType::F32, 0).reshape({5, n}), y = g.buffer(n, DType::F32, 1).reshape({1, n});
        const UOp rows = (x * y.expand({5, n}) + 1.0).reduce(op, 1);
        expect_as_interpreted(as_program(rows, parse_opts(opts), LowerForm::Lanes), {5 * n, n, 5});
        const UOp both = (x - x.reduce(op, 1).reshape({5, 1}).expand({5, n})).reduce(Op::Max, 2);
        expect_as_interpreted(as_program(both.reshape({1}), parse_opts(opts), LowerForm::Lanes), {5 * n, 1});
      }
  Graph g;
  const UOp x = g.buffer(700, DType::F32, 0).reshape({7, 100});
  const UOp program = as_program(x.reduce(Op::Add, 1), parse_opts("Opts(unroll=16)"), LowerForm::Lanes);
  EXPECT_TRUE(runs_as_vectors(program, "<16 x float>"));
}

// Vectors have a power of two of lanes; those that an axis does not fill are neither read nor written. Elements of one,
// two and four bytes, strides of one and more, divisors.
TEST(Lanes, ThatAnAxisDoesNotFillTouchNoMemory) {
  constexpr size_t kAround = 64;  // elements behind the buffers
  for (const char* cpu : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
    Options o;
    o.cpu = cpu;
    Engine engine(o);
    for (int64_t n = 2; n <= 33; n++) {
      SCOPED_TRACE(std::string(cpu) + " " + std::to_string(n));
      Graph g;
      const UOp x = g.buffer(3 * n, DType::F32, 0).reshape({3, n}), i = x.cast(DType::I32);
      const UOp values[] = {x * 2.0 + 1.0, x.cast(DType::F16), i.floormod(i), x.permute({1, 0}).reshape({3, n}) < 5.0};
      for (UOp v : values) {
        const UOp program = as_program(v, parse_opts("Opts(upcast={1: 64})"), LowerForm::Lanes);
        const auto count = static_cast<size_t>(3 * n);
        const size_t bytes = count * static_cast<size_t>(itemsize(v.dtype()));
        std::vector<float> in(count);
        std::iota(in.begin(), in.end(), 0.f);
        std::vector<uint8_t> got(bytes + kAround, 0xA5), want = got;
        Kernel k;
        try {
          k = engine.compile(program);
        } catch (const Error& e) {
          if (std::string(e.what()).find("lacks") != std::string::npos) GTEST_SKIP() << e.what();
          throw;
        }
        k({in, BufferRef(got.data(), bytes)});
        interpret(program, std::vector<BufferRef>{in, BufferRef(want.data(), bytes)});
        EXPECT_EQ(got, want);
      }
    }
  }
}

struct Hand {
  const char* name;
  bool vectors;
  const char* uir;
};

// Squares of whole lanes, and what is left over beside them and below; with a neighbour of the element, which lies in
// another square, and with an operand of its own along the lanes.
TEST(Lanes, ThatCrossMemoryAreTurnedInSquares) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{4, 4}, {8, 24}, {16, 16}, {33, 18}, {32, 64}, {67, 35}})
    for (const char* opts : {"Opts(upcast={0: 4, 1: 4})", "Opts(upcast={0: 8, 1: 8}, tile={0: 16, 1: 16})",
                             "Opts(upcast={0: 16, 1: 16}, thread=0)", "Opts(upcast={0: 8, 1: 4})"}) {
      SCOPED_TRACE(std::to_string(m) + " " + std::to_string(n) + " " + opts);
      Graph g;
      const UOp x = g.buffer(m * n, DType::F32, 0).reshape({n, m}).permute({1, 0});
      const UOp y = g.buffer(m * n, DType::F32, 1).reshape({m, n}), z = g.buffer((m + 1) * n, DType::F32, 1);
      expect_as_interpreted(as_program(x, parse_opts(opts), LowerForm::Lanes), {m * n, m * n});
      expect_as_interpreted(as_program(x * 2.0 + y, parse_opts(opts), LowerForm::Lanes), {m * n, m * n, m * n});
      const UOp rows = z.reshape({n, m + 1}).permute({1, 0});
      const UOp both = rows.shrink({{0, m}, {0, n}}) - rows.shrink({{1, m + 1}, {0, n}}) * x;
      expect_as_interpreted(as_program(both, parse_opts(opts), LowerForm::Lanes), {m * n, (m + 1) * n, m * n});
    }
  Graph g;
  const UOp x = g.buffer(256, DType::F32, 0).reshape({16, 16}).permute({1, 0});
  const UOp program = as_program(x, parse_opts("Opts(upcast={0: 16, 1: 16})"), LowerForm::Lanes);
  EXPECT_TRUE(runs_as_vectors(program, "shufflevector"));
}

TEST(Lanes, OnlyWhereNoLaneReachesWhatAnotherOneWrites) {
  const Hand cases[] = {
      {"copy", true, R"(
%l = range 8 : idx=0 kind=upcast
%a = buffer 16 : dtype=f32 slot=0
%b = buffer 16 : dtype=f32 slot=1
%i = index %a, %l
%v = load %i
%w = add %v, 1.0
%o = index %b, %l
%s = store %o, %w
%e = end %s, %l
%k = sink %e)"},
      {"in place", true, R"(
%l = range 8 : idx=0 kind=upcast
%a = buffer 16 : dtype=f32 slot=0
%i = index %a, %l
%v = load %i
%w = mul %v, 3.0
%s = store %i, %w
%e = end %s, %l
%k = sink %e)"},
      {"a running sum", false, R"(
%l = range 8 : idx=0 kind=upcast
%a = buffer 16 : dtype=f32 slot=0
%i = index %a, %l
%v = load %i
%n = add %l, 1
%o = index %a, %n
%s = store %o, %v
%e = end %s, %l
%k = sink %e)"},
      {"one place for all", false, R"(
%l = range 8 : idx=0 kind=upcast
%a = buffer 16 : dtype=f32 slot=0
%b = buffer 1 : dtype=f32 slot=1
%i = index %a, %l
%v = load %i
%o = index %b, 0
%s = store %o, %v
%e = end %s, %l
%k = sink %e)"},
      {"backwards and strided", true, R"(
%l = range 8 : idx=0 kind=upcast
%a = buffer 16 : dtype=f32 slot=0
%b = buffer 16 : dtype=f32 slot=1
%m = mul %l, -1
%p = add %m, 7
%i = index %a, %p
%v = load %i
%w = mul %v, 3.0
%q = mul %l, 2
%o = index %b, %q
%s = store %o, %w
%e = end %s, %l
%k = sink %e)"},
      {"a sum of the lanes", false, R"(
%l = range 8 : idx=0 kind=upcast
%a = buffer 16 : dtype=f32 slot=0
%b = buffer 1 : dtype=f32 slot=1
%c = alloc 1 : dtype=f32 slot=0
%z = index %c, 0
%t = store %z, 0.0
%c2 = after %c, %t, %l
%z2 = index %c2, 0
%old = load %z2
%i = index %a, %l
%v = load %i
%w = add %old, %v
%s = store %z, %w
%e = end %s, %l
%c3 = after %c, %e
%z3 = index %c3, 0
%r = load %z3
%o = index %b, 0
%u = store %o, %r
%k = sink %u)"},
  };
  for (const Hand& h : cases) {
    SCOPED_TRACE(h.name);
    Graph g;
    const UOp program = parse(g, std::string(h.uir) + "\n");
    EXPECT_EQ(runs_as_vectors(program, "<8 x"), h.vectors);
    std::vector<int64_t> sizes;
    for (const KernelParam& p : program_params(program)) sizes.push_back(p.size);
    expect_as_interpreted(program, sizes);
  }
}

TEST(PackOperands, ChangesNoValue) {
  for (const bool turned : {false, true}) {
    Graph g;
    const UOp a_rows = g.buffer(53 * 47, DType::F32, 0).reshape({53, 1, 47}).expand({53, 61, 47});
    const UOp flat = g.buffer(61 * 47, DType::F32, 1);
    const UOp b_rows = turned ? flat.reshape({61, 47}) : flat.reshape({47, 61}).permute({1, 0});
    const UOp plain = (a_rows * b_rows.reshape({1, 61, 47}).expand({53, 61, 47})).reduce(Op::Add, 1);
    const UOp packed = pack_operands(std::span(&plain, 1), Machine{8, 16, 1}).front();
    ASSERT_EQ(packed == plain, !turned);
    std::vector<float> a(53 * 47), b(61 * 47), want(53 * 61), got(53 * 61);
    for (size_t i = 0; i < a.size(); i++) a[i] = static_cast<float>(i * 7 % 31) - 15;
    for (size_t i = 0; i < b.size(); i++) b[i] = static_cast<float>(i * 11 % 37) - 18;
    interpret(as_program(plain), {{a, b, want}});
    interpret(as_program(packed), {{a, b, got}});
    EXPECT_EQ(got, want);
  }
}

}  // namespace
}  // namespace uopc
