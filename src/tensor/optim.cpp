#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ir/py_text.hpp"
#include "uopc/error.hpp"
#include "uopc/nn.hpp"

namespace uopc::nn {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Type, message);
}

void check_range(const char* optimizer, const char* what, double v, double below) {
  if (!(v >= 0 && v < below)) fail(fmt::format("{}: {} is {}, which is not in [0, {})", optimizer, what, v, below));
}

constexpr double kAny = HUGE_VAL;

// What `gradient` gives for a target that it does not come to.
bool is_zero(UOp u) {
  std::vector<UOp> open{u};
  while (!open.empty()) {
    u = open.back();
    open.pop_back();
    const bool passes_on = u.is(Op::Add) || u.is(Op::Expand) || u.is(Op::Reshape) || u.is(Op::Cast);
    if (!passes_on && !(u.is_const() && u.arg<Scalar>().as_float() == 0)) return false;
    if (passes_on) open.insert(open.end(), u.src().begin(), u.src().end());
  }
  return true;
}

}  // namespace

Optimizer::Optimizer(std::vector<Tensor> parameters, double lr) : parameters_(std::move(parameters)), lr_(lr) {
  if (parameters_.empty()) fail("an optimizer without parameters");
  check_range("the optimizer", "lr", lr, kAny);
  for (size_t i = 0; i < parameters_.size(); i++) {
    if (!parameters_[i]) fail(fmt::format("parameter {} is an empty tensor", i));
    if (!is_float(parameters_[i].dtype()))
      fail(fmt::format("parameter {} is {}; floats train", i, uopc::name(parameters_[i].dtype())));
    for (size_t k = 0; k < i; k++)
      if (parameters_[k].impl() == parameters_[i].impl())
        fail(fmt::format("parameters {} and {} are one tensor", k, i));
  }
  Tensor::realize(parameters_);
  lr_tensor_ = Tensor::scalar(parameters_[0].context(), static_cast<float>(lr));
  lr_tensor_.realize();
}

void Optimizer::add_state(std::string name, Tensor t) {
  t.realize();
  state_.emplace_back(std::move(name), std::move(t));
}

void Optimizer::set_lr(double lr) {
  check_range("set_lr", "lr", lr, kAny);
  const auto v = static_cast<float>(lr);
  lr_tensor_.write(std::span(&v, 1));
  lr_ = lr;
}

void Optimizer::check_parameters() const {
  if (parameters_.empty()) fail("step of an optimizer that was moved from");
}

const Tensor& Optimizer::step(const Tensor& loss, std::span<const Tensor> also) {
  check_parameters();
  std::vector<Tensor> with{loss};
  with.insert(with.end(), also.begin(), also.end());
  std::vector<Tensor> gradients = loss.gradient(parameters_);
  if (std::ranges::all_of(gradients, [](const Tensor& g) { return is_zero(g.uop()); }))
    fail("step: the loss depends on none of the optimizer's parameters");
  update_and_realize(std::move(gradients), with);
  return loss;
}

void Optimizer::step_with(std::span<const Tensor> gradients, std::span<const Tensor> also) {
  check_parameters();
  if (gradients.size() != parameters_.size())
    fail(fmt::format("step: {} gradients for {} parameters", gradients.size(), parameters_.size()));
  for (size_t i = 0; i < gradients.size(); i++)
    if (!gradients[i] || gradients[i].shape() != parameters_[i].shape())
      fail(fmt::format("step: the gradient of parameter {} has shape {}, the parameter {}", i,
                       gradients[i] ? py_tuple(gradients[i].shape()) : "of an empty tensor",
                       py_tuple(parameters_[i].shape())));
  // The caller holds them: unrealized, they would need the old parameters after the step.
  std::vector<Tensor> first(gradients.begin(), gradients.end());
  first.insert(first.end(), also.begin(), also.end());
  Tensor::realize(first);
  update_and_realize({gradients.begin(), gradients.end()}, {});
}

