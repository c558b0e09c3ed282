// The .uir format beyond the golden texts: lines, names, literals, sugar and attributes.
#include <cmath>
#include <limits>

#include "unit/uir_helpers.hpp"

namespace uopc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// ---- lines and names -----------------------------------------------------------------------------------------------

TEST(UirLines, CommentsBlanksAndLineEnds) {
  const std::string plain = "%0 = buffer 4 : dtype=f32 slot=0\n%1 = exp2 %0\n";
  EXPECT_EQ(canonical("\n  # a comment\n\t%0=buffer 4:dtype=f32 slot=0# and = one here\n\n %1 =  exp2   %0  \n#"),
            plain);
  EXPECT_EQ(canonical("%0 = buffer 4 : dtype=f32 slot=0\r\n\r\n%1 = exp2 %0\r\n"), plain);
  EXPECT_EQ(canonical("%0 = buffer 4 : dtype=f32 slot=0\r%1 = exp2 %0"), plain);
  EXPECT_EQ(canonical("%0 = buffer 4\t:\tslot=0\t dtype=f32\n%1 = EXP2\t%0 :"), plain);
  EXPECT_EQ(canonical("%0 = Buffer 4 : dtype=f32 slot=0\n%1 = eXp2 %0"), plain);
}

TEST(UirLines, NamesAreAnyText) {
  for (const std::string name : {"%acc", "%", "%%", "%a b", "%f(x, y)", "%a:b", "%\xc3\xa9", "%\xff", "%0x1", "%007",
                                 "%99999999999999999999", "%-1", "%true", "%a'\"\\"}) {
    EXPECT_EQ(canonical(fmt::format("{} = const 2\n%7 = const 3\n%r = add {}, %7", name, name)), "%0 = add 2, 3\n")
        << name;
    EXPECT_EQ(canonical(fmt::format("  {}   = param : slot=0 dtype=i32\n%r = call {}, 3 : name=g", name, name)),
              "%0 = param : slot=0 dtype=i32\n%1 = call %0, 3 : name=g\n")
        << name;
  }
  using namespace std::string_view_literals;
  EXPECT_EQ(canonical("%a\0b = const 2\n%r = add %a\0b, 1"sv), "%0 = add 2, 1\n");
  EXPECT_EQ(reason("%007 = const 1\n%r = add %7, 1"), "undefined %7");
}

TEST(UirLines, TheLastDefinitionCounts) {
  EXPECT_EQ(canonical("%x = const 1\n%x = add %x, 2\n%x = mul %x, %x"), "%0 = add 1, 2\n%1 = mul %0, %0\n");
}

TEST(UirLines, TheProgramIsTheLastStatement) {
  EXPECT_EQ(canonical("%0 = buffer 4\n%1 = exp2 %0\n%2 = const 3"), "%0 = const 3\n");
}

// ---- literals ------------------------------------------------------------------------------------------------------

TEST(UirLiterals, PythonForms) {
  const std::vector<std::pair<std::string, Scalar>> cases = {
      {"0", 0},
      {"-0", 0},
      {"00", 0},
      {"0_0", 0},
      {"+3", 3},
      {"-7", -7},
      {"1_000", 1000},
      {"0x_ff", 255},
      {"0XFF", 255},
      {"-0x10", -16},
      {"0o17", 15},
      {"0b101", 5},
      {"0B1_0", 2},
      {"2147483648", int64_t{2147483648}},
      {"9223372036854775807", INT64_MAX},
      {"-9223372036854775808", INT64_MIN},
      {"-0x8000000000000000", INT64_MIN},
      {"1.", 1.0},
      {".5", 0.5},
      {"-.5", -0.5},
      {"1e5", 1e5},
      {"1E-5", 1e-5},
      {"1_0.0_1", 10.01},
      {"0e0", 0.0},
      {"-0.0", -0.0},
      {"1e400", kInf},
      {"-1e400", -kInf},
      {"1e-400", 0.0},
      {"5e-324", 5e-324},
      {"1.7976931348623157e308", 1.7976931348623157e308},
      {"007.5", 7.5},
      {"inf", kInf},
      {"-inf", -kInf},
      {"nan", std::nan("")},
      {"true", true},
      {"false", false},
      {"True", true},
      {"False", false},
  };
  for (const auto& [text, value] : cases) EXPECT_EQ(constant(text), value) << text;
}

