// THREAD loops: by OpenMP, inside the host's own region, and by the host's own parallel_for.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>

#include "jit/jit_util.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace uopc {
namespace {

// y[i] = x[i] * 3 + (sum of four), the accumulator private to each iteration.
std::string program(int n) {
  const std::string size = std::to_string(n);
  return "%0 = buffer " + size + " : dtype=f32 slot=1\n%1 = range " + size +
         " : idx=0 kind=thread\n"
         "%2 = index %0, %1\n"
         "%3 = alloc 1 : dtype=f32 slot=0\n"
         "%4 = after %3, %1\n"
         "%5 = index %4, 0\n"
         "%6 = store %5, 0.0\n"
         "%7 = range 4 : idx=1 kind=reduce\n"
         "%8 = after %3, %6, %7\n"
         "%9 = index %8, 0\n"
         "%10 = load %9\n"
         "%11 = buffer " +
         size +
         " : dtype=f32 slot=0\n"
         "%12 = index %11, %1\n"
         "%13 = load %12\n"
         "%14 = add %10, %13\n"
         "%15 = index %3, 0\n"
         "%16 = store %15, %14\n"
         "%17 = end %16, %7\n"
         "%18 = after %3, %17\n"
         "%19 = index %18, 0\n"
         "%20 = load %19\n"
         "%21 = store %2, %20\n"
         "%22 = end %21, %1\n"
         "%23 = sink %22\n";
}

std::vector<float> iota(int n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 0.0f);
  return x;
}

void expect_fourfold(const Kernel& kernel, int n) {
  const auto y = jit::values<float>(jit::run(kernel, {jit::bytes(iota(n))}).back());
  for (int i = 0; i < n; i++) ASSERT_EQ(y[i], 4.0f * i) << i;
}

TEST(Threads, OpenMPRunsEveryIterationOnce) {
  for (int threads : {0, 1, 2, 3, 8}) {
    Options o;
    o.threads = threads;
    Engine engine(o);
    for (int n : {0, 1, 2, 3, 7, 1000}) expect_fourfold(jit::compile(engine, program(n)), n);
  }
}

TEST(Threads, TheCodeCallsTheOpenMPRuntime) {
  Graph graph;
  const UOp p = parse(graph, program(100));
  Options o;
  EXPECT_NE(Engine(o).llvm_ir(p).find("@__kmpc_fork_call("), std::string::npos);
  EXPECT_EQ(Engine(o).llvm_ir(p).find("@__kmpc_push_num_threads("), std::string::npos);
  o.threads = 2;
  EXPECT_NE(Engine(o).llvm_ir(p).find("@__kmpc_push_num_threads("), std::string::npos);
  o.threads = 1;
  EXPECT_EQ(Engine(o).llvm_ir(p).find("__kmpc"), std::string::npos);
}

TEST(Threads, TwoSystemThreadsTakePart) {
  Options o;
  o.threads = 2;
  Engine engine(o);
  expect_fourfold(jit::compile(engine, program(1 << 16)), 1 << 16);
  // The runtime keeps its threads; the deep stacks that LLVM ran on are gone.
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  EXPECT_GE(std::distance(begin(tasks), end(tasks)), 2);
}

#if defined(_OPENMP)
// The host's OpenMP is its compiler's, a runtime of its own beside ours: both go on working, in either order.
TEST(Threads, InsideARegionOfTheHost) {
  Options o;
  Engine engine(o);
  const Kernel kernel = jit::compile(engine, program(3000));
  int64_t sum = 0;
#pragma omp parallel for num_threads(2) reduction(+ : sum)
  for (int i = 0; i < 1000; i++) sum += i;
  EXPECT_EQ(sum, 499500);
  std::atomic<int> wrong{0};
#pragma omp parallel for num_threads(3)
  for (int k = 0; k < 12; k++) {
    const auto y = jit::values<float>(jit::run(kernel, {jit::bytes(iota(3000))}).back());
    for (int i = 0; i < 3000; i++) wrong += y[i] != 4.0f * i;
  }
  EXPECT_EQ(wrong, 0);
  sum = 0;
#pragma omp parallel for num_threads(2) reduction(+ : sum)
  for (int i = 0; i < 1000; i++) sum += i;
  EXPECT_EQ(sum, 499500);
}
#endif

TEST(Threads, KernelsRunFromManyThreadsAtOnce) {
  Options o;
  o.threads = 2;
  Engine engine(o);
  const Kernel kernel = jit::compile(engine, program(5000));
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; t++)
    callers.emplace_back([&] {
      for (int k = 0; k < 20; k++) {
        const auto y = jit::values<float>(jit::run(kernel, {jit::bytes(iota(5000))}).back());
        for (int i = 0; i < 5000; i++) wrong += y[i] != 4.0f * i;
      }
    });
  for (auto& c : callers) c.join();
  EXPECT_EQ(wrong, 0);
}

