// A program outside the tree: sees nothing but the installed package.
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "uopc/nn.hpp"
#include "uopc/uopc.hpp"

#define CHECK(condition) \
  if (!(condition)) return std::printf("line %d: %s does not hold\n", __LINE__, #condition), 1

int main() {
  CHECK(std::string_view(uopc::version()) == "0.1.0");

  uopc::Graph g;
  const uopc::UOp a = g.buffer(4, uopc::DType::F32, 0), b = g.buffer(4, uopc::DType::F32, 1);
  const uopc::UOp sum = a + b * 2.0;
  CHECK(uopc::render_c_body(uopc::as_program(sum)).starts_with("void kernel("));

  uopc::Engine engine;
  const uopc::Kernel kernel = engine.compile(sum);
  CHECK(kernel.params().size() == 3);
  const std::vector<float> x{1, 2, 3, 4}, y{5, 6, 7, 8};
  std::vector<float> z(4);
  kernel({x, y, z});
  CHECK((z == std::vector<float>{11, 14, 17, 20}));

  // An exception of the library's is caught by its type on this side of the border.
  try {
    kernel({x, y});
    CHECK(!"a call without its output is an error");
  } catch (const uopc::Error& e) {
    CHECK(e.code() == uopc::ErrorCode::Run);
  }

  // Members of every kind are exported: of const, of any, and of passing tensors.
  uopc::Context ctx;
  uopc::nn::Linear layer(ctx, 2, 3);
  uopc::nn::Adam optimizer(uopc::nn::parameters(layer), 0.01);
  const uopc::Tensor input = uopc::Tensor::ones(ctx, {4, 2});
  CHECK(layer(input).shape() == (uopc::Shape{4, 3}));
  CHECK(input.shape().size() == 2 && input.ndim() == 2 && input.size(-1) == 2);
  uopc::Capture step([&](std::span<const uopc::Tensor> in) {
    return std::vector<uopc::Tensor>{optimizer.step(layer(in[0]).square().mean())};
  });
  const float first = step({input})[0].item<float>();
  for (int i = 0; i < 20; i++) step({input});
  CHECK(step({input})[0].item<float>() < first);
}
