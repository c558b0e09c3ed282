#include "ir/fold.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "ir/half.hpp"
#include "ir/py_text.hpp"
#include "scalar_eval.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

Scalar python_value(const std::string& text) {
  if (text == "True" || text == "False") return text == "True";
  const auto v = py_number(text);
  if (!v) throw std::runtime_error("not a value: " + text);
  return *v;
}

struct TableRow {
  Op op;
  DType dtype;
  std::vector<Scalar> values;
  std::string result;
};

std::vector<TableRow> table() {
  std::ifstream file(UOPC_TEST_DATA "/golden/exec_alu.tsv");
  std::vector<TableRow> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream cells(line);
    std::string op, dtype, inputs, result;
    std::getline(cells, op, '\t');
    std::getline(cells, dtype, '\t');
    std::getline(cells, inputs, '\t');
    std::getline(cells, result, '\t');
    TableRow row{*op_from_name(op), dtypes::from_name(dtype), {}, result};
    std::istringstream words(inputs);
    for (std::string word; words >> word;) row.values.push_back(python_value(word));
    rows.push_back(std::move(row));
  }
  return rows;
}

TEST(ExecAlu, IsTheAppendixTable) {
  const auto rows = table();
  EXPECT_EQ(rows.size(), 1918u);
  for (const TableRow& row : rows) {
    const auto r = exec_alu(row.op, row.dtype, row.values);
    std::string inputs;
    for (Scalar v : row.values) inputs += " " + py_repr(v);
    EXPECT_EQ(r ? py_repr(*r) : "None", row.result) << name(row.op) << " " << name(row.dtype) << inputs;
  }
}

// Where a constant is folded at all, and the machine's value is not the table's, it is for one of these reasons.
TEST(Fold, DiffersFromTheTableInKnownCornersOnly) {
  int differing = 0;
  for (const TableRow& row : table()) {
    if (row.op == Op::CmpLt || row.op == Op::CmpNe || row.op == Op::Where) continue;
    for (DType source : {DType::Bool, DType::I32, DType::F32}) {
      if (row.op != Op::Cast && source != row.dtype) continue;
      if (row.op == Op::Cast && dtypes::from_py(row.values[0]) != source) continue;
      const auto table_value = exec_alu(row.op, row.dtype, row.values);
      const auto folded = fold(row.op, row.dtype, source, row.values);
      EXPECT_EQ(table_value.has_value(), folded.has_value());
      if (!folded || test::same_value(*table_value, *folded)) continue;
      differing++;
      const double x = row.values[0].as_float(), rounded = static_cast<float>(x);
      if (row.op == Op::Max) {
        const float a = static_cast<float>(x), b = static_cast<float>(row.values[1].as_float());
        EXPECT_TRUE(std::isnan(a) || std::isnan(b) || (a == 0 && b == 0));
      } else if (row.op == Op::Exp2) {
        EXPECT_TRUE(std::isnan(x));
      } else {
        ASSERT_EQ(row.op, Op::Cast);
        EXPECT_TRUE(rounded != x || std::fabs(x) >= 0x1p31) << x;
      }
    }
  }
  EXPECT_GT(differing, 5);
}

TEST(RunAlu, ValuesOfTheCorners) {
  const auto run = [](Op op, DType d, DType s, std::initializer_list<Scalar> v) { return run_alu(op, d, s, v); };
  const auto i32 = [&](Op op, int64_t a, int64_t b) { return run(op, DType::I32, DType::I32, {a, b}).as_int(); };
  EXPECT_EQ(i32(Op::FloorDiv, 7, 0), 0);
  EXPECT_EQ(i32(Op::FloorMod, 7, 0), 0);
  EXPECT_EQ(i32(Op::FloorDiv, INT32_MIN, -1), INT32_MIN);
  EXPECT_EQ(i32(Op::FloorMod, INT32_MIN, -1), 0);
  EXPECT_EQ(i32(Op::FloorDiv, -7, 2), -4);
  EXPECT_EQ(i32(Op::FloorMod, -7, 2), 1);
  EXPECT_EQ(i32(Op::FloorMod, 7, -2), -1);
  EXPECT_EQ(i32(Op::Add, INT32_MAX, 1), INT32_MIN);
  EXPECT_EQ(i32(Op::Mul, INT32_MIN, -1), INT32_MIN);
  EXPECT_EQ(i32(Op::Add, int64_t{1} << 40, 5), 5);  // a CONST beyond i32 counts modulo 2^32
  const auto to_int = [&](double v) { return run(Op::Cast, DType::I32, DType::F32, {v}).as_int(); };
  EXPECT_EQ(to_int(3e9), INT32_MAX);
  EXPECT_EQ(to_int(-HUGE_VAL), INT32_MIN);
  EXPECT_EQ(to_int(std::nan("")), 0);
  EXPECT_EQ(to_int(-1.9), -1);
  EXPECT_EQ(run(Op::Add, DType::Bool, DType::Bool, {true, true}), Scalar(true));
  EXPECT_EQ(run(Op::Max, DType::F32, DType::F32, {std::nan(""), 1.0}), Scalar(1.0));
  EXPECT_TRUE(std::isnan(run(Op::Max, DType::F32, DType::F32, {1.0, std::nan("")}).as_float()));
  EXPECT_EQ(run(Op::Recip, DType::F32, DType::F32, {-0.0}), Scalar(-HUGE_VAL));
  EXPECT_NEAR(run(Op::Log2, DType::F32, DType::F32, {1e-40}).as_float(), -132.87713, 1e-4);
  EXPECT_NEAR(run(Op::Sqrt, DType::F32, DType::F32, {1e-40}).as_float(), 1e-20, 1e-25);
  // f16 rounds after every operation.
  EXPECT_EQ(run(Op::Add, DType::F16, DType::F16, {2048.0, 1.0}), Scalar(2048.0));
  EXPECT_EQ(run(Op::Add, DType::F16, DType::F16, {65504.0, 16.0}), Scalar(HUGE_VAL));
  EXPECT_EQ(run(Op::CmpLt, DType::Bool, DType::F16, {2048.0, 2049.0}), Scalar(false));
}

TEST(Half, EveryBitPatternSurvivesAndEveryMidpointTiesToEven) {
  for (uint32_t h = 0; h < 0x10000; h++) {
    const double v = half_to_float(static_cast<uint16_t>(h));
    if (std::isnan(v)) {
      EXPECT_TRUE(std::isnan(round_to_half(v)));
      continue;
    }
    ASSERT_EQ(half_from_double(v), h);
    if ((h & 0x7FFF) >= 0x7BFF) continue;
    const double next = half_to_float(static_cast<uint16_t>(h + 1)), middle = (v + next) / 2;
    ASSERT_EQ(half_from_double(middle), h & 1 ? h + 1 : h);
    ASSERT_EQ(half_from_double(std::nextafter(middle, next)), h + 1);
    ASSERT_EQ(half_from_double(std::nextafter(middle, v)), h);
  }
  EXPECT_EQ(half_from_double(65519.99), 0x7BFF);
  EXPECT_EQ(half_from_double(65520.0), 0x7C00);
  EXPECT_EQ(half_from_double(-1e300), 0xFC00);
  EXPECT_EQ(half_from_double(0x1p-25), 0);
  EXPECT_EQ(half_from_double(std::nextafter(0x1p-25, 1)), 1);
}

}  // namespace
}  // namespace uopc
