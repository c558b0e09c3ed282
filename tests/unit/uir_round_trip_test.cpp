// parse(to_uir(u)) is u, for every node that the type checker accepts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "small_stack.hpp"
#include "unit/uir_helpers.hpp"

namespace uopc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

void expect_round_trip(Graph& g, UOp u) {
  const std::string text = to_uir(u);
  EXPECT_EQ(parse(g, text), u) << text;
  Graph fresh;
  EXPECT_EQ(to_uir(parse(fresh, text)), text);
}

TEST(UirRoundTrip, Constants) {
  Graph g;
  for (const Scalar v :
       {Scalar(0), Scalar(-1), Scalar(INT64_MAX), Scalar(INT64_MIN), Scalar(true), Scalar(false), Scalar(0.0),
        Scalar(-0.0), Scalar(1.0), Scalar(kInf), Scalar(-kInf), Scalar(std::nan("")), Scalar(0.1), Scalar(5e-324),
        Scalar(1e16), Scalar(1e22), Scalar(-1e-5), Scalar(1.7976931348623157e308)}) {
    const UOp c = g.constant(v);
    expect_round_trip(g, c);
    expect_round_trip(g, g.make(Op::Stack, {c, c}));
    expect_round_trip(g, g.make(Op::Stage, {c}));
    expect_round_trip(g, g.make(Op::Cast, {c}, DType::F16));
  }
  EXPECT_EQ(to_uir(g.make(Op::Sink, {})), "%0 = sink\n");
  EXPECT_EQ(to_uir(g.constant(true)), "%0 = const true\n");
}

TEST(UirRoundTrip, PrintsOnlyWhatTheRootReaches) {
  Graph g;
  const UOp a = g.buffer(4, DType::F32, 1);
  (a + a).sqrt();
  EXPECT_EQ(to_uir(a.exp2()), "%0 = buffer 4 : dtype=f32 slot=1\n%1 = exp2 %0\n");
  EXPECT_THROW(to_uir(UOp()), Error);
}

// Grows random graphs out of everything that the type checker accepts, sense or nonsense.
class RandomNodes {
 public:
  explicit RandomNodes(uint32_t seed) : random_(seed) {
    pool_.push_back(graph_.buffer(6, DType::F32, 0));
    pool_.push_back(graph_.buffer(6, DType::F32, 0).reshape({2, 3}));
    for (DType d : {DType::Bool, DType::I32, DType::F32, DType::F16}) {
      pool_.push_back(graph_.param(static_cast<int64_t>(d), d));
      pool_.push_back(graph_.alloc(1, d, 0));
    }
  }

  Graph& graph() { return graph_; }

  // A new node, or nothing when the draw does not type-check.
  UOp draw(Op op) {
    const OpInfo& row = info(op);
    const int64_t most = row.max_sources < 0 ? row.min_sources + 3 : row.max_sources;
    std::vector<UOp> src;
    const int64_t n = between(row.min_sources, most);
    const UOp first = source({});
    for (int64_t i = 0; i < n; i++) src.push_back(i == 0 ? first : source(first));
    if (op == Op::Index && n > 0) {
      src.resize(1 + static_cast<size_t>(between(0, first.ndim())));
      for (size_t i = 1; i < src.size(); i++) src[i] = graph_.constant(between(-2, 3));
    }
    try {
      const UOp u = graph_.make(op, src, arg(op, first));
      pool_.push_back(u);
      return u;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::Type);
      return {};
    }
  }

 private:
  int64_t between(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random_() % static_cast<uint64_t>(hi - lo + 1));
  }
  bool one_in(int64_t n) { return between(1, n) == 1; }

  UOp constant() {
    const Scalar values[] = {true, false, 0, 1, -3, int64_t{1} << 40, 0.0, -0.0, 2.5, 1e-7, kInf, -kInf, std::nan("")};
    return graph_.constant(values[between(0, std::size(values) - 1)]);
  }
  // Like `model` in dtype and shape most of the time, so that ops that compare them are often content.
  UOp source(UOp model) {
    if (one_in(4)) return constant();
    for (int tries = 0; tries < 20; tries++) {
      const UOp u = pool_[static_cast<size_t>(between(0, static_cast<int64_t>(pool_.size()) - 1))];
      if (!model || (u.dtype() == model.dtype() && u.shape() == model.shape())) return u;
    }
    return model ? model : pool_[0];
  }

  Arg arg(Op op, UOp x) {
    const DType d = static_cast<DType>(between(0, 4));
    const Shape& s = x.shape();
    switch (op) {
      case Op::Const:
        return constant().value();
      case Op::Param:
        return ParamArg{between(-1, 2), d, one_in(2) ? Shape{} : Shape{between(-1, 3), 2}, {}};
      case Op::Buffer:
      case Op::Alloc: {
        ParamArg a{between(-2, 3), d, {between(-1, 4)}, {}};
        if (one_in(2)) a.addrspace = static_cast<AddrSpace>(between(0, 3));
        return a;
      }
      case Op::Cast:
        return d;
      case Op::Call:
        return CallArg{one_in(2) ? "f" : "g_2"};
      case Op::Range:
        return RangeArg{between(-1, 9), static_cast<AxisType>(between(0, 5))};
      case Op::Reduce:
        return ReduceArg{one_in(2) ? Op::Add : Op::Max, between(0, x.ndim())};
      case Op::Stage:
        return one_in(2) ? Arg(DetachArg{}) : Arg();
      case Op::Reshape: {
        Shape shape = s;
        shape.insert(shape.begin() + between(0, x.ndim()), one_in(5) ? -1 : 1);
        return shape;
      }
      case Op::Expand: {
        Shape shape = s;
        for (int64_t& n : shape)
          if (n == 1) n = between(-1, 3);
        return shape;
      }
      case Op::Permute: {
        Shape order(s.size());
        for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int64_t>(i);
        std::shuffle(order.begin(), order.end(), random_);
        return order;
      }
      case Op::Shrink: {
        ShrinkArg a;
        for (int64_t n : s) a.bounds.emplace_back(n > 0 ? between(0, n) : 0, std::max<int64_t>(n, 0));
        return a;
      }
      default:
        return {};
    }
  }

  std::mt19937 random_;
  Graph graph_;
  std::vector<UOp> pool_;
};

