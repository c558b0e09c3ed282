#include "codegen/llvm/arith.hpp"

#include <bit>
#include <string>

#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "uopc/error.hpp"

namespace uopc::codegen {

using llvm::Value;

llvm::Type* value_type(llvm::LLVMContext& context, DType d) {
  switch (d) {
    case DType::Bool:
      return llvm::Type::getInt1Ty(context);
    case DType::I32:
      return llvm::Type::getInt32Ty(context);
    case DType::F32:
      return llvm::Type::getFloatTy(context);
    case DType::F16:
      return llvm::Type::getHalfTy(context);
    case DType::Void:
      break;
  }
  throw Error(ErrorCode::Internal, "a value of dtype void reached code generation");
}

namespace {

// `type`, or as many of it as x has lanes.
llvm::Type* lanes_like(Value* x, llvm::Type* type) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return vector ? llvm::FixedVectorType::get(type, vector->getNumElements()) : type;
}

// The number in each lane of x's type.
llvm::Constant* number(Value* x, int32_t n) {
  return llvm::ConstantInt::getSigned(x->getType(), n);
}

}  // namespace

Arith::Arith(llvm::IRBuilderBase& b, const MathTarget& math, bool strict_float)
    : b_(b), math_(math), strict_float_(strict_float) {}

Value* Arith::constant(Scalar v, DType d) {
  llvm::Type* type = value_type(b_.getContext(), d);
  switch (d) {
    case DType::Bool:
      return b_.getInt1(v.as_bool());
    case DType::I32:
      return b_.getInt32(static_cast<uint32_t>(v.as_int()));
    default:
      break;
  }
  llvm::APFloat f(static_cast<float>(v.as_float()));
  bool inexact;
  if (d == DType::F16) f.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return llvm::ConstantFP::get(type, f);
}

// Conversions carry no flags: a rounding to f16 is part of the program's meaning.
Value* Arith::cast(Value* x, DType from, DType to) {
  if (from == to) return x;
  llvm::Type* type = lanes_like(x, value_type(b_.getContext(), to));
  llvm::Type* f32 = lanes_like(x, b_.getFloatTy());
  llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
  b_.clearFastMathFlags();
  switch (to) {
    case DType::Bool:
      if (from == DType::I32) return b_.CreateICmpNE(x, number(x, 0));
      return b_.CreateFCmpUNE(x, llvm::ConstantFP::get(x->getType(), 0.0));
    case DType::I32:
      if (from == DType::Bool) return b_.CreateZExt(x, type);
      if (from == DType::F16) x = b_.CreateFPExt(x, f32);
      return b_.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {type, x->getType()}, {x});
    default:
      break;
  }
  if (from == DType::Bool) return b_.CreateUIToFP(x, type);
  // An i32 that f32 must round is beyond f16 in any case, so rounding twice is rounding once.
  if (from == DType::I32) return cast(b_.CreateSIToFP(x, f32), DType::F32, to);
  return to == DType::F32 ? b_.CreateFPExt(x, type) : b_.CreateFPTrunc(x, type);
}

Value* Arith::unary(Op op, DType d, Value* x) {
  if (op == Op::Recip) {
    // With flags x * (1 / y) would become x / y, a division a turn of a loop that y does not change in.
    llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
    b_.clearFastMathFlags();
    return b_.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1.0), x);
  }
  // For f16 the f32 function, rounded, is within half an ulp and a little; of SQRT it is the correctly rounded one.
  if (d == DType::F16) return cast(unary(op, DType::F32, cast(x, d, DType::F32)), DType::F32, d);
  switch (op) {
    case Op::Sqrt:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
    case Op::Exp2:
      return emit_exp2(b_, x, math_);
    case Op::Log2:
      return emit_log2(b_, x, math_);
    case Op::Sin:
      return emit_sin(b_, x, math_);
    default:
      break;
  }
  throw Error(ErrorCode::Internal, std::string(name(op)) + " is no unary op");
}

