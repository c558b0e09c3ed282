#include "passes/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/bounds.hpp"
#include "ir/py_text.hpp"
#include "uopc/passes.hpp"

namespace uopc {

std::string describe(UOp u) {
  const char* op = name(u.op());
  if (const auto* a = std::get_if<RangeArg>(&u.arg())) {
    std::string kind = name(a->kind);
    for (char& c : kind) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
    return fmt::format("{} idx={} kind={}", op, a->idx, kind);
  }
  if (const auto* a = std::get_if<ParamArg>(&u.arg())) return fmt::format("{} slot={}", op, a->slot);
  if (kMovement.has(u.op()) || u.is(Op::Index)) return fmt::format("{} {}", op, py_tuple(u.shape()));
  return op;
}

void check_kernel_name(const std::string& name) {
  if (is_identifier(name)) return;
  throw Error(ErrorCode::Type, fmt::format("kernel name {} is not an identifier", py_repr(std::string_view(name))));
}

int64_t count_elements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    if (d == 0) return 0;
  for (int64_t d : shape) {
    if (d > kMaxElements / n) return kMaxElements + 1;
    n *= d;
  }
  return n;
}

namespace {

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::Type, fmt::format(format, std::forward<Args>(args)...));
}

constexpr const char* kStageNames[] = {"a shaped graph", "a kernel's graph", "a loop program"};

const char* text(PipelineStage s) {
  return kStageNames[static_cast<int>(s)];
}

void check_constant(UOp u) {
  if (!u.value().is_int()) return;
  const int64_t v = u.value().as_int();
  if (v < INT32_MIN || v > INT32_MAX) fail("CONST {} does not fit i32 ({} to {})", v, INT32_MIN, INT32_MAX);
}

void check_memory(UOp u) {
  const ParamArg& a = u.arg<ParamArg>();
  if (a.dtype == DType::Void) fail("{} of dtypes.void: data has a type", describe(u));
  for (int64_t d : a.shape)
    if (d < 0) fail("{} has a negative size: {}", describe(u), py_tuple(a.shape));
  if (!u.is(Op::Param) && a.shape[0] > kMaxElements)
    fail("{} has {} elements: an index exceeds i32 past 2**31", describe(u), a.shape[0]);
}

void check_anywhere(UOp u) {
  if (u.is_const()) check_constant(u);
  if (u.is(Op::Buffer) || u.is(Op::Alloc) || u.is(Op::Param)) check_memory(u);
  if (u.is(Op::Cast) && u.dtype() == DType::Void) fail("CAST to dtypes.void");
}

void check_shape(UOp u) {
  const bool makes_shape = kMovement.has(u.op()) || u.is(Op::Param) || u.is(Op::Stack);
  if (makes_shape) {
    for (int64_t d : u.shape()) {
      if (d < 0) fail("{} has a negative size: {}", name(u.op()), py_tuple(u.shape()));
      if (d > INT32_MAX) fail("{} to {}: an index exceeds i32", name(u.op()), py_tuple(u.shape()));
    }
  }
  if (u.is(Op::Reshape) && count_elements(u.shape()) > kMaxElements)
    fail("RESHAPE to {}: a flat index exceeds i32", py_tuple(u.shape()));
}

class Verifier {
 public:
  Verifier(UOp root, PipelineStage stage) : root_(root), stage_(stage) {
    if (!root) fail("an empty UOp is no program");
    order_ = toposort(root);
    for (UOp u : order_)
      if (u.is(Op::Range) && u.src(0).dtype() == DType::I32 && bounds_.of(u.src(0)).lo <= 0) may_skip_loops_ = true;
  }

  void structure() {
    const bool loops = stage_ == PipelineStage::Loops;
    for (UOp u : order_) {
      if (u.is(Op::Wmma) && (loops || stage_ == PipelineStage::Kernel))
        throw Error(ErrorCode::NotImplemented, "WMMA is reserved: nothing lowers or renders it");
      const OpInfo& row = info(u.op());
      if (stage_ < row.first || row.last < stage_) fail("{} does not belong in {}", describe(u), text(stage_));
      check_anywhere(u);
      if (u.is(Op::Buffer)) check_slot(u);
      if (u.is(Op::Alloc) && u.addrspace() != AddrSpace::Local && u.addrspace() != AddrSpace::Shared)
        fail("{} is in {}: scratch memory is LOCAL or SHARED", describe(u), name(u.addrspace()));
      if (loops)
        check_loops(u);
      else
        check_shaped(u);
    }
    if (loops && !root_.is(Op::Sink)) fail("the root of a loop program is a SINK, not {}", describe(root_));
  }

  void nodes() {
    for (UOp u : order_) {
      check_anywhere(u);
      check_shape(u);
      if (u.is(Op::Index) && !may_skip_loops_) check_indices(u);
    }
  }

