// Tensors: lazy values of a Context, named as tinygrad's and PyTorch's.
//
//   uopc::Context ctx;
//   auto x = uopc::Tensor::from(ctx, {1.f, 2.f, 3.f, 4.f}, {2, 2});
//   auto y = (x.matmul(x.T()) * 0.5).softmax(-1);     // nothing runs yet
//   std::vector<float> v = y.to_vector<float>();      // makes kernels, compiles them, runs them
//
// A Tensor is a handle; copies are the same tensor. A value is computed when it is asked for (`realize`, `item`,
// `to_vector`), once, and what was built on it before uses the computed one. Operations never change their operands,
// and give a tensor of their own also where nothing is to be done (a reshape to the same shape); `assign` and `write`
// are the only ones that change a tensor, and what was derived from it earlier keeps the old value.
//
// Shapes are in elements, row-major. Operands broadcast as NumPy's. Negative axes count from the end. Dtypes of two
// operands are brought to the larger of bool < i32 < f16 < f32; a C++ number takes the tensor's dtype, but a float
// beside bool or i32 makes f32, and an int beside bool i32.
//
// f16 is a storage format here: sums, products of matrices, convolutions, norms, softmax and losses compute in f32
// and round once.
//
// Errors: Error(Type) for shapes, axes and dtypes that do not fit and for two Contexts in one expression; those of
// Engine::compile.
//
// A tensor that has been computed no longer knows how, unless something was built on it before: `gradient` comes first,
// and is an Error(Type) where it would have to go through such a tensor.
//
// Thread-safety: a Context and its tensors belong to one thread at a time. Contexts are independent; several may share
// an Engine.
#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "uopc/context.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// A set of axes: none given means all of them. sum(), sum(-1), sum({0, 2}).
struct Axes {
  std::optional<std::vector<int64_t>> list;
  Axes() = default;
  Axes(int64_t axis) : list{{axis}} {}
  Axes(int axis) : Axes(int64_t{axis}) {}
  Axes(std::initializer_list<int64_t> axes) : list(std::vector<int64_t>(axes)) {}
  Axes(std::vector<int64_t> axes) : list(std::move(axes)) {}
};

// `keepdim` of a reduction: true keeps the reduced axes as size 1. Made of a bool alone, so that sum(0, 1) does not
// compile: it means the axes {0, 1}.
struct Keepdim {
  bool value = false;
  Keepdim() = default;
  template <class B>
  requires std::same_as<B, bool> Keepdim(B keep) : value(keep) {}
  operator bool() const { return value; }
};

// One place of `x.at({...})`, as Python's: a number (the axis goes), a Slice, kNewAxis, kEllipsis.
struct Slice {
  std::optional<int64_t> begin{}, end{};
  int64_t step = 1;  // may be negative
};
struct At {
  enum class Kind : uint8_t { Number, Slice, NewAxis, Ellipsis };
  Kind kind;
  int64_t number = 0;
  uopc::Slice slice{};
  At(int64_t i) : kind(Kind::Number), number(i) {}
  At(int i) : At(int64_t{i}) {}
  At(uopc::Slice s) : kind(Kind::Slice), slice(s) {}
  explicit At(Kind k) : kind(k) {}
};
inline const At kNewAxis{At::Kind::NewAxis}, kEllipsis{At::Kind::Ellipsis};

struct Conv2dOptions {  // (height, width) each
  std::pair<int64_t, int64_t> stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1;
};
struct Pool2dOptions {
  std::pair<int64_t, int64_t> kernel{2, 2};
  std::optional<std::pair<int64_t, int64_t>> stride{};  // the kernel's size when absent
  std::pair<int64_t, int64_t> padding{0, 0}, dilation{1, 1};
  bool count_include_pad = true;  // average: whether padding counts
};

class UOPC_API Tensor {
 public:
  Tensor() = default;  // empty: may only be assigned to, tested or destroyed
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  // Of a variable only: `x[0] = y` would change a temporary. `x[0].assign(y)` changes x.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;

