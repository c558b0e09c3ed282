#include "codegen/llvm/math.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"

namespace uopc::codegen {
namespace {

using llvm::Value;

// IRBuilder over f32 values of one shape, scalar or vector, without fast-math flags.
class Lanes {
 public:
  Lanes(llvm::IRBuilderBase& b, Value* like, const MathTarget& target) : b_(b), guard_(b), target_(target) {
    b_.clearFastMathFlags();
    if (auto* v = llvm::dyn_cast<llvm::FixedVectorType>(like->getType())) lanes_ = v->getNumElements();
  }

  llvm::Type* type(llvm::Type* scalar) const { return lanes_ ? llvm::FixedVectorType::get(scalar, lanes_) : scalar; }
  llvm::Type* f32() const { return type(b_.getFloatTy()); }
  llvm::Type* f64() const { return type(b_.getDoubleTy()); }
  llvm::Type* i32() const { return type(b_.getInt32Ty()); }
  llvm::Type* i64() const { return type(b_.getInt64Ty()); }
  Value* f(float v) const { return llvm::ConstantFP::get(f32(), llvm::APFloat(v)); }
  Value* d(double v) const { return llvm::ConstantFP::get(f64(), llvm::APFloat(v)); }
  Value* i(int32_t v) const { return llvm::ConstantInt::getSigned(i32(), v); }
  Value* l(int64_t v) const { return llvm::ConstantInt::getSigned(i64(), v); }

  Value* bits(Value* x) const { return b_.CreateBitCast(x, i32()); }
  Value* from_bits(Value* x) const { return b_.CreateBitCast(x, f32()); }
  Value* abs(Value* x) const { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }

  Value* fma(Value* x, Value* y, Value* z) const {
    if (target_.has_fma) return b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
    // The product is exact; the sum is rounded twice, which costs at most 2^-29 ulp.
    auto wide = [&](Value* v) { return b_.CreateFPExt(v, f64()); };
    return b_.CreateFPTrunc(b_.CreateFAdd(b_.CreateFMul(wide(x), wide(y)), wide(z)), f32());
  }
  // Horner, highest coefficient first.
  Value* poly(Value* x, std::initializer_list<float> coefficients) const {
    Value* p = nullptr;
    for (float c : coefficients) p = p ? fma(p, x, f(c)) : f(c);
    return p;
  }

  llvm::IRBuilderBase& b() const { return b_; }
  unsigned lanes() const { return lanes_; }

