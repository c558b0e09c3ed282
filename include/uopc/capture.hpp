// Training and inference steps recorded once and replayed.
//
//   uopc::Capture step([&](std::span<const uopc::Tensor> in) {
//     const uopc::Tensor loss = net(in[0]).cross_entropy(in[1]);
//     optimizer.step(loss, parameters);
//     return std::vector{loss};
//   });
//   for (...) float loss = step({x, y})[0].item<float>();
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "uopc/tensor.hpp"

namespace uopc {

// A step that is recorded once and then replayed: the function runs on the first two calls (the first makes what it
// makes only once, the second is recorded), later ones run the recorded kernels on the same memory, build no graph and
// allocate nothing.
//
// A replay changes the tensors that the function assigned, whether it realized them or not, and those returned, which
// the next call overwrites; every other tensor keeps its value, at the cost of computing or copying it first where it
// was built on the old contents. Shapes and dtypes of the inputs stay; the recording run is given copies of them, so
// the function takes its inputs from its argument. What else it reads is that memory with what it holds at the time:
// `write` and `assign` outside are seen. Random numbers are drawn anew. What the host does in the function (`item`,
// `write`, `set_lr`) happens when it runs, not in a replay. Inside another Capture's recording it is part of that.
//
// Layers read the Context's training mode while the function runs; a replay stays with that of the recording.
//
// Errors: Error(Type) for inputs unlike the recorded ones, and for an assigned input that is a view; Error(Run) while
// recording for an assigned tensor that was not computed before, and always for a Capture that was moved from.
class UOPC_API Capture {
 public:
  using Function = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;
  explicit Capture(Function function);
  ~Capture();
  Capture(Capture&&) noexcept;
  Capture& operator=(Capture&&) noexcept;
  const std::vector<Tensor>& operator()(std::span<const Tensor> inputs);
  const std::vector<Tensor>& operator()(std::initializer_list<Tensor> inputs) {
    return (*this)(std::span(inputs.begin(), inputs.size()));
  }
  bool recorded() const;
  int64_t kernels() const;  // of one replay

 private:
  struct Impl;
  Impl& impl() const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace uopc
