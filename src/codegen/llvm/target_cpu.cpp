#include "codegen/llvm/target_cpu.hpp"

#include <map>
#include <mutex>

#include "llvm/ADT/StringExtras.h"
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
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
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

void TargetCpu::optimize(llvm::Module& module, bool straight_line) {
  if (opt_level_ <= 0 || straight_line) return;
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
    builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
    return;
  }
  llvm::FunctionPassManager early, vectorize;
  early.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  early.addPass(llvm::EarlyCSEPass());
  early.addPass(llvm::InstCombinePass());
  early.addPass(llvm::SimplifyCFGPass());
  vectorize.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  vectorize.addPass(llvm::LoopVectorizePass());
  vectorize.addPass(llvm::EarlyCSEPass());
  vectorize.addPass(llvm::InstCombinePass());
  vectorize.addPass(llvm::SimplifyCFGPass());
  for (auto& fn : module) {
    if (fn.isDeclaration()) continue;
    early.run(fn, functions);
    if (opt_level_ >= 2 && !functions.getResult<llvm::LoopAnalysis>(fn).empty()) vectorize.run(fn, functions);
  }
}

std::string TargetCpu::emit(llvm::Module& module, bool assembly, bool straight_line) {
  // A vector form of a math function that no loop took would be code that nobody calls.
  for (bool again = true; again;) {
    again = false;
    for (auto it = module.begin(); it != module.end();) {
      llvm::Function& fn = *it++;
      if (!fn.hasLocalLinkage() || !fn.use_empty()) continue;
      fn.eraseFromParent();
      again = true;
    }
  }
  const auto level = machine_->getOptLevel();
  const bool fast = straight_line || opt_level_ <= 0;
  if (fast) machine_->setOptLevel(llvm::CodeGenOptLevel::None);
  machine_->setFastISel(fast);
  llvm::SmallVector<char, 0> bytes;
  {
    llvm::raw_svector_ostream out(bytes);
    llvm::legacy::PassManager passes;
    const bool refused = machine_->addPassesToEmitFile(
        passes, out, nullptr, assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile,
        /*DisableVerify=*/true);
    if (!refused) passes.run(module);
    machine_->setOptLevel(level);
    if (refused) throw Error(ErrorCode::Compile, "LLVM cannot write code of this kind");
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
