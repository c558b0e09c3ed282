// What the type checker lets through and a program must not have.
#include <gtest/gtest.h>

#include "golden.hpp"
#include "passes/verify.hpp"
#include "program_text.hpp"

namespace uopc {
namespace {

std::string checked(std::string_view uir) {
  return test::error_of([&] {
    Graph g;
    const UOp root = parse(g, uir);
    verify(root, root.is(Op::Sink) ? PipelineStage::Loops : PipelineStage::Graph);
  });
}

TEST(Verify, GoldenProgramsPass) {
  for (const char* section : {"lower_c", "c", "eval", "cuda"})
    for (const auto& name : golden::cases_with(section)) EXPECT_EQ(checked(golden::read(name).at("uir")), "") << name;
}

TEST(Verify, ShapedGraphs) {
  EXPECT_EQ(checked("%0 = buffer -3"), "UOpError: BUFFER slot=0 has a negative size: (-3,)");
  EXPECT_EQ(checked("%0 = buffer 4 : dtype=void"), "UOpError: BUFFER slot=0 of dtypes.void: data has a type");
  EXPECT_EQ(checked("%0 = param : slot=1 dtype=f32 shape=(2, -1)"), "UOpError: PARAM slot=1 has a negative size: (2, -1)");
  EXPECT_EQ(checked("%0 = buffer 6\n%1 = reshape %0, (-2, -3)"), "UOpError: RESHAPE has a negative size: (-2, -3)");
  EXPECT_EQ(checked("%0 = buffer 1\n%1 = expand %0, (-2,)"), "UOpError: EXPAND has a negative size: (-2,)");
  EXPECT_EQ(checked("%0 = buffer 1\n%1 = cast %0 : dtype=void"), "UOpError: CAST to dtypes.void");
  EXPECT_EQ(checked("%0 = buffer 4 : dtype=i32\n%1 = add %0, 4294967296"),
            "UOpError: CONST 4294967296 does not fit i32 (-2147483648 to 2147483647)");
  EXPECT_EQ(checked("%0 = buffer 4294967296"),
            "UOpError: BUFFER slot=0 has 4294967296 elements: an index exceeds i32 past 2**31");
  EXPECT_EQ(checked("%0 = buffer 1\n%1 = expand %0, (4294967296,)"),
            "UOpError: EXPAND to (4294967296,): an index exceeds i32");
  EXPECT_EQ(checked("%0 = buffer 1\n%1 = reshape %0, (1, 1)\n%2 = expand %1, (65536, 65536)\n"
                    "%3 = reshape %2, (65536, 256, 256)"),
            "UOpError: RESHAPE to (65536, 256, 256): a flat index exceeds i32");
  EXPECT_EQ(checked("%0 = buffer 4\n%1 = index %0, 4"),
            "UOpError: an index of INDEX () is out of range: it is 4 and the size is 4");
  EXPECT_EQ(checked("%0 = buffer 4\n%1 = buffer 5\n%2 = index %0, 1\n%3 = index %1, 1\n%4 = add %2, %3"),
            "UOpError: slot 0 is two BUFFERs: 4 of dtypes.f32 and 5 of dtypes.f32");
  EXPECT_EQ(checked("%0 = alloc 4"), "UOpError: ALLOC slot=0 does not belong in a shaped graph");
  EXPECT_EQ(checked("%0 = sink\n%1 = stack %0, %0"), "UOpError: SINK does not belong in a shaped graph");
}

// Of half a program too: what is a mistake wherever the node goes.
TEST(Verify, Nodes) {
  const auto nodes = [](std::string_view uir) {
    return test::error_of([&] {
      Graph g;
      verify_nodes(parse(g, uir));
    });
  };
  for (const char* section : {"type", "lower_c", "c", "eval", "cuda"})
    for (const auto& name : golden::cases_with(section)) EXPECT_EQ(nodes(golden::read(name).at("uir")), "") << name;
  for (const char* part : {"%0 = alloc 4", "%0 = alloc 4 : space=global", "%0 = range 4", "%0 = buffer 4\n%1 = load %0",
                           "%0 = buffer 0", "%0 = const 2147483647", "%0 = buffer 2147483648", "%0 = floordiv 5, 0"})
    EXPECT_EQ(nodes(part), "") << part;

  EXPECT_EQ(nodes("%0 = buffer -1"), "UOpError: BUFFER slot=0 has a negative size: (-1,)");
  EXPECT_EQ(nodes("%0 = alloc -1"), "UOpError: ALLOC slot=0 has a negative size: (-1,)");
  EXPECT_EQ(nodes("%0 = buffer 4 : dtype=void"), "UOpError: BUFFER slot=0 of dtypes.void: data has a type");
  EXPECT_EQ(nodes("%0 = buffer 1\n%1 = expand %0, (-2,)\n%2 = exp2 %1"),
            "UOpError: EXPAND has a negative size: (-2,)");
  EXPECT_EQ(nodes("%0 = buffer 2147483649"),
            "UOpError: BUFFER slot=0 has 2147483649 elements: an index exceeds i32 past 2**31");
  EXPECT_EQ(nodes("%0 = range 3000000000"), "UOpError: CONST 3000000000 does not fit i32 (-2147483648 to 2147483647)");
  EXPECT_EQ(nodes("%0 = buffer 1\n%1 = cast %0 : dtype=void"), "UOpError: CAST to dtypes.void");
  EXPECT_EQ(nodes("%0 = buffer 4\n%1 = index %0, 4\n%2 = load %1"),
            "UOpError: an index of INDEX () is out of range: it is 4 and the size is 4");
  EXPECT_EQ(nodes("%0 = buffer 6\n%1 = reshape %0, (2, 3)\n%2 = index %1, -1"),
            "UOpError: an index of INDEX (3,) is out of range: it is -1 and the size is 2");
  // In a loop that runs no times nothing is out of range.
  EXPECT_EQ(nodes("%a = buffer 0\n%r = range 0\n%i = index %a, 0\n%s = store %i, 1.0\n%e = end %s, %r"), "");
  EXPECT_EQ(test::error_of([] { verify_nodes(UOp()); }), "UOpError: an empty UOp is no program");
}

TEST(Verify, ConstantDivisor) {
  EXPECT_EQ(checked("%0 = buffer 4 : dtype=i32\n%1 = floordiv %0, 0"), "UOpError: FLOORDIV by the constant 0");
  EXPECT_EQ(checked("%0 = buffer 4 : dtype=i32\n%1 = floormod %0, 0"), "UOpError: FLOORMOD by the constant 0");
  // As text it is the reference's.
  EXPECT_EQ(test::c_of("%0 = buffer 1 : dtype=i32\n%1 = floordiv %0, 0"),
            "void kernel(int* restrict data0, int* restrict data1) {\n  int val1 = data0[0];\n"
            "  data1[0] = floordiv_i32(val1,0);\n}\n");
}

// One line in place of the store of a small program.
std::string in_program(const std::string& lines) {
  return checked("%a = buffer 4 : dtype=i32 slot=0\n%r = range 4 : idx=0\n%i = index %a, %r\n" + lines +
                 "\n%e = end %s, %r\n%k = sink %e");
}

TEST(Verify, LoopPrograms) {
  EXPECT_EQ(in_program("%s = store %i, %r"), "");
  EXPECT_EQ(in_program("%s = store %a, %r"), "UOpError: STORE of shape (4,) in a loop program: INDEX the memory");
  EXPECT_EQ(in_program("%s = store %i, %a"), "UOpError: the value of STORE is memory: LOAD it first");
  EXPECT_EQ(in_program("%x = add %i, 1\n%s = store %i, %x"), "UOpError: an operand of ADD is memory: LOAD it first");
  EXPECT_EQ(in_program("%x = stack %r, %r\n%y = index %x, 0\n%s = store %i, %y"),
            "UOpError: STACK does not belong in a loop program");
  EXPECT_EQ(in_program("%l = load %i, %r\n%s = store %i, %l"), "UOpError: LOAD takes an address, got 2 sources");
  EXPECT_EQ(in_program("%s = store %i, %r, %r"), "UOpError: STORE takes an address and a value, got 3 sources");
  EXPECT_EQ(in_program("%b = index %a\n%j = index %b, %r\n%s = store %j, %r"),
            "UOpError: INDEX of BUFFER slot=0 in a loop program takes flat memory and one index");
  EXPECT_EQ(in_program("%x = after %r, %i\n%s = store %i, %x"), "UOpError: AFTER orders memory, not RANGE idx=0 kind=loop");
  EXPECT_EQ(in_program("%m = alloc 4 : dtype=i32 space=global\n%j = index %m, %r\n%s = store %j, %r"),
            "UOpError: ALLOC slot=0 is in GLOBAL: scratch memory is LOCAL or SHARED");
  EXPECT_EQ(in_program("%m = alloc -1 : dtype=i32\n%j = index %m, %r\n%s = store %j, %r"),
            "UOpError: ALLOC slot=0 has a negative size: (-1,)");
  EXPECT_EQ(in_program("%m = alloc 1 : dtype=i32 slot=-1\n%j = index %m, 0\n%s = store %j, %r"),
            "UOpError: ALLOC slot=-1: a slot is not negative in a loop program");
  EXPECT_EQ(in_program("%t = store %i, %r\n%u = end %t, %i\n%s = sink %u"),
            "UOpError: END closes RANGEs, not INDEX ()");
  EXPECT_EQ(in_program("%n = add %r, 4\n%j = index %a, %n\n%s = store %j, %r"),
            "UOpError: an index of INDEX () is out of range: it is from 4 to 7 and the size is 4");
  EXPECT_EQ(in_program("%n = add %r, 3\n%j = index %a, %n\n%s = store %j, %r"), "");  // it may not be
  EXPECT_EQ(in_program("%q = range %a : idx=1\n%t = store %i, %q\n%s = end %t, %q"),
            "UOpError: the end of RANGE idx=1 kind=loop is memory: LOAD it first");
  EXPECT_EQ(in_program("%q = range 4 : idx=-1\n%t = store %i, %q\n%s = end %t, %q"),
            "UOpError: RANGE idx=-1 kind=loop: an idx is not negative");
  EXPECT_EQ(in_program("%x = sink\n%y = sink\n%z = cmpne %x, %y\n%w = cast %z : dtype=i32\n%s = store %i, %w"),
            "UOpError: an operand of CMPNE is SINK, which has no value");
  EXPECT_EQ(in_program("%x = floordiv %r, 0\n%s = store %i, %x"), "UOpError: FLOORDIV by the constant 0");
  // In a loop that runs no times nothing is out of range.
  EXPECT_EQ(checked("%a = buffer 0 : slot=0\n%r = range 0 : idx=0\n%i = index %a, 0\n%s = store %i, 1.0\n"
                    "%e = end %s, %r\n%k = sink %e"),
            "");
  Graph g;
  EXPECT_EQ(test::error_of([&] { verify(g.buffer(1, DType::F32, 0), PipelineStage::Loops); }),
            "UOpError: the root of a loop program is a SINK, not BUFFER slot=0");
  EXPECT_EQ(test::error_of([&] { verify(UOp(), PipelineStage::Loops); }), "UOpError: an empty UOp is no program");
}

TEST(Verify, CountElements) {
  EXPECT_EQ(count_elements({}), 1);
  EXPECT_EQ(count_elements({65536, 32768}), kMaxElements);
  EXPECT_EQ(count_elements({65536, 32769}), kMaxElements + 1);
  EXPECT_EQ(count_elements({INT64_MAX, INT64_MAX, 0}), 0);
  EXPECT_EQ(count_elements({INT64_MAX, INT64_MAX}), kMaxElements + 1);
}

}  // namespace
}  // namespace uopc
