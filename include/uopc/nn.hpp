// Layers, optimizers and saved states, for tensors (tensor.hpp).
//
// A layer is a struct of tensors with `operator()`; its copies have the same tensors, and train together. For a model
// of its own make another one and `load_state_dict` (also from another Context's). What a model is made of it says in a
// template of its own:
//
//   struct Net {
//     nn::Linear first, second;
//     explicit Net(const Context& ctx) : first(ctx, 784, 128), second(ctx, 128, 10) {}
//     Tensor operator()(const Tensor& x) const { return second(first(x).relu()); }
//     template <class V> void visit(V&& v) { v("first", first); v("second", second); }
//   };
//
// `nn::parameters(net)` are the tensors that train, each once; `nn::state_dict(net)` all tensors by name
// ("first.weight"), a tensor in two places (tied weights) by both. Members
// of a visit are tensors, layers, and vectors and optionals of those ("layers.0.weight"). Parameters are realized when
// they are made. Initial values are PyTorch's distributions, from the Context's generator.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "uopc/tensor.hpp"

namespace uopc::nn {

using StateDict = std::vector<std::pair<std::string, Tensor>>;  // in the order of the visits

struct UOPC_API Linear {
  Tensor weight, bias;  // (out, in), (out,) or empty
  Linear() = default;
  Linear(const Context& ctx, int64_t in, int64_t out, bool with_bias = true);
  Tensor operator()(const Tensor& x) const { return x.linear(weight, bias); }
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

struct UOPC_API Conv2d {
  Tensor weight, bias;  // (out, in / groups, height, width), (out,) or empty
  Conv2dOptions options;
  Conv2d() = default;
  Conv2d(const Context& ctx, int64_t in, int64_t out, std::pair<int64_t, int64_t> kernel, Conv2dOptions options = {},
         bool with_bias = true);
  Tensor operator()(const Tensor& x) const { return x.conv2d(weight, bias, options); }
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

struct UOPC_API LayerNorm {
  Tensor weight, bias;  // of the normalized shape, or empty
  int64_t axes = 1;
  double eps = 1e-5;
  LayerNorm() = default;
  LayerNorm(const Context& ctx, Shape shape, double eps = 1e-5, bool affine = true);
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

struct UOPC_API RMSNorm {
  Tensor weight;
  double eps = 1e-6;
  RMSNorm() = default;
  RMSNorm(const Context& ctx, int64_t size, double eps = 1e-6);
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
  }
};

// Over axis 1 of (N, C, ...). In training mode the batch's statistics, and the running ones are moved toward them. That
// is lazy: `optimizer.step(loss, nn::buffers(net))` computes it in the step's plan. Left alone, the next forward
// computes it first, which repeats the last one, and parameters that it was made of cannot change in place meanwhile.
struct UOPC_API BatchNorm {
  Tensor weight, bias;
  Tensor running_mean, running_var;  // saved, not trained
  double eps = 1e-5, momentum = 0.1;
  BatchNorm() = default;
  BatchNorm(const Context& ctx, int64_t channels, double eps = 1e-5, double momentum = 0.1);
  Tensor operator()(const Tensor& x);
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
    v.buffer("running_mean", running_mean);
    v.buffer("running_var", running_var);
  }
};

struct UOPC_API Embedding {
  Tensor weight;  // (count, size)
  Embedding() = default;
  Embedding(const Context& ctx, int64_t count, int64_t size);
  Tensor operator()(const Tensor& index) const { return Tensor::embedding(weight, index); }
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
  }
};

struct UOPC_API Dropout {
  double p = 0.5;
  Tensor operator()(const Tensor& x) const { return x.dropout(p); }
  template <class V>
  void visit(V&&) {}
};

// Self-attention of (B, T, size).
struct UOPC_API MultiHeadAttention {
  Linear query, key, value, out;
  int64_t heads = 1;
  bool causal = false;
  double dropout = 0;
  MultiHeadAttention() = default;
  MultiHeadAttention(const Context& ctx, int64_t size, int64_t heads, bool causal = false, double dropout = 0);
  Tensor operator()(const Tensor& x, const Tensor& mask = {}) const;
  template <class V>
  void visit(V&& v) {
    v("query", query);
    v("key", key);
    v("value", value);
    v("out", out);
  }
};

// ---- optimizers ----------------------------------------------------------------------------------------------------

// Holds the parameters and their statistics; both change in place. `step` differentiates, updates, and realizes the
// loss and everything that changed in one plan. One that was moved from has no parameters: a step is an Error(Type).
class UOPC_API Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(Optimizer&&) noexcept = default;
  // Error(Type) for a loss that depends on none of the parameters. Returns the loss, realized, and realizes `also`
  // along.
  const Tensor& step(const Tensor& loss, std::span<const Tensor> also = {});
  const Tensor& step(const Tensor& loss, std::initializer_list<Tensor> also) {
    return step(loss, std::span(also.begin(), also.size()));
  }
  // One gradient a parameter. Realizes them and `also` first, the parameters in a second plan.
  void step_with(std::span<const Tensor> gradients, std::span<const Tensor> also = {});

