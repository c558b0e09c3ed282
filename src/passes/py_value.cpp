// Values as Python prints them.
#include <vector>

#include "ir/py_text.hpp"
#include "uopc/passes.hpp"

namespace uopc {

std::string to_string(const PyValue& v) {
  struct Level {
    const std::vector<PyValue>* list;
    size_t next;
  };
  std::string out;
  std::vector<Level> levels;
  const auto open = [&](const PyValue& p) {
    if (const auto* scalar = std::get_if<Scalar>(&p.value)) {
      out += py_repr(*scalar);
    } else {
      out += '[';
      levels.push_back({&std::get<std::vector<PyValue>>(p.value), 0});
    }
  };
  open(v);
  while (!levels.empty()) {
    Level& level = levels.back();
    if (level.next == level.list->size()) {
      out += ']';
      levels.pop_back();
      continue;
    }
    if (level.next > 0) out += ", ";
    open((*level.list)[level.next++]);
  }
  return out;
}

}  // namespace uopc
