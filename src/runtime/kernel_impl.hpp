// What a Kernel handle shares.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/orc.hpp"
#include "uopc/engine.hpp"
#include "uopc/kernel.hpp"

namespace uopc {

struct Kernel::Impl {
  std::string name;
  std::vector<KernelParam> params;
  std::shared_ptr<const ParallelFor> hook;  // the code refers to it
  std::unique_ptr<Linker::Object> object;
  KernelEntry entry;
  size_t code_bytes;
};

}  // namespace uopc
