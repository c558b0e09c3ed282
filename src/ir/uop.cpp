#include "uopc/uop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory_resource>

#include "ir/infer.hpp"
#include "ir/py_text.hpp"
#include "ir/walk.hpp"

namespace uopc {
namespace {

class Hash {
 public:
  Hash& add(uint64_t v) {
    state_ = (state_ ^ v) * 0x9E3779B97F4A7C15u;
    state_ ^= state_ >> 32;
    return *this;
  }
  uint32_t value() const { return static_cast<uint32_t>(state_ ^ (state_ >> 29)); }

 private:
  uint64_t state_ = 0x2545F4914F6CDD1Du;
};

void add_arg(Hash& h, const Arg& arg) {
  struct Visitor {
    Hash& h;
    void operator()(std::monostate) {}
    void operator()(Scalar v) { h.add(static_cast<uint64_t>(v.kind())).add(v.bits()); }
    void operator()(DType d) { h.add(static_cast<uint64_t>(d)); }
    void operator()(const ParamArg& a) {
      h.add(a.slot).add(static_cast<uint64_t>(a.dtype)).add(a.addrspace ? static_cast<uint64_t>(*a.addrspace) : ~0ull);
      (*this)(a.shape);
    }
    void operator()(const CallArg& a) { h.add(std::hash<std::string>{}(a.name)); }
    void operator()(const RangeArg& a) { h.add(a.idx).add(static_cast<uint64_t>(a.kind)); }
    void operator()(const Shape& s) {
      h.add(s.size());
      for (int64_t d : s) h.add(d);
    }
    void operator()(const ShrinkArg& a) {
      for (auto [begin, end] : a.bounds) h.add(begin).add(end);
    }
    void operator()(const ReduceArg& a) { h.add(static_cast<uint64_t>(a.op)).add(a.n); }
    void operator()(const DetachArg&) {}
  };
  h.add(arg.index());
  std::visit(Visitor{h}, arg);
}

// The PARAMs of a body. A part that is itself a body of `known` is not walked again: a program of many CALLs whose
// bodies grow out of each other stays linear.
std::vector<UOp> collect_params(UOp body, const NodeMap<std::vector<UOp>>& known) {
  std::vector<UOp> params, stack{body};
  NodeSet seen, listed;
  while (!stack.empty()) {
    const UOp u = stack.back();
    stack.pop_back();
    if (!seen.insert(u)) continue;
    if (const auto* part = known.find(u)) {
      for (UOp p : *part)
        if (listed.insert(p)) params.push_back(p);
      continue;
    }
    if (u.is(Op::Param) && listed.insert(u)) params.push_back(u);
    const auto inner = u.is(Op::Call) ? u.src().subspan(1) : u.src();
    stack.insert(stack.end(), inner.begin(), inner.end());
  }
  return params;
}

[[noreturn]] void type_error(const std::string& message) {
  throw Error(ErrorCode::Type, message);
}

}  // namespace

// ---- Graph ---------------------------------------------------------------------------------------------------------

// Nodes and source lists live in an arena and need no destructor, so dropping a Graph of a million nodes is a loop over
// blocks. The table is open addressing; the hash stands beside the pointer, so a probe touches no other node's memory.
struct Graph::Impl {
  std::pmr::monotonic_buffer_resource arena{64 << 10};
  std::deque<Shape> shapes;
  std::deque<Arg> args;
  struct Slot {
    const Node* node = nullptr;
    uint32_t hash = 0;
  };
  std::vector<Slot> table = std::vector<Slot>(64);
  size_t count = 0;
  const Shape scalar;
  const Arg no_arg;
  NodeMap<std::vector<UOp>> body_params;  // of every body that a CALL was made with

  const std::vector<UOp>& params_of(UOp body) {
    if (const auto* known = body_params.find(body)) return *known;
    return *body_params.insert(body, collect_params(body, body_params)).first;
  }

  Slot& find(uint32_t hash, Op op, std::span<const UOp> src, const Arg& arg) {
    const size_t mask = table.size() - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
      const Node* n = table[i].node;
      if (!n || (table[i].hash == hash && n->op == op && std::ranges::equal(std::span(n->src, n->nsrc), src) &&
                 *n->arg == arg))
        return table[i];
    }
  }
  void grow() {
    std::vector<Slot> old(table.size() * 2);
    old.swap(table);
    const size_t mask = table.size() - 1;
    for (const Slot& s : old) {
      if (!s.node) continue;
      size_t i = s.hash & mask;
      while (table[i].node) i = (i + 1) & mask;
      table[i] = s;
    }
  }
};

Graph::Graph() : impl_(std::make_unique<Impl>()) {}
Graph::~Graph() = default;

size_t Graph::size() const {
  return impl_->count;
}