// Nothing but the roots of the plan may hold what was made of the old parameters: gradients and cuts are let go before
// it is made, so that parameters change in place.
void Optimizer::update_and_realize(std::vector<Tensor> gradients, std::span<const Tensor> also) {
  // A cut: the parameter and each statistic would else compute the gradient anew.
  for (Tensor& g : gradients)
    if (!g.is_realized()) g = g.detach().contiguous();
  update(gradients);
  gradients.clear();
  std::vector<Tensor> all(also.begin(), also.end());
  all.insert(all.end(), parameters_.begin(), parameters_.end());
  for (const auto& [name, t] : state_) all.push_back(t);
  Tensor::realize(all);
}

StateDict Optimizer::state_dict() const {
  return state_;
}

void Optimizer::load_state_dict(const StateDict& state) {
  load(state_, state);
}

// ---- SGD -----------------------------------------------------------------------------------------------------------

SGD::SGD(std::vector<Tensor> parameters, double lr, Settings s) : Optimizer(std::move(parameters), lr), settings_(s) {
  check_range("SGD", "momentum", s.momentum, kAny);
  check_range("SGD", "weight_decay", s.weight_decay, kAny);
  if (s.nesterov && s.momentum == 0) fail("SGD: nesterov without momentum");
  if (s.momentum == 0) return;
  for (size_t i = 0; i < parameters_.size(); i++) add_state(fmt::format("m.{}", i), parameters_[i].zeros_like());
}

// The velocity starts at 0, which makes it the gradient after the first step, as PyTorch's (without dampening).
void SGD::update(std::span<const Tensor> gradients) {
  for (size_t i = 0; i < parameters_.size(); i++) {
    Tensor& w = parameters_[i];
    Tensor g = gradients[i];
    if (settings_.weight_decay != 0) g = g + w * settings_.weight_decay;
    if (settings_.momentum != 0) {
      Tensor& m = state_[i].second;
      m.assign(m * settings_.momentum + g);
      g = settings_.nesterov ? g + m * settings_.momentum : m;
    }
    w.assign((w - g * lr_tensor_).cast(w.dtype()));
  }
}

// ---- Adam ----------------------------------------------------------------------------------------------------------

// States: "correction1" and "correction2" are 1 - beta1^t and 1 - beta2^t, each made from the last: the power itself,
// near 1, would lose half of a float's digits. Then "m.i" and "v.i".
Adam::Adam(std::vector<Tensor> parameters, double lr, Settings s) : Optimizer(std::move(parameters), lr), settings_(s) {
  check_range("Adam", "beta1", s.beta1, 1);
  check_range("Adam", "beta2", s.beta2, 1);
  check_range("Adam", "eps", s.eps, kAny);
  check_range("Adam", "weight_decay", s.weight_decay, kAny);
  const Context ctx = parameters_[0].context();
  add_state("correction1", Tensor::scalar(ctx, 0.0f));
  add_state("correction2", Tensor::scalar(ctx, 0.0f));
  for (size_t i = 0; i < parameters_.size(); i++) {
    add_state(fmt::format("m.{}", i), Tensor::zeros(ctx, parameters_[i].shape()));
    add_state(fmt::format("v.{}", i), Tensor::zeros(ctx, parameters_[i].shape()));
  }
}

void Adam::update(std::span<const Tensor> gradients) {
  Tensor &correction1 = state_[0].second, &correction2 = state_[1].second;
  correction1.assign(correction1 * settings_.beta1 + (1 - settings_.beta1));
  correction2.assign(correction2 * settings_.beta2 + (1 - settings_.beta2));
  const Tensor rate = lr_tensor_ / correction1, root = correction2.sqrt();
  for (size_t i = 0; i < parameters_.size(); i++) {
    Tensor &w = parameters_[i], &m = state_[2 + 2 * i].second, &v = state_[3 + 2 * i].second;
    Tensor g = gradients[i].to_f32(), from = w.to_f32();
    if (settings_.weight_decay != 0 && !settings_.decoupled) g = g + from * settings_.weight_decay;
    if (settings_.weight_decay != 0 && settings_.decoupled) from = from * (1 - lr_tensor_ * settings_.weight_decay);
    m.assign(m * settings_.beta1 + g * (1 - settings_.beta1));
    v.assign(v * settings_.beta2 + g * g * (1 - settings_.beta2));
    w.assign((from - rate * m / (v.sqrt() / root + settings_.eps)).cast(w.dtype()));
  }
}

}  // namespace uopc::nn
