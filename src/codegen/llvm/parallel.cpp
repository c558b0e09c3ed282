#include "codegen/llvm/parallel.hpp"

#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"

namespace uopc::codegen {
namespace {

using llvm::Value;

Value* word(llvm::IRBuilderBase& b, Value* frame, uint64_t i) {
  return b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), frame, i);
}

llvm::Function* internal_function(llvm::Module& module, const std::string& name, llvm::ArrayRef<llvm::Type*> params) {
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()), params, false);
  auto* fn = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module);
  fn->setDoesNotThrow();
  llvm::BasicBlock::Create(module.getContext(), "entry", fn);
  return fn;
}

// void (ptr frame, i64 begin, i64 end): a piece of the loop, the signature of ParallelBody.
llvm::Function* task_function(llvm::Module& module, const ThreadLoop& loop, bool set_fp_control) {
  auto& context = module.getContext();
  llvm::IRBuilder<> b(context);
  auto* fn = internal_function(module, loop.name + ".task", {b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty()});
  b.SetInsertPoint(&fn->getEntryBlock());
  Value* frame = fn->getArg(0);
  set_fp_control = set_fp_control && module.getTargetTriple().isX86();
  Value* own = nullptr;
  if (set_fp_control) {
    own = b.CreateAlloca(b.getInt32Ty());
    b.CreateIntrinsic(llvm::Intrinsic::x86_sse_stmxcsr, {own});
    b.CreateIntrinsic(llvm::Intrinsic::x86_sse_ldmxcsr, {word(b, frame, kFrameFpControl)});
  }
  Value* buffers = b.CreateLoad(b.getPtrTy(), word(b, frame, kFrameBuffers));
  std::vector<Value*> args;
  for (unsigned i : loop.buffers)
    args.push_back(b.CreateLoad(b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getPtrTy(), buffers, i)));
  args.insert(args.end(), {frame, fn->getArg(1), fn->getArg(2)});
  Value* status = b.CreateCall(loop.body, args);
  auto* failed = llvm::BasicBlock::Create(context, "failed", fn);
  auto* done = llvm::BasicBlock::Create(context, "done", fn);
  b.CreateCondBr(b.CreateICmpNE(status, b.getInt32(0)), failed, done);
  b.SetInsertPoint(failed);
  b.CreateAtomicRMW(llvm::AtomicRMWInst::Max, word(b, frame, kFrameStatus), status, llvm::Align(8),
                    llvm::AtomicOrdering::Monotonic);
  b.CreateBr(done);
  b.SetInsertPoint(done);
  if (set_fp_control) b.CreateIntrinsic(llvm::Intrinsic::x86_sse_ldmxcsr, {own});
  b.CreateRetVoid();
  return fn;
}

// void (ptr gtid, ptr btid, ptr frame, ptr n): what each thread of a region runs; takes its piece by its number.
llvm::Function* openmp_function(llvm::Module& module, const ThreadLoop& loop, llvm::Function* task) {
  llvm::IRBuilder<> b(module.getContext());
  auto* ptr = b.getPtrTy();
  auto* fn = internal_function(module, loop.name + ".omp", {ptr, ptr, ptr, ptr});
  b.SetInsertPoint(&fn->getEntryBlock());
  auto number = [&](const char* name) {
    return b.CreateSExt(b.CreateCall(module.getOrInsertFunction(name, b.getInt32Ty())), b.getInt64Ty());
  };
  Value* t = number("omp_get_thread_num");
  Value* count = number("omp_get_num_threads");
  Value* n = b.CreatePtrToInt(fn->getArg(3), b.getInt64Ty());
  Value* begin = b.CreateSDiv(b.CreateNSWMul(n, t), count);
  Value* end = b.CreateSDiv(b.CreateNSWMul(n, b.CreateNSWAdd(t, b.getInt64(1))), count);
  b.CreateCall(task, {fn->getArg(2), begin, end});
  b.CreateRetVoid();
  return fn;
}

