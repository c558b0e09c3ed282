// Running a program by rewriting: what its literals determine becomes a literal.
#include <fmt/format.h>

#include <algorithm>

#include "ir/fold.hpp"
#include "ir/py_text.hpp"
#include "passes/symbolic.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

constexpr int64_t kMaxElements = 1 << 16;  // of an array that is written out as STACKs
constexpr int64_t kMaxDepth = 64;          // of a nested list

// The number of elements; nothing when there are none, or too many to write out.
std::optional<int64_t> element_count(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) {
    if (d <= 0 || d > kMaxElements / n) return {};
    n *= d;
  }
  return n;
}

bool is_scalar_literal(UOp u) {
  return u.is_const() || (u.is(Op::Cast) && u.src(0).is_const());
}

// The scalars of a nest of STACKs in row-major order; none when `u` is something else.
std::vector<UOp> elements(UOp u) {
  if (u.shape().empty()) return is_scalar_literal(u) ? std::vector<UOp>{u} : std::vector<UOp>{};
  if (!element_count(u.shape())) return {};
  std::vector<UOp> level{u}, next;
  for (int64_t axis = 0; axis < u.ndim(); axis++) {
    next.clear();
    for (UOp row : level) {
      if (!row.is(Op::Stack)) return {};
      next.insert(next.end(), row.src().begin(), row.src().end());
    }
    level.swap(next);
  }
  return level;
}

UOp nest(std::vector<UOp> level, const Shape& shape, Graph& graph) {
  for (size_t axis = shape.size(); axis-- > 0;) {
    std::vector<UOp> rows;
    for (size_t i = 0; i < level.size(); i += shape[axis])
      rows.push_back(graph.stack(std::span(level).subspan(i, shape[axis])));
    level = std::move(rows);
  }
  return level[0];
}

UOp inline_it(const Match& m) {
  return inline_call(m.root);
}

UOp through_stacks(const Match& m) {
  const UOp u = m.root;
  if (!std::ranges::all_of(u.src(), [](UOp s) { return s.is(Op::Stack); })) return {};
  std::vector<UOp> parts, src(u.src().size());
  for (size_t k = 0; k < u.src(0).src().size(); k++) {
    for (size_t i = 0; i < src.size(); i++) src[i] = u.src(i).src(k);
    parts.push_back(m.graph().make(u.op(), src, u.arg()));
  }
  return m.graph().stack(parts);
}

UOp index_of_stack(const Match& m) {
  const UOp x = m.root.src(0);
  const std::span<const UOp> indices = m.root.src().subspan(1);
  if (indices.empty()) return x.addrspace() == AddrSpace::Alu ? x : UOp();
  if (!x.is(Op::Stack) || !indices[0].is_const()) return {};
  const int64_t i = indices[0].value().as_int();
  if (i < 0 || i >= static_cast<int64_t>(x.src().size())) return {};
  return indices.size() == 1 ? x.src(i) : x.src(i).index(indices.subspan(1));
}

// Where element 0 of a movement op comes from, and how far apart its source's elements are along each axis of the
// result.
struct View {
  int64_t offset = 0;
  std::vector<int64_t> strides;
};

View view_of(UOp u) {
  const auto row_major = [](const Shape& shape) {
    std::vector<int64_t> strides(shape.size());
    int64_t n = 1;
    for (size_t i = shape.size(); i-- > 0; n *= shape[i]) strides[i] = n;
    return strides;
  };
  const std::vector<int64_t> source = row_major(u.src(0).shape());
  View view{0, source};
  switch (u.op()) {
    case Op::Reshape:
      view.strides = row_major(u.shape());
      break;
    case Op::Expand:
      for (size_t i = 0; i < source.size(); i++)
        if (u.src(0).shape()[i] != u.shape()[i]) view.strides[i] = 0;
      break;
    case Op::Permute:
      for (size_t i = 0; i < source.size(); i++) view.strides[i] = source[u.arg<Shape>()[i]];
      break;
    default:
      for (size_t i = 0; i < source.size(); i++) view.offset += u.arg<ShrinkArg>().bounds[i].first * source[i];
  }
  return view;
}

