// What a Context's handles and tensors share.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "runtime/compiled_plan.hpp"
#include "tensor/buffer.hpp"
#include "tensor/value.hpp"

namespace uopc {

// A plan and which of a graph's BUFFERs (Structure::buffers) its inputs are.
struct CachedPlan {
  std::shared_ptr<const CompiledPlan> plan;
  std::vector<size_t> inputs;
};

// What realize() ran while a Capture recorded.
struct Recording {
  struct Run {
    std::shared_ptr<const CompiledPlan> plan;
    std::vector<std::shared_ptr<Buffer>> inputs, outs;
    std::vector<std::shared_ptr<Buffer>> into;  // those of the inputs that it writes
    std::shared_ptr<Buffer> scratch;
  };
  int64_t first_id = 0, first_slot = 0;  // of what the recorded function makes
  std::vector<Run> runs;
  std::vector<std::shared_ptr<Buffer>> keys;
  std::unordered_set<const Buffer*> computed;  // outs of the runs
  std::vector<std::weak_ptr<Tensor::Impl>> assigned;
};

struct Context::Impl {
  explicit Impl(std::shared_ptr<Engine> engine) : engine(std::move(engine)) {}
  ~Impl();

  std::shared_ptr<Engine> engine;
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::shared_ptr<Pool> pool = std::make_shared<Pool>();
  KernelCache kernels{4096};
  LruCache<CachedPlan> plans{512};  // by the structure of what they compute
  Stats stats;
  Value* values = nullptr;  // all that are alive
  int64_t next_slot = 0, next_id = 0;
  uint64_t seed = 0, next_key = 0;
  bool training = false;
  Recording* recording = nullptr;
  size_t collect_at = 65536;  // nodes
  std::map<int64_t, std::weak_ptr<Value>> iotas;

  std::shared_ptr<Buffer> new_buffer(DType dtype, int64_t size, Scalar fill = 0);
  UOp node(const Buffer& b) { return graph->buffer(b.size, b.dtype, b.slot); }
  UOp view(const Buffer& b, const Shape& shape) {  // all of it
    const UOp u = node(b);
    return u.shape() == shape ? u : u.reshape(shape);
  }
  void draw_key(int32_t* two);
  // Imports what is alive into a new Graph once the old one has grown to several times that.
  void collect();
};

// Makes room for other contents in `memory`: what is not yet computed of it is computed, and what stands in it goes to
// memory of its own, but for the Values in `keep`, which have no dependents afterwards.
void make_room(Context::Impl& context, std::span<const std::shared_ptr<Buffer>> memory, std::span<Value* const> keep);

// The Values that Tensors hold and that are not computed, whose UOps read `memory`; by id.
std::vector<std::shared_ptr<Value>> lazy_readers(Context::Impl& context,
                                                 std::span<const std::shared_ptr<Buffer>> memory);

// Memory of its own for a realized value, with the same contents.
void move_aside(Value& v);

// A realized value without a history.
std::shared_ptr<Value> value_in(const std::shared_ptr<Context::Impl>& context, std::shared_ptr<Buffer> memory,
                                const Shape& shape);

}  // namespace uopc
