// IEEE binary16 as a storage format: the C++ compiler need not have one.
#pragma once
#include <bit>
#include <cstdint>

namespace uopc {

// The value of a binary16 bit pattern; exact.
constexpr float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 31, mantissa = h & 0x3FF;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

// Round to nearest, ties to even, from the double in one step. Overflow gives infinity; a NaN stays a quiet NaN.
constexpr uint16_t half_from_double(double v) {
  const uint64_t bits = std::bit_cast<uint64_t>(v);
  const uint16_t sign = static_cast<uint16_t>(bits >> 48 & 0x8000);
  const int exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023;
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 1024) return sign | 0x7C00 | (fraction ? 0x200 | static_cast<uint16_t>(fraction >> 42) : 0);
  if (exponent > 15) return sign | 0x7C00;
  if (exponent < -25) return sign;
  const uint64_t significand = fraction | uint64_t{1} << 52;
  const int shift = exponent >= -14 ? 42 : 42 + (-14 - exponent);  // bits below the last one kept
  const uint64_t kept = significand >> shift, rest = significand & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  const uint64_t rounded = kept + (rest > half || (rest == half && (kept & 1)));
  // A carry out of the significand moves into the exponent field, which is just right.
  if (exponent < -14) return sign | static_cast<uint16_t>(rounded);
  return sign | static_cast<uint16_t>((static_cast<uint64_t>(exponent + 14) << 10) + rounded);
}

constexpr double round_to_half(double v) {
  return half_to_float(half_from_double(v));
}

}  // namespace uopc