TEST(UirLiterals, WhatPythonRefuses) {
  for (const char* text : {"012",  "1__0", "_1",   "1_",       "0x",  "0xg",   "0b2",  "0o8",  "0x1.8p3", "1e",
                           "1e+",  ".",    "-",    "+",        "--3", "1.e_5", "._5",  "1_.5", "3L",      "1j",
                           "0x-1", "+inf", "-nan", "infinity", "NaN", "Inf",   "TRUE", "None", "1 2",     "\xd9\xa3"}) {
    EXPECT_EQ(reason(fmt::format("%0 = const {}", text)).substr(0, 12), "bad literal ") << text;
  }
  EXPECT_EQ(failure("%0 = const 012"), "line 1: '%0 = const 012': bad literal '012'");
}

TEST(UirLiterals, BeyondInt64) {
  EXPECT_EQ(reason("%0 = const 9223372036854775808"), "integer 9223372036854775808 is out of range");
  EXPECT_EQ(reason("%0 = const -9223372036854775809"), "integer -9223372036854775809 is out of range");
  EXPECT_EQ(reason("%0 = const 0x1_0000_0000_0000_0000 : dtype=i32"),
            "integer 0x1_0000_0000_0000_0000 is out of range");
  EXPECT_EQ(reason("%0 = const 1e30 : dtype=i32"), "1e30 does not fit i32 (-2147483648 to 2147483647)");
  EXPECT_EQ(reason("%0 = buffer 9223372036854775808"), "size 9223372036854775808 is out of range");
  EXPECT_EQ(reason("%0 = buffer 4 : slot=9223372036854775808"), "slot 9223372036854775808 is out of range");

  EXPECT_EQ(constant("9223372036854775808 : dtype=f32"), Scalar(0x1p63));
  EXPECT_EQ(constant("-1_0000_0000_0000_0000_0000 : dtype=f32"), Scalar(-1e20));
  EXPECT_EQ(constant("0x1_0000_0000_0000_0000 : dtype=f32"), Scalar(0x1p64));
  EXPECT_EQ(constant("0x1000000000000080000 : dtype=f32"), Scalar(0x1p72));                // a tie, to even
  EXPECT_EQ(constant("0x1000000000000080001 : dtype=f32"), Scalar(0x1.0000000000001p72));  // just above it
  EXPECT_EQ(constant("0o2000000000000000000000 : dtype=f32"), Scalar(0x1p64));
  EXPECT_EQ(reason("%0 = const 9223372036854775808 : dtype=bool"),
            "9223372036854775808 is no bool: write true or false");
  EXPECT_EQ(constant("1" + std::string(308, '0') + " : dtype=f32"), Scalar(1e308));
  EXPECT_EQ(reason("%0 = const 1" + std::string(309, '0') + " : dtype=f32"), "int too large to convert to float");
  EXPECT_EQ(reason("%0 = const 1" + std::string(400, '0')), "integer 1" + std::string(400, '0') + " is out of range");
  EXPECT_EQ(reason("%0 = const 0x" + std::string(300, 'f') + " : dtype=f32"), "int too large to convert to float");
  EXPECT_EQ(canonical("%0 = buffer 1\n%1 = index %0, 0\n%2 = store %1, 9223372036854775808"),
            "%0 = buffer 1 : dtype=f32 slot=0\n%1 = index %0, 0\n%2 = store %1, 9.223372036854776e+18\n");
}

TEST(UirLiterals, ConstWithADType) {
  EXPECT_EQ(canonical("%0 = const 3"), "%0 = const 3\n");
  EXPECT_EQ(canonical("%0 = const 3 : dtype=f32"), "%0 = const 3.0\n");
  EXPECT_EQ(canonical("%0 = const true : dtype=f32"), "%0 = const 1.0\n");
  EXPECT_EQ(canonical("%0 = const -2.0 : dtype=i32"), "%0 = const -2\n");
  EXPECT_EQ(canonical("%0 = const true : dtype=i32"), "%0 = const 1\n");
  EXPECT_EQ(canonical("%0 = const 1.0 : dtype=bool"), "%0 = const true\n");
  EXPECT_EQ(canonical("%0 = const -0.0 : dtype=bool"), "%0 = const false\n");
  EXPECT_EQ(canonical("%0 = const 16777217 : dtype=f32"), "%0 = const 16777217.0\n");
  EXPECT_EQ(canonical("%0 = const 3 : dtype=f16"), "%0 = cast 3.0 : dtype=f16\n");
  EXPECT_EQ(reason("%0 = const nan : dtype=i32"), "cannot convert float NaN to integer");
  EXPECT_EQ(reason("%0 = const -inf : dtype=i32"), "cannot convert float infinity to integer");
  EXPECT_EQ(reason("%0 = const 1 : dtype=void"), "there is no constant of dtypes.void");
}