// The source position that the OpenMP runtime's entries want: none.
llvm::GlobalVariable* ident(llvm::Module& module) {
  constexpr const char* kName = "uopc.ident";
  if (auto* g = module.getNamedGlobal(kName)) return g;
  llvm::IRBuilder<> b(module.getContext());
  auto* text = llvm::ConstantDataArray::getString(module.getContext(), ";unknown;unknown;0;0;;");
  auto* where = new llvm::GlobalVariable(module, text->getType(), true, llvm::GlobalValue::PrivateLinkage, text);
  auto* type = llvm::StructType::get(b.getInt32Ty(), b.getInt32Ty(), b.getInt32Ty(), b.getInt32Ty(), b.getPtrTy());
  auto* value = llvm::ConstantStruct::get(
      type, {b.getInt32(0), b.getInt32(2), b.getInt32(0), b.getInt32(22), static_cast<llvm::Constant*>(where)});
  return new llvm::GlobalVariable(module, type, true, llvm::GlobalValue::PrivateLinkage, value, kName);
}

void fork_openmp(llvm::IRBuilderBase& b, llvm::Module& module, llvm::Function* fn, Value* frame, Value* n,
                 int threads) {
  auto* ptr = b.getPtrTy();
  auto* i32 = b.getInt32Ty();
  if (threads > 0) {
    auto number = module.getOrInsertFunction("__kmpc_global_thread_num", i32, ptr);
    auto push = module.getOrInsertFunction("__kmpc_push_num_threads", b.getVoidTy(), ptr, i32, i32);
    b.CreateCall(push, {ident(module), b.CreateCall(number, {ident(module)}), b.getInt32(threads)});
  }
  auto fork = module.getOrInsertFunction("__kmpc_fork_call",
                                         llvm::FunctionType::get(b.getVoidTy(), {ptr, i32, ptr}, /*isVarArg=*/true));
  b.CreateCall(fork, {ident(module), b.getInt32(2), fn, frame, b.CreateIntToPtr(n, ptr)});
}

void call_host(llvm::IRBuilderBase& b, llvm::Module& module, llvm::Function* task, Value* frame, Value* n) {
  if (module.getTargetTriple().isX86())
    b.CreateIntrinsic(llvm::Intrinsic::x86_sse_stmxcsr, {word(b, frame, kFrameFpControl)});
  auto* ptr = b.getPtrTy();
  auto run = module.getOrInsertFunction("uopc.parallel_for", b.getInt32Ty(), ptr, b.getInt64Ty(), ptr, ptr);
  Value* hook = module.getOrInsertGlobal("uopc.parallel_for.hook", b.getInt8Ty());
  Value* status = b.CreateCall(run, {hook, n, task, frame});
  b.CreateAtomicRMW(llvm::AtomicRMWInst::Max, word(b, frame, kFrameStatus), status, llvm::Align(8),
                    llvm::AtomicOrdering::Monotonic);
}

}  // namespace

Value* emit_thread_loop(llvm::IRBuilderBase& b, const ThreadLoop& loop, Value* frame, Value* n,
                        const ThreadOptions& options) {
  llvm::Function* caller = b.GetInsertBlock()->getParent();
  auto& module = *caller->getParent();
  auto& context = module.getContext();
  llvm::Function* task = task_function(module, loop, options.host_parallel_for);
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(context, name, caller); };
  auto *few = block("few"), *one = block("one"), *many = block("many"), *done = block("joined");

  b.CreateStore(b.getInt64(0), word(b, frame, kFrameStatus));
  // A region costs more than one iteration is likely to.
  b.CreateCondBr(b.CreateICmpSGT(n, b.getInt64(1)), many, few);
  b.SetInsertPoint(few);
  b.CreateCondBr(b.CreateICmpEQ(n, b.getInt64(1)), one, done);
  b.SetInsertPoint(one);
  if (options.host_parallel_for && module.getTargetTriple().isX86())
    b.CreateIntrinsic(llvm::Intrinsic::x86_sse_stmxcsr, {word(b, frame, kFrameFpControl)});
  b.CreateCall(task, {frame, b.getInt64(0), b.getInt64(1)});
  b.CreateBr(done);
  b.SetInsertPoint(many);
  if (options.host_parallel_for)
    call_host(b, module, task, frame, n);
  else if (options.threads == 1)
    b.CreateCall(task, {frame, b.getInt64(0), n});
  else
    fork_openmp(b, module, openmp_function(module, loop, task), frame, n, options.threads);
  b.CreateBr(done);
  b.SetInsertPoint(done);
  return b.CreateLoad(b.getInt32Ty(), word(b, frame, kFrameStatus));
}

}  // namespace uopc::codegen
