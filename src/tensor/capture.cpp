#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "ir/py_text.hpp"
#include "tensor/context_impl.hpp"
#include "uopc/capture.hpp"

namespace uopc {

// The function is recorded on stand-ins, copies of the inputs in memory of their own: what it does with an input is
// then told from what it does with any other tensor. A replay reads an input where it is, and goes through the
// stand-in where that would not be the same: the input's memory is written by the recorded kernels, or the function
// returned the stand-in.
struct Capture::Impl {
  struct Input {
    Tensor stand_in;
    std::shared_ptr<Buffer> buffer;  // the stand-in's
    bool assigned = false, returned = false;
    std::vector<std::pair<size_t, size_t>> places;  // (plan, input of the plan)
    bool direct = false;                            // in this replay
  };
  // Memory that the recorded kernels use, and the tensors that may be seen in it.
  struct Held {
    std::shared_ptr<Buffer> buffer;
    bool written = false;
    std::vector<std::weak_ptr<Tensor::Impl>> owners;

    bool owned(const Value* v) const {
      return std::ranges::any_of(owners, [&](const auto& o) {
        const auto t = o.lock();
        return t && t->value.get() == v;
      });
    }
  };

  Function function;
  std::shared_ptr<Context::Impl> context;
  Recording recording;
  std::vector<BoundPlan> bound;
  std::vector<Input> inputs;
  std::vector<Held> held;  // each buffer once
  std::unordered_map<const Buffer*, size_t> place_in_held;
  std::vector<Tensor> results, plain_results;
  int calls = 0;
  bool running = false;

  ~Impl() {
    for (const Held& h : held) h.buffer->captures--;
  }

  void check(std::span<const Tensor> in) const {
    if (in.size() != inputs.size())
      throw Error(ErrorCode::Type, fmt::format("Capture: {} inputs, recorded with {}", in.size(), inputs.size()));
    for (size_t i = 0; i < in.size(); i++) {
      if (!in[i] || in[i].impl()->value->context != context)
        throw Error(ErrorCode::Type, fmt::format("Capture: input {} is not of the Context it was recorded in", i));
      const Buffer& b = *inputs[i].buffer;
      const Shape& shape = inputs[i].stand_in.shape();
      if (in[i].shape() != shape || in[i].dtype() != b.dtype)
        throw Error(ErrorCode::Type,
                    fmt::format("Capture: input {} is dtypes.{}{}, recorded with dtypes.{}{}", i, name(in[i].dtype()),
                                py_tuple(in[i].shape()), name(b.dtype), py_tuple(shape)));
    }
  }
  void check_assigned(std::span<const Tensor> in) const {
    for (size_t i = 0; i < in.size(); i++) {
      if (!inputs[i].assigned) continue;
      if (in[i].impl()->base || in[i].impl()->rearranged)
        throw Error(
            ErrorCode::Type,
            fmt::format("Capture: the captured function assigns input {}, which is a view of another tensor", i));
      for (size_t k = 0; k < i; k++)
        if (inputs[k].assigned && in[k].impl() == in[i].impl())
          throw Error(
              ErrorCode::Type,
              fmt::format("Capture: the captured function assigns inputs {} and {}, which are one tensor", k, i));
    }
  }

  Held& hold(const std::shared_ptr<Buffer>& b) {
    const auto [at, fresh] = place_in_held.emplace(b.get(), held.size());
    if (fresh) {
      held.push_back({b, false, {}});
      b->captures++;
    }
    return held[at->second];
  }

