#include "ir/infer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "ir/py_text.hpp"

namespace uopc {
namespace {

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::Type, fmt::format(format, std::forward<Args>(args)...));
}

std::string text(DType d) {
  return std::string("dtypes.") + name(d);
}
std::string text(const Shape& s) {
  return py_tuple(s);
}

// The arg that `op` needs, or an error that says which kind is missing.
template <class T>
const T& need(Op op, const Arg& arg, const char* kind) {
  if (const T* v = std::get_if<T>(&arg)) return *v;
  fail("Ops.{} needs {} as its arg", name(op), kind);
}

// An arg on an op that has none would make nodes that differ and print alike.
void check_no_stray_arg(Op op, const Arg& arg) {
  constexpr OpSet kWithArg =
      OpSet{Op::Const, Op::Param, Op::Buffer, Op::Alloc, Op::Call, Op::Cast, Op::Range, Op::Reduce, Op::Stage} |
      kMovement;
  if (!kWithArg.has(op) && !std::holds_alternative<std::monostate>(arg)) fail("Ops.{} has no arg", name(op));
}

void check_source_count(Op op, size_t n) {
  const OpInfo& row = info(op);
  const size_t lo = row.min_sources;
  if (row.max_sources < 0 ? n >= lo : n >= lo && n <= static_cast<size_t>(row.max_sources)) return;
  fail("Ops.{} takes {}{} source{}, got {}", name(op), row.max_sources < 0 ? "at least " : "", lo, lo == 1 ? "" : "s",
       n);
}

// Exact for any sizes that a program could mean: past 2^126 it is an error.
__int128 element_count(const Shape& shape) {
  __int128 n = 1;
  for (int64_t d : shape)
    if (d == 0) return 0;
  for (int64_t d : shape) {
    if (__builtin_mul_overflow(n, static_cast<__int128>(d), &n)) fail("shape {} has too many elements", text(shape));
  }
  return n;
}

Inferred like(UOp u, AddrSpace space) {
  return {u.dtype(), space, &u.shape(), {}};
}
Inferred view(UOp u, const Shape& shape) {
  return {u.dtype(), u.addrspace(), &shape, {}};
}
Inferred view(UOp u, Shape&& shape) {
  return {u.dtype(), u.addrspace(), nullptr, std::move(shape)};
}

Inferred infer_call(std::span<const UOp> src, const Arg& arg, std::span<const UOp> body_params) {
  const std::string& f = need<CallArg>(Op::Call, arg, "a CallArg").name;
  if (!is_identifier(f)) fail("CALL name {} is not an identifier", py_repr(f));
  std::map<int64_t, const ParamArg*> params;
  for (UOp p : body_params) params[p.arg<ParamArg>().slot] = &p.arg<ParamArg>();
  const int64_t n = static_cast<int64_t>(src.size()) - 1;
  bool exact = static_cast<int64_t>(params.size()) == n;
  int64_t next = 0;
  for (const auto& [slot, p] : params) exact = exact && slot == next++;
  if (!exact) {
    std::string slots;
    for (const auto& [slot, p] : params) slots += fmt::format("{}{}", slots.empty() ? "" : ", ", slot);
    fail("CALL needs params 0..{}, body has [{}]", n - 1, slots);
  }
  for (int64_t i = 0; i < n; i++) {
    const UOp a = src[i + 1];
    const ParamArg& p = *params[i];
    if (a.shape() != p.shape || a.dtype() != p.dtype)
      fail("CALL arg {}: {}{} != param {}{}", i, text(a.dtype()), text(a.shape()), text(p.dtype), text(p.shape));
  }
  return like(src[0], src[0].addrspace());
}

Inferred infer_alu(Op op, std::span<const UOp> src, const Arg& arg) {
  if (op == Op::Where) {
    check_source_count(op, src.size());
    const UOp c = src[0], a = src[1], b = src[2];
    if (c.dtype() != DType::Bool) fail("WHERE condition must be bool");
    if (a.dtype() != b.dtype()) fail("WHERE branches disagree: {} vs {}", text(a.dtype()), text(b.dtype()));
    if (c.shape() != a.shape() || a.shape() != b.shape())
      fail("WHERE shape mismatch {} {} {}", text(c.shape()), text(a.shape()), text(b.shape()));
    return like(a, AddrSpace::Alu);
  }
  if (kUnary.has(op)) {
    if (src.size() != 1) fail("Ops.{} is unary", name(op));
    if (op == Op::Cast) {
      Inferred r = like(src[0], AddrSpace::Alu);
      r.dtype = need<DType>(op, arg, "a DType");
      return r;
    }
    if (!is_float(src[0].dtype())) fail("Ops.{} needs a float, got {}", name(op), text(src[0].dtype()));
    return like(src[0], AddrSpace::Alu);
  }
  check_source_count(op, src.size());
  const UOp a = src[0], b = src[1];
  if (a.shape() != b.shape())
    fail("Ops.{}: shape mismatch {} vs {} (broadcast with EXPAND)", name(op), text(a.shape()), text(b.shape()));
  if (a.dtype() != b.dtype())
    fail("Ops.{}: dtype mismatch {} vs {} (use CAST)", name(op), text(a.dtype()), text(b.dtype()));
  if ((op == Op::FloorDiv || op == Op::FloorMod) && a.dtype() != DType::I32) fail("Ops.{} is integer only", name(op));
  Inferred r = like(a, AddrSpace::Alu);
  if (op == Op::CmpLt || op == Op::CmpNe) r.dtype = DType::Bool;
  return r;
}

