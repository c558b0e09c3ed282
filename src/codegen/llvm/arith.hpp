// What each ALU op means on the machine: the value table of docs/semantics.md as instructions.
#pragma once
#include <cstdint>
#include <optional>

#include "codegen/llvm/math.hpp"
#include "uopc/dtype.hpp"
#include "uopc/op.hpp"

namespace llvm {
class Type;
class LLVMContext;
}  // namespace llvm

namespace uopc::codegen {

// What is known of the operands of an i32 op.
struct IntFacts {
  bool no_wrap = false;  // the sum or product is exact
  bool numerator_nonnegative = false;
  std::optional<int32_t> divisor;  // of FLOORDIV and FLOORMOD, when constant
};

// bool is i1, f16 is half.
llvm::Type* value_type(llvm::LLVMContext& context, DType d);

class Arith {
 public:
  Arith(llvm::IRBuilderBase& b, const MathTarget& math, bool strict_float);

  llvm::Value* constant(Scalar v, DType d);
  llvm::Value* cast(llvm::Value* x, DType from, DType to);
  llvm::Value* unary(Op op, DType d, llvm::Value* x);
  llvm::Value* binary(Op op, DType d, llvm::Value* x, llvm::Value* y, const IntFacts& facts = {});  // d of the operands
  llvm::Value* where(llvm::Value* condition, llvm::Value* x, llvm::Value* y);

 private:
  llvm::Value* floor_divide(Op op, llvm::Value* x, llvm::Value* y, const IntFacts& facts);

  llvm::IRBuilderBase& b_;
  const MathTarget& math_;
  bool strict_float_;
};

}  // namespace uopc::codegen
