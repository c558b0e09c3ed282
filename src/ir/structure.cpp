#include "ir/structure.hpp"

#include "ir/walk.hpp"

namespace uopc {
namespace {

class Words {
 public:
  explicit Words(std::vector<uint32_t>& out) : out_(out) {}

  void put(uint32_t w) { out_.push_back(w); }
  void put(int64_t v) {
    put(static_cast<uint32_t>(v));
    put(static_cast<uint32_t>(v >> 32));
  }
  void put(const Shape& shape) {
    put(static_cast<uint32_t>(shape.size()));
    for (int64_t d : shape) put(d);
  }
  // Lengths stand before what they count, so two different args never give the same words.
  void put(const Arg& arg) {
    put(static_cast<uint32_t>(arg.index()));
    if (const auto* s = std::get_if<Scalar>(&arg)) {
      put(static_cast<uint32_t>(s->kind()));
      put(static_cast<int64_t>(s->bits()));
    } else if (const auto* d = std::get_if<DType>(&arg)) {
      put(static_cast<uint32_t>(*d));
    } else if (const auto* p = std::get_if<ParamArg>(&arg)) {
      put(p->slot);
      put(static_cast<uint32_t>(p->dtype));
      put(p->addrspace ? static_cast<uint32_t>(*p->addrspace) + 1 : 0u);
      put(p->shape);
    } else if (const auto* c = std::get_if<CallArg>(&arg)) {
      put(static_cast<uint32_t>(c->name.size()));
      for (char letter : c->name) put(static_cast<uint32_t>(static_cast<unsigned char>(letter)));
    } else if (const auto* r = std::get_if<RangeArg>(&arg)) {
      put(r->idx);
      put(static_cast<uint32_t>(r->kind));
    } else if (const auto* shape = std::get_if<Shape>(&arg)) {
      put(*shape);
    } else if (const auto* cut = std::get_if<ShrinkArg>(&arg)) {
      put(static_cast<uint32_t>(cut->bounds.size()));
      for (const auto& [begin, end] : cut->bounds) {
        put(begin);
        put(end);
      }
    } else if (const auto* reduce = std::get_if<ReduceArg>(&arg)) {
      put(static_cast<uint32_t>(reduce->op));
      put(reduce->n);
    }
  }

 private:
  std::vector<uint32_t>& out_;
};

}  // namespace

uint64_t hash_words(std::span<const uint32_t> words) {
  uint64_t h = 0x9E3779B97F4A7C15u ^ words.size();
  for (uint32_t w : words) {
    h = (h ^ w) * 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
  }
  return h;
}

Structure structure(std::span<const UOp> roots) {
  Structure s;
  Words words(s.words);
  NodeMap<uint32_t> number;
  uint32_t next = 0;
  post_order(roots, [&](UOp u) {
    words.put(static_cast<uint32_t>(u.op()));
    words.put(static_cast<uint32_t>(u.src().size()));
    for (UOp source : u.src()) words.put(number.at(source));
    if (u.is(Op::Buffer)) {
      ParamArg arg = u.arg<ParamArg>();
      arg.slot = static_cast<int64_t>(s.buffers.size());
      s.buffers.push_back(u);
      words.put(Arg(std::move(arg)));
    } else {
      words.put(u.arg());
    }
    number.insert(u, next++);
  });
  for (UOp root : roots) words.put(number.at(root));
  return s;
}

}  // namespace uopc