// The host's pool: a thread for every third of the range.
ParallelFor pool(std::set<std::thread::id>* seen, std::mutex* mutex) {
  return [=](int64_t n, ParallelBody body, void* context) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; t++)
      threads.emplace_back([=] {
        {
          const std::lock_guard lock(*mutex);
          seen->insert(std::this_thread::get_id());
        }
        body(context, n * t / 3, n * (t + 1) / 3);
      });
    for (auto& t : threads) t.join();
  };
}

TEST(Threads, TheHostsParallelForReplacesOpenMP) {
  std::set<std::thread::id> seen;
  std::mutex mutex;
  Options o;
  o.parallel_for = pool(&seen, &mutex);
  Engine engine(o);
  Graph graph;
  EXPECT_EQ(engine.llvm_ir(parse(graph, program(100))).find("__kmpc"), std::string::npos);
  for (int n : {0, 1, 2, 100}) expect_fourfold(jit::compile(engine, program(n)), n);
  EXPECT_GE(seen.size(), 3u);
}

TEST(Threads, AKernelKeepsTheHostsParallelFor) {
  std::set<std::thread::id> seen;
  std::mutex mutex;
  std::optional<Kernel> kernel;
  {
    Options o;
    o.parallel_for = pool(&seen, &mutex);
    Engine engine(o);
    kernel = jit::compile(engine, program(100));
  }
  expect_fourfold(*kernel, 100);
}

TEST(Threads, AnExceptionOfParallelForIsAnError) {
  Options o;
  o.parallel_for = [](int64_t, ParallelBody, void*) { throw std::runtime_error("no"); };
  Engine engine(o);
  const Kernel kernel = jit::compile(engine, program(10));
  try {
    jit::run(kernel, {jit::bytes(iota(10))});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::Run);
    EXPECT_STREQ(e.what(), "kernel 'kernel': Options::parallel_for threw an exception");
  }
}

// One bad index among many threads: the call says which.
TEST(Threads, AnIndexErrorComesBackFromAnyThread) {
  const std::string text =
      "%0 = buffer 1000 : dtype=f32 slot=2\n"
      "%1 = range 1000 : idx=0 kind=thread\n"
      "%2 = index %0, %1\n"
      "%3 = buffer 8 : dtype=f32 slot=1\n"
      "%4 = buffer 1000 : dtype=i32 slot=0\n"
      "%5 = index %4, %1\n"
      "%6 = load %5\n"
      "%7 = index %3, %6\n"
      "%8 = load %7\n"
      "%9 = store %2, %8\n"
      "%10 = end %9, %1\n"
      "%11 = sink %10\n";
  std::set<std::thread::id> seen;
  std::mutex mutex;
  for (bool own : {false, true}) {
    Options o;
    o.threads = 2;
    if (own) o.parallel_for = pool(&seen, &mutex);
    Engine engine(o);
    const Kernel kernel = jit::compile(engine, text);
    std::vector<int32_t> index(1000, 3);
    jit::run(kernel, {jit::bytes(index), jit::bytes(iota(8)), jit::bytes(iota(1000))});
    index[777] = -5;
    try {
      jit::run(kernel, {jit::bytes(index), jit::bytes(iota(8)), jit::bytes(iota(1000))});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::Run);
      EXPECT_STREQ(e.what(), "kernel 'kernel': index -5 is out of range of slot 1, which has 8 elements");
    }
  }
}

#if defined(__x86_64__)
TEST(Threads, WorkersTakeTheCallersFloatingPointMode) {
  const std::string text =
      "%0 = buffer 4096 : dtype=f32 slot=1\n%1 = range 4096 : idx=0 kind=thread\n%2 = index %0, %1\n"
      "%3 = buffer 4096 : dtype=f32 slot=0\n%4 = index %3, %1\n%5 = load %4\n%6 = mul %5, 0.5\n%7 = store %2, %6\n"
      "%8 = end %7, %1\n%9 = sink %8\n";
  std::set<std::thread::id> seen;
  std::mutex mutex;
  for (bool own : {false, true}) {
    Options o;
    o.threads = 2;
    if (own) o.parallel_for = pool(&seen, &mutex);
    Engine engine(o);
    const Kernel kernel = jit::compile(engine, text);
    const auto input = jit::bytes(std::vector<float>(4096, 1e-40f));
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040);
    const auto flushed = jit::values<float>(jit::run(kernel, {input}).back());
    _mm_setcsr(saved);
    const auto kept = jit::values<float>(jit::run(kernel, {input}).back());
    for (int i = 0; i < 4096; i++) {
      ASSERT_EQ(flushed[i], 0.0f) << i;
      ASSERT_EQ(kept[i], 1e-40f * 0.5f) << i;
    }
  }
}
#endif

}  // namespace
}  // namespace uopc