Inferred infer_movement(Op op, UOp x, const Arg& arg) {
  const Shape& s = x.shape();
  if (op == Op::Shrink) {
    const ShrinkArg& a = need<ShrinkArg>(op, arg, "one (begin, end) pair an axis");
    bool ok = a.bounds.size() == s.size();
    for (size_t i = 0; ok && i < s.size(); i++)
      ok = 0 <= a.bounds[i].first && a.bounds[i].first <= a.bounds[i].second && a.bounds[i].second <= s[i];
    if (!ok) fail("SHRINK {} of {}", py_tuple(a), text(s));
    Shape out;
    for (auto [begin, end] : a.bounds) out.push_back(end - begin);
    return view(x, std::move(out));
  }
  const Shape& a = need<Shape>(op, arg, op == Op::Permute ? "a permutation" : "a shape");
  switch (op) {
    case Op::Reshape:
      if (element_count(a) != element_count(s)) fail("RESHAPE {} -> {}", text(s), text(a));
      return view(x, a);
    case Op::Expand: {
      bool ok = a.size() == s.size();
      for (size_t i = 0; ok && i < s.size(); i++) ok = s[i] == a[i] || s[i] == 1;
      if (!ok) fail("EXPAND {} -> {}", text(s), text(a));
      return view(x, a);
    }
    default: {  // PERMUTE
      Shape sorted = a, identity(s.size());
      std::sort(sorted.begin(), sorted.end());
      std::iota(identity.begin(), identity.end(), 0);
      if (sorted != identity) fail("PERMUTE {} of {}", text(a), text(s));
      Shape out;
      for (int64_t axis : a) out.push_back(s[axis]);
      return view(x, std::move(out));
    }
  }
}

Inferred infer_index(std::span<const UOp> src) {
  const UOp x = src[0];
  const auto idx = src.subspan(1);
  if (idx.size() > x.shape().size()) fail("INDEX: {} indices into shape {}", idx.size(), text(x.shape()));
  for (UOp i : idx)
    if (i.dtype() != DType::I32 || !i.shape().empty()) fail("INDEX indices are i32 scalars");
  if (idx.empty()) return like(x, x.addrspace());
  return view(x, Shape(x.shape().begin() + static_cast<int64_t>(idx.size()), x.shape().end()));
}

}  // namespace

Inferred infer(Op op, std::span<const UOp> src, const Arg& arg, std::span<const UOp> body_params) {
  constexpr AddrSpace kAluSpace = AddrSpace::Alu;
  check_no_stray_arg(op, arg);
  if (op == Op::Const) {
    if (!src.empty()) fail("CONST has no sources");
    return {dtypes::from_py(need<Scalar>(op, arg, "a bool, an int or a float")), kAluSpace, nullptr, {}};
  }
  if (kAlu.has(op)) return infer_alu(op, src, arg);  // counts its sources in its own words

  check_source_count(op, src.size());
  if (kMovement.has(op)) return infer_movement(op, src[0], arg);
  switch (op) {
    case Op::Param: {
      const ParamArg& a = need<ParamArg>(op, arg, "a ParamArg");
      return {a.dtype, kAluSpace, &a.shape, {}};
    }
    case Op::Buffer:
    case Op::Alloc: {
      const ParamArg& a = need<ParamArg>(op, arg, "a ParamArg");
      if (a.shape.size() != 1) fail("{} is flat", name(op));
      const AddrSpace space = op == Op::Buffer ? AddrSpace::Global : a.addrspace.value_or(AddrSpace::Local);
      return {a.dtype, space, &a.shape, {}};
    }
    case Op::Call:
      return infer_call(src, arg, body_params);
    case Op::Stack: {
      if (src.empty()) fail("STACK of nothing");
      for (UOp s : src)
        if (s.shape() != src[0].shape() || s.dtype() != src[0].dtype())
          fail("STACK srcs must agree in shape and dtype");
      Shape shape{static_cast<int64_t>(src.size())};
      shape.insert(shape.end(), src[0].shape().begin(), src[0].shape().end());
      return {src[0].dtype(), kAluSpace, nullptr, std::move(shape)};
    }
    case Op::Index:
      return infer_index(src);
    case Op::Load:
      if (src[0].addrspace() == kAluSpace) fail("LOAD needs memory");
      return like(src[0], kAluSpace);
    case Op::Store:
      if (src[0].addrspace() == kAluSpace) fail("STORE needs memory");
      if (src[0].dtype() != src[1].dtype()) fail("STORE of {} into {}", text(src[1].dtype()), text(src[0].dtype()));
      return {};
    case Op::After:
      return like(src[0], src[0].addrspace());
    case Op::Sink:
    case Op::End:
    case Op::Barrier:
      return {};
    case Op::Range:
      if (src[0].dtype() != DType::I32) fail("RANGE end is i32");
      need<RangeArg>(op, arg, "a RangeArg");
      return {DType::I32, kAluSpace, nullptr, {}};
    case Op::Reduce: {
      const ReduceArg& a = need<ReduceArg>(op, arg, "an op and a number of axes");
      const Shape& s = src[0].shape();
      const int64_t n = static_cast<int64_t>(s.size());
      if ((a.op != Op::Add && a.op != Op::Max) || a.n < 0 || a.n > n)
        fail("REDUCE (Ops.{}, {}) of {}", name(a.op), a.n, text(s));
      if (a.n == 0) return like(src[0], kAluSpace);
      return {src[0].dtype(), kAluSpace, nullptr, Shape(s.begin(), s.end() - a.n)};
    }
    case Op::Stage:
      if (!std::holds_alternative<std::monostate>(arg)) need<DetachArg>(op, arg, "nothing, or 'detach',");
      return like(src[0], kAluSpace);
    case Op::Wmma:
      return like(src[2], kAluSpace);
    default:
      fail("no inference rule for Ops.{}", name(op));
  }
}

}  // namespace uopc
