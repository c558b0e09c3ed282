// Graphs under Opts: the texts where no golden text goes, and that every mapping computes the same.
#include <gtest/gtest.h>

#include "program_text.hpp"
#include "reference_eval.hpp"

namespace uopc {
namespace {

constexpr const char* kGrid = "%a = buffer 32 : slot=0\n%r = reshape %a, (4, 8)";
constexpr const char* kRowSums = "%a = buffer 24 : slot=0\n%r = reshape %a, (2, 12)\n%s = reduce %r : op=add pop=1";

// The lines between the braces of the kernel.
std::string body(std::string_view uir, std::string_view opts, LowerForm form = LowerForm::Unrolled) {
  Graph g;
  const std::string text = render_c_body(as_program(parse(g, uir), parse_opts(opts), form));
  const size_t begin = text.find('\n') + 1;
  return text.substr(begin, text.size() - begin - 2);
}

TEST(LowerOpts, UpcastAxesAreCopiedTheLastOneFastest) {
  EXPECT_EQ(body(kGrid, "Opts(upcast={0: 2, 1: 2})"), R"(  for (int ridx0 = 0; ridx0 < 2; ridx0++) {
    int alu1 = (ridx0*16);
    for (int ridx1 = 0; ridx1 < 4; ridx1++) {
      int alu2 = (ridx1*2);
      int alu3 = (alu1+alu2);
      float val4 = data0[alu3];
      data1[alu3] = val4;
      int alu5 = (alu2+alu1);
      int alu6 = (alu5+1);
      float val7 = data0[alu6];
      data1[alu6] = val7;
      int alu8 = (alu3+8);
      float val9 = data0[alu8];
      data1[alu8] = val9;
      int alu10 = (alu5+9);
      float val11 = data0[alu10];
      data1[alu10] = val11;
    }
  }
)");
}

TEST(LowerOpts, LoopsStandThreadFirstThenBlocksThenTheRest) {
  EXPECT_EQ(body(kGrid, "Opts(thread=1, tile={0: 2})"), R"(  #pragma omp parallel for
  for (int ridx0 = 0; ridx0 < 8; ridx0++) {
    for (int ridx1 = 0; ridx1 < 2; ridx1++) {
      for (int ridx2 = 0; ridx2 < 2; ridx2++) {
        int alu1 = (((ridx1*16)+(ridx2*8))+ridx0);
        float val2 = data0[alu1];
        data1[alu1] = val2;
      }
    }
  }
)");
  // The THREAD loop of a tiled axis is that over its blocks.
  EXPECT_EQ(body(kGrid, "Opts(thread=1, tile={0: 2, 1: 4}, upcast={1: 4})"), R"(  #pragma omp parallel for
  for (int ridx0 = 0; ridx0 < 2; ridx0++) {
    int alu1 = (ridx0*4);
    for (int ridx1 = 0; ridx1 < 2; ridx1++) {
      for (int ridx2 = 0; ridx2 < 2; ridx2++) {
        int alu2 = ((ridx1*16)+(ridx2*8));
        int alu3 = (alu2+alu1);
        float val4 = data0[alu3];
        data1[alu3] = val4;
        int alu5 = (alu1+alu2);
        int alu6 = (alu5+1);
        float val7 = data0[alu6];
        data1[alu6] = val7;
        int alu8 = (alu5+2);
        float val9 = data0[alu8];
        data1[alu8] = val9;
        int alu10 = (alu5+3);
        float val11 = data0[alu10];
        data1[alu10] = val11;
      }
    }
  }
)");
}

TEST(LowerOpts, ATreeOfThreeCarriesTheLastUp) {
  EXPECT_EQ(body(kRowSums, "Opts(unroll=3)"), R"(  for (int ridx0 = 0; ridx0 < 2; ridx0++) {
    float acc0;
    acc0 = 0.0f;
    int alu1 = (ridx0*12);
    for (int ridx1 = 0; ridx1 < 4; ridx1++) {
      float val2 = acc0;
      int alu3 = (ridx1*3);
      float val4 = data0[(alu1+alu3)];
      int alu5 = (alu3+alu1);
      float val6 = data0[(alu5+1)];
      float val7 = data0[(alu5+2)];
      acc0 = (val2+((val4+val6)+val7));
    }
    float val8 = acc0;
    data1[ridx0] = val8;
  }
)");
}

