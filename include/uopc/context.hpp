// What tensors live in: their graph, memory, plans, random numbers and training mode.
//
// Thread-safety: a Context and its tensors belong to one thread at a time. Contexts are independent; several may share
// an Engine.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "uopc/engine.hpp"

namespace uopc {

// Owns the graph, the memory and the plans of its tensors. A handle; lives as long as it or a tensor of it does. Never
// empty: a move is a copy.
class UOPC_API Context {
 public:
  explicit Context(Options options = {});  // with an Engine of its own
  explicit Context(std::shared_ptr<Engine> engine);
  Context(const Context&) = default;
  Context& operator=(const Context&) = default;

  Engine& engine() const;
  const Options& options() const;

  // Random tensors and dropout draw from a counter-based generator: equal seeds and equal calls give equal numbers on
  // any machine. The seed is 0 at first.
  void manual_seed(uint64_t seed);

  // Whether dropout and batch norm behave as in training; false at first. `TrainingMode` sets it for a scope.
  void set_training(bool on);
  bool training() const;

  struct Stats {
    int64_t realizes = 0, kernels_run = 0, kernels_compiled = 0;
    int64_t plans_made = 0, plans_reused = 0;
    int64_t live_bytes = 0;    // memory that tensors hold
    int64_t pooled_bytes = 0;  // memory kept for later ones
    int64_t graph_nodes = 0;
  };
  Stats stats() const;
  void trim();  // gives pooled memory and cached plans back

  struct Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }
  explicit Context(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

class UOPC_API TrainingMode {
 public:
  explicit TrainingMode(const Context& ctx, bool on = true) : ctx_(ctx), before_(ctx.training()) {
    ctx_.set_training(on);
  }
  ~TrainingMode() { ctx_.set_training(before_); }
  TrainingMode(const TrainingMode&) = delete;
  TrainingMode& operator=(const TrainingMode&) = delete;

 private:
  Context ctx_;
  bool before_;
};

}  // namespace uopc
