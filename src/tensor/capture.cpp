#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/py_text.hpp"
#include "tensor/context_impl.hpp"

namespace uopc {

struct Capture::Impl {
  struct Input {
    Shape shape;
    DType dtype;
    std::shared_ptr<Buffer> buffer;
  };
  struct Rebind {
    size_t run, plan_input, input;
  };

  Function function;
  std::shared_ptr<Context::Impl> context;
  Recording recording;
  std::vector<BoundPlan> bound;
  std::vector<Input> inputs;
  std::vector<Rebind> rebinds;
  std::vector<Tensor> results;
  std::vector<std::shared_ptr<Buffer>> held;  // each once
  int calls = 0;

  ~Impl() {
    for (const auto& b : held) b->captures--;
  }

  void check(std::span<const Tensor> in) const {
    if (in.size() != inputs.size())
      throw Error(ErrorCode::Type, fmt::format("Capture: {} inputs, recorded with {}", in.size(), inputs.size()));
    for (size_t i = 0; i < in.size(); i++) {
      if (!in[i] || in[i].impl()->value->context != context)
        throw Error(ErrorCode::Type, fmt::format("Capture: input {} is not of the Context it was recorded in", i));
      if (in[i].shape() != inputs[i].shape || in[i].dtype() != inputs[i].dtype)
        throw Error(ErrorCode::Type,
                    fmt::format("Capture: input {} is dtypes.{}{}, recorded with dtypes.{}{}", i, name(in[i].dtype()),
                                py_tuple(in[i].shape()), name(inputs[i].dtype), py_tuple(inputs[i].shape)));
    }
  }

  void record(std::span<const Tensor> in) {
    for (const Tensor& t : in) inputs.push_back({t.shape(), t.dtype(), t.impl()->value->buffer});
    context->recording = &recording;
    try {
      results = function(in);
      if (!results.empty()) Tensor::realize(results);
    } catch (...) {
      context->recording = nullptr;
      recording = {};
      inputs.clear();
      results.clear();
      throw;
    }
    context->recording = nullptr;
    std::unordered_set<Buffer*> seen;
    const auto hold = [&](const std::shared_ptr<Buffer>& b) {
      if (!seen.insert(b.get()).second) return;
      held.push_back(b);
      b->captures++;
    };
    for (size_t r = 0; r < recording.runs.size(); r++) {
      Recording::Run& run = recording.runs[r];
      std::vector<void*> ins, outs;
      for (size_t i = 0; i < run.inputs.size(); i++) {
        ins.push_back(run.inputs[i]->data());
        hold(run.inputs[i]);
        for (size_t k = 0; k < inputs.size(); k++)
          if (inputs[k].buffer == run.inputs[i]) rebinds.push_back({r, i, k});
      }
      for (const auto& b : run.outs) {
        outs.push_back(b->data());
        hold(b);
      }
      hold(run.scratch);
      bound.emplace_back(run.plan, ins, outs, run.scratch->data_to_overwrite());
    }
    for (const auto& b : recording.keys) hold(b);
    // One reference each is what `captures` counts.
    for (Recording::Run& run : recording.runs) run = {};
    for (Input& i : inputs) i.buffer = nullptr;
  }

  void replay(std::span<const Tensor> in) {
    for (const Tensor& t : in)
      if (!t.is_realized()) t.realize();
    for (const Rebind& r : rebinds) bound[r.run].rebind_input(r.plan_input, in[r.input].impl()->value->buffer->data());
    for (const auto& b : recording.keys) context->draw_key(static_cast<int32_t*>(b->data()));
    for (const BoundPlan& b : bound) b.run();
  }
};

Capture::Capture(Function function) : impl_(std::make_unique<Impl>()) {
  if (!function) throw Error(ErrorCode::Type, "Capture of an empty function");
  impl_->function = std::move(function);
}
Capture::~Capture() = default;
Capture::Capture(Capture&&) noexcept = default;
Capture& Capture::operator=(Capture&&) noexcept = default;

bool Capture::recorded() const {
  return impl_->calls > 1;
}
int64_t Capture::kernels() const {
  int64_t n = 0;
  for (const BoundPlan& b : impl_->bound) n += static_cast<int64_t>(b.plan().kernels.size());
  return n;
}

const std::vector<Tensor>& Capture::operator()(std::span<const Tensor> inputs) {
  Impl& c = *impl_;
  if (c.calls > 1) {
    c.check(inputs);
    c.replay(inputs);
    return c.results;
  }
  if (!inputs.empty()) {
    check_one_context(inputs, "Capture");
    Tensor::realize(inputs);
  }
  if (c.calls == 0) {
    c.results = c.function(inputs);
    if (!c.results.empty()) Tensor::realize(c.results);
    if (!inputs.empty())
      c.context = inputs[0].impl()->value->context;
    else if (!c.results.empty())
      c.context = c.results[0].impl()->value->context;
    else
      throw Error(ErrorCode::Type, "Capture: a function without inputs returns at least one tensor");
  } else {
    c.results.clear();
    c.record(inputs);
  }
  c.calls++;
  return c.results;
}

}  // namespace uopc
