// Every program of the appendix that the CPU can run, at each level against the interpreter.
#include <gtest/gtest.h>

#include <cmath>

#include "golden.hpp"
#include "jit/jit_util.hpp"

namespace uopc {
namespace {

// Small values of both signs that every dtype holds exactly; a bool is a byte of 0 or 1.
jit::Bytes pattern(const KernelParam& p, int seed) {
  jit::Bytes b(static_cast<size_t>(p.size) * static_cast<size_t>(itemsize(p.dtype)));
  for (int64_t i = 0; i < p.size; i++) {
    const int v = static_cast<int>((i * 7 + seed * 3) % 11) - 5;
    const float f = static_cast<float>(v) + 0.5f;
    char* at = b.data() + static_cast<size_t>(i) * static_cast<size_t>(itemsize(p.dtype));
    if (p.dtype == DType::F32) std::memcpy(at, &f, 4);
    if (p.dtype == DType::I32) std::memcpy(at, &v, 4);
    if (p.dtype == DType::Bool) *at = v > 0;
  }
  return b;
}

void expect_close(const jit::Bytes& got, const jit::Bytes& want, DType d) {
  if (d != DType::F32) {
    EXPECT_EQ(got, want);
    return;
  }
  const auto x = jit::values<float>(got), y = jit::values<float>(want);
  for (size_t i = 0; i < x.size(); i++) {
    if (std::isnan(y[i])) {
      EXPECT_TRUE(std::isnan(x[i])) << i;
    } else if (std::isinf(y[i])) {
      EXPECT_EQ(x[i], y[i]) << i;
    } else {
      EXPECT_NEAR(x[i], y[i], 1e-5 * (1 + std::abs(y[i]))) << i;
    }
  }
}

TEST(GoldenJit, ProgramsOfTheAppendixRun) {
  int programs = 0;
  for (const std::string& name : golden::cases_with("uir")) {
    const golden::Case c = golden::read(name);
    if (!c.has("c") && !c.has("lower_c")) continue;
    SCOPED_TRACE(name);
    programs++;
    Graph graph;
    const UOp program = as_program(parse(graph, c.at("uir")));
    const std::vector<KernelParam> params = program_params(program);
    std::vector<jit::Bytes> input;
    for (const KernelParam& p : params) input.push_back(pattern(p, static_cast<int>(input.size())));
    std::vector<jit::Bytes> want = input;
    interpret(program, jit::refs(want));
    for (int level : {0, 1, 2, 3}) {
      Engine engine(jit::options(level));
      const Kernel kernel = engine.compile(program);
      ASSERT_EQ(kernel.params().size(), params.size());
      const auto got = jit::run(kernel, input);
      for (size_t i = 0; i < params.size(); i++) {
        if (params[i].written)
          expect_close(got[i], want[i], params[i].dtype);
        else
          EXPECT_EQ(got[i], input[i]);
      }
    }
  }
  EXPECT_GE(programs, 20);
}

}  // namespace
}  // namespace uopc