TEST(UirRoundTrip, RandomNodes) {
  std::vector<int> made(kOpCount);
  for (uint32_t seed = 0; seed < 200; seed++) {
    RandomNodes nodes(seed);
    for (int i = 0; i < 600; i++) {
      const Op op = static_cast<Op>(i % kOpCount);
      const UOp u = nodes.draw(op);
      if (!u) continue;
      made[static_cast<size_t>(op)]++;
      const std::string text = to_uir(u);
      ASSERT_EQ(parse(nodes.graph(), text), u) << text;
    }
  }
  for (int op = 0; op < kOpCount; op++) EXPECT_GE(made[static_cast<size_t>(op)], 100) << kOps[op].name;
}

TEST(UirRoundTrip, DeepChain) {
  on_small_stack([] {
    Graph g;
    UOp u = g.param(0, DType::F32);
    for (int i = 0; i < 100'000; i++) u = (u + 1.0).recip();
    const std::string text = to_uir(u);
    EXPECT_EQ(parse(g, text), u);
    Graph other;
    EXPECT_EQ(to_uir(parse(other, text)), text);
  });
}

TEST(UirRoundTrip, Doubling) {
  Graph g;
  UOp u = g.param(0, DType::F32);
  for (int i = 0; i < 64; i++) u = u + u;
  expect_round_trip(g, u);
}

TEST(UirRoundTrip, EightMebibytes) {
  on_small_stack([] {
    std::string text = "%0 = buffer 4 : dtype=f32 slot=0\n%1 = index %0, 0\n%2 = load %1\n";
    for (int i = 3; text.size() < (8u << 20); i++)
      text += i % 2 ? fmt::format("%{} = mul %{}, {}.5\n", i, i - 1, i)
                    : fmt::format("%{} = add %{}, %{}\n", i, i - 1, i / 2 + 1);
    Graph g;
    const UOp u = parse(g, text);
    EXPECT_EQ(to_uir(u), text);
  });
}

// Many CALLs whose bodies grow out of each other, and one statement with very many operands.
TEST(UirRoundTrip, WideAndNested) {
  std::string calls = "%0 = param : slot=0 dtype=f32\n";
  for (int i = 1; i < 20'000; i++) calls += fmt::format("%{} = add %{}, %0\n", i, i - 1);
  for (int i = 1; i < 20'000; i++) calls += fmt::format("%{} = call %{}, 7.0 : name=f\n", i + 20'000, i);
  std::string all = "%sink = sink 1.5, true";
  for (int i = 1; i < 20'000; i++) all += fmt::format(", %{}", i + 20'000);
  Graph g;
  expect_round_trip(g, parse(g, calls + all));
}

}  // namespace
}  // namespace uopc
