// The linker of compiled objects: ORC's JITLink with memory of its own.
//
// An object sees the symbols that `Linker` defines and no others: what the host process has loaded, or with which flags
// it loaded us, makes no difference.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace uopc {

// Name and address of a function or object that compiled code may refer to.
using RuntimeSymbol = std::pair<std::string, const void*>;

class Linker {
 public:
  explicit Linker(const std::vector<RuntimeSymbol>& symbols);
  ~Linker();
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;

  // Thread-safe, like the rest. Throws Error(Compile).
  void define(const std::vector<RuntimeSymbol>& symbols);

  // One linked object; its memory goes back when the last copy of the handle does. Keeps the linker alive.
  class Object {
   public:
    ~Object();
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    void* entry() const { return entry_; }

   private:
    friend class Linker;
    Object(std::shared_ptr<Linker> linker, void* library) : linker_(std::move(linker)), library_(library) {}
    std::shared_ptr<Linker> linker_;
    void* library_;
    void* entry_ = nullptr;
  };
  static std::unique_ptr<Object> link(std::shared_ptr<Linker> linker, const std::string& object,
                                      const std::string& entry);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace uopc