 private:
  llvm::IRBuilderBase& b_;
  llvm::IRBuilderBase::FastMathFlagGuard guard_;
  const MathTarget& target_;
  unsigned lanes_ = 0;
};

// Adding and subtracting it rounds to an integer, which the low bits of the sum then are.
constexpr float kRound = 0x1.8p23f;
constexpr double kRound64 = 0x1.8p52;

// ---- sin -----------------------------------------------------------------------------------------------------------

// n = round(x * 2/pi) and r = x - n * pi/2, for 0 <= x < kSmall: pi/2 in three parts, the first product exact.
constexpr float kSmall = 30000.0f;

struct Reduced {
  Value* n;  // i32, right modulo 4
  Value* r;  // f32 in [-pi/4, pi/4]
};

Reduced reduce_small(const Lanes& m, Value* x) {
  auto& b = m.b();
  Value* k = m.fma(x, m.f(0x1.45f306p-1f), m.f(kRound));
  Value* n = m.bits(k);
  k = b.CreateFNeg(b.CreateFSub(k, m.f(kRound)));
  Value* r = m.fma(k, m.f(0x1.921fb6p+0f), x);
  r = m.fma(k, m.f(-0x1.777a5cp-25f), r);
  r = m.fma(k, m.f(-0x1.ee59dap-50f), r);
  return {n, r};
}

// The first 256 bits of 2/pi.
constexpr uint64_t kTwoOverPi[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561};

uint64_t two_over_pi_bits(int first, int count) {  // bit 1 has weight 1/2
  uint64_t v = 0;
  for (int i = first; i < first + count; i++) v = v << 1 | (kTwoOverPi[(i - 1) / 64] >> (63 - (i - 1) % 64) & 1);
  return v;
}

// For x = M * 2^(e-23), M an integer of 24 bits, x * 2/pi = M * (hi + lo) modulo 4, where hi has 29 bits, so that M *
// hi is exact in a double, and lo the 53 bits below. The nearest a float comes to a multiple of pi/2 is 2^-30 of it;
// the error of M * (hi + lo) is 2^-56.
constexpr int kFirstExponent = 14, kLastExponent = 127;

llvm::GlobalVariable* two_over_pi_table(llvm::Module& module) {
  constexpr const char* kName = "uopc.two_over_pi";
  if (auto* g = module.getNamedGlobal(kName)) return g;
  std::vector<double> values;
  for (int e = kFirstExponent; e <= kLastExponent; e++) {
    const int first = std::max(1, e - 24);  // bits of weight 4 and above fall away
    values.push_back(std::ldexp(static_cast<double>(two_over_pi_bits(first, 29)), e - 23 - (first + 28)));
    values.push_back(std::ldexp(static_cast<double>(two_over_pi_bits(first + 29, 53)), e - 23 - (first + 81)));
  }
  auto* init = llvm::ConstantDataArray::get(module.getContext(), values);
  auto* g = new llvm::GlobalVariable(module, init->getType(), true, llvm::GlobalValue::InternalLinkage, init, kName);
  g->setAlignment(llvm::Align(8));
  return g;
}

Value* load_table(const Lanes& m, llvm::GlobalVariable* table, Value* index) {
  auto& b = m.b();
  Value* p = b.CreateGEP(b.getDoubleTy(), table, index);
  if (!m.lanes()) return b.CreateLoad(b.getDoubleTy(), p);
  return b.CreateMaskedGather(m.f64(), p, llvm::Align(8));
}

Reduced reduce_large(const Lanes& m, Value* x, llvm::Module& module) {
  auto& b = m.b();
  Value* u = m.bits(x);
  Value* e = b.CreateSub(b.CreateLShr(u, m.i(23)), m.i(127 + kFirstExponent));
  // Infinities and NaN have exponent 128, small lanes of a mixed vector a low one: any entry does for them.
  e = b.CreateSelect(b.CreateICmpULT(e, m.i(kLastExponent - kFirstExponent + 1)), e, m.i(0));
  Value* mantissa = b.CreateOr(b.CreateAnd(u, m.i(0x7fffff)), m.i(0x800000));
  Value* M = b.CreateSIToFP(mantissa, m.f64());
  Value* at = b.CreateShl(b.CreateZExt(e, m.i64()), m.l(1));
  auto* table = two_over_pi_table(module);
  Value* hi = load_table(m, table, at);
  Value* lo = load_table(m, table, b.CreateOr(at, m.l(1)));
  Value* a = b.CreateFMul(M, hi);
  Value* c = b.CreateFMul(M, lo);
  Value* k = b.CreateFAdd(b.CreateFAdd(a, c), m.d(kRound64));
  Value* n = b.CreateTrunc(b.CreateBitCast(k, m.i64()), m.i32());
  k = b.CreateFSub(k, m.d(kRound64));
  Value* r = b.CreateFAdd(b.CreateFSub(a, k), c);
  r = b.CreateFMul(r, m.d(0x1.921fb54442d18p+0));
  return {n, b.CreateFPTrunc(r, m.f32())};
}

void emit_sin_body(llvm::Function* fn, const MathTarget& target) {
  auto& context = fn->getContext();
  Value* x = fn->getArg(0);
  auto* entry = llvm::BasicBlock::Create(context, "entry", fn);
  auto* large = llvm::BasicBlock::Create(context, "large", fn);
  auto* done = llvm::BasicBlock::Create(context, "done", fn);
  llvm::IRBuilder<> b(entry);
  const Lanes m(b, x, target);

  Value* ax = m.abs(x);
  Value* is_small = b.CreateFCmpOLT(ax, m.f(kSmall));
  const Reduced s = reduce_small(m, ax);
  Value* all_small = m.lanes() ? b.CreateAndReduce(is_small) : is_small;
  b.CreateCondBr(all_small, done, large);

  b.SetInsertPoint(large);
  const Reduced big = reduce_large(m, ax, *fn->getParent());
  Value* n_mixed = b.CreateSelect(is_small, s.n, big.n);
  Value* r_mixed = b.CreateSelect(is_small, s.r, big.r);
  b.CreateBr(done);

  b.SetInsertPoint(done);
  auto* n = b.CreatePHI(m.i32(), 2);
  n->addIncoming(s.n, entry);
  n->addIncoming(n_mixed, large);
  auto* r = b.CreatePHI(m.f32(), 2);
  r->addIncoming(s.r, entry);
  r->addIncoming(r_mixed, large);

  Value* t = b.CreateFMul(r, r);
  Value* sin_r = m.fma(b.CreateFMul(r, t), m.poly(t, {-0x1.9954a4p-13f, 0x1.11077ap-7f, -0x1.555546p-3f}), r);
  Value* cos_r = m.poly(t, {0x1.99e0eep-16f, -0x1.6c0c1ap-10f, 0x1.55554ap-5f, -0.5f, 1.0f});
  Value* odd = b.CreateICmpNE(b.CreateAnd(n, m.i(1)), m.i(0));
  Value* y = b.CreateSelect(odd, cos_r, sin_r);
  Value* sign = b.CreateXor(b.CreateShl(b.CreateAnd(n, m.i(2)), m.i(30)),
                            b.CreateAnd(m.bits(x), m.i(std::numeric_limits<int32_t>::min())));
  y = m.from_bits(b.CreateXor(m.bits(y), sign));
  Value* finite = b.CreateFCmpOLT(ax, m.f(std::numeric_limits<float>::infinity()));
  b.CreateRet(b.CreateSelect(finite, y, b.CreateFSub(x, x)));
}

llvm::Function* sin_function(llvm::Module& module, const MathTarget& target, unsigned lanes) {
  const std::string name = lanes ? "uopc.sin.v" + std::to_string(lanes) + "f32" : "uopc.sin.f32";
  if (auto* fn = module.getFunction(name)) return fn;
  auto& context = module.getContext();
  llvm::Type* type = llvm::Type::getFloatTy(context);
  if (lanes) type = llvm::FixedVectorType::get(type, lanes);
  auto* fn = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false), llvm::GlobalValue::InternalLinkage,
                                    name, module);
  fn->setDoesNotAccessMemory();
  fn->setDoesNotThrow();
  fn->addFnAttr(llvm::Attribute::WillReturn);
  fn->addFnAttr(llvm::Attribute::NoInline);
  emit_sin_body(fn, target);
  return fn;
}

}  // namespace

