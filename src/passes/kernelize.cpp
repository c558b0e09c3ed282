#include "passes/kernelize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "ir/py_text.hpp"
#include "passes/hand_opt.hpp"
#include "passes/merge_reduced_axes.hpp"
#include "passes/pack_operands.hpp"
#include "passes/split_reductions.hpp"
#include "passes/verify.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Type, message);
}

// CALLs inlined, detaching STAGEs gone; STAGE of what stands in memory already, or is staged already, is that.
UOp simplify_stages(UOp, UOp u) {
  if (u.is(Op::Call)) return inline_call(u);
  if (is_detach(u)) return u.src(0);
  return u.is(Op::Stage) && (u.src(0).is(Op::Stage) || whole_buffer(u.src(0))) ? u.src(0) : u;
}

std::string kernel_name(UOp value) {
  bool reduces = false;
  post_order(value, [&](UOp u) { reduces = reduces || u.is(Op::Reduce); });
  std::string name = reduces ? "r" : "e";
  for (int64_t d : value.shape()) name += fmt::format("_{}", d);
  return name;
}

// A kernel to be: what it computes, and where that goes. BUFFERs are the graph's, and `Planner`'s placeholders.
struct Draft {
  UOp value;
  UOp into;  // the BUFFER of the graph that it overwrites; null otherwise
  PlanKernel kernel;
  std::vector<UOp> reads;  // BUFFERs of the graph
  bool in_place_safe = true;
};

class Planner {
 public:
  Planner(std::span<const PlanResult> results, const CutOptions& options) : options_(options) {
    std::vector<UOp> values;
    NodeMap<UOp> images;
    for (const PlanResult& r : results) {
      check(r);
      values.push_back(map_graph(r.value, images, simplify_stages));
      into_.push_back(r.into ? *r.into : UOp());
    }
    check_targets();
    values = share_stages(values);
    // A result is written to memory anyway: its STAGE is needed only where another value reads it.
    NodeSet read;
    post_order(values, [&](UOp u) {
      for (UOp source : u.src()) read.insert(source);
    });
    for (size_t i = 0; i < values.size(); i++)
      if (into_[i] && values[i].is(Op::Stage) && !read.contains(values[i])) values[i] = values[i].src(0);
    values_ = insert_stages(values, options_);
    if (options_.opt > 0) values_ = pack_operands(split_reductions(merge_reduced_axes(values_)), options_.machine);
  }

  PlanAndInputs plan() {
    cut();
    order_assignments();
    number_inputs();
    return std::move(out_);
  }

 private:
  static void check(const PlanResult& r) {
    if (!r.value) fail("a result is an empty UOp");
    if (r.value.dtype() == DType::Void)
      fail(
          fmt::format("{} has no value to compute; a plan is of values (a sum, a product, a STAGE), and of loops it "
                      "needs none: `uopc run`",
                      describe(r.value)));
    if (!r.into) return;
    const UOp b = *r.into;
    if (!b || !b.is(Op::Buffer)) fail("a result goes into a BUFFER");
    if (b.dtype() != r.value.dtype())
      fail(fmt::format("a result of dtypes.{} does not go into {} of dtypes.{}", name(r.value.dtype()), describe(b),
                       name(b.dtype())));
    if (b.shape()[0] < count_elements(r.value.shape()))
      fail(fmt::format("{} of {} elements is too small for a result of shape {}", describe(b), b.shape()[0],
                       py_tuple(r.value.shape())));
  }

  void check_targets() const {
    NodeSet taken;
    for (UOp b : into_)
      if (b && !taken.insert(b)) fail(fmt::format("two results go into {}", describe(b)));
  }

