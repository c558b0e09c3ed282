#include "uopc/reference.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "error_of.hpp"
#include "runtime/files.hpp"
#include "runtime/sha256.hpp"
#include "runtime/system_compiler.hpp"
#include "uopc/error.hpp"
#include "uopc/passes.hpp"
#include "uopc/uir.hpp"

namespace uopc {
namespace {

namespace fs = std::filesystem;

TEST(Sha256, IsTheStandards) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1000000, 'a'))), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(SplitWords, AtBlanks) {
  EXPECT_EQ(split_words("  gcc -O2\t-g\n"), (std::vector<std::string>{"gcc", "-O2", "-g"}));
  EXPECT_TRUE(split_words(" \t").empty());
}

constexpr const char* kTwice = "void twice(float* a, float* b) { *b = *a * 2; }\n";

class Reference : public testing::Test {
 protected:
  Reference() {
    options_.cflags = "-O1";
    options_.c_cache_dir = dir_.path() + "/cache/of/its/own";
  }

  float twice(const Program& p, float x) const {
    float out = 0;
    void* const buffers[] = {&x, &out};
    p(buffers);
    return out;
  }

  std::vector<fs::path> entries() const {
    std::vector<fs::path> out;
    for (const auto& e : fs::directory_iterator(options_.c_cache_dir)) out.push_back(e.path());
    return out;
  }

  TempDir dir_{"/tmp"};
  Options options_;
};

TEST_F(Reference, CompilesAndKeeps) {
  const Program p = compile_c(kTwice, "twice", options_);
  EXPECT_EQ(twice(p, 21), 42);
  EXPECT_EQ(p.name(), "twice");
  ASSERT_EQ(entries().size(), 1u);
  EXPECT_EQ(entries()[0], p.library_path());
  // The second time the compiler is not asked.
  Options broken = options_;
  const auto time = fs::last_write_time(p.library_path());
  EXPECT_EQ(twice(compile_c(kTwice, "twice", broken), 4), 8);
  EXPECT_EQ(fs::last_write_time(p.library_path()), time);
}

TEST_F(Reference, TheKeyIsSourceCompilerAndFlags) {
  const std::string plain = compile_c(kTwice, "twice", options_).library_path();
  Options flags = options_, compiler = options_;
  flags.cflags = "-O1 -g";
  compiler.cc = "gcc -std=c11";
  EXPECT_NE(compile_c(kTwice, "twice", flags).library_path(), plain);
  EXPECT_NE(compile_c(kTwice, "twice", compiler).library_path(), plain);
  EXPECT_NE(compile_c(std::string(kTwice) + " ", "twice", options_).library_path(), plain);
  EXPECT_EQ(compile_c(kTwice, "twice", options_).library_path(), plain);
  EXPECT_EQ(entries().size(), 4u);
}

TEST_F(Reference, EqualNamesAreDifferentPrograms) {
  const Program a = compile_c(kTwice, "twice", options_);
  const Program b = compile_c("void twice(float* a, float* b) { *b = *a + 100; }\n", "twice", options_);
  EXPECT_EQ(twice(a, 3), 6);
  EXPECT_EQ(twice(b, 3), 103);
}

TEST_F(Reference, DamagedEntriesAreBuiltAgain) {
  const std::string path = compile_c(kTwice, "twice", options_).library_path();
  const std::string good = read_file(path);
  std::string flipped = good;
  flipped[good.size() / 2] ^= 1;
  for (const std::string& bad :
       {std::string(), std::string("hello"), good.substr(0, good.size() - 1), good.substr(0, good.size() / 2),
        good + "x", flipped, std::string(good.size(), '\0')}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bad;
    EXPECT_EQ(twice(compile_c(kTwice, "twice", options_), 5), 10);
    EXPECT_EQ(read_file(path), good);
  }
}

TEST_F(Reference, WithoutACacheNothingStaysBehind) {
  options_.c_cache_dir.clear();
  std::string directory;
  {
    const Program p = compile_c(kTwice, "twice", options_), copy = p;
    directory = fs::path(p.library_path()).parent_path();
    EXPECT_EQ(twice(copy, 1), 2);
    EXPECT_TRUE(fs::exists(directory));
  }
  EXPECT_FALSE(fs::exists(directory));
  EXPECT_NE(named_error_of([&] { compile_c("int", "x", options_); }), "no error");
}

TEST_F(Reference, ErrorsSayWhatTheCompilerSaid) {
  const std::string syntax = named_error_of([&] { compile_c("void f(void) { return 1 +; }\n", "f", options_); });
  EXPECT_TRUE(syntax.starts_with("CompileError: the C compiler failed with exit status 1: gcc -O1 -shared -fPIC"))
      << syntax;
  EXPECT_NE(syntax.find("expected expression"), std::string::npos) << syntax;
  EXPECT_TRUE(entries().empty());
  EXPECT_EQ(named_error_of([&] { compile_c(kTwice, "thrice", options_); }),
            "CompileError: the C text defines no function 'thrice'");
  options_.cc = "no-such-compiler-anywhere";
  EXPECT_EQ(named_error_of([&] { compile_c(kTwice, "twice", options_).name(); }),
            "CompileError: cannot start the C compiler 'no-such-compiler-anywhere': No such file or directory");
  options_.cc = "  ";
  EXPECT_EQ(named_error_of([&] { compile_c(kTwice, "twice", options_); }),
            "CompileError: no C compiler: Options::cc (CC) is empty");
  options_.cc = "true";
  EXPECT_EQ(named_error_of([&] { compile_c(kTwice, "twice", options_); }),
            "CompileError: the C compiler 'true' made no library");
  options_ = {};
  options_.c_cache_dir = "/dev/null/cache";
  EXPECT_TRUE(
      named_error_of([&] { compile_c(kTwice, "twice", options_); }).starts_with("RunError: cannot make the directory"));
}

