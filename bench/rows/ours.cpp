// The rows as a user of uopc writes them: tensors, replayed from a Capture.
#include <memory>

#include "contestant.hpp"
#include "small_kernel.hpp"
#include "uopc/uopc.hpp"

namespace rows {
namespace {

using uopc::Shape;
using uopc::Tensor;
using Inputs = std::span<const Tensor>;

struct Operands {
  const Row& row;
  uopc::Context ctx;
  std::vector<Tensor> made;
  void add(const Shape& shape) {
    size_t count = 1;
    for (int64_t d : shape) count *= static_cast<size_t>(d);
    const std::vector<float> data = operand(row, count, static_cast<uint32_t>(made.size()) + 1);
    made.push_back(Tensor::from(ctx, data, shape));
    made.back().realize();
  }
};

Work captured(const Operands& operands, const std::function<Tensor(Inputs)>& f) {
  auto capture = std::make_shared<uopc::Capture>([f](Inputs in) { return std::vector<Tensor>{f(in)}; });
  const std::vector<Tensor> in = operands.made;
  return {[=] { (*capture)(in); }, [=] { return (*capture)(in)[0].to_vector<float>(); }};
}

Work mlp_step(const Row& row, Operands& operands) {
  struct Net {
    std::vector<Tensor> parameters;
    std::optional<uopc::nn::AdamW> optimizer;
  };
  const int64_t batch = row.dims[0];
  operands.add({batch, 784});
  const int64_t sizes[] = {784, 512, 512, 10};
  for (int layer = 0; layer < 3; layer++) {
    operands.add({sizes[layer + 1], sizes[layer]});
    operands.add({sizes[layer + 1]});
  }
  auto net = std::make_shared<Net>();
  for (size_t i = 1; i < operands.made.size(); i++) net->parameters.push_back((operands.made[i] * 0.1).clone());
  Tensor::realize(net->parameters);
  net->optimizer.emplace(net->parameters, 1e-3);
  const Tensor labels = Tensor::arange(operands.ctx, batch).mod(10);
  operands.made.resize(1);
  operands.made.push_back(labels);
  Tensor::realize(std::span(operands.made));
  Work work = captured(operands, [net](Inputs in) {
    Tensor x = in[0];
    for (size_t layer = 0; layer < 3; layer++) {
      x = x.linear(net->parameters[2 * layer], net->parameters[2 * layer + 1]);
      if (layer < 2) x = x.relu();
    }
    return net->optimizer->step(x.cross_entropy(in[1]));
  });
  work.output = nullptr;  // the loss at the end depends on the number of steps
  return work;
}

Work compile_kernel() {
  struct State {
    uopc::Engine engine;
    int64_t variant = 0;
  };
  auto state = std::make_shared<State>();
  return {[=] {
            uopc::Graph g;
            state->engine.compile(small_kernel(g, state->variant++)).entry();
          },
          {}};
}

Work call_kernel() {
  struct State {
    uopc::Graph graph;
    uopc::Engine engine;
    uopc::Kernel kernel = engine.compile(graph.buffer(1, uopc::DType::F32, 0) * 2.0);
    float x = 1, y = 0;
  };
  auto state = std::make_shared<State>();
  return {[=] {
            state->kernel({uopc::BufferRef(&state->x, sizeof(float)), uopc::BufferRef(&state->y, sizeof(float))});
          },
          {}};
}

}  // namespace

std::optional<Work> make_uopc(const Row& row, int threads) {
  uopc::Options options;
  options.threads = threads;
  Operands on{row, uopc::Context(options), {}};
  const std::vector<int64_t>& d = row.dims;
  switch (row.kind) {
    case Kind::Gemm:
      on.add(d[0] == 1 ? Shape{d[1], d[3]} : Shape{d[0], d[1], d[3]});
      on.add(d[0] == 1 ? Shape{d[3], d[2]} : Shape{d[0], d[3], d[2]});
      return captured(on, [](Inputs in) { return in[0].matmul(in[1]); });
    case Kind::GemmGelu:
      on.add({d[1], d[3]});
      on.add({d[3], d[2]});
      on.add({d[2]});
      return captured(on, [](Inputs in) { return (in[0].matmul(in[1]) + in[2]).gelu(); });
    case Kind::Gemv:
      on.add({d[0], d[1]});
      on.add({d[1]});
      return captured(on, [](Inputs in) { return in[0].matmul(in[1]); });
    case Kind::Conv:
      on.add({d[0], d[1], d[2], d[2]});
      on.add({d[3], d[1], 3, 3});
      return captured(on, [](Inputs in) { return in[0].conv2d(in[1], {}, {.padding = {1, 1}}); });
    case Kind::Chain:
      for (int i = 0; i < 3; i++) on.add({d[0]});
      return captured(on, [](Inputs in) { return (in[0] * in[1] + in[2]) * in[0].sigmoid(); });
    case Kind::Sum:
      on.add({d[0]});
      return captured(on, [](Inputs in) { return in[0].sum(); });
    case Kind::Softmax:
      on.add({d[0], d[1]});
      return captured(on, [](Inputs in) { return in[0].softmax(); });
    case Kind::LayerNorm:
      on.add({d[0], d[1]});
      return captured(on, [](Inputs in) { return in[0].layer_norm(); });
    case Kind::Transpose:
      on.add({d[0], d[1]});
      return captured(on, [](Inputs in) { return in[0].T().contiguous(); });
    case Kind::Exp:
      on.add({d[0]});
      return captured(on, [](Inputs in) { return in[0].exp(); });
    case Kind::Log:
      on.add({d[0]});
      return captured(on, [](Inputs in) { return in[0].log(); });
    case Kind::Sin:
      on.add({d[0]});
      return captured(on, [](Inputs in) { return in[0].sin(); });
    case Kind::Attention:
      for (int i = 0; i < 3; i++) on.add(d);
      return captured(
          on, [](Inputs in) { return Tensor::scaled_dot_product_attention(in[0], in[1], in[2], {}, /*causal=*/true); });
    case Kind::MlpStep:
      return mlp_step(row, on);
    case Kind::Compile:
      return compile_kernel();
    case Kind::Call:
      return call_kernel();
    case Kind::Replay:
      on.add({3, 4});
      return captured(on, [](Inputs in) { return in[0].softmax(); });
    default:
      return {};
  }
}

}  // namespace rows
