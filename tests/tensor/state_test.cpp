// What tensors keep while others of the same memory are assigned, written, computed and replayed: every expectation
// is the value that a program without sharing, caching and capturing would see.
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "error_of.hpp"
#include "tensor/allocations.hpp"
#include "uopc/capture.hpp"
#include "uopc/nn.hpp"
#include "uopc/tensor.hpp"

namespace uopc {
namespace {

using Floats = std::vector<float>;

void write(Tensor& t, Floats v) {
  t.write(std::span<const float>(v));
}

TEST(Assign, OfASharedValueLeavesTheTensorItsMemory) {
  Context ctx;
  Tensor h = Tensor::from(ctx, {1.f, 2.f});
  const void* memory = h.bytes().data();
  const Tensor h2 = h * 2;
  h.assign(h2);
  h2.realize();
  EXPECT_EQ(h.to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(h.bytes().data(), memory);
  write(h, {5, 6});
  EXPECT_EQ(h.to_vector<float>(), (Floats{5, 6}));
  EXPECT_EQ(h2.to_vector<float>(), (Floats{2, 4}));
}

TEST(Assign, ThenTheOtherTensorOfTheValueIsAssigned) {
  Context ctx;
  Tensor h = Tensor::from(ctx, {1.f, 2.f}), h2 = h * 2;
  const void* memory = h.bytes().data();
  h.assign(h2);
  h2.assign(h2 + 1);
  Tensor::realize({h, h2});
  EXPECT_EQ(h.bytes().data(), memory);
  EXPECT_EQ(h.to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(h2.to_vector<float>(), (Floats{3, 5}));
}

TEST(Assign, OfTwoTensorsInOneMemory) {
  Context ctx;
  Tensor a = Tensor::from(ctx, {1.f, 2.f}), c = a.detach();
  c.realize();
  a.assign(a + 1);
  c.assign(c + 2);
  Tensor::realize({a, c});
  EXPECT_EQ(a.to_vector<float>(), (Floats{2, 3}));
  EXPECT_EQ(c.to_vector<float>(), (Floats{3, 4}));
  c = a.detach();
  c.realize();
  write(a, {7, 8});
  EXPECT_EQ(c.to_vector<float>(), (Floats{2, 3}));
}

TEST(Assign, ToANamedViewTwiceAndAfterReadingIt) {
  Context ctx;
  Tensor x = Tensor::from(ctx, {0.f, 1.f, 2.f, 3.f});
  Tensor middle = x.narrow(0, 1, 2);
  middle.assign(Tensor::from(ctx, {5.f, 6.f}));
  middle.assign(middle * 2);
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 10, 12, 3}));
  EXPECT_EQ(middle.to_vector<float>(), (Floats{10, 12}));
  middle.assign(middle + 1);
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 11, 13, 3}));
  Tensor column = x.reshape({2, 2}).T()[1];
  column.realize();
  column.assign(column * -1);
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, -11, 13, -3}));
  write(column, {7, 8});
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 7, 13, 8}));
}

TEST(Shape, OutlivesTheGraphItWasReadFrom) {
  Context ctx;
  Tensor x = Tensor::ones(ctx, {2, 3});
  const Shape& shape = x.shape();
  for (int i = 0; i < 30000; i++) (x + static_cast<double>(i)).sum();
  x.assign(x + 1).realize();
  for (int i = 0; i < 30000; i++) (x + static_cast<double>(i)).sum();
  (x + 1).realize();
  EXPECT_EQ(shape, (Shape{2, 3}));
}

TEST(Gradient, MayBeComputedAfterItsLoss) {
  Context ctx;
  const Tensor x = Tensor::from(ctx, {1.f, 2.f}), w = Tensor::from(ctx, {3.f, 5.f});
  const Tensor y = x * w, loss = (y * y).sum();
  const Tensor g = loss.gradient({x})[0];
  EXPECT_EQ(loss.item<float>(), 109);
  y.realize();
  EXPECT_EQ(g.to_vector<float>(), (Floats{18, 100}));
}

