// Random graphs, cut at random places and planned with several results, some of which overwrite inputs: run kernel by
// kernel in the memory that plan_memory gives, each result has the bits of its graph without any STAGE as one kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "diff/doubles_eval.hpp"
#include "diff/generator.hpp"
#include "ir/walk.hpp"
#include "runtime/compiled_plan.hpp"
#include "uopc/passes.hpp"
#include "uopc/reference.hpp"
#include "uopc/uir.hpp"

namespace uopc::diff {
namespace {

using Bytes = std::vector<std::byte>;
using Data = std::map<int64_t, Bytes>;  // by slot

constexpr OpSet kValues = kAlu | kMovement | OpSet{Op::Reduce, Op::Stack};

int64_t elements(UOp u) {
  int64_t n = 1;
  for (int64_t d : u.shape()) n *= d;
  return n;
}

Bytes garbage(int64_t bytes) {
  return Bytes(static_cast<size_t>(bytes), std::byte{0x5A});
}

UOp without_stages(UOp root) {
  NodeMap<UOp> images;
  return map_graph(root, images, [](UOp, UOp u) { return u.is(Op::Stage) ? u.src(0) : u; });
}

// The value as one kernel.
Bytes direct(UOp value, const Data& inputs) {
  std::vector<UOp> buffers = buffers_of(value);
  Graph& g = value.graph();
  const int64_t slot = buffers.empty() ? 0 : buffers.back().arg<ParamArg>().slot + 1;
  const UOp out = g.buffer(std::max<int64_t>(elements(value), 1), value.dtype(), slot);
  const UOp program = lower(value, out);
  Bytes result = garbage(elements(value) * itemsize(value.dtype()));
  std::vector<BufferRef> refs;
  Bytes spare = garbage(itemsize(value.dtype()));
  for (const KernelParam& p : program_params(program)) {
    if (p.slot == slot) {
      Bytes& b = result.empty() ? spare : result;
      refs.emplace_back(b.data(), b.size());
    } else {
      const Bytes& b = inputs.at(p.slot);
      refs.emplace_back(b.data(), b.size());
    }
  }
  interpret(program, refs);
  return result;
}

bool same(const Bytes& a, const std::byte* b, DType dtype) {
  const auto step = static_cast<size_t>(itemsize(dtype));
  for (size_t i = 0; i < a.size(); i += step) {
    if (std::memcmp(&a[i], b + i, step) == 0) continue;
    const double x = read_element(&a[i], dtype), y = read_element(b + i, dtype);
    if (x == x || y == y) return false;
  }
  return true;
}

// Runs the kernels in the interpreter, on `data` and in the memory that plan_memory gives; returns the new buffers.
std::vector<Bytes> interpret_plan(const PlanAndInputs& planned, Data& data) {
  const MemoryPlan memory = plan_memory(planned.plan);
  std::vector<Bytes> outs;
  for (const PlanBuffer& b : planned.plan.outs) outs.push_back(garbage(b.size * itemsize(b.dtype)));
  Bytes scratch = garbage(memory.bytes);
  for (const PlanKernel& k : planned.plan.kernels) {
    std::vector<BufferRef> refs;
    for (const PlanRef& r : k.refs) {
      const auto i = static_cast<size_t>(r.index);
      if (r.kind == PlanRef::Kind::In) {
        Bytes& b = data.at(planned.inputs[i].arg<ParamArg>().slot);
        refs.emplace_back(b.data(), b.size());
      } else if (r.kind == PlanRef::Kind::Out) {
        refs.emplace_back(outs[i].data(), outs[i].size());
      } else {
        const PlanBuffer& t = planned.plan.temps[i];
        refs.emplace_back(scratch.data() + memory.offsets[i], static_cast<size_t>(t.size * itemsize(t.dtype)));
      }
    }
    interpret(k.program, refs);
  }
  return outs;
}

// Whether a maximum's value depends on the order of its elements: NaN, and zeros of both signs. OPT 1 may unroll it.
bool maximum_depends_on_order(const Sample& sample) {
  bool found = false;
  post_order(sample.root, [&](UOp u) {
    if (!u.is(Op::Reduce) || u.arg<ReduceArg>().op != Op::Max || !is_float(u.dtype())) return;
    bool zeros[2] = {};
    for (const Element& e : evaluate_doubles(u.src(0), sample.inputs).elements) {
      found |= std::isnan(e.exact);
      if (e.exact == 0) zeros[std::signbit(e.exact)] = true;
    }
    found |= zeros[0] && zeros[1];
  });
  return found;
}

// From level 1 on, long sums of floats are made in lanes.
bool is_summed_in_lanes(UOp root) {
  constexpr int64_t kLeastElements = 32;
  bool found = false;
  post_order(root, [&](UOp u) {
    if (!u.is(Op::Reduce) || u.arg<ReduceArg>().op != Op::Add || !is_float(u.dtype())) return;
    found |= elements(u.src(0)) >= kLeastElements * std::max<int64_t>(1, elements(u));
  });
  return found;
}

struct Outcome {
  size_t kernels = 0, in_place = 0, temps = 0;
};

// Of the generator's program `share` percent of the values are staged, and some become results of their own.
Outcome check_plan(uint64_t seed, int share) {
  Graph graph;
  const Sample sample = random_graph(graph, seed);
  // The simplifier orders the operands of MAX by what is a constant, which a STAGE may hide.
  if (evaluate_doubles(sample.root, sample.inputs).hazards.max_order) return {};
  Rng rng(seed + 77);
  Data inputs;
  for (const Input& in : sample.inputs) inputs[in.slot] = in.data;

  NodeMap<UOp> images;
  std::vector<UOp> candidates;
  const UOp root = map_graph(sample.root, images, [&](UOp, UOp u) {
    if (!kValues.has(u.op())) return u;
    if (rng.percent(share)) u = u.stage();
    candidates.push_back(u);
    return u;
  });
  std::vector<PlanResult> results{{root, {}}};
  for (int i = 0; i < 3 && !candidates.empty(); i++) results.push_back({rng.pick(candidates), {}});
  std::vector<UOp> free = buffers_of(root);
  for (PlanResult& r : results) {
    if (!rng.percent(60)) continue;
    const auto fits = std::ranges::find_if(
        free, [&](UOp b) { return b.dtype() == r.value.dtype() && b.shape()[0] >= elements(r.value); });
    if (fits == free.end()) continue;
    r.into = *fits;
    free.erase(fits);
  }

  std::vector<Bytes> wanted;
  for (const PlanResult& r : results) wanted.push_back(direct(without_stages(r.value), inputs));

  Outcome outcome;
  const bool ordered = maximum_depends_on_order(sample) || is_summed_in_lanes(sample.root);
  for (int opt : {0, 1}) {
    if (opt > 0 && ordered) continue;
    const PlanAndInputs planned = make_plan(results, {opt});
    Data data = inputs;
    const std::vector<Bytes> outs = interpret_plan(planned, data);
    size_t next_out = 0;
    for (size_t i = 0; i < results.size(); i++) {
      const PlanResult& r = results[i];
      const Bytes& got = r.into ? data.at(r.into->arg<ParamArg>().slot) : outs[next_out++];
      EXPECT_TRUE(same(wanted[i], got.data(), r.value.dtype()))
          << "seed " << seed << ", result " << i << " at opt " << opt << "\n"
          << to_uir(r.value);
      outcome.in_place += r.into.has_value();
    }
    for (auto& [slot, before] : inputs) {
      const auto is_home = [slot = slot](const PlanResult& r) {
        return r.into && r.into->arg<ParamArg>().slot == slot;
      };
      if (std::ranges::none_of(results, is_home)) {
        EXPECT_TRUE(data.at(slot) == before) << "seed " << seed << ": input " << slot;
      }
    }
    outcome.kernels += planned.plan.kernels.size();
    outcome.temps += planned.plan.temps.size();
  }
  return outcome;
}

TEST(Plans, EqualOneKernelOfTheGraphWithoutStages) {
  Outcome all;
  for (uint64_t seed = 0; seed < kGraphs / 2; seed++) {
    const Outcome one = check_plan(seed, static_cast<int>(seed % 4) * 15);
    all.kernels += one.kernels;
    all.in_place += one.in_place;
    all.temps += one.temps;
    if (testing::Test::HasFailure()) break;
  }
  RecordProperty("kernels", std::to_string(all.kernels));
  if (!testing::Test::HasFailure()) {
    EXPECT_GE(all.kernels, kGraphs * 3);
    EXPECT_GE(all.in_place, kGraphs / 4);
    EXPECT_GE(all.temps, kGraphs);
  }
}

Bytes floats(const std::vector<float>& v) {
  Bytes b(v.size() * sizeof(float));
  std::memcpy(b.data(), v.data(), b.size());
  return b;
}
std::vector<float> floats(const Bytes& b) {
  std::vector<float> v(b.size() / sizeof(float));
  std::memcpy(v.data(), b.data(), b.size());
  return v;
}

TEST(PlansInPlace, TwoTensorsAreSwapped) {
  Graph g;
  const UOp a = g.buffer(3, DType::F32, 0), b = g.buffer(3, DType::F32, 1);
  const PlanResult results[] = {{b, a}, {a, b}};
  Data data{{0, floats({1, 2, 3})}, {1, floats({4, 5, 6})}};
  interpret_plan(make_plan(results), data);
  EXPECT_EQ(floats(data[0]), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(floats(data[1]), (std::vector<float>{1, 2, 3}));
}

TEST(PlansInPlace, ThreeGoRound) {
  Graph g;
  const UOp a = g.buffer(2, DType::F32, 0), b = g.buffer(2, DType::F32, 1), c = g.buffer(2, DType::F32, 2);
  const PlanResult results[] = {{b + 1.0, a}, {c + 1.0, b}, {a + 1.0, c}, {a + b + c, {}}};
  Data data{{0, floats({1, 2})}, {1, floats({10, 20})}, {2, floats({100, 200})}};
  const PlanAndInputs planned = make_plan(results);
  EXPECT_EQ(planned.plan.temps.size(), 1u) << "one breaks the cycle";
  EXPECT_EQ(floats(interpret_plan(planned, data)[0]), (std::vector<float>{111, 222}));
  EXPECT_EQ(floats(data[0]), (std::vector<float>{11, 21}));
  EXPECT_EQ(floats(data[1]), (std::vector<float>{101, 201}));
  EXPECT_EQ(floats(data[2]), (std::vector<float>{2, 3}));
}

TEST(PlansInPlace, OneIsPermutedIntoItself) {
  Graph g;
  const UOp a = g.buffer(6, DType::F32, 0);
  const PlanResult result{a.reshape({2, 3}).permute({1, 0}) + 1.0, a};
  Data data{{0, floats({1, 2, 3, 4, 5, 6})}};
  interpret_plan(make_plan(std::span(&result, 1)), data);
  EXPECT_EQ(floats(data[0]), (std::vector<float>{2, 5, 3, 6, 4, 7}));
}

TEST(PlansInPlace, OneIsDividedByItsSum) {
  Graph g;
  const UOp a = g.buffer(4, DType::F32, 0);
  const PlanResult result{a / a.reduce(Op::Add, 1).broadcast_to({4}), a};
  Data data{{0, floats({1, 2, 3, 2})}};
  const PlanAndInputs planned = make_plan(std::span(&result, 1));
  EXPECT_EQ(planned.plan.kernels.size(), 2u);
  interpret_plan(planned, data);
  EXPECT_EQ(floats(data[0]), (std::vector<float>{0.125, 0.25, 0.375, 0.25}));
}

// Weights and both moments from their old values and a gradient: one kernel each, in place, the weights first.
TEST(PlansInPlace, AStepOfAdam) {
  Graph g;
  const UOp w = g.buffer(5, DType::F32, 0), m = g.buffer(5, DType::F32, 1), v = g.buffer(5, DType::F32, 2),
            d = g.buffer(5, DType::F32, 3);
  const UOp m_next = m * 0.5 + d * 0.5, v_next = v * 0.75 + d * d * 0.25;
  const UOp w_next = w - m_next / (v_next.sqrt() + 1.0) * 0.5;
  for (const std::vector<PlanResult>& results :
       {std::vector<PlanResult>{{w_next, w}, {m_next, m}, {v_next, v}}, {{m_next, m}, {v_next, v}, {w_next, w}}}) {
    Data data{{0, floats({1, 2, 3, 4, 5})},
              {1, floats({0, 1, 0, -1, 2})},
              {2, floats({0, 4, 1, 0, 9})},
              {3, floats({2, -2, 1, 0, 4})}};
    std::vector<float> w0 = floats(data[0]), m0 = floats(data[1]), v0 = floats(data[2]), d0 = floats(data[3]);
    for (int step = 0; step < 3; step++) {
      const PlanAndInputs planned = make_plan(results);
      EXPECT_EQ(planned.plan.kernels.size(), 3u);
      EXPECT_TRUE(planned.plan.temps.empty());
      interpret_plan(planned, data);
      for (size_t i = 0; i < 5; i++) {
        m0[i] = m0[i] * 0.5f + d0[i] * 0.5f;
        v0[i] = v0[i] * 0.75f + d0[i] * d0[i] * 0.25f;
        w0[i] -= m0[i] * (1.f / (std::sqrt(v0[i]) + 1.f)) * 0.5f;
        EXPECT_NEAR(floats(data[0])[i], w0[i], 1e-6);
        EXPECT_NEAR(floats(data[1])[i], m0[i], 1e-6);
        EXPECT_NEAR(floats(data[2])[i], v0[i], 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace uopc::diff