TEST(UirLiterals, Tuples) {
  const std::string head = "%0 = buffer 6\n%1 = reshape %0, ";
  for (const char* six : {"(6,)", "(6)", "( 6 , )", "(0x6,)", "(+6,)"})
    EXPECT_EQ(canonical(head + six), "%0 = buffer 6 : dtype=f32 slot=0\n%1 = reshape %0, (6,)\n") << six;
  EXPECT_EQ(canonical(head + "(2,3,)"), "%0 = buffer 6 : dtype=f32 slot=0\n%1 = reshape %0, (2, 3)\n");
  EXPECT_EQ(canonical("%0 = reshape 1, ()"), "%0 = reshape 1, ()\n");
  const std::string shrunk = "%0 = buffer 6 : dtype=f32 slot=0\n%1 = shrink %0, ((1, 3),)\n";
  EXPECT_EQ(canonical("%0 = buffer 6\n%1 = shrink %0, ((1,3))"), shrunk);
  EXPECT_EQ(canonical("%0 = buffer 6\n%1 = shrink %0, ( ( 1 , 3 , ) , )"), shrunk);
  EXPECT_EQ(canonical("%0 = shrink 1, ()"), "%0 = shrink 1, ()\n");

  EXPECT_EQ(reason(head + "6"), "shape must be a tuple, got '6'");
  EXPECT_EQ(reason(head + "(2, 3"), "shape must be a tuple, got '(2, 3'");
  EXPECT_EQ(reason(head + "2, 3)"), "shape must be a tuple, got '3)'");
  EXPECT_EQ(reason(head + "(,)"), "size must be an int, got ''");
  EXPECT_EQ(reason(head + "(2,,3)"), "size must be an int, got ''");
  EXPECT_EQ(reason(head + "(2.0, 3)"), "size must be an int, got '2.0'");
  EXPECT_EQ(reason(head + "(true, 6)"), "size must be an int, got 'true'");
  EXPECT_EQ(reason(head + "((2, 3))"), "size must be an int, got '(2, 3)'");
  EXPECT_EQ(reason(head + "(2)(3)"), "size must be an int, got '2)(3'");
  EXPECT_EQ(reason("%0 = buffer 6\n%1 = shrink %0, (1, 3)"), "bounds of an axis must be a tuple, got '1'");
  EXPECT_EQ(reason("%0 = buffer 6\n%1 = shrink %0, ((1, 3, 4),)"), "bounds of an axis are (begin, end), got (1, 3, 4)");
  EXPECT_EQ(reason("%0 = buffer 6\n%1 = shrink %0, ((1,),)"), "bounds of an axis are (begin, end), got (1,)");
  EXPECT_EQ(reason("%0 = stack (1, 2)"), "no dtype for python value (1, 2)");
  EXPECT_EQ(reason("%0 = permute 1, (9223372036854775808,)"), "size 9223372036854775808 is out of range");
}

