// From lazy values to memory: one plan for all tensors that are asked for together.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <unordered_set>

#include "ir/structure.hpp"
#include "ir/walk.hpp"
#include "passes/kernelize.hpp"
#include "tensor/context_impl.hpp"

namespace uopc {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One value to compute, and where it goes.
struct Target {
  Tensor::Impl* tensor;
  Value* value;
  UOp uop;                       // on realized values only
  std::shared_ptr<Buffer> into;  // its home, where that may be overwritten
  std::shared_ptr<Buffer> result;
  bool view = false;  // of memory that is there already
};

class Realizer {
 public:
  Realizer(std::span<const Tensor> tensors) {
    check_one_context(tensors, "realize");
    context_ = tensors.front().impl()->value->context;
    std::unordered_set<Value*> seen;
    for (const Tensor& t : tensors) {
      Value* v = t.impl()->value.get();
      if (!v->buffer && seen.insert(v).second) targets_.push_back({t.impl().get(), v, {}, {}, {}});
    }
  }

  void run() {
    if (targets_.empty()) return;
    const double start = now();
    walk();
    choose_homes();
    rewrite();
    bind();
    plan();
    const double scheduled = now();
    execute(scheduled - start);
    settle();
    context_->stats.realizes++;
    context_->collect();
  }

 private:
  // The values that the targets are built from, down to the realized ones.
  void walk() {
    std::vector<Value*> stack;
    const auto enter = [&](Value* v) {
      if (uses_.try_emplace(v, 0).second) {
        closure_.push_back(v);
        stack.push_back(v);
      }
    };
    for (const Target& t : targets_) enter(t.value);
    while (!stack.empty()) {
      Value* v = stack.back();
      stack.pop_back();
      if (v->buffer) {
        memory_.emplace(v->buffer->slot, v->buffer);
        values_in_[v->buffer.get()].push_back(v);
        continue;
      }
      for (const auto& s : v->sources) {
        enter(s.get());
        uses_[s.get()]++;
        source_of_.emplace(s.get(), s);
      }
    }
  }

  // A home may be overwritten when nobody but the targets needs what it holds: no value that somebody else keeps was
  // built from it.
  void choose_homes() {
    std::unordered_map<Value*, const Target*> target_of;
    std::unordered_set<Value*> pinned;
    for (const Target& t : targets_) target_of.emplace(t.value, &t);
    std::vector<Value*> stack;
    for (Value* v : closure_) {
      const auto found = source_of_.find(v);
      // The references that the walk saw and its own one, and those of the Tensors of a target, which will see it
      // realized.
      const int64_t known = uses_[v] + (target_of.contains(v) ? v->handles : 0) + (found != source_of_.end() ? 1 : 0);
      const int64_t all =
          found != source_of_.end() ? found->second.use_count() : target_of.at(v)->tensor->value.use_count();
      if (all > known) stack.push_back(v);
    }
    while (!stack.empty()) {
      Value* v = stack.back();
      stack.pop_back();
      if (!pinned.insert(v).second || v->buffer) continue;
      for (const auto& s : v->sources) stack.push_back(s.get());
    }
    for (Target& t : targets_) {
      const auto& home = t.tensor->home;
      if (!home || home->size != count_of(t.value->uop.shape())) continue;
      int64_t known = 1 + home->captures;  // of the tensor
      bool free = true;
      if (const auto held = values_in_.find(home.get()); held != values_in_.end()) {
        known += 1 + static_cast<int64_t>(held->second.size());  // memory_ has it too
        for (Value* v : held->second) free = free && !pinned.contains(v);
      }
      if (context_->recording)
        for (const Recording::Run& r : context_->recording->runs)
          known += std::ranges::count(r.inputs, home) + std::ranges::count(r.outs, home);
      if (free && home.use_count() == known)
        t.into = home;
      else if (context_->recording)
        throw Error(
            ErrorCode::Run,
            fmt::format("a tensor of shape ({}) that the captured function assigns is still needed with its old "
                        "value: realize or drop what was made of it",
                        fmt::join(t.value->uop.shape(), ", ")));
    }
  }

  // Realized values in place of what they were built as.
  void rewrite() {
    NodeMap<UOp> images;
    for (Value* v : closure_)
      if (v->buffer) images.insert(v->built_as, v->uop);
    for (Value* v : closure_)
      if (v->buffer) images.insert(v->uop, v->uop);
    for (Target& t : targets_) t.uop = map_graph(t.value->uop, images, [](UOp, UOp u) { return u; });
  }

  // A value that is all of a BUFFER needs no kernel; two equal values need one.
  void bind() {
    NodeMap<Target*> first;
    for (Target& t : targets_) {
      if (t.into) continue;
      if (const UOp whole = whole_buffer(t.uop); whole && !t.tensor->home) {
        t.result = memory_.at(whole.arg<ParamArg>().slot);
        t.view = true;
        continue;
      }
      const auto [other, fresh] = first.insert(t.uop, &t);
      if (!fresh && !t.tensor->home) {
        t.view = true;
        t.result = (*other)->result;
        continue;
      }
      t.result = context_->new_buffer(t.uop.dtype(), count_of(t.uop.shape()));
    }
  }

