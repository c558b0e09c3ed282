#include <cstring>

#include "ir/walk.hpp"
#include "tensor/context_impl.hpp"

namespace uopc {

Context::Context(Options options) : Context(std::make_shared<Engine>(std::move(options))) {}
Context::Context(std::shared_ptr<Engine> engine) {
  if (!engine) throw Error(ErrorCode::Type, "a Context needs an Engine");
  impl_ = std::make_shared<Impl>(std::move(engine));
}

Engine& Context::engine() const {
  return *impl_->engine;
}
const Options& Context::options() const {
  return impl_->engine->options();
}
void Context::manual_seed(uint64_t seed) {
  impl_->seed = seed;
  impl_->next_key = 0;
}
void Context::set_training(bool on) {
  impl_->training = on;
}
bool Context::training() const {
  return impl_->training;
}
Context::Stats Context::stats() const {
  Stats s = impl_->stats;
  s.live_bytes = impl_->pool->live_bytes();
  s.pooled_bytes = impl_->pool->pooled_bytes();
  s.graph_nodes = static_cast<int64_t>(impl_->graph->size());
  return s;
}
void Context::trim() {
  impl_->pool->trim();
  impl_->plans.clear();
  impl_->kernels.clear();
}

Context::Impl::~Impl() = default;

std::shared_ptr<Buffer> Context::Impl::new_buffer(DType dtype, int64_t size, Scalar fill) {
  return std::make_shared<Buffer>(pool, next_slot++, dtype, size, fill);
}

// splitmix64's finalizer: neighbouring counters give unrelated keys.
void Context::Impl::draw_key(int32_t* two) {
  uint64_t z = seed * 0x9E3779B97F4A7C15u + ++next_key * 0xD1B54A32D192ED03u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  std::memcpy(two, &z, sizeof z);
}

void Context::Impl::collect() {
  if (graph->size() < collect_at || recording) return;
  std::vector<UOp> roots;
  for (Value* v = values; v; v = v->next) {
    roots.push_back(v->uop);
    roots.push_back(v->built_as);
    if (v->origin) roots.push_back(v->origin);
  }
  auto fresh = std::make_unique<Graph>();
  const std::vector<UOp> images = import_all(*fresh, roots);
  size_t i = 0;
  for (Value* v = values; v; v = v->next) {
    v->uop = images[i++];
    v->built_as = images[i++];
    if (v->origin) v->origin = images[i++];
  }
  graph = std::move(fresh);
  collect_at = std::max<size_t>(65536, 4 * graph->size());
}

}  // namespace uopc
