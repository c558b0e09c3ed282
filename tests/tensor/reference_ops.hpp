// What tensor operations mean, in doubles and plain loops: the independent truth of the operation tests. Nothing of the
// library is used but the names of its types.
#pragma once
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "uopc/tensor.hpp"

namespace uopc::plain {

using Index = std::vector<int64_t>;
using Values = std::vector<double>;

struct NdArray {
  DType dtype = DType::F32;
  Shape shape;
  Values data;   // row-major
  Values scale;  // what an error of an element is relative to; its size where there is none
};

// What a sum is: the terms' sizes times their number bound its rounding errors in any order of adding.
struct Sum {
  double value = 0, size = 0, terms = 1;
  void add(double term, double term_size) {
    value += term;
    size += term_size;
    terms++;
  }
  void add(double term) { add(term, term < 0 ? -term : term); }
  double scale() const { return size * terms; }
};

double round_to(DType d, double v);  // to the nearest, ties to even; i32 wraps, bool is whether it is not 0
uint16_t half_bits(double v);        // of a value that f16 has

int64_t count(const Shape& shape);
int64_t normal(int64_t axis, int64_t ndim);
Index place(const Shape& shape, int64_t offset);
double get(const NdArray& a, const Index& at);
NdArray make(DType d, Shape shape, const std::function<double(const Index&)>& f);
NdArray moved(const NdArray& a, Shape shape, const std::function<Index(const Index&)>& from);  // each from one place

DType larger(DType a, DType b);
DType float_of(DType d);   // f16 or f32
DType number_of(DType d);  // no bool
Shape common_shape(const Shape& a, const Shape& b);
NdArray broadcast(const NdArray& a, const Shape& shape);
NdArray cast(NdArray a, DType d);
NdArray map(const NdArray& a, DType d, const std::function<double(double)>& f);
NdArray map(const NdArray& a, const NdArray& b, DType d, const std::function<double(double, double)>& f);
NdArray select(const NdArray& condition, const NdArray& a, const NdArray& b);
NdArray scaled_sum(NdArray a, const NdArray& b);  // a + b where both may be large beside their sum

// All axes where `axes` is null. `f` gets the elements in row-major order and gives a value and its scale.
using Fold = std::function<std::pair<double, double>(const Values&)>;
NdArray fold(const NdArray& a, const std::vector<int64_t>* axes, bool keepdim, DType d, const Fold& f);
NdArray along(const NdArray& a, int64_t axis, DType d, const std::function<Values(const Values&)>& f);
std::pair<double, double> sum_of(const Values& v);
std::pair<double, double> mean_of(const Values& v);
std::pair<double, double> variance_of(const Values& v, int64_t correction);
double log_sum_exp(const Values& v);
Values softmax_of(const Values& v);

NdArray permute(const NdArray& a, const Index& order);
NdArray cut(const NdArray& a, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
NdArray join(const std::vector<NdArray>& parts, int64_t axis);
NdArray matmul(const NdArray& a, const NdArray& b);
NdArray conv2d(const NdArray& x, const NdArray& w, const NdArray* bias, const Conv2dOptions& o);
NdArray pool2d(const NdArray& x, const Pool2dOptions& o, bool average);
// `added` broadcasts to the scores; -inf: not seen.
NdArray attention(const NdArray& q, const NdArray& k, const NdArray& v, const NdArray& added);

}  // namespace uopc::plain
