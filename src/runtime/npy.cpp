#include "uopc/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

#include "ir/half.hpp"
#include "ir/py_text.hpp"
#include "runtime/files.hpp"
#include "uopc/error.hpp"

namespace uopc {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxRank = 64;  // NumPy's own limit
constexpr int64_t kMaxEmptyLists = 1 << 20;
constexpr bool kLittle = std::endian::native == std::endian::little;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Parse, message);
}

struct Header {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
};

// The Python dict that a header is. Only what NumPy writes: string, bool and tuple-of-int values, no nesting.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Header parse() {
    Header h;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (peek() != '}') {
      const std::string key = string("a key");
      expect(':');
      if (key == "descr" && !has_descr) {
        if (peek() == '[') fail("the array is structured; only plain bool, int32, float32 and float16 arrays are read");
        h.descr = string("the descr");
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        h.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        h.shape = shape();
        has_shape = true;
      } else {
        fail(fmt::format("malformed header: key {} is unknown or occurs twice", py_repr(key)));
      }
      if (peek() != '}') expect(',');
    }
    at_++;
    if (peek() != 0) fail("malformed header: text after the closing '}'");
    for (const auto& [has, key] : {std::pair{has_descr, "descr"}, {has_order, "fortran_order"}, {has_shape, "shape"}})
      if (!has) fail(fmt::format("malformed header: no '{}'", key));
    return h;
  }

 private:
  // The next character that is no blank; 0 at the end.
  char peek() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) at_++;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  void expect(char c) {
    if (peek() != c) malformed(fmt::format("'{}'", c));
    at_++;
  }

  [[noreturn]] void malformed(const std::string& wanted) {
    const std::string_view rest = text_.substr(std::min(at_, text_.size()), 20);
    fail(fmt::format("malformed header: expected {}, found {}", wanted, rest.empty() ? "the end" : py_repr(rest)));
  }

  std::string string(const char* what) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') malformed(fmt::format("{} in quotes", what));
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) malformed(fmt::format("{} with a closing quote", what));
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }

  bool boolean() {
    peek();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {"False", false}})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    malformed("True or False");
  }

  Shape shape() {
    Shape out;
    expect('(');
    while (peek() != ')') {
      int64_t n = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
      if (error != std::errc() || n < 0) malformed("a size of 0 or more that fits 64 bits");
      at_ = static_cast<size_t>(end - text_.data());
      if (peek() == 'L') at_++;  // Python 2 wrote long integers so
      out.push_back(n);
      if (out.size() > kMaxRank) fail(fmt::format("malformed header: more than {} axes", kMaxRank));
      if (peek() != ')') expect(',');
    }
    at_++;
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
};

uint32_t little(std::string_view bytes) {
  uint32_t out = 0;
  for (size_t i = bytes.size(); i-- > 0;) out = out << 8 | static_cast<uint8_t>(bytes[i]);
  return out;
}

struct Element {
  DType dtype;
  bool swapped;
};

Element element(const std::string& descr) {
  const std::string code = descr.empty() ? "" : descr.substr(1);
  const char order = descr.empty() ? '|' : descr[0];
  constexpr std::pair<std::string_view, DType> kCodes[] = {
      {"b1", DType::Bool}, {"i4", DType::I32}, {"f4", DType::F32}, {"f2", DType::F16}};
  for (const auto& [text, dtype] : kCodes) {
    if (code != text || std::string_view("<>=|").find(order) == std::string_view::npos) continue;
    if (order == '|' && dtype != DType::Bool) break;
    return {dtype, dtype != DType::Bool && order == (kLittle ? '>' : '<')};
  }
  const char* cure = code == "f8"   ? "; save it with .astype(numpy.float32)"
                     : code == "i8" ? "; save it with .astype(numpy.int32)"
                                    : "";
  fail(fmt::format("the element type is {}; only bool, int32, float32 and float16 are read{}", py_repr(descr), cure));
}

// The bytes of an array of `shape`; nothing where 64 bits cannot say it.
std::optional<size_t> byte_count(const Shape& shape, DType dtype) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t n = itemsize(dtype);
  for (int64_t size : shape)
    if (__builtin_mul_overflow(n, size, &n)) return std::nullopt;
  return static_cast<size_t>(n);
}

void swap_bytes(std::vector<std::byte>& data, size_t width) {
  for (size_t i = 0; i + width <= data.size(); i += width) std::reverse(&data[i], &data[i] + width);
}

// Row-major `data` from column-major: walks the result in order and steps through the source by its strides.
std::vector<std::byte> from_fortran(const std::vector<std::byte>& data, const Shape& shape, size_t width) {
  std::vector<std::byte> out(data.size());
  std::vector<int64_t> index(shape.size()), stride(shape.size());
  int64_t step = static_cast<int64_t>(width);
  for (size_t k = 0; k < shape.size(); k++) {
    stride[k] = step;
    step *= shape[k];
  }
  int64_t from = 0;
  for (size_t to = 0; to < out.size(); to += width) {
    std::memcpy(&out[to], &data[static_cast<size_t>(from)], width);
    for (size_t k = shape.size(); k-- > 0;) {
      from += stride[k];
      if (++index[k] < shape[k]) break;
      from -= stride[k] * shape[k];
      index[k] = 0;
    }
  }
  return out;
}

}  // namespace

