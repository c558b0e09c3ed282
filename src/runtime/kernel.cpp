#include "uopc/kernel.hpp"

#include <fmt/format.h>

#include "runtime/check_buffers.hpp"
#include "runtime/kernel_impl.hpp"
#include "runtime/kernel_status.hpp"

namespace uopc {

Kernel::Kernel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

const Kernel::Impl& Kernel::impl() const {
  if (!impl_) throw Error(ErrorCode::Run, "an empty Kernel: default-constructed or moved from");
  return *impl_;
}
const std::string& Kernel::name() const {
  return impl().name;
}
std::span<const KernelParam> Kernel::params() const {
  return impl().params;
}
KernelEntry Kernel::entry() const {
  return impl().entry;
}
size_t Kernel::code_bytes() const {
  return impl().code_bytes;
}

void Kernel::operator()(std::span<const BufferRef> buffers) const {
  const Impl& k = impl();
  check_buffers(k.params, buffers);
  constexpr size_t kFew = 16;
  void* few[kFew];
  std::vector<void*> many;
  void** pointers = few;
  if (buffers.size() > kFew) {
    many.resize(buffers.size());
    pointers = many.data();
  }
  for (size_t i = 0; i < buffers.size(); i++) pointers[i] = buffers[i].data;
  KernelContext context;
  const auto status = static_cast<KernelStatus>(k.entry(pointers, &context));
  if (status != KernelStatus::Ok) throw_kernel_error(k.name, status, context);
}

void throw_kernel_error(const std::string& kernel, KernelStatus status, const KernelContext& context) {
  std::string why;
  switch (status) {
    case KernelStatus::Ok:
      why = "no error";
      break;
    case KernelStatus::IndexOutOfRange:
      why = fmt::format("index {} is out of range of slot {}, which has {} elements", context.index, context.slot,
                        context.size);
      break;
    case KernelStatus::OutOfMemory:
      why = "out of memory for its scratch arrays";
      break;
    case KernelStatus::ParallelForFailed:
      why = "Options::parallel_for threw an exception";
      break;
  }
  throw Error(ErrorCode::Run, fmt::format("kernel '{}': {}", kernel, why));
}

}  // namespace uopc
