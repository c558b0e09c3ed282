// Scalar expressions with values for their leaves, and random ones.
#pragma once
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "ir/fold.hpp"
#include "ir/walk.hpp"
#include "uopc/uop.hpp"

namespace uopc::test {

using Env = NodeMap<Scalar>;  // of LOADs and RANGEs

// The run-time value of an ALU expression.
inline Scalar value_of(UOp root, const Env& env) {
  NodeMap<Scalar> known;
  post_order(
      root,
      [&](UOp u) {
        if (u.is_const()) {
          known.insert(u, to_dtype(u.value(), u.dtype()));  // an f32 CONST may hold a double
        } else if (const Scalar* v = env.find(u)) {
          known.insert(u, *v);
        } else {
          std::vector<Scalar> values;
          for (UOp s : u.src()) values.push_back(known.at(s));
          known.insert(u, run_alu(u.op(), u.dtype(), u.src().back().dtype(), values));
        }
      },
      [&](UOp u) { return !env.contains(u); });
  return known.at(root);
}

// Equal to the bit, NaNs apart.
inline bool same_value(Scalar a, Scalar b) {
  return a == b || (a.is_float() && b.is_float() && std::isnan(a.as_float()) && std::isnan(b.as_float()));
}

// Random expressions over a few leaves, with constants at the edges of their types.
class RandomExprs {
 public:
  RandomExprs(Graph& graph, uint32_t seed) : graph_(graph), random_(seed) {
    int64_t slot = 0;
    for (DType d : {DType::I32, DType::I32, DType::F32, DType::F32, DType::Bool, DType::F16, DType::F16})
      leaves_.push_back(graph.buffer(1, d, slot++).index(0).load());
    for (int64_t n : {1, 2, 3, 4, 7, 8, 24, 1000}) leaves_.push_back(graph.range_(n, slot++));
  }

  uint32_t below(uint32_t n) { return random_() % n; }
  template <class T>
  T pick(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<uint32_t>(list.size()))];
  }

  int64_t integer() {
    if (below(3) == 0)
      return pick<int64_t>({INT32_MIN, INT32_MAX, INT32_MIN + 1, 65536, -65536, 1 << 30, 46341, 1 << 16});
    return static_cast<int64_t>(below(33)) - 12;
  }
  double real() {
    return pick({0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.75, 1e-40, -1e30, 16777217.0, 65504.0, 1e-7, HUGE_VAL, -HUGE_VAL,
                 std::nan("")});
  }
  Scalar scalar(DType d) {
    if (d == DType::Bool) return below(2) == 0;
    if (d == DType::I32) return integer();
    return to_dtype(real(), d);
  }
  UOp constant(DType d) { return graph_.constant(d == DType::F32 || d == DType::F16 ? Scalar(real()) : scalar(d), d); }
  DType dtype() { return pick({DType::I32, DType::I32, DType::I32, DType::F32, DType::Bool, DType::F16}); }

  UOp leaf(DType d) {
    if (below(4) == 0) return constant(d);
    for (;;) {
      const UOp u = leaves_[below(static_cast<uint32_t>(leaves_.size()))];
      if (u.dtype() == d) return u;
    }
  }

  UOp expr(DType d, int depth) {
    if (depth == 0 || below(8) == 0) return leaf(d);
    const auto sub = [&](DType t) { return expr(t, depth - 1); };
    if (below(10) == 0) return sub(DType::Bool).where(sub(d), sub(d));
    if (below(10) == 0) return graph_.make(Op::Cast, {sub(dtype())}, d);
    switch (d) {
      case DType::Bool: {
        if (below(4) == 0) return graph_.make(pick({Op::Add, Op::Mul, Op::Max, Op::CmpNe}), {sub(d), sub(d)});
        const DType t = dtype();
        return graph_.make(pick({Op::CmpLt, Op::CmpNe}), {sub(t), sub(t)});
      }
      case DType::I32: {
        const UOp a = sub(d);
        if (below(2) == 0) {  // by a small constant, where most rules are at home
          const Op op = pick({Op::FloorDiv, Op::FloorMod, Op::Mul, Op::Add});
          return graph_.make(op, {a, graph_.constant(static_cast<int64_t>(1 + below(24)))});
        }
        return graph_.make(pick({Op::Add, Op::Add, Op::Mul, Op::Max, Op::FloorDiv, Op::FloorMod}), {a, sub(d)});
      }
      default: {
        if (below(4) == 0) return graph_.make(pick({Op::Recip, Op::Sqrt, Op::Exp2, Op::Log2, Op::Sin}), {sub(d)});
        return graph_.make(pick({Op::Add, Op::Mul, Op::Max}), {sub(d), sub(d)});
      }
    }
  }

  // A flat index: a sum of counters times strides, some of them multiples of `c`.
  UOp index_sum(int64_t c) {
    UOp sum;
    for (uint32_t n = 1 + below(4); n > 0; n--) {
      UOp t = leaf(DType::I32);
      if (below(3) == 0) t = t % graph_.constant(static_cast<int64_t>(1 + below(6)));
      if (below(3) != 0) t = t * graph_.constant(below(2) ? c * (1 + below(3)) : static_cast<int64_t>(1 + below(12)));
      sum = sum ? sum + t : t;
    }
    return sum;
  }

  Env bindings() {
    Env env;
    for (UOp u : leaves_) {
      if (u.is(Op::Range)) {
        env.insert(u, static_cast<int64_t>(below(static_cast<uint32_t>(u.src(0).value().as_int()))));
      } else {
        env.insert(u, scalar(u.dtype()));
      }
    }
    return env;
  }

 private:
  Graph& graph_;
  std::mt19937 random_;
  std::vector<UOp> leaves_;
};

}  // namespace uopc::test
