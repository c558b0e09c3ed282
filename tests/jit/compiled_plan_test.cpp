// Plans as machine code: what is compiled, what the hook is told, and what a run costs.
#include "runtime/compiled_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <thread>

#include "error_of.hpp"
#include "jit/allocations.hpp"

namespace uopc {
namespace {

// n kernels, one for each of `constants`: x + c0, that + c1, .. Equal constants make equal kernels.
PlanAndInputs chain(Graph& g, const std::vector<double>& constants) {
  UOp x = g.buffer(8, DType::F32, 0);
  for (double c : constants) x = (x + c).stage();
  return make_plan({x});
}

std::vector<float> run(const CompiledPlan& compiled, std::vector<float> in) {
  std::vector<float> out(static_cast<size_t>(compiled.outs.at(0).size));
  std::vector<std::byte> scratch(static_cast<size_t>(compiled.memory.bytes) + 64);
  void* ins[] = {in.data()};
  void* outs[] = {out.data()};
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, static_cast<size_t>(compiled.memory.bytes), aligned, space);
  BoundPlan(std::make_shared<const CompiledPlan>(compiled), ins, outs, aligned).run();
  return out;
}

const std::vector<float> kZeros(8), kSix(8, 6.f);

// What the hook is told, as "0/3 e_8".
struct Told {
  std::vector<std::string> lines;
  Options options;
  std::function<bool(int64_t done)> answer = [](int64_t) { return true; };
  Told() {
    options.progress = [this, thread = std::this_thread::get_id()](const CompileProgress& p) {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      lines.push_back(std::to_string(p.done) + "/" + std::to_string(p.total) + " " + p.kernel);
      return answer(p.done);
    };
  }
};

TEST(CompilePlan, CountsEqualKernelsOnce) {
  Graph g;
  Told told;
  Engine engine(told.options);
  KernelCache cache(100);
  const CompiledPlan p = compile_plan(engine, cache, chain(g, {1, 1, 2, 1, 1}));
  EXPECT_EQ(told.lines, (std::vector<std::string>{"0/2 e_8", "1/2 e_8", "2/2 "}));
  EXPECT_EQ(p.newly_compiled, 2);
  EXPECT_EQ(p.kernels.size(), 5u);
  EXPECT_EQ(p.kernels[0].code.entry(), p.kernels[4].code.entry());
  EXPECT_EQ(run(p, kZeros), kSix);

  told.lines.clear();
  const CompiledPlan again = compile_plan(engine, cache, chain(g, {2, 1, 3}));
  EXPECT_EQ(told.lines, (std::vector<std::string>{"0/1 e_8", "1/1 "}));
  EXPECT_EQ(again.newly_compiled, 1);
  EXPECT_EQ(run(again, kZeros), kSix);

  told.lines.clear();
  EXPECT_EQ(compile_plan(engine, cache, chain(g, {3, 2, 1})).newly_compiled, 0);
  EXPECT_TRUE(told.lines.empty()) << "there was nothing to compile";
}

TEST(CompilePlan, SmallerCacheThanPlan) {
  Graph g;
  Told told;
  Engine engine(told.options);
  KernelCache cache(1);
  const CompiledPlan p = compile_plan(engine, cache, chain(g, {1, 2, 1, 2}));
  EXPECT_EQ(p.newly_compiled, 2);
  EXPECT_EQ(run(p, kZeros), kSix);
}

TEST(CompilePlan, IsCancelledAtAnyKernelAndKeepsWhatWasCompiled) {
  const std::vector<double> different{1, 2, 3, 4, 5, 6, 7};
  for (int64_t allowed = 0; allowed < 7; allowed++) {
    Graph g;
    Told told;
    Engine engine(told.options);
    KernelCache cache(100);
    told.answer = [&](int64_t done) { return done < allowed; };
    const PlanAndInputs plan = chain(g, different);
    EXPECT_EQ(named_error_of([&] { compile_plan(engine, cache, plan); }),
              "CompileError: cancelled after " + std::to_string(allowed) + " of 7 kernels");
    told.answer = [](int64_t) { return true; };
    const CompiledPlan p = compile_plan(engine, cache, plan);
    EXPECT_EQ(p.newly_compiled, 7 - allowed);
    EXPECT_EQ(run(p, kZeros), std::vector<float>(8, 28.f));
  }
}

TEST(CompilePlan, PassesOnWhatTheHookThrows) {
  struct Mine {
    int64_t at;
  };
  Graph g;
  Told told;
  Engine engine(told.options);
  KernelCache cache(100);
  const PlanAndInputs plan = chain(g, {1, 2, 3});
  for (int64_t at : {2, 0, 3, 1}) {
    // All that is left is compiled before the last call.
    told.answer = [&](int64_t done) { return done == at || at == 3 ? throw Mine{at} : true; };
    KernelCache own(100);
    try {
      compile_plan(engine, own, plan);
      FAIL() << "nothing was thrown";
    } catch (const Mine& m) {
      EXPECT_EQ(m.at, at);
    }
    told.answer = [](int64_t) { return true; };
    EXPECT_EQ(run(compile_plan(engine, own, plan), kZeros), kSix);
  }
}

TEST(CompilePlan, TheHookMayCompileByItself) {
  Graph g;
  Told told;
  Engine engine(told.options);
  KernelCache cache(100);
  const PlanAndInputs plan = chain(g, {1, 2, 3}), inner = chain(g, {3, 2});
  bool within = false;
  told.answer = [&](int64_t) {
    if (!within) {
      within = true;
      compile_plan(engine, cache, inner);
      within = false;
    }
    return true;
  };
  EXPECT_EQ(run(compile_plan(engine, cache, plan), kZeros), kSix);
  told.lines.clear();
  EXPECT_EQ(compile_plan(engine, cache, inner).newly_compiled, 0);
}

// Whichever core is quicker. A name that is no C identifier is refused.
TEST(CompilePlan, TheFirstKernelThatFailsIsReported) {
  for (int round = 0; round < 20; round++) {
    Graph g;
    Engine engine;
    KernelCache cache(100);
    PlanAndInputs plan = chain(g, {1, 2, 3, 4, 5, 6});
    plan.plan.kernels[2].name = "2nd";
    plan.plan.kernels[3].name = "3rd";
    plan.plan.kernels[5].name = "5th";
    const std::string error = error_of([&] { compile_plan(engine, cache, plan); });
    EXPECT_NE(error.find("'2nd'"), std::string::npos) << error;
    for (PlanKernel& k : plan.plan.kernels) k.name = "good";
    const CompiledPlan p = compile_plan(engine, cache, plan);
    EXPECT_LE(p.newly_compiled, 4) << "what came before the failure was lost";
    EXPECT_EQ(run(p, kZeros), std::vector<float>(8, 21.f));
  }
}

TEST(CompilePlan, FromManyThreads) {
  Engine engine;
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      Graph g;
      KernelCache cache(100);
      right += run(compile_plan(engine, cache, chain(g, {1, 2, 3})), kZeros) == kSix;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 4);
}

