#include "tensor/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "ir/py_text.hpp"
#include "uopc/error.hpp"

namespace uopc {
namespace {

static_assert(std::endian::native == std::endian::little, "the arrays of a file are little-endian");

constexpr size_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr size_t kMaxRank = 64;
constexpr std::string_view kMetadata = "__metadata__";

struct Element {
  std::string_view name;
  uint64_t bytes;
};
constexpr Element kElements[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                                 {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                                 {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Parse, message);
}

// A name that a file gives may be long, or hold anything.
std::string shown(std::string_view name) {
  return name.size() <= 80 ? py_repr(name) : py_repr(name.substr(0, 77)) + "..";
}

// Bytes of an array; nothing where 63 bits cannot say it, whether or not an axis is empty.
std::optional<uint64_t> byte_count(const Shape& shape, uint64_t itemsize) {
  auto n = static_cast<int64_t>(itemsize);
  bool empty = false;
  for (int64_t size : shape) {
    if (size == 0)
      empty = true;
    else if (__builtin_mul_overflow(n, size, &n))
      return std::nullopt;
  }
  return empty ? 0 : static_cast<uint64_t>(n);
}

struct RawEntry {
  std::string name, dtype;
  Shape shape;
  std::vector<uint64_t> offsets;
};

// Takes the header's JSON as it is read, so that depth, names given twice and numbers are judged where they stand.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<RawEntry> entries;
  std::map<std::string, std::string> metadata;

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a bool"); }
  bool number_integer(int64_t v) override { unexpected(fmt::format("the number {}", v)); }
  bool number_float(double, const std::string& text) override {
    unexpected("the number " + std::string(std::string_view(text).substr(0, 40)));
  }
  bool number_unsigned(uint64_t v) override {
    if (place_ == Place::Shape) {
      if (v > INT64_MAX) unexpected(fmt::format("the number {}", v));
      if (entries.back().shape.size() == kMaxRank) fail(fmt::format("{} has more than {} axes", current(), kMaxRank));
      entries.back().shape.push_back(static_cast<int64_t>(v));
    } else if (place_ == Place::Offsets && entries.back().offsets.size() < 2) {
      entries.back().offsets.push_back(v);
    } else {
      unexpected(fmt::format("the number {}", v));
    }
    return true;
  }
  bool string(std::string& v) override {
    if (place_ == Place::MetadataValue) {
      metadata[key_] = v;
      place_ = Place::Metadata;
    } else if (place_ == Place::Dtype) {
      entries.back().dtype = v;
      place_ = Place::Entry;
    } else {
      unexpected("a string");
    }
    return true;
  }
  bool binary(nlohmann::json::binary_t&) override { unexpected("binary data"); }

  bool start_object(size_t) override {
    if (place_ == Place::Start) {
      place_ = Place::Top;
    } else if (place_ == Place::TopValue) {
      const bool is_metadata = key_ == kMetadata;
      place_ = is_metadata ? Place::Metadata : Place::Entry;
      if (!is_metadata) entries.push_back({.name = key_, .dtype = {}, .shape = {}, .offsets = {}});
      has_dtype_ = has_shape_ = has_offsets_ = false;
    } else {
      unexpected("an object");
    }
    return true;
  }
  bool end_object() override {
    if (place_ == Place::Entry && !(has_dtype_ && has_shape_ && has_offsets_))
      fail(fmt::format("{} has no {}", current(), !has_dtype_ ? "dtype" : !has_shape_ ? "shape" : "data_offsets"));
    place_ = place_ == Place::Top ? Place::End : Place::Top;
    return true;
  }
  bool key(std::string& v) override {
    if (place_ == Place::Top) {
      if (!names_.insert(v).second) fail(fmt::format("{} occurs twice in the header", shown(v)));
      place_ = Place::TopValue;
    } else if (place_ == Place::Metadata) {
      if (metadata.contains(v)) fail(fmt::format("{} occurs twice in the metadata", shown(v)));
      place_ = Place::MetadataValue;
    } else {
      bool* seen = v == "dtype" ? &has_dtype_ : v == "shape" ? &has_shape_ : &has_offsets_;
      if (*seen || (seen == &has_offsets_ && v != "data_offsets"))
        fail(fmt::format("{} has an unknown or second key {}", current(), shown(v)));
      *seen = true;
      place_ = v == "dtype" ? Place::Dtype : v == "shape" ? Place::ShapeValue : Place::OffsetsValue;
      return true;
    }
    key_ = v;
    return true;
  }
  bool start_array(size_t) override {
    if (place_ != Place::ShapeValue && place_ != Place::OffsetsValue) unexpected("a list");
    place_ = place_ == Place::ShapeValue ? Place::Shape : Place::Offsets;
    return true;
  }
  bool end_array() override {
    if (place_ == Place::Offsets && entries.back().offsets.size() != 2)
      fail(fmt::format("data_offsets of {} are no two numbers", current()));
    place_ = Place::Entry;
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
    fail(fmt::format("the header is not JSON in UTF-8 at its byte {}", at));
  }

 private:
  enum class Place {
    Start,
    Top,
    TopValue,
    Metadata,
    MetadataValue,
    Entry,
    Dtype,
    ShapeValue,
    Shape,
    OffsetsValue,
    Offsets,
    End
  };

  std::string current() const { return shown(entries.back().name); }

  [[noreturn]] void unexpected(const std::string& what) const {
    switch (place_) {
      case Place::TopValue:
        fail(fmt::format("{} is {} where an object is expected", shown(key_), what));
      case Place::Metadata:
      case Place::MetadataValue:
        fail(fmt::format("the metadata {} is {}; only strings are expected", shown(key_), what));
      case Place::Dtype:
        fail(fmt::format("the dtype of {} is {}; a string is expected", current(), what));
      case Place::ShapeValue:
      case Place::Shape:
        fail(fmt::format("the shape of {} has {}; a list of sizes of 0 or more is expected", current(), what));
      case Place::OffsetsValue:
      case Place::Offsets:
        fail(fmt::format("data_offsets of {} have {}; two numbers of 0 or more are expected", current(), what));
      default:
        fail(fmt::format("the header holds {} where an object is expected", what));
    }
  }

  Place place_ = Place::Start;
  std::string key_;
  std::unordered_set<std::string> names_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
};

// Every byte of the data in one array.
void check_cover(const std::vector<RawEntry>& entries, uint64_t size) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return entries[a].offsets < entries[b].offsets; });
  uint64_t at = 0;
  for (size_t i : order) {
    const RawEntry& e = entries[i];
    if (e.offsets[0] != at)
      fail(fmt::format("{} begins at byte {} of the data, where the array before it ends at byte {}: {}", shown(e.name),
                       e.offsets[0], at, e.offsets[0] < at ? "they overlap" : "a hole"));
    at = e.offsets[1];
  }
  if (at != size) fail(fmt::format("{} bytes follow the last array", size - at));
}

