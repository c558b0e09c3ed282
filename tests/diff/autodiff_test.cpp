// gradient against central differences, in double.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "diff/doubles_eval.hpp"
#include "diff/generator.hpp"
#include "uopc/passes.hpp"
#include "uopc/uir.hpp"

namespace uopc::diff {
namespace {

constexpr double kStep = 0x1p-10;

int64_t count(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

// Compares d(sum of seed * root)/d(target) for every element of every target; the targets are BUFFERs of f32, the last
// input is the seed. Skips elements whose neighbourhood has no derivative, or none that the step can show. Returns how
// many were compared.
int64_t compare(UOp root, UOp seed, std::vector<Input> inputs, std::span<const UOp> targets) {
  const std::vector<UOp> got = gradient(root, seed, targets);
  UOp loss = seed * root;
  loss = loss.reduce(Op::Add, loss.ndim());
  const auto value = [&]() {
    const Evaluated e = evaluate_doubles(loss, inputs);
    return e.elements[0].known ? e.elements[0].value : NAN;
  };
  int64_t compared = 0;
  for (size_t t = 0; t < targets.size(); t++) {
    const Evaluated have = evaluate_doubles(got[t], inputs);
    EXPECT_EQ(have.shape, targets[t].shape());
    EXPECT_EQ(have.dtype, targets[t].dtype());
    Input* in = nullptr;
    for (Input& i : inputs)
      if (i.slot == targets[t].arg<ParamArg>().slot) in = &i;
    for (int64_t k = 0; k < in->size; k++) {
      std::byte* at = in->data.data() + k * 4;
      const double x = read_element(at, DType::F32);
      double f[5];
      for (int s = -2; s <= 2; s++) {
        write_element(at, DType::F32, x + s * kStep);
        f[s + 2] = value();
      }
      write_element(at, DType::F32, x);
      const double wide = (f[4] - f[0]) / (4 * kStep), narrow = (f[3] - f[1]) / (2 * kStep);
      const double left = (f[2] - f[1]) / kStep, right = (f[3] - f[2]) / kStep;
      const double scale = 1 + std::abs(narrow);
      const Element& e = have.elements[static_cast<size_t>(k)];
      // A kink or a pole in reach shows in the one-sided slopes.
      if (!(std::abs(wide - narrow) < 1e-3 * scale) || !(std::abs(left - right) < 0.05 * scale)) continue;
      if (!std::isfinite(e.exact) || !std::isfinite(narrow) || std::abs(narrow) > 1e6) continue;
      compared++;
      EXPECT_NEAR(e.exact, narrow, 4e-3 * scale + std::abs(f[2]) * 1e-9) << "target " << t << " element " << k << "\n"
                                                                         << to_uir(root);
    }
  }
  return compared;
}

Input random_input(Rng& rng, int64_t slot, int64_t size, double lo, double hi) {
  Input in{slot, DType::F32, size, std::vector<std::byte>(static_cast<size_t>(size) * 4)};
  for (int64_t k = 0; k < size; k++)
    write_element(in.data.data() + k * 4, DType::F32, std::round(rng.real(lo, hi) * 4096) / 4096);
  return in;
}

struct Case {
  const char* name;
  std::function<UOp(UOp a, UOp b)> build;
};

const Case kCases[] = {
    {"recip", [](UOp a, UOp) { return a.recip(); }},
    {"exp2", [](UOp a, UOp) { return a.exp2(); }},
    {"log2", [](UOp a, UOp) { return a.log2(); }},
    {"sqrt", [](UOp a, UOp) { return a.sqrt(); }},
    {"sin", [](UOp a, UOp) { return (a * 3.0).sin(); }},
    {"add", [](UOp a, UOp b) { return a + b + a; }},
    {"mul", [](UOp a, UOp b) { return a * b * a; }},
    {"max", [](UOp a, UOp b) { return a.max(b); }},
    {"where", [](UOp a, UOp b) { return a.lt(b).where(a * b, a.sqrt()); }},
    {"cast",
     [](UOp a, UOp b) { return a.cast(DType::F32) * a.lt(b).cast(DType::F32) + a.cast(DType::I32).cast(DType::F32); }},
    {"sum", [](UOp a, UOp b) { return (a * b).reduce(Op::Add, 1); }},
    {"sum of all", [](UOp a, UOp b) { return (a * b * a).reduce(Op::Add, a.ndim()); }},
    {"largest", [](UOp a, UOp b) { return (a * b).reduce(Op::Max, 1); }},
    {"largest of inputs", [](UOp a, UOp b) { return a.reduce(Op::Max, 1) * b.reduce(Op::Max, 1); }},
    {"largest of all", [](UOp a, UOp b) { return (a * b).reduce(Op::Max, a.ndim()); }},
    {"reshape",
     [](UOp a, UOp b) {
       return (a * b).reshape({count(a.shape()), 1}) * 2.0;
     }},
    {"permute",
     [](UOp a, UOp b) {
       Shape order;
       for (int64_t k = 0; k < a.ndim(); k++) order.push_back((k + 1) % a.ndim());
       return a.permute(order) * b.permute(order);
     }},
    {"expand",
     [](UOp a, UOp b) {
       Shape ones = a.shape(), wide;
       ones.insert(ones.begin() + 1, 1);
       wide = ones;
       wide[1] = 3;
       const UOp s = (a * b).reduce(Op::Add, 1);
       Shape row = s.shape();
       row.push_back(1);
       return a.reshape(ones).expand(wide) * a.reshape(ones).expand(wide) +
              s.reshape(row).broadcast_to(a.shape()).reshape(ones).expand(wide);
     }},
    {"shrink",
     [](UOp a, UOp b) {
       std::vector<std::pair<int64_t, int64_t>> lo, hi;
       for (int64_t n : a.shape()) {
         lo.emplace_back(0, (n + 1) / 2);
         hi.emplace_back(n - (n + 1) / 2, n);
       }
       return a.shrink(lo) * a.shrink(hi) + b.shrink(hi);
     }},
    {"stack",
     [](UOp a, UOp b) {
       return a.graph().stack({a * b, b, a});
     }},
    {"index", [](UOp a, UOp b) { return (a * b).index(a.shape()[0] - 1) * a.index(int64_t{0}); }},
    {"stage", [](UOp a, UOp b) { return (a * b).stage() * a; }},
    {"softmax",
     [](UOp a, UOp) {
       Shape row = a.shape();
       row.back() = 1;
       const UOp m = a.reduce(Op::Max, 1).reshape(row).broadcast_to(a.shape());
       const UOp e = ((a - m) * 1.4426950408889634).exp2();
       return e / e.reduce(Op::Add, 1).reshape(row).broadcast_to(a.shape());
     }},
    {"windows",
     [](UOp a, UOp b) {  // overlapping windows of 2, as a convolution takes them
       const int64_t n = count(a.shape());
       const UOp flat = (a * b).reshape({1, n}).expand({3, n}).reshape({3 * n});
       return flat.shrink({{0, 2 * (n + 1) > 3 * n ? 3 * n : 2 * (n + 1)}}).reduce(Op::Add, 1) * 2.0;
     }},
    {"pad",
     [](UOp a, UOp b) {
       std::vector<std::pair<int64_t, int64_t>> amount(a.shape().size(), {3, 1});
       return pad(a * b, amount);
     }},
};

TEST(GradientAgainstDifferences, EveryOp) {
  Rng rng(7);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    int64_t compared = 0;
    for (int round = 0; round < 4; round++) {
      Graph g;
      Shape shape;
      for (int64_t k = rng.between(1, 3); k-- > 0;) shape.push_back(rng.between(1, 4));
      const int64_t n = count(shape);
      const UOp a = g.buffer(n, DType::F32, 0), b = g.buffer(n, DType::F32, 1);
      const UOp root = c.build(a.reshape(shape), b.reshape(shape));
      const int64_t out = count(root.shape());
      const UOp seed = g.buffer(out, DType::F32, 2).reshape(root.shape());
      const UOp targets[] = {a, b};
      compared +=
          compare(root, seed,
                  {random_input(rng, 0, n, 0.5, 2), random_input(rng, 1, n, 0.5, 2), random_input(rng, 2, out, -1, 1)},
                  targets);
    }
    EXPECT_GT(compared, 0);
  }
}

TEST(GradientAgainstDifferences, SecondDerivativesOfEveryOp) {
  Rng rng(11);
  for (const Case& c : kCases) {
    // Rounding decides which product is the largest: the evaluator does not know the differences.
    if (c.name == std::string("largest") || c.name == std::string("largest of all")) continue;
    SCOPED_TRACE(c.name);
    Graph g;
    const UOp a = g.buffer(6, DType::F32, 0), b = g.buffer(6, DType::F32, 1);
    const UOp root = c.build(a.reshape({2, 3}), b.reshape({2, 3}));
    const UOp targets[] = {a, b};
    const UOp first = gradient(root, root.const_like(0.5), std::span(targets, 1))[0];
    const UOp seed = g.buffer(6, DType::F32, 2);
    const Input x = random_input(rng, 0, 6, 0.5, 2), y = random_input(rng, 1, 6, 0.5, 2);
    EXPECT_GT(compare(first, seed, {x, y, random_input(rng, 2, 6, -1, 1)}, targets), 0);
  }
}

TEST(GradientAgainstDifferences, RandomGraphs) {
  int64_t graphs = 0, compared = 0;
  for (uint64_t number = 0; number < 400; number++) {
    Graph g;
    const Sample sample = random_graph(g, number);
    if (!is_float(sample.root.dtype()) || count(sample.root.shape()) > 64 || toposort(sample.root).size() > 80)
      continue;
    bool skip = false;  // halfs are too coarse; differences see through a detach
    for (UOp u : toposort(sample.root))
      skip |= u.dtype() == DType::F16 || (u.is(Op::Stage) && std::holds_alternative<DetachArg>(u.arg()));
    if (skip) continue;
    SCOPED_TRACE(number);
    std::vector<UOp> targets;
    Rng rng(number);
    std::vector<Input> inputs = sample.inputs;
    int64_t slot = 0;
    for (Input& in : inputs) {
      slot = std::max(slot, in.slot + 1);
      if (in.dtype != DType::F32 || in.size > 24) continue;
      in = random_input(rng, in.slot, in.size, -2, 2);
      for (UOp b : buffers_of(sample.root))
        if (b.arg<ParamArg>().slot == in.slot) targets.push_back(b);
    }
    if (targets.empty()) continue;
    const int64_t out = count(sample.root.shape());
    if (out == 0) continue;
    inputs.push_back(random_input(rng, slot, out, 0.5, 1));
    const UOp seed = g.buffer(out, DType::F32, slot).reshape(sample.root.shape());
    graphs++;
    compared += compare(sample.root, seed, inputs, targets);
  }
  EXPECT_GT(graphs, 30);
  EXPECT_GT(compared, 300);
}

}  // namespace
}  // namespace uopc::diff
