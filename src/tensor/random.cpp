// A counter-based generator out of the ops there are: a number is a mix of its index with a key of two words. A round
// is RC6's x * (2 x + 1), a permutation of i32 whose high bits depend on all lower ones (Rivest and others, 1998), half
// a turn that brings those down, and a word of the key.
#include <numbers>

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
  UOp x = index * 0x2C1B3C6D + key0 + stream * 0x1B873593;
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
Source source(const Context& ctx, const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  const Tensor index = iota(ctx, n), key = random_key(ctx);
  const UOp i = uop_of(index).reshape(shape), k = uop_of(key);
  const auto word = [&](int64_t w) { return k.shrink({{w, w + 1}}).reshape(Shape{}).broadcast_to(shape); };
  return {index, key, i, word(0), word(1)};
}

}  // namespace

Tensor Tensor::rand(const Context& ctx, Shape shape) {
  const Source s = source(ctx, shape);
  return make_tensor(unit(mix(s.at, s.key0, s.key1, 0)), {s.index, s.key});
}
Tensor Tensor::uniform(const Context& ctx, Shape shape, double low, double high) {
  return rand(ctx, std::move(shape)) * (high - low) + low;
}
// Box and Muller's: the radius of a uniform number above 0, the angle of another.
Tensor Tensor::randn(const Context& ctx, Shape shape) {
  const Source s = source(ctx, shape);
  const UOp u = unit(mix(s.at, s.key0, s.key1, 1)), angle = unit(mix(s.at, s.key0, s.key1, 2));
  const UOp radius = ((1.0 - u).log2() * (-2 * std::numbers::ln2)).sqrt();
  return make_tensor(radius * (angle * (2 * std::numbers::pi)).sin(), {s.index, s.key});
}
Tensor Tensor::randint(const Context& ctx, Shape shape, int32_t low, int32_t high) {
  if (low >= high) throw Error(ErrorCode::Type, "randint: the range is empty");
  const int64_t span = int64_t{high} - low;
  if (span > (1 << 24)) throw Error(ErrorCode::NotImplemented, "randint: a range of more than 2**24 numbers");
  const Source s = source(ctx, shape);
  const UOp bits = mix(s.at, s.key0, s.key1, 3);
  const UOp scaled = (unit(bits) * static_cast<double>(span)).cast(DType::I32);
  return make_tensor(scaled.minimum(span - 1) + int64_t{low}, {s.index, s.key});
}
Tensor Tensor::rand_like() const {
  return rand(context(), shape()).cast(is_float(dtype()) ? dtype() : DType::F32);
}
Tensor Tensor::randn_like() const {
  return randn(context(), shape()).cast(is_float(dtype()) ? dtype() : DType::F32);
}

}  // namespace uopc
