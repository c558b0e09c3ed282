#include "codegen/llvm/emit.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "codegen/llvm/arith.hpp"
#include "codegen/llvm/parallel.hpp"
#include "codegen/llvm/regions.hpp"
#include "ir/bounds.hpp"
#include "ir/walk.hpp"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "uopc/error.hpp"
#include "uopc/kernel.hpp"

namespace uopc::codegen {
namespace {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Value;

// Nodes in a function.
constexpr size_t kFunctionNodes = 4000;

// Iterations from which a loop is worth vectorizing.
constexpr int64_t kLongLoop = 64;

// Scratch on the stack of the thread that calls; the rest is on the heap.
constexpr uint64_t kStackScratch = 64 << 10;

constexpr int32_t code(KernelStatus s) {
  return static_cast<int32_t>(s);
}

struct ModuleState {
  llvm::LLVMContext& context;
  llvm::Module& module;
  const Linearized& program;
  const Regions& regions;
  const EmitOptions& options;
  const MathTarget& math;
  const std::string& name;
  Bounds bounds{};
  NodeMap<unsigned> buffer_index{0};  // place in the kernel's argument
  std::vector<char> written{};        // by that place
  bool uses_openmp = false;
};

struct RegionFunction {
  Function* function;
  bool may_stop;    // it may return a status from OutOfMemory on
  bool may_report;  // it may return another status than Ok
};

UOp constant_divisor(UOp u) {
  return (u.is(Op::FloorDiv) || u.is(Op::FloorMod)) && u.src(1).is_const() ? u.src(1) : UOp();
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
    BasicBlock *body, *exit;
    llvm::PHINode* counter;
    Value* end;
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

  Value* word_address(Value* frame, uint64_t word) {
    return b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), frame, word);
  }
  Value* slot_address(Value* frame, unsigned slot) { return word_address(frame, kFrameValues + slot); }
  void define(UOp u, Value* v);
  Value* lookup(UOp u);
  llvm::Type* held_type(UOp u);

  bool is_named(UOp u) const { return u.is(Op::Range) || m_.program.has_line(u); }
  // Values that are kept as i64: counters and exact sums and products of i32, which is what indices are made of.
  bool is_wide(UOp u) {
    if (u.is(Op::Range)) return true;
    return u.dtype() == DType::I32 && (u.is(Op::Add) || u.is(Op::Mul)) && m_.bounds.exact(u);
  }
  Value* value(UOp u);    // of the type of its dtype
  Value* compute(UOp u);  // the same of an ALU op that is not looked up
  Value* wide(UOp u);     // an i32 as i64
  Value* compute_wide(UOp u);
  Value* address(UOp load_or_store);
  llvm::Type* memory_type(DType d) { return d == DType::Bool ? b_.getInt8Ty() : value_type(m_.context, d); }
  // A word at the top of the function, zero at first.
  Value* make_word(llvm::Type* type, const char* name) {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    auto& entry = fn_->getEntryBlock();
    b_.SetInsertPoint(&entry, entry.begin());
    auto* word = b_.CreateAlloca(type, nullptr, name);
    b_.CreateStore(llvm::Constant::getNullValue(type), word);
    return word;
  }
  void raise_status(Value* status) {
    if (!status_) status_ = make_word(b_.getInt32Ty(), "status");
    Value* old = b_.CreateLoad(b_.getInt32Ty(), status_);
    b_.CreateStore(b_.CreateSelect(b_.CreateICmpSGT(status, old), status, old), status_);
  }

  ModuleState& m_;
  const Region& region_;
  llvm::IRBuilder<> b_;
  Arith arith_;
  Function* fn_ = nullptr;
  BasicBlock* exit_ = nullptr;
  NodeMap<Value*> env_;
  NodeMap<unsigned> slot_of_, outer_slot_;
  Value *frame_ = nullptr, *outer_frame_ = nullptr, *kernel_buffers_ = nullptr, *context_ = nullptr;
  Value *status_ = nullptr, *dummy_ = nullptr, *heap_ = nullptr;
  Value *begin_ = nullptr, *end_ = nullptr;  // of a Thread region
  std::vector<Loop> loops_;
  bool may_stop_ = false, may_report_ = false;
};

// ---- the function and its memory -----------------------------------------------------------------------------------

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
    needs.push_back({u, static_cast<uint64_t>(std::max<int64_t>(arg.shape[0], 1)) * itemsize(arg.dtype)});
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
      if (arg.shape[0] != 1) type = llvm::ArrayType::get(type, std::max<int64_t>(arg.shape[0], 1));
    }
    auto* p =
        b_.CreateAlloca(type, nullptr, need.owner ? "acc" + std::to_string(need.owner.arg<ParamArg>().slot) : "frame");
    // Arrays that vector instructions run over begin at a cache line.
    if (need.bytes >= 64) p->setAlignment(llvm::Align(64));
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

// ---- lines ---------------------------------------------------------------------------------------------------------

