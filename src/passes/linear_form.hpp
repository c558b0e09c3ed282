// An index as a sum of products with constants.
#pragma once
#include <cstdint>
#include <map>
#include <optional>

#include "uopc/uop.hpp"

namespace uopc {

struct LinearForm {
  std::map<uint32_t, std::pair<UOp, int64_t>> terms;  // by node id: the node, which is no sum, and its factor
  int64_t constant = 0;

  int64_t factor(UOp u) const {
    const auto at = terms.find(u.id());
    return at == terms.end() ? 0 : at->second.second;
  }
  bool same_terms(const LinearForm& o) const { return terms == o.terms; }
  LinearForm& subtract(const LinearForm& o);
  UOp expression(Graph& graph) const;
};

// Of an i32 expression as if it could not wrap. Nothing where it has more than some 60 terms.
std::optional<LinearForm> linear_form(UOp u);

}  // namespace uopc
