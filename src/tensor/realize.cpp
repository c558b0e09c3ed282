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
  std::shared_ptr<Value> value;
  UOp uop;                       // on realized values only
  std::shared_ptr<Buffer> into;  // its home, where that may be overwritten
  std::shared_ptr<Buffer> result;
  bool view = false;  // of memory that is there already
};

class Realizer {
 public:
  explicit Realizer(std::vector<std::shared_ptr<Value>> values) {
    for (auto& v : values) add(std::move(v));
    if (!targets_.empty()) context_ = targets_.front().value->context;
  }

  void run() {
    if (targets_.empty()) return;
    const double start = now();
    find_homes();
    if (targets_.empty()) return;
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
  void add(std::shared_ptr<Value> v) {
    if (v->buffer || !target_values_.insert(v.get()).second) return;
    targets_.push_back({std::move(v), {}, {}, {}});
  }

  // The Values that the targets are built from. Sources of realized ones are no part of the plan, but what hangs on
  // them alone must not keep a home from being overwritten: they go when the targets' sources go.
  void walk() {
    uses_.clear();
    closure_.clear();
    memory_.clear();
    std::vector<Value*> stack;
    const auto enter = [&](Value* v) {
      if (!uses_.try_emplace(v, 0).second) return;
      closure_.push_back(v);
      stack.push_back(v);
      if (v->buffer) memory_.emplace(v->buffer->slot, v->buffer);
    };
    for (const Target& t : targets_) enter(t.value.get());
    while (!stack.empty()) {
      Value* v = stack.back();
      stack.pop_back();
      for (const auto& s : v->sources) {
        enter(s.get());
        uses_[s.get()]++;
      }
    }
  }

  // The Values whose contents somebody needs afterwards: those that others were built on, directly or not, and those
  // that a Tensor holds and that are not computed here.
  void pin() {
    pinned_.clear();
    std::unordered_set<Value*> through;
    std::vector<Value*> stack;
    for (Value* v : closure_) {
      const bool held = v->handles > 0 && !target_values_.contains(v);
      if (held) pinned_.insert(v);
      if (v->dependents > uses_[v] || (held && !v->buffer)) stack.push_back(v);
    }
    while (!stack.empty()) {
      Value* v = stack.back();
      stack.pop_back();
      if (!through.insert(v).second) continue;
      pinned_.insert(v);
      for (const auto& s : v->sources) stack.push_back(s.get());
    }
  }

  bool is_free(const Buffer& home) {
    return std::ranges::all_of(home.holders, [&](Value* v) {
      return uses_.contains(v) ? !pinned_.contains(v) : v->handles == 0 && v->dependents == 0;
    });
  }

  // The memory that a recorded function began with is where its replays will look; so is that of a Capture.
  bool must_stay(const Buffer& home) const {
    const Recording* r = context_->recording;
    return home.captures > 0 || (r && home.slot < r->first_slot);
  }
  // What the host put into memory while a function is recorded is there for each replay: it is not overwritten.
  bool constant(const Buffer& home) const {
    const Recording* r = context_->recording;
    return r && home.slot >= r->first_slot && !r->computed.contains(&home);
  }

  void look_around() {
    walk();
    if (compute_older()) walk();
    pin();
  }

  // What was lazy before a recording began is no part of it: a replay would compute it anew, of later contents.
  bool compute_older() {
    Recording* const recording = context_->recording;
    if (!recording) return false;
    const auto older = [&](const Value* v) { return !v->buffer && v->id < recording->first_id; };
    std::vector<std::shared_ptr<Value>> found;
    for (const Target& t : targets_)
      if (older(t.value.get())) found.push_back(t.value);
    for (const Value* v : closure_)
      for (const auto& s : v->sources)
        if (!older(v) && older(s.get())) found.push_back(s);
    if (found.empty()) return false;
    context_->recording = nullptr;
    try {
      realize(std::move(found));
    } catch (...) {
      context_->recording = recording;
      throw;
    }
    context_->recording = recording;
    std::erase_if(targets_, [&](const Target& t) { return t.value->buffer && target_values_.erase(t.value.get()); });
    return true;
  }

  std::vector<std::shared_ptr<Buffer>> blocked_homes() {
    std::vector<std::shared_ptr<Buffer>> out;
    for (const Target& t : targets_)
      if (const auto& home = t.value->home; home && must_stay(*home) && !is_free(*home)) out.push_back(home);
    return out;
  }

  // A home is where its tensor's value goes if nobody needs what it holds. Where it has to go there, what needs the old
  // contents is computed along, and what stands in it is copied out.
  void find_homes() {
    look_around();
    auto blocked = blocked_homes();
    for (bool last = false; !blocked.empty() && !last;) {
      const size_t before = targets_.size();
      for (auto& v : lazy_readers(*context_, blocked)) add(std::move(v));
      last = targets_.size() == before;
      if (last)
        for (const auto& b : blocked) clear_out(*b);
      look_around();
      blocked = blocked_homes();
    }
    if (!blocked.empty())
      throw Error(ErrorCode::Run,
                  fmt::format("a tensor of {} elements that the captured function assigns is still needed with a value "
                              "that it had in between: make a clone() of that",
                              blocked.front()->size));
    std::unordered_set<const Buffer*> taken;
    for (Target& t : targets_)
      if (const auto& home = t.value->home;
          home && !constant(*home) && is_free(*home) && taken.insert(home.get()).second)
        t.into = home;
  }

  void clear_out(Buffer& b) {
    for (Value* v : std::vector<Value*>(b.holders))
      if (v->handles > 0 && !(context_->recording && v->id >= context_->recording->first_id)) move_aside(*v);
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

  // A value that is all of a BUFFER needs no kernel; two equal values need one. But a recorded function's results have
  // memory of their own: what it reads may be rebound, or written.
  void bind() {
    NodeMap<Target*> first;
    for (Target& t : targets_) {
      if (t.into) continue;
      const UOp whole = t.value->home || context_->recording ? UOp() : whole_buffer(t.uop);
      if (whole) {
        t.result = memory_.at(whole.arg<ParamArg>().slot);
        t.view = true;
        continue;
      }
      const auto [other, fresh] = first.insert(t.uop, &t);
      if (!fresh && !t.value->home) {
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
    const PlanAndInputs planned = make_plan(results, {o.opt, o.opt > 0 ? context_->engine->machine() : Machine()});
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
    Recording::Run run{cached_.plan, {}, {}, {}, {}};
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
    Recording* const recording = context_->recording;
    if (!recording) return;
    for (const Target& t : targets_)
      if (t.into) run.into.push_back(t.into);
    for (const auto& b : run.outs) recording->computed.insert(b.get());
    recording->runs.push_back(std::move(run));
  }

  void settle() {
    memory_.clear();
    for (Target& t : targets_) t.value->place(t.into ? t.into : t.result);
    for (Target& t : targets_)
      if (t.value->dependents == 0) t.value->forget_sources();
  }

  std::shared_ptr<Context::Impl> context_;
  std::vector<Target> targets_;
  std::unordered_set<Value*> target_values_;
  std::vector<Value*> closure_;
  std::unordered_map<Value*, int64_t> uses_;  // of the closure: in the sources of the closure
  std::unordered_set<Value*> pinned_;
  std::unordered_map<int64_t, std::shared_ptr<Buffer>> memory_;  // by slot
  std::vector<UOp> buffers_;
  CachedPlan cached_;
};

}  // namespace

void realize(std::vector<std::shared_ptr<Value>> values) {
  Realizer(std::move(values)).run();
}

void Tensor::realize(std::span<const Tensor> tensors) {
  if (tensors.empty()) return;
  check_one_context(tensors, "realize");
  std::vector<std::shared_ptr<Value>> values;
  for (const Tensor& t : tensors) values.push_back(t.impl()->value.shared());
  uopc::realize(std::move(values));
}

const Tensor& Tensor::realize() const {
  realize(std::span(this, 1));
  return *this;
}

}  // namespace uopc