  // Kernels in post-order over the results. Those that overwrite an input come last, as every other one may read it.
  void cut() {
    std::vector<int64_t> out_number(values_.size(), -1);  // of the results without a BUFFER to go into
    for (size_t i = 0; i < values_.size(); i++) {
      const UOp v = values_[i];
      if (into_[i]) continue;
      out_number[i] = static_cast<int64_t>(out_.plan.outs.size());
      out_.plan.outs.push_back({v.dtype(), count_elements(v.shape())});
      if (v.is(Op::Stage)) out_of_stage_.insert(v, out_number[i]);  // the first of equal ones
    }
    NodeMap<UOp> images;
    for (size_t i = 0; i < values_.size(); i++) {
      const UOp root = values_[i];
      const UOp image = map_graph(root, images, [&](UOp old, UOp u) {
        if (!u.is(Op::Stage)) return u;
        const auto* out = out_of_stage_.find(old);
        return add_kernel(u.src(0), out ? PlanRef{PlanRef::Kind::Out, *out} : new_temp(u));
      });
      if (into_[i]) {
        if (whole_buffer(image) == into_[i]) continue;  // already there
        assignments_.push_back(draft(image, {PlanRef::Kind::In, 0}, into_[i]));
      } else if (const auto* out = out_of_stage_.find(root); !out || *out != out_number[i]) {
        add_kernel(image, {PlanRef::Kind::Out, out_number[i]});
      }
    }
  }

  PlanRef new_temp(UOp value) {
    out_.plan.temps.push_back({value.dtype(), count_elements(value.shape())});
    return {PlanRef::Kind::Tmp, static_cast<int64_t>(out_.plan.temps.size()) - 1};
  }

  // Computes `value` into `out`; what reads it reads the result, a placeholder of a slot below 0.
  UOp add_kernel(UOp value, PlanRef out) {
    Draft d = draft(value, out, {});
    emit(d.kernel, value);
    const UOp place = value.graph().buffer(count_elements(value.shape()), value.dtype(), next_placeholder_--);
    placeholders_.insert(place, out);
    return value.shape() == place.shape() ? place : place.reshape(value.shape());
  }

  std::vector<UOp> buffers_of(UOp root) const {
    std::vector<UOp> all;
    post_order(root, [&](UOp u) {
      if (u.is(Op::Buffer)) all.push_back(u);
    });
    return all;
  }

  // Lowers; BUFFERs get the slots 0, 1, .. in the order of their first use, the written one the last.
  Draft draft(UOp value, PlanRef out, UOp into) {
    Draft d{value, into, {}, {}, true};
    Graph& graph = value.graph();
    // `dropped` are BUFFERs of the value that its program does not read: theirs are slots that nothing else has.
    const auto lowered = [&](std::span<const UOp> inputs, std::span<const UOp> dropped, const Opts& opts) {
      std::vector<std::pair<UOp, UOp>> slots;
      const auto renumber = [&](UOp b, size_t slot) {
        slots.emplace_back(b, graph.buffer(b.shape()[0], b.dtype(), static_cast<int64_t>(slot)));
      };
      for (size_t i = 0; i < inputs.size(); i++) renumber(inputs[i], i);
      for (size_t i = 0; i < dropped.size(); i++) renumber(dropped[i], inputs.size() + 1 + i);
      const int64_t n = count_elements(value.shape());
      const UOp to =
          graph.buffer(std::clamp<int64_t>(n, 1, kMaxElements), value.dtype(), static_cast<int64_t>(inputs.size()));
      return lower(substitute(value, slots), to, opts, options_.opt > 0 ? LowerForm::Lanes : LowerForm::Unrolled);
    };
    std::vector<UOp> inputs = buffers_of(value), dropped;
    UOp program = lowered(inputs, {}, {});
    // Simplification may have removed a BUFFER.
    std::vector<char> used(inputs.size(), 0);
    for (UOp b : buffers_of(program))
      if (const auto slot = static_cast<size_t>(b.arg<ParamArg>().slot); slot < used.size()) used[slot] = 1;
    if (std::ranges::count(used, 0) > 0) {
      std::vector<UOp> kept;
      for (size_t i = 0; i < inputs.size(); i++) (used[i] ? kept : dropped).push_back(inputs[i]);
      inputs = std::move(kept);
      program = lowered(inputs, dropped, {});
    }
    UOp mapped = program;
    if (options_.opt > 0)
      if (const Opts opts = hand_opt_choice(value, program, options_.machine); opts != Opts())
        mapped = mapped_by([&] { return lowered(inputs, dropped, opts); }, program);
    if (buffers_of(mapped).size() != buffers_of(program).size()) mapped = program;
    d.kernel.name = kernel_name(value);
    d.kernel.flops = count_flops(value);
    for (UOp b : inputs) d.kernel.refs.push_back(ref_of(b));
    for (UOp b : inputs) {
      if (placeholders_.contains(b)) continue;
      d.reads.push_back(b);
      read_.insert(b);
    }
    if (into) {
      const auto at = std::ranges::find(inputs, into);
      if (at != inputs.end()) {
        d.in_place_safe = in_place_safe(program, at - inputs.begin(), static_cast<int64_t>(inputs.size()));
        if (d.in_place_safe) mapped = in_place(mapped, at - inputs.begin(), static_cast<int64_t>(inputs.size()));
      } else {
        d.kernel.refs.push_back(ref_of(into));
      }
    } else {
      d.kernel.refs.push_back(out);
    }
    d.kernel.program = mapped;
    return d;
  }