  void plan() {
    std::vector<UOp> roots;
    std::vector<std::optional<UOp>> into;
    for (const Target& t : targets_) {
      if (t.view) continue;
      roots.push_back(t.uop);
      into.push_back(t.into ? std::optional(context_->node(*t.into)) : std::nullopt);
      if (t.into) memory_.emplace(t.into->slot, t.into);
    }
    if (roots.empty()) return;
    const size_t values = roots.size();
    for (const auto& b : into)
      if (b) roots.push_back(*b);
    Structure s = structure(roots);
    // Which results have a home is part of the key: the BUFFERs themselves are its last roots.
    for (const auto& b : into) s.words.push_back(b.has_value());
    s.words.push_back(static_cast<uint32_t>(values));
    buffers_ = s.buffers;
    const CachedPlan* found = context_->plans.find(s.words);
    if (found) {
      context_->stats.plans_reused++;
    } else {
      found = &make(std::move(s), roots, values, into);
      context_->stats.plans_made++;
    }
    cached_ = *found;
  }

  const CachedPlan& make(Structure s, const std::vector<UOp>& roots, size_t values,
                         const std::vector<std::optional<UOp>>& into) {
    Graph graph;
    const std::vector<UOp> images = import_all(graph, roots);
    std::vector<PlanResult> results;
    size_t next_home = values;
    for (size_t i = 0; i < values; i++)
      results.push_back({images[i], into[i] ? std::optional(images[next_home++]) : std::nullopt});
    const Options& o = context_->engine->options();
    if (o.opt > 0 && o.debug > 0 && o.log && !context_->told_opt) {
      o.log(fmt::format("OPT={}: there is no optimizer yet, kernels are lowered plainly", o.opt));
      context_->told_opt = true;
    }
    const PlanAndInputs planned = make_plan(results, {o.opt});
    CompiledPlan compiled = compile_plan(*context_->engine, context_->kernels, planned);
    context_->stats.kernels_compiled += compiled.newly_compiled;
    CachedPlan cached{std::make_shared<const CompiledPlan>(std::move(compiled)), {}};
    std::unordered_map<int64_t, size_t> place;  // by slot
    for (size_t i = 0; i < s.buffers.size(); i++) place.emplace(s.buffers[i].arg<ParamArg>().slot, i);
    for (UOp b : planned.inputs) cached.inputs.push_back(place.at(b.arg<ParamArg>().slot));
    return context_->plans.insert(std::move(s.words), std::move(cached));
  }

  void execute(double schedule_seconds) {
    if (!cached_.plan) return;
    Recording::Run run{cached_.plan, {}, {}, {}};
    std::vector<void*> inputs, outs;
    for (size_t i : cached_.inputs) {
      run.inputs.push_back(memory_.at(buffers_[i].arg<ParamArg>().slot));
      inputs.push_back(run.inputs.back()->data());
    }
    for (const Target& t : targets_) {
      if (t.into || t.view) continue;
      run.outs.push_back(t.result);
      outs.push_back(t.result->data_to_overwrite());
    }
    const int64_t scratch = (cached_.plan->memory.bytes + 3) / 4;
    run.scratch = context_->new_buffer(DType::I32, scratch);
    const double seconds = run_plan(*context_->engine, cached_.plan, inputs, outs, run.scratch->data_to_overwrite());
    context_->stats.kernels_run += static_cast<int64_t>(cached_.plan->kernels.size());
    const Options& o = context_->engine->options();
    if (o.debug >= 1 && o.log) {
      const size_t n = cached_.plan->kernels.size();
      o.log(fmt::format("realize: {} kernel{}, schedule {:.1f} ms, run {:.1f} ms", n, n == 1 ? "" : "s",
                        schedule_seconds * 1e3, seconds * 1e3));
    }
    if (context_->recording) context_->recording->runs.push_back(std::move(run));
  }

  void settle() {
    for (Target& t : targets_) {
      const std::shared_ptr<Buffer>& b = t.into ? t.into : t.result;
      t.value->uop = context_->view(*b, t.value->uop.shape());
      t.value->buffer = b;
      t.tensor->home = nullptr;
    }
    // A value that something else was built on keeps its history, which a gradient may go through. What falls away
    // first may have been the last to be built on another.
    source_of_.clear();
    memory_.clear();
    for (int round = 0; round < 2; round++)
      for (Target& t : targets_)
        if (t.tensor->value.use_count() == t.value->handles) {
          release(std::exchange(t.value->sources, {}));
          t.value->built_as = t.value->uop;
        }
  }

  std::shared_ptr<Context::Impl> context_;
  std::vector<Target> targets_;
  std::vector<Value*> closure_;
  std::unordered_map<Value*, int64_t> uses_;  // of the closure
  std::unordered_map<Value*, std::shared_ptr<Value>> source_of_;
  std::unordered_map<int64_t, std::shared_ptr<Buffer>> memory_;  // by slot
  std::unordered_map<Buffer*, std::vector<Value*>> values_in_;   // of the closure
  std::vector<UOp> buffers_;
  CachedPlan cached_;
};

}  // namespace

void Tensor::realize(std::span<const Tensor> tensors) {
  if (!tensors.empty()) Realizer(tensors).run();
}

const Tensor& Tensor::realize() const {
  realize(std::span(this, 1));
  return *this;
}

}  // namespace uopc
