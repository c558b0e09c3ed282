// What ALU ops compute on constants. `exec_alu` (passes.hpp) is the appendix's table to the letter; `run_alu` is what a
// program computes when it runs (docs/semantics.md). They differ in corners, and a folded constant is always run_alu's,
// so that a program means the same whether or not an operand was known early.
#pragma once
#include <optional>
#include <span>

#include "uopc/dtype.hpp"
#include "uopc/op.hpp"

namespace uopc {

// `v` as a value of `d`: wrapped to 32 bits, rounded to float or binary16, or its truth. Floats to i32 saturate, NaN is
// 0.
Scalar to_dtype(Scalar v, DType d);

// The run-time value of ALU op `op` with result type `dtype`. `source_dtype` is the type of the operands (of WHERE: of
// the branches, which is `dtype`). Defined for all values: wraps, saturates, x // 0 and x % 0 are 0.
Scalar run_alu(Op op, DType dtype, DType source_dtype, std::span<const Scalar> values);

// The constant that the simplifier may put in place of the op: run_alu's value where exec_alu folds. Never of f16,
// which has no CONST.
std::optional<Scalar> fold(Op op, DType dtype, DType source_dtype, std::span<const Scalar> values);

}  // namespace uopc