  // x // 0 is 0 for a divisor among the data; written down, it is a mistake.
  void divisors() {
    for (UOp u : order_) {
      if (!u.is(Op::FloorDiv) && !u.is(Op::FloorMod)) continue;
      UOp d = u.src(1);
      while (d.is(Op::Reshape) || d.is(Op::Expand)) d = d.src(0);
      if (d.is_const() && d.value().as_int() == 0) fail("{} by the constant 0", describe(u));
    }
  }

 private:
  void check_slot(UOp u) {
    const auto [it, made] = buffers_.try_emplace(u.arg<ParamArg>().slot, u);
    if (made) return;
    const ParamArg &a = it->second.arg<ParamArg>(), &b = u.arg<ParamArg>();
    fail("slot {} is two BUFFERs: {} of dtypes.{} and {} of dtypes.{}", a.slot, a.shape[0], name(a.dtype), b.shape[0],
         name(b.dtype));
  }

  // An index that no run could find inside an axis of `n`.
  void check_index(UOp u, UOp index, int64_t n) {
    if (stage_ == PipelineStage::Loops ? may_skip_loops_ : !index.is_const()) return;
    const Interval i = bounds_.of(index);
    if (!i.empty() && (i.lo >= n || i.hi < 0))
      fail("an index of {} is out of range: it is {} and the size is {}", describe(u),
           i.single() ? fmt::format("{}", i.lo) : fmt::format("from {} to {}", i.lo, i.hi), n);
  }

  void check_indices(UOp u) {
    for (size_t k = 1; k < u.src().size(); k++) check_index(u, u.src(k), u.src(0).shape()[k - 1]);
  }

  void check_shaped(UOp u) {
    check_shape(u);
    if (u.is(Op::Index)) check_indices(u);
    if (u.is(Op::Stage) || kAlu.has(u.op()) || u.is(Op::Stack) || u.is(Op::Wmma))
      for (UOp s : u.src())
        if (s.dtype() == DType::Void) fail("{} of {}: it has no value", describe(u), describe(s));
  }

  void check_value(UOp user, UOp s, const char* what) {
    if (s.addrspace() != AddrSpace::Alu) fail("{} of {} is memory: LOAD it first", what, describe(user));
    if (!s.shape().empty())
      fail("{} of {} has shape {}: loop programs are scalar", what, describe(user), py_tuple(s.shape()));
    if (s.dtype() == DType::Void) fail("{} of {} is {}, which has no value", what, describe(user), describe(s));
  }

  void check_loops(UOp u) {
    if (kAlu.has(u.op()))
      for (UOp s : u.src()) check_value(u, s, "an operand");
    switch (u.op()) {
      case Op::Buffer:
      case Op::Alloc:
        if (u.arg<ParamArg>().slot < 0) fail("{}: a slot is not negative in a loop program", describe(u));
        break;
      case Op::Index: {
        const UOp memory = u.src(0);
        if (memory.addrspace() == AddrSpace::Alu || memory.ndim() != 1 || u.src().size() != 2)
          fail("INDEX of {} in a loop program takes flat memory and one index", describe(memory));
        check_value(u, u.src(1), "the index");
        check_index(u, u.src(1), memory.shape()[0]);
        break;
      }
      case Op::After:
        if (u.src(0).addrspace() == AddrSpace::Alu) fail("AFTER orders memory, not {}", describe(u.src(0)));
        break;
      case Op::Store:
        check_value(u, u.src(1), "the value");
        [[fallthrough]];
      case Op::Load:
        if (!u.src(0).shape().empty())
          fail("{} of shape {} in a loop program: INDEX the memory", name(u.op()), py_tuple(u.src(0).shape()));
        if (u.src().size() != (u.is(Op::Store) ? 2u : 1u))
          fail("{} takes {}, got {} sources", name(u.op()), u.is(Op::Store) ? "an address and a value" : "an address",
               u.src().size());
        break;
      case Op::Range:
        check_value(u, u.src(0), "the end");
        if (u.arg<RangeArg>().idx < 0) fail("{}: an idx is not negative", describe(u));
        break;
      case Op::End:
        if (u.src().empty()) fail("END needs what it ends");
        for (UOp s : u.src().subspan(1))
          if (!s.is(Op::Range)) fail("END closes RANGEs, not {}", describe(s));
        break;
      default:
        break;
    }
  }

  const UOp root_;
  const PipelineStage stage_;
  std::vector<UOp> order_;
  Bounds bounds_;
  bool may_skip_loops_ = false;  // some loop may run no times, and then never computes the indices in it
  std::map<int64_t, UOp> buffers_;
};

}  // namespace

void verify_nodes(UOp root) {
  Verifier(root, PipelineStage::Graph).nodes();
}

void verify_structure(UOp root, PipelineStage stage) {
  Verifier(root, stage).structure();
}

void verify(UOp root, PipelineStage stage) {
  Verifier v(root, stage);
  v.structure();
  v.divisors();
}

}  // namespace uopc
