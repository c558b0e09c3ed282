#include <fmt/format.h>

#include "ir/py_text.hpp"
#include "tensor/operands.hpp"

namespace uopc {
namespace {

// (.., M, K) and (.., N, K) to (.., M, N): both are read along their rows. Of f16 it is f32, for the caller to round.
Tensor rows_by_rows(const Tensor& a, const Tensor& b) {
  const DType d = promote(a.dtype(), b.dtype()), within = d == DType::F16 ? DType::F32 : d;
  return (a.cast(within).unsqueeze(-2) * b.cast(within).unsqueeze(-3)).sum(-1);
}

}  // namespace

Tensor Tensor::matmul(const Tensor& b) const {
  check_one_context({*this, b}, "matmul");
  const auto wrong = [&] {
    return Error(ErrorCode::Type, fmt::format("matmul: {} by {}: the last size of the one must be the last but one of "
                                              "the other",
                                              py_tuple(shape()), py_tuple(b.shape())));
  };
  if (ndim() == 0 || b.ndim() == 0) throw wrong();
  const Tensor x = ndim() == 1 ? unsqueeze(0) : *this, y = b.ndim() == 1 ? b.unsqueeze(-1) : b;
  if (x.size(-1) != y.size(-2)) throw wrong();
  broadcast_shape("matmul", Shape(x.shape().begin(), x.shape().end() - 2),
                  Shape(y.shape().begin(), y.shape().end() - 2));
  Tensor out = rounded(rows_by_rows(x, y.transpose(-2, -1)), promote(dtype(), b.dtype()));
  if (b.ndim() == 1) out = out.squeeze(-1);
  if (ndim() == 1) out = out.squeeze(b.ndim() == 1 ? -1 : -2);
  return out;
}

Tensor Tensor::linear(const Tensor& weight, const Tensor& bias) const {
  check_one_context({*this, weight, bias ? bias : weight}, "linear");
  if (ndim() == 0 || weight.ndim() != 2 || weight.size(1) != size(-1))
    throw Error(ErrorCode::Type, fmt::format("linear: a weight of shape {} does not take {}: it is (out, in)",
                                             py_tuple(weight.shape()), py_tuple(shape())));
  if (bias && bias.shape() != Shape{weight.size(0)})
    throw Error(ErrorCode::Type,
                fmt::format("linear: a bias of shape {} beside a weight of shape {}: {} is right",
                            py_tuple(bias.shape()), py_tuple(weight.shape()), py_tuple(Shape{weight.size(0)})));
  Tensor out = rows_by_rows(ndim() == 1 ? unsqueeze(0) : *this, weight);
  if (ndim() == 1) out = out.squeeze(0);
  const DType d = promote(dtype(), weight.dtype());
  return bias ? rounded(out + bias, promote(d, bias.dtype())) : rounded(out, d);
}

}  // namespace uopc
