// The kernel whose compilation is timed: each variant differs in a constant, so that nothing is found in a cache.
#pragma once
#include "uopc/uopc.hpp"

namespace rows {

inline uopc::UOp small_kernel(uopc::Graph& g, int64_t variant) {
  const uopc::UOp x = g.buffer(64 * 256, uopc::DType::F32, 0).reshape({64, 256});
  return uopc::as_program((x * (1.0 + static_cast<double>(variant))).exp2().reduce(uopc::Op::Add, 1));
}

}  // namespace rows