Value* emit_exp2(llvm::IRBuilderBase& b, Value* x, const MathTarget& target) {
  const Lanes m(b, x, target);
  // 2^x is 0 below -150 and infinite from 128 on; the comparisons send NaN to the lower end.
  Value* c = b.CreateSelect(b.CreateFCmpOGT(x, m.f(-152.0f)), x, m.f(-152.0f));
  c = b.CreateSelect(b.CreateFCmpOLT(c, m.f(129.0f)), c, m.f(129.0f));
  Value* k = b.CreateFAdd(c, m.f(kRound));
  Value* n = b.CreateSub(m.bits(k), m.i(std::bit_cast<int32_t>(kRound)));
  Value* t = b.CreateFSub(c, b.CreateFSub(k, m.f(kRound)));
  Value* p = m.poly(
      t, {0x1.4bcd60p-13f, 0x1.5fbfb4p-10f, 0x1.3b21c6p-7f, 0x1.c6ada6p-5f, 0x1.ebfbe6p-3f, 0x1.62e432p-1f, 1.0f});
  if (target.has_scalef) {
    p = b.CreateIntrinsic(llvm::Intrinsic::ldexp, {m.f32(), m.i32()}, {p, n});
  } else {
    // In two steps, so that neither power leaves the range; the first product is exact.
    auto power = [&](Value* e) { return m.from_bits(b.CreateShl(b.CreateAdd(e, m.i(127)), m.i(23))); };
    Value* half = b.CreateAShr(n, m.i(1));
    p = b.CreateFMul(b.CreateFMul(p, power(half)), power(b.CreateSub(n, half)));
  }
  return b.CreateSelect(b.CreateFCmpUNO(x, x), b.CreateFAdd(x, x), p);
}