  // ---- creation (each call makes a tensor of its own, also of equal contents) ----
  static Tensor from(const Context& ctx, std::span<const float> data, Shape shape);
  static Tensor from(const Context& ctx, std::span<const int32_t> data, Shape shape);
  static Tensor from(const Context& ctx, std::span<const double> data, Shape shape);   // rounded to f32
  static Tensor from(const Context& ctx, std::span<const int64_t> data, Shape shape);  // to i32; else an Error(Type)
  template <std::ranges::contiguous_range R>
  static Tensor from(const Context& ctx, const R& data) {  // of one axis
    return from(ctx, std::span(data), {static_cast<int64_t>(std::ranges::size(data))});
  }
  // Of numbers as written: bool if all are, i32 if none is a float, else f32. An int that is no i32 is an Error(Type).
  static Tensor from(const Context& ctx, std::initializer_list<Scalar> data, Shape shape);
  static Tensor from(const Context& ctx, std::initializer_list<Scalar> data) {
    return from(ctx, data, {static_cast<int64_t>(data.size())});
  }
  static Tensor from_bytes(const Context& ctx, std::span<const std::byte> data, Shape shape, DType dtype);
  static Tensor scalar(const Context& ctx, Scalar v);  // shape (), dtype from the C++ type
  static Tensor zeros(const Context& ctx, Shape shape, DType dtype = DType::F32);
  static Tensor ones(const Context& ctx, Shape shape, DType dtype = DType::F32);
  static Tensor full(const Context& ctx, Shape shape, Scalar v);  // dtype from the C++ type
  static Tensor full(const Context& ctx, Shape shape, Scalar v, DType dtype);
  static Tensor empty(const Context& ctx, Shape shape, DType dtype = DType::F32);  // zeros, which may change
  static Tensor arange(const Context& ctx, int64_t end);                           // i32
  static Tensor arange(const Context& ctx, int64_t begin, int64_t end, int64_t step = 1);
  static Tensor linspace(const Context& ctx, double begin, double end, int64_t steps);
  static Tensor eye(const Context& ctx, int64_t n, DType dtype = DType::F32);
  static Tensor rand(const Context& ctx, Shape shape);                                // [0, 1)
  static Tensor uniform(const Context& ctx, Shape shape, double low, double high);    // [low, high)
  static Tensor randn(const Context& ctx, Shape shape);                               // mean 0, variance 1
  static Tensor randint(const Context& ctx, Shape shape, int32_t low, int32_t high);  // low..high-1
  Tensor zeros_like() const;
  Tensor ones_like() const;
  Tensor full_like(Scalar v) const;
  Tensor rand_like() const;
  Tensor randn_like() const;

  // ---- what it is ----
  explicit operator bool() const& { return impl_ != nullptr; }  // not empty
  explicit operator bool() && = delete;  // `if (x < y)` would ask that of a comparison: (x < y).item<bool>()
  const Shape& shape() const&;           // stays what it is; valid as long as the tensor
  Shape shape() &&;
  int64_t ndim() const { return static_cast<int64_t>(shape().size()); }
  int64_t size(int64_t axis) const;
  int64_t numel() const;
  DType dtype() const;
  Context context() const;
  UOp uop() const;  // valid until a tensor of the Context is realized

  // ---- values ----
  const Tensor& realize() const;                         // computes it into memory of its own
  static void realize(std::span<const Tensor> tensors);  // together: one plan
  static void realize(std::initializer_list<Tensor> tensors) { realize(std::span(tensors.begin(), tensors.size())); }
  bool is_realized() const;
  template <class T>
  T item() const;  // of one element; T is float, double, int32_t, int64_t or bool
  template <class T>
  std::vector<T> to_vector() const;  // float, double, int32_t, int64_t, char (of bool): converted
  template <std::same_as<bool> T>
  std::vector<T> to_vector() const = delete;  // vector<bool> has no elements to fill: to_vector<char>()
  std::span<const std::byte> bytes() const;   // realizes; valid until the tensor is assigned, written or destroyed
  std::string to_string() const;              // realizes; nested list as Python prints it

