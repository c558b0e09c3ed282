#include "passes/kernelize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "ir/py_text.hpp"
#include "passes/hand_opt.hpp"
#include "passes/lower_rows.hpp"
#include "passes/merge_reduced_axes.hpp"
#include "passes/pack_operands.hpp"
#include "passes/row_groups.hpp"
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

// Elements of a row from which keeping it beats computing it again.
constexpr int64_t kKeptRow = 64;

// A kernel to be: what it computes, and where that goes. BUFFERs are the graph's, and `Planner`'s placeholders.
struct Draft {
  UOp value;
  PlanRef out{};
  UOp into;                          // the BUFFER of the graph that it overwrites; null otherwise
  std::vector<UOp> inputs, dropped;  // its program reads these; its value also those
  UOp plain;                         // without Opts
  Opts opts;
  UOp place;  // what stands for its result in other values; null where none reads it

  bool reads(UOp buffer) const { return std::ranges::find(inputs, buffer) != inputs.end(); }
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
    emit_kernels();
    order_assignments();
    number_temps();
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
        assignments_.push_back(draft(image, {}, into_[i]));
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
    drafts_.push_back(draft(value, out, {}));
    const UOp place = drafts_.back().place = new_place(value, out);
    return value.shape() == place.shape() ? place : place.reshape(value.shape());
  }

  UOp new_place(UOp value, PlanRef out) {
    const UOp place = value.graph().buffer(count_elements(value.shape()), value.dtype(), next_placeholder_--);
    placeholders_.insert(place, out);
    return place;
  }

  static std::vector<UOp> buffers_of(UOp root) {
    std::vector<UOp> all;
    post_order(root, [&](UOp u) {
      if (u.is(Op::Buffer)) all.push_back(u);
    });
    return all;
  }

  Draft draft(UOp value, PlanRef out, UOp into) {
    Draft d{value, out, into, buffers_of(value), {}, {}, {}, {}};
    d.plain = lowered(d, {});
    // Simplification may have removed a BUFFER.
    std::vector<char> used(d.inputs.size(), 0);
    for (UOp b : buffers_of(d.plain))
      if (const auto slot = static_cast<size_t>(b.arg<ParamArg>().slot); slot < used.size()) used[slot] = 1;
    if (std::ranges::count(used, 0) > 0) {
      std::vector<UOp> kept;
      for (size_t i = 0; i < d.inputs.size(); i++) (used[i] ? kept : d.dropped).push_back(d.inputs[i]);
      d.inputs = std::move(kept);
      d.plain = lowered(d, {});
    }
    if (options_.opt > 0) d.opts = hand_opt_choice(value, d.plain, options_.machine);
    for (UOp b : d.inputs)
      if (!placeholders_.contains(b)) {
        read_.insert(b);
        ref_of(b);
      }
    return d;
  }

  // BUFFERs get the slots 0, 1, .. in the order of `inputs`, the written one the next, those that are not in the
  // program any after it.
  struct Slots {
    std::vector<std::pair<UOp, UOp>> pairs;
    int64_t next = 0;

    void give(UOp buffer) {
      pairs.emplace_back(buffer, buffer.graph().buffer(buffer.shape()[0], buffer.dtype(), next++));
    }
    UOp output(UOp value) {
      const int64_t n = count_elements(value.shape());
      return value.graph().buffer(std::clamp<int64_t>(n, 1, kMaxElements), value.dtype(), next++);
    }
  };

  UOp lowered(const Draft& d, const Opts& opts) const {
    Slots slots;
    for (UOp b : d.inputs) slots.give(b);
    const UOp to = slots.output(d.value);
    for (UOp b : d.dropped) slots.give(b);
    return lower(substitute(d.value, slots.pairs), to, opts, options_.opt > 0 ? LowerForm::Lanes : LowerForm::Unrolled);
  }

  UOp mapped(const Draft& d) const {
    if (d.opts == Opts()) return d.plain;
    const UOp program = mapped_by([&] { return lowered(d, d.opts); }, d.plain);
    return buffers_of(program).size() == buffers_of(d.plain).size() ? program : d.plain;
  }

  PlanKernel kernel_of(const Draft& d, UOp program, const std::vector<UOp>& inputs) {
    PlanKernel kernel{kernel_name(d.value), program, {}, count_flops(d.value)};
    for (UOp b : inputs) kernel.refs.push_back(ref_of(b));
    kernel.refs.push_back(d.out);
    return kernel;
  }

  // Drafts that are stages of one kernel.
  struct RowKernel {
    std::vector<Draft> stages;
    std::vector<std::optional<size_t>> over;
    size_t axes;
    int64_t block;
    bool threads;
  };

  // The kernels of the drafts, of several that go over the same rows one.
  void emit_kernels() {
    std::vector<char> within(drafts_.size(), 0);
    std::vector<std::optional<PlanKernel>> of_rows(drafts_.size());
    if (options_.opt > 0)
      for (const RowGroup& g : row_groups(row_candidates(), options_.machine)) {
        RowKernel k{{}, g.over, g.axes, g.block, g.threads};
        for (size_t m : g.members) k.stages.push_back(drafts_[m]);
        keep_shared(k);
        const size_t last = g.members.back();
        of_rows[last] = row_kernel(k);
        if (!of_rows[last]) continue;
        for (size_t m : g.members) within[m] = m != last;
      }
    for (size_t k = 0; k < drafts_.size(); k++) {
      if (within[k])
        unused_temps_.insert(drafts_[k].out.index);
      else if (of_rows[k])
        out_.plan.kernels.push_back(*std::move(of_rows[k]));
      else
        emit_draft(drafts_[k]);
    }
  }

  void emit_draft(const Draft& d) {
    if (count_elements(d.value.shape()) > 0) out_.plan.kernels.push_back(kernel_of(d, mapped(d), d.inputs));
  }

  // Assignments read kernels' results too, and stay kernels.
  std::vector<RowCandidate> row_candidates() const {
    NodeSet assigned;
    for (const Draft& d : assignments_)
      for (UOp b : d.inputs) assigned.insert(b);
    std::vector<RowCandidate> all;
    for (const Draft& d : drafts_)
      all.push_back(candidate(d, d.out.kind != PlanRef::Kind::Tmp || assigned.contains(d.place)));
    return all;
  }

  static RowCandidate candidate(const Draft& d, bool stays) {
    return {d.value, d.plain, d.opts, d.inputs, stays ? UOp() : d.place};
  }

  // Costly values that several stages compute become stages, where a row of them is longer than a few registers.
  void keep_shared(RowKernel& k) {
    NodeSet refused;
    while (const UOp shared = shared_value(k.stages, refused)) {
      refused.insert(shared);
      if (count_elements(shared.shape()) < kKeptRow * rows_of(k)) continue;
      Draft kept = draft(shared, {PlanRef::Kind::Tmp, -1}, {});
      kept.place = new_place(shared, kept.out);
      const std::pair<UOp, UOp> pair{shared, kept.place.reshape(shared.shape())};
      std::vector<Draft> stages;
      std::vector<RowCandidate> candidates;
      for (const Draft& d : k.stages) {
        const UOp value = substitute(d.value, std::span(&pair, 1));
        if (value != d.value && kept.value) stages.push_back(std::exchange(kept, {}));
        stages.push_back(value == d.value ? d : draft(value, d.out, {}));
        stages.back().place = d.place;
      }
      for (const Draft& d : stages) candidates.push_back(candidate(d, &d == &stages.back()));
      const auto groups = row_groups(candidates, options_.machine);
      if (groups.size() == 1 && groups[0].members.size() == stages.size() && groups[0].axes == k.axes)
        k = {std::move(stages), groups[0].over, k.axes, groups[0].block, groups[0].threads};
    }
  }

  static int64_t rows_of(const RowKernel& k) {
    const Shape& shape = k.stages.back().value.shape();
    return count_elements(Shape(shape.begin(), shape.begin() + static_cast<int64_t>(k.axes)));
  }

  // The first that is no part of another one.
  static UOp shared_value(const std::vector<Draft>& stages, const NodeSet& refused) {
    NodeMap<int64_t> costs, users;
    for (const Draft& d : stages) {
      NodeSet seen;
      post_order(
          d.value, seen,
          [&](UOp u) {
            int64_t cost = operation_cost(u);
            for (UOp s : u.src()) cost = std::min(kRepeatedCost, cost + costs.at(s));
            costs[u] = cost;
            users[u]++;
          },
          [](UOp) { return true; });
    }
    UOp found;
    for (const Draft& d : stages) {
      NodeSet seen;
      post_order(
          d.value, seen,
          [&](UOp u) {
            if (kAlu.has(u.op()) && users.at(u) > 1 && costs.at(u) >= kRepeatedCost && !refused.contains(u)) found = u;
          },
          [&](UOp u) { return users.at(u) < 2 || !kAlu.has(u.op()); });
      if (found) return found;
    }
    return {};
  }

  std::optional<PlanKernel> row_kernel(const RowKernel& k) {
    NodeSet made, seen;
    for (const Draft& d : k.stages) made.insert(d.place);
    std::vector<UOp> inputs, others;
    for (const Draft& d : k.stages)
      for (UOp b : d.inputs)
        if (!made.contains(b) && seen.insert(b)) inputs.push_back(b);
    for (const Draft& d : k.stages)
      for (UOp b : d.dropped)
        if (!made.contains(b) && seen.insert(b)) others.push_back(b);
    const Draft& last = k.stages.back();
    Slots slots;
    for (UOp b : inputs) slots.give(b);
    const UOp to = slots.output(last.value);
    for (UOp b : others) slots.give(b);
    for (const Draft& d : k.stages)
      if (d.place != last.place) slots.give(d.place);
    std::vector<RowStage> stages;
    for (const Draft& d : k.stages)
      stages.push_back({substitute(d.value, slots.pairs), d.place == last.place ? to : substitute(d.place, slots.pairs),
                        d.opts, k.over[stages.size()]});
    const UOp program = mapped_by([&] { return lower_rows(stages, k.axes, k.block, k.threads); }, UOp());
    if (!program || buffers_of(program).size() != inputs.size() + 1) return {};
    PlanKernel kernel = kernel_of(last, program, inputs);
    kernel.flops = 0;
    for (const Draft& d : k.stages) {
      kernel.flops += count_flops(d.value);
      if (kernel_name(d.value)[0] == 'r') kernel.name[0] = 'r';
    }
    return kernel;
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

  // Whether an assignment's program may write where it reads.
  static bool in_place_safe(const Draft& d) {
    const auto at = std::ranges::find(d.inputs, d.into);
    return at == d.inputs.end() || in_place_safe(d.plain, at - d.inputs.begin(), static_cast<int64_t>(d.inputs.size()));
  }

  void emit_assignment(const Draft& d) {
    if (count_elements(d.value.shape()) == 0) return;
    PlanKernel kernel = kernel_of(d, mapped(d), d.inputs);
    const auto at = std::ranges::find(d.inputs, d.into);
    if (at == d.inputs.end()) {
      kernel.refs.back() = ref_of(d.into);
    } else {
      kernel.program = in_place(kernel.program, at - d.inputs.begin(), static_cast<int64_t>(d.inputs.size()));
      kernel.refs.pop_back();
    }
    out_.plan.kernels.push_back(std::move(kernel));
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
      for (UOp b : assignments_[i].inputs)
        if (!placeholders_.contains(b)) readers[b].push_back(i);
    std::vector<int64_t> waits(assignments_.size(), 0);
    for (size_t i = 0; i < assignments_.size(); i++)
      if (const auto* all = readers.find(assignments_[i].into))
        waits[i] = std::ranges::count_if(*all, [&](size_t r) { return r != i; });
    NodeMap<size_t> writer;
    for (size_t i = 0; i < assignments_.size(); i++) writer.insert(assignments_[i].into, i);

    std::set<size_t> left, ready;
    for (size_t i = 0; i < assignments_.size(); i++) (waits[i] == 0 ? ready : left).insert(i);
    std::vector<Draft> copies;
    while (!ready.empty() || !left.empty()) {
      const bool free = !ready.empty();
      std::set<size_t>& from = free ? ready : left;
      const size_t i = *from.begin();
      from.erase(from.begin());
      const Draft& d = assignments_[i];
      if (free && in_place_safe(d))
        emit_assignment(d);
      else
        copies.push_back(through_temporary(d));
      for (UOp b : d.inputs) {
        const size_t* w = writer.find(b);
        if (!w || *w == i || --waits[*w] > 0) continue;
        if (left.erase(*w)) ready.insert(*w);
      }
    }
    for (const Draft& copy : copies) emit_assignment(copy);
  }

  // Emits what computes the value, and returns the copy.
  Draft through_temporary(const Draft& d) {
    const UOp temp = add_kernel(d.value, new_temp(d.value));
    emit_draft(drafts_.back());
    return draft(temp, {}, d.into);
  }

  void number_temps() {
    if (unused_temps_.empty()) return;
    std::vector<int64_t> number;
    std::vector<PlanBuffer> kept;
    for (size_t i = 0; i < out_.plan.temps.size(); i++) {
      number.push_back(static_cast<int64_t>(kept.size()));
      if (!unused_temps_.contains(static_cast<int64_t>(i))) kept.push_back(out_.plan.temps[i]);
    }
    out_.plan.temps = std::move(kept);
    for (PlanKernel& k : out_.plan.kernels)
      for (PlanRef& r : k.refs)
        if (r.kind == PlanRef::Kind::Tmp) r.index = number[static_cast<size_t>(r.index)];
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
  std::vector<Draft> drafts_, assignments_;
  std::set<int64_t> unused_temps_;
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
