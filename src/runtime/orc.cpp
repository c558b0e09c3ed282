#include "runtime/orc.hpp"

#include <atomic>

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/MapperJITLinkMemoryManager.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/TaskDispatch.h"
#include "uopc/error.hpp"

namespace uopc {
namespace {

namespace orc = llvm::orc;

void check(llvm::Error e) {
  if (e) throw Error(ErrorCode::Compile, "linking failed: " + llvm::toString(std::move(e)));
}
template <class T>
T check(llvm::Expected<T> v) {
  check(v.takeError());
  return std::move(*v);
}

// Address space taken from the system at a time; pages are touched as kernels need them.
constexpr size_t kSlab = size_t{64} << 20;

}  // namespace

struct Linker::Impl {
  orc::ExecutionSession session;
  std::unique_ptr<orc::ObjectLinkingLayer> layer;
  orc::JITDylib* host;
  std::atomic<uint64_t> count{0};

  Impl()
      : session(
            check(orc::SelfExecutorProcessControl::Create(nullptr, std::make_unique<orc::InPlaceTaskDispatcher>()))),
        layer(std::make_unique<orc::ObjectLinkingLayer>(
            session, check(orc::MapperJITLinkMemoryManager::CreateWithMapper<orc::InProcessMemoryMapper>(kSlab)))),
        host(&session.createBareJITDylib("host")) {
    // What goes wrong is returned by the lookup that met it.
    session.setErrorReporter([](llvm::Error e) { llvm::consumeError(std::move(e)); });
  }
  ~Impl() { llvm::consumeError(session.endSession()); }
};

Linker::Linker(const std::vector<RuntimeSymbol>& symbols) : impl_(std::make_unique<Impl>()) {
  define(symbols);
}
Linker::~Linker() = default;

void Linker::define(const std::vector<RuntimeSymbol>& symbols) {
  orc::SymbolMap map;
  for (const auto& [name, address] : symbols)
    map[impl_->session.intern(name)] = {orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
  check(impl_->host->define(orc::absoluteSymbols(std::move(map))));
}

std::unique_ptr<Linker::Object> Linker::link(std::shared_ptr<Linker> linker, const std::string& object,
                                             const std::string& entry) {
  Impl& impl = *linker->impl_;
  auto& library = impl.session.createBareJITDylib("kernel" + std::to_string(impl.count++));
  std::unique_ptr<Object> result(new Object(std::move(linker), &library));
  library.addToLinkOrder(*impl.host);
  check(impl.layer->add(library, llvm::MemoryBuffer::getMemBufferCopy(object, "kernel")));
  const auto symbol = check(impl.session.lookup({&library}, impl.session.intern(entry)));
  result->entry_ = symbol.getAddress().toPtr<void*>();
  return result;
}

Linker::Object::~Object() {
  auto& session = linker_->impl_->session;
  llvm::consumeError(session.removeJITDylib(*static_cast<orc::JITDylib*>(library_)));
  session.getSymbolStringPool()->clearDeadEntries();
}

}  // namespace uopc
