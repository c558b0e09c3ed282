// Deep chains and shared graphs on a small stack: nothing recurses over the graph, nothing walks a DAG as a tree.
#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <functional>

#include "passes/symbolic.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

constexpr int kDeep = 100'000;

void on_small_stack(const std::function<void()>& body) {
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  ASSERT_EQ(pthread_attr_setstacksize(&attr, 256 << 10), 0);
  pthread_t thread;
  const auto run = [](void* f) -> void* {
    (*static_cast<const std::function<void()>*>(f))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attr, run, const_cast<std::function<void()>*>(&body)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attr);
}

UOp data(Graph& g, DType d, int64_t slot) {
  return g.buffer(1, d, slot).index(0).load();
}

struct Chain {
  const char* name;
  DType dtype;
  UOp (*step)(UOp u, UOp x, UOp r, int i);  // `r`: a counter below 8
};

const Chain kChains[] = {
    {"recip", DType::F32, [](UOp u, UOp, UOp, int) { return (u + 1.0).recip(); }},
    {"float_sum", DType::F32, [](UOp u, UOp x, UOp, int) { return u * x + 2.5; }},
    {"int_sum", DType::I32, [](UOp u, UOp x, UOp, int) { return u + x; }},
    {"int_sum_of_constants", DType::I32, [](UOp u, UOp, UOp, int i) { return u + i; }},
    {"int_sum_leaning_right", DType::I32, [](UOp u, UOp x, UOp, int i) { return x * i + u; }},
    {"horner", DType::I32, [](UOp u, UOp x, UOp, int) { return u * 3 + x; }},
    {"horner_of_constants", DType::I32, [](UOp u, UOp, UOp, int i) { return (u + i) * 3; }},
    {"divide_sums", DType::I32, [](UOp u, UOp x, UOp, int) { return u + (u + x).floordiv(3); }},
    {"modulo_sums", DType::I32, [](UOp u, UOp, UOp r, int) { return (u * 8 + r) % 64; }},
    {"divide", DType::I32, [](UOp u, UOp, UOp r, int) { return (u % 64 * 8 + r).floordiv(8); }},
    {"where", DType::I32, [](UOp u, UOp x, UOp, int i) { return u.lt(i).where(u, x); }},
    {"max", DType::I32, [](UOp u, UOp, UOp r, int i) { return u.max(r + i); }},
    {"compare", DType::Bool, [](UOp u, UOp x, UOp, int) { return u.ne(x); }},
};

class DeepChain : public testing::TestWithParam<Chain> {};

TEST_P(DeepChain, IsLinear) {
  on_small_stack([] {
    Graph g;
    const UOp x = data(g, GetParam().dtype, 0), r = g.range_(8, 0);
    UOp u = x;
    for (int i = 0; i < kDeep; i++) u = GetParam().step(u, x, r, i);
    const auto start = std::chrono::steady_clock::now();
    const UOp s = simplify(u);
    EXPECT_EQ(s, simplify(s));
    vmin(s);
    vmax(u);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 60) << "not linear";  // quadratic would be hours
    RecordProperty("seconds", std::to_string(took.count()));
  });
}
INSTANTIATE_TEST_SUITE_P(Steps, DeepChain, testing::ValuesIn(kChains),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DeepChain, OfCallsAndStacks) {
  on_small_stack([] {
    Graph g;
    const UOp p = g.param(0, DType::I32);
    const UOp body = p * 2 + 1;
    UOp u = g.constant(1);
    for (int i = 0; i < 20'000; i++) {
      const UOp args[] = {u};
      u = g.call(body, args);
    }
    EXPECT_TRUE(evaluate(u).is_const());
    const UOp parts[] = {g.constant(1.0), g.constant(2.0)};
    u = g.stack(parts);
    for (int i = 0; i < 20'000; i++) u = (u + u).recip();
    EXPECT_TRUE(to_python(evaluate(u)));
    UOp inner = p;
    for (int i = 0; i < kDeep; i++) inner = inner.max(p + i);
    const UOp args[] = {data(g, DType::I32, 0)};
    EXPECT_TRUE(inline_call(g.call(inner, args)).is(Op::Max));
  });
}

TEST(SharedGraph, IsWalkedOnce) {
  on_small_stack([] {
    for (DType d : {DType::F32, DType::F16, DType::I32, DType::Bool}) {
      Graph g;
      UOp u = data(g, d, 0);
      for (int i = 0; i < 64; i++) u = u + u;
      EXPECT_EQ(toposort(simplify(u)).size(), toposort(u).size());
      vmax(u);
    }
    Graph g;
    UOp u = data(g, DType::I32, 0), r = g.range_(8, 0);
    for (int i = 0; i < 64; i++) {
      u = (u + u * 3).floordiv(2) + (u % 4) * 2;
      r = (r + r) % 64 + (r * 2).floordiv(3);
    }
    EXPECT_LT(toposort(simplify(u)).size(), 1000u);
    EXPECT_LT(toposort(simplify(r)).size(), 2000u);
    UOp one = g.constant(1.0);
    for (int i = 0; i < 64; i++) one = one + one;
    EXPECT_EQ(simplify(one), g.constant(0x1p64));
  });
}

}  // namespace
}  // namespace uopc