  // Copies of a large body, or of one that is read at very many indices, may pass the limits on those; the plain form
  // did not.
  template <class Lower>
  static UOp mapped_by(Lower&& lower, UOp plain) {
    try {
      return lower();
    } catch (const Error& e) {
      if (e.code() != ErrorCode::NotImplemented && e.code() != ErrorCode::Type) throw;
      return plain;
    }
  }

  static int64_t slot_of(UOp buffer) { return buffer.arg<ParamArg>().slot; }

  // Whether a program without Opts may store into the BUFFER of slot `from` in place of that of slot `out`: it reads
  // the former at the index that it stores at only. The old value of an element is then read before the new one is
  // written, in whatever order the loops around the store run, as no two turns of them have one index.
  static bool in_place_safe(UOp program, int64_t from, int64_t out) {
    UOp at;
    std::vector<UOp> indices;
    post_order(program, [&](UOp u) {
      if (!u.is(Op::Index) || !u.src(0).is(Op::Buffer)) return;
      if (slot_of(u.src(0)) == from) indices.push_back(u.src(1));
      if (slot_of(u.src(0)) == out) at = u.src(1);
    });
    return std::ranges::all_of(indices, [&](UOp i) { return i == at; });
  }
  static UOp in_place(UOp program, int64_t from, int64_t out) {
    UOp source, target;
    post_order(program, [&](UOp u) {
      if (u.is(Op::Buffer) && slot_of(u) == from) source = u;
      if (u.is(Op::Buffer) && slot_of(u) == out) target = u;
    });
    const std::pair<UOp, UOp> pair{target, source};
    return substitute(program, std::span(&pair, 1));
  }

  PlanRef ref_of(UOp buffer) {
    if (const PlanRef* place = placeholders_.find(buffer)) return *place;
    auto [number, fresh] = input_numbers_.insert(buffer, static_cast<int64_t>(out_.inputs.size()));
    if (fresh) out_.inputs.push_back(buffer);
    return {PlanRef::Kind::In, *number};
  }

  // Puts the assignments into an order in which each comes after all others that read what it overwrites. Where there
  // is none, and where a kernel cannot work in place, a temporary takes the value and a copy at the end brings it home.
  void order_assignments() {
    NodeMap<std::vector<size_t>> readers;
    for (size_t i = 0; i < assignments_.size(); i++)
      for (UOp b : assignments_[i].reads) readers[b].push_back(i);
    std::vector<int64_t> waits(assignments_.size(), 0);
    for (size_t i = 0; i < assignments_.size(); i++)
      if (const auto* all = readers.find(assignments_[i].into))
        waits[i] = std::ranges::count_if(*all, [&](size_t r) { return r != i; });
    NodeMap<size_t> writer;
    for (size_t i = 0; i < assignments_.size(); i++) writer.insert(assignments_[i].into, i);

    std::set<size_t> left, ready;
    for (size_t i = 0; i < assignments_.size(); i++) (waits[i] == 0 ? ready : left).insert(i);
    std::vector<PlanKernel> copies;
    while (!ready.empty() || !left.empty()) {
      const bool free = !ready.empty();
      std::set<size_t>& from = free ? ready : left;
      const size_t i = *from.begin();
      from.erase(from.begin());
      Draft& d = assignments_[i];
      if (free && d.in_place_safe)
        emit(d.kernel, d.value);
      else
        copies.push_back(through_temporary(d));
      for (UOp b : d.reads) {
        const size_t* w = writer.find(b);
        if (!w || *w == i || --waits[*w] > 0) continue;
        if (left.erase(*w)) ready.insert(*w);
      }
    }
    for (PlanKernel& copy : copies) out_.plan.kernels.push_back(std::move(copy));
  }

