// Several values over the same rows as one loop program, so that what one hands to the next stays in the cache:
//
//   for each block of rows:  { v1 of the block -> scratch;  v2 of it, which reads the scratch -> ..;  .. -> out }
//
// Rows are the elements of the first `axes` axes, which all values have in common; a block is `block` rows of the last
// one of these. A value may be read by later ones of its own row only (`row_groups` checks).
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "uopc/opts.hpp"
#include "uopc/uop.hpp"

namespace uopc {

struct RowStage {
  UOp value;
  UOp into;   // the BUFFER that later values read it from, or the kernel's output for the last stage
  Opts opts;  // of `value` as a kernel of its own; upcast on no axis of rows but the last
  // The stage whose elements it may overwrite: of the same shape and dtype, read last here, at the same element.
  std::optional<size_t> over;
};

// Throws Error(NotImplemented) and Error(Type) as `lower` does.
UOp lower_rows(std::span<const RowStage> stages, size_t axes, int64_t block, bool threads);

}  // namespace uopc