TEST(LowerOpts, AReductionWithoutALoopHasNoAccumulator) {
  EXPECT_EQ(body("%a = buffer 4 : slot=0\n%r = reshape %a, (2, 2)\n%s = reduce %r : op=add pop=1", "Opts(upcast={0: 2}, unroll=2)"),
            R"(  float val1 = data0[0];
  float val2 = data0[1];
  data1[0] = (val1+val2);
  float val3 = data0[2];
  float val4 = data0[3];
  data1[1] = (val3+val4);
)");
}

// The sum of squares of rows' maxima, two rows at a time: the inner loops of the copies are one as the outer ones are.
TEST(LowerOpts, NestedLoopsOfCopiesMerge) {
  EXPECT_EQ(body("%a = buffer 12 : slot=0\n%r = reshape %a, (2, 2, 3)\n%m = reduce %r : op=max pop=1\n%q = mul %m, %m\n"
                 "%s = reduce %q : op=add pop=1",
                 "Opts(upcast={0: 2})"),
            R"(  float acc0;
  acc0 = 0.0f;
  float acc2;
  acc2 = 0.0f;
  for (int ridx0 = 0; ridx0 < 2; ridx0++) {
    float val1 = acc0;
    float acc1;
    acc1 = -INFINITY;
    float acc3;
    acc3 = -INFINITY;
    for (int ridx1 = 0; ridx1 < 3; ridx1++) {
      float val2 = acc1;
      int alu3 = ((ridx0*3)+ridx1);
      float val4 = data0[alu3];
      acc1 = ((val2>val4)?val2:val4);
      float val5 = acc3;
      float val6 = data0[(alu3+6)];
      acc3 = ((val5>val6)?val5:val6);
    }
    float val7 = acc1;
    acc0 = (val1+(val7*val7));
    float val8 = acc2;
    float val9 = acc3;
    acc2 = (val8+(val9*val9));
  }
  float val10 = acc0;
  data1[0] = val10;
  float val11 = acc2;
  data1[1] = val11;
)");
}

// ---- the lanes form -------------------------------------------------------------------------------------------------

TEST(LowerOpts, LanesAreTheInnermostLoopAroundAReduction) {
  EXPECT_EQ(body("%a = buffer 12 : slot=0\n%r = reshape %a, (3, 4)\n%t = permute %r, (1, 0)\n%s = reduce %t : op=add pop=1",
                 "Opts(upcast={0: 2})", LowerForm::Lanes),
            R"(  for (int ridx0 = 0; ridx0 < 2; ridx0++) {
    for (int ridx1 = 0; ridx1 < 2; ridx1++) {
      int alu1 = ((ridx0*2)+ridx1);
      float acc0;
      acc0 = 0.0f;
      for (int ridx2 = 0; ridx2 < 3; ridx2++) {
        float val2 = acc0;
        float val3 = data0[((ridx2*4)+alu1)];
        acc0 = (val2+val3);
      }
      float val4 = acc0;
      data1[alu1] = val4;
    }
  }
)");
}