TEST(Gradient, OfAParameterThatIsAssignedBeforeItIsComputed) {
  Context ctx;
  Tensor w = Tensor::from(ctx, {3.f, 5.f});
  const Tensor g = (w * w).sum().gradient({w})[0];
  w.assign(w * 10).realize();
  EXPECT_EQ(g.to_vector<float>(), (Floats{6, 10}));
}

TEST(Gradient, ThroughAComputedValueIsRefusedNotZero) {
  Context ctx;
  const Tensor w = Tensor::from(ctx, {3.f, 5.f}), x = Tensor::from(ctx, {1.f, 2.f});
  const Tensor logits = x * w;
  logits.to_string();
  const Tensor loss = (logits * logits).sum();
  const std::string message =
      "gradient: it leads to target 0 through a tensor of shape (2,) that had been computed before it was used, and "
      "how is not kept; take the gradient before realize or item, or detach the tensor";
  EXPECT_EQ(error_of([&] { loss.gradient({w}); }), message);
  EXPECT_EQ(error_of([&] { (loss + w.sum()).gradient({w}); }), message);
  // Through two of them.
  const Tensor more = (logits + 1).realize();
  EXPECT_EQ(error_of([&] { more.sum().gradient({w}); }), message);
  // Nothing is lost here: detached, not a function of the target, or the target itself.
  EXPECT_EQ((logits.detach() * w).sum().gradient({w})[0].to_vector<float>(), (Floats{3, 10}));
  EXPECT_EQ((logits * x).sum().gradient({Tensor::zeros(ctx, {2})})[0].to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(loss.gradient({logits})[0].to_vector<float>(), (Floats{6, 20}));
  // The memory of w holds a later value, which logits do not depend on.
  Tensor v = Tensor::from(ctx, {1.f, 1.f});
  const Tensor old = (v * 2).realize();
  v.assign(v + 1).realize();
  EXPECT_EQ((old * v).sum().gradient({v})[0].to_vector<float>(), (Floats{2, 2}));
}

TEST(Gradient, ThroughAValueThatWasComputedWhileItsHistoryWasNeeded) {
  Context ctx;
  const Tensor w = Tensor::from(ctx, {3.f, 5.f});
  const Tensor y = w * w;
  const Tensor first = (y * 2).sum();
  y.realize();  // first keeps how it is made
  const Tensor second = (y * 3).sum();
  EXPECT_EQ(first.gradient({w})[0].to_vector<float>(), (Floats{12, 20}));
  EXPECT_EQ(second.gradient({w})[0].to_vector<float>(), (Floats{18, 30}));
}

TEST(History, GoesWhenTheLastThatWasBuiltOnItDies) {
  Context ctx;
  Tensor x = Tensor::ones(ctx, {1000});
  const auto live = [&] { return ctx.stats().live_bytes; };
  x.realize();
  x.bytes();
  const int64_t before = live();
  for (int i = 0; i < 20; i++) {
    Tensor next = x + 1;
    std::optional<Tensor> watcher = next * 2;  // keeps next's history, which is x
    next.realize();
    watcher.reset();
    x = next;
  }
  EXPECT_LE(live(), before + 8192);
  // In a chain: each history is the last user of the one before.
  Tensor y = Tensor::ones(ctx, {1000}).realize();
  std::vector<Tensor> chain{y};
  for (int i = 0; i < 10; i++) chain.push_back(chain.back() + 1);
  Tensor last = chain.back() * 2;
  Tensor::realize(chain);
  y = Tensor();
  const Tensor keep = chain.back();
  chain.clear();
  last = Tensor();
  EXPECT_LE(live(), before + 3 * 4096);
  EXPECT_EQ(keep.to_vector<float>()[7], 11);
}

TEST(History, OfALossThatIsWatchedDoesNotMoveTheParameters) {
  Context ctx;
  Tensor w = Tensor::ones(ctx, {4});
  const void* memory = w.bytes().data();
  for (int i = 0; i < 4; i++) {
    Tensor loss = w.square().sum();
    {
      const Tensor shown = loss * 100;
      shown.item<float>();
    }
    const Tensor g = loss.gradient({w})[0];
    w.assign(w - g * 0.25);
    Tensor::realize({w, loss, g});
    EXPECT_EQ(w.bytes().data(), memory) << i;
  }
}

// ---- Capture --------------------------------------------------------------------------------------------------------

// Runs `f` captured and plainly side by side: each call's results and the state afterwards must be equal.
struct State {
  Context ctx;
  Tensor w = Tensor::from(ctx, {1.f, 2.f}), lr = Tensor::scalar(ctx, 0.5f);
  std::optional<Tensor> kept;
  Tensor input(Floats v) const { return Tensor::from(ctx, std::span<const float>(v), {2}); }
};
using Step = std::function<std::vector<Tensor>(State&, std::span<const Tensor>)>;
// What happens before call i, and its inputs.
using Before = std::function<std::vector<Tensor>(State&, int i, const std::vector<Tensor>& last)>;

void captured_as_plain(const Step& step, const Before& before, int calls = 6) {
  std::vector<std::vector<Floats>> seen[2];
  for (int captured = 0; captured < 2; captured++) {
    State s;
    Capture capture([&](std::span<const Tensor> in) { return step(s, in); });
    std::vector<Tensor> last;
    for (int i = 0; i < calls; i++) {
      const std::vector<Tensor> in = before(s, i, last);
      last = captured ? capture(in) : step(s, in);
      std::vector<Floats> now;
      for (const Tensor& t : last) now.push_back(t.to_vector<float>());
      now.push_back(s.w.to_vector<float>());
      if (s.kept) now.push_back(s.kept->to_vector<float>());
      seen[captured].push_back(std::move(now));
    }
    EXPECT_EQ(capture.recorded(), captured == 1);
  }
  for (int i = 0; i < calls; i++)
    EXPECT_EQ(seen[1][static_cast<size_t>(i)], seen[0][static_cast<size_t>(i)]) << "call " << i;
}

std::vector<Tensor> fresh(State& s, int i, const std::vector<Tensor>&) {
  return {s.input({static_cast<float>(i), 1})};
}

TEST(Capture, NeedNotRealizeWhatItAssigns) {
  captured_as_plain(
      [](State& s, std::span<const Tensor> in) {
        const Tensor y = (s.w * in[0]).sum();
        s.w.assign(s.w + in[0]);
        return std::vector{y};
      },
      fresh);
}

TEST(Capture, ReturnsWhatItAssigned) {
  captured_as_plain(
      [](State& s, std::span<const Tensor> in) {
        const Tensor next = s.w * 0.5 + in[0];
        s.w.assign(next);
        return std::vector{next};
      },
      fresh);
}

TEST(Capture, OfItsOwnResults) {
  captured_as_plain(
      [](State& s, std::span<const Tensor> in) {
        return std::vector{in[0].flip() * 0.5 + s.w, in[0] * 2};
      },
      [](State& s, int i, const std::vector<Tensor>& last) {
        if (last.empty() || i == 3) return std::vector{s.input({3, 4})};
        return std::vector{last[static_cast<size_t>(i % 2)]};
      });
}

TEST(Capture, OfInputsInOneMemory) {
  captured_as_plain([](State&, std::span<const Tensor> in) { return std::vector{in[0] - in[1] * 3}; },
                    [](State& s, int i, const std::vector<Tensor>&) {
                      const Tensor a = s.input({static_cast<float>(i), 2}), b = s.input({1, static_cast<float>(i * i)});
                      if (i < 3) return std::vector{a, a};
                      return std::vector{a, i == 4 ? b : s.w};
                    });
}

TEST(Capture, OfAnInputThatItAlsoReadsAsAnythingElse) {
  captured_as_plain([](State& s, std::span<const Tensor> in) { return std::vector{in[0] + s.w * 10}; },
                    [](State& s, int i, const std::vector<Tensor>&) {
                      return std::vector{i < 3 ? s.w : s.input({static_cast<float>(i), 0})};
                    });
}

TEST(Capture, ThatReturnsItsInput) {
  captured_as_plain(
      [](State&, std::span<const Tensor> in) {
        return std::vector{in[0], in[0].reshape({1, 2}), in[0] + 1};
      },
      fresh);
}

TEST(Capture, ThatAssignsItsInput) {
  captured_as_plain(
      [](State& s, std::span<const Tensor> in) {
        Tensor x = in[0];
        x.assign(x * 2 + s.w);
        return std::vector{x.sum()};
      },
      [](State& s, int i, const std::vector<Tensor>&) {
        if (i % 2) return std::vector{s.w};
        s.kept = s.input({static_cast<float>(i), 1});
        return std::vector{*s.kept};
      });
}

TEST(Capture, LeavesWhatWasBuiltOnTheOldValues) {
  captured_as_plain(
      [](State& s, std::span<const Tensor> in) {
        s.w.assign(s.w + in[0]);
        return std::vector{(s.w * 2).sum()};
      },
      [](State& s, int i, const std::vector<Tensor>& last) {
        if (i == 3) s.kept = s.w * 100;                      // lazy
        if (i == 4) s.kept = s.w.reshape({2, 1}).realize();  // in the same memory
        if (i == 5) s.kept = last[0] + 1;                    // of a result
        return fresh(s, i, last);
      });
}

TEST(Capture, SeesWhatIsWrittenAndAssignedInBetween) {
  captured_as_plain(
      [](State& s, std::span<const Tensor> in) {
        s.w.assign(s.w + in[0] * s.lr);
        return std::vector{(s.w * 2).sum()};
      },
      [](State& s, int i, const std::vector<Tensor>& last) {
        if (i >= 2 && i != 5) s.kept = s.w * 100;  // needs the old value
        if (i == 3) write(s.w, {7, 8});
        if (i == 4) s.w.assign(s.w * 3);
        if (i == 5) s.lr.assign(s.lr * 0.5);
        if (i == 6) s.w.narrow(0, 1, 1).assign(Tensor::full(s.ctx, {1}, 9.0f));
        if (i == 7) nn::load({{"w", s.w}}, {{"w", s.input({3, 2})}});
        if (i == 8) {
          s.kept = s.w;
          s.w.assign(s.w.flip()).realize();
        }
        return fresh(s, i, last);
      },
      10);
}

TEST(Capture, ThatKeepsWhatItMadeOfTheOldValues) {
  std::vector<Tensor> outside;
  captured_as_plain(
      [&](State& s, std::span<const Tensor> in) {
        const Tensor logits = s.w * in[0];  // alive when w changes
        outside = {logits + 1};
        s.w.assign(s.w - logits * 0.1);
        return std::vector{s.w.sum()};
      },
      fresh);
  outside.clear();
}

TEST(Capture, ComputesOnceWhatWasLazyBefore) {
  for (const bool pending : {false, true})
    captured_as_plain(
        [](State& s, std::span<const Tensor> in) {
          s.w.assign(s.w + in[0]);
          return std::vector{s.w + (s.kept ? *s.kept : s.w)};
        },
        [&](State& s, int i, const std::vector<Tensor>& last) {
          if (i == 0) s.kept = s.w * 100;
          if (i == 1 && pending) s.w.assign(s.w * 3);
          return fresh(s, i, last);
        });
}

TEST(Capture, StartsAccumulatorsAnew) {
  captured_as_plain(
      [](State& s, std::span<const Tensor> in) {
        Tensor sum = Tensor::zeros(s.ctx, {2});
        for (int k = 0; k < 3; k++) sum.assign(sum + in[0] * static_cast<double>(k)).realize();
        Tensor copy = in[0].clone();
        copy.assign(copy + sum).realize();
        return std::vector{sum, copy};
      },
      fresh);
}

TEST(Capture, InsideACapture) {
  for (const bool warm : {false, true}) {
    std::shared_ptr<Capture> inner;
    captured_as_plain(
        [&](State& s, std::span<const Tensor> in) {
          const Tensor y = (*inner)(in)[0];
          s.w.assign(s.w + y);
          return std::vector{s.w * 2};
        },
        [&](State& s, int i, const std::vector<Tensor>& last) {
          if (i == 0) {
            inner = std::make_shared<Capture>([](std::span<const Tensor> in) { return std::vector{in[0] * 2 + 1}; });
            for (int k = 0; warm && k < 3; k++) (*inner)({s.input({1, 1})});
          }
          return fresh(s, i, last);
        });
    inner.reset();
  }
}

TEST(Capture, RefusesWhatItCannotReplay) {
  Context ctx;
  Tensor w = Tensor::from(ctx, {1.f, 2.f}) * 2;  // not computed
  Capture lazy([&](std::span<const Tensor>) {
    w.assign(w + 1);
    return std::vector{w};
  });
  std::unique_ptr<Capture> self;
  self = std::make_unique<Capture>([&](std::span<const Tensor> in) { return (*self)(in); });
  EXPECT_EQ(error_of([&] { (*self)({w}); }), "Capture: the captured function calls its own Capture");
  const Tensor x = Tensor::from(ctx, {1.f, 2.f, 3.f});
  Capture in_view([](std::span<const Tensor> in) {
    Tensor t = in[0];
    t.assign(t + 1);
    return std::vector{t.sum()};
  });
  in_view({x.narrow(0, 0, 2)});
  EXPECT_EQ(error_of([&] { in_view({x.narrow(0, 0, 2)}); }),
            "Capture: the captured function assigns input 0, which is a view of another tensor");
}

TEST(Capture, ReplaysWithoutAllocating) {
  Context ctx;
  Tensor w = Tensor::ones(ctx, {64, 64});
  Capture step([&](std::span<const Tensor> in) {
    const Tensor y = in[0].matmul(w).softmax(-1).dropout(0.1);
    w.assign(w - y.mean(0, true) * 0.1);
    return std::vector{y.sum()};
  });
  const TrainingMode training(ctx);
  const Tensor x = Tensor::ones(ctx, {8, 64}), y = Tensor::zeros(ctx, {8, 64});
  for (int i = 0; i < 3; i++) step({x})[0].item<float>();
  y.bytes();
  const Tensor two[] = {x, y};
  const int64_t before = allocations();
  for (int i = 0; i < 100; i++) step(std::span(two + i % 2, 1));
  EXPECT_EQ(allocations(), before);
}

TEST(Capture, OfTrainingEqualsTheLoop) {
  std::vector<float> seen[2];
  for (int captured = 0; captured < 2; captured++) {
    Context ctx;
    nn::Linear a(ctx, 4, 8), b(ctx, 8, 3);
    nn::BatchNorm norm(ctx, 8);
    std::vector<Tensor> all{a.weight, a.bias, b.weight, b.bias, norm.weight, norm.bias};
    nn::Adam opt(all, 1e-2);
    const TrainingMode training(ctx);
    Tensor logits;  // outlives the step
    const auto step = [&](std::span<const Tensor> in) {
      logits = b(norm(a(in[0])).relu().dropout(0.1));
      const Tensor loss = logits.cross_entropy(in[1]);
      opt.step(loss);
      return std::vector{loss};
    };
    Capture capture(step);
    for (int i = 0; i < 8; i++) {
      const Tensor x = Tensor::randn(ctx, {6, 4}), y = Tensor::randint(ctx, {6}, 0, 3);
      Tensor::realize({x, y});
      if (i == 5) opt.set_lr(1e-3);
      seen[captured].push_back((captured ? capture({x, y}) : step(std::vector{x, y}))[0].item<float>());
    }
    for (const Tensor& t : all)
      for (float v : t.to_vector<float>()) seen[captured].push_back(v);
    for (float v : norm.running_var.to_vector<float>()) seen[captured].push_back(v);
  }
  // The plans are cut into kernels in two ways: sums in other orders, a few ulp a step.
  ASSERT_EQ(seen[0].size(), seen[1].size());
  for (size_t i = 0; i < seen[0].size(); i++) EXPECT_NEAR(seen[1][i], seen[0][i], 1e-5) << i;
}

}  // namespace
}  // namespace uopc