template <class From, class To, class Convert>
void convert_each(std::string_view data, std::vector<std::byte>& out, Convert convert) {
  out.resize(data.size() / sizeof(From) * sizeof(To));
  for (size_t i = 0; i * sizeof(From) < data.size(); i++) {
    From from;
    std::memcpy(&from, data.data() + i * sizeof from, sizeof from);
    const To to = convert(from);
    std::memcpy(&out[i * sizeof to], &to, sizeof to);
  }
}

std::string json_string(const std::string& text, const char* what) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::Type, fmt::format("{} {} is not UTF-8", what, shown(text)));
  }
}

}  // namespace

Safetensors parse_safetensors(std::string_view file) {
  if (file.size() < 8)
    fail(fmt::format("not a safetensors file: {} bytes, of which 8 give the header's length", file.size()));
  uint64_t length;
  std::memcpy(&length, file.data(), 8);
  if (length > kMaxHeader)
    fail(fmt::format("not a safetensors file: the header would have {} bytes, more than {}", length, kMaxHeader));
  file.remove_prefix(8);
  if (length > file.size()) fail(fmt::format("the file ends within its header: {} of {} bytes", file.size(), length));
  const std::string_view text = file.substr(0, length), data = file.substr(length);
  // The JSON reader would skip a byte order mark, and take a 0 for the end.
  if (!text.starts_with('{')) fail("not a safetensors file: the header does not begin with '{'");
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail(fmt::format("the header is not JSON in UTF-8 at its byte {}", zero + 1));

  HeaderReader reader;
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  for (const RawEntry& e : reader.entries) {
    const auto* element =
        std::find_if(std::begin(kElements), std::end(kElements), [&](const Element& k) { return k.name == e.dtype; });
    if (element == std::end(kElements)) fail(fmt::format("{} has the unknown dtype {}", shown(e.name), shown(e.dtype)));
    const std::optional<uint64_t> want = byte_count(e.shape, element->bytes);
    const uint64_t begin = e.offsets[0], end = e.offsets[1];
    if (begin > end || end > data.size())
      fail(fmt::format("{} has data_offsets [{}, {}], the data has {} bytes", shown(e.name), begin, end, data.size()));
    if (want != end - begin)
      fail(fmt::format("{} of {} and shape {} needs {} bytes, its data_offsets give {}", shown(e.name), e.dtype,
                       py_tuple(e.shape), want ? fmt::to_string(*want) : "more than 2**63", end - begin));
  }
  check_cover(reader.entries, data.size());

  Safetensors out;
  out.metadata = std::move(reader.metadata);
  out.entries.reserve(reader.entries.size());
  for (RawEntry& e : reader.entries)
    out.entries.push_back({std::move(e.name), std::move(e.dtype), std::move(e.shape),
                           data.substr(e.offsets[0], e.offsets[1] - e.offsets[0])});
  return out;
}

