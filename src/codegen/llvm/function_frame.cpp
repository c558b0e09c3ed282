// A region's function: parameters, scratch memory, and the frame that passes values to and from the functions cut out
// of it.
#include <algorithm>

#include "codegen/llvm/function_emitter.hpp"
#include "uopc/error.hpp"

namespace uopc::codegen {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Value;

namespace {

// Scratch on the stack of the thread that calls; the rest is on the heap.
constexpr uint64_t kStackScratch = 64 << 10;

}  // namespace

RegionFunction FunctionEmitter::run(const std::string& name) {
  make_function(name);
  make_memory();
  take_inputs();
  emit_lines();
  b_.CreateBr(exit_);
  b_.SetInsertPoint(exit_);
  if (heap_) b_.CreateCall(m_.module.getOrInsertFunction("uopc.release", b_.getVoidTy(), b_.getPtrTy()), {heap_});
  b_.CreateRet(status_ ? static_cast<Value*>(b_.CreateLoad(b_.getInt32Ty(), status_)) : b_.getInt32(0));
  return {fn_, may_stop_, may_report_};
}

void FunctionEmitter::make_function(const std::string& name) {
  auto* ptr = b_.getPtrTy();
  std::vector<llvm::Type*> types(region_.buffers.size() + 1, ptr);
  if (region_.kind == Region::Kind::Kernel) types.push_back(ptr);
  if (region_.kind == Region::Kind::Thread) types.insert(types.end(), 2, b_.getInt64Ty());
  fn_ = Function::Create(llvm::FunctionType::get(b_.getInt32Ty(), types, false), llvm::GlobalValue::InternalLinkage,
                         name, m_.module);
  fn_->setDoesNotThrow();
  fn_->addFnAttr(llvm::Attribute::NoInline);
  fn_->addFnAttr("probe-stack", "inline-asm");
  unsigned i = 0;
  for (UOp u : region_.buffers) {
    const auto& arg = u.arg<ParamArg>();
    auto* p = fn_->getArg(i);
    p->setName("data" + std::to_string(arg.slot));
    fn_->addParamAttr(i, llvm::Attribute::NoAlias);
    fn_->addParamAttr(i, llvm::Attribute::getWithAlignment(m_.context, llvm::Align(itemsize(arg.dtype))));
    const unsigned place = m_.buffer_index.at(u);
    if (!m_.written[place]) fn_->addParamAttr(i, llvm::Attribute::ReadOnly);
    const uint64_t bytes = static_cast<uint64_t>(arg.shape[0]) * itemsize(arg.dtype);
    if (bytes) fn_->addParamAttr(i, llvm::Attribute::getWithDereferenceableBytes(m_.context, bytes));
    env_[u] = p;
    i++;
  }
  auto* last = fn_->getArg(i++);
  if (region_.kind == Region::Kind::Kernel) {
    last->setName("buffers");
    kernel_buffers_ = last;
    context_ = fn_->getArg(i);
    context_->setName("context");
  } else {
    last->setName("outer");
    outer_frame_ = last;
  }
  if (region_.kind == Region::Kind::Thread) {
    begin_ = fn_->getArg(i);
    end_ = fn_->getArg(i + 1);
    begin_->setName("begin");
    end_->setName("end");
  }
  auto* entry = BasicBlock::Create(m_.context, "entry", fn_);
  exit_ = BasicBlock::Create(m_.context, "exit", fn_);
  b_.SetInsertPoint(entry);
}

void FunctionEmitter::make_memory() {
  struct Need {
    UOp owner;  // null: the frame
    uint64_t bytes;
  };
  std::vector<Need> needs;
  const bool has_frame = !region_.children.empty();
  if (has_frame) needs.push_back({UOp(), (kFrameValues + region_.slots.size()) * 8});
  for (UOp u : region_.allocs) {
    const auto& arg = u.arg<ParamArg>();
    const int64_t cells = std::max<int64_t>(arg.shape[0], 1) * m_.lanes.copies(u);
    needs.push_back({u, static_cast<uint64_t>(cells) * itemsize(arg.dtype)});
  }
  // The largest go to the heap until the rest fits on the stack.
  std::ranges::stable_sort(needs, {}, &Need::bytes);
  size_t on_stack = 0;
  uint64_t stack_bytes = 0, heap_bytes = 0;
  while (on_stack < needs.size() && stack_bytes + needs[on_stack].bytes + 64 <= kStackScratch)
    stack_bytes += needs[on_stack++].bytes + 64;

  std::vector<std::pair<size_t, uint64_t>> offsets;
  for (size_t i = 0; i < needs.size(); i++) {
    const Need& need = needs[i];
    if (i >= on_stack) {
      offsets.emplace_back(i, heap_bytes);
      heap_bytes += (need.bytes + 63) / 64 * 64;
      continue;
    }
    llvm::Type* type = llvm::ArrayType::get(b_.getInt64Ty(), (need.bytes + 7) / 8);
    if (need.owner) {
      const auto& arg = need.owner.arg<ParamArg>();
      type = memory_type(arg.dtype);
      const int64_t copies = m_.lanes.copies(need.owner);
      if (copies > 1)
        type = llvm::FixedVectorType::get(type, static_cast<unsigned>(copies));
      else if (arg.shape[0] != 1)
        type = llvm::ArrayType::get(type, std::max<int64_t>(arg.shape[0], 1));
    }
    auto* p =
        b_.CreateAlloca(type, nullptr, need.owner ? "acc" + std::to_string(need.owner.arg<ParamArg>().slot) : "frame");
    // Arrays that vector instructions run over begin at a cache line.
    if (need.bytes >= 64 || type->isVectorTy()) p->setAlignment(llvm::Align(64));
    if (need.owner)
      env_[need.owner] = p;
    else
      frame_ = p;
  }
  if (heap_bytes) {
    may_stop_ = may_report_ = true;
    auto* ptr = b_.getPtrTy();
    auto allocate = m_.module.getOrInsertFunction("uopc.allocate", ptr, b_.getInt64Ty());
    auto* call = b_.CreateCall(allocate, {b_.getInt64(heap_bytes)}, "heap");
    call->addRetAttr(llvm::Attribute::NoAlias);
    call->addRetAttr(llvm::Attribute::getWithAlignment(m_.context, llvm::Align(64)));
    heap_ = call;
    auto* failed = BasicBlock::Create(m_.context, "out_of_memory", fn_);
    auto* start = BasicBlock::Create(m_.context, "start", fn_);
    b_.CreateCondBr(b_.CreateICmpEQ(heap_, llvm::ConstantPointerNull::get(ptr)), failed, start);
    b_.SetInsertPoint(failed);
    b_.CreateRet(b_.getInt32(code(KernelStatus::OutOfMemory)));
    b_.SetInsertPoint(start);
    for (const auto& [i, offset] : offsets) {
      Value* p = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), heap_, offset);
      if (needs[i].owner)
        env_[needs[i].owner] = p;
      else
        frame_ = p;
    }
  }
  for (size_t i = 0; i < region_.slots.size(); i++) slot_of_[region_.slots[i]] = static_cast<unsigned>(i);
}