Value* emit_log2(llvm::IRBuilderBase& b, Value* x, const MathTarget& target) {
  const Lanes m(b, x, target);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr int32_t kSqrtHalf = 0x3f3504f3;
  // x = 2^e * m with m in [sqrt(1/2), sqrt(2)).
  Value* subnormal = b.CreateFCmpOLT(x, m.f(0x1p-126f));
  Value* u = m.bits(b.CreateSelect(subnormal, b.CreateFMul(x, m.f(0x1p23f)), x));
  Value* v = b.CreateSub(u, m.i(kSqrtHalf));
  Value* e = b.CreateAdd(b.CreateAShr(v, m.i(23)), b.CreateSelect(subnormal, m.i(-23), m.i(0)));
  Value* f = b.CreateFSub(m.from_bits(b.CreateAdd(b.CreateAnd(v, m.i(0x7fffff)), m.i(kSqrtHalf))), m.f(1.0f));
  // log2(1 + f) = f * hi + f * (lo + f * P(f)), hi + lo = log2(e): the last fma is the one rounding that counts.
  Value* p = m.poly(f, {-0x1.ce4e60p-4f, 0x1.803f16p-3f, -0x1.8645b8p-3f, 0x1.a27ab8p-3f, -0x1.eaccb2p-3f,
                        0x1.27822cp-2f, -0x1.715a38p-2f, 0x1.ec7086p-2f, -0x1.715472p-1f});
  Value* rest = b.CreateFMul(f, m.fma(f, p, m.f(0x1.4ae0cp-26f)));
  Value* y = b.CreateFAdd(b.CreateSIToFP(e, m.f32()), m.fma(f, m.f(0x1.715476p+0f), rest));
  y = b.CreateSelect(b.CreateFCmpOEQ(x, m.f(kInf)), x, y);
  y = b.CreateSelect(b.CreateFCmpOEQ(x, m.f(0.0f)), m.f(-kInf), y);
  Value* invalid = b.CreateFCmpULT(x, m.f(0.0f));
  return b.CreateSelect(invalid, m.f(std::numeric_limits<float>::quiet_NaN()), y);
}

Value* emit_sin(llvm::IRBuilderBase& b, Value* x, const MathTarget& target) {
  auto& module = *b.GetInsertBlock()->getModule();
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  auto* fn = sin_function(module, target, vector ? vector->getNumElements() : 0);
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  auto* call = b.CreateCall(fn, {x});
  if (!vector) {
    std::string variants;
    for (unsigned lanes = 4; lanes <= target.max_lanes; lanes *= 2) {
      auto* form = sin_function(module, target, lanes);
      variants += (variants.empty() ? "_ZGV_LLVM_N" : ",_ZGV_LLVM_N") + std::to_string(lanes) + "v_" +
                  fn->getName().str() + "(" + form->getName().str() + ")";
    }
    call->addFnAttr(llvm::Attribute::get(call->getContext(), "vector-function-abi-variant", variants));
  }
  return call;
}

}  // namespace uopc::codegen