UOp Graph::make(Op op, std::span<const UOp> src, Arg arg) {
  for (UOp s : src) {
    if (!s) type_error(fmt::format("Ops.{}: a source is an empty UOp", name(op)));
    if (&s.graph() != this)
      type_error(fmt::format("Ops.{}: a source belongs to another Graph (use Graph::import)", name(op)));
  }
  // Only ALLOC has an address space of its own; it is no part of a PARAM or BUFFER.
  if (auto* p = std::get_if<ParamArg>(&arg); p && op != Op::Alloc) p->addrspace.reset();
  Hash h;
  h.add(static_cast<uint64_t>(op));
  for (UOp s : src) h.add(s.id());
  add_arg(h, arg);
  const uint32_t hash = h.value();

  Impl& g = *impl_;
  if (const Node* known = g.find(hash, op, src, arg).node) return UOp(known);

  const bool has_body = op == Op::Call && !src.empty();
  Inferred type = infer(op, src, arg, has_body ? std::span<const UOp>(g.params_of(src[0])) : std::span<const UOp>());
  if (g.count >= UINT32_MAX - 1) throw Error(ErrorCode::Run, "a Graph holds at most 2^32 - 2 nodes");
  const bool shape_in_arg = type.shared && !std::ranges::any_of(src, [&](UOp s) { return &s.shape() == type.shared; });
  if (shape_in_arg) {  // `arg` is about to move
    type.fresh = *type.shared;
    type.shared = nullptr;
  }
  const Arg* arg_place = &g.no_arg;
  if (!std::holds_alternative<std::monostate>(arg)) arg_place = &g.args.emplace_back(std::move(arg));
  const Shape* shape = type.shared;
  if (!shape) shape = type.fresh.empty() ? &g.scalar : &g.shapes.emplace_back(std::move(type.fresh));

  UOp* src_place = static_cast<UOp*>(g.arena.allocate(src.size_bytes() + 1, alignof(UOp)));
  std::ranges::copy(src, src_place);
  void* memory = g.arena.allocate(sizeof(Node), alignof(Node));
  const Node* node = new (memory) Node{op,
                                       type.dtype,
                                       type.addrspace,
                                       static_cast<uint32_t>(g.count),
                                       hash,
                                       static_cast<uint32_t>(src.size()),
                                       src_place,
                                       shape,
                                       arg_place,
                                       this};
  if (++g.count * 2 > g.table.size()) g.grow();
  g.find(hash, op, src, *arg_place) = {node, hash};
  return UOp(node);
}

UOp Graph::constant(Scalar v) {
  return make(Op::Const, {}, v);
}

UOp Graph::constant(Scalar v, DType d) {
  const UOp c = constant(dtypes::convert(v, d));
  return d == DType::F16 ? c.cast(DType::F16) : c;
}

UOp Graph::param(int64_t slot, DType d, Shape shape) {
  return make(Op::Param, {}, ParamArg{slot, d, std::move(shape), {}});
}

UOp Graph::call(UOp body, std::span<const UOp> args, std::string name) {
  std::vector<UOp> src{body};
  src.insert(src.end(), args.begin(), args.end());
  return make(Op::Call, src, CallArg{std::move(name)});
}

UOp Graph::buffer(int64_t size, DType d, int64_t slot) {
  return make(Op::Buffer, {}, ParamArg{slot, d, {size}, {}});
}

UOp Graph::alloc(int64_t size, DType d, int64_t slot, std::optional<AddrSpace> space) {
  return make(Op::Alloc, {}, ParamArg{slot, d, {size}, space});
}

UOp Graph::stack(std::span<const UOp> parts) {
  return make(Op::Stack, parts);
}
UOp Graph::range_(UOp end, int64_t idx, AxisType kind) {
  return make(Op::Range, {end}, RangeArg{idx, kind});
}
UOp Graph::range_(int64_t end, int64_t idx, AxisType kind) {
  return range_(constant(end), idx, kind);
}
UOp Graph::barrier(std::span<const UOp> deps) {
  return make(Op::Barrier, deps);
}
UOp Graph::sink(std::span<const UOp> effects) {
  return make(Op::Sink, effects);
}

UOp Graph::import(UOp root) {
  if (&root.graph() == this) return root;
  return import_all(*this, std::span(&root, 1)).front();
}

// ---- walks ---------------------------------------------------------------------------------------------------------

std::vector<UOp> toposort(UOp root) {
  std::vector<UOp> order;
  post_order(root, [&](UOp u) { order.push_back(u); });
  return order;
}

UOp substitute(UOp root, std::span<const std::pair<UOp, UOp>> pairs) {
  NodeMap<UOp> images;
  for (auto [from, to] : pairs) images.insert(from, to);
  return map_graph(root, images, [](UOp, UOp u) { return u; });
}

std::vector<UOp> call_params(UOp body) {
  return collect_params(body, NodeMap<std::vector<UOp>>());
}

// ---- builders ------------------------------------------------------------------------------------------------------

void UOp::throw_empty() {
  throw Error(ErrorCode::Type, "an empty UOp (default-made, or of an empty tensor) has no node to ask");
}

UOp UOp::const_like(Scalar v) const {
  return graph().constant(v, dtype()).broadcast_to(shape());
}
UOp UOp::cast(DType d) const {
  return d == dtype() ? *this : graph().make(Op::Cast, {*this}, d);
}

