#include "runtime/symbols.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "codegen/llvm/emit.hpp"
#include "ir/half.hpp"

namespace uopc {
namespace {

void* allocate(int64_t bytes) {
  return std::aligned_alloc(64, static_cast<size_t>(bytes));
}
void release(void* p) {
  std::free(p);
}

// Several threads of one call may come here; the first to take the slot writes the rest.
void index_error(KernelContext* context, int64_t slot, int64_t index, int64_t size) noexcept {
  if (!context) return;
  int64_t none = codegen::kNoSlot;
  if (!std::atomic_ref(context->slot).compare_exchange_strong(none, slot)) return;
  context->index = index;
  context->size = size;
}

int32_t run_parallel_for(const ParallelFor* hook, int64_t n, ParallelBody body, void* context) noexcept {
  try {
    (*hook)(n, body, context);
    return static_cast<int32_t>(KernelStatus::Ok);
  } catch (...) {
    return static_cast<int32_t>(KernelStatus::ParallelForFailed);
  }
}

float fused(float a, float b, float c) {
  return std::fma(a, b, c);
}
double fused64(double a, double b, double c) {
  return std::fma(a, b, c);
}
float ldexp32(float x, int n) {
  return std::ldexp(x, n);
}

#if defined(__x86_64__)
// A half is passed and returned in the low 16 bits of xmm0, which is where a vector argument lies too.
float extend_half(__m128i h) {
  return half_to_float(static_cast<uint16_t>(_mm_extract_epi16(h, 0)));
}
__m128i truncate_to_half(float f) {
  return _mm_cvtsi32_si128(half_from_double(f));
}
#endif

template <class F>
const void* address(F* f) {
  return reinterpret_cast<const void*>(f);
}

}  // namespace

std::vector<RuntimeSymbol> runtime_symbols(const ParallelFor& hook) {
  return {
    {"uopc.allocate", address(allocate)}, {"uopc.release", address(release)},
        {"uopc.index_error", address(index_error)}, {"uopc.parallel_for", address(run_parallel_for)},
        {"uopc.parallel_for.hook", &hook}, {"memset", address(std::memset)}, {"memcpy", address(std::memcpy)},
        {"memmove", address(std::memmove)}, {"fmaf", address(fused)}, {"fma", address(fused64)},
        {"ldexpf", address(ldexp32)},
#if defined(__x86_64__)
        {"__extendhfsf2", address(extend_half)}, {"__truncsfhf2", address(truncate_to_half)},
#endif
  };
}

std::vector<RuntimeSymbol> openmp_symbols() {
  void* library = dlopen("libomp.so.5", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library)
    throw Error(
        ErrorCode::Compile,
        std::string("a THREAD loop needs the OpenMP runtime libomp.so.5 (package libomp5), or Options::threads = 1, "
                    "or Options::parallel_for: ") +
            dlerror());
  std::vector<RuntimeSymbol> symbols;
  for (const char* name : {"__kmpc_fork_call", "__kmpc_global_thread_num", "__kmpc_push_num_threads",
                           "omp_get_thread_num", "omp_get_num_threads"}) {
    void* p = dlsym(library, name);
    if (!p) throw Error(ErrorCode::Compile, std::string("libomp.so.5 has no ") + name);
    symbols.emplace_back(name, p);
  }
  return symbols;
}

}  // namespace uopc
