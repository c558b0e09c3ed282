#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "tensor/context_impl.hpp"

namespace uopc {

std::vector<std::shared_ptr<Value>> lazy_readers(Context::Impl& context,
                                                 std::span<const std::shared_ptr<Buffer>> memory) {
  std::unordered_set<const Buffer*> wanted;
  for (const auto& b : memory) wanted.insert(b.get());
  std::vector<Value*> all;
  for (Value* v = context.values; v; v = v->next) all.push_back(v);
  std::ranges::reverse(all);
  // Sources come before their dependents. What a realized value was built as is part of the UOps of those dependents
  // that are older than its computation: they count too.
  std::unordered_set<const Value*> reads;
  std::vector<std::shared_ptr<Value>> out;
  for (Value* v : all) {
    const bool through = std::ranges::any_of(v->sources, [&](const auto& s) { return reads.contains(s.get()); });
    if (through || (v->buffer && wanted.contains(v->buffer.get()))) reads.insert(v);
    if (through && !v->buffer && v->handles > 0) out.push_back(v->shared_from_this());
  }
  return out;
}

void move_aside(Value& v) {
  const auto memory = v.context->new_buffer(v.buffer->dtype, v.buffer->size);
  if (memory->bytes() > 0) std::memcpy(memory->data_to_overwrite(), v.buffer->data(), memory->bytes());
  const bool plain = v.built_as == v.uop;
  v.place(memory);
  if (plain) v.built_as = v.uop;
}

void make_room(Context::Impl& context, std::span<const std::shared_ptr<Buffer>> memory, std::span<Value* const> keep) {
  realize(lazy_readers(context, memory));
  for (const auto& b : memory)
    for (Value* v : std::vector<Value*>(b->holders))
      if (std::ranges::find(keep, v) == keep.end()) move_aside(*v);
}

}  // namespace uopc
