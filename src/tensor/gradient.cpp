#include <fmt/format.h>

#include "ir/py_text.hpp"
#include "tensor/value.hpp"
#include "uopc/passes.hpp"

namespace uopc {

std::vector<Tensor> Tensor::gradient(std::span<const Tensor> targets) const {
  std::vector<Tensor> all(targets.begin(), targets.end());
  all.push_back(*this);
  check_one_context(all, "gradient");
  if (numel() != 1 || !is_float(dtype()))
    throw Error(ErrorCode::Type, fmt::format("gradient is of a float tensor of one element, not dtypes.{}{}",
                                             name(dtype()), py_tuple(shape())));
  const Value& root = *impl_->value;
  if (root.buffer && root.built_as == root.uop && !targets.empty()) {
    bool itself = false;
    for (const Tensor& t : targets) itself = itself || t.impl() == impl_;
    if (!itself)
      throw Error(
          ErrorCode::Type,
          "gradient: the tensor has been computed, and how is not kept; take the gradient before realize or item");
  }
  const UOp u = root.built_as;
  std::vector<UOp> wanted;
  for (const Tensor& t : targets) {
    if (!is_float(t.dtype()))
      throw Error(ErrorCode::Type, fmt::format("gradient with respect to a tensor of dtypes.{}", name(t.dtype())));
    const Value& v = *t.impl()->value;
    wanted.push_back(v.built_as);
    wanted.push_back(v.uop);  // dependents made after it was realized hold this one
  }
  const std::vector<UOp> found = uopc::gradient(u, u.const_like(1), wanted);
  std::vector<Tensor> out;
  for (size_t i = 0; i < targets.size(); i++) {
    UOp g = found[2 * i];
    if (wanted[2 * i] != wanted[2 * i + 1]) g = g + found[2 * i + 1];
    out.push_back(make_tensor(g, all));
  }
  return out;
}

}  // namespace uopc