// What converts to an integer dtype is a value of that dtype.
TEST(UirLiterals, NoneIsTruncated) {
  const std::string as_operand = " is no i32, as the other operands are: write an int, or cast them to f32";
  const std::string fits = " does not fit i32 (-2147483648 to 2147483647)";
  EXPECT_EQ(reason("%0 = const -2.7 : dtype=i32"), "-2.7 is no i32: write an int, or dtype=f32");
  EXPECT_EQ(reason("%0 = const 1e-9 : dtype=i32"), "1e-9 is no i32: write an int, or dtype=f32");
  EXPECT_EQ(reason("%0 = const 3000000000 : dtype=i32"), "3000000000" + fits);
  EXPECT_EQ(reason("%0 = const 3e9 : dtype=i32"), "3e9" + fits);
  EXPECT_EQ(reason("%0 = const -2147483649 : dtype=i32"), "-2147483649" + fits);
  EXPECT_EQ(reason("%0 = const -2147483649.0 : dtype=i32"), "-2147483649.0" + fits);
  EXPECT_EQ(constant("-2147483648 : dtype=i32"), Scalar(int64_t{INT32_MIN}));
  EXPECT_EQ(constant("2147483647.0 : dtype=i32"), Scalar(int64_t{INT32_MAX}));
  EXPECT_EQ(reason("%0 = const 0.1 : dtype=bool"), "0.1 is no bool: write true or false");
  EXPECT_EQ(reason("%0 = const -1 : dtype=bool"), "-1 is no bool: write true or false");
  EXPECT_EQ(reason("%0 = const nan : dtype=bool"), "nan is no bool: write true or false");

  EXPECT_EQ(failure("%i = buffer 4 : dtype=i32\n%r = add %i, 2.5"), "line 2: '%r = add %i, 2.5': 2.5" + as_operand);
  EXPECT_EQ(reason("%i = buffer 4 : dtype=i32\n%r = mul 3e9, %i"), "3e9" + fits);
  EXPECT_EQ(reason("%b = buffer 4 : dtype=bool\n%r = cmpne %b, 3"), "3 is no bool: write true or false");
  EXPECT_EQ(reason("%i = buffer 4 : dtype=i32\n%c = cmplt %i, 0\n%r = where %c, 0.5, %i"), "0.5" + as_operand);
  EXPECT_EQ(reason("%0 = param : slot=0 dtype=i32\n%1 = call %0, 7.5"), "7.5" + as_operand);
  // An int keeps its value beside an i32, whatever it is: so the printer writes a constant that `verify` refuses.
  const std::string huge = "%0 = param : slot=0 dtype=i32\n%1 = add %0, 3000000000\n";
  EXPECT_EQ(canonical(huge), huge);
  EXPECT_EQ(canonical("%0 = const 3000000000"), "%0 = const 3000000000\n");
}

// ---- sugar ---------------------------------------------------------------------------------------------------------

// The statements after "%f = f32 scalar, %i = i32 scalar, %b = bool scalar, %h = f16 scalar", printed alone.
UOp with_scalars(Graph& g, const std::string& statement) {
  return parse(g,
               "%f = param : slot=0 dtype=f32\n%i = param : slot=1 dtype=i32\n%b = param : slot=2 dtype=bool\n"
               "%h = param : slot=3 dtype=f16\n%p = buffer 1 : dtype=f32\n" +
                   statement);
}

TEST(UirSugar, ALiteralTakesTheDTypeOfTheFirstName) {
  Graph g;
  const UOp f = g.param(0, DType::F32), i = g.param(1, DType::I32), b = g.param(2, DType::Bool),
            h = g.param(3, DType::F16);
  const auto c = [&](Scalar v) { return g.constant(v); };
  EXPECT_EQ(with_scalars(g, "%r = mul %f, 2"), g.make(Op::Mul, {f, c(2.0)}));
  EXPECT_EQ(with_scalars(g, "%r = mul 2, %f"), g.make(Op::Mul, {c(2.0), f}));
  EXPECT_EQ(with_scalars(g, "%r = add %i, -2.0"), g.make(Op::Add, {i, c(-2)}));
  EXPECT_EQ(with_scalars(g, "%r = cmpne %b, 1"), g.make(Op::CmpNe, {b, c(true)}));
  EXPECT_EQ(with_scalars(g, "%r = cmpne %b, true"), g.make(Op::CmpNe, {b, c(true)}));
  EXPECT_EQ(with_scalars(g, "%r = max %h, 2"), g.make(Op::Max, {h, g.make(Op::Cast, {c(2.0)}, DType::F16)}));
  EXPECT_EQ(with_scalars(g, "%r = stack 1, %f, 2"), g.stack(std::vector{c(1.0), f, c(2.0)}));
  EXPECT_EQ(with_scalars(g, "%r = add 1, 2"), g.make(Op::Add, {c(1), c(2)}));
  EXPECT_EQ(with_scalars(g, "%r = exp2 2.0"), g.make(Op::Exp2, {c(2.0)}));
  EXPECT_EQ(with_scalars(g, "%r = cast 2 : dtype=f16"), g.make(Op::Cast, {c(2)}, DType::F16));
  EXPECT_EQ(reason("%f = param : slot=0 dtype=f32\n%r = add %f, true"),
            "Ops.ADD: dtype mismatch dtypes.f32 vs dtypes.bool (use CAST)");
  EXPECT_EQ(reason("%i = param : slot=0 dtype=i32\n%r = add %i, nan"), "cannot convert float NaN to integer");
  EXPECT_EQ(reason("%r = add 1, 2.0"), "Ops.ADD: dtype mismatch dtypes.i32 vs dtypes.f32 (use CAST)");
}

