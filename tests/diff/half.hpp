// IEEE binary16 by itself: what the tests compare against must not share code with what is tested.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace uopc::diff {

inline double half_to_double(uint16_t h) {
  const int exponent = (h >> 10) & 31, fraction = h & 1023;
  const double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, exponent - 25);
  return h & 0x8000 ? -magnitude : magnitude;
}

// `v` rounded to the nearest half, ties to even; exact for every double.
inline double round_to_half(double v) {
  if (v != v || std::isinf(v) || v == 0) return v;
  const int exponent = std::max(std::ilogb(v), -14);
  const double r = std::ldexp(std::nearbyint(std::ldexp(v, 10 - exponent)), exponent - 10);
  return std::fabs(r) >= 65520 ? std::copysign(INFINITY, v) : r;
}

// Of a value that is a half already.
inline uint16_t half_bits(double v) {
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  if (v != v) return 0x7e00;
  v = std::fabs(v);
  if (std::isinf(v)) return sign | 0x7c00;
  if (v < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::ldexp(v, 24)));
  const int exponent = std::ilogb(v);
  return static_cast<uint16_t>(sign | ((exponent + 15) << 10) |
                               (static_cast<uint16_t>(std::ldexp(v, 10 - exponent)) & 1023));
}

}  // namespace uopc::diff
