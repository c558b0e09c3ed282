// Text as Python prints and reads it. The tables were written by Python's own repr().
#include "ir/py_text.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>

#include "golden.hpp"

namespace uopc {
namespace {

constexpr std::pair<uint64_t, const char*> kDoubles[] = {
    {0x0000000000000000, "0.0"},
    {0x8000000000000000, "-0.0"},
    {0x3ff0000000000000, "1.0"},
    {0x3fb999999999999a, "0.1"},
    {0x3f1a36e2eb1c432d, "0.0001"},
    {0x3ee4f8b588e368f1, "1e-05"},
    {0x3f1a36371ea531a8, "9.999e-05"},
    {0x430c6bf526340000, "1000000000000000.0"},
    {0x4341c37937e08000, "1e+16"},
    {0x4376345785d8a000, "1e+17"},
    {0x437b69b4ba630f35, "1.2345678901234568e+17"},
    {0x4341c37937e07fff, "9999999999999998.0"},
    {0x4170000010000000, "16777217.0"},
    {0x0000000000000001, "5e-324"},
    {0x0010000000000000, "2.2250738585072014e-308"},
    {0x7fefffffffffffff, "1.7976931348623157e+308"},
    {0x4480f0cf064dd592, "1e+22"},
    {0x44b52d02c7e14af6, "1e+23"},
    {0x3fd3333333333333, "0.3"},
    {0x3fe5555555555555, "0.6666666666666666"},
    {0x3e7ad7f29abcaf48, "1e-07"},
    {0x3de49da7e361ce4c, "1.5e-10"},
    {0x405edd2f1a9fbe77, "123.456"},
    {0x54b249ad2594c37d, "1e+100"},
    {0x81bac9a7b3b7302f, "-2.5e-300"},
    {0x4011666666666666, "4.35"},
    {0x3fe0000000000000, "0.5"},
    {0x4059000000000000, "100.0"},
    {0x4132d68700000000, "1234567.0"},
    {0x40effc0000000000, "65504.0"},
    {0x47efffffe0000000, "3.4028234663852886e+38"},
    {0x3810000000000000, "1.1754943508222875e-38"},
    {0x3ff71547652b82fe, "1.4426950408889634"},
    {0x97b750923ceb3ffd, "-1.996150245444706e-194"},
    {0x216363698b529b4a, "7.581454333883296e-148"},
    {0xea7b5bf55eb561a4, "-8.57789382212775e+204"},
    {0x795b929e9a9a80fd, "3.818526826307957e+276"},
    {0x94b2b8fda02f34a6, "-5.694946403451123e-209"},
    {0x9b08923d10c67fd9, "-1.8948713508859093e-178"},
    {0xe8a8529f035efa25, "-1.4204294611674214e+196"},
    {0x781f9c58d6645fa9, "4.1749440189827914e+270"},
    {0x8d0038ec42650644, "-4.64031489464657e-246"},
    {0x311624273bfd1d33, "3.132872124271458e-72"},
    {0xb7970386fee29476, "-6.604630556388117e-41"},
    {0x8a7d43b578633074, "-3.80666497140512e-258"},
    {0x8cb4a0d7d6225675, "-1.8439403708362157e-247"},
    {0x65aa9c8279f248b0, "5.521213857875556e+181"},
    {0xdc6bf1e1a399f82a, "-1.6249118851359539e+137"},
    {0x3b5f3d86268ecc45, "1.0336557535322433e-22"},
    {0x26d0b944a2863a7f, "1.0119387358662577e-121"},
    {0xed038db4de383784, "-1.3481316636868863e+217"},
    {0x63d2e49085ef3430, "7.301205141223863e+172"},
    {0x03e0a813bdc2ae99, "5.341205273155281e-290"},
    {0xc6f8da3eabe19f58, "-8.06510345245033e+33"},
    {0x28ce6f2410645d51, "3.954692477478851e-112"},
    {0xf51e8722c21b6092, "-1.4324283043268515e+256"},
    {0x0af438d297524d6a, "6.733905439805261e-256"},
    {0xc7b317d94d1fe09f, "-2.5379162140977794e+37"},
    {0xd2d5844307f062ce, "-1.0957546420825773e+91"},
    {0x44f9794cdd933160, "1.924748109593872e+24"},
    {0x9841811779061596, "-7.673202078781141e-192"},
    {0xeb8f624fb804d820, "-1.2897207595236137e+210"},
    {0x633a50eee0f9e038, "9.931614240149944e+169"},
    {0xc9c18070b6d13089, "-1.9983431454978598e+47"},
    {0x6d4b9adbebcd1f5e, "3.0451825941228403e+218"},
    {0xba6676b3651c5253, "-2.268251504215921e-27"},
    {0x93b05a04cd085b71, "-7.589344929434837e-214"},
    {0xf6ced90a71d2af72, "-1.942721878376759e+264"},
    {0x2257989fef829c88, "3.023458173271888e-143"},
    {0x5d92b243e0fd67dd, "5.699736137058683e+142"},
    {0x092fdddf18f2c41c, "1.976563237333621e-264"},
    {0x7eb0adf422cedafb, "1.7872234745421953e+302"},
    {0x420b0ebe378c74dc, "14526433009.55706"},
    {0xc6e5369900000000, "-3.442050189271664e+33"},
    {0xbd815c9c40000000, "-1.9738034991167996e-12"},
    {0x45f509b940000000, "1.0417504571225168e+29"},
    {0xc0ed57e860000000, "-60095.26171875"},
    {0xbc0d80b420000000, "-1.999184000404944e-19"},
    {0xc35e020b60000000, "-3.3785988719312896e+16"},
    {0x41a201b1e0000000, "151050480.0"},
    {0x457a0c7160000000, "5.038532977181464e+26"},
    {0xb83b55a200000000, "-8.032888515842212e-38"},
    {0xc2abd834a0000000, "-15307704893440.0"},
    {0x44590430a0000000, "1.8458820757585322e+21"},
    {0xba5e64ef60000000, "-1.534518868447043e-27"},
    {0x433aa8a0a0000000, "7503757227065344.0"},
    {0xb9175f5b20000000, "-1.1253441802318586e-33"},
    {0xbab8ed5680000000, "-8.054380775871327e-26"},
    {0x450adc8b60000000, "4.059195368895869e+24"},
    {0xbab230d280000000, "-5.877736044662881e-26"},
    {0x3f6fb5c080000000, "0.0038708457723259926"},
    {0xc4ef388e00000000, "-1.179492886523521e+24"},
    {0x42c6c76960000000, "50091444404224.0"},
};

TEST(PyText, ReprOfDoubles) {
  for (const auto& [bits, text] : kDoubles) {
    EXPECT_EQ(py_repr(std::bit_cast<double>(bits)), text);
    EXPECT_EQ(py_number(text), Scalar(std::bit_cast<double>(bits))) << text;
  }
  EXPECT_EQ(py_repr(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(py_repr(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(py_repr(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(PyText, DoublesReadBack) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 200'000; i++) {
    const double v = std::bit_cast<double>(random());
    ASSERT_EQ(py_number(py_repr(v)), Scalar(v)) << py_repr(v);
    const double f = std::bit_cast<float>(static_cast<uint32_t>(random()));
    ASSERT_EQ(py_number(py_repr(f)), Scalar(f)) << py_repr(f);
    const double n = static_cast<double>(static_cast<int64_t>(random()) >> (random() % 64));
    ASSERT_EQ(py_number(py_repr(n)), Scalar(n)) << py_repr(n);
  }
}

TEST(PyText, EveryValueOfTheGoldenTables) {
  size_t values = 0;
  const auto check = [&](std::string_view cells) {
    while (!cells.empty()) {
      const std::string_view cell = cells.substr(0, cells.find(' '));
      cells.remove_prefix(std::min(cells.size(), cell.size() + 1));
      if (cell == "True" || cell == "False" || cell == "None") continue;
      const auto v = py_number(cell);
      ASSERT_TRUE(v) << cell;
      EXPECT_EQ(py_repr(*v), cell);
      values++;
    }
  };
  for (const auto& row : golden::table("cconst.tsv")) check(row.at(1));
  for (const auto& row : golden::table("exec_alu.tsv")) {
    check(row.at(2));
    check(row.at(3));
  }
  EXPECT_GT(values, 3000u);
}

TEST(PyText, ReprOfScalars) {
  EXPECT_EQ(py_repr(Scalar(true)), "True");
  EXPECT_EQ(py_repr(Scalar(false)), "False");
  EXPECT_EQ(py_repr(Scalar(INT64_MIN)), "-9223372036854775808");
  EXPECT_EQ(py_repr(Scalar(-0.0)), "-0.0");
}

using namespace std::string_view_literals;
constexpr std::pair<std::string_view, std::string_view> kStrings[] = {
    {"abc"sv, "'abc'"sv},
    {"it's"sv, "\042it's\042"sv},
    {"say \042x\042"sv, "'say \042x\042'"sv},
    {"both ' and \042"sv, "'both \134' and \042'"sv},
    {"a\134b"sv, "'a\134\134b'"sv},
    {"t\011n\012r\015"sv, "'t\134tn\134nr\134r'"sv},
    {"\000\037\177"sv, "'\134x00\134x1f\134x7f'"sv},
    {"\302\200\302\240\302\255\302\241"sv, "'\134x80\134xa0\134xad\302\241'"sv},
    {"\303\251"sv, "'\303\251'"sv},
    {"\346\227\245\346\234\254"sv, "'\346\227\245\346\234\254'"sv},
    {"\360\237\231\202"sv, "'\360\237\231\202'"sv},
    {""sv, "''"sv},
    {" "sv, "' '"sv},
};

TEST(PyText, ReprOfStrings) {
  for (const auto& [text, repr] : kStrings) EXPECT_EQ(py_repr(text), repr);
  // What is no UTF-8 is escaped byte by byte.
  EXPECT_EQ(py_repr("\xff\xc3"sv), R"('\xff\xc3')");
  EXPECT_EQ(py_repr("\xc0\x80"sv), R"('\xc0\x80')");
}

TEST(PyText, Tuples) {
  EXPECT_EQ(py_tuple(Shape{}), "()");
  EXPECT_EQ(py_tuple(Shape{2}), "(2,)");
  EXPECT_EQ(py_tuple(Shape{2, -3}), "(2, -3)");
  EXPECT_EQ(py_tuple(ShrinkArg{}), "()");
  EXPECT_EQ(py_tuple(ShrinkArg{{{0, 1}}}), "((0, 1),)");
  EXPECT_EQ(py_tuple(ShrinkArg{{{0, 1}, {2, 3}}}), "((0, 1), (2, 3))");
}

}  // namespace
}  // namespace uopc
