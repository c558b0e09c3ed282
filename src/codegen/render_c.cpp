#include "codegen/render_c.hpp"

#include <fmt/format.h>

#include "codegen/c_style.hpp"
#include "passes/verify.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

constexpr const char* kIncludes = "#include <math.h>\n#include <stdbool.h>\n";

constexpr const char* kDivision =
    "static inline int floordiv_i32(int a, int b) { int q = a / b; return (q * b != a && ((a < 0) != (b < 0))) ? q - 1 : "
    "q; }\n"
    "static inline int floormod_i32(int a, int b) { int r = a % b; return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r; "
    "}\n";

constexpr const char* kGuarded = R"(#include <stdlib.h>
static inline int floordiv_i32(int a, int b) {
  if (b == 0) return 0;
  if (b == -1) return (int)(0u - (unsigned)a);
  int q = a / b;
  return (q * b != a && ((a < 0) != (b < 0))) ? q - 1 : q;
}
static inline int floormod_i32(int a, int b) {
  if (b == 0 || b == -1) return 0;
  int r = a % b;
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
static inline void uopc_free(void* p) { free(*(void**)p); }
)";

constexpr const char* kChecks = R"(int uopc_index_error = 0;
static inline int uopc_check(int i, long long n) {
  if (i >= 0 && i < n) return i;
  __atomic_store_n(&uopc_index_error, 1, __ATOMIC_RELAXED);
  return 0;
}
static inline void* uopc_nowhere(void* scratch) {
  __atomic_store_n(&uopc_index_error, 1, __ATOMIC_RELAXED);
  return scratch;
}
)";

constexpr int64_t kMaxStackBytes = 64 << 10;

class GuardedRenderer : public CRenderer {
 public:
  explicit GuardedRenderer(const CTextOptions& options) : options_(options) {}

 protected:
  void declare(UOp alloc) override {
    const int64_t bytes = alloc.shape()[0] * itemsize(alloc.dtype());
    if (!options_.guarded || bytes <= kMaxStackBytes) return CRenderer::declare(alloc);
    line(fmt::format("__attribute__((cleanup(uopc_free))) {0}* {1} = ({0}*)malloc({2}ull);", type_name(alloc.dtype()),
                     memory_name(alloc), bytes));
  }

  void cell(const Cell& c) override {
    const UOp memory = c.memory;
    const int64_t n = memory.shape()[0];
    const Interval i = bounds().of(c.index);
    if (!options_.check_bounds || (i.lo >= 0 && i.hi < n)) return CRenderer::cell(c);
    if (n == 0) {
      append(fmt::format("(*({}*)uopc_nowhere(&(long long){{0}}))", type_name(memory.dtype())));
      return;
    }
    const bool bare = memory.addrspace() == AddrSpace::Local && n == 1;
    append(bare ? "(&" : "");
    append(memory_name(memory));
    append(bare ? ")[uopc_check(" : "[uopc_check(");
    value(c.index);
    append(",");
    append_int(n);
    append(")]");
  }

 private:
  const CTextOptions options_;
};

}  // namespace

std::string render_c_body(UOp program, const std::string& name) {
  check_kernel_name(name);
  return CRenderer().render(linearize(program), name);
}

std::string render_c(UOp program, const std::string& name) {
  return std::string(kIncludes) + kDivision + render_c_body(program, name);
}

std::string render_c_text(UOp program, const std::string& name, const CTextOptions& options) {
  check_kernel_name(name);
  std::string text = kIncludes;
  text += options.guarded ? kGuarded : kDivision;
  if (options.check_bounds) text += kChecks;
  return text + GuardedRenderer(options).render(linearize(program), name);
}

}  // namespace uopc