RegionFunction emit_region(ModuleState& m, int region) {
  static constexpr const char* kinds[] = {".body", ".thread", ".chunk"};
  std::string name = m.name + kinds[static_cast<int>(m.regions.list[region].kind)];
  if (region) name += std::to_string(region);
  return FunctionEmitter(m, region).run(name);
}

void FunctionEmitter::emit_lines() {
  auto child = region_.children.begin();
  for (size_t i = region_.begin; i < region_.end; i++) {
    if (child != region_.children.end() && m_.regions.list[*child].begin == i) {
      emit_child(*child);
      i = m_.regions.list[*child++].end - 1;
      continue;
    }
    const auto& [kind, u] = m_.program.lines[i];
    switch (kind) {
      case Line::Kind::Alloc:
        break;
      case Line::Kind::Alu:
        define(u, is_wide(u) ? compute_wide(u) : compute(u));
        break;
      case Line::Kind::Load: {
        const llvm::Align align(itemsize(u.dtype()));
        Value* v = b_.CreateAlignedLoad(memory_type(u.dtype()), address(u), align);
        // Any byte but 0 is true in a buffer of the caller's.
        if (u.dtype() == DType::Bool) v = b_.CreateICmpNE(v, b_.getInt8(0));
        define(u, v);
        break;
      }
      case Line::Kind::Store: {
        const UOp v = u.src(1);
        Value* x = value(v);
        if (v.dtype() == DType::Bool) x = b_.CreateZExt(x, b_.getInt8Ty());
        b_.CreateAlignedStore(x, address(u), llvm::Align(itemsize(v.dtype())));
        break;
      }
      case Line::Kind::Open:
        open(u);
        break;
      case Line::Kind::Close:
        close();
        break;
      case Line::Kind::Barrier:
        break;  // refused before
    }
  }
}

void FunctionEmitter::emit_child(int child) {
  const Region& r = m_.regions.list[child];
  RegionFunction f = emit_region(m_, child);
  Value* status;
  if (r.kind == Region::Kind::Thread) {
    ThreadLoop loop{f.function, {}, f.function->getName().str()};
    for (UOp u : r.buffers) loop.buffers.push_back(m_.buffer_index.at(u));
    status = emit_thread_loop(b_, loop, frame_, wide(m_.program.lines[r.begin].node.src(0)),
                              {m_.options.threads, m_.options.host_parallel_for});
    m_.uses_openmp |= !m_.options.host_parallel_for && m_.options.threads != 1;
    if (m_.options.host_parallel_for) f.may_stop = f.may_report = true;
  } else {
    std::vector<Value*> args;
    for (UOp u : r.buffers) args.push_back(env_.at(u));
    args.push_back(frame_);
    status = b_.CreateCall(f.function, args);
  }
  may_stop_ |= f.may_stop;
  may_report_ |= f.may_report;
  if (f.may_report) raise_status(status);
  if (f.may_stop) {
    auto* next = BasicBlock::Create(m_.context, "next", fn_);
    b_.CreateCondBr(b_.CreateICmpSGE(status, b_.getInt32(code(KernelStatus::OutOfMemory))), exit_, next);
    b_.SetInsertPoint(next);
  }
  // What the child made for others than its siblings goes on outwards.
  for (UOp u : r.outputs)
    if (const unsigned* s = outer_slot_.find(u)) b_.CreateStore(lookup(u), slot_address(outer_frame_, *s));
}

// Loops are made rotated: a test in front where they may run no times, and one at the end.
void FunctionEmitter::open(UOp range) {
  Value *first = b_.getInt64(0), *end;
  bool runs;
  if (begin_ && loops_.empty()) {
    first = begin_;
    end = end_;
    runs = false;
  } else {
    end = wide(range.src(0));
    runs = m_.bounds.of(range.src(0)).lo >= 1;
  }
  Loop loop;
  loop.body = BasicBlock::Create(m_.context, "ridx" + std::to_string(range.arg<RangeArg>().idx), fn_);
  loop.exit = BasicBlock::Create(m_.context, "done", fn_);
  loop.end = end;
  loop.reduces = range.arg<RangeArg>().kind == AxisType::Reduce;
  auto* before = b_.GetInsertBlock();
  if (runs)
    b_.CreateBr(loop.body);
  else
    b_.CreateCondBr(b_.CreateICmpSLT(first, end), loop.body, loop.exit);
  b_.SetInsertPoint(loop.body);
  loop.counter = b_.CreatePHI(b_.getInt64Ty(), 2, "i");
  loop.counter->addIncoming(first, before);
  loops_.push_back(loop);
  define(range, loop.counter);
}

llvm::MDNode* no_interleaving(llvm::LLVMContext& context) {
  auto* one = llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), 1));
  auto* count = llvm::MDNode::get(context, {llvm::MDString::get(context, "llvm.loop.interleave.count"), one});
  auto* loop = llvm::MDNode::getDistinct(context, {nullptr, count});  // a loop's first operand is itself
  loop->replaceOperandWith(0, loop);
  return loop;
}