TEST_F(Reference, NoWordGoesThroughAShell) {
  options_.cflags = "-O1 -DX=$(touch${IFS}pwned) -DY=;true";
  EXPECT_EQ(twice(compile_c(kTwice, "twice", options_), 2), 4);
}

TEST_F(Reference, AnyNumberOfBuffers) {
  for (size_t n : {0, 1, 7, 128}) {
    std::string source = "void sum(";
    for (size_t i = 0; i < n; i++) source += (i ? ", int* p" : "int* p") + std::to_string(i);
    source += n ? ") { *p0 = 0;" : "void) { ";
    for (size_t i = 1; i < n; i++) source += " *p0 += *p" + std::to_string(i) + ";";
    const Program p = compile_c(source + " }\n", "sum", options_);
    std::vector<int> values(n, 1);
    std::vector<void*> pointers;
    for (int& v : values) pointers.push_back(&v);
    p(pointers);
    if (n) {
      EXPECT_EQ(values[0], static_cast<int>(n) - 1);
    }
  }
  const Program p = compile_c(kTwice, "twice", options_);
  const std::vector<void*> many(129);
  EXPECT_TRUE(named_error_of([&] { p(many); }).starts_with("NotImplementedError: "));
}

// Processes and threads that fill one cold cache at once; one process is killed while it does.
TEST_F(Reference, OneColdCacheForAll) {
  const auto work = [&] {
    bool good = true;
    for (int k = 0; k < 4; k++) {
      const std::string source = "void twice(float* a, float* b) { *b = *a * 2 + " + std::to_string(k) + "; }\n";
      good &= twice(compile_c(source, "twice", options_), 1) == static_cast<float>(2 + k);
    }
    return good;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 4; i++) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work() ? 0 : 1);
    children.push_back(child);
  }
  ::usleep(30000);
  ::kill(children[0], SIGKILL);
  bool good[2] = {};
  std::thread a([&] { good[0] = work(); }), b([&] { good[1] = work(); });
  a.join();
  b.join();
  EXPECT_TRUE(good[0] && good[1]);
  for (size_t i = 0; i < children.size(); i++) {
    int status = 0;
    ::waitpid(children[i], &status, 0);
    if (i > 0) {
      EXPECT_EQ(status, 0);
    }
  }
}

TEST_F(Reference, RunCIsTheInterpreter) {
  Graph g;
  const UOp x = g.buffer(24, DType::F32, 0), y = g.buffer(24, DType::I32, 1);
  const UOp f = x.reshape({2, 3, 4}).exp2().reduce(Op::Add, 1), i = y.reshape({2, 3, 4}).floormod(5).reduce(Op::Max, 1);
  const UOp program = as_program(f * i.cast(DType::F32));
  std::vector<float> xs(24), want(6), got(6);
  std::vector<int32_t> ys(24);
  for (int k = 0; k < 24; k++) {
    xs[static_cast<size_t>(k)] = static_cast<float>(k % 7) - 3;  // exp2 of these is exact
    ys[static_cast<size_t>(k)] = k * 7919 - 90000;
  }
  interpret(program, std::vector<BufferRef>{xs, ys, want});
  run_c(program, std::vector<BufferRef>{xs, ys, got}, options_);
  EXPECT_EQ(got, want);
}

TEST_F(Reference, RunCDividesByAnything) {
  Graph g;
  const UOp a = g.buffer(6, DType::I32, 0), b = g.buffer(6, DType::I32, 1);
  std::vector<int32_t> as = {INT_MIN, INT_MIN, 7, -7, 0, 7}, bs = {-1, 0, 0, 2, 0, -2}, q(6), r(6);
  run_c(as_program(a.floordiv(b)), std::vector<BufferRef>{as, bs, q}, options_);
  run_c(as_program(a.floormod(b)), std::vector<BufferRef>{as, bs, r}, options_);
  EXPECT_EQ(q, (std::vector<int32_t>{INT_MIN, 0, 0, -4, 0, -4}));
  EXPECT_EQ(r, (std::vector<int32_t>{0, 0, 0, 1, 0, -1}));
}

TEST_F(Reference, RunCChecksIndicesAndCalls) {
  const std::string gather = R"(%0 = buffer 1 : dtype=f32 slot=2
%1 = index %0, 0
%2 = buffer 8 : dtype=f32 slot=1
%3 = buffer 1 : dtype=i32 slot=0
%4 = index %3, 0
%5 = load %4
%6 = index %2, %5
%7 = load %6
%8 = store %1, %7
%9 = sink %8
)";
  Graph g;
  const UOp program = parse(g, gather);
  std::vector<float> data = {0, 1, 2, 3, 4, 5, 6, 7}, out(1);
  for (int32_t index : {7, -1, 8, INT_MAX, 0}) {
    std::vector<int32_t> at = {index};
    const std::string error = named_error_of([&] { run_c(program, std::vector<BufferRef>{at, data, out}, options_); });
    if (index >= 0 && index < 8) {
      EXPECT_EQ(error, "no error");
      EXPECT_EQ(out[0], static_cast<float>(index));
    } else {
      EXPECT_EQ(error, "RunError: an index is out of range of its buffer");
    }
  }
  std::vector<int32_t> at = {0};
  EXPECT_EQ(named_error_of([&] {
              run_c(program, std::vector<BufferRef>{at, data, data}, options_);
            }),
            "RunError: the buffers of slots 1 and 2 overlap, and slot 2 is written");
}

}  // namespace
}  // namespace uopc