  // Gives the tensor the value of `v` (same shape, same dtype). Of a view made by slicing, permuting and reshaping
  // (not expand, flip, or a step that does not divide the axis), the tensor that it is a view of changes there.
  // Computed in place where every element is read at the index that is written only; otherwise through a temporary.
  Tensor& assign(const Tensor& v);
  // Overwrites the memory of a realized tensor with host data, as `assign` of a tensor from that data does: a vector,
  // span or array of its element type (float, int32_t, bool), or of bytes or anything else as the bits that they are.
  void write(const BufferRef& data);

  Tensor contiguous() const;  // a cut: computed into memory of its own when a plan needs it
  Tensor detach() const;      // no gradient passes
  Tensor clone() const;       // a tensor of its own with this value
  Tensor cast(DType d) const;
  Tensor to_f32() const { return cast(DType::F32); }
  Tensor to_f16() const { return cast(DType::F16); }

  // ---- movement ----
  Tensor reshape(Shape shape) const;  // one size may be -1
  Tensor view(Shape shape) const { return reshape(std::move(shape)); }
  Tensor expand(Shape shape) const;  // -1 keeps a size; leading axes may be added
  Tensor broadcast_to(Shape shape) const { return expand(std::move(shape)); }
  Tensor permute(Shape order) const;
  Tensor transpose(int64_t a = -2, int64_t b = -1) const;
  Tensor T() const;  // axes reversed
  Tensor movedim(int64_t from, int64_t to) const;
  Tensor shrink(std::vector<std::pair<int64_t, int64_t>> bounds) const;
  Tensor narrow(int64_t axis, int64_t start, int64_t length) const;  // a negative start counts from the end
  Tensor at(std::vector<At> places) const;                           // x.at({1, Slice{0, -1}, kEllipsis})
  Tensor operator[](int64_t i) const { return at({At(i)}); }
  Tensor pad(std::vector<std::pair<int64_t, int64_t>> before_after, Scalar value = 0) const;  // negative: cut off
  Tensor flip(Axes axes = {}) const;
  static Tensor cat(std::span<const Tensor> parts, int64_t axis = 0);
  static Tensor cat(std::initializer_list<Tensor> parts, int64_t axis = 0) {
    return cat(std::span(parts.begin(), parts.size()), axis);
  }
  static Tensor stack(std::span<const Tensor> parts, int64_t axis = 0);
  static Tensor stack(std::initializer_list<Tensor> parts, int64_t axis = 0) {
    return stack(std::span(parts.begin(), parts.size()), axis);
  }
  std::vector<Tensor> split(int64_t size, int64_t axis = 0) const;  // pieces of `size`, the last may be shorter
  std::vector<Tensor> split(Shape sizes, int64_t axis = 0) const;   // they add up to the axis
  std::vector<Tensor> chunk(int64_t n, int64_t axis = 0) const;
  Tensor repeat(Shape times) const;
  Tensor repeat_interleave(int64_t times, int64_t axis) const;
  Tensor squeeze(Axes axes = {}) const;
  Tensor unsqueeze(int64_t axis) const;
  Tensor flatten(int64_t first = 0, int64_t last = -1) const;
  Tensor unflatten(int64_t axis, Shape sizes) const;
  Tensor roll(int64_t shift, int64_t axis) const;
  Tensor tril(int64_t diagonal = 0) const;
  Tensor triu(int64_t diagonal = 0) const;

