// The UOp graph: one immutable node type, interned in a Graph.
//
// A `Graph` owns nodes; a `UOp` is a handle of one pointer, valid as long as its Graph. Equal (op, sources, arg)
// give the same node, so `==` on handles is equality of programs. An empty handle may be
// compared, tested and assigned to; asked for anything else it throws Error(Type). Every node is type-checked when it
// is made (A.3): a malformed one throws Error(Type) and is never seen. What that leaves open (negative sizes, what an
// END closes) `verify` (passes.hpp) checks before a program is compiled or run.
//
// Thread-safety: reading nodes is safe from any thread. Making nodes in one Graph is not; two Graphs never share state.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "uopc/dtype.hpp"
#include "uopc/error.hpp"
#include "uopc/export.hpp"
#include "uopc/op.hpp"

namespace uopc {

class Graph;
class UOp;

using Shape = std::vector<int64_t>;

// ---- args (A.2) ----------------------------------------------------------------------------------------------------

struct ParamArg {  // PARAM, BUFFER, ALLOC
  int64_t slot = 0;
  DType dtype = DType::F32;
  Shape shape;
  std::optional<AddrSpace> addrspace;  // ALLOC only: LOCAL when absent
  friend bool operator==(const ParamArg&, const ParamArg&) = default;
};
struct CallArg {
  std::string name = "f";
  friend bool operator==(const CallArg&, const CallArg&) = default;
};
struct RangeArg {  // ordered by idx first: loops nest in increasing idx
  int64_t idx = 0;
  AxisType kind = AxisType::Loop;
  friend auto operator<=>(const RangeArg&, const RangeArg&) = default;
};
struct ReduceArg {
  Op op = Op::Add;
  int64_t n = 1;
  friend bool operator==(const ReduceArg&, const ReduceArg&) = default;
};
struct ShrinkArg {
  std::vector<std::pair<int64_t, int64_t>> bounds;  // (begin, end) of each axis
  friend bool operator==(const ShrinkArg&, const ShrinkArg&) = default;
};
struct DetachArg {  // STAGE: no gradient passes
  friend bool operator==(const DetachArg&, const DetachArg&) = default;
};

// CONST: Scalar. CAST: DType. RESHAPE, EXPAND, PERMUTE: Shape. STAGE: nothing or DetachArg.
using Arg =
    std::variant<std::monostate, Scalar, DType, ParamArg, CallArg, RangeArg, Shape, ShrinkArg, ReduceArg, DetachArg>;

// ---- nodes ---------------------------------------------------------------------------------------------------------

// Use the accessors of UOp; this layout is public only so that they inline.
struct Node {
  Op op;
  DType dtype;
  AddrSpace addrspace;
  uint32_t id;  // creation order in its Graph
  uint32_t hash;
  uint32_t nsrc;
  const UOp* src;
  const Shape* shape;
  const Arg* arg;
  Graph* graph;
};

class UOPC_API UOp {
 public:
  UOp() = default;
  explicit UOp(const Node* node) : node_(node) {}

  Op op() const { return node().op; }
  DType dtype() const { return node().dtype; }
  AddrSpace addrspace() const { return node().addrspace; }
  const Shape& shape() const { return *node().shape; }
  int64_t ndim() const { return static_cast<int64_t>(node().shape->size()); }
  std::span<const UOp> src() const { return {node().src, node().nsrc}; }
  UOp src(size_t i) const { return node().src[i]; }
  const Arg& arg() const { return *node().arg; }
  template <class T>
  const T& arg() const {
    return std::get<T>(*node().arg);
  }
  uint32_t id() const { return node().id; }
  Graph& graph() const { return *node().graph; }
  const Node& node() const {
    if (!node_) throw_empty();
    return *node_;
  }

  bool is(Op op) const { return node().op == op; }
  bool is_const() const { return node_->op == Op::Const; }
  bool is_const(Scalar v) const { return is_const() && arg<Scalar>() == v; }
  Scalar value() const { return arg<Scalar>(); }  // of a CONST

  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(UOp a, UOp b) { return a.node_ == b.node_; }  // the same program, not an element-wise test

