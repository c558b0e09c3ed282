// EXP2, LOG2 and SIN of f32 as IR, for a float and for any vector of floats.
//
// Errors over the whole range, subnormals included: 1, 1.5 and 2 ulp. Specials are exact: infinities, NaN, zeros of
// both signs, powers of two. No instruction here carries a fast-math flag: reassociation would delete the rounding
// tricks and merge the split constants.
#pragma once

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace uopc::codegen {

// What code depends on beside LLVM's own knowledge of the CPU.
struct MathTarget {
  bool has_fma = false;     // else a fused multiply-add is a double's product and sum, which no libcall needs
  bool has_scalef = false;  // llvm.ldexp is one instruction
  bool has_masks = false;   // loads and stores of some lanes are one instruction, of elements of any size
  unsigned max_lanes = 4;   // of f32 in a register: the widest vector form of a function
};

llvm::Value* emit_exp2(llvm::IRBuilderBase& b, llvm::Value* x, const MathTarget& target);
llvm::Value* emit_log2(llvm::IRBuilderBase& b, llvm::Value* x, const MathTarget& target);

// A call of the module's own sin function, made at first use together with vector forms that the loop vectorizer finds:
// the branch to the reduction of huge arguments keeps it from being inline.
llvm::Value* emit_sin(llvm::IRBuilderBase& b, llvm::Value* x, const MathTarget& target);

}  // namespace uopc::codegen