TEST(UirSugar, WhereLooksAtItsBranches) {
  Graph g;
  const UOp f = g.param(0, DType::F32), b = g.param(2, DType::Bool);
  const auto c = [&](Scalar v) { return g.constant(v); };
  EXPECT_EQ(with_scalars(g, "%r = where %b, 1, %f"), g.make(Op::Where, {b, c(1.0), f}));
  EXPECT_EQ(with_scalars(g, "%r = where %b, %f, 1"), g.make(Op::Where, {b, f, c(1.0)}));
  EXPECT_EQ(with_scalars(g, "%r = where %b, 1, 2"), g.make(Op::Where, {b, c(1), c(2)}));
  EXPECT_EQ(with_scalars(g, "%r = where true, 1, %f"), g.make(Op::Where, {c(true), c(1.0), f}));
  EXPECT_EQ(reason("%f = param : slot=0 dtype=f32\n%r = where 1, %f, %f"), "WHERE condition must be bool");
}

TEST(UirSugar, OpsThatLeaveALiteralAlone) {
  Graph g;
  const UOp f = g.param(0, DType::F32), p = g.buffer(1, DType::F32, 0);
  const auto c = [&](Scalar v) { return g.constant(v); };
  EXPECT_EQ(with_scalars(g, "%r = index %p, 0"), p.index(0));
  EXPECT_EQ(with_scalars(g, "%r = after %p, 3, 2.5, true"), g.make(Op::After, {p, c(3), c(2.5), c(true)}));
  EXPECT_EQ(with_scalars(g, "%r = after %p"), g.make(Op::After, {p}));
  EXPECT_EQ(with_scalars(g, "%r = sink %f, 3"), g.make(Op::Sink, {f, c(3)}));
  EXPECT_EQ(with_scalars(g, "%r = end %f, 3"), g.make(Op::End, {f, c(3)}));
  EXPECT_EQ(with_scalars(g, "%r = barrier %f, 3"), g.make(Op::Barrier, {f, c(3)}));
  EXPECT_EQ(with_scalars(g, "%r = wmma %f, 3, true"), g.make(Op::Wmma, {f, c(3), c(true)}));
  EXPECT_EQ(with_scalars(g, "%r = load %p, 3"), g.make(Op::Load, {p, c(3)}));
  EXPECT_EQ(with_scalars(g, "%r = store %p, 3, 3"), g.make(Op::Store, {p, c(3.0), c(3)}));
  EXPECT_EQ(with_scalars(g, "%r = range 3"), g.range_(3, 0));
  EXPECT_EQ(with_scalars(g, "%r = cast %f : dtype=f32"), g.make(Op::Cast, {f}, DType::F32));
}

TEST(UirSugar, ACallArgumentTakesTheDTypeOfItsParam) {
  Graph g;
  const auto body = [&](DType d) { return g.param(0, d); };
  const auto text = [](const char* dtype, const char* arg) {
    return fmt::format("%0 = param : slot=0 dtype={}\n%1 = call %0, {}", dtype, arg);
  };
  EXPECT_EQ(parse(g, text("f32", "7")), g.call(body(DType::F32), std::vector{g.constant(7.0)}));
  EXPECT_EQ(parse(g, text("i32", "7.0")), g.call(body(DType::I32), std::vector{g.constant(7)}));
  EXPECT_EQ(parse(g, text("i32", "7")), g.call(body(DType::I32), std::vector{g.constant(7)}));
  EXPECT_EQ(parse(g, text("bool", "1")), g.call(body(DType::Bool), std::vector{g.constant(true)}));
  EXPECT_EQ(parse(g, text("f16", "7")), g.call(body(DType::F16), std::vector{g.constant(7, DType::F16)}));
  EXPECT_EQ(parse(g, text("f32", "10000000000000000000000")), g.call(body(DType::F32), std::vector{g.constant(1e22)}));
  EXPECT_EQ(parse(g, "%0 = call 3 : name=three"), g.call(g.constant(3), {}, "three"));
  EXPECT_EQ(reason(text("i32", "true")), "CALL arg 0: dtypes.bool() != param dtypes.i32()");
  EXPECT_EQ(reason(text("i32", "1, 2")), "CALL needs params 0..1, body has [0]");
  EXPECT_EQ(reason("%0 = call"), "Ops.CALL takes at least 1 source, got 0");
  EXPECT_EQ(reason("%0 = call x"), "bad literal 'x'");
}

