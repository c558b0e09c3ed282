#include "codegen/llvm/target_cpu.hpp"

#include <map>
#include <mutex>

#include "llvm/CodeGen/CodeGenTargetMachineImpl.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/InstSimplifyPass.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "llvm/Transforms/Vectorize/LoopVectorize.h"
#include "uopc/error.hpp"

namespace uopc::codegen {
namespace {

const llvm::Target& native_target(const llvm::Triple& triple) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  std::string why;
  const auto* target = llvm::TargetRegistry::lookupTarget(triple, why);
  if (!target) throw Error(ErrorCode::Compile, "LLVM has no code generator for " + triple.str() + ": " + why);
  return *target;
}

// By name, so that messages that quote them are the same in every run.
const std::map<std::string, bool>& host_features() {
  static const std::map<std::string, bool> features = [] {
    std::map<std::string, bool> m;
    for (const auto& f : llvm::sys::getHostCPUFeatures()) m[f.first().str()] = f.second;
    return m;
  }();
  return features;
}

}  // namespace

TargetCpu::TargetCpu(const std::string& cpu, int opt_level, bool strict_float) : opt_level_(opt_level) {
  const llvm::Triple triple(llvm::sys::getProcessTriple());
  const auto& target = native_target(triple);
  std::string name = cpu, features;
  if (cpu.empty()) {
    name = llvm::sys::getHostCPUName().str();
    for (const auto& [feature, present] : host_features())
      features += (features.empty() ? "" : ",") + std::string(present ? "+" : "-") + feature;
  }
  // The constructors below end the process for a CPU that cannot be.
  const std::unique_ptr<llvm::MCSubtargetInfo> probe(target.createMCSubtargetInfo(triple, "", ""));
  if (!probe || !probe->isCPUStringValid(name))
    throw Error(ErrorCode::Compile, "unknown CPU '" + name + "' for " + triple.str() +
                                        "; known are x86-64, x86-64-v3, x86-64-v4, znver5, ...");
  const std::unique_ptr<llvm::MCSubtargetInfo> subtarget(target.createMCSubtargetInfo(triple, name, features));
  const auto has = [&](const char* feature) { return subtarget->checkFeatures(std::string("+") + feature); };
  if (triple.isX86() && !(has("64bit") && has("sse2")))
    throw Error(ErrorCode::Compile, "CPU '" + name + "' has no 64-bit mode; x86-64 is the least that will do");
  if (!cpu.empty())
    for (const auto& [feature, present] : host_features())
      if (!present && missing_feature_.empty() && has(feature.c_str())) missing_feature_ = feature;

  if (triple.isX86()) {
    math_.has_fma = has("fma");
    math_.has_masks = has("avx512bw") && has("avx512vl");
    math_.has_scalef = has("avx512f") && has("avx512vl");
    math_.max_lanes = has("avx512f") ? 16 : has("avx") ? 8 : 4;
  }

  llvm::TargetOptions options;
  // Only instructions with the `contract` flag may fuse; strict code has none.
  options.AllowFPOpFusion = strict_float ? llvm::FPOpFusion::Strict : llvm::FPOpFusion::Standard;
  const auto level = opt_level <= 0   ? llvm::CodeGenOptLevel::None
                     : opt_level == 1 ? llvm::CodeGenOptLevel::Less
                     : opt_level == 2 ? llvm::CodeGenOptLevel::Default
                                      : llvm::CodeGenOptLevel::Aggressive;
  machine_.reset(target.createTargetMachine(triple, name, features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                            level, /*JIT=*/true));
  if (!machine_) throw Error(ErrorCode::Compile, "LLVM cannot generate code for " + triple.str());
}

TargetCpu::~TargetCpu() = default;

void TargetCpu::prepare(llvm::Module& module) const {
  module.setTargetTriple(machine_->getTargetTriple());
  module.setDataLayout(machine_->createDataLayout());
}

void TargetCpu::optimize(llvm::Module& module, const CodeShape& shape) {
  if (opt_level_ <= 0 || shape.is_huge()) return;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine_.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  if (opt_level_ >= 3) {
    // The vectorizer looks for the vector forms by name; nothing calls them before.
    llvm::SmallVector<llvm::GlobalValue*, 4> forms;
    for (auto& fn : module)
      if (fn.hasLocalLinkage() && fn.use_empty()) forms.push_back(&fn);
    llvm::appendToCompilerUsed(module, forms);
    builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
    llvm::removeFromUsedLists(module, [](llvm::Constant*) { return true; });
    return;
  }
  // Programs come with invariants hoisted and common parts shared: what is left to do is registers for scratch, the
  // checks' control flow and the vectorizer's leavings.
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  if (opt_level_ >= 2 && shape.has_loops) {
    passes.addPass(llvm::LoopVectorizePass());
    passes.addPass(llvm::InstSimplifyPass());
    passes.addPass(llvm::SimplifyCFGPass());
  }
  for (auto& fn : module)
    if (!fn.isDeclaration()) passes.run(fn, functions);
}