  // Builders. A scalar operand becomes a constant of this node's dtype and shape (`const_like`): 2.5 is 2 beside an
  // i32. Shapes must agree; `broadcast_to` makes them (only .uir text broadcasts by itself).
  UOp const_like(Scalar v) const;
  UOp cast(DType d) const;  // itself when the dtype already matches
  UOp alu(Op op, std::span<const UOp> more = {}) const;
  UOp recip() const;
  UOp exp2() const;
  UOp log2() const;
  UOp sqrt() const;
  UOp sin() const;
  UOp max(UOp b) const;
  UOp minimum(UOp b) const;  // -max(-a, -b); bool and i32 by comparison, where negation could wrap
  UOp lt(UOp b) const;
  UOp ne(UOp b) const;
  UOp eq(UOp b) const;  // ne, then ne(true)
  UOp logical_not() const;
  UOp floordiv(UOp b) const;
  UOp floormod(UOp b) const;
  UOp where(UOp a, UOp b) const;  // this is the condition
  UOp max(Scalar b) const { return max(const_like(b)); }
  UOp minimum(Scalar b) const { return minimum(const_like(b)); }
  UOp lt(Scalar b) const { return lt(const_like(b)); }
  UOp ne(Scalar b) const { return ne(const_like(b)); }
  UOp eq(Scalar b) const { return eq(const_like(b)); }
  UOp floordiv(Scalar b) const { return floordiv(const_like(b)); }
  UOp floormod(Scalar b) const { return floormod(const_like(b)); }

  UOp reshape(Shape shape) const;
  UOp expand(Shape shape) const;
  UOp permute(Shape order) const;
  UOp shrink(std::vector<std::pair<int64_t, int64_t>> bounds) const;
  UOp reduce(Op op, int64_t n) const;  // over the last n axes
  // Leading 1s, then size-1 axes grown: NumPy's rule. Throws Error(Type) "can't broadcast (2,) with (3,)".
  UOp broadcast_to(const Shape& shape) const;
  UOp stage() const;
  UOp detach() const;

  UOp index(std::span<const UOp> indices) const;
  UOp index(std::initializer_list<UOp> indices) const { return index(std::span(indices.begin(), indices.size())); }
  UOp index(UOp i) const { return index({i}); }
  UOp index(int64_t i) const;
  UOp load() const;
  UOp store(UOp value) const;
  UOp after(std::span<const UOp> deps) const;  // itself when there are none
  UOp after(std::initializer_list<UOp> deps) const { return after(std::span(deps.begin(), deps.size())); }
  UOp end(std::span<const UOp> ranges) const;
  UOp end(std::initializer_list<UOp> ranges) const { return end(std::span(ranges.begin(), ranges.size())); }

 private:
  [[noreturn]] static void throw_empty();

