// The functions of a module: one a region, made line by line.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/llvm/arith.hpp"
#include "codegen/llvm/emit.hpp"
#include "codegen/llvm/lanes.hpp"
#include "codegen/llvm/parallel.hpp"
#include "codegen/llvm/regions.hpp"
#include "ir/bounds.hpp"
#include "ir/walk.hpp"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "uopc/kernel.hpp"

namespace uopc::codegen {

struct ModuleState {
  llvm::LLVMContext& context;
  llvm::Module& module;
  const Linearized& program;
  const Regions& regions;
  const EmitOptions& options;
  const MathTarget& math;
  const std::string& name;
  Bounds bounds{};
  Lanes lanes{};
  NodeMap<unsigned> buffer_index{0};  // place in the kernel's argument
  std::vector<char> written{};        // by that place
  bool uses_openmp = false;
};

struct RegionFunction {
  llvm::Function* function;
  bool may_stop;    // it may return a status from OutOfMemory on
  bool may_report;  // it may return another status than Ok
};

constexpr int32_t code(KernelStatus s) {
  return static_cast<int32_t>(s);
}

class FunctionEmitter {
 public:
  FunctionEmitter(ModuleState& m, int region)
      : m_(m), region_(m.regions.list[region]), b_(m.context), arith_(b_, m.math, m.options.strict_float) {
    if (m.options.strict_float) return;
    llvm::FastMathFlags flags;
    flags.setAllowReassoc();
    flags.setNoSignedZeros();
    flags.setAllowContract();
    b_.setFastMathFlags(flags);
  }

  RegionFunction run(const std::string& name);

 private:
  struct Loop {
    llvm::BasicBlock *body, *exit;
    llvm::PHINode* counter;
    llvm::Value* end;
    bool reduces;
  };

  // Frame: memory that passes values to and from the functions cut out of this one.
  void make_function(const std::string& name);
  void make_memory();
  void take_inputs();
  void emit_lines();
  void emit_child(int child);
  void open(UOp range);
  void close();
  void open_lanes(const Lanes::Loop& loop);

  llvm::Value* word_address(llvm::Value* frame, uint64_t word) {
    return b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), frame, word);
  }
  llvm::Value* slot_address(llvm::Value* frame, unsigned slot) { return word_address(frame, kFrameValues + slot); }
  void define(UOp u, llvm::Value* v);
  llvm::Value* lookup(UOp u);
  llvm::Type* held_type(UOp u);

  bool is_named(UOp u) const { return u.is(Op::Range) || m_.program.has_line(u); }
  // Values that are kept as i64: counters and exact sums and products of i32, which is what indices are made of. In
  // lanes they are i32, and what an address needs of them is their value in the first lane.
  bool is_wide(UOp u) {
    if (m_.lanes.varies(u)) return false;
    if (u.is(Op::Range)) return true;
    return u.dtype() == DType::I32 && (u.is(Op::Add) || u.is(Op::Mul)) && m_.bounds.exact(u);
  }
  llvm::Value* value(UOp u);    // of the type of its dtype, or a vector of that where it varies
  llvm::Value* compute(UOp u);  // the same of an ALU op that is not looked up
  llvm::Value* wide(UOp u);     // an i32 as i64
  llvm::Value* compute_wide(UOp u);
  llvm::Value* address(UOp load_or_store);
  llvm::Value* cell_address(UOp memory, llvm::Value* index);

  llvm::Value* splat(llvm::Value* v);  // in all lanes, a vector as it is
  llvm::Value* first_lane(UOp u);      // an i32 of a stride, as i64
  llvm::Value* lane_index(llvm::Value* indices, const Cell& cell, int64_t lane);
  llvm::Value* load_lanes(UOp load);
  llvm::Value* load_row(llvm::FixedVectorType* type, llvm::Value* p, llvm::Align align);
  void store_row(llvm::Value* v, llvm::Value* p, llvm::Align align);
  llvm::Value* active_lanes();
  // The lanes of the loop, in stretches of a power of two: part(first, count).
  template <class Part>
  void each_part(Part&& part) {
    for (int64_t first = 0; first < lanes_->active;) {
      const auto n = static_cast<int64_t>(std::bit_floor(uint64_t(lanes_->active - first)));
      part(first, n);
      first += n;
    }
  }
  struct SquarePlace {
    size_t square;
    int64_t copy;
  };
  void find_squares(const Lanes::Loop& loop);
  llvm::Value* load_of_square(UOp load, const SquarePlace& place);
  void store_lanes(UOp store);
  llvm::Type* memory_type(DType d) { return d == DType::Bool ? b_.getInt8Ty() : value_type(m_.context, d); }
  // A word at the top of the function, zero at first.
  llvm::Value* make_word(llvm::Type* type, const char* name) {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    auto& entry = fn_->getEntryBlock();
    b_.SetInsertPoint(&entry, entry.begin());
    auto* word = b_.CreateAlloca(type, nullptr, name);
    b_.CreateStore(llvm::Constant::getNullValue(type), word);
    return word;
  }
  void raise_status(llvm::Value* status) {
    if (!status_) status_ = make_word(b_.getInt32Ty(), "status");
    llvm::Value* old = b_.CreateLoad(b_.getInt32Ty(), status_);
    b_.CreateStore(b_.CreateSelect(b_.CreateICmpSGT(status, old), status, old), status_);
  }

  ModuleState& m_;
  const Region& region_;
  llvm::IRBuilder<> b_;
  Arith arith_;
  llvm::Function* fn_ = nullptr;
  llvm::BasicBlock* exit_ = nullptr;
  NodeMap<llvm::Value*> env_;
  NodeMap<unsigned> slot_of_, outer_slot_;
  llvm::Value *frame_ = nullptr, *outer_frame_ = nullptr, *kernel_buffers_ = nullptr, *context_ = nullptr;
  llvm::Value *status_ = nullptr, *dummy_ = nullptr, *heap_ = nullptr;
  llvm::Value *begin_ = nullptr, *end_ = nullptr;  // of a Thread region
  std::vector<Loop> loops_;
  const Lanes::Loop* lanes_ = nullptr;              // that the line at hand is in
  NodeMap<llvm::Value*> first_lane_;                // of values with a name
  std::vector<std::vector<llvm::Value*>> squares_;  // the vectors of each copy, once loaded
  NodeMap<SquarePlace> square_of_;
  bool may_stop_ = false, may_report_ = false;
};

}  // namespace uopc::codegen
