#include "tensor/zip.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <unordered_set>

#include "ir/py_text.hpp"
#include "uopc/error.hpp"

namespace uopc {
namespace {

constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kMaxComment = 65535;
constexpr std::string_view kLocal("PK\3\4", 4), kCentral("PK\1\2", 4), kEnd("PK\5\6", 4), kEnd64("PK\6\7", 4);
constexpr uint32_t kNoSize = 0xffffffff;  // the size stands in a zip64 field
constexpr uint64_t kMaxRatio = 1032;      // of deflate
constexpr uint32_t kEncrypted = 1, kSizesFollow = 8, kUtf8 = 0x800;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Parse, message);
}

uint32_t little(std::string_view bytes, size_t at, size_t width) {
  uint32_t out = 0;
  for (size_t i = width; i-- > 0;) out = out << 8 | static_cast<uint8_t>(bytes[at + i]);
  return out;
}

void put(std::string& out, uint32_t v, size_t width) {
  for (size_t i = 0; i < width; i++) out += static_cast<char>(v >> (8 * i) & 0xff);
}

std::string shown(std::string_view name) {
  return name.size() <= 80 ? py_repr(name) : py_repr(name.substr(0, 77)) + "..";
}

uint32_t crc_of(std::string_view data, uint32_t crc = 0) {
  if (data.empty()) return crc;  // zlib takes a null pointer for the wish to start anew
  return static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

// Exactly `size` bytes out of all of `packed`.
std::string inflated(std::string_view packed, size_t size, const std::string& name) {
  z_stream z{};
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) throw Error(ErrorCode::Run, "zlib could not start");
  struct End {
    z_stream* z;
    ~End() { inflateEnd(z); }
  } end{&z};
  // One byte more, so that data which goes on past `size` is seen.
  std::string out(size + 1, '\0');
  size_t in_at = 0, out_at = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    const auto in = static_cast<uInt>(std::min<size_t>(packed.size() - in_at, 1u << 30));
    const auto room = static_cast<uInt>(std::min<size_t>(out.size() - out_at, 1u << 30));
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + in_at));
    z.avail_in = in;
    z.next_out = reinterpret_cast<Bytef*>(out.data() + out_at);
    z.avail_out = room;
    status = inflate(&z, Z_NO_FLUSH);
    in_at += in - z.avail_in;
    out_at += room - z.avail_out;
  }
  if (status != Z_STREAM_END || in_at != packed.size() || out_at != size)
    fail(fmt::format("member {}: its deflated data is damaged or not of {} bytes", shown(name), size));
  out.resize(size);
  return out;
}

struct Entry {
  std::string name;
  uint32_t method, crc, packed_size, size, offset;
  size_t begin = 0;  // of the data
};

// Where the end record stands: it closes the file, with a comment of the length that it gives.
size_t find_end(std::string_view file) {
  if (file.size() < kEndSize) fail(fmt::format("not a zip file: {} bytes", file.size()));
  const size_t last = file.size() - kEndSize, first = last > kMaxComment ? last - kMaxComment : 0;
  for (size_t at = last + 1; at-- > first;)
    if (file.substr(at, 4) == kEnd && little(file, at + 20, 2) == file.size() - at - kEndSize) return at;
  fail("not a zip file, or not whole: its end record is missing");
}

Entry read_central(std::string_view file, size_t& at, size_t limit) {
  if (limit - at < kCentralSize || file.substr(at, 4) != kCentral)
    fail(fmt::format("the directory is damaged at byte {}", at));
  const uint32_t flags = little(file, at + 8, 2);
  Entry e{.name = {},
          .method = little(file, at + 10, 2),
          .crc = little(file, at + 16, 4),
          .packed_size = little(file, at + 20, 4),
          .size = little(file, at + 24, 4),
          .offset = little(file, at + 42, 4)};
  const size_t name_size = little(file, at + 28, 2);
  const size_t whole = kCentralSize + name_size + little(file, at + 30, 2) + little(file, at + 32, 2);
  if (whole > limit - at) fail(fmt::format("the directory is damaged at byte {}", at));
  e.name = file.substr(at + kCentralSize, name_size);
  at += whole;
  if (flags & kEncrypted) fail(fmt::format("member {} is encrypted", shown(e.name)));
  if (e.method != 0 && e.method != Z_DEFLATED)
    fail(fmt::format("member {} is packed by method {}; stored and deflated ones are read", shown(e.name), e.method));
  if (e.packed_size == kNoSize || e.size == kNoSize || e.offset == kNoSize)
    fail(fmt::format("member {} needs zip64 (4 GiB or more), which is not read", shown(e.name)));
  if (e.method == 0 ? e.size != e.packed_size : e.size > (uint64_t{e.packed_size} + 1) * kMaxRatio)
    fail(fmt::format("member {} cannot have {} bytes: {} are stored", shown(e.name), e.size, e.packed_size));
  return e;
}

