// The IDX format of the MNIST family, gzip-compressed: big-endian header, then unsigned bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

struct IdxArray {
  std::vector<int64_t> shape;
  std::vector<uint8_t> data;
};

// Throws std::runtime_error that names the file and what is wrong with it.
IdxArray read_idx_gz(const std::string& path);