NpyArray parse_npy(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) fail("not an .npy file: it does not start with '\\x93NUMPY'");
  if (bytes.size() < 8) fail("the file ends within its header");
  const int major = static_cast<uint8_t>(bytes[6]), minor = static_cast<uint8_t>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0)
    fail(fmt::format("format version {}.{} is unknown; 1.0, 2.0 and 3.0 are read", major, minor));
  const size_t prefix = major == 1 ? 10 : 12;
  if (bytes.size() < prefix) fail("the file ends within its header");
  const size_t header_size = little(bytes.substr(8, prefix - 8));
  if (header_size > bytes.size() - prefix)
    fail(fmt::format("the file ends within its header: {} of {} bytes", bytes.size() - prefix, header_size));
  Header header = HeaderParser(bytes.substr(prefix, header_size)).parse();

  NpyArray out;
  const auto [dtype, swapped] = element(header.descr);
  out.dtype = dtype;
  out.shape = std::move(header.shape);
  const auto width = static_cast<size_t>(itemsize(dtype));
  const size_t have = bytes.size() - prefix - header_size;
  const std::optional<size_t> want = byte_count(out.shape, dtype);
  if (want != have)
    fail(fmt::format("shape {} of {} needs {} bytes of data, the file has {}", py_tuple(out.shape), numpy_name(dtype),
                     want ? fmt::to_string(*want) : "more than 2**63", have));
  bytes.remove_prefix(prefix + header_size);
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  out.data.assign(first, first + bytes.size());
  if (swapped) swap_bytes(out.data, width);
  if (dtype == DType::Bool)
    for (std::byte& b : out.data) b = std::byte{b != std::byte{0}};
  if (header.fortran_order && out.shape.size() > 1) out.data = from_fortran(out.data, out.shape, width);
  return out;
}

std::string npy_header(DType dtype, const Shape& shape) {
  const char* code = dtype == DType::Bool  ? "|b1"
                     : dtype == DType::I32 ? (kLittle ? "<i4" : ">i4")
                     : dtype == DType::F32 ? (kLittle ? "<f4" : ">f4")
                                           : (kLittle ? "<f2" : ">f2");
  if (dtype == DType::Void) throw Error(ErrorCode::Type, "an .npy file cannot hold void elements");
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", code, py_tuple(shape));
  const auto build = [&](size_t length_bytes) {
    const size_t prefix = 8 + length_bytes;
    const size_t total = (prefix + text.size() + 1 + 63) / 64 * 64;  // the data starts at a multiple of 64
    std::string out(kMagic);
    out += static_cast<char>(length_bytes == 2 ? 1 : 2);
    out += '\0';
    for (size_t i = 0; i < length_bytes; i++) out += static_cast<char>((total - prefix) >> (8 * i) & 0xff);
    out += text;
    out.append(total - out.size() - 1, ' ');
    return out + '\n';
  };
  return text.size() + 64 <= 65535 ? build(2) : build(4);
}

NpyArray read_npy(const std::string& path) {
  const std::string bytes = read_file(path);
  try {
    return parse_npy(bytes);
  } catch (const Error& e) {
    throw Error(e.code(), path + ": " + e.what());
  }
}

namespace {

void check_size(DType dtype, const Shape& shape, size_t bytes) {
  if (byte_count(shape, dtype) != bytes)
    throw Error(ErrorCode::Type,
                fmt::format("{} bytes are no {} array of shape {}", bytes, name(dtype), py_tuple(shape)));
}

Scalar element_at(DType dtype, const char* data, int64_t i) {
  const auto get = [&]<class T>(T v) {
    std::memcpy(&v, data + i * static_cast<int64_t>(sizeof v), sizeof v);
    return v;
  };
  switch (dtype) {
    case DType::Bool:
      return data[i] != 0;
    case DType::I32:
      return get(int32_t{});
    case DType::F32:
      return get(float{});
    default:
      return half_to_float(get(uint16_t{}));
  }
}

}  // namespace

void write_npy(const std::string& path, DType dtype, const Shape& shape, BufferRef data) {
  check_size(dtype, shape, data.bytes);
  const std::string header = npy_header(dtype, shape);
  const std::string_view parts[] = {header, {static_cast<const char*>(data.data), data.bytes}};
  write_file(path, parts);
}

PyValue to_python(DType dtype, const Shape& shape, BufferRef data) {
  check_size(dtype, shape, data.bytes);
  if (shape.size() > kMaxRank) throw Error(ErrorCode::Type, fmt::format("more than {} axes", kMaxRank));
  // The data bounds the number of elements, but not the number of empty lists around none.
  int64_t lists = 1;
  for (int64_t size : shape) {
    if (size == 0) break;
    if (__builtin_mul_overflow(lists, size, &lists)) {
      lists = INT64_MAX;
      break;
    }
  }
  if (data.bytes == 0 && lists > kMaxEmptyLists)
    throw Error(ErrorCode::Type, fmt::format("an empty array of shape {} is too long to list", py_tuple(shape)));
  int64_t next = 0;
  const auto build = [&](const auto& self, size_t axis) -> PyValue {
    if (axis == shape.size()) return {element_at(dtype, static_cast<const char*>(data.data), next++)};
    std::vector<PyValue> list;
    list.reserve(static_cast<size_t>(shape[axis]));
    for (int64_t i = 0; i < shape[axis]; i++) list.push_back(self(self, axis + 1));
    return {std::move(list)};
  };
  return build(build, 0);
}

const char* numpy_name(DType d) {
  constexpr const char* kNames[] = {"void", "bool", "int32", "float32", "float16"};
  return kNames[static_cast<int>(d)];
}

}  // namespace uopc