UOp UOp::alu(Op op, std::span<const UOp> more) const {
  if (!kAlu.has(op)) type_error(fmt::format("Ops.{} is not an ALU op", uopc::name(op)));
  std::vector<UOp> src{*this};
  src.insert(src.end(), more.begin(), more.end());
  return graph().make(op, src);
}
UOp UOp::recip() const {
  return graph().make(Op::Recip, {*this});
}
UOp UOp::exp2() const {
  return graph().make(Op::Exp2, {*this});
}
UOp UOp::log2() const {
  return graph().make(Op::Log2, {*this});
}
UOp UOp::sqrt() const {
  return graph().make(Op::Sqrt, {*this});
}
UOp UOp::sin() const {
  return graph().make(Op::Sin, {*this});
}
UOp UOp::max(UOp b) const {
  return graph().make(Op::Max, {*this, b});
}
UOp UOp::minimum(UOp b) const {
  if (is_float(dtype())) return -((-*this).max(-b));
  return lt(b).where(*this, b);
}
UOp UOp::lt(UOp b) const {
  return graph().make(Op::CmpLt, {*this, b});
}
UOp UOp::ne(UOp b) const {
  return graph().make(Op::CmpNe, {*this, b});
}
UOp UOp::eq(UOp b) const {
  return ne(b).logical_not();
}
UOp UOp::logical_not() const {
  if (dtype() != DType::Bool) type_error(fmt::format("logical_not of dtypes.{} (compare first)", uopc::name(dtype())));
  return ne(true);
}
UOp UOp::floordiv(UOp b) const {
  return graph().make(Op::FloorDiv, {*this, b});
}
UOp UOp::floormod(UOp b) const {
  return graph().make(Op::FloorMod, {*this, b});
}
UOp UOp::where(UOp a, UOp b) const {
  return graph().make(Op::Where, {*this, a, b});
}

UOp UOp::reshape(Shape shape) const {
  return graph().make(Op::Reshape, {*this}, std::move(shape));
}
UOp UOp::expand(Shape shape) const {
  return graph().make(Op::Expand, {*this}, std::move(shape));
}
UOp UOp::permute(Shape order) const {
  return graph().make(Op::Permute, {*this}, std::move(order));
}
UOp UOp::shrink(std::vector<std::pair<int64_t, int64_t>> bounds) const {
  return graph().make(Op::Shrink, {*this}, ShrinkArg{std::move(bounds)});
}
UOp UOp::reduce(Op op, int64_t n) const {
  return graph().make(Op::Reduce, {*this}, ReduceArg{op, n});
}
UOp UOp::stage() const {
  return graph().make(Op::Stage, {*this});
}
UOp UOp::detach() const {
  return graph().make(Op::Stage, {*this}, DetachArg{});
}

UOp UOp::broadcast_to(const Shape& target) const {
  const Shape& own = shape();
  const auto impossible = [&] {
    type_error(fmt::format("can't broadcast {} with {}", py_tuple(target), py_tuple(own)));
  };
  if (own.size() > target.size()) impossible();
  Shape padded(target.size() - own.size(), 1);
  padded.insert(padded.end(), own.begin(), own.end());
  for (size_t i = 0; i < target.size(); i++)
    if (padded[i] != target[i] && padded[i] != 1) impossible();
  UOp u = *this;
  if (padded.size() != own.size()) u = u.reshape(padded);
  if (padded != target) u = u.expand(target);
  return u;
}

UOp UOp::index(std::span<const UOp> indices) const {
  std::vector<UOp> src{*this};
  src.insert(src.end(), indices.begin(), indices.end());
  return graph().make(Op::Index, src);
}
UOp UOp::index(int64_t i) const {
  return index({graph().constant(i)});
}
UOp UOp::load() const {
  return graph().make(Op::Load, {*this});
}
UOp UOp::store(UOp value) const {
  return graph().make(Op::Store, {*this, value});
}
UOp UOp::after(std::span<const UOp> deps) const {
  if (deps.empty()) return *this;
  std::vector<UOp> src{*this};
  src.insert(src.end(), deps.begin(), deps.end());
  return graph().make(Op::After, src);
}
UOp UOp::end(std::span<const UOp> ranges) const {
  std::vector<UOp> src{*this};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return graph().make(Op::End, src);
}

UOp operator+(UOp a, UOp b) {
  return a.graph().make(Op::Add, {a, b});
}
UOp operator*(UOp a, UOp b) {
  return a.graph().make(Op::Mul, {a, b});
}
UOp operator-(UOp a) {
  if (a.dtype() == DType::Bool) type_error("a bool has no negative (use logical_not)");
  return a * a.const_like(-1);
}
UOp operator-(UOp a, UOp b) {
  return a + -b;
}
UOp operator/(UOp a, UOp b) {
  if (!is_float(a.dtype())) type_error(fmt::format("/ of dtypes.{} (use floordiv)", name(a.dtype())));
  return a * b.recip();
}
UOp operator%(UOp a, UOp b) {
  return a.floormod(b);
}

}  // namespace uopc
