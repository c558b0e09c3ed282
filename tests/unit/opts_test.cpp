#include <gtest/gtest.h>

#include "golden.hpp"
#include "program_text.hpp"

namespace uopc {
namespace {

TEST(Opts, TextAsTheAppendixPrintsIt) {
  EXPECT_EQ(to_string(Opts{}), "Opts(upcast={}, thread=None, unroll=1, tile={}, gpu=False, local={})");
  for (const char* name : {"opts_cpu", "opts_gpu"}) {
    std::string text = golden::read(name).at("opts");
    text.pop_back();
    EXPECT_EQ(to_string(parse_opts(text)), text);
  }
  Opts all;
  all.upcast = {{1, 4}, {0, 2}};
  all.thread = 0;
  all.unroll = 8;
  all.tile = {{2, 16}};
  all.gpu = true;
  all.local = {{0, 4}, {1, 32}};
  EXPECT_EQ(to_string(all),
            "Opts(upcast={0: 2, 1: 4}, thread=0, unroll=8, tile={2: 16}, gpu=True, local={0: 4, 1: 32})");
  EXPECT_EQ(parse_opts(to_string(all)), all);
}

TEST(Opts, FieldsInAnyOrderMissingOnesDefault) {
  EXPECT_EQ(parse_opts("Opts()"), Opts{});
  EXPECT_EQ(parse_opts(" Opts( thread = None , unroll=1,) "), Opts{});
  Opts some;
  some.upcast = {{0, 2}};
  some.thread = 1;
  some.unroll = 4;
  EXPECT_EQ(parse_opts("Opts(unroll=4, upcast={0: 2,}, thread=1)"), some);
}

TEST(Opts, Malformed) {
  const auto error = [](std::string_view text) { return test::error_of([&] { parse_opts(text); }); };
  EXPECT_EQ(error(""), "ParseError: Opts: not of the form 'Opts(field=value, ..)', for example 'Opts(unroll=4)', at column 1 of ''");
  EXPECT_EQ(error("Opts"), "ParseError: Opts: '(' is missing at column 5 of 'Opts'");
  EXPECT_EQ(error("Opts(upcast={0: 2}"), "ParseError: Opts: ',' is missing at column 19 of 'Opts(upcast={0: 2}'");
  EXPECT_EQ(error("Opts(widen=2)"), 
            "ParseError: Opts: there is no field 'widen' (upcast, thread, unroll, tile, gpu, local) at column 12 of "
            "'Opts(widen=2)'");
  EXPECT_EQ(error("Opts(unroll=0)"), "ParseError: Opts: 0 is no factor: it is 1 or more at column 14 of 'Opts(unroll=0)'");
  EXPECT_EQ(error("Opts(thread=-1)"), "ParseError: Opts: -1 is negative at column 15 of 'Opts(thread=-1)'");
  EXPECT_EQ(error("Opts(unroll=2.5)"), "ParseError: Opts: ',' is missing at column 14 of 'Opts(unroll=2.5)'");
  EXPECT_EQ(error("Opts(gpu=1)"), "ParseError: Opts: gpu is True or False, not '1', at column 10 of 'Opts(gpu=1)'");
  EXPECT_EQ(error("Opts(gpu=true)"),
            "ParseError: Opts: gpu is True or False, not 'true', at column 10 of 'Opts(gpu=true)'");
  EXPECT_EQ(error("Opts(gpu=)"), "ParseError: Opts: gpu is True or False, not '', at column 10 of 'Opts(gpu=)'");
  EXPECT_EQ(error("Opts(thread=Nil)"),
            "ParseError: Opts: thread is an axis or None, not 'Nil', at column 13 of 'Opts(thread=Nil)'");
  EXPECT_EQ(error("Opts(unroll=2, unroll=2)"),
            "ParseError: Opts: unroll is given twice at column 22 of 'Opts(unroll=2, unroll=2)'");
  EXPECT_EQ(error("Opts(tile={0: 2, 0: 4})"), "ParseError: Opts: axis 0 is given twice at column 22 of 'Opts(tile={0: 2, 0: 4})'");
  EXPECT_EQ(error("Opts() x"), "ParseError: Opts: there is something behind the ')' at column 8 of 'Opts() x'");
  EXPECT_EQ(error("Opts(unroll=99999999999999999999)"),
            "ParseError: Opts: an integer is missing at column 33 of 'Opts(unroll=99999999999999999999)'");
  const std::string whole = "Opts(upcast={0: 2}, thread=0, unroll=4, tile={}, gpu=False, local={})";
  for (size_t n = 0; n < whole.size(); n++) EXPECT_TRUE(error(whole.substr(0, n)).starts_with("ParseError: ")) << n;
}

TEST(Opts, ThatDoNotFitAreRefused) {
  Graph g;
  const UOp x = g.buffer(48, DType::F32, 0).reshape({6, 8});
  const auto error = [&](std::string_view text, LowerForm form = LowerForm::Unrolled) {
    return test::error_of([&] { as_program(x.reduce(Op::Add, 1).reshape({6, 1}).expand({6, 8}) + x, parse_opts(text), form); });
  };
  EXPECT_EQ(error("Opts(upcast={2: 2})"), "UOpError: Opts.upcast: there is no axis 2 in an output of shape (6, 8)");
  EXPECT_EQ(error("Opts(thread=2)"), "UOpError: Opts.thread: there is no axis 2 in an output of shape (6, 8)");
  Opts nonsense;
  nonsense.upcast = {{1, 0}};
  EXPECT_EQ(test::error_of([&] { as_program(x, nonsense); }), "UOpError: Opts.upcast of axis 1 is 0; it is 1 or more");
  EXPECT_EQ(error("Opts(upcast={0: 4})"), "UOpError: Opts.upcast of axis 0: 4 does not divide its size 6");
  EXPECT_EQ(error("Opts(tile={0: 4})"), "UOpError: Opts.tile of axis 0: 4 does not divide its size 6");
  EXPECT_EQ(error("Opts(tile={1: 4}, upcast={1: 8})"), "UOpError: Opts.tile of axis 1: 4 is no multiple of its upcast 8");
  nonsense.upcast = {};
  nonsense.unroll = 0;
  EXPECT_EQ(test::error_of([&] { as_program(x, nonsense); }), "UOpError: Opts.unroll is 0; it is 1 or more");
  EXPECT_TRUE(error("Opts(unroll=3)").starts_with("UOpError: Opts.unroll: 3 does not divide 8, the size of axis 1 of REDUCE"));
  EXPECT_EQ(test::error_of([&] { as_program(x, parse_opts("Opts(unroll=2)")); }),
            "UOpError: Opts.unroll is 2, but there is no REDUCE");
  EXPECT_EQ(test::error_of([&] { as_program(x.reduce(Op::Max, 2), parse_opts("Opts(upcast={0: 1})")); }),
            "UOpError: Opts.upcast: there is no axis 0 in an output of shape ()");
  EXPECT_EQ(error("Opts(tile={0: 4}, upcast={0: 4, 1: 3}, thread=1)", LowerForm::Lanes), "");
  EXPECT_EQ(error("Opts(tile={0: 1000000000000}, upcast={0: 1000000000})", LowerForm::Lanes), "");
  EXPECT_EQ(error("Opts(gpu=True)"), "NotImplementedError: Opts.gpu is not yet supported");
  EXPECT_EQ(error("Opts(gpu=False, local={})"), "");
  EXPECT_EQ(error("Opts(local={0: 2})"), "NotImplementedError: Opts.local is not yet supported");
  EXPECT_EQ(error("Opts()"), "");
  EXPECT_EQ(test::error_of([&] { as_program(g.sink({}), parse_opts("Opts(unroll=2)")); }),
            "UOpError: a loop program is not lowered: Opts(upcast={}, thread=None, unroll=2, tile={}, gpu=False, local={}) "
            "does not apply to it");
}

TEST(Opts, CopiesWithoutEndAreRefused) {
  Graph g;
  const UOp x = g.buffer(1 << 24, DType::F32, 0).reshape({1 << 12, 1 << 12}), sum = x.reduce(Op::Add, 1);
  const auto error = [](UOp value, std::string_view opts, LowerForm form = LowerForm::Unrolled) {
    return test::error_of([&] { as_program(value, parse_opts(opts), form); });
  };
  const std::string expected = "UOpError: Opts.upcast and Opts.unroll ask for more than 4096 copies of the kernel's body";
  const std::string lanes = "UOpError: Opts.upcast and Opts.unroll, lanes included, ask for more than 4096 copies of the kernel's body";
  EXPECT_EQ(error(x, "Opts(upcast={0: 128, 1: 64})"), expected);
  EXPECT_EQ(error(sum, "Opts(upcast={0: 16}, unroll=512)"), expected);
  EXPECT_EQ(error(x, "Opts(upcast={0: 4294967296, 1: 4294967296})", LowerForm::Lanes), lanes);
  // What has no elements has no copies.
  const UOp none = g.buffer(0, DType::F32, 0).reshape({0, 4}).permute({1, 0});
  EXPECT_EQ(error(none.reduce(Op::Add, 1), "Opts(upcast={0: 2}, unroll=4611686018427387904)"), "");
  EXPECT_EQ(error(none, "Opts(upcast={1: 4611686018427387904})"), "");
  EXPECT_EQ(error(none, "Opts(upcast={0: 4}, tile={0: 4, 1: 8}, thread=1)"), "");
}

TEST(Opts, CopiesOfALongBodyAreRefused) {
  Graph g;
  UOp y = g.buffer(1 << 12, DType::F32, 0);
  for (int i = 0; i < 4000; i++) y = (y + 1.0).recip();
  const auto error = [&](std::string_view opts, LowerForm form = LowerForm::Unrolled) {
    return test::error_of([&] { as_program(y, parse_opts(opts), form); });
  };
  EXPECT_EQ(error("Opts(upcast={0: 8})"), "");
  EXPECT_EQ(error("Opts(upcast={0: 1024})", LowerForm::Lanes), "");
  EXPECT_EQ(error("Opts(upcast={0: 1024})"),
            "UOpError: Opts.upcast and Opts.unroll ask for 1024 copies of 8004 nodes; 4000000 in all are the most");
}

}  // namespace
}  // namespace uopc
