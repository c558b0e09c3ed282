// Loops that run as vectors: where lanes come from, and how they get to and from memory.
#include <numeric>

#include "codegen/llvm/function_emitter.hpp"

namespace uopc::codegen {

using llvm::Value;

void FunctionEmitter::open_lanes(const Lanes::Loop& loop) {
  lanes_ = &loop;
  std::vector<llvm::Constant*> counters;
  for (int64_t k = 0; k < loop.width; k++) counters.push_back(b_.getInt32(static_cast<uint32_t>(k)));
  env_[loop.range] = llvm::ConstantVector::get(counters);
  first_lane_[loop.range] = b_.getInt64(0);
  find_squares(loop);
}

Value* FunctionEmitter::splat(Value* v) {
  return v->getType()->isVectorTy() ? v : b_.CreateVectorSplat(static_cast<unsigned>(lanes_->width), v);
}

Value* FunctionEmitter::first_lane(UOp u) {
  if (!m_.lanes.varies(u)) return wide(u);
  if (Value* const* known = first_lane_.find(u)) return *known;
  Value *x = first_lane(u.src(0)), *y = first_lane(u.src(1));
  return u.is(Op::Add) ? b_.CreateNSWAdd(x, y) : b_.CreateNSWMul(x, y);
}

// The index of one lane as i64.
Value* FunctionEmitter::lane_index(Value* indices, const Cell& cell, int64_t lane) {
  if (!indices)
    return b_.CreateNSWAdd(first_lane(cell.index),
                           b_.getInt64(static_cast<uint64_t>(lane * m_.lanes.stride(cell.index))));
  Value* i = b_.CreateExtractElement(indices, static_cast<uint64_t>(lane));
  return b_.CreateSExt(i, b_.getInt64Ty());
}

// The lanes that a loop does not have are zero.
Value* FunctionEmitter::load_row(llvm::FixedVectorType* type, Value* p, llvm::Align align) {
  if (lanes_->full()) return b_.CreateAlignedLoad(type, p, align);
  if (m_.math.has_masks) return b_.CreateMaskedLoad(type, p, align, active_lanes(), llvm::Constant::getNullValue(type));
  Value* v = llvm::Constant::getNullValue(type);
  each_part([&](int64_t first, int64_t n) {
    auto* part = llvm::FixedVectorType::get(type->getElementType(), static_cast<unsigned>(n));
    Value* at = b_.CreateConstInBoundsGEP1_64(type->getElementType(), p, static_cast<uint64_t>(first));
    std::vector<int> spread(static_cast<size_t>(lanes_->width), llvm::PoisonMaskElem), merged(spread.size());
    std::iota(spread.begin(), spread.begin() + n, 0);
    std::iota(merged.begin(), merged.end(), 0);
    std::iota(merged.begin() + first, merged.begin() + first + n, static_cast<int>(lanes_->width));
    v = b_.CreateShuffleVector(v, b_.CreateShuffleVector(b_.CreateAlignedLoad(part, at, align), spread), merged);
  });
  return v;
}

void FunctionEmitter::store_row(Value* v, Value* p, llvm::Align align) {
  if (lanes_->full()) {
    b_.CreateAlignedStore(v, p, align);
  } else if (m_.math.has_masks) {
    b_.CreateMaskedStore(v, p, align, active_lanes());
  } else {
    each_part([&](int64_t first, int64_t n) {
      Value* at = b_.CreateConstInBoundsGEP1_64(v->getType()->getScalarType(), p, static_cast<uint64_t>(first));
      std::vector<int> part(static_cast<size_t>(n));
      std::iota(part.begin(), part.end(), static_cast<int>(first));
      b_.CreateAlignedStore(b_.CreateShuffleVector(v, part), at, align);
    });
  }
}

Value* FunctionEmitter::active_lanes() {
  std::vector<llvm::Constant*> mask;
  for (int64_t k = 0; k < lanes_->width; k++) mask.push_back(b_.getInt1(k < lanes_->active));
  return llvm::ConstantVector::get(mask);
}

Value* FunctionEmitter::load_lanes(UOp load) {
  const Cell& cell = m_.program.cell(load);
  llvm::Type* element = memory_type(load.dtype());
  auto* type = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_->width));
  const llvm::Align align(itemsize(load.dtype()));
  const int64_t stride = m_.lanes.stride(cell.index);
  Value* v;
  if (m_.lanes.copies(cell.memory) > 1) {
    v = b_.CreateAlignedLoad(type, lookup(cell.memory), llvm::Align(64));
  } else if (const SquarePlace* place = square_of_.find(load)) {
    v = load_of_square(load, *place);
  } else if (stride == 1) {
    v = load_row(type, cell_address(cell.memory, first_lane(cell.index)), align);
  } else {
    Value* indices = stride == Lanes::kIrregular ? value(cell.index) : nullptr;
    v = llvm::Constant::getNullValue(type);
    for (int64_t k = 0; k < lanes_->active; k++) {
      Value* p = cell_address(cell.memory, lane_index(indices, cell, k));
      v = b_.CreateInsertElement(v, b_.CreateAlignedLoad(element, p, align), static_cast<uint64_t>(k));
    }
  }
  return load.dtype() == DType::Bool ? b_.CreateICmpNE(v, llvm::Constant::getNullValue(type)) : v;
}

void FunctionEmitter::store_lanes(UOp store) {
  const Cell& cell = m_.program.cell(store);
  const DType d = store.src(1).dtype();
  Value* v = splat(value(store.src(1)));
  if (d == DType::Bool)
    v = b_.CreateZExt(v, llvm::FixedVectorType::get(b_.getInt8Ty(), static_cast<unsigned>(lanes_->width)));
  const llvm::Align align(itemsize(d));
  const int64_t stride = m_.lanes.stride(cell.index);
  if (m_.lanes.copies(cell.memory) > 1) {
    b_.CreateAlignedStore(v, lookup(cell.memory), llvm::Align(64));
  } else if (stride == 1) {
    store_row(v, cell_address(cell.memory, first_lane(cell.index)), align);
  } else {
    for (int64_t k = 0; k < lanes_->active; k++)
      b_.CreateAlignedStore(b_.CreateExtractElement(v, static_cast<uint64_t>(k)),
                            cell_address(cell.memory, lane_index(nullptr, cell, k)), align);
  }
}

}  // namespace uopc::codegen