void FunctionEmitter::take_inputs() {
  if (region_.parent >= 0) {
    const auto& slots = m_.regions.list[region_.parent].slots;
    NodeMap<unsigned> of_parent(slots.size());
    for (size_t i = 0; i < slots.size(); i++) of_parent[slots[i]] = static_cast<unsigned>(i);
    auto take = [&](UOp u) { outer_slot_[u] = of_parent.at(u); };
    for (UOp u : region_.inputs) take(u);
    for (UOp u : region_.outputs) take(u);
    if (region_.kind == Region::Kind::Thread)
      for (UOp u : region_.inputs) env_[u] = b_.CreateLoad(held_type(u), slot_address(outer_frame_, outer_slot_.at(u)));
  }
  if (!frame_) return;
  for (auto [word, own] : {std::pair(kFrameBuffers, kernel_buffers_), std::pair(kFrameContext, context_)})
    b_.CreateStore(own ? own : b_.CreateLoad(b_.getPtrTy(), word_address(outer_frame_, word)),
                   word_address(frame_, word));
  for (UOp u : region_.inputs)
    if (const unsigned* s = slot_of_.find(u)) b_.CreateStore(lookup(u), slot_address(frame_, *s));
  for (UOp u : region_.allocs)
    if (const unsigned* s = slot_of_.find(u)) b_.CreateStore(env_.at(u), slot_address(frame_, *s));
}

llvm::Type* FunctionEmitter::held_type(UOp u) {
  if (u.is(Op::Alloc)) return b_.getPtrTy();
  return is_wide(u) ? b_.getInt64Ty() : value_type(m_.context, u.dtype());
}

void FunctionEmitter::define(UOp u, Value* v) {
  env_[u] = v;
  if (const unsigned* s = slot_of_.find(u)) b_.CreateStore(v, slot_address(frame_, *s));
  if (const unsigned* s = outer_slot_.find(u)) b_.CreateStore(v, slot_address(outer_frame_, *s));
}

Value* FunctionEmitter::lookup(UOp u) {
  if (Value* const* v = env_.find(u)) return *v;
  if (const unsigned* s = outer_slot_.find(u)) return b_.CreateLoad(held_type(u), slot_address(outer_frame_, *s));
  if (const unsigned* s = slot_of_.find(u)) return b_.CreateLoad(held_type(u), slot_address(frame_, *s));
  throw Error(ErrorCode::Internal, std::string(name(u.op())) + " is used where it has no value");
}

}  // namespace uopc::codegen
