#include "common/idx_gz.hpp"

#include <zlib.h>

#include <memory>
#include <stdexcept>

IdxArray read_idx_gz(const std::string& path) {
  const auto fail = [&](const char* why) { throw std::runtime_error(path + ": " + why); };
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) fail("cannot be opened (Debian package dataset-fashion-mnist)");
  const auto read = [&](void* to, size_t n) {
    if (gzread(file.get(), to, static_cast<unsigned>(n)) != static_cast<int>(n)) fail("ends too early");
  };
  uint8_t magic[4];
  read(magic, 4);
  constexpr uint8_t kUnsignedByte = 8;
  if (magic[0] || magic[1] || magic[2] != kUnsignedByte || magic[3] < 1 || magic[3] > 4)
    fail("is no IDX file of unsigned bytes");
  IdxArray out;
  int64_t size = 1;
  for (int i = 0; i < magic[3]; i++) {
    uint8_t d[4];
    read(d, 4);
    out.shape.push_back(int64_t{d[0]} << 24 | d[1] << 16 | d[2] << 8 | d[3]);
    if (__builtin_mul_overflow(size, out.shape.back(), &size) || size > (int64_t{1} << 30)) fail("is too large");
  }
  out.data.resize(static_cast<size_t>(size));
  read(out.data.data(), out.data.size());
  return out;
}
