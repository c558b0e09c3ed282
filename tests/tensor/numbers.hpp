// Small numbers without a pattern, exact in f32: multiples of 1 / divisor.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "uopc/tensor.hpp"

namespace uopc {

template <int divisor>
std::vector<float> numbers(int64_t n, int64_t salt) {
  std::vector<float> v;
  for (int64_t i = 0; i < n; i++)
    v.push_back(static_cast<float>((i * 7919 + salt * 104729) % 199 - 99) / static_cast<float>(divisor));
  return v;
}

inline Tensor tensor(const Context& ctx, const std::vector<float>& v, Shape shape) {
  return Tensor::from(ctx, std::span<const float>(v), std::move(shape));
}

}  // namespace uopc
