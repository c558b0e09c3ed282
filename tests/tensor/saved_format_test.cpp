// The bytes of safetensors and .npz files, without tensors.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "error_of.hpp"
#include "tensor/safetensors.hpp"
#include "tensor/zip.hpp"
#include "uopc/error.hpp"

namespace uopc {
namespace {

using namespace std::literals;

std::string number(uint64_t v, size_t width) {
  std::string out;
  for (size_t i = 0; i < width; i++) out += static_cast<char>(v >> (8 * i) & 0xff);
  return out;
}

std::string safetensors(const std::string& header, const std::string& data) {
  return number(header.size(), 8) + header + data;
}

std::string joined(const std::vector<std::string_view>& parts) {
  std::string out;
  for (std::string_view p : parts) out += p;
  return out;
}

std::string bytes_of(const NpyArray& a) {
  return {reinterpret_cast<const char*>(a.data.data()), a.data.size()};
}

// What Python's save_file({"w": [[1, 2]], "b": [True, False, True]}, metadata={"format": "pt"}) writes.
const std::string kHeader = R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                            R"("b":{"dtype":"BOOL","shape":[3],"data_offsets":[8,11]}}  )";
const std::string kFile = safetensors(kHeader, "\0\0\x80\x3f\0\0\0\x40\1\0\1"s);

TEST(SafetensorsFormat, ReadsWhatPythonWrites) {
  ASSERT_EQ(kHeader.size() % 8, 0u);
  const Safetensors s = parse_safetensors(kFile);
  ASSERT_EQ(s.entries.size(), 2u);
  EXPECT_EQ(s.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_EQ(s.entries[0].name, "w");
  EXPECT_EQ(s.entries[0].shape, (Shape{1, 2}));
  const NpyArray w = decode(s.entries[0], false), b = decode(s.entries[1], false);
  EXPECT_EQ(w.dtype, DType::F32);
  EXPECT_EQ(bytes_of(w), "\0\0\x80\x3f\0\0\0\x40"s);
  EXPECT_EQ(b.dtype, DType::Bool);
  EXPECT_EQ(bytes_of(b), "\1\0\1"s);
}

TEST(SafetensorsFormat, WritesThatFileToTheByte) {
  const SafetensorsParts p({{"w", DType::F32, {1, 2}, "\0\0\x80\x3f\0\0\0\x40"sv}, {"b", DType::Bool, {3}, "\1\0\1"sv}},
                           {{"format", "pt"}});
  EXPECT_EQ(joined(p.parts), kFile);
}

TEST(SafetensorsFormat, WideElementsComeFirstSoThatAllAreAligned) {
  const SafetensorsParts p(
      {{"a", DType::Bool, {1}, "\1"sv}, {"b", DType::F16, {1}, "hh"sv}, {"c", DType::I32, {}, "iiii"sv}}, {});
  const std::string file = joined(p.parts);
  const Safetensors s = parse_safetensors(file);
  ASSERT_EQ(s.entries.size(), 3u);
  EXPECT_EQ(s.entries[0].name, "a");
  for (const SafetensorsEntry& e : s.entries)
    EXPECT_EQ(static_cast<size_t>(e.data.data() - file.data()) % e.data.size(), 0u) << e.name;
  EXPECT_EQ(s.entries[2].data, "iiii");
}

TEST(SafetensorsFormat, NamesOfAnyText) {
  const std::string name = "a\"\\\n\xc3\xa9\x01";
  const SafetensorsParts p({{name, DType::I32, {0, 5}, {}}}, {{name, name}});
  const std::string file = joined(p.parts);
  const Safetensors s = parse_safetensors(file);
  EXPECT_EQ(s.entries.at(0).name, name);
  EXPECT_EQ(s.entries.at(0).shape, (Shape{0, 5}));
  EXPECT_EQ(s.metadata.at(name), name);
}

TEST(SafetensorsFormat, RefusesToWrite) {
  const auto write = [](std::vector<NamedArray> a) { return named_error_of([&] { SafetensorsParts p(a, {}); }); };
  EXPECT_EQ(write({{"a", DType::Bool, {0}, {}}, {"a", DType::Bool, {0}, {}}}), "UOpError: 'a' names two tensors");
  EXPECT_EQ(write({{"__metadata__", DType::Bool, {0}, {}}}), "UOpError: '__metadata__' is no name of a tensor");
  EXPECT_EQ(write({{"\xff", DType::Bool, {0}, {}}}), "UOpError: the name '\\xff' is not UTF-8");
  EXPECT_EQ(write({{"a", DType::I32, {2}, "abcd"}}), "UOpError: 'a': 4 bytes are no i32 array of shape (2,)");
}

TEST(SafetensorsFormat, Converts) {
  const auto file = [](const std::string& dtype, const std::string& data) {
    return safetensors(
        R"({"x":{"dtype":")" + dtype + R"(","shape":[1],"data_offsets":[0,)" + std::to_string(data.size()) + "]}}",
        data);
  };
  const auto read = [](const std::string& f, bool convert) {
    return bytes_of(decode(parse_safetensors(f).entries.at(0), convert));
  };
  const double one = 1, huge = 1e300;
  const std::string f64(reinterpret_cast<const char*>(&one), 8), big(reinterpret_cast<const char*>(&huge), 8);
  EXPECT_EQ(read(file("BF16", "\x80\x3f"), true), "\0\0\x80\x3f"s);
  EXPECT_EQ(read(file("F64", f64), true), "\0\0\x80\x3f"s);
  EXPECT_EQ(read(file("F64", big), true), "\0\0\x80\x7f"s);
  EXPECT_EQ(read(file("I64", number(static_cast<uint64_t>(-2), 8)), true), "\xfe\xff\xff\xff");
  EXPECT_EQ(named_error_of([&] { read(file("I64", number(1ull << 31, 8)), true); }),
            "ParseError: 'x' holds 2147483648, which does not fit I32");
  EXPECT_EQ(named_error_of([&] { read(file("F64", f64), false); }),
            "ParseError: 'x' has dtype F64; only with `convert` is it read, as F32");
  EXPECT_EQ(named_error_of([&] { read(file("U8", "a"), true); }),
            "ParseError: 'x' has dtype U8; BOOL, I32, F32 and F16 are read");
}

TEST(SafetensorsFormat, SaysWhatIsDamaged) {
  const auto of = [](const std::string& file) {
    const std::string e = named_error_of([&] { parse_safetensors(file); });
    return e.starts_with("ParseError: ") ? e.substr(12) : e;
  };
  const auto entry = [&](const std::string& e, const std::string& data = "") {
    return of(safetensors(R"({"x":)" + e + "}", data));
  };
  EXPECT_EQ(of(""), "not a safetensors file: 0 bytes, of which 8 give the header's length");
  EXPECT_EQ(of(std::string(8, '\xff')),
            "not a safetensors file: the header would have 18446744073709551615 bytes, more than 100000000");
  EXPECT_EQ(of(number(9, 8) + "{}"), "the file ends within its header: 2 of 9 bytes");
  EXPECT_EQ(of(safetensors("[]", "")), "not a safetensors file: the header does not begin with '{'");
  EXPECT_EQ(of(safetensors("", "")), "not a safetensors file: the header does not begin with '{'");
  EXPECT_EQ(of(safetensors("{}\0junk"s, "")), "the header is not JSON in UTF-8 at its byte 3");
  EXPECT_EQ(of(safetensors("{} x", "")), "the header is not JSON in UTF-8 at its byte 4");
  EXPECT_EQ(of(safetensors("{\"\xff\":1}", "")), "the header is not JSON in UTF-8 at its byte 3");
  EXPECT_EQ(of(safetensors("{}", "junk")), "4 bytes follow the last array");
  EXPECT_EQ(entry("1"), "'x' is the number 1 where an object is expected");
  EXPECT_EQ(entry("{}"), "'x' has no dtype");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[1]})"), "'x' has no data_offsets");
  EXPECT_EQ(entry(R"({"dtype":"F32","dtype":"F32"})"), "'x' has an unknown or second key 'dtype'");
  EXPECT_EQ(entry(R"({"stride":1})"), "'x' has an unknown or second key 'stride'");
  EXPECT_EQ(entry(R"({"dtype":"F7","shape":[],"data_offsets":[0,0]})"), "'x' has the unknown dtype 'F7'");
  EXPECT_EQ(entry(R"({"shape":[-1]})"), "the shape of 'x' has the number -1; a list of sizes of 0 or more is expected");
  EXPECT_EQ(entry(R"({"shape":[1.5]})"),
            "the shape of 'x' has the number 1.5; a list of sizes of 0 or more is expected");
  EXPECT_EQ(entry(R"({"shape":[9223372036854775808]})"),
            "the shape of 'x' has the number 9223372036854775808; a list of sizes of 0 or more is expected");
  EXPECT_EQ(entry(R"({"shape":[[1]]})"), "the shape of 'x' has a list; a list of sizes of 0 or more is expected");
  EXPECT_EQ(entry(R"({"data_offsets":[0]})"), "data_offsets of 'x' are no two numbers");
  EXPECT_EQ(entry(R"({"data_offsets":[0,1,2]})"),
            "data_offsets of 'x' have the number 2; two numbers of 0 or more are expected");
  EXPECT_EQ(entry(R"({"dtype":"BOOL","shape":[4],"data_offsets":[0,4]})", "abc"),
            "'x' has data_offsets [0, 4], the data has 3 bytes");
  EXPECT_EQ(entry(R"({"dtype":"BOOL","shape":[1],"data_offsets":[2,1]})", "abc"),
            "'x' has data_offsets [2, 1], the data has 3 bytes");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", "abcd"),
            "'x' of F32 and shape (2,) needs 8 bytes, its data_offsets give 4");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"),
            "'x' of F32 and shape (4294967296, 4294967296) needs more than 2**63 bytes, its data_offsets give 0");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]})"),
            "'x' of F32 and shape (0, 4294967296, 4294967296) needs more than 2**63 bytes, its data_offsets give 0");
  EXPECT_EQ(entry(R"({"dtype":"BOOL","shape":[],"data_offsets":[0,1]},"x":{})", "a"), "'x' occurs twice in the header");
  EXPECT_EQ(entry(R"({"dtype":"BOOL","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"BOOL","shape":[2],)"
                  R"("data_offsets":[1,3]})",
                  "abc"),
            "'y' begins at byte 1 of the data, where the array before it ends at byte 2: they overlap");
  EXPECT_EQ(entry(R"({"dtype":"BOOL","shape":[1],"data_offsets":[1,2]})", "ab"),
            "'x' begins at byte 1 of the data, where the array before it ends at byte 0: a hole");
  EXPECT_EQ(of(safetensors(R"({"__metadata__":{"a":1}})", "")),
            "the metadata 'a' is the number 1; only strings are expected");
  std::string many;
  for (int i = 0; i < 65; i++) many += i ? ",1" : "1";
  EXPECT_EQ(entry(R"({"shape":[)" + many + "]}"), "'x' has more than 64 axes");
}

