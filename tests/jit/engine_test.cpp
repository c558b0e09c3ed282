// Engine and Kernel: what is compiled runs and is right, from any thread, on any stack, and gives its memory back.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "golden.hpp"
#include "jit/jit_util.hpp"
#include "small_stack.hpp"

namespace uopc {
namespace {

using jit::bytes;

const std::string kAxpy =
    "%0 = buffer 4 : dtype=f32 slot=0\n%1 = buffer 4 : dtype=f32 slot=1\n%2 = mul %0, 2.0\n%3 = add %2, %1\n";

TEST(Engine, RunsAKernel) {
  Engine engine;
  EXPECT_EQ(jit::evaluate<float>(engine, kAxpy,
                                 {bytes(std::vector<float>{1, 2, 3, 4}), bytes(std::vector<float>{10, 20, 30, 40})}),
            (std::vector<float>{12, 24, 36, 48}));
}

TEST(Engine, TellsItsParameters) {
  Engine engine;
  const Kernel kernel = jit::compile(engine, kAxpy);
  ASSERT_EQ(kernel.params().size(), 3u);
  for (int i = 0; i < 3; i++) {
    const KernelParam& p = kernel.params()[i];
    EXPECT_EQ(p.slot, i);
    EXPECT_EQ(p.dtype, DType::F32);
    EXPECT_EQ(p.size, 4);
    EXPECT_EQ(p.read, i < 2);
    EXPECT_EQ(p.written, i == 2);
  }
  EXPECT_EQ(kernel.name(), "kernel");
  EXPECT_GT(kernel.code_bytes(), 0u);
}

TEST(Engine, TheRawEntryRuns) {
  Engine engine;
  const Kernel kernel = jit::compile(engine, kAxpy);
  float x[] = {1, 2, 3, 4}, y[] = {1, 1, 1, 1}, out[4] = {};
  void* buffers[] = {x, y, out};
  EXPECT_EQ(kernel.entry()(buffers, nullptr), static_cast<int32_t>(KernelStatus::Ok));
  EXPECT_EQ(out[3], 9);
}

// The element, not the vector, is all the alignment a buffer needs.
TEST(Engine, UnalignedBuffers) {
  Engine engine;
  const Kernel kernel = jit::compile(engine, "%0 = buffer 100 : dtype=f32 slot=0\n%1 = mul %0, 2.0\n");
  std::vector<float> x(101, 1.5f), y(101, 0.0f);
  kernel({BufferRef(static_cast<void*>(x.data() + 1), 400), BufferRef(static_cast<void*>(y.data() + 1), 400)});
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 3);
  EXPECT_EQ(y[100], 3);
}

void expect_run_error(const std::function<void()>& f, const std::string& part) {
  try {
    f();
    ADD_FAILURE() << "no error: " << part;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::Run);
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(Engine, WrongCallsAreErrors) {
  Engine engine;
  const Kernel kernel = jit::compile(engine, kAxpy);
  std::vector<float> x(8), y(4), out(4), few(3);
  const auto part = [&](size_t i) { return BufferRef(static_cast<void*>(x.data() + i), 16); };
  expect_run_error([&] { kernel({x, y}); }, "takes 3 buffers");
  expect_run_error([&] { kernel({part(0), few, out}); }, "slot 1");
  expect_run_error([&] { kernel({part(0), y, BufferRef(static_cast<void*>(nullptr), 16)}); }, "null");
  expect_run_error([&] { kernel({part(0), y, part(3)}); }, "overlap");
  expect_run_error([&] { kernel({y, part(0), part(1)}); }, "overlap");
  kernel({part(0), part(1), out});  // those that are only read may
  kernel({part(0), y, part(4)});
}

TEST(Engine, WrongRequestsAreErrors) {
  Graph graph;
  const UOp root = parse(graph, kAxpy);
  const auto code = [&](const std::function<void()>& f) -> std::optional<ErrorCode> {
    try {
      f();
    } catch (const Error& e) {
      return e.code();
    }
    return {};
  };
  Engine engine;
  EXPECT_EQ(code([&] { engine.compile(UOp()); }), ErrorCode::Type);
  EXPECT_EQ(code([&] { engine.compile(root, {}, "two words"); }), ErrorCode::Type);
  EXPECT_EQ(code([&] { engine.compile(root, {}, ""); }), ErrorCode::Type);
  Options o;
  o.threads = -1;
  EXPECT_EQ(code([&] { Engine e(o); }), ErrorCode::Type);
  o.threads = 0;
  o.opt_level = 4;
  EXPECT_EQ(code([&] { Engine e(o); }), ErrorCode::Type);
  o.opt_level = 2;
  for (const char* cpu : {"no-such-cpu", "i386", "pentium4"}) {
    o.cpu = cpu;
    Engine e(o);
    EXPECT_EQ(code([&] { e.compile(root); }), ErrorCode::Compile) << cpu;
    EXPECT_EQ(code([&] { e.assembly(root); }), ErrorCode::Compile) << cpu;
  }
  // The engine goes on after an error.
  EXPECT_EQ(engine.compile(root).params().size(), 3u);
}

// Named like what code may call, a kernel is still itself.
TEST(Engine, NamesOfLibraryFunctions) {
  Engine engine;
  Graph graph;
  const UOp root = parse(graph, kAxpy);
  for (const char* name :
       {"memset", "memcpy", "fmaf", "sinf", "main", "free", "omp_get_thread_num", "__kmpc_fork_call"}) {
    const Kernel kernel = engine.compile(root, {}, name);
    EXPECT_EQ(kernel.name(), name);
    const auto out = jit::run(kernel, {bytes(std::vector<float>{1, 2, 3, 4}), bytes(std::vector<float>{0, 0, 0, 1})});
    EXPECT_EQ(jit::values<float>(out[2]), (std::vector<float>{2, 4, 6, 9}));
  }
}

TEST(Engine, TwoKernelsOfOneName) {
  Engine engine;
  const Kernel twice = jit::compile(engine, "%0 = buffer 4 : dtype=f32 slot=0\n%1 = mul %0, 2.0\n");
  const Kernel plus = jit::compile(engine, "%0 = buffer 4 : dtype=f32 slot=0\n%1 = add %0, 100.0\n");
  const auto x = bytes(std::vector<float>{0, 1, 2, 3});
  EXPECT_EQ(jit::values<float>(jit::run(twice, {x})[1]), (std::vector<float>{0, 2, 4, 6}));
  EXPECT_EQ(jit::values<float>(jit::run(plus, {x})[1]), (std::vector<float>{100, 101, 102, 103}));
}

TEST(Engine, AKernelOutlivesItsEngine) {
  std::optional<Kernel> kernel;
  {
    Engine engine;
    kernel = jit::compile(engine, kAxpy);
  }
  const Kernel copy = *kernel;
  kernel.reset();
  const auto out = jit::run(copy, {bytes(std::vector<float>{1, 2, 3, 4}), bytes(std::vector<float>{0, 0, 0, 0})});
  EXPECT_EQ(jit::values<float>(out[2]), (std::vector<float>{2, 4, 6, 8}));
}

// Destroyed after main returns: the exit status of this program is part of the test.
Engine& static_engine() {
  static Engine engine;
  return engine;
}
const Kernel& static_kernel() {
  static const Kernel kernel = jit::compile(static_engine(), kAxpy);
  return kernel;
}
Engine global_engine;

TEST(Engine, StaticEnginesAndKernels) {
  EXPECT_EQ(static_kernel().params().size(), 3u);
  EXPECT_EQ(jit::compile(global_engine, kAxpy).params().size(), 3u);
}

TEST(Engine, IndicesAreChecked) {
  const std::string text =
      "%0 = buffer 4 : dtype=f32 slot=2\n%1 = range 4 : idx=0 kind=loop\n%2 = index %0, %1\n"
      "%3 = buffer 8 : dtype=f32 slot=1\n%4 = buffer 4 : dtype=i32 slot=0\n%5 = index %4, %1\n%6 = load %5\n"
      "%7 = index %3, %6\n%8 = load %7\n%9 = store %2, %8\n%10 = end %9, %1\n%11 = sink %10\n";
  for (int level : {0, 2, 3}) {
    Engine engine(jit::options(level));
    const Kernel kernel = jit::compile(engine, text);
    const auto table = bytes(std::vector<float>{0, 10, 20, 30, 40, 50, 60, 70});
    EXPECT_EQ(jit::values<float>(jit::run(kernel, {bytes(std::vector<int32_t>{7, 0, 3, 3}), table})[2]),
              (std::vector<float>{70, 0, 30, 30}));
    for (int32_t bad : {8, -1, 2147483647, -2147483647 - 1})
      expect_run_error(
          [&] {
            jit::run(kernel, {bytes(std::vector<int32_t>{1, 2, bad, 0}), table});
          },
          "index " + std::to_string(bad) + " is out of range of slot 1, which has 8 elements");
    KernelContext context;
    int32_t index[] = {0, 0, 9, 0};
    float values[8] = {}, out[4] = {};
    void* buffers[] = {index, values, out};
    EXPECT_EQ(kernel.entry()(buffers, &context), static_cast<int32_t>(KernelStatus::IndexOutOfRange));
    EXPECT_EQ(context.slot, 1);
    EXPECT_EQ(context.index, 9);
    EXPECT_EQ(context.size, 8);
    EXPECT_EQ(kernel.entry()(buffers, nullptr), static_cast<int32_t>(KernelStatus::IndexOutOfRange));
  }
}

// A store that would leave its buffer goes nowhere near it.
TEST(Engine, StoresOutOfRangeTouchNothing) {
  Engine engine;
  const Kernel kernel = jit::compile(
      engine,
      "%0 = buffer 4 : dtype=f32 slot=1\n%1 = range 4 : idx=0 kind=loop\n%2 = buffer 4 : dtype=i32 slot=0\n"
      "%3 = index %2, %1\n%4 = load %3\n%5 = index %0, %4\n%6 = store %5, 5.0\n%7 = end %6, %1\n%8 = sink %7\n");
  std::vector<int32_t> index = {0, 4, -1, 3};
  std::vector<float> out(12, 1.0f);
  expect_run_error([&] { kernel({index, BufferRef(static_cast<void*>(out.data() + 4), 16)}); }, "out of range");
  EXPECT_EQ(out, (std::vector<float>{1, 1, 1, 1, 5, 1, 1, 5, 1, 1, 1, 1}));
}

// Counts to a number of the data.
TEST(Engine, RangesWithAnEndFromData) {
  const std::string text =
      "%0 = buffer 1 : dtype=i32 slot=1\n%1 = index %0, 0\n%2 = alloc 1 : dtype=i32 slot=0\n%3 = index %2, 0\n"
      "%4 = store %3, 0\n%5 = buffer 1 : dtype=i32 slot=0\n%6 = index %5, 0\n%7 = load %6\n"
      "%8 = range %7 : idx=0 kind=loop\n%9 = after %2, %4, %8\n%10 = index %9, 0\n%11 = load %10\n%12 = add %11, %8\n"
      "%13 = store %3, %12\n%14 = end %13, %8\n%15 = after %2, %14\n%16 = index %15, 0\n%17 = load %16\n"
      "%18 = store %1, %17\n%19 = sink %18\n";
  for (int level : {0, 1, 2, 3}) {
    Engine engine(jit::options(level));
    const Kernel kernel = jit::compile(engine, text);
    for (int32_t n : {0, 1, 5, 100, -3})
      EXPECT_EQ(jit::values<int32_t>(jit::run(kernel, {bytes(std::vector<int32_t>{n})})[1])[0],
                n > 0 ? n * (n - 1) / 2 : 0);
  }
}

std::string scratch_program(int64_t elements) {
  const std::string n = std::to_string(elements);
  return "%0 = buffer 1 : dtype=f32 slot=0\n%1 = index %0, 0\n%2 = alloc " + n +
         " : dtype=f32 slot=0\n%3 = index %2, 0\n%4 = store %3, 7.0\n%5 = after %2, %4\n%6 = index %5, 0\n%7 = load "
         "%6\n"
         "%8 = store %1, %7\n%9 = sink %8\n";
}

TEST(Engine, LargeScratchIsNotOnTheStack) {
  Engine engine;
  const Kernel kernel = jit::compile(engine, scratch_program(100000000));
  on_small_stack([&] { EXPECT_EQ(jit::values<float>(jit::run(kernel, {})[0])[0], 7.0f); });
}

TEST(Engine, ScratchThatNobodyHasIsAnError) {
  Engine engine;
  std::string text;
  std::string sink;
  for (int i = 0; i < 64; i++) {  // 64 times 8 GiB, all in use at once
    const std::string n = std::to_string(i);
    text += "%a" + n + " = alloc 2147483647 : dtype=f32 slot=" + n + "\n%i" + n + " = index %a" + n + ", 5\n%s" + n +
            " = store %i" + n + ", 1.0\n";
    sink += (i ? ", %s" : "%s") + n;
  }
  const Kernel kernel = jit::compile(engine, text + "%r = sink " + sink + "\n");
  expect_run_error([&] { jit::run(kernel, {}); }, "out of memory");
}

// ---- long programs -------------------------------------------------------------------------------------------------

TEST(Engine, ADeepChainCompilesOnASmallStack) {
  constexpr int kDepth = 100000;
  on_small_stack([&] {
    Graph graph;
    UOp x = graph.buffer(1, DType::F32, 0);
    for (int i = 0; i < kDepth; i++) x = (x + 1.0).recip();
    Engine engine;
    const auto start = std::chrono::steady_clock::now();
    const Kernel kernel = engine.compile(x);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    testing::Test::RecordProperty("seconds", std::to_string(seconds));
    EXPECT_LT(seconds, 30);
    EXPECT_NEAR(jit::values<float>(jit::run(kernel, {bytes(std::vector<float>{1})})[1])[0], 0.618034, 1e-6);
  });
}

TEST(Engine, DoublingIsLinear) {
  Graph graph;
  UOp x = graph.buffer(1, DType::F32, 0);
  for (int i = 0; i < 64; i++) x = x + x;
  Engine engine;
  EXPECT_EQ(jit::values<float>(jit::run(engine.compile(x), {bytes(std::vector<float>{1})})[1])[0], 0x1p64f);
}

// More values alive at once than one function of the compiled code holds: they cross between functions.
TEST(Engine, ManyValuesAliveAtOnce) {
  constexpr int kCount = 6000;
  Graph graph;
  const UOp in = graph.buffer(kCount, DType::I32, 0), out = graph.buffer(kCount, DType::I32, 1);
  std::vector<UOp> squares;
  for (int i = 0; i < kCount; i++) {
    const UOp v = in.index(i).load();
    squares.push_back(v * v + v);
  }
  std::vector<UOp> stores;
  for (int i = 0; i < kCount; i++) {  // each store needs a value from the other end
    const UOp far = squares[kCount - 1 - i];
    stores.push_back(out.index(i).store(far * squares[i] + far));
  }
  const UOp program = graph.sink(stores);
  std::vector<int32_t> x(kCount);
  for (int i = 0; i < kCount; i++) x[i] = i % 37 - 18;
  Engine engine;
  const Kernel kernel = engine.compile(program);
  on_small_stack([&] {
    const auto y = jit::values<int32_t>(jit::run(kernel, {bytes(x)})[1]);
    for (int i = 0; i < kCount; i++) {
      const int32_t a = x[i] * x[i] + x[i], b = x[kCount - 1 - i] * x[kCount - 1 - i] + x[kCount - 1 - i];
      ASSERT_EQ(y[i], b * a + b) << i;
    }
  });
}

// The same inside loops: a long body whose parts share the loop's counter, a scratch array and an outer value.
TEST(Engine, LongLoopBodies) {
  constexpr int kUnroll = 3000;
  Graph graph;
  const UOp in = graph.buffer(4 * kUnroll, DType::I32, 0), out = graph.buffer(4, DType::I32, 1);
  const UOp scale = in.index(0).load();
  for (AxisType kind : {AxisType::Loop, AxisType::Thread}) {
    const UOp i = graph.range_(4, 0, kind);
    const UOp acc = graph.alloc(1, DType::I32, 0);
    const UOp zero = acc.after({i}).index(0).store(graph.constant(0));
    UOp last = zero;
    for (int k = 0; k < kUnroll; k++) {
      const UOp sum = acc.after({last}).index(0).load() + in.index(i * kUnroll + k).load() * scale;
      last = acc.index(0).store(sum);
    }
    const UOp store = out.index(i).store(acc.after({last}).index(0).load());
    const UOp program = graph.sink(std::vector<UOp>{store.end({i})});
    std::vector<int32_t> x(4 * kUnroll);
    for (size_t k = 0; k < x.size(); k++) x[k] = static_cast<int32_t>(k % 11) + 2;
    for (int level : {0, 2}) {
      Engine engine(jit::options(level));
      const auto y = jit::values<int32_t>(jit::run(engine.compile(program), {bytes(x)})[1]);
      for (int r = 0; r < 4; r++) {
        int32_t want = 0;
        for (int k = 0; k < kUnroll; k++) want += x[r * kUnroll + k] * x[0];
        EXPECT_EQ(y[r], want) << r;
      }
    }
  }
}

// ---- many ----------------------------------------------------------------------------------------------------------

std::string numbered(int i) {
  return "%0 = buffer 8 : dtype=f32 slot=0\n%1 = mul %0, " + std::to_string(i + 1) + "\n%2 = add %1, " +
         std::to_string(i) + "\n";
}

TEST(Engine, ManyThreadsCompileAndCall) {
  Engine engine, strict(jit::options(1, true));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; t++)
    threads.emplace_back([&, t] {
      for (int k = 0; k < 12; k++) {
        const int i = t * 100 + k;
        const auto y = jit::evaluate<float>(k % 3 ? engine : strict, numbered(i),
                                            {bytes(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7})});
        for (int j = 0; j < 8; j++) wrong += y[j] != static_cast<float>((i + 1) * j + i);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

long resident_kib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
  return 0;
}

void compile_and_drop(int count, int warm_up, long allowed_kib) {
  Engine engine(jit::options(0));
  long before = 0;
  const std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int i = 0; i < count; i++) {
    if (i == warm_up) before = resident_kib();
    ASSERT_EQ(jit::evaluate<float>(engine, numbered(i), {bytes(x)})[7], static_cast<float>((i + 1) * 7 + i));
  }
  EXPECT_LE(resident_kib() - before, allowed_kib);
}

TEST(Engine, DroppedKernelsGiveTheirMemoryBack) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "freed memory stays in AddressSanitizer's quarantine";
#endif
  compile_and_drop(1200, 300, 2048);
}
TEST(Engine, LongTenThousandKernelsInFlatMemory) {
  compile_and_drop(10000, 1000, 4096);
}

// Kept kernels share slabs of memory: their number is not bounded by that of memory mappings.
TEST(Engine, ManyKernelsKept) {
  Engine engine(jit::options(0));
  std::vector<Kernel> kernels;
  for (int i = 0; i < 500; i++) kernels.push_back(jit::compile(engine, numbered(i)));
  std::ifstream maps("/proc/self/maps");
  const auto mappings = std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  EXPECT_LT(mappings, 2500);
  for (int i = 0; i < 500; i++)
    EXPECT_EQ(jit::values<float>(jit::run(kernels[i], {bytes(std::vector<float>(8, 1))})[1])[0],
              static_cast<float>(2 * i + 1));
}

}  // namespace
}  // namespace uopc
