// Malformed and hostile .uir text: the exact error, never a crash.
#include "small_stack.hpp"
#include "unit/uir_helpers.hpp"

namespace uopc {
namespace {

TEST(UirErrors, Statements) {
  const std::string form = "a statement is '%name = op operands : attributes'";
  EXPECT_EQ(failure("add 1, 2"), "line 1: 'add 1, 2': " + form);
  EXPECT_EQ(failure("x = add 1, 2"), "line 1: 'x = add 1, 2': " + form);
  EXPECT_EQ(failure("%0"), "line 1: '%0': " + form);
  EXPECT_EQ(failure("= 3"), "line 1: '= 3': " + form);
  EXPECT_EQ(failure("%0 ="), "line 1: '%0 =': ''");
  EXPECT_EQ(failure("%0 = : dtype=f32"), "line 1: '%0 = : dtype=f32': ''");
  EXPECT_EQ(failure("%0 = frob 1"), "line 1: '%0 = frob 1': 'FROB'");
  EXPECT_EQ(failure("%0 = add(1, 2)"), "line 1: '%0 = add(1, 2)': 'ADD(1,'");
  EXPECT_EQ(failure("%0 = it's 1"), "line 1: \"%0 = it's 1\": \"IT'S\"");
  EXPECT_EQ(failure("\n# c\n\n  %0 = add 1, %x # tail \n"), "line 4: '%0 = add 1, %x': undefined %x");
  EXPECT_EQ(failure("\r\n\r\n%0 = load 1\r\n"), "line 3: '%0 = load 1': LOAD needs memory");
  EXPECT_EQ(failure(""), "line 1: '': the program has no statement");
  EXPECT_EQ(failure("\n\n# nothing\n"), "line 3: '': the program has no statement");
}

TEST(UirErrors, Operands) {
  EXPECT_EQ(reason("%0 = add 1,"), "an operand is missing");
  EXPECT_EQ(reason("%0 = add , 1"), "an operand is missing");
  EXPECT_EQ(reason("%0 = add 1,,2"), "an operand is missing");
  EXPECT_EQ(reason("%0 = add %x, 1"), "undefined %x");
  EXPECT_EQ(reason("%0 = add %0, 1"), "undefined %0");
  EXPECT_EQ(reason("%0 = const 1\n%1 = add %0 1"), "undefined %0 1");
  EXPECT_EQ(reason("%0 = const"), "CONST needs a value as its one operand, got 0");
  EXPECT_EQ(reason("%0 = const 1, 2"), "CONST needs a value as its one operand, got 2");
  EXPECT_EQ(reason("%0 = const %1"), "bad literal '%1'");
  EXPECT_EQ(reason("%0 = buffer"), "BUFFER needs a size as its one operand, got 0");
  EXPECT_EQ(reason("%0 = buffer 4, 4"), "BUFFER needs a size as its one operand, got 2");
  EXPECT_EQ(reason("%0 = buffer 4.0"), "size must be an int, got '4.0'");
  EXPECT_EQ(reason("%0 = alloc (4,)"), "size must be an int, got '(4,)'");
  EXPECT_EQ(reason("%0 = param 1 : slot=0"), "Ops.PARAM takes 0 sources, got 1");
  EXPECT_EQ(reason("%0 = reshape"), "RESHAPE needs a source and a tuple");
  EXPECT_EQ(reason("%0 = reshape (1,)"), "Ops.RESHAPE takes 1 source, got 0");
  EXPECT_EQ(reason("%0 = reshape 1, 1, (1,)"), "Ops.RESHAPE takes 1 source, got 2");
  EXPECT_EQ(reason("%0 = const 1\n%1 = reshape %0"), "shape must be a tuple, got '%0'");
  EXPECT_EQ(reason("%0 = expand 1, ()x"), "shape must be a tuple, got '()x'");
  EXPECT_EQ(reason("%0 = add 1"), "Ops.ADD takes 2 sources, got 1");
  EXPECT_EQ(reason("%0 = add 1, 2, 3"), "Ops.ADD takes 2 sources, got 3");
  EXPECT_EQ(reason("%0 = where true, 1"), "Ops.WHERE takes 3 sources, got 2");
  EXPECT_EQ(reason("%0 = exp2"), "Ops.EXP2 is unary");
  EXPECT_EQ(reason("%0 = stack"), "STACK of nothing");
  EXPECT_EQ(reason("%0 = range"), "Ops.RANGE takes 1 source, got 0");
  EXPECT_EQ(reason("%0 = index"), "Ops.INDEX takes at least 1 source, got 0");
  EXPECT_EQ(reason("%0 = wmma 1, 2"), "Ops.WMMA takes at least 3 sources, got 2");
  EXPECT_EQ(reason("%0 = buffer 1\n%1 = store %0"), "Ops.STORE takes at least 2 sources, got 1");
}

// Names of ops, without arguments, and with too many: an error or a node, whatever the op.
TEST(UirErrors, EveryOpWithAnyNumberOfOperands) {
  for (const OpInfo& op : kOps)
    for (const char* head : {"", "%b = buffer 4\n", "%b = const true\n", "%b = sink\n"})
      for (int n = 0; n < 6; n++)
        for (const char* operand : {"1", "1.5", "true", "()", "(1, 2)", "%b", "((0, 1),)"})
          for (const char* tail : {"", " :", " : dtype=f16 ", " : slot=0 ", " : op=max pop=0"}) {
            std::string line = std::string(head) + "%r = " + op.name;
            for (int i = 0; i < n; i++) line += std::string(i ? ", " : " ") + operand;
            Graph g;
            try {
              const UOp u = parse(g, line + tail);
              EXPECT_EQ(parse(g, to_uir(u)), u) << line << tail;
            } catch (const Error& e) {
              EXPECT_EQ(e.code(), ErrorCode::Parse) << line << tail;
              EXPECT_TRUE(std::string_view(e.what()).starts_with(*head ? "line 2: '%r = " : "line 1: '%r = "))
                  << e.what();
            }
          }
}

TEST(UirErrors, HostileBytes) {
  using namespace std::string_view_literals;
  EXPECT_EQ(failure("%0 = \0 1"sv), R"(line 1: '%0 = \x00 1': '\x00')");
  EXPECT_EQ(failure("\0"sv), R"(line 1: '\x00': a statement is '%name = op operands : attributes')");
  EXPECT_EQ(failure("%0 = const \xff\xfe"sv), R"(line 1: '%0 = const \xff\xfe': bad literal '\xff\xfe')");
  EXPECT_EQ(failure("%0 = const \xed\xa0\x80"sv), R"(line 1: '%0 = const \xed\xa0\x80': bad literal '\xed\xa0\x80')");
  EXPECT_EQ(failure("%0 = const \t\xc3\xa9"sv), "line 1: '%0 = const \\t\xc3\xa9': bad literal '\xc3\xa9'");
  EXPECT_EQ(canonical("%0 = const 1 # \0\xff\x80"sv), "%0 = const 1\n");
}

// Every prefix, and every deletion or change of a byte, of a program with one of everything.
TEST(UirErrors, DamagedText) {
  const std::string program =
      "%0 = alloc 2 : dtype=f32 slot=-1 space=shared\n%1 = range 2 : idx=0 kind=thread\n%2 = index %0, %1\n"
      "%3 = param : slot=0 dtype=f32 shape=(2,)\n%4 = buffer 6 : dtype=f32 slot=0\n%5 = reshape %4, (2, 3)\n"
      "%6 = shrink %5, ((0, 2), (1, 3))\n%7 = permute %6, (1, 0)\n%8 = reduce %7 : op=max pop=1\n"
      "%9 = call %3, %8 : name=f\n%10 = stage %9 : name=detach\n%11 = index %10, %1\n%12 = where true, %11, nan\n"
      "%13 = store %2, %12\n%14 = end %13, %1\n%15 = sink %14\n";
  EXPECT_EQ(canonical(program), program);
  size_t errors = 0, programs = 0;
  const auto attempt = [&](const std::string& text) {
    Graph g;
    try {
      const UOp u = parse(g, text);
      ASSERT_EQ(parse(g, to_uir(u)), u) << text;
      programs++;
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ErrorCode::Parse) << text;
      ASSERT_TRUE(std::string_view(e.what()).starts_with("line ")) << e.what();
      errors++;
    }
  };
  for (size_t i = 0; i < program.size(); i++) {
    attempt(program.substr(0, i));
    attempt(program.substr(0, i) + program.substr(i + 1));
    for (char c : std::string_view("\0%=:#,() \n\r-0a_\"'\xff", 18)) {
      std::string damaged = program;
      damaged[i] = c;
      attempt(damaged);
      attempt(program.substr(0, i) + c + program.substr(i));
    }
  }
  EXPECT_GT(errors, 1000u);
  EXPECT_GT(programs, 500u);
}

TEST(UirErrors, DeepAndLong) {
  on_small_stack([] {
    const std::string open(100'000, '('), close(100'000, ')');
    EXPECT_EQ(reason("%0 = const " + open), "no dtype for python value " + open);
    EXPECT_EQ(reason("%0 = const " + close), "bad literal '" + close + "'");
    EXPECT_EQ(reason("%0 = reshape 1, " + open + close),
              "size must be an int, got '" + open.substr(1) + close.substr(1) + "'");
    EXPECT_EQ(reason("%0 = shrink 1, " + open + "1" + close).substr(0, 22), "bound must be an int, ");
    EXPECT_EQ(reason("%0 = add " + open + ", 1"), "no dtype for python value " + open + ", 1");
    EXPECT_EQ(reason("%0 = param : slot=0 shape=" + open), "shape must be a tuple, got '" + open + "'");
    EXPECT_EQ(reason("%0 = " + open), "'" + open + "'");
    EXPECT_EQ(reason("%0 = const 1 : " + open), "attribute '" + open + "' is not key=value");
    EXPECT_EQ(reason("%0 = add " + std::string(1'000'000, ',')), "an operand is missing");
    EXPECT_EQ(reason("%0 = const 1 : " + std::string(1'000'000, ':')).substr(0, 11), "attribute '");
    EXPECT_EQ(constant(std::string(1'000'000, '0')), Scalar(0));
    EXPECT_EQ(constant("0." + std::string(1'000'000, '3')), Scalar(1.0 / 3));
    EXPECT_EQ(canonical(std::string(1'000'000, '\n') + std::string(1'000'000, ' ') + "%0 = const 1#" +
                        std::string(1'000'000, '#')),
              "%0 = const 1\n");
  });
}

}  // namespace
}  // namespace uopc
