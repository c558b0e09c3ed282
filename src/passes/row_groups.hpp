// Which kernels of a plan become one that goes over their rows (lower_rows.hpp).
//
// A kernel is taken into the group of another one when all that read its result are in the group already, each at its
// own row only. That pays where less memory is moved: what the kernels hand on stays in the cache, and an operand that
// several of them read row by row is read once; on the other hand an operand that does not move with the rows (keys and
// values of an attention) is read again for each block, unless the cache holds it. Where all of it fits into the cache
// anyway, the kernels' forks are saved.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "uopc/opts.hpp"
#include "uopc/uop.hpp"

namespace uopc {

struct RowCandidate {
  UOp value, plain;  // `plain` is `value` lowered without Opts
  Opts opts;
  std::vector<UOp> inputs;  // the BUFFERs behind the slots of `plain`
  UOp place;                // the BUFFER that others read it from; null where it stays a kernel in any case
};
struct RowGroup {
  std::vector<size_t> members;  // at least two, in order; the last one's result is the group's
  // By member: the earlier one, as an index into `members`, whose scratch it may overwrite element by element.
  std::vector<std::optional<size_t>> over;
  size_t axes;
  int64_t block;
  bool threads;
};

// Groups have no members in common.
std::vector<RowGroup> row_groups(std::span<const RowCandidate> kernels, const Machine& machine);

}  // namespace uopc