  const Node* node_ = nullptr;
};

// Lookups only: iterating one of these would depend on addresses.
struct UOpHash {
  size_t operator()(UOp u) const { return u.node().hash; }
};
template <class T>
using UOpMap = std::unordered_map<UOp, T, UOpHash>;

// Binary operators; both sides must agree in shape and dtype. `/` is for floats (a * recip(b)), floordiv() for i32.
UOPC_API UOp operator+(UOp a, UOp b);
UOPC_API UOp operator-(UOp a, UOp b);  // a + b * -1
UOPC_API UOp operator*(UOp a, UOp b);
UOPC_API UOp operator/(UOp a, UOp b);
UOPC_API UOp operator%(UOp a, UOp b);  // floormod
UOPC_API UOp operator-(UOp a);
inline UOp operator<(UOp a, UOp b) {
  return a.lt(b);
}
inline UOp operator>(UOp a, UOp b) {
  return b.lt(a);
}
inline UOp operator>=(UOp a, UOp b) {
  return a.lt(b).logical_not();
}
inline UOp operator<=(UOp a, UOp b) {
  return b.lt(a).logical_not();
}
#define UOPC_WITH_SCALAR(sign)                \
  inline UOp operator sign(UOp a, Scalar b) { \
    return a sign a.const_like(b);            \
  }                                           \
  inline UOp operator sign(Scalar a, UOp b) { \
    return b.const_like(a) sign b;            \
  }
UOPC_WITH_SCALAR(+)
UOPC_WITH_SCALAR(-)
UOPC_WITH_SCALAR(*)
UOPC_WITH_SCALAR(/)
UOPC_WITH_SCALAR(%)
UOPC_WITH_SCALAR(<)
UOPC_WITH_SCALAR(>)
UOPC_WITH_SCALAR(>=)
UOPC_WITH_SCALAR(<=)
#undef UOPC_WITH_SCALAR
// A UOp in a condition asks whether the handle is empty; these would ask that of two comparisons.
UOp operator&&(UOp, UOp) = delete;
UOp operator||(UOp, UOp) = delete;

// Loop programs. A sum of 8 floats, the accumulator set to 0 in every turn of the outer loop and read after the inner
// one:
//
//   UOp i = g.range_(4, 0, AxisType::Thread), k = g.range_(8, 1, AxisType::Reduce);   // idx: lower is outer
//   UOp acc = g.alloc(1, DType::F32, 0), zero = g.constant(0);
//   UOp init = acc.after({i}).index(zero).store(g.constant(0.0));                     // after(i): inside the loop of i
//   UOp old = acc.after({init, k}).index(zero).load();
//   UOp sum = acc.index(zero).store(old + in.index(i * 8 + k).load()).end({k});
//   UOp done = out.index(i).store(acc.after({sum}).index(zero).load()).end({i});
//   UOp program = g.sink({done});
//
// AFTER is the only order between a write and a read of the same memory. A node stands inside every RANGE it depends on
// that no END on the way closed.

// ---- graphs --------------------------------------------------------------------------------------------------------

class UOPC_API Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // The one way to make a node: infers its type (A.3), then interns it. Sources must be of this Graph.
  UOp make(Op op, std::span<const UOp> src = {}, Arg arg = {});
  UOp make(Op op, std::initializer_list<UOp> src, Arg arg = {}) {
    return make(op, std::span(src.begin(), src.size()), std::move(arg));
  }

  UOp constant(Scalar v);           // dtype from the Python type
  UOp constant(Scalar v, DType d);  // converted; f16 is CAST(CONST f32)
  UOp wrap(Scalar v) { return constant(v); }
  UOp wrap(UOp u) { return u; }
  UOp param(int64_t slot, DType d, Shape shape = {});
  UOp call(UOp body, std::span<const UOp> args, std::string name = "f");
  UOp buffer(int64_t size, DType d, int64_t slot);
  UOp alloc(int64_t size, DType d, int64_t slot, std::optional<AddrSpace> space = {});
  UOp stack(std::span<const UOp> parts);
  UOp stack(std::initializer_list<UOp> parts) { return stack(std::span(parts.begin(), parts.size())); }
  UOp range_(UOp end, int64_t idx, AxisType kind = AxisType::Loop);
  UOp range_(int64_t end, int64_t idx, AxisType kind = AxisType::Loop);
  UOp barrier(std::span<const UOp> deps);
  UOp barrier(std::initializer_list<UOp> deps) { return barrier(std::span(deps.begin(), deps.size())); }
  UOp sink(std::span<const UOp> effects);
  UOp sink(std::initializer_list<UOp> effects) { return sink(std::span(effects.begin(), effects.size())); }

  // The same program in this Graph; `root` may belong to another one.
  UOp import(UOp root);

  size_t size() const;  // nodes made so far

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Depth-first post-order from `root`: sources in order, each node once. The order of everything printed.
UOPC_API std::vector<UOp> toposort(UOp root);

// `root` with each `from` replaced by its `to`; the pairs act at once, not one after the other.
UOPC_API UOp substitute(UOp root, std::span<const std::pair<UOp, UOp>> pairs);

// The PARAMs of a CALL's body; the body of a CALL inside it is a scope of its own and not looked into.
UOPC_API std::vector<UOp> call_params(UOp body);

}  // namespace uopc
