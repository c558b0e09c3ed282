// What the emitted LLVM IR says: flags, aliasing, wrapping. At level 0 it is what the emitter wrote.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "jit/jit_util.hpp"

namespace uopc {
namespace {

std::string ir(const std::string& text, Options o) {
  Graph graph;
  return Engine(std::move(o)).llvm_ir(parse(graph, text));
}

std::string emitted(const std::string& text, bool strict = false) {
  return ir(text, jit::options(0, strict));
}

// The lines of `text` that contain `what`.
std::vector<std::string> lines_with(const std::string& text, const std::string& what) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (line.find(what) != line.npos) out.push_back(line);
  return out;
}

const std::string kFloats =
    "%0 = buffer 64 : dtype=f32 slot=0\n%1 = buffer 64 : dtype=f32 slot=1\n"
    "%2 = mul %0, %1\n%3 = add %2, %0\n%4 = recip %3\n%5 = sqrt %4\n%6 = max %5, %1\n";

TEST(Emit, FastMathFlagsStandOnEveryOperationButDivisions) {
  const std::string text = emitted(kFloats);
  for (const char* op : {"fmul", "fadd", "call reassoc nsz contract float @llvm.sqrt", "fcmp"}) {
    const auto lines = lines_with(text, std::string(op) + (op[0] == 'c' ? "" : " "));
    EXPECT_FALSE(lines.empty()) << op;
    for (const auto& line : lines) EXPECT_NE(line.find("reassoc nsz contract "), line.npos) << line;
  }
  EXPECT_EQ(lines_with(text, "fdiv float 1.0").size(), 1u);
  EXPECT_FALSE(std::regex_search(text, std::regex("\\b(nnan|ninf|arcp|afn|fast)\\b")));
  // A choice is no arithmetic: with `nsz` MAX would not be the C text's.
  for (const auto& line : lines_with(text, "select")) EXPECT_EQ(line.find("nsz"), line.npos) << line;
}

TEST(Emit, StrictFloatHasNoFlags) {
  const std::string text = emitted(kFloats, true);
  EXPECT_FALSE(std::regex_search(text, std::regex("\\b(reassoc|nsz|contract|nnan|ninf|arcp|afn|fast)\\b")));
}

TEST(Emit, TranscendentalsHaveNoFlags) {
  const std::string text = emitted("%0 = buffer 64 : dtype=f32 slot=0\n%1 = exp2 %0\n%2 = log2 %1\n%3 = sin %2\n");
  EXPECT_FALSE(std::regex_search(text, std::regex("\\b(reassoc|nsz|contract|fast)\\b")));
  EXPECT_FALSE(std::regex_search(text, std::regex("@llvm\\.(exp2|log2|sin)\\b")));
}

TEST(Emit, BuffersDoNotAlias) {
  const std::string text = emitted(kFloats);
  const auto body = lines_with(text, "@kernel.body(ptr");
  ASSERT_FALSE(body.empty());
  for (const char* name : {"%data0", "%data1", "%data2"})
    EXPECT_TRUE(std::regex_search(body[0], std::regex(std::string("noalias [^,]*align 4 [^,]*") + name))) << body[0];
  EXPECT_TRUE(std::regex_search(body[0], std::regex("readonly [^,]*%data0")));
  EXPECT_FALSE(std::regex_search(body[0], std::regex("readonly [^,]*%data2")));
}

TEST(Emit, UserArithmeticMayWrap) {
  const std::string text =
      emitted("%0 = buffer 4 : dtype=i32 slot=0\n%1 = buffer 4 : dtype=i32 slot=1\n%2 = mul %0, %1\n%3 = add %2, %0\n");
  const auto sums = lines_with(text, "add i32"), products = lines_with(text, "mul i32");
  EXPECT_EQ(sums.size(), 1u);
  EXPECT_EQ(products.size(), 1u);
  EXPECT_FALSE(std::regex_search(text, std::regex("(add|mul) (nuw )?nsw i32")));
}

TEST(Emit, IndexArithmeticIsExact) {
  const std::string text =
      emitted("%0 = buffer 12 : dtype=f32 slot=0\n%1 = reshape %0, (3, 4)\n%2 = permute %1, (1, 0)\n");
  EXPECT_TRUE(std::regex_search(text, std::regex("mul nsw i64")));
  EXPECT_TRUE(std::regex_search(text, std::regex("add nsw i64")));
}

TEST(Emit, OnlyUnprovableIndicesAreChecked) {
  EXPECT_EQ(emitted(kFloats).find("uopc.index_error"), std::string::npos);
  const std::string gather =
      "%0 = buffer 4 : dtype=f32 slot=2\n%1 = range 4 : idx=0 kind=loop\n%2 = index %0, %1\n"
      "%3 = buffer 8 : dtype=f32 slot=1\n%4 = buffer 4 : dtype=i32 slot=0\n%5 = index %4, %1\n%6 = load %5\n"
      "%7 = index %3, %6\n%8 = load %7\n%9 = store %2, %8\n%10 = end %9, %1\n%11 = sink %10\n";
  EXPECT_NE(emitted(gather).find("uopc.index_error"), std::string::npos);
  Options unchecked = jit::options(0);
  unchecked.check_bounds = false;
  EXPECT_EQ(ir(gather, unchecked).find("uopc.index_error"), std::string::npos);
}

// At the default level.
TEST(Emit, InnerLoopsAreVectorized) {
  Options o;
  o.cpu = "x86-64-v3";
  EXPECT_NE(ir(kFloats, o).find("<8 x float>"), std::string::npos);
  const std::string sum =
      "%0 = buffer 4096 : dtype=f32 slot=0\n%1 = reshape %0, (4, 1024)\n%2 = reduce %1 : op=add pop=1\n";
  EXPECT_TRUE(std::regex_search(ir(sum, o), std::regex("fadd reassoc nsz contract <8 x float>")));
  const std::string sine = "%0 = buffer 4096 : dtype=f32 slot=0\n%1 = sin %0\n";
  EXPECT_NE(ir(sine, o).find("call <8 x float> @uopc.sin.v8f32("), std::string::npos);
  o.cpu = "x86-64-v4";
  EXPECT_NE(ir(kFloats, o).find("<16 x float>"), std::string::npos);
  EXPECT_NE(ir(sine, o).find("call <16 x float> @uopc.sin.v16f32("), std::string::npos);
}

TEST(Emit, TextForAnotherCpuThanTheHost) {
  Graph graph;
  Options o;
  o.cpu = "sapphirerapids";
  EXPECT_NE(Engine(o).assembly(parse(graph, kFloats)).find("zmm"), std::string::npos);
}

TEST(Emit, BarrierAndWmmaAreRefused) {
  Engine engine;
  const auto refused = [&](const std::string& text) {
    Graph graph;
    try {
      engine.compile(parse(graph, text));
    } catch (const Error& e) {
      return e.code() == ErrorCode::NotImplemented;
    }
    return false;
  };
  EXPECT_TRUE(refused(
      "%0 = buffer 16 : dtype=f32 slot=1\n%1 = range 16 : idx=0 kind=local\n%2 = index %0, %1\n"
      "%3 = alloc 16 : dtype=f32 slot=0 space=shared\n%4 = index %3, %1\n%5 = buffer 16 : dtype=f32 slot=0\n"
      "%6 = index %5, %1\n%7 = load %6\n%8 = store %4, %7\n%9 = barrier %8\n%10 = after %3, %9\n%11 = add %1, 1\n"
      "%12 = floormod %11, 16\n%13 = index %10, %12\n%14 = load %13\n%15 = store %2, %14\n%16 = end %15, %1\n"
      "%17 = sink %16\n"));
  EXPECT_TRUE(refused(
      "%0 = buffer 256 : dtype=f16 slot=0\n%1 = buffer 256 : dtype=f16 slot=1\n%2 = buffer 256 : dtype=f32 slot=2\n"
      "%3 = wmma %0, %1, %2\n"));
}

}  // namespace
}  // namespace uopc
