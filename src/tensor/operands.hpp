// Operands brought to one dtype and shape.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/value.hpp"

namespace uopc {

// The larger of bool < i32 < f16 < f32.
DType promote(DType a, DType b);
// What a number beside a tensor of dtype `d` becomes: d, but f32 for a float beside bool or i32, and i32 for an
// integer beside bool.
DType promote(DType d, Scalar v);

// NumPy's rule. Throws Error(Type) "add: can't broadcast (2,) with (3,)".
Shape broadcast_shape(const char* operation, const Shape& a, const Shape& b);

// An axis counted from the front. Throws Error(Type) that names the operation.
int64_t normal_axis(const char* operation, int64_t axis, int64_t ndim);
// Sorted, each once; all axes where none are given.
std::vector<int64_t> normal_axes(const char* operation, const Axes& axes, int64_t ndim);

// A constant of u's dtype and shape. Throws Error(Type) for an int that is no i32 beside one.
UOp number_like(const char* operation, UOp u, Scalar v);

using BinaryUOp = UOp (*)(UOp, UOp);
// f of both in one dtype and shape. `dtype` Void: the promoted one.
Tensor binary(const char* operation, const Tensor& a, const Tensor& b, BinaryUOp f, DType dtype = DType::Void);
Tensor binary(const char* operation, const Tensor& a, Scalar b, BinaryUOp f, DType dtype = DType::Void);
Tensor binary(const char* operation, Scalar a, const Tensor& b, BinaryUOp f, DType dtype = DType::Void);

// What was computed of a tensor of dtype `d` in f32: f16 again where that was f16. f16 holds nothing beyond 65,504, and
// rounding each step of a sum or a norm loses what it is made of.
Tensor rounded(const Tensor& y, DType d);

// f of a float value: bool and i32 become f32.
using UnaryUOp = UOp (*)(UOp);
Tensor unary_float(const Tensor& a, UnaryUOp f);

}  // namespace uopc
