#include "uopc/npy.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "ir/half.hpp"
#include "runtime/files.hpp"
#include "uopc/error.hpp"

namespace uopc {
namespace {

namespace fs = std::filesystem;

class Npy : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return dir_.path() + "/" + name; }
  TempDir dir_{"/tmp"};
};

// A file of version `major` with that header dict, and no padding.
std::string file_of(const std::string& dict, const std::string& data, int major = 1) {
  std::string out("\x93NUMPY", 6);
  out += static_cast<char>(major);
  out += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); i++) out += static_cast<char>(dict.size() >> (8 * i) & 0xff);
  return out + dict + data;
}

std::string dict(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(T)};
}

std::string shown(const NpyArray& a) {
  return to_string(to_python(a.dtype, a.shape, a.data));
}

std::string refusal(const std::string& file) {
  try {
    parse_npy(file);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::Parse);
    return e.what();
  }
  return "accepted";
}

TEST_F(Npy, WritesTheBytesThatNumpyWrites) {
  const std::vector<float> data = {1, 2, 3, 4, 5, 6};
  write_npy(path("x.npy"), DType::F32, {2, 3}, data);
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  const std::string want = std::string("\x93NUMPY\x01\0\x76\0", 10) + header + std::string(117 - header.size(), ' ') +
                           "\n" + raw<float>({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(read_file(path("x.npy")), want);
}

TEST_F(Npy, ReadsWhatItWritesForEveryElementTypeAndRank) {
  std::mt19937 random(1);
  for (DType dtype : {DType::Bool, DType::I32, DType::F32, DType::F16})
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{0}, Shape{2, 0, 3}, Shape{2, 3, 4}, Shape(20, 1)}) {
      int64_t n = itemsize(dtype);
      for (int64_t size : shape) n *= size;
      std::vector<std::byte> data(static_cast<size_t>(n));
      for (std::byte& b : data) b = static_cast<std::byte>(random() & (dtype == DType::Bool ? 1 : 255));
      write_npy(path("x.npy"), dtype, shape, data);
      const NpyArray back = read_npy(path("x.npy"));
      EXPECT_EQ(back.dtype, dtype);
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(back.data, data);
    }
}

TEST_F(Npy, LongHeadersNeedVersionTwo) {
  // No rank that is allowed makes one this long, so the reader refuses the rank, not the version.
  const std::string header = npy_header(DType::I32, Shape(30000, 1));
  EXPECT_EQ(header[6], 2);
  EXPECT_EQ(header.size() % 64, 0u);
  EXPECT_EQ(refusal(header + raw<int32_t>({7})), "malformed header: more than 64 axes");
}

TEST_F(Npy, ReadsByteOrdersLayoutsAndVersions) {
  EXPECT_EQ(shown(parse_npy(file_of(dict(">i4", "(2,)"), std::string("\0\0\1\2\xff\xff\xff\xff", 8)))), "[258, -1]");
  EXPECT_EQ(shown(parse_npy(file_of(dict(">f4", "()"), std::string("\x3f\xc0\0\0", 4)))), "1.5");
  EXPECT_EQ(shown(parse_npy(file_of(dict("<f2", "(2,)"), raw<uint16_t>({0x3c00, 0xfc00})))), "[1.0, -inf]");
  EXPECT_EQ(shown(parse_npy(file_of(dict(">f2", "(1,)"), std::string("\x3e\0", 2)))), "[1.5]");
  EXPECT_EQ(shown(parse_npy(file_of(dict("|b1", "(3,)"), std::string("\0\1\2", 3)))), "[False, True, True]");
  EXPECT_EQ(shown(parse_npy(file_of(dict("<i4", "(2, 3)", "True"), raw<int32_t>({1, 4, 2, 5, 3, 6})))),
            "[[1, 2, 3], [4, 5, 6]]");
  EXPECT_EQ(shown(parse_npy(file_of(dict("|b1", "(2, 2, 2)", "True"), std::string("\0\1\0\0\0\0\0\1", 8)))),
            "[[[False, False], [False, False]], [[True, False], [False, True]]]");
  for (int version : {1, 2, 3})
    EXPECT_EQ(shown(parse_npy(file_of(dict("<i4", "(1,)"), raw<int32_t>({9}), version))), "[9]");
  EXPECT_EQ(shown(parse_npy(file_of("{\"shape\":(1L ,),'fortran_order':False,\n 'descr':\"<i4\"}", raw<int32_t>({9})))),
            "[9]");
}

