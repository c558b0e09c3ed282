// The structure of a graph as a key: equal for graphs that differ only in the slots of their BUFFERs.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "uopc/uop.hpp"

namespace uopc {

// Words that two lists of roots share if and only if they are equal once each BUFFER's slot is replaced by its place in
// `buffers`. Also of graphs in different Graphs.
struct Structure {
  std::vector<uint32_t> words;
  std::vector<UOp> buffers;  // by first use in post-order over the roots
};

Structure structure(std::span<const UOp> roots);

uint64_t hash_words(std::span<const uint32_t> words);

}  // namespace uopc
