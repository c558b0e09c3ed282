// Plans of Tensor expressions in the interpreter, as C text through the system compiler, and by the JIT.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "tensor/context_impl.hpp"
#include "tensor/random_floats.hpp"
#include "uopc/reference.hpp"

namespace uopc {
namespace {

using Memory = std::vector<std::vector<std::byte>>;
enum class By { Interpreter, C };

std::vector<std::byte> bytes(const PlanBuffer& b) {
  return std::vector<std::byte>(static_cast<size_t>(b.size * itemsize(b.dtype)));
}

// The one output of a plan whose inputs are memory of `ctx`.
std::vector<float> run(const Context& ctx, const PlanAndInputs& p, By by, const Options& options) {
  std::map<int64_t, std::shared_ptr<Buffer>> by_slot;
  for (Value* v = ctx.impl()->values; v; v = v->next)
    if (v->buffer) by_slot[v->buffer->slot] = v->buffer;
  Memory temps, outs;
  for (const PlanBuffer& b : p.plan.temps) temps.push_back(bytes(b));
  for (const PlanBuffer& b : p.plan.outs) outs.push_back(bytes(b));
  for (const PlanKernel& k : p.plan.kernels) {
    std::vector<BufferRef> refs;
    for (const PlanRef& r : k.refs) {
      const auto i = static_cast<size_t>(r.index);
      if (r.kind == PlanRef::Kind::In) {
        Buffer& b = *by_slot.at(p.inputs[i].arg<ParamArg>().slot);
        refs.emplace_back(b.data(), b.bytes());
      } else {
        auto& m = r.kind == PlanRef::Kind::Tmp ? temps[i] : outs[i];
        refs.emplace_back(m.data(), m.size());
      }
    }
    if (by == By::C)
      run_c(k.program, refs, options);
    else
      interpret(k.program, refs);
  }
  std::vector<float> out(outs.at(0).size() / sizeof(float));
  std::memcpy(out.data(), outs[0].data(), outs[0].size());
  return out;
}

Tensor random(const Context& ctx, Shape shape, uint64_t seed) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  const std::vector<float> v = random_floats(static_cast<size_t>(n), seed);
  return Tensor::from(ctx, std::span<const float>(v), std::move(shape));
}

// Sums of at most a few hundred terms near 1 in another order: 1e-5 of the largest.
void expect_agreement(const Context& ctx, const char* what, const Tensor& t) {
  SCOPED_TRACE(what);
  for (int opt : {0, 1}) {
    const PlanResult r{t.uop(), {}};
    const PlanAndInputs p = make_plan(std::span(&r, 1), {opt});
    const std::vector<float> a = run(ctx, p, By::Interpreter, ctx.options()), c = run(ctx, p, By::C, ctx.options());
    const std::vector<float> jit = t.clone().to_vector<float>();
    double largest = 1;
    for (float v : a) largest = std::max<double>(largest, std::abs(v));
    ASSERT_EQ(a.size(), jit.size());
    for (size_t i = 0; i < a.size(); i++) {
      ASSERT_NEAR(a[i], c[i], 1e-5 * largest) << i << " at opt " << opt;
      ASSERT_NEAR(a[i], jit[i], 1e-5 * largest) << i << " at opt " << opt;
    }
  }
}

TEST(Backends, AgreeOnPlans) {
  Context ctx;
  const Tensor x = random(ctx, {3, 7}, 1), w = random(ctx, {5, 7}, 2), image = random(ctx, {2, 2, 7, 6}, 3),
               k = random(ctx, {3, 2, 3, 3}, 4), labels = Tensor::from(ctx, {1, 4, 0});
  expect_agreement(ctx, "softmax", x.softmax(0));
  expect_agreement(ctx, "layer norm", x.layer_norm());
  expect_agreement(ctx, "flip", x.flip(1).cumsum(0));
  const Tensor loss = x.linear(w).gelu().cross_entropy(labels);
  expect_agreement(ctx, "loss", loss);
  expect_agreement(ctx, "gradient of a weight", loss.gradient({w})[0]);
  const Tensor pooled = image.conv2d(k, {}, {{1, 1}, {1, 1}, {1, 1}, 1}).relu().max_pool2d();
  expect_agreement(ctx, "convolution", pooled);
  expect_agreement(ctx, "gradient of a kernel", pooled.square().sum().gradient({k})[0]);
  expect_agreement(ctx, "gradient of an image", pooled.square().sum().gradient({image})[0]);
  const Tensor q = x.reshape({3, 7});
  expect_agreement(ctx, "attention", Tensor::scaled_dot_product_attention(q, q * 2, q, {}, true));
  expect_agreement(ctx, "random numbers", Tensor::randn(ctx, {50}));
  expect_agreement(ctx, "lookup", Tensor::embedding(w, labels));
}

}  // namespace
}  // namespace uopc