Value* Arith::floor_divide(Op op, Value* x, Value* y, const IntFacts& facts) {
  const bool div = op == Op::FloorDiv;
  auto* zero = number(x, 0);
  if (facts.divisor) {
    const int32_t c = *facts.divisor;
    if (c == 0) return zero;
    if (c == -1) return div ? b_.CreateSub(zero, x) : static_cast<Value*>(zero);
    if (c > 0 && std::has_single_bit(static_cast<uint32_t>(c)))
      return div ? b_.CreateAShr(x, std::countr_zero(static_cast<uint32_t>(c))) : b_.CreateAnd(x, number(x, c - 1));
    if (c > 0 && facts.numerator_nonnegative) return div ? b_.CreateUDiv(x, y) : b_.CreateURem(x, y);
  }
  // 0 and -1 are taken out first: both divisions by them that trap, and x // 0 = x % 0 = 0.
  Value *divisor = y, *special = nullptr, *is_zero = nullptr;
  if (!facts.divisor) {
    is_zero = b_.CreateICmpEQ(y, zero);
    special = b_.CreateOr(is_zero, b_.CreateICmpEQ(y, number(y, -1)));
    divisor = b_.CreateSelect(special, number(y, 1), y);
  }
  Value* r = b_.CreateSRem(x, divisor);
  Value* adjust = b_.CreateAnd(b_.CreateICmpNE(r, zero), b_.CreateICmpSLT(b_.CreateXor(r, divisor), zero));
  if (!div) {
    Value* m = b_.CreateSelect(adjust, b_.CreateAdd(r, divisor), r);
    return special ? b_.CreateSelect(special, zero, m) : m;  // by 1 instead of -1 the remainder is 0 already
  }
  Value* q = b_.CreateAdd(b_.CreateSDiv(x, divisor), b_.CreateSExt(adjust, x->getType()));
  if (!special) return q;
  return b_.CreateSelect(special, b_.CreateSelect(is_zero, zero, b_.CreateSub(zero, x)), q);
}

Value* Arith::binary(Op op, DType d, Value* x, Value* y, const IntFacts& facts) {
  // Contraction would leave out a rounding to f16.
  llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
  if (d == DType::F16 && !strict_float_) {
    llvm::FastMathFlags flags = b_.getFastMathFlags();
    flags.setAllowContract(false);
    b_.setFastMathFlags(flags);
  }
  const bool real = is_float(d), truth = d == DType::Bool;
  switch (op) {
    case Op::Add:
      if (truth) return b_.CreateOr(x, y);
      return real ? b_.CreateFAdd(x, y) : b_.CreateAdd(x, y, "", false, facts.no_wrap);
    case Op::Mul:
      if (truth) return b_.CreateAnd(x, y);
      return real ? b_.CreateFMul(x, y) : b_.CreateMul(x, y, "", false, facts.no_wrap);
    case Op::Max:
      if (truth) return b_.CreateOr(x, y);
      return where(real ? b_.CreateFCmpOGT(x, y) : b_.CreateICmpSGT(x, y), x, y);
    case Op::CmpLt:
      if (truth) return b_.CreateAnd(b_.CreateNot(x), y);
      return real ? b_.CreateFCmpOLT(x, y) : b_.CreateICmpSLT(x, y);
    case Op::CmpNe:
      return real ? b_.CreateFCmpUNE(x, y) : b_.CreateICmpNE(x, y);
    case Op::FloorDiv:
    case Op::FloorMod:
      return floor_divide(op, x, y, facts);
    default:
      break;
  }
  throw Error(ErrorCode::Internal, std::string(name(op)) + " is no binary op");
}

// No flags either: a choice is not arithmetic.
Value* Arith::where(Value* condition, Value* x, Value* y) {
  llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
  b_.clearFastMathFlags();
  return b_.CreateSelect(condition, x, y);
}

}  // namespace uopc::codegen