TEST(SafetensorsFormat, DepthIsNoDanger) {
  const std::string deep(1'000'000, '[');
  const std::string nested = [] {
    std::string out;
    for (int i = 0; i < 200'000; i++) out += R"({"a":)";
    return out;
  }();
  EXPECT_TRUE(named_error_of([&] {
                parse_safetensors(safetensors(R"({"x":)" + deep, ""));
              }).starts_with("ParseError: 'x' is a list"));
  EXPECT_TRUE(named_error_of([&] { parse_safetensors(safetensors(nested, "")); }).starts_with("ParseError: "));
}

// ---- zip -----------------------------------------------------------------------------------------------------------

std::string deflated(const std::string& data) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, data.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  z.avail_in = static_cast<uInt>(data.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

struct Member {
  std::string name, data;
  bool deflate = false;
  uint32_t crc_lie = 0, size_lie = 0, local_size_lie = 0, method_lie = 0, flags = 0;
};

// As NumPy writes them: the local header of a member may have a zip64 field and no sizes.
std::string zip(const std::vector<Member>& members, bool zip64_local = false) {
  std::string out, directory;
  for (const Member& m : members) {
    const std::string packed = m.deflate ? deflated(m.data) : m.data;
    const uint32_t crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(m.data.data()), static_cast<uInt>(m.data.size())));
    const uint64_t size = m.data.size() + m.size_lie;
    const std::string start = number(m.flags, 2) +
                              number(m.method_lie ? m.method_lie
                                     : m.deflate  ? 8u
                                                  : 0u,
                                     2) +
                              number(0, 4);
    directory += "PK\1\2" + number(45, 2) + number(20, 2) + start + number(crc + m.crc_lie, 4) +
                 number(packed.size(), 4) + number(size, 4) + number(m.name.size(), 2) + number(0, 2) + number(0, 2) +
                 number(0, 8) + number(out.size(), 4) + m.name;
    const std::string field = number(1, 2) + number(16, 2) + number(size, 8) + number(packed.size(), 8);
    out += "PK\3\4" + number(45, 2) + start + number(crc + m.crc_lie, 4) +
           (zip64_local ? std::string(8, '\xff') : number(packed.size(), 4) + number(size + m.local_size_lie, 4)) +
           number(m.name.size(), 2) + number(zip64_local ? field.size() : 0, 2) + m.name + (zip64_local ? field : "") +
           packed;
  }
  const size_t at = out.size();
  return out + directory + "PK\5\6" + number(0, 4) + number(members.size(), 2) + number(members.size(), 2) +
         number(directory.size(), 4) + number(at, 4) + number(0, 2);
}