NpyArray decode(const SafetensorsEntry& e, bool convert) {
  NpyArray out;
  out.shape = e.shape;
  const auto* first = reinterpret_cast<const std::byte*>(e.data.data());
  if (e.dtype == "BOOL") {
    out.dtype = DType::Bool;
    convert_each<uint8_t, uint8_t>(e.data, out.data, [](uint8_t v) { return static_cast<uint8_t>(v != 0); });
  } else if (e.dtype == "I32" || e.dtype == "F32" || e.dtype == "F16") {
    out.dtype = e.dtype == "I32" ? DType::I32 : e.dtype == "F32" ? DType::F32 : DType::F16;
    out.data.assign(first, first + e.data.size());
  } else if (e.dtype != "BF16" && e.dtype != "F64" && e.dtype != "I64") {
    fail(fmt::format("{} has dtype {}; BOOL, I32, F32 and F16 are read", shown(e.name), e.dtype));
  } else if (!convert) {
    fail(fmt::format("{} has dtype {}; only with `convert` is it read, as {}", shown(e.name), e.dtype,
                     e.dtype == "I64" ? "I32" : "F32"));
  } else if (e.dtype == "BF16") {
    out.dtype = DType::F32;
    convert_each<uint16_t, uint32_t>(e.data, out.data, [](uint16_t v) { return uint32_t{v} << 16; });
  } else if (e.dtype == "F64") {
    out.dtype = DType::F32;
    convert_each<double, float>(e.data, out.data, [](double v) {
      // A cast of what rounds past the largest float is undefined.
      return std::abs(v) >= 0x1.ffffffp127 ? std::copysign(HUGE_VALF, static_cast<float>(v > 0 ? 1 : -1))
                                           : static_cast<float>(v);
    });
  } else {
    out.dtype = DType::I32;
    convert_each<int64_t, int32_t>(e.data, out.data, [&](int64_t v) {
      if (v < INT32_MIN || v > INT32_MAX) fail(fmt::format("{} holds {}, which does not fit I32", shown(e.name), v));
      return static_cast<int32_t>(v);
    });
  }
  return out;
}

SafetensorsParts::SafetensorsParts(const std::vector<NamedArray>& arrays,
                                   const std::map<std::string, std::string>& metadata) {
  std::vector<size_t> order(arrays.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return itemsize(arrays[a].dtype) > itemsize(arrays[b].dtype); });
  std::vector<size_t> begin(arrays.size());
  parts.emplace_back();
  size_t at = 0;
  for (size_t i : order) {
    const NamedArray& a = arrays[i];
    if (a.dtype == DType::Void || byte_count(a.shape, static_cast<uint64_t>(itemsize(a.dtype))) != a.data.size())
      throw Error(ErrorCode::Type, fmt::format("{}: {} bytes are no {} array of shape {}", shown(a.name), a.data.size(),
                                               uopc::name(a.dtype), py_tuple(a.shape)));
    begin[i] = at;
    at += a.data.size();
    parts.push_back(a.data);
  }

  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (text.back() != '{') text += ',';
      text += json_string(key, "the metadata key") + ":" + json_string(value, "the metadata value");
    }
    text += '}';
  }
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < arrays.size(); i++) {
    const NamedArray& a = arrays[i];
    if (a.name == kMetadata || !names.insert(a.name).second)
      throw Error(ErrorCode::Type, fmt::format("{} {}", shown(a.name),
                                               a.name == kMetadata ? "is no name of a tensor" : "names two tensors"));
    const char* dtype = a.dtype == DType::Bool  ? "BOOL"
                        : a.dtype == DType::I32 ? "I32"
                        : a.dtype == DType::F32 ? "F32"
                                                : "F16";
    if (text.size() > 1) text += ',';
    text += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json_string(a.name, "the name"),
                        dtype, fmt::join(a.shape, ","), begin[i], begin[i] + a.data.size());
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeader)
    throw Error(ErrorCode::Type, fmt::format("the header would have {} bytes, more than {}", text.size(), kMaxHeader));
  const uint64_t length = text.size();
  header.resize(8);
  std::memcpy(header.data(), &length, 8);
  header += text;
  parts[0] = header;
}

}  // namespace uopc
