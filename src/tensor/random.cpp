// A counter-based generator out of the ops there are: a number is a mix of its index with a key of two words. A round
// is RC6's x * (2 x + 1), a permutation of i32 whose high bits depend on all lower ones (Rivest and others, 1998), half
// a turn that brings those down, and a word of the key.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "ir/py_text.hpp"
#include "tensor/operands.hpp"

namespace uopc {
namespace {

UOp half_turn(UOp x) {
  constexpr int64_t kHalf = 1 << 16;
  return x * kHalf + x.floordiv(kHalf).floormod(kHalf);
}

// `stream` tells apart the numbers that one tensor needs several of for each element.
UOp mix(UOp index, UOp key0, UOp key1, int64_t stream) {
  const auto spread = [](UOp x) { return x * (x * 2 + 1); };
  UOp x = index * 0x2C1B3C6D + key0 + int64_t{static_cast<int32_t>(static_cast<uint32_t>(stream) * 0x1B873593u)};
  for (int round = 0; round < 5; round++)
    x = half_turn(spread(x)) + (round % 2 == 0 ? key1 : key0) + int64_t{round} * 0x1E3779B9;
  return spread(x);
}

// 24 bits as a float in [0, 1).
UOp unit(UOp bits) {
  return bits.floordiv(256).floormod(1 << 24).cast(DType::F32) * (1.0 / (1 << 24));
}

struct Source {
  Tensor index, key;
  UOp at, key0, key1;
};
Source source(const char* operation, const Context& ctx, const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    if (d < 0 || __builtin_mul_overflow(n, d, &n) || n > INT32_MAX)
      throw Error(ErrorCode::Type,
                  fmt::format("{} of shape {}: sizes are not negative, and there are at most 2**31 - 1 "
                              "elements",
                              operation, py_tuple(shape)));
  const Tensor index = iota(ctx, n), key = random_key(ctx);
  const UOp i = uop_of(index).reshape(shape), k = uop_of(key);
  const auto word = [&](int64_t w) { return k.shrink({{w, w + 1}}).reshape(Shape{}).broadcast_to(shape); };
  return {index, key, i, word(0), word(1)};
}

}  // namespace

Tensor Tensor::rand(const Context& ctx, Shape shape) {
  const Source s = source("rand", ctx, shape);
  return make_tensor(unit(mix(s.at, s.key0, s.key1, 0)), {s.index, s.key});
}
Tensor Tensor::uniform(const Context& ctx, Shape shape, double low, double high) {
  const auto end = static_cast<float>(high);
  if (!(low <= high) || !std::isfinite(end - static_cast<float>(low)))
    throw Error(ErrorCode::Type, fmt::format("uniform: [{}, {}) is no range of floats", low, high));
  const Tensor v = rand(ctx, std::move(shape)) * (high - low) + low;
  // Rounding may reach `high`.
  return low < high ? v.minimum(std::nextafter(end, -std::numeric_limits<float>::infinity())) : v;
}
// Box and Muller's: the radius of a number in (0, 1), the angle of another. The radius has 30 bits, small ones exactly,
// so that its tail reaches 6.5.
Tensor Tensor::randn(const Context& ctx, Shape shape) {
  const Source s = source("randn", ctx, shape);
  const UOp bits = mix(s.at, s.key0, s.key1, 1), angle = unit(mix(s.at, s.key0, s.key1, 2));
  const UOp u = (bits.floordiv(4).floormod(1 << 30).cast(DType::F32) + 0.5) * 0x1p-30;
  const UOp radius = (u.log2() * (-2 * std::numbers::ln2)).max(0.0).sqrt();
  return make_tensor(radius * (angle * (2 * std::numbers::pi)).sin(), {s.index, s.key});
}
// The remainder of 31 bits. Those past the last whole range would favour small numbers; where that shows, the first of
// a few draws that is none of them counts.
Tensor Tensor::randint(const Context& ctx, Shape shape, int32_t low, int32_t high) {
  const int64_t span = int64_t{high} - low, whole = span < 1 ? 0 : (int64_t{1} << 31) / span * span;
  if (span < 1) throw Error(ErrorCode::Type, fmt::format("randint: no number is in [{}, {})", low, high));
  if (span > INT32_MAX)
    throw Error(ErrorCode::Type, fmt::format("randint: [{}, {}) has more than 2**31 - 1 numbers", low, high));
  const Source s = source("randint", ctx, shape);
  const auto draw = [&](int64_t stream) {
    const UOp bits = mix(s.at, s.key0, s.key1, stream);
    return bits.lt(0).where(bits * -1 - 1, bits);
  };
  UOp v = draw(3);
  if (span > 65536 && whole <= INT32_MAX)
    for (int64_t stream = 4; stream < 10; stream++) v = v.lt(whole).where(v, draw(stream));
  return make_tensor(v.floormod(span) + int64_t{low}, {s.index, s.key});
}
Tensor Tensor::rand_like() const {
  return rand(context(), shape()).cast(is_float(dtype()) ? dtype() : DType::F32);
}
Tensor Tensor::randn_like() const {
  return randn(context(), shape()).cast(is_float(dtype()) ? dtype() : DType::F32);
}

}  // namespace uopc