TEST(BoundPlan, AReplayAllocatesNothing) {
  Graph g;
  Engine engine;
  KernelCache cache(100);
  const UOp x = g.buffer(12, DType::F32, 0), rows = x.reshape({3, 4});
  const UOp sum = rows.exp2().reduce(Op::Add, 1).reshape({3, 1}).broadcast_to({3, 4});
  const PlanResult results[] = {{(rows.exp2() / sum).reshape({12}), {}}, {x + 1.0, x}};
  const auto plan = std::make_shared<const CompiledPlan>(compile_plan(engine, cache, make_plan(results)));
  ASSERT_GE(plan->kernels.size(), 3u);
  alignas(64) std::byte scratch[1024];
  ASSERT_LE(plan->memory.bytes, 1024);
  std::vector<float> in(12), other(12), out(12);
  void* ins[] = {in.data()};
  void* outs[] = {out.data()};
  BoundPlan bound(plan, ins, outs, scratch);
  bound.run();
  const int64_t before = allocations();
  for (int i = 0; i < 1000; i++) {
    bound.rebind_input(0, i % 2 ? in.data() : other.data());
    bound.run();
  }
  const int64_t replayed = allocations();
  EXPECT_EQ(replayed - before, 0);
  EXPECT_EQ(in[0], 501);
  EXPECT_EQ(other[0], 500);
  const int64_t start = allocations();
  ::operator delete(::operator new(1));  // a new-expression may be left out
  const int64_t end = allocations();
  EXPECT_GT(end, start) << "they are not counted";
}

// x[i] in the middle of three kernels: an index of data, which may be out of range.
TEST(BoundPlan, NamesTheKernelThatFailsAndRunsAgain) {
  Graph g;
  Engine engine;
  KernelCache cache(100);
  const UOp x = g.buffer(4, DType::F32, 0), i = g.buffer(1, DType::I32, 1).index(g.constant(0)).load();
  const UOp picked = (x + 1.0).stage().index(i).broadcast_to({5}).stage();
  PlanAndInputs planned = make_plan({picked * 2.0 + 1.0});
  ASSERT_EQ(planned.plan.kernels.size(), 3u);
  planned.plan.kernels[1].name = "pick";
  const auto plan = std::make_shared<const CompiledPlan>(compile_plan(engine, cache, planned));
  float in[4] = {10, 20, 30, 40}, out[5] = {};
  int32_t index = 3;
  void* memory[2];
  for (size_t k = 0; k < 2; k++) memory[k] = plan->inputs[k].dtype == DType::I32 ? static_cast<void*>(&index) : in;
  void* outs[] = {out};
  alignas(64) std::byte scratch[256];
  const BoundPlan bound(plan, memory, outs, scratch);
  for (int32_t bad : {4, -1, 1'000'000}) {
    bound.run();
    EXPECT_EQ(out[4], 83);
    index = bad;
    const std::string error = named_error_of([&] { bound.run(); });
    EXPECT_TRUE(error.starts_with("RunError: kernel 'pick': index " + std::to_string(bad) + " is out of range"))
        << error;
    EXPECT_EQ(out[4], 83) << "a kernel ran after the one that failed";
    EXPECT_EQ(named_error_of([&] { run_plan(engine, plan, memory, outs, scratch); }), error);
    index = 3;
  }
}

}  // namespace
}  // namespace uopc