void FunctionEmitter::close() {
  const Loop loop = loops_.back();
  loops_.pop_back();
  Value* next = b_.CreateAdd(loop.counter, b_.getInt64(1), "", /*HasNUW=*/true, /*HasNSW=*/true);
  loop.counter->addIncoming(next, b_.GetInsertBlock());
  auto* branch = b_.CreateCondBr(b_.CreateICmpSLT(next, loop.end), loop.body, loop.exit);
  // Vectors in flight hide the latency of a reduction's chain. Other loops have no chain: one vector at a time runs as
  // fast and compiles in three quarters of the time.
  if (!loop.reduces) branch->setMetadata(llvm::LLVMContext::MD_loop, no_interleaving(m_.context));
  b_.SetInsertPoint(loop.exit);
}

// ---- expressions; their depth is at most kMaxInlineDepth -----------------------------------------------------------

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
  Value* x = value(u.src(0));
  const DType d = u.src(0).dtype();
  if (u.is(Op::Cast)) return arith_.cast(x, d, u.dtype());
  if (kUnary.has(u.op())) return arith_.unary(u.op(), d, x);
  Value* y = value(u.src(1));
  if (u.is(Op::Where)) return arith_.where(x, y, value(u.src(2)));
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

Value* FunctionEmitter::address(UOp load_or_store) {
  const auto& [memory, index] = m_.program.cell(load_or_store);
  const auto& arg = memory.arg<ParamArg>();
  Value* i = wide(index);
  Value* p = lookup(memory);
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(i);
  if (!constant || !constant->isZero()) p = b_.CreateInBoundsGEP(memory_type(arg.dtype), p, i);
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

void emit_entry(ModuleState& m, const RegionFunction& body) {
  llvm::IRBuilder<> b(m.context);
  auto* ptr = b.getPtrTy();
  auto* fn = Function::Create(llvm::FunctionType::get(b.getInt32Ty(), {ptr, ptr}, false),
                              llvm::GlobalValue::ExternalLinkage, m.name, m.module);
  fn->setDoesNotThrow();
  fn->getArg(0)->setName("buffers");
  fn->getArg(1)->setName("context");
  b.SetInsertPoint(BasicBlock::Create(m.context, "entry", fn));
  if (body.may_report) {
    auto *reset = BasicBlock::Create(m.context, "reset", fn), *run = BasicBlock::Create(m.context, "run", fn);
    b.CreateCondBr(b.CreateIsNull(fn->getArg(1)), run, reset);
    b.SetInsertPoint(reset);
    static_assert(offsetof(KernelContext, slot) == 0);
    b.CreateStore(b.getInt64(static_cast<uint64_t>(kNoSlot)), fn->getArg(1));
    b.CreateBr(run);
    b.SetInsertPoint(run);
  }
  std::vector<Value*> args;
  for (UOp u : m.regions.list[0].buffers)
    args.push_back(b.CreateLoad(ptr, b.CreateConstInBoundsGEP1_64(ptr, fn->getArg(0), m.buffer_index.at(u))));
  args.insert(args.end(), {fn->getArg(0), fn->getArg(1)});
  b.CreateRet(b.CreateCall(body.function, args));
}

}  // namespace

EmittedModule emit_module(llvm::LLVMContext& context, const Linearized& program, const std::string& name,
                          const EmitOptions& options, const TargetCpu& target) {
  for (const auto& line : program.lines)
    if (line.kind == Line::Kind::Barrier)
      throw Error(ErrorCode::NotImplemented, "BARRIER: the CPU runs the threads of a block one after another");
  const Regions regions = find_regions(program, kFunctionNodes);
  auto module = std::make_unique<llvm::Module>(name, context);
  target.prepare(*module);
  ModuleState m{context, *module, program, regions, options, target.math(), name};
  for (UOp u : program.params) m.buffer_index.insert(u, static_cast<unsigned>(m.buffer_index.size()));
  m.written.resize(program.params.size());
  for (const auto& line : program.lines) {
    if (line.kind != Line::Kind::Store) continue;
    if (const unsigned* i = m.buffer_index.find(program.cell(line.node).memory)) m.written[*i] = 1;
  }
  const RegionFunction body = emit_region(m, 0);
  emit_entry(m, body);
  // Some CPUs with registers of 512 bits prefer half of them unless they are told.
  if (m.math.max_lanes == 16)
    for (auto& fn : *module)
      if (!fn.isDeclaration()) fn.addFnAttr("prefer-vector-width", "512");
  const bool long_loops = std::ranges::any_of(program.lines, [&](const Line& line) {
    return line.kind == Line::Kind::Open && m.bounds.of(line.node.src(0)).hi >= kLongLoop;
  });
  return {std::move(module), {regions.nodes, body.may_report, long_loops}, m.uses_openmp};
}

}  // namespace uopc::codegen