  void set_lr(double lr);  // compiles nothing; kept by a Capture
  double lr() const { return lr_; }
  const std::vector<Tensor>& parameters() const { return parameters_; }
  StateDict state_dict() const;  // statistics: "m.0", "v.0", ..; not the learning rate
  void load_state_dict(const StateDict& state);

 protected:
  Optimizer(std::vector<Tensor> parameters, double lr);
  // Assigns every parameter and statistic its next value; realizes nothing.
  virtual void update(std::span<const Tensor> gradients) = 0;
  void add_state(std::string name, Tensor t);

  std::vector<Tensor> parameters_;
  StateDict state_;
  Tensor lr_tensor_;  // shape ()
  double lr_ = 0;

 private:
  void check_parameters() const;
  void update_and_realize(std::vector<Tensor> gradients, std::span<const Tensor> also);
};

class UOPC_API SGD : public Optimizer {
 public:
  struct Settings {
    double momentum = 0, weight_decay = 0;
    bool nesterov = false;
  };
  SGD(std::vector<Tensor> parameters, double lr, Settings settings);
  SGD(std::vector<Tensor> parameters, double lr = 1e-3) : SGD(std::move(parameters), lr, Settings{}) {}

 protected:
  void update(std::span<const Tensor> gradients) override;

 private:
  Settings settings_;
};

// Adam; with `decoupled` weight decay it is AdamW.
class UOPC_API Adam : public Optimizer {
 public:
  struct Settings {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
    bool decoupled = false;
  };
  Adam(std::vector<Tensor> parameters, double lr, Settings settings);
  Adam(std::vector<Tensor> parameters, double lr = 1e-3) : Adam(std::move(parameters), lr, Settings{}) {}

 protected:
  void update(std::span<const Tensor> gradients) override;

 private:
  Settings settings_;
};

class UOPC_API AdamW : public Adam {
 public:
  AdamW(std::vector<Tensor> parameters, double lr = 1e-3, double weight_decay = 0.01)
      : Adam(std::move(parameters), lr, {.weight_decay = weight_decay, .decoupled = true}) {}
  AdamW(std::vector<Tensor> parameters, double lr, Settings settings)
      : Adam(std::move(parameters), lr, (settings.decoupled = true, settings)) {}
};

// ---- states --------------------------------------------------------------------------------------------------------

// The visitor behind `state_dict` and `parameters`.
class UOPC_API Collector {
 public:
  template <class T>
  void operator()(const std::string& name, T& member) {
    add(name, member, true);
  }
  template <class T>
  void buffer(const std::string& name, T& member) {
    add(name, member, false);
  }

  StateDict all;
  std::vector<Tensor> trained, kept;

 private:
  template <class T>
  void add(const std::string& name, T& member, bool trains) {
    const std::string path = prefix_ + name;
    if constexpr (std::is_same_v<std::remove_const_t<T>, Tensor>) {
      if (!member) return;
      all.emplace_back(path, member);
      std::vector<Tensor>& list = trains ? trained : kept;
      for (const Tensor& t : list)
        if (t.impl() == member.impl()) return;  // one tensor in two places (tied weights)
      list.push_back(member);
    } else if constexpr (requires {
                           member.has_value();
                           *member;
                         }) {
      if (member.has_value()) add(name, *member, trains);
    } else if constexpr (requires {
                           member.begin();
                           member.end();
                         }) {
      const std::string outer = std::exchange(prefix_, path + ".");
      int64_t i = 0;
      for (auto& each : member) add(std::to_string(i++), each, trains);
      prefix_ = outer;
    } else {
      const std::string outer = std::exchange(prefix_, path + ".");
      member.visit(*this);
      prefix_ = outer;
    }
  }
  std::string prefix_;
};

template <class Model>
StateDict state_dict(Model& model) {
  Collector c;
  model.visit(c);
  return std::move(c.all);
}
template <class Model>
std::vector<Tensor> parameters(Model& model) {
  Collector c;
  model.visit(c);
  return std::move(c.trained);
}
// What is saved and not trained: the running statistics of BatchNorm.
template <class Model>
std::vector<Tensor> buffers(Model& model) {
  Collector c;
  model.visit(c);
  return std::move(c.kept);
}
// Writes `from` into the tensors of `to` by name. Throws Error(Type) that names what is missing, left over, or of
// another shape or dtype, or of two contents where one tensor has two names; nothing is changed then.
UOPC_API void load(const StateDict& to, const StateDict& from);
template <class Model>
void load_state_dict(Model& model, const StateDict& from) {
  load(state_dict(model), from);
}

}  // namespace uopc::nn