// The local header repeats the directory, and says where the data begins.
void read_local(std::string_view file, Entry& e, size_t limit) {
  const size_t at = e.offset;
  if (at > limit || limit - at < kLocalSize || file.substr(at, 4) != kLocal)
    fail(fmt::format("member {}: no header at byte {}", shown(e.name), at));
  const uint32_t flags = little(file, at + 6, 2), crc = little(file, at + 14, 4), packed = little(file, at + 18, 4),
                 size = little(file, at + 22, 4);
  const size_t name_size = little(file, at + 26, 2), extra_size = little(file, at + 28, 2);
  const size_t head = kLocalSize + name_size + extra_size;
  if (limit - at < head || limit - at - head < e.packed_size)
    fail(fmt::format("member {}: its {} bytes go past the directory", shown(e.name), e.packed_size));
  const bool differs = !(flags & kSizesFollow) && (crc != e.crc || (packed != e.packed_size && packed != kNoSize) ||
                                                   (size != e.size && size != kNoSize));
  if (differs || (flags & kEncrypted) || little(file, at + 8, 2) != e.method ||
      file.substr(at + kLocalSize, name_size) != e.name)
    fail(fmt::format("member {}: its header and the directory differ", shown(e.name)));
  e.begin = at + head;
}

}  // namespace

std::vector<ZipMember> read_zip(std::string_view file) {
  const size_t end = find_end(file);
  const uint32_t count = little(file, end + 10, 2), directory_size = little(file, end + 12, 4),
                 directory = little(file, end + 16, 4);
  if ((end >= 20 && file.substr(end - 20, 4) == kEnd64) || count == 0xffff || directory == kNoSize)
    fail("it needs zip64 (4 GiB or more, or 65535 members), which is not read");
  if (little(file, end + 4, 2) != 0 || little(file, end + 6, 2) != 0 || little(file, end + 8, 2) != count)
    fail("it is one part of several");
  if (directory > end || end - directory != directory_size)
    fail(fmt::format("the directory of {} bytes at byte {} does not end at the end record", directory_size, directory));

  std::vector<Entry> entries;
  std::unordered_set<std::string> names;
  size_t at = directory;
  for (uint32_t i = 0; i < count; i++) {
    entries.push_back(read_central(file, at, end));
    if (!names.insert(entries.back().name).second)
      fail(fmt::format("member {} occurs twice", shown(entries.back().name)));
  }
  if (at != end) fail("the directory holds more than its members");
  for (Entry& e : entries) read_local(file, e, directory);

  // Members that share bytes could make much of a small file.
  std::vector<const Entry*> order;
  for (const Entry& e : entries) order.push_back(&e);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); i++)
    if (order[i]->offset < order[i - 1]->begin + order[i - 1]->packed_size)
      fail(fmt::format("members {} and {} overlap", shown(order[i - 1]->name), shown(order[i]->name)));

  std::vector<ZipMember> out;
  for (Entry& e : entries) {
    const std::string_view packed = file.substr(e.begin, e.packed_size);
    std::string data = e.method == 0 ? std::string(packed) : inflated(packed, e.size, e.name);
    if (crc_of(data) != e.crc) fail(fmt::format("member {}: its checksum is wrong", shown(e.name)));
    out.push_back({std::move(e.name), std::move(data)});
  }
  return out;
}

ZipParts::ZipParts(const std::vector<ZipPart>& members) {
  const auto too_much = [](const char* what) {
    throw Error(ErrorCode::Type, fmt::format("{} in one .npz file; save_safetensors has no such limit", what));
  };
  if (members.size() >= 0xffff) too_much("65535 tensors or more");
  heads.reserve(members.size() + 1);  // the parts point into them
  std::unordered_set<std::string_view> names;
  std::string directory;
  uint64_t at = 0;
  for (const ZipPart& m : members) {
    if (!names.insert(m.name).second) throw Error(ErrorCode::Type, fmt::format("{} names two members", shown(m.name)));
    if (m.name.size() > 0xffff) throw Error(ErrorCode::Type, fmt::format("{} is too long a name", shown(m.name)));
    uint64_t size = 0;
    uint32_t crc = 0;
    for (std::string_view part : m.data) {
      size += part.size();
      crc = crc_of(part, crc);
    }
    if (at + size + kLocalSize + m.name.size() >= kNoSize) too_much("4 GiB or more");
    // From "version needed" to the length of the extra field, both headers are alike.
    std::string common;
    put(common, 20, 2);
    put(common, kUtf8, 2);
    put(common, 0, 2);           // stored
    put(common, 0, 2);           // 00:00:00
    put(common, 1 << 5 | 1, 2);  // 1980-01-01: equal tensors make equal files
    put(common, crc, 4);
    put(common, static_cast<uint32_t>(size), 4);
    put(common, static_cast<uint32_t>(size), 4);
    put(common, static_cast<uint32_t>(m.name.size()), 2);
    put(common, 0, 2);
    directory += kCentral;
    put(directory, 20, 2);  // made by
    directory += common;
    put(directory, 0, 2);  // comment
    put(directory, 0, 2);  // disk
    put(directory, 0, 2);  // attributes
    put(directory, 0, 4);
    put(directory, static_cast<uint32_t>(at), 4);
    directory += m.name;

    parts.push_back(heads.emplace_back(std::string(kLocal) + common + m.name));
    parts.insert(parts.end(), m.data.begin(), m.data.end());
    at += parts[parts.size() - 1 - m.data.size()].size() + size;
  }
  if (at + directory.size() >= kNoSize) too_much("4 GiB or more");
  const auto directory_size = static_cast<uint32_t>(directory.size());
  directory += kEnd;
  put(directory, 0, 4);
  put(directory, static_cast<uint32_t>(members.size()), 2);
  put(directory, static_cast<uint32_t>(members.size()), 2);
  put(directory, directory_size, 4);
  put(directory, static_cast<uint32_t>(at), 4);
  put(directory, 0, 2);
  parts.push_back(heads.emplace_back(std::move(directory)));
}

}  // namespace uopc
