// Values and addresses. Expressions are at most kMaxInlineDepth deep.
#include <bit>

#include "codegen/llvm/function_emitter.hpp"
#include "llvm/IR/MDBuilder.h"
#include "uopc/error.hpp"

namespace uopc::codegen {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Value;

namespace {

UOp constant_divisor(UOp u) {
  return (u.is(Op::FloorDiv) || u.is(Op::FloorMod)) && u.src(1).is_const() ? u.src(1) : UOp();
}

}  // namespace

Value* FunctionEmitter::value(UOp u) {
  if (u.is_const()) return arith_.constant(u.value(), u.dtype());
  if (!is_named(u)) return compute(u);
  Value* v = lookup(u);
  return is_wide(u) ? b_.CreateTrunc(v, b_.getInt32Ty(), "", /*IsNUW=*/false, /*IsNSW=*/true) : v;
}

Value* FunctionEmitter::compute(UOp u) {
  if (u.is(Op::Wmma)) throw Error(ErrorCode::NotImplemented, "WMMA: no back end computes it");
  if (!kAlu.has(u.op()))
    throw Error(ErrorCode::Internal, std::string(name(u.op())) + " stands in a loop program as a value");
  const auto part = [&](size_t k) { return m_.lanes.varies(u) ? splat(value(u.src(k))) : value(u.src(k)); };
  Value* x = part(0);
  const DType d = u.src(0).dtype();
  if (u.is(Op::Cast)) return arith_.cast(x, d, u.dtype());
  if (kUnary.has(u.op())) return arith_.unary(u.op(), d, x);
  Value* y = part(1);
  if (u.is(Op::Where)) return arith_.where(x, y, part(2));
  IntFacts facts;
  if (d == DType::I32) {
    facts.no_wrap = (u.is(Op::Add) || u.is(Op::Mul)) && m_.bounds.exact(u);
    if (const UOp c = constant_divisor(u)) facts.divisor = static_cast<int32_t>(c.value().as_int());
    facts.numerator_nonnegative = m_.bounds.of(u.src(0)).lo >= 0;
  }
  return arith_.binary(u.op(), d, x, y, facts);
}

Value* FunctionEmitter::wide(UOp u) {
  if (u.is_const())
    return b_.getInt64(static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(u.value().as_int()))));
  if (!is_named(u)) return compute_wide(u);
  Value* v = lookup(u);
  return is_wide(u) ? v : b_.CreateSExt(v, b_.getInt64Ty());
}

Value* FunctionEmitter::compute_wide(UOp u) {
  if (is_wide(u)) {
    Value *x = wide(u.src(0)), *y = wide(u.src(1));
    return u.is(Op::Add) ? b_.CreateNSWAdd(x, y) : b_.CreateNSWMul(x, y);
  }
  const bool nonnegative = m_.bounds.of(u).lo >= 0;
  if (const UOp c = constant_divisor(u); c && m_.bounds.of(u.src(0)).lo >= 0) {
    const int64_t n = c.value().as_int();
    if (n > 0 && n <= INT32_MAX && (n & (n - 1)) == 0) {
      Value* x = wide(u.src(0));
      return u.is(Op::FloorMod) ? b_.CreateAnd(x, b_.getInt64(n - 1)) : b_.CreateLShr(x, std::countr_zero(uint64_t(n)));
    }
  }
  Value* v = value(u);
  return nonnegative ? b_.CreateZExt(v, b_.getInt64Ty(), "", /*IsNonNeg=*/true) : b_.CreateSExt(v, b_.getInt64Ty());
}

Value* FunctionEmitter::cell_address(UOp memory, Value* index) {
  Value* p = lookup(memory);
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(index);
  return constant && constant->isZero() ? p : b_.CreateInBoundsGEP(memory_type(memory.arg<ParamArg>().dtype), p, index);
}

Value* FunctionEmitter::address(UOp load_or_store) {
  const auto& [memory, index] = m_.program.cell(load_or_store);
  const auto& arg = memory.arg<ParamArg>();
  Value* i = wide(index);
  Value* p = cell_address(memory, i);
  if (!m_.options.check_bounds) return p;
  const Interval known = m_.bounds.of(index);
  if (known.empty() || (known.lo >= 0 && known.hi < arg.shape[0])) return p;
  may_report_ = true;
  auto *before = b_.GetInsertBlock(), *outside = BasicBlock::Create(m_.context, "outside", fn_),
       *next = BasicBlock::Create(m_.context, "next", fn_);
  auto* unlikely = llvm::MDBuilder(m_.context).createUnlikelyBranchWeights();
  b_.CreateCondBr(b_.CreateICmpUGE(i, b_.getInt64(arg.shape[0])), outside, next, unlikely);
  b_.SetInsertPoint(outside);
  auto* ptr = b_.getPtrTy();
  auto* i64 = b_.getInt64Ty();
  auto tell = m_.module.getOrInsertFunction("uopc.index_error", b_.getVoidTy(), ptr, i64, i64, i64);
  Value* context = context_ ? context_ : b_.CreateLoad(ptr, word_address(outer_frame_, kFrameContext));
  auto* call = b_.CreateCall(tell, {context, b_.getInt64(arg.slot), i, b_.getInt64(arg.shape[0])});
  call->addFnAttr(llvm::Attribute::Cold);
  call->setDoesNotThrow();
  raise_status(b_.getInt32(code(KernelStatus::IndexOutOfRange)));
  b_.CreateBr(next);
  // The access goes on, to a place of its own.
  if (!dummy_) dummy_ = make_word(b_.getInt64Ty(), "dummy");
  b_.SetInsertPoint(next);
  auto* safe = b_.CreatePHI(ptr, 2);
  safe->addIncoming(p, before);
  safe->addIncoming(dummy_, outside);
  return safe;
}

}  // namespace uopc::codegen