  void record(std::span<const Tensor> in) {
    for (const Tensor& t : in) {
      const auto& from = t.impl()->value->buffer;
      const Tensor copy = Tensor::from_bytes(Context(context), t.bytes(), t.shape(), from->dtype);
      inputs.push_back({copy, copy.impl()->value->buffer, false, false, {}, false});
    }
    compute_assigned([](const Buffer*) { return true; });
    recording.first_id = context->next_id;
    recording.first_slot = context->next_slot;
    context->recording = &recording;
    try {
      std::vector<Tensor> stand_ins;
      for (const Input& i : inputs) stand_ins.push_back(i.stand_in);
      results = function(stand_ins);
      std::vector<std::shared_ptr<Value>> open;
      for (const Tensor& t : results) {
        if (!t || t.impl()->value->context != context)
          throw Error(ErrorCode::Type, "Capture: a result is not a tensor of the Context it was recorded in");
        open.push_back(t.impl()->value.shared());
      }
      for (const auto& a : recording.assigned)
        if (const auto t = a.lock()) open.push_back(t->value.shared());
      uopc::realize(std::move(open));
      note_runs();
      check_assigned(in);
      for (size_t k = 0; k < in.size(); k++)
        if (inputs[k].assigned) Tensor(in[k]).write(inputs[k].stand_in.bytes());
    } catch (...) {
      context->recording = nullptr;
      forget();
      throw;
    }
    context->recording = nullptr;
    recording.runs.clear();
    recording.computed.clear();
    recording.assigned.clear();
  }

  void forget() {
    for (const Held& h : held) h.buffer->captures--;
    held.clear();
    place_in_held.clear();
    bound.clear();
    inputs.clear();
    results.clear();
    recording = {};
  }

  void note_runs() {
    std::unordered_map<const Buffer*, size_t> input_in;
    for (size_t k = 0; k < inputs.size(); k++) input_in.emplace(inputs[k].buffer.get(), k);
    for (size_t r = 0; r < recording.runs.size(); r++) {
      const Recording::Run& run = recording.runs[r];
      std::vector<void*> ins, outs;
      for (size_t i = 0; i < run.inputs.size(); i++) {
        ins.push_back(run.inputs[i]->data());
        hold(run.inputs[i]);
        if (const auto at = input_in.find(run.inputs[i].get()); at != input_in.end())
          inputs[at->second].places.emplace_back(r, i);
      }
      for (const auto& b : run.outs) {
        outs.push_back(b->data());
        hold(b).written = true;
      }
      for (const auto& b : run.into) {
        hold(b).written = true;
        if (const auto at = input_in.find(b.get()); at != input_in.end()) inputs[at->second].assigned = true;
      }
      hold(run.scratch);
      bound.emplace_back(run.plan, ins, outs, run.scratch->data_to_overwrite());
    }
    for (const auto& b : recording.keys) hold(b);
    for (Input& i : inputs) hold(i.buffer).written = true;
    const auto own = [&](const std::shared_ptr<Tensor::Impl>& t) {
      if (const auto at = place_in_held.find(t->value->buffer.get()); at != place_in_held.end())
        held[at->second].owners.push_back(t);
    };
    for (const Tensor& t : results) {
      own(t.impl());
      for (Input& i : inputs) i.returned = i.returned || t.impl()->value->buffer == i.buffer;
    }
    for (const auto& a : recording.assigned)
      if (const auto t = a.lock()) own(t);
    for (const Input& i : inputs) own(i.stand_in.impl());
  }

  template <class Which>
  void compute_assigned(Which&& which) {
    std::vector<std::shared_ptr<Value>> waiting;
    for (Value* v = context->values; v; v = v->next)
      if (v->home && which(v->home.get())) waiting.push_back(v->shared_from_this());
    uopc::realize(std::move(waiting));
  }

  // Whether the replay may write: nothing but the tensors that are to change is in the memory, nothing lazy reads it,
  // and nothing waits to be put into it.
  bool has_room() const {
    return std::ranges::all_of(held, [](const Held& h) {
      return h.buffer->awaited == 0 && (!h.written || std::ranges::all_of(h.buffer->holders, [&](const Value* v) {
               return v->dependents == 0 && h.owned(v);
             }));
    });
  }
  void have_room() {
    if (has_room()) return;
    compute_assigned([&](const Buffer* home) { return place_in_held.contains(home); });
    std::vector<std::shared_ptr<Buffer>> written;
    std::vector<Value*> keep;
    for (const Held& h : held) {
      if (!h.written) continue;
      written.push_back(h.buffer);
      for (Value* v : h.buffer->holders)
        if (h.owned(v)) keep.push_back(v);
    }
    make_room(*context, written, keep);
  }

