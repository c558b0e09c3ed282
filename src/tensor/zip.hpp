// Zip files, as much of them as .npz needs: stored and deflated members, no encryption, no zip64 directory.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace uopc {

struct ZipMember {
  std::string name;
  std::string data;
};

// The members of a whole file, in the order of its directory. Throws Error(Parse). Sizes are believed only as far as
// the compressed data can reach; checksums are compared.
std::vector<ZipMember> read_zip(std::string_view file);

struct ZipPart {
  std::string name;
  std::vector<std::string_view> data;  // one after the other
};

// Stored members as parts to be written one after the other. `heads` owns what stands between the data. Throws
// Error(Type) for names given twice and for more than zip without zip64 can hold.
struct ZipParts {
  std::vector<std::string> heads;
  std::vector<std::string_view> parts;
  explicit ZipParts(const std::vector<ZipPart>& members);
  ZipParts(const ZipParts&) = delete;
  ZipParts& operator=(const ZipParts&) = delete;
};

}  // namespace uopc