UOp move_elements(const Match& m) {
  const UOp u = m.root;
  const auto count = element_count(u.shape());
  if (!count) return {};
  const std::vector<UOp> source = elements(u.src(0));
  if (source.empty()) return {};
  const View view = view_of(u);
  std::vector<UOp> moved;
  std::vector<int64_t> at(u.shape().size());
  int64_t flat = view.offset;
  for (int64_t i = 0; i < *count; i++) {
    moved.push_back(source[flat]);
    for (size_t axis = at.size(); axis-- > 0;) {
      flat += view.strides[axis];
      if (++at[axis] < u.shape()[axis]) break;
      flat -= view.strides[axis] * at[axis];
      at[axis] = 0;
    }
  }
  return nest(std::move(moved), u.shape(), m.graph());
}

UOp unwrap_stage(const Match& m) {
  return m['x'].addrspace() == AddrSpace::Alu ? m['x'] : UOp();
}

}  // namespace

namespace {

// Elements of all values of a graph past which it is left to a program to compute them: one node an element costs a
// hundred times as much.
constexpr int64_t kMaxWork = 1 << 20;

const PatternMatcher& inline_rules() {  // the graph gets no larger than its CALLs are when written out
  static const PatternMatcher rules = PatternMatcher({{"inline",
                                                       {
                                                           {"inline-call", any_of({Op::Call}), inline_it},
                                                           {"index-of-stack", any_of({Op::Index}), index_of_stack},
                                                           {"stage", node(Op::Stage, {var('x')}), unwrap_stage},
                                                       }}}) +
                                      symbolic_rules();
  return rules;
}

bool is_small(UOp root) {
  int64_t work = 0;
  for (UOp u : toposort(root)) {
    double n = 1;
    for (int64_t d : u.shape()) n *= static_cast<double>(d);
    if (n > static_cast<double>(kMaxWork)) return false;
    work += static_cast<int64_t>(n);
  }
  return work <= kMaxWork;
}

}  // namespace

const PatternMatcher& evaluate_rules() {
  static const PatternMatcher rules = PatternMatcher({{"elements",
                                                       {
                                                           {"alu-through-stacks", any_of(kAlu), through_stacks},
                                                           {"move-elements", any_of(kMovement), move_elements},
                                                       }}}) +
                                      inline_rules();
  return rules;
}

UOp evaluate(UOp root) {
  const UOp inlined = graph_rewrite(root, inline_rules());
  return is_small(inlined) ? graph_rewrite(inlined, evaluate_rules()) : inlined;
}

std::optional<PyValue> to_python(UOp u) {
  if (u.is_const()) return PyValue{u.value()};
  if (u.is(Op::Cast) && u.src(0).is_const()) {
    const Scalar v[] = {u.src(0).value()};
    return PyValue{run_alu(Op::Cast, u.dtype(), u.src(0).dtype(), v)};
  }
  if (!u.is(Op::Stack)) return {};
  if (u.ndim() > kMaxDepth)
    throw Error(ErrorCode::NotImplemented,
                fmt::format("a value of {} dimensions as nested lists (at most {})", u.ndim(), kMaxDepth));
  // A shared row is written out as often as it occurs.
  constexpr double kMaxListed = 1 << 26;
  double count = 1;
  for (int64_t d : u.shape()) count *= static_cast<double>(d);
  if (count > kMaxListed)
    throw Error(ErrorCode::NotImplemented, fmt::format("a value of shape {} as nested lists (at most {} elements)",
                                                       py_tuple(u.shape()), static_cast<int64_t>(kMaxListed)));
  std::vector<PyValue> items;
  for (UOp part : u.src()) {
    std::optional<PyValue> item = to_python(part);
    if (!item) return {};
    items.push_back(std::move(*item));
  }
  return PyValue{std::move(items)};
}

std::string to_string(const PyValue& v) {
  if (const Scalar* s = std::get_if<Scalar>(&v.value)) return py_repr(*s);
  std::string text = "[";
  for (const PyValue& item : std::get<std::vector<PyValue>>(v.value)) {
    if (text.size() > 1) text += ", ";
    text += to_string(item);
  }
  return text + "]";
}

}  // namespace uopc
