#include "runtime/compiled_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "runtime/compile_all.hpp"
#include "runtime/kernel_status.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// With the slots, which say in which order a kernel takes its buffers.
KernelCache::Key key_of(UOp program) {
  Structure s = structure(std::span(&program, 1));
  for (UOp b : s.buffers) s.words.push_back(static_cast<uint32_t>(b.arg<ParamArg>().slot));
  return std::move(s.words);
}

CompiledKernel describe_kernel(const PlanKernel& k, Kernel code) {
  CompiledKernel c{k.name, std::move(code), k.refs, k.flops, {}};
  for (const KernelParam& p : c.code.params()) {
    const PlanRef& r = k.refs[static_cast<size_t>(p.slot)];
    if (r.kind == PlanRef::Kind::In && p.read && p.written) c.overwrites.push_back(r.index);
  }
  return c;
}

}  // namespace

CompiledPlan compile_plan(Engine& engine, KernelCache& cache, const PlanAndInputs& planned) {
  const Plan& plan = planned.plan;
  CompiledPlan out;
  for (UOp b : planned.inputs) out.inputs.push_back({b.dtype(), b.shape()[0]});
  out.temps = plan.temps;
  out.outs = plan.outs;
  out.memory = plan_memory(plan);
  const Options& o = engine.options();
  if (o.debug >= 4 && o.log)
    for (const PlanKernel& k : plan.kernels) {
      const std::string text = render_c(k.program, k.name);
      o.log(std::string_view(text).substr(0, text.find_last_not_of('\n') + 1));
    }

  // Equal kernels are one: `number` says which of the different ones each is.
  std::map<KernelCache::Key, size_t> numbers;
  std::vector<size_t> number;
  std::vector<Kernel> codes;  // of the different ones
  std::vector<const PlanKernel*> missing;
  std::vector<std::pair<KernelCache::Key, size_t>> missing_keys;
  for (const PlanKernel& k : plan.kernels) {
    const auto [at, fresh] = numbers.try_emplace(key_of(k.program), codes.size());
    number.push_back(at->second);
    if (!fresh) continue;
    const Kernel* known = cache.find(at->first);
    codes.push_back(known ? *known : Kernel());
    if (known) continue;
    missing.push_back(&k);
    missing_keys.emplace_back(at->first, at->second);
  }

  const auto total = static_cast<int64_t>(missing.size());
  const auto proceed = [&](int64_t done, const std::string& next) {
    return !o.progress || o.progress({done, total, next}) || done == total;
  };
  const CompiledSet made = compile_all(engine, missing, [&](size_t i) {
    const auto done = static_cast<int64_t>(i);
    if (!proceed(done, missing[i]->name))
      throw Error(ErrorCode::Compile, fmt::format("cancelled after {} of {} kernels", done, total));
  });
  for (size_t i = 0; i < missing.size(); i++) {
    auto& [key, n] = missing_keys[i];
    codes[n] = made.kernels[i];
    if (codes[n]) cache.insert(std::move(key), codes[n]);
  }
  if (made.stopped) std::rethrow_exception(made.stopped);
  if (total > 0) proceed(total, {});
  out.newly_compiled = total;
  for (size_t i = 0; i < plan.kernels.size(); i++)
    out.kernels.push_back(describe_kernel(plan.kernels[i], codes[number[i]]));
  return out;
}

BoundPlan::BoundPlan(std::shared_ptr<const CompiledPlan> plan, std::span<void* const> inputs,
                     std::span<void* const> outs, void* scratch)
    : plan_(std::move(plan)), of_input_(inputs.size()) {
  const auto memory = [&](const PlanRef& r) -> void* {
    const auto i = static_cast<size_t>(r.index);
    if (r.kind == PlanRef::Kind::In) return inputs[i];
    if (r.kind == PlanRef::Kind::Out) return outs[i];
    return static_cast<char*>(scratch) + plan_->memory.offsets[i];
  };
  for (const CompiledKernel& k : plan_->kernels) {
    first_.push_back(pointers_.size());
    for (const PlanRef& r : k.refs) {
      if (r.kind == PlanRef::Kind::In) of_input_[static_cast<size_t>(r.index)].push_back(pointers_.size());
      pointers_.push_back(memory(r));
    }
  }
}

void BoundPlan::rebind_input(size_t index, void* memory) {
  for (size_t at : of_input_[index]) pointers_[at] = memory;
}

void BoundPlan::run(size_t kernel) const {
  const CompiledKernel& k = plan_->kernels[kernel];
  KernelContext context;
  const auto status = static_cast<KernelStatus>(k.code.entry()(pointers_.data() + first_[kernel], &context));
  if (status != KernelStatus::Ok) throw_kernel_error(k.name, status, context);
}

void BoundPlan::run() const {
  for (size_t i = 0; i < plan_->kernels.size(); i++) run(i);
}

double run_plan(const Engine& engine, const std::shared_ptr<const CompiledPlan>& plan, std::span<void* const> inputs,
                std::span<void* const> outs, void* scratch) {
  const Options& o = engine.options();
  const BoundPlan bound(plan, inputs, outs, scratch);
  if (o.debug < 2 || !o.log) {
    const double start = now();
    bound.run();
    return now() - start;
  }
  double total = 0;
  std::vector<std::byte> before;
  for (size_t i = 0; i < plan->kernels.size(); i++) {
    const CompiledKernel& k = plan->kernels[i];
    // What a second run may spoil is put back in front of it.
    const bool restore = o.debug >= 3 && !k.overwrites.empty();
    void* changed = restore ? inputs[static_cast<size_t>(k.overwrites[0])] : nullptr;
    if (restore) {
      const PlanBuffer& b = plan->inputs[static_cast<size_t>(k.overwrites[0])];
      before.resize(static_cast<size_t>(b.size * itemsize(b.dtype)));
      std::memcpy(before.data(), changed, before.size());
    }
    const double start = now();
    bound.run(i);
    const double seconds = now() - start;
    total += seconds;
    std::string line = fmt::format("  {:30} {:8.3f} ms {:8.2f} GFLOP/s", k.name, seconds * 1e3,
                                   k.flops / std::max(seconds, 1e-9) * 1e-9);
    if (o.debug >= 3) {
      if (restore) std::memcpy(changed, before.data(), before.size());
      const double again = now();
      bound.run(i);
      line += fmt::format("  (again: {:.3f} ms)", (now() - again) * 1e3);
    }
    o.log(line);
  }
  return total;
}

}  // namespace uopc