TEST(ZipFormat, ReadsStoredAndDeflatedMembers) {
  const std::string text(100'000, 'a');
  for (bool zip64 : {false, true}) {
    const std::vector<ZipMember> m =
        read_zip(zip({{"a.npy", "abc"}, {"b.npy", text, true}, {"", ""}, {"e", "", true}}, zip64));
    ASSERT_EQ(m.size(), 4u);
    EXPECT_EQ(m[0].name, "a.npy");
    EXPECT_EQ(m[0].data, "abc");
    EXPECT_EQ(m[1].data, text);
    EXPECT_EQ(m[3].data, "");
  }
  EXPECT_TRUE(read_zip(zip({})).empty());
}

TEST(ZipFormat, ReadsWhatItWrites) {
  const ZipParts p({{"a.npy", {"ab", std::string_view(), "c", std::string_view()}},
                    {"empty", {}},
                    {"b.npy", {std::string_view("\0\1", 2)}}});
  const std::string file = joined(p.parts);
  const std::vector<ZipMember> m = read_zip(file);
  ASSERT_EQ(m.size(), 3u);
  EXPECT_EQ(m[0].data, "abc");
  EXPECT_EQ(m[1].data, "");
  EXPECT_EQ(m[2].data, "\0\1"s);
  EXPECT_EQ(named_error_of([] { ZipParts twice({{"a", {}}, {"a", {}}}); }), "UOpError: 'a' names two members");
}

TEST(ZipFormat, SaysWhatIsDamaged) {
  const auto of = [](const std::string& file) {
    const std::string e = named_error_of([&] { read_zip(file); });
    return e.starts_with("ParseError: ") ? e.substr(12) : e;
  };
  const std::string good = zip({{"a", "abc"}});
  EXPECT_EQ(of("PK"), "not a zip file: 2 bytes");
  EXPECT_EQ(of(good.substr(0, good.size() - 1)), "not a zip file, or not whole: its end record is missing");
  EXPECT_EQ(of(good + "x"), "not a zip file, or not whole: its end record is missing");
  EXPECT_EQ(of("x" + good), "the directory of 47 bytes at byte 34 does not end at the end record");
  EXPECT_EQ(of(zip({{"a", "abc"}, {"a", "abc"}})), "member 'a' occurs twice");
  EXPECT_EQ(of(zip({{.name = "a", .data = "abc", .crc_lie = 1}})), "member 'a': its checksum is wrong");
  EXPECT_EQ(of(zip({{.name = "a", .data = "abc", .size_lie = 1}})), "member 'a' cannot have 4 bytes: 3 are stored");
  EXPECT_EQ(of(zip({{.name = "a", .data = "abc", .local_size_lie = 1}})),
            "member 'a': its header and the directory differ");
  EXPECT_EQ(of(zip({{.name = "a", .data = "abc", .deflate = true, .size_lie = 1}})),
            "member 'a': its deflated data is damaged or not of 4 bytes");
  EXPECT_EQ(of(zip({{.name = "a", .data = "abc", .deflate = true, .size_lie = ~0u}})),
            "member 'a': its deflated data is damaged or not of 2 bytes");
  EXPECT_EQ(of(zip({{.name = "a", .data = "abc", .deflate = true, .size_lie = 1u << 30}})),
            "member 'a' cannot have 1073741827 bytes: 5 are stored");
  EXPECT_EQ(of(zip({{.name = "a", .data = "abc", .method_lie = 14}})),
            "member 'a' is packed by method 14; stored and deflated ones are read");
  EXPECT_EQ(of(zip({{.name = "a", .data = "abc", .flags = 1}})), "member 'a' is encrypted");
  std::string shared = zip({{"a", "abc"}, {"a", "abc"}});
  // The second entry of the directory at the first one's data.
  const size_t second = shared.rfind("PK\1\2");
  shared.replace(second + 42, 4, number(0, 4));
  EXPECT_EQ(of(shared), "member 'a' occurs twice");
  std::string zip64 = good;
  zip64.replace(zip64.size() - 6, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(of(zip64), "it needs zip64 (4 GiB or more, or 65535 members), which is not read");
}

TEST(ZipFormat, OverlappingMembersAreRefused) {
  // The data of "a" is the local header of "b" and its data.
  const std::string inner = zip({{"b", "xyz"}}).substr(0, 34);
  const std::string outer = zip({{"a", inner}});
  const size_t directory = outer.rfind("PK\1\2"), end = outer.rfind("PK\5\6");
  std::string b = zip({{"b", "xyz"}});
  b = b.substr(34, 47);
  b.replace(42, 4, number(31, 4));
  const std::string entries = outer.substr(directory, end - directory) + b;
  const std::string file = outer.substr(0, directory) + entries + "PK\5\6" + number(0, 4) + number(2, 2) +
                           number(2, 2) + number(entries.size(), 4) + number(directory, 4) + number(0, 2);
  EXPECT_EQ(named_error_of([&] { read_zip(file); }), "ParseError: members 'a' and 'b' overlap");
}

// ---- mutated files -------------------------------------------------------------------------------------------------

std::string mutated(std::string s, std::mt19937& random) {
  const auto below = [&](size_t n) { return n ? random() % n : 0; };
  for (size_t i = 1 + below(4); i-- > 0;) {
    switch (below(6)) {
      case 0:
        if (!s.empty()) s[below(s.size())] = static_cast<char>(random());
        break;
      case 1:
        if (!s.empty()) s[below(s.size())] ^= static_cast<char>(1u << below(8));
        break;
      case 2:
        s.resize(below(s.size() + 1));
        break;
      case 3:
        s.insert(below(s.size() + 1), 1 + below(8), static_cast<char>(random()));
        break;
      case 4:
        s.erase(below(s.size() + 1), 1 + below(8));
        break;
      default:
        if (s.size() >= 4)
          s.replace(below(s.size() - 3), 4, random() % 2 ? std::string(4, '\xff') : number(below(300), 4));
    }
  }
  return s;
}

// Every mutated file is read, or refused with Error(Parse); the sanitizers see to the rest.
void fuzz(const std::string& file, int rounds, const std::function<void(const std::string&)>& read) {
  std::mt19937 random(1);
  int refused = 0, taken = 0;
  for (int i = 0; i < rounds; i++) {
    const std::string s = mutated(file, random);
    try {
      read(s);
      taken++;
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ErrorCode::Parse) << e.what();
      refused++;
    }
  }
  EXPECT_GT(refused, rounds / 2);
  EXPECT_GT(taken, 0);
}

TEST(SavedFormat, MutatedSafetensorsAreReadOrRefused) {
  fuzz(kFile, 20'000, [](const std::string& s) {
    for (const SafetensorsEntry& e : parse_safetensors(s).entries) {
      ASSERT_GE(e.data.data(), s.data());
      ASSERT_LE(e.data.data() + e.data.size(), s.data() + s.size());
      decode(e, true);
    }
  });
}

TEST(SavedFormat, MutatedZipsAreReadOrRefused) {
  const std::string npy = npy_header(DType::I32, {2}) + "12345678";
  fuzz(zip({{"a.npy", npy}, {"b.npy", npy, true}}, true), 20'000, [](const std::string& s) {
    for (const ZipMember& m : read_zip(s)) parse_npy(m.data);
  });
}

}  // namespace
}  // namespace uopc
