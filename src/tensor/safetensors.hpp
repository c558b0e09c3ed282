// The safetensors format, without tensors: a length of 8 bytes, a JSON header, the arrays.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "uopc/npy.hpp"

namespace uopc {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as the file spells it: "F32"
  Shape shape;
  std::string_view data;  // within the file
};

struct Safetensors {
  std::vector<SafetensorsEntry> entries;  // in the order of the header
  std::map<std::string, std::string> metadata;
};

// What a whole file holds. Throws Error(Parse) unless the arrays cover the data once, without a hole or a rest.
Safetensors parse_safetensors(std::string_view file);

// The array of an entry. Throws Error(Parse) for a dtype that uopc has not; BF16, F64 and I64 are converted to F32 and
// I32 if `convert`.
NpyArray decode(const SafetensorsEntry& entry, bool convert);

struct NamedArray {
  std::string name;
  DType dtype;
  Shape shape;
  std::string_view data;
};

// The file as parts to be written one after the other. The widest elements come first, so that all are aligned. Throws
// Error(Type) for a name that is not UTF-8, occurs twice or means something else.
struct SafetensorsParts {
  std::string header;
  std::vector<std::string_view> parts;  // the header is the first
  SafetensorsParts(const std::vector<NamedArray>& arrays, const std::map<std::string, std::string>& metadata);
  SafetensorsParts(const SafetensorsParts&) = delete;
  SafetensorsParts& operator=(const SafetensorsParts&) = delete;
};

}  // namespace uopc
