// NumPy's .npy files, of the element types that uopc has: bool, int32, float32 and float16.
//
// float64 and int64 are refused, not converted: a kernel must see the numbers that are in the file.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "uopc/dtype.hpp"
#include "uopc/export.hpp"
#include "uopc/kernel.hpp"
#include "uopc/passes.hpp"
#include "uopc/uop.hpp"

namespace uopc {

struct NpyArray {
  DType dtype = DType::F32;
  Shape shape;
  std::vector<std::byte> data;  // row-major, in this machine's byte order; bool is 0 or 1

  int64_t size() const { return static_cast<int64_t>(data.size()) / itemsize(dtype); }
};

// The array that a whole file holds: format versions 1 to 3, either byte order, row-major or Fortran order. Throws
// Error(Parse). No length in the header is believed before it is compared with the size of the file.
UOPC_API NpyArray parse_npy(std::string_view file);

// The bytes that stand before the data: version 1, or 2 where the header is longer than version 1 can say.
UOPC_API std::string npy_header(DType dtype, const Shape& shape);

// Throws Error(Parse) "x.npy: ..." and Error(Run) "cannot read 'x.npy': ...".
UOPC_API NpyArray read_npy(const std::string& path);

// A file that is there already is replaced in one step when everything has been written, or kept. Throws Error(Run).
UOPC_API void write_npy(const std::string& path, DType dtype, const Shape& shape, BufferRef data);

// The nested list of NumPy's `tolist`; to_string() of it prints the array as Python does. Throws Error(Type) when the
// data has not the size that the shape needs.
UOPC_API PyValue to_python(DType dtype, const Shape& shape, BufferRef data);

// "float32": what NumPy calls `d`.
UOPC_API const char* numpy_name(DType d);

}  // namespace uopc