  // Where the replay reads (and writes) input k.
  void bind(std::span<const Tensor> in, size_t k) {
    Input& input = inputs[k];
    const auto memory = [&](size_t i) { return in[i].impl()->value->buffer.get(); };
    const auto used = place_in_held.find(memory(k));
    input.direct = !input.returned && (used == place_in_held.end() || (!input.assigned && !held[used->second].written));
    for (size_t i = 0; i < in.size() && input.direct; i++)
      if (i != k && memory(i) == memory(k) && (inputs[i].assigned || input.assigned)) input.direct = false;
    void* data = memory(k)->data();
    if (!input.direct) {
      if (input.buffer->bytes() > 0) std::memcpy(input.buffer->data(), data, input.buffer->bytes());
      data = input.buffer->data();
    }
    for (const auto& [plan, place] : input.places) bound[plan].rebind_input(place, data);
  }

  void replay(std::span<const Tensor> in) {
    for (const Tensor& t : in)
      if (!t.is_realized()) t.realize();
    have_room();
    check_assigned(in);
    for (size_t k = 0; k < in.size(); k++) {
      if (!inputs[k].assigned) continue;
      const Value& v = *in[k].impl()->value;
      if (v.handles > 1 || v.dependents > 0 || v.buffer->awaited > 0 || v.buffer->holders.size() > 1)
        Tensor(in[k]).write(std::vector<std::byte>(in[k].bytes().begin(), in[k].bytes().end()));
    }
    for (size_t k = 0; k < in.size(); k++) bind(in, k);
    for (const auto& b : recording.keys) context->draw_key(static_cast<int32_t*>(b->data()));
    for (const BoundPlan& b : bound) b.run();
    for (size_t k = 0; k < in.size(); k++)
      if (inputs[k].assigned && !inputs[k].direct) Tensor(in[k]).write(inputs[k].stand_in.bytes());
  }

  std::vector<Tensor> run_plainly(std::span<const Tensor> in) {
    std::vector<Tensor> out = function(in);
    if (!out.empty()) Tensor::realize(out);
    return out;
  }
};

Capture::Capture(Function function) : impl_(std::make_unique<Impl>()) {
  if (!function) throw Error(ErrorCode::Type, "Capture of an empty function");
  impl_->function = std::move(function);
}
Capture::~Capture() = default;
Capture::Capture(Capture&&) noexcept = default;
Capture& Capture::operator=(Capture&&) noexcept = default;

Capture::Impl& Capture::impl() const {
  if (!impl_) throw Error(ErrorCode::Run, "a Capture that was moved from");
  return *impl_;
}
bool Capture::recorded() const {
  return impl().calls > 1;
}
int64_t Capture::kernels() const {
  int64_t n = 0;
  for (const BoundPlan& b : impl().bound) n += static_cast<int64_t>(b.plan().kernels.size());
  return n;
}

const std::vector<Tensor>& Capture::operator()(std::span<const Tensor> in) {
  Impl& c = impl();
  if (c.running) throw Error(ErrorCode::Type, "Capture: the captured function calls its own Capture");
  struct Running {
    bool& flag;
    ~Running() { flag = false; }
  } running{c.running = true};
  if (!in.empty()) {
    check_one_context(in, "Capture");
    // Inside another Capture's recording this one's kernels are part of that.
    if (in[0].impl()->value->context->recording) return c.plain_results = c.run_plainly(in);
  }
  if (c.calls > 1) {
    c.check(in);
    c.replay(in);
    return c.results;
  }
  if (!in.empty()) Tensor::realize(in);
  if (c.calls == 0) {
    c.results = c.run_plainly(in);
    if (in.empty() && c.results.empty())
      throw Error(ErrorCode::Type, "Capture: a function without inputs returns at least one tensor");
    c.context = (in.empty() ? c.results[0] : in[0]).impl()->value->context;
  } else if (c.context->recording) {
    return c.plain_results = c.run_plainly(in);
  } else {
    c.results.clear();
    c.record(in);
  }
  c.calls++;
  return c.results;
}

}  // namespace uopc
