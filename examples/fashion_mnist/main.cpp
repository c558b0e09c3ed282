// Trains a net on Fashion-MNIST, tests it, saves it, and draws what it thinks of some images.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/in_a_folder.hpp"
#include "common/progress.hpp"
#include "common/report_errors.hpp"
#include "data.hpp"
#include "draw.hpp"
#include "uopc/uopc.hpp"

namespace {

using uopc::Context;
using uopc::Tensor;
namespace nn = uopc::nn;

// Pixels (N, 784) to a score a class.
struct Mlp {
  nn::Linear hidden, out;
  Mlp(const Context& ctx, int64_t width) : hidden(ctx, kPixels, width), out(ctx, width, kClasses) {}
  Tensor operator()(const Tensor& x) const { return out(hidden(x).relu()); }
  template <class V>
  void visit(V&& v) {
    v("hidden", hidden);
    v("out", out);
  }
};

struct Cnn {
  nn::Conv2d first, second;
  nn::Linear out;
  static constexpr int64_t kPooled = 5;  // 28 - 2, halved, - 2, halved
  Cnn(const Context& ctx, int64_t channels)
      : first(ctx, 1, channels, {3, 3}),
        second(ctx, channels, 2 * channels, {3, 3}),
        out(ctx, 2 * channels * kPooled * kPooled, kClasses) {}
  Tensor operator()(const Tensor& x) const {
    Tensor y = first(x.reshape({-1, 1, kSide, kSide})).relu().max_pool2d();
    y = second(y).relu().max_pool2d();
    return out(y.flatten(1));
  }
  template <class V>
  void visit(V&& v) {
    v("first", first);
    v("second", second);
    v("out", out);
  }
};

struct Settings {
  std::string data = "/usr/share/datasets/fashion-mnist", net = "mlp", save, load;
  int64_t epochs = 1, batch = 128, test_batch = 500, width = 0, predict = 3;
  double lr = 2e-3;
  uint64_t seed = 1;
};

// The share of `images` whose highest score is the label's.
template <class Net>
double accuracy(const Context& ctx, const Net& net, const Images& images, int64_t batch) {
  Tensor x = Tensor::zeros(ctx, {batch, kPixels}), labels = Tensor::zeros(ctx, {batch}, uopc::DType::I32);
  uopc::Capture count(
      [&](std::span<const Tensor> in) { return std::vector<Tensor>{net(in[0]).argmax(-1).eq(in[1]).sum()}; });
  const int64_t batches = images.count() / batch;
  Progress progress("  testing ", batches);
  int64_t right = 0;
  for (int64_t b = 0; b < batches; b++) {
    x.write(std::span(images.pixels).subspan(b * batch * kPixels, batch * kPixels));
    labels.write(std::span(images.labels).subspan(b * batch, batch));
    right += count({x, labels})[0].item<int64_t>();
    progress.update(b + 1, "");
  }
  const double share = static_cast<double>(right) / static_cast<double>(batches * batch);
  progress.finish(fmt::format("accuracy {:.4f}", share));
  return share;
}

void train(const Settings& s, int64_t epoch, Batches& batches, uopc::Capture& step, Tensor& x, Tensor& labels) {
  batches.shuffle();
  Progress progress(fmt::format("  epoch {:2}", epoch + 1), batches.per_epoch());
  double sum = 0;
  std::string words;
  for (int64_t b = 0; b < batches.per_epoch(); b++) {
    batches.get(b);
    x.write(std::span<const float>(batches.pixels));
    labels.write(std::span<const int32_t>(batches.labels));
    sum += step({x, labels})[0].item<double>();
    words = fmt::format("loss {:.4f}  {:.0f} images/s", sum / static_cast<double>(b + 1),
                        static_cast<double>((b + 1) * s.batch) / progress.seconds());
    progress.update(b + 1, words);
  }
  progress.finish(words);
}

template <class Net>
void run(const Context& ctx, Net net, const Settings& s) {
  const Images images = load_images(s.data, "train"), tests = load_images(s.data, "t10k");
  int64_t count = 0;
  for (const Tensor& p : nn::parameters(net)) count += p.numel();
  fmt::print("Fashion-MNIST: {} training and {} test images; {} with {} parameters\n", images.count(), tests.count(),
             s.net, count);
  if (!s.load.empty()) nn::load_state_dict(net, uopc::load_safetensors(ctx, s.load));

  Batches batches(images, s.batch, s.seed);
  nn::Adam optimizer(nn::parameters(net), s.lr);
  Tensor x = Tensor::zeros(ctx, {s.batch, kPixels}), labels = Tensor::zeros(ctx, {s.batch}, uopc::DType::I32);
  uopc::Capture step([&](std::span<const Tensor> in) {
    const uopc::TrainingMode training(ctx);
    Tensor loss = net(in[0]).cross_entropy(in[1]);
    optimizer.step(loss);
    return std::vector<Tensor>{loss};
  });
  for (int64_t epoch = 0; epoch < s.epochs; epoch++) {
    // The steps shrink along half a cosine, down to a tenth.
    const double done = static_cast<double>(epoch) / static_cast<double>(s.epochs);
    optimizer.set_lr(s.lr * (0.1 + 0.45 * (1 + std::cos(done * 3.141592653589793))));
    train(s, epoch, batches, step, x, labels);
  }
  const double share = accuracy(ctx, net, tests, s.test_batch);

  if (!s.save.empty()) {
    uopc::save_safetensors(s.save, nn::state_dict(net), {{"net", s.net}, {"accuracy", fmt::format("{:.4f}", share)}});
    fmt::print("saved as {}\n", s.save);
  }
  fmt::print("\n");
  for (int64_t i = 0; i < std::min(s.predict, tests.count()); i++) {
    const Tensor one = Tensor::from(ctx, tests.image(i), {1, kPixels});
    draw_prediction(tests.image(i), net(one).softmax(-1).template to_vector<float>(), tests.labels[i]);
  }
  fmt::print("test accuracy {:.4f}\n", share);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Trains a net on Fashion-MNIST in this process"};
  Settings s;
  app.add_option("--data", s.data, "folder of the four .gz files")->capture_default_str();
  app.add_option("--net", s.net, "mlp: one hidden layer; cnn: two convolutions")
      ->check(CLI::IsMember({"mlp", "cnn"}))
      ->capture_default_str();
  app.add_option("--width", s.width, "of the hidden layer (128), or channels of the first convolution (8)")
      ->check(CLI::Range(1, 65536));
  app.add_option("--epochs", s.epochs, "passes over the training images; 0 only tests")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  app.add_option("--batch", s.batch, "images a step")->check(CLI::Range(1, 60000))->capture_default_str();
  app.add_option("--lr", s.lr, "size of the first steps")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", s.seed, "of the initial weights and of the order of the images")->capture_default_str();
  app.add_option("--save", s.save, "write the weights into this .safetensors file")->check(in_a_folder());
  app.add_option("--load", s.load, "start with the weights of this .safetensors file")->check(CLI::ExistingFile);
  app.add_option("--predict", s.predict, "test images to draw at the end")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return report_errors([&] {
    Context ctx(uopc::Options::from_env());
    ctx.manual_seed(s.seed);
    if (s.net == "mlp")
      run(ctx, Mlp(ctx, s.width ? s.width : 128), s);
    else
      run(ctx, Cnn(ctx, s.width ? s.width : 8), s);
  });
}