  void emit(PlanKernel& kernel, UOp value) {
    if (count_elements(value.shape()) > 0) out_.plan.kernels.push_back(std::move(kernel));
  }

  PlanKernel through_temporary(const Draft& d) {
    const UOp temp = add_kernel(d.value, new_temp(d.value));
    return draft(temp, {}, d.into).kernel;
  }

  // Inputs are numbered by first use in the order of the kernels.
  void number_inputs() {
    std::vector<int64_t> number(out_.inputs.size(), -1);
    std::vector<UOp> ordered;
    const auto take = [&](int64_t old) {
      int64_t& n = number[static_cast<size_t>(old)];
      if (n >= 0) return;
      n = static_cast<int64_t>(ordered.size());
      ordered.push_back(out_.inputs[static_cast<size_t>(old)]);
    };
    for (const bool reads : {true, false})
      for (const PlanKernel& k : out_.plan.kernels)
        for (const PlanRef& r : k.refs)
          if (r.kind == PlanRef::Kind::In && read_.contains(out_.inputs[static_cast<size_t>(r.index)]) == reads)
            take(r.index);
    for (PlanKernel& k : out_.plan.kernels)
      for (PlanRef& r : k.refs)
        if (r.kind == PlanRef::Kind::In) r.index = number[static_cast<size_t>(r.index)];
    out_.inputs = std::move(ordered);
  }

  const CutOptions options_;
  std::vector<UOp> values_, into_;
  PlanAndInputs out_;
  NodeMap<int64_t> out_of_stage_;  // STAGEs that are results
  NodeMap<PlanRef> placeholders_;
  NodeMap<int64_t> input_numbers_;
  NodeSet read_;  // BUFFERs of the graph that some kernel reads
  std::vector<Draft> assignments_;
  int64_t next_placeholder_ = -1;
};

}  // namespace

double count_flops(UOp value) {
  constexpr OpSet kCounted{Op::Add, Op::Mul, Op::Max, Op::Recip, Op::Exp2, Op::Log2, Op::Sqrt, Op::Sin};
  double flops = 0;
  post_order(value, [&](UOp u) {
    if (!is_float(u.dtype())) return;
    if (u.is(Op::Reduce))
      flops += static_cast<double>(count_elements(u.src(0).shape()));
    else if (kCounted.has(u.op()))
      flops += static_cast<double>(count_elements(u.shape()));
  });
  return flops;
}

PlanAndInputs make_plan(std::span<const PlanResult> results, const CutOptions& options) {
  return Planner(results, options).plan();
}

PlanAndInputs make_plan(std::initializer_list<UOp> values) {
  std::vector<PlanResult> results;
  for (UOp v : values) results.push_back({v, {}});
  return make_plan(results);
}

std::string to_string(const Plan& plan) {
  constexpr const char* kKinds[] = {"in", "tmp", "out"};
  std::string text;
  auto out = std::back_inserter(text);
  for (const PlanKernel& k : plan.kernels) {
    fmt::format_to(out, "{} [", k.name);
    for (size_t i = 0; i < k.refs.size(); i++)
      fmt::format_to(out, "{}('{}', {})", i == 0 ? "" : ", ", kKinds[static_cast<int>(k.refs[i].kind)],
                     k.refs[i].index);
    fmt::format_to(out, "]\n{}", render_c_body(k.program, k.name));
  }
  const auto list = [&](const std::vector<PlanBuffer>& all) {
    for (size_t i = 0; i < all.size(); i++)
      fmt::format_to(out, "{}(dtypes.{}, {})", i == 0 ? "" : ", ", name(all[i].dtype), all[i].size);
  };
  text += "temps: [";
  list(plan.temps);
  text += "]  outs: [";
  list(plan.outs);
  text += "]\n";
  return text;
}

}  // namespace uopc