namespace {

// A vector form of a math function that no loop took would be code that nobody calls.
void remove_unused(llvm::Module& module) {
  for (bool again = true; again;) {
    again = false;
    for (auto it = module.begin(); it != module.end();) {
      llvm::Function& fn = *it++;
      if (!fn.hasLocalLinkage() || !fn.use_empty()) continue;
      fn.eraseFromParent();
      again = true;
    }
  }
}

// The function behind the entry has done its service, which was the noalias of its parameters. A function has a price
// even when there is nothing in it.
void inline_into_entry(llvm::Module& module) {
  for (auto& fn : module) {
    if (fn.isDeclaration() || fn.hasLocalLinkage()) continue;
    llvm::SmallVector<llvm::CallBase*, 1> calls;
    for (auto& block : fn)
      for (auto& i : block)
        if (auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
            call && call->getCalledFunction() && call->getCalledFunction()->hasLocalLinkage())
          calls.push_back(call);
    for (auto* call : calls) {
      auto* callee = call->getCalledFunction();
      if (!callee->hasOneUse()) continue;
      callee->removeFnAttr(llvm::Attribute::NoInline);
      llvm::InlineFunctionInfo info;
      llvm::InlineFunction(*call, info);
    }
    return;
  }
}

// Passes that find nothing to do in our code, or in short code nothing that pays.
const void* const kUseless[] = {
    &llvm::FuncletLayoutID,
    &llvm::XRayInstrumentationID,
    &llvm::FEntryInserterID,
    &llvm::PatchableFunctionID,
    &llvm::StackMapLivenessID,
    &llvm::LiveDebugValuesID,
    &llvm::RemoveRedundantDebugValuesID,
    &llvm::StackFrameLayoutAnalysisPassID,
    &llvm::ImplicitNullChecksID,
    &llvm::RemoveLoadsIntoFakeUsesID,
    &llvm::FixupStatepointCallerSavedID,
    &llvm::LocalStackSlotAllocationID,
    &llvm::MachineSanitizerBinaryMetadataID,
    &llvm::StackColoringLegacyID,
};
const void* const kNotForShortCode[] = {
    &llvm::EarlyTailDuplicateLegacyID, &llvm::TailDuplicateLegacyID,   &llvm::EarlyIfConverterLegacyID,
    &llvm::MachineCombinerID,          &llvm::PostRAMachineSinkingID,  &llvm::ShrinkWrapID,
    &llvm::StackSlotColoringID,        &llvm::OptimizePHIsLegacyID,    &llvm::MachineLateInstrsCleanupID,
    &llvm::BranchFolderPassID,         &llvm::MachineBlockPlacementID, &llvm::MachineSinkingLegacyID,
    &llvm::PeepholeOptimizerLegacyID,  &llvm::DetectDeadLanesID,       &llvm::RenameIndependentSubregsID,
    &llvm::MachineCSELegacyID,         &llvm::MachineSchedulerID,      &llvm::PostRASchedulerID,
    &llvm::PostMachineSchedulerID,     &llvm::MachineLICMID,
};

}  // namespace

std::string TargetCpu::emit(llvm::Module& module, const CodeShape& shape, bool assembly) {
  remove_unused(module);
  const bool fast = shape.is_huge() || opt_level_ <= 0;
  if (!fast) {
    inline_into_entry(module);
    remove_unused(module);
  }
  const auto level = machine_->getOptLevel();
  if (fast) machine_->setOptLevel(llvm::CodeGenOptLevel::None);
  machine_->setFastISel(fast);
  llvm::SmallVector<char, 0> bytes;
  {
    // `addPassesToEmitFile` of LLVM, with passes left out.
    llvm::raw_svector_ostream out(bytes);
    llvm::legacy::PassManager passes;
    auto& machine = static_cast<llvm::CodeGenTargetMachineImpl&>(*machine_);
    auto* config = machine.createPassConfig(passes);
    config->setDisableVerify(true);
    for (const void* id : kUseless) config->disablePass(id);
    if (shape.is_small() && opt_level_ <= 2)
      for (const void* id : kNotForShortCode) config->disablePass(id);
    passes.add(config);
    auto* info = new llvm::MachineModuleInfoWrapperPass(&machine);
    passes.add(info);
    const auto refuse = [&](bool refused) {
      if (!refused) return;
      machine_->setOptLevel(level);
      throw Error(ErrorCode::Compile, "LLVM cannot generate code of this kind");
    };
    refuse(config->addISelPasses());
    config->addMachinePasses();
    config->setInitialized();
    const auto type = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
    refuse(machine.addAsmPrinter(passes, out, nullptr, type, info->getMMI().getContext()));
    passes.add(llvm::createFreeMachineFunctionPass());
    passes.run(module);
    machine_->setOptLevel(level);
  }
  return std::string(bytes.data(), bytes.size());
}

size_t text_bytes(const std::string& object) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernel"));
  if (!file) {
    llvm::consumeError(file.takeError());
    return 0;
  }
  size_t n = 0;
  for (const auto& section : (*file)->sections())
    if (section.isText()) n += section.getSize();
  return n;
}

void verify_module(const llvm::Module& module) {
  std::string words;
  llvm::raw_string_ostream out(words);
  if (llvm::verifyModule(module, &out)) throw Error(ErrorCode::Internal, "the emitted LLVM IR is malformed: " + words);
}

}  // namespace uopc::codegen
