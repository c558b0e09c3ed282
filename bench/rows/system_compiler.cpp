// A kernel by the system's compiler, from the C text of the same program that uopc compiles.
#include <memory>

#include "contestant.hpp"
#include "small_kernel.hpp"

namespace rows {

std::optional<Work> make_system_compiler(const Row& row, int) {
  if (row.kind != Kind::Compile) return {};
  auto variant = std::make_shared<int64_t>(0);
  return Work{[=] {
                uopc::Graph g;
                uopc::compile_c(uopc::render_c(small_kernel(g, (*variant)++)), "kernel", uopc::Options());
              },
              {}};
}

}  // namespace rows