  // ---- element-wise ----
  Tensor neg() const;
  Tensor reciprocal() const;
  Tensor exp() const;  // as 2^(x log2 e): the relative error grows with |x|, 4e-6 at 80
  Tensor exp2() const;
  Tensor expm1() const;  // exp(x) - 1, precise near 0
  Tensor log() const;
  Tensor log2() const;
  Tensor log1p() const;  // log(1 + x), precise near 0
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tan() const;
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor relu() const;
  Tensor leaky_relu(double slope = 0.01) const;
  Tensor gelu() const;  // the tanh form
  Tensor silu() const;
  Tensor softplus() const;
  Tensor elu(double alpha = 1) const;
  Tensor abs() const;
  Tensor sign() const;  // of a NaN: 0
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;  // half to even
  Tensor trunc() const;
  Tensor square() const;
  Tensor isnan() const;
  Tensor isinf() const;
  Tensor isfinite() const;
  Tensor logical_not() const;
  Tensor clamp(std::optional<Scalar> low, std::optional<Scalar> high) const;
  // Whole exponents that are numbers: by multiplication, of i32 to i32 (negative: f32). The numbers 0.5 and -0.5: as
  // sqrt and rsqrt. Else exp2(y log2 x), off by up to 1e-5 of the value where that is huge or tiny, with IEEE's special
  // cases.
  Tensor pow(const Tensor& exponent) const;
  Tensor pow(Scalar exponent) const;
  // Beside a NaN: either operand. `isnan` tells.
  Tensor minimum(const Tensor& b) const;
  Tensor minimum(Scalar b) const;
  Tensor maximum(const Tensor& b) const;
  Tensor maximum(Scalar b) const;
  Tensor floordiv(const Tensor& b) const;  // i32: Python's //; by a zero in data: 0; by the number 0: an Error(Type)
  Tensor floordiv(Scalar b) const;
  Tensor mod(const Tensor& b) const;  // i32: Python's %
  Tensor mod(Scalar b) const;
  Tensor eq(const Tensor& b) const;  // bool, as the six below
  Tensor eq(Scalar b) const;
  Tensor ne(const Tensor& b) const;
  Tensor ne(Scalar b) const;
  Tensor logical_and(const Tensor& b) const;
  Tensor logical_or(const Tensor& b) const;
  Tensor logical_xor(const Tensor& b) const;
  // This is the condition.
  Tensor where(const Tensor& a, const Tensor& b) const;
  Tensor where(const Tensor& a, Scalar b) const;
  Tensor where(Scalar a, const Tensor& b) const;
  Tensor where(Scalar a, Scalar b) const;
  Tensor masked_fill(const Tensor& mask, Scalar v) const { return mask.where(v, *this); }

  // ---- reductions (no axes: all of them) ----
  Tensor sum(Axes axes = {}, Keepdim keepdim = {}) const;  // of bool: counts; of i32: wraps; of f16: accumulates in f32
  // Of no elements: -inf, INT_MIN, false. The larger of a NaN and a number may be either, here and in `maximum`; equal
  // elements share the gradient.
  Tensor max(Axes axes = {}, Keepdim keepdim = {}) const;
  Tensor min(Axes axes = {}, Keepdim keepdim = {}) const;
  Tensor mean(Axes axes = {}, Keepdim keepdim = {}) const;
  Tensor var(Axes axes = {}, int64_t correction = 1, Keepdim keepdim = {}) const;
  Tensor std(Axes axes = {}, int64_t correction = 1, Keepdim keepdim = {}) const;
  Tensor any(Axes axes = {}, Keepdim keepdim = {}) const;
  Tensor all(Axes axes = {}, Keepdim keepdim = {}) const;
  Tensor argmax(std::optional<int64_t> axis = {}, Keepdim keepdim = {}) const;  // i32; the first of equals
  Tensor argmin(std::optional<int64_t> axis = {}, Keepdim keepdim = {}) const;
  Tensor softmax(int64_t axis = -1) const;
  Tensor log_softmax(int64_t axis = -1) const;
  Tensor logsumexp(Axes axes = {}, Keepdim keepdim = {}) const;
  Tensor cumsum(int64_t axis = 0) const;