TEST(UirSugar, Broadcasting) {
  const std::string buffers =
      "%a = buffer 6 : slot=0\n%m = reshape %a, (2, 3)\n%v = buffer 3 : slot=1\n%s = param : slot=0 dtype=f32\n";
  const auto shape = [&](const std::string& statement) {
    Graph g;
    return parse(g, buffers + statement).shape();
  };
  EXPECT_EQ(shape("%r = add %m, %v"), (Shape{2, 3}));
  EXPECT_EQ(shape("%r = add %v, %m"), (Shape{2, 3}));
  EXPECT_EQ(shape("%r = add %s, %m"), (Shape{2, 3}));
  EXPECT_EQ(shape("%c = reshape %a, (6, 1)\n%r = mul %c, %v"), (Shape{6, 3}));
  EXPECT_EQ(shape("%c = reshape %a, (6, 1)\n%t = cmplt %v, 1\n%r = where %t, %c, 0"), (Shape{6, 3}));
  EXPECT_EQ(canonical(buffers + "%r = add %m, %v"),
            "%0 = buffer 6 : dtype=f32 slot=0\n%1 = reshape %0, (2, 3)\n%2 = buffer 3 : dtype=f32 slot=1\n"
            "%3 = reshape %2, (1, 3)\n%4 = expand %3, (2, 3)\n%5 = add %1, %4\n");
  // Neither reshape nor expand where it would do nothing.
  EXPECT_EQ(canonical("%0 = buffer 1\n%1 = add %0, 1"),
            "%0 = buffer 1 : dtype=f32 slot=0\n%1 = reshape 1.0, (1,)\n%2 = add %0, %1\n");
  EXPECT_EQ(canonical("%0 = buffer 0\n%1 = add %0, 1"),
            "%0 = buffer 0 : dtype=f32 slot=0\n%1 = reshape 1.0, (1,)\n%2 = expand %1, (0,)\n%3 = add %0, %2\n");
  EXPECT_EQ(reason(buffers + "%r = add %m, %a"), "can't broadcast (2, 3) with (6,)");
  EXPECT_EQ(reason(buffers + "%c = cmplt %v, 1\n%r = where %c, %s, %a"), "can't broadcast (3,) with (6,)");
  // The shape so far is what the message names.
  EXPECT_EQ(reason(buffers + "%c = cmplt %m, 1\n%w = buffer 2\n%r = where %c, %v, %w"),
            "can't broadcast (2, 3) with (2,)");
}

// ---- attributes ----------------------------------------------------------------------------------------------------

TEST(UirAttributes, Defaults) {
  EXPECT_EQ(canonical("%0 = buffer 4"), "%0 = buffer 4 : dtype=f32 slot=0\n");
  EXPECT_EQ(canonical("%0 = alloc 4"), "%0 = alloc 4 : dtype=f32 slot=0\n");
  EXPECT_EQ(canonical("%0 = param : slot=2"), "%0 = param : slot=2 dtype=f32\n");
  EXPECT_EQ(canonical("%0 = range 4"), "%0 = range 4 : idx=0 kind=loop\n");
  EXPECT_EQ(canonical("%0 = buffer 4\n%1 = reduce %0"),
            "%0 = buffer 4 : dtype=f32 slot=0\n%1 = reduce %0 : op=add pop=1\n");
  EXPECT_EQ(canonical("%0 = call 1"), "%0 = call 1 : name=f\n");
}