TEST(LowerOpts, UnrollMakesLanesOfAReduction) {
  EXPECT_EQ(body("%a = buffer 111 : slot=0\n%r = reshape %a, (3, 37)\n%s = reduce %r : op=max pop=1", "Opts(unroll=16)",
                 LowerForm::Lanes),
            R"(  for (int ridx0 = 0; ridx0 < 3; ridx0++) {
    float acc0[16];
    for (int ridx4 = 0; ridx4 < 16; ridx4++) {
      acc0[ridx4] = -INFINITY;
    }
    int alu1 = (ridx0*37);
    for (int ridx1 = 0; ridx1 < 2; ridx1++) {
      for (int ridx2 = 0; ridx2 < 16; ridx2++) {
        float val2 = acc0[ridx2];
        float val3 = data0[(alu1+((ridx1*16)+ridx2))];
        acc0[ridx2] = ((val2>val3)?val2:val3);
      }
    }
    for (int ridx5 = 0; ridx5 < 8; ridx5++) {
      float val4 = acc0[ridx5];
      float val5 = acc0[(ridx5+8)];
      acc0[ridx5] = ((val4>val5)?val4:val5);
    }
    for (int ridx6 = 0; ridx6 < 4; ridx6++) {
      float val6 = acc0[ridx6];
      float val7 = acc0[(ridx6+4)];
      acc0[ridx6] = ((val6>val7)?val6:val7);
    }
    for (int ridx7 = 0; ridx7 < 2; ridx7++) {
      float val8 = acc0[ridx7];
      float val9 = acc0[(ridx7+2)];
      acc0[ridx7] = ((val8>val9)?val8:val9);
    }
    float val10 = acc0[0];
    float val11 = acc0[1];
    float acc1;
    acc1 = -INFINITY;
    for (int ridx3 = 0; ridx3 < 5; ridx3++) {
      float val12 = acc1;
      float val13 = data0[((ridx3+alu1)+32)];
      acc1 = ((val12>val13)?val12:val13);
    }
    float val14 = acc1;
    data1[ridx0] = ((((val10>val11)?val10:val11)>val14)?((val10>val11)?val10:val11):val14);
  }
)");
}

TEST(LowerOpts, LanesLeaveAxesOfOneElementAlone) {
  EXPECT_EQ(body("%a = buffer 8 : slot=0\n%r = reshape %a, (8, 1)", "Opts(upcast={0: 4, 1: 2})", LowerForm::Lanes), R"(  for (int ridx0 = 0; ridx0 < 2; ridx0++) {
    for (int ridx1 = 0; ridx1 < 4; ridx1++) {
      int alu1 = ((ridx0*4)+ridx1);
      float val2 = data0[alu1];
      data1[alu1] = val2;
    }
  }
)");
}

TEST(LowerOpts, WhatAFactorLeavesOverHasLoopsOfItsOwn) {
  EXPECT_EQ(body("%a = buffer 35 : slot=0\n%r = reshape %a, (5, 7)", "Opts(upcast={1: 4}, thread=0)", LowerForm::Lanes), R"(  #pragma omp parallel for
  for (int ridx0 = 0; ridx0 < 5; ridx0++) {
    int alu1 = (ridx0*7);
    for (int ridx1 = 0; ridx1 < 4; ridx1++) {
      int alu2 = (alu1+ridx1);
      float val3 = data0[alu2];
      data1[alu2] = val3;
    }
    for (int ridx2 = 0; ridx2 < 3; ridx2++) {
      int alu4 = ((ridx2+alu1)+4);
      float val5 = data0[alu4];
      data1[alu4] = val5;
    }
  }
)");
  EXPECT_EQ(body("%a = buffer 27 : slot=0", "Opts(upcast={0: 4}, tile={0: 8}, thread=0)", LowerForm::Lanes), R"(  #pragma omp parallel for
  for (int ridx0 = 0; ridx0 < 3; ridx0++) {
    for (int ridx1 = 0; ridx1 < 2; ridx1++) {
      for (int ridx2 = 0; ridx2 < 4; ridx2++) {
        int alu1 = (((ridx0*8)+(ridx1*4))+ridx2);
        float val2 = data0[alu1];
        data1[alu1] = val2;
      }
    }
  }
  for (int ridx3 = 0; ridx3 < 3; ridx3++) {
    int alu3 = (ridx3+24);
    float val4 = data0[alu3];
    data1[alu3] = val4;
  }
)");
  // 40 are left: a vector of 64 would have 24 idle lanes.
  const std::string text = body("%a = buffer 104 : slot=0", "Opts(upcast={0: 64})", LowerForm::Lanes);
  for (const char* size : {"< 64;", "< 32;", "< 8;"}) EXPECT_NE(text.find(size), std::string::npos) << text;
}

}  // namespace
}  // namespace uopc