  // ---- products, convolutions, pools ----
  Tensor matmul(const Tensor& b) const;  // NumPy's matmul: vectors, batches broadcast
  Tensor dot(const Tensor& b) const { return matmul(b); }
  Tensor linear(const Tensor& weight, const Tensor& bias = {}) const;                               // weight (out, in)
  Tensor conv2d(const Tensor& weight, const Tensor& bias = {}, const Conv2dOptions& o = {}) const;  // NCHW, OIHW
  Tensor avg_pool2d(const Pool2dOptions& o = {}) const;
  Tensor max_pool2d(const Pool2dOptions& o = {}) const;

  // ---- lookups: an index out of range finds nothing, which is 0 (and a label out of range has no loss) ----
  Tensor gather(int64_t axis, const Tensor& index) const;  // PyTorch's
  Tensor index_select(int64_t axis, const Tensor& index) const;
  Tensor one_hot(int64_t classes) const;  // i32 indices to f32; a row of zeros out of range
  static Tensor embedding(const Tensor& weight, const Tensor& index);

  // ---- nets ----
  Tensor layer_norm(int64_t axes = 1, double eps = 1e-5) const;  // over the last `axes` axes
  Tensor rms_norm(double eps = 1e-6) const;                      // over the last axis
  Tensor batch_norm(const Tensor& weight, const Tensor& bias, const Tensor& mean,
                    const Tensor& inv_std) const;  // axis 1
  Tensor dropout(double p = 0.5) const;            // itself unless the Context is in training mode
  // Of (..., classes) and i32 labels (...): the mean over all labels, those out of range (of no loss) counted; f32.
  Tensor cross_entropy(const Tensor& labels, double label_smoothing = 0) const;
  Tensor binary_cross_entropy_with_logits(const Tensor& target) const;
  Tensor mse_loss(const Tensor& target) const;
  // (..., T, d) each. `mask`: bool (true: seen) or added. A row that sees nothing is 0.
  static Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask = {},
                                             bool causal = false, double dropout = 0);
  static Tensor causal_mask(const Context& ctx, int64_t rows, int64_t columns);  // bool, true where column <= row

  // Gradients of this one-element tensor with respect to `targets`. A target that it does not depend on gets zeros.
  // Equal expressions are one value: two tensors built alike out of the same operands have one gradient.
  std::vector<Tensor> gradient(std::span<const Tensor> targets) const;
  std::vector<Tensor> gradient(std::initializer_list<Tensor> targets) const {
    return gradient(std::span(targets.begin(), targets.size()));
  }

  struct Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

// Arithmetic: of two tensors, or of a tensor and a number on either side. `/` of integers gives f32.
#define UOPC_TENSOR_OPERATOR(sign)                                 \
  UOPC_API Tensor operator sign(const Tensor& a, const Tensor& b); \
  UOPC_API Tensor operator sign(const Tensor& a, Scalar b);        \
  UOPC_API Tensor operator sign(Scalar a, const Tensor& b);
UOPC_TENSOR_OPERATOR(+)
UOPC_TENSOR_OPERATOR(-)
UOPC_TENSOR_OPERATOR(*)
UOPC_TENSOR_OPERATOR(/)
UOPC_TENSOR_OPERATOR(<)
UOPC_TENSOR_OPERATOR(>)
UOPC_TENSOR_OPERATOR(<=)
UOPC_TENSOR_OPERATOR(>=)
#undef UOPC_TENSOR_OPERATOR
UOPC_API Tensor operator-(const Tensor& a);
UOPC_API std::ostream& operator<<(std::ostream& out, const Tensor& t);  // as to_string
// A Tensor in a condition asks whether the handle is empty; these would ask that of two comparisons. logical_and,
// logical_or.
Tensor operator&&(const Tensor&, const Tensor&) = delete;
Tensor operator||(const Tensor&, const Tensor&) = delete;

}  // namespace uopc