TEST_F(Npy, MalformedFilesAreRefused) {
  const std::string good = file_of(dict("<i4", "(2,)"), raw<int32_t>({1, 2}));
  EXPECT_EQ(refusal(good), "accepted");
  for (size_t n = 0; n < good.size(); n++) EXPECT_NE(refusal(good.substr(0, n)), "accepted") << n;
  EXPECT_EQ(refusal("hello"), "not an .npy file: it does not start with '\\x93NUMPY'");
  EXPECT_EQ(refusal(file_of(dict("<i4", "(2,)"), "", 4)), "format version 4.0 is unknown; 1.0, 2.0 and 3.0 are read");
  EXPECT_EQ(refusal(good + "x"), "shape (2,) of int32 needs 8 bytes of data, the file has 9");
  EXPECT_EQ(refusal(file_of(dict("<f4", "(4611686018427387904, 4)"), "")),
            "shape (4611686018427387904, 4) of float32 needs more than 2**63 bytes of data, the file has 0");
  EXPECT_EQ(refusal(file_of(dict("<f4", "(1000000000000,)"), "")),
            "shape (1000000000000,) of float32 needs 4000000000000 bytes of data, the file has 0");
  EXPECT_EQ(refusal(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff{", 13)),
            "the file ends within its header: 1 of 4294967295 bytes");
  EXPECT_EQ(refusal(file_of(dict("<f8", "(1,)"), "12345678")),
            "the element type is '<f8'; only bool, int32, float32 and float16 are read; save it with "
            ".astype(numpy.float32)");
  EXPECT_EQ(refusal(file_of("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", "1234")),
            "the array is structured; only plain bool, int32, float32 and float16 arrays are read");
  for (const char* bad : {"", "{", "}", "{}", "{'descr': '<i4'", "{'descr': '<i4', 'descr': '<i4'}", "{'descr: '<i4'}",
                          "{'descr': '<i4', 'fortran_order': Maybe, 'shape': (1,)}",
                          "{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}",
                          "{'descr': '<i4', 'fortran_order': False, 'shape': (1.0,)}",
                          "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                          "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)",
                          "{'descr': '<i4', 'fortran_order': False, 'shape': 1}",
                          "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)} x",
                          "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), 'x': True}",
                          "{'descr': '<i4' 'fortran_order': False, 'shape': (1,)}"})
    EXPECT_TRUE(refusal(file_of(bad, "1234")).starts_with("malformed header: ")) << bad;
  for (const char* descr : {"", "<", "i4", "|i4", "<u4", "<i8", "<c8", "|O", "|S4", "<i4x", "x", "<b1x"})
    EXPECT_TRUE(refusal(file_of(dict(descr, "(1,)"), "1234")).starts_with("the element type is ")) << descr;
}

TEST_F(Npy, RandomDamageNeverCrashes) {
  std::mt19937 random(7);
  const std::string good = file_of(dict("<f2", "(2, 3)", "True"), std::string(12, 'x'));
  for (int round = 0; round < 20000; round++) {
    std::string bad = good;
    for (int k = 0; k < 3; k++) bad[random() % bad.size()] = static_cast<char>(random());
    refusal(bad);
  }
}

TEST_F(Npy, AFailedWriteKeepsTheOldFile) {
  const std::vector<int32_t> old = {1, 2}, next = {3, 4};
  write_npy(path("x.npy"), DType::I32, {2}, old);
  EXPECT_THROW(write_npy(path("x.npy"), DType::I32, {3}, next), Error);
  EXPECT_EQ(shown(read_npy(path("x.npy"))), "[1, 2]");
  try {
    write_npy(path("missing/x.npy"), DType::I32, {2}, next);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::Run);
    EXPECT_EQ(std::string(e.what()), "cannot write '" + path("missing/x.npy") + "': No such file or directory");
  }
  // A link stays a link, the mode stays, nothing is left beside.
  fs::create_symlink("x.npy", path("link.npy"));
  ::chmod(path("x.npy").c_str(), 0640);
  write_npy(path("link.npy"), DType::I32, {2}, next);
  EXPECT_TRUE(fs::is_symlink(path("link.npy")));
  EXPECT_EQ(shown(read_npy(path("x.npy"))), "[3, 4]");
  EXPECT_EQ(static_cast<int>(fs::status(path("x.npy")).permissions()), 0640);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator{}), 2);
  // A device is written to, not replaced.
  write_npy("/dev/null", DType::I32, {2}, next);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(Npy, ReadErrorsNameTheFile) {
  std::ofstream(path("bad.npy")) << "hello";
  for (const auto& [file, want] :
       {std::pair{path("none.npy"), "cannot read '" + path("none.npy") + "': No such file or directory"},
        {dir_.path(), "cannot read '" + dir_.path() + "': Is a directory"},
        {path("bad.npy"), path("bad.npy") + ": not an .npy file: it does not start with '\\x93NUMPY'"}})
    try {
      read_npy(file);
      FAIL() << file;
    } catch (const Error& e) {
      EXPECT_EQ(e.what(), want);
    }
}

TEST_F(Npy, ListsOfEmptyArrays) {
  EXPECT_EQ(to_string(to_python(DType::F32, {2, 0}, {})), "[[], []]");
  EXPECT_EQ(to_string(to_python(DType::F32, {0, int64_t{1} << 40}, {})), "[]");
  EXPECT_THROW(to_python(DType::F32, {int64_t{1} << 40, 0}, {}), Error);
  EXPECT_THROW(to_python(DType::F32, {int64_t{1} << 40, int64_t{1} << 40, 0}, {}), Error);
}

// Every half there is, and the doubles around the middles between neighbours.
TEST(Half, RoundsToNearestEven) {
  for (uint32_t h = 0; h < 0x10000; h++) {
    const float v = half_to_float(static_cast<uint16_t>(h));
    if (std::isnan(v)) {
      EXPECT_TRUE(std::isnan(half_to_float(half_from_double(v))));
      continue;
    }
    ASSERT_EQ(half_from_double(v), h);
    if (std::isinf(v) || (h & 0x7fff) == 0x7bff) continue;
    const double next = half_to_float(static_cast<uint16_t>(h + 1)), middle = (v + next) / 2;
    ASSERT_EQ(half_from_double(middle), h % 2 ? h + 1 : h) << h;
    ASSERT_EQ(half_from_double(std::nextafter(middle, v)), h) << h;
    ASSERT_EQ(half_from_double(std::nextafter(middle, next)), h + 1) << h;
  }
  EXPECT_EQ(half_from_double(65519.999), 0x7bff);
  EXPECT_EQ(half_from_double(65520), 0x7c00);
  EXPECT_EQ(half_from_double(-1e300), 0xfc00);
  EXPECT_EQ(half_from_double(5e-324), 0);
}

}  // namespace
}  // namespace uopc
