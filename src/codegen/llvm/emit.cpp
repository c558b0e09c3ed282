#include "codegen/llvm/emit.hpp"

#include <algorithm>
#include <cstddef>

#include "codegen/llvm/function_emitter.hpp"
#include "uopc/error.hpp"

namespace uopc::codegen {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Value;

namespace {

// Nodes in a function.
constexpr size_t kFunctionNodes = 4000;

// Iterations from which a loop is worth vectorizing.
constexpr int64_t kLongLoop = 64;

RegionFunction emit_region(ModuleState& m, int region);

}  // namespace

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
        if (m_.lanes.varies(u) && m_.lanes.stride(u) != Lanes::kIrregular) first_lane_[u] = first_lane(u);
        define(u, is_wide(u) ? compute_wide(u) : compute(u));
        break;
      case Line::Kind::Load: {
        if (m_.lanes.varies(u)) {
          define(u, load_lanes(u));
          break;
        }
        const llvm::Align align(itemsize(u.dtype()));
        Value* v = b_.CreateAlignedLoad(memory_type(u.dtype()), address(u), align);
        // Any byte but 0 is true in a buffer of the caller's.
        if (u.dtype() == DType::Bool) v = b_.CreateICmpNE(v, b_.getInt8(0));
        define(u, v);
        break;
      }
      case Line::Kind::Store: {
        if (lanes_) {
          store_lanes(u);
          break;
        }
        const UOp v = u.src(1);
        Value* x = value(v);
        if (v.dtype() == DType::Bool) x = b_.CreateZExt(x, b_.getInt8Ty());
        b_.CreateAlignedStore(x, address(u), llvm::Align(itemsize(v.dtype())));
        break;
      }
      case Line::Kind::Open:
        if (const Lanes::Loop* loop = m_.lanes.opened_at(i))
          open_lanes(*loop);
        else
          open(u);
        break;
      case Line::Kind::Close:
        if (lanes_ && lanes_->close == i)
          lanes_ = nullptr;
        else
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

static llvm::MDNode* no_interleaving(llvm::LLVMContext& context) {
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

namespace {

RegionFunction emit_region(ModuleState& m, int region) {
  static constexpr const char* kinds[] = {".body", ".thread", ".chunk"};
  std::string name = m.name + kinds[static_cast<int>(m.regions.list[region].kind)];
  if (region) name += std::to_string(region);
  return FunctionEmitter(m, region).run(name);
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
  m.lanes = find_lanes(program, regions, m.bounds, options.check_bounds);
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