TEST(UirAttributes, EveryValuePrints) {
  for (const auto& d : kDTypes) {
    const std::string line = fmt::format("%0 = buffer 4 : dtype={} slot=-3\n", d.name);
    EXPECT_EQ(canonical(line), line);
  }
  for (const char* space : {"alu", "global", "local", "shared"}) {
    const std::string line = fmt::format("%0 = alloc 4 : dtype=f16 slot=1 space={}\n", space);
    EXPECT_EQ(canonical(line), line);
    EXPECT_EQ(canonical(fmt::format("%0 = alloc 4 : space={} slot=0x1 dtype=f16",
                                    fmt::format("{:c}{}", space[0] - 32, space + 1))),
              line);
  }
  for (const char* kind : {"loop", "reduce", "upcast", "thread", "global", "local"}) {
    const std::string line = fmt::format("%0 = range 4 : idx=7 kind={}\n", kind);
    EXPECT_EQ(canonical(line), line);
  }
  const std::string shaped = "%0 = param : slot=0 dtype=i32 shape=(2, 3)\n";
  EXPECT_EQ(canonical(shaped), shaped);
  EXPECT_EQ(canonical("%0 = param : shape=(2,3) dtype=i32 slot=0"), shaped);
  EXPECT_EQ(canonical("%0 = param : shape=() slot=0"), "%0 = param : slot=0 dtype=f32\n");
  const std::string detached = "%0 = buffer 4 : dtype=f32 slot=0\n%1 = stage %0 : name=detach\n%2 = stage %1\n";
  EXPECT_EQ(canonical(detached), detached);
}

TEST(UirAttributes, Errors) {
  const auto of = [](const std::string& attributes) { return reason("%0 = buffer 4 : " + attributes); };
  EXPECT_EQ(of("dtype"), "attribute 'dtype' is not key=value");
  EXPECT_EQ(of("slot = 0"), "attribute 'slot' is not key=value");
  EXPECT_EQ(of("slto=0"), "BUFFER has no attribute 'slto': it has dtype, slot");
  EXPECT_EQ(of("=0"), "BUFFER has no attribute '': it has dtype, slot");
  EXPECT_EQ(of("kind=loop"), "BUFFER has no attribute 'kind': it has dtype, slot");
  EXPECT_EQ(of("space=shared"), "BUFFER has no attribute 'space': it has dtype, slot");
  EXPECT_EQ(reason("%0 = add 1, 2 : dtype=f32"), "ADD has no attribute 'dtype': it has none");
  EXPECT_EQ(of("slot=1 dtype=f32 slot=1"), "attribute 'slot' is given twice");
  EXPECT_EQ(of("slot="), "slot must be an int, got ''");
  EXPECT_EQ(of("slot=1.0"), "slot must be an int, got '1.0'");
  EXPECT_EQ(of("slot=true"), "slot must be an int, got 'true'");
  EXPECT_EQ(of("slot=(1)"), "slot must be an int, got '(1)'");
  EXPECT_EQ(of("dtype=F32"), "unknown dtype 'F32'");
  EXPECT_EQ(of("dtype="), "unknown dtype ''");
  EXPECT_EQ(reason("%0 = alloc 4 : space=heap"), "unknown space 'heap': it is alu, global, local or shared");
  EXPECT_EQ(reason("%0 = range 4 : kind=for"),
            "unknown kind 'for': it is loop, reduce, upcast, thread, global or local");
  EXPECT_EQ(reason("%0 = range 4 : idx=a"), "idx must be an int, got 'a'");
  EXPECT_EQ(reason("%0 = buffer 4\n%1 = reduce %0 : op=sum"), "unknown op 'sum': it is add or max");
  EXPECT_EQ(reason("%0 = buffer 4\n%1 = reduce %0 : op=mul"), "REDUCE (Ops.MUL, 1) of (4,)");
  EXPECT_EQ(reason("%0 = buffer 4\n%1 = reduce %0 : op=max pop=2"), "REDUCE (Ops.MAX, 2) of (4,)");
  EXPECT_EQ(reason("%0 = param : dtype=f32"), "PARAM needs the attribute 'slot'");
  EXPECT_EQ(reason("%0 = param : slot=0 shape=3"), "shape must be a tuple, got '3'");
  EXPECT_EQ(reason("%0 = param : slot=0 shape=(3"), "shape must be a tuple, got '(3'");
  EXPECT_EQ(reason("%0 = cast 1"), "CAST needs the attribute 'dtype'");
  EXPECT_EQ(reason("%0 = stage 1 : name=attach"), "the name of a STAGE is detach or absent, got 'attach'");
  EXPECT_EQ(reason("%0 = call 1 : name=a-b"), "CALL name 'a-b' is not an identifier");
}

}  // namespace
}  // namespace uopc
