// Nearest-centroid classification of Fashion-MNIST. The whole computation stands in the .uir programs beside this file;
// here they are compiled, run, timed and compared with the same programs as C text through the system compiler.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>

#include "common/idx_gz.hpp"
#include "common/report_errors.hpp"
#include "uopc/uopc.hpp"

namespace {

constexpr double kFloatTolerance =
    1e-3;  // sums of 60,000 f32 in two orders: far above rounding, far below a wrong index

double milliseconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median_ms(int runs, const std::function<void()>& f) {
  std::vector<double> ms;
  for (int i = 0; i < runs; i++) ms.push_back(milliseconds(f));
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2];
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be opened");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<float> unit_pixels(const IdxArray& images) {
  std::vector<float> out(images.data.size());
  std::transform(images.data.begin(), images.data.end(), out.begin(), [](uint8_t v) { return v / 255.0f; });
  return out;
}

std::vector<int32_t> labels_of(const IdxArray& a) {
  return {a.data.begin(), a.data.end()};
}

struct Totals {
  double jit_compile = 0, jit_run = 0, gcc_compile = 0, gcc_run = 0;
};

// One .uir program, compiled both ways.
class Step {
 public:
  Step(uopc::Engine& engine, const std::string& folder, std::string name, double flops, bool with_gcc)
      : name_(std::move(name)), flops_(flops) {
    uopc::Graph graph;
    const uopc::UOp program = uopc::as_program(uopc::parse(graph, read_file(folder + "/" + name_ + ".uir")));
    jit_compile_ = milliseconds([&] { kernel_.emplace(engine.compile(program, {}, name_)); });
    if (!with_gcc) return;
    const std::string text = uopc::render_c(program, name_);
    gcc_compile_ = milliseconds([&] { gcc_.emplace(uopc::compile_c(text, name_, engine.options())); });
  }

  // Runs on `buffers`, the output last; prints a row; checks that gcc's code gives the same output.
  template <class Out>
  void run(std::vector<uopc::BufferRef> buffers, std::vector<Out>& out, int runs, Totals& totals) {
    buffers.emplace_back(out);
    const double jit = median_ms(runs, [&] { (*kernel_)(buffers); });
    std::printf("  %-15s %9.2f %10.2f %9.2f", name_.c_str(), jit_compile_, jit, flops_ / jit / 1e6);
    totals.jit_compile += jit_compile_;
    totals.jit_run += jit;
    if (gcc_) {
      std::vector<Out> expected(out.size());
      std::vector<void*> pointers;
      for (const auto& b : buffers) pointers.push_back(b.data);
      pointers.back() = expected.data();
      const double gcc = median_ms(runs, [&] { (*gcc_)(pointers); });
      std::printf(" %12.2f %10.2f %9.2f %11.2f", gcc_compile_, gcc, flops_ / gcc / 1e6, gcc / jit);
      totals.gcc_compile += gcc_compile_;
      totals.gcc_run += gcc;
      for (size_t i = 0; i < out.size(); i++)
        if (!(std::abs(static_cast<double>(out[i]) - static_cast<double>(expected[i])) <= kFloatTolerance))
          throw std::runtime_error(name_ + ": the JIT's output differs from gcc's at " + std::to_string(i));
    }
    std::printf("\n");
  }

 private:
  std::string name_;
  double flops_, jit_compile_ = 0, gcc_compile_ = 0;
  std::optional<uopc::Kernel> kernel_;
  std::optional<uopc::Program> gcc_;
};

void classify(const std::string& data, const std::string& programs, int runs, bool with_gcc) {
  const IdxArray train = read_idx_gz(data + "/train-images-idx3-ubyte.gz");
  const IdxArray test = read_idx_gz(data + "/t10k-images-idx3-ubyte.gz");
  if (train.data.size() != 60000 * 784 || test.data.size() != 10000 * 784)
    throw std::runtime_error(data + ": expected 60,000 and 10,000 images of 28 x 28");
  const std::vector<float> images = unit_pixels(train), tests = unit_pixels(test);
  const auto labels = labels_of(read_idx_gz(data + "/train-labels-idx1-ubyte.gz"));
  const auto test_labels = labels_of(read_idx_gz(data + "/t10k-labels-idx1-ubyte.gz"));
  if (labels.size() != 60000 || test_labels.size() != 10000) throw std::runtime_error(data + ": labels do not match");
  std::printf("Fashion-MNIST: 60000 training and 10000 test images\n\n");
  std::printf("  %-15s %9s %10s %9s", "kernel", "compile", "run ms", "GFLOP/s");
  if (with_gcc) std::printf(" %12s %10s %9s %11s", "gcc compile", "run ms", "GFLOP/s", "gcc/JIT run");
  std::printf("\n");

  uopc::Options options = uopc::Options::from_env();
  options.c_cache_dir.clear();  // measure gcc, not its cache
  uopc::Engine engine(options);
  Totals totals;
  std::vector<float> onehot(10 * 60000), pixels(784 * 60000), inverse(10), means(10 * 784), norms(10),
      distances(10000 * 10), accuracy(1);
  std::vector<int32_t> predicted(10000);
  const auto step = [&](const char* name, double flops, std::vector<uopc::BufferRef> inputs, auto& out) {
    Step(engine, programs, name, flops, with_gcc).run(std::move(inputs), out, runs, totals);
  };
  step("onehot", 0, {labels}, onehot);
  step("transpose", 0, {images}, pixels);
  step("inverse_counts", 10.0 * 60000, {onehot}, inverse);
  step("class_means", 2.0 * 10 * 784 * 60000, {onehot, pixels, inverse}, means);
  step("squared_norms", 2.0 * 10 * 784, {means}, norms);
  step("distances", 2.0 * 10000 * 10 * 784, {tests, means, norms}, distances);
  step("argmin", 10000.0 * 10, {distances}, predicted);
  step("accuracy", 10000.0, {predicted, test_labels}, accuracy);

  std::printf("  %-15s %9.2f %10.2f %9s", "all", totals.jit_compile, totals.jit_run, "");
  if (with_gcc)
    std::printf(" %12.2f %10.2f %9s %11.2f", totals.gcc_compile, totals.gcc_run, "", totals.gcc_run / totals.jit_run);
  std::printf("\n\ntest accuracy %.4f\n", accuracy[0]);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Nearest-centroid classifier of Fashion-MNIST, written as .uir programs and compiled in this process"};
  std::string data = "/usr/share/datasets/fashion-mnist", programs = UOPC_EXAMPLE_PROGRAMS;
  int runs = 5;
  bool no_gcc = false;
  app.add_option("--data", data, "folder of the four .gz files")->capture_default_str();
  app.add_option("--programs", programs, "folder of the .uir programs");
  app.add_option("--runs", runs, "timed runs of each kernel, of which the median is printed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--no-gcc", no_gcc, "do not compare with the same programs compiled by the system compiler");
  CLI11_PARSE(app, argc, argv);
  return report_errors([&] { classify(data, programs, runs, !no_gcc); });
}
