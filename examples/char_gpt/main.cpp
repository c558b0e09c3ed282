// Trains a small GPT on the characters of a text, and lets it write.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "common/in_a_folder.hpp"
#include "common/progress.hpp"
#include "common/report_errors.hpp"
#include "gpt.hpp"
#include "text.hpp"

namespace {

using uopc::Context;
using uopc::Tensor;
namespace nn = uopc::nn;

struct Settings {
  GptSize size;
  std::string text, save, load, prompt = "In the beginning";
  int64_t batch = 16, steps = 200, test_batches = 8, sample = 200, report = 20;
  double minutes = 0, lr = 1e-3, temperature = 0.8;
  uint64_t seed = 1;
};

// Stretches of `context` characters and the characters that follow each of them.
struct Window {
  std::vector<int32_t> in, out;
};

Window draw(const std::vector<int32_t>& tokens, int64_t batch, int64_t context, std::mt19937_64& random) {
  Window w;
  for (int64_t b = 0; b < batch; b++) {
    const auto begin = tokens.begin() + static_cast<int64_t>(random() % (tokens.size() - static_cast<size_t>(context)));
    w.in.insert(w.in.end(), begin, begin + context);
    w.out.insert(w.out.end(), begin + 1, begin + 1 + context);
  }
  return w;
}

// The learning rate rises over the first steps and falls along half a cosine to a tenth. `done` goes from 0 to 1.
double rate_at(double lr, int64_t step, double done) {
  constexpr double kWarmUp = 50, kPi = 3.141592653589793;
  const double rise = std::min(1.0, static_cast<double>(step + 1) / kWarmUp);
  return lr * rise * (0.1 + 0.45 * (1 + std::cos(kPi * std::min(done, 1.0))));
}

class Trainer {
 public:
  Trainer(const Context& ctx, Gpt& gpt, const Settings& s)
      : ctx_(ctx),
        s_(s),
        in_(Tensor::zeros(ctx, {s.batch, s.size.context}, uopc::DType::I32)),
        out_(Tensor::zeros(ctx, {s.batch, s.size.context}, uopc::DType::I32)),
        optimizer_(nn::parameters(gpt), s.lr, nn::Adam::Settings{.beta2 = 0.99, .weight_decay = 0.01}),
        random_(s.seed),
        step_([&](std::span<const Tensor> x) {
          const uopc::TrainingMode training(ctx_);
          Tensor loss = gpt(x[0]).cross_entropy(x[1]);
          optimizer_.step(loss);
          return std::vector<Tensor>{loss};
        }),
        test_([&](std::span<const Tensor> x) { return std::vector<Tensor>{gpt(x[0]).cross_entropy(x[1])}; }) {}

  double train(const std::vector<int32_t>& tokens, double lr) {
    optimizer_.set_lr(lr);
    return run(step_, tokens);
  }
  double test(const std::vector<int32_t>& tokens) {
    double sum = 0;
    for (int64_t i = 0; i < s_.test_batches; i++) sum += run(test_, tokens);
    return sum / static_cast<double>(s_.test_batches);
  }

 private:
  double run(uopc::Capture& what, const std::vector<int32_t>& tokens) {
    const Window w = draw(tokens, s_.batch, s_.size.context, random_);
    in_.write(std::span(w.in));
    out_.write(std::span(w.out));
    return what({in_, out_})[0].item<double>();
  }

  Context ctx_;
  const Settings& s_;
  Tensor in_, out_;
  nn::AdamW optimizer_;
  std::mt19937_64 random_;
  uopc::Capture step_, test_;
};

void train(const Context& ctx, Gpt& gpt, const Text& text, const Settings& s) {
  // The last twentieth is never trained on.
  const auto cut = text.tokens().begin() + static_cast<int64_t>(text.tokens().size() * 19 / 20);
  const std::vector<int32_t> seen(text.tokens().begin(), cut), unseen(cut, text.tokens().end());
  if (static_cast<int64_t>(unseen.size()) <= s.size.context)
    throw std::runtime_error("the text is too short for a context of " + std::to_string(s.size.context));
  Trainer trainer(ctx, gpt, s);
  fmt::print("\n  {:>7} {:>12} {:>11} {:>11} {:>11}\n", "step", "characters", "nats seen", "unseen", "char/s");
  Progress clock("", s.steps);
  double sum = 0;
  int64_t since = 0;
  for (int64_t step = 0;; step++) {
    const double done =
        s.minutes > 0 ? clock.seconds() / (60 * s.minutes) : static_cast<double>(step) / static_cast<double>(s.steps);
    if (done < 1) {
      sum += trainer.train(seen, rate_at(s.lr, step, done));
      since++;
    }
    if (done < 1 && (step + 1) % s.report != 0) continue;
    if (since > 0) {
      const int64_t characters = (step + (done < 1)) * s.batch * s.size.context;
      fmt::print("  {:>7} {:>12} {:>11.4f} {:>11.4f} {:>11.0f}\n", step + (done < 1), characters,
                 sum / static_cast<double>(since), trainer.test(unseen),
                 static_cast<double>(characters) / clock.seconds());
      std::fflush(stdout);
    }
    sum = 0;
    since = 0;
    if (done >= 1) break;
  }
}

void write(const Context& ctx, const Gpt& gpt, const Text& text, const Settings& s) {
  std::vector<int32_t> tokens = text.encode(s.prompt);
  if (tokens.empty()) tokens.push_back(0);
  std::mt19937_64 random(s.seed);
  Tensor window = Tensor::zeros(ctx, {1, s.size.context}, uopc::DType::I32);
  // What stands behind the last character of a window does not reach it: the net is causal.
  uopc::Capture next(
      [&](std::span<const Tensor> x) { return std::vector<Tensor>{(gpt(x[0]) * (1 / s.temperature)).softmax(-1)}; });
  fmt::print("\n{}", s.prompt);
  for (int64_t i = 0; i < s.sample; i++) {
    const int64_t length = std::min<int64_t>(static_cast<int64_t>(tokens.size()), s.size.context);
    std::vector<int32_t> recent(tokens.end() - length, tokens.end());
    recent.resize(static_cast<size_t>(s.size.context));
    window.write(std::span<const int32_t>(recent));
    const std::vector<float> all = next({window})[0].to_vector<float>();
    const auto probabilities = all.begin() + (length - 1) * text.alphabet();
    std::discrete_distribution<int32_t> choose(probabilities, probabilities + text.alphabet());
    tokens.push_back(choose(random));
    fmt::print("{}", text.character(tokens.back()));
    std::fflush(stdout);
  }
  fmt::print("\n");
}

void run(Settings s) {
  Context ctx(uopc::Options::from_env());
  ctx.manual_seed(s.seed);
  const Text text(s.text.empty() ? bible_text() : read_text(s.text));
  s.size.alphabet = text.alphabet();
  Gpt gpt(ctx, s.size);
  int64_t count = 0;
  for (const Tensor& p : nn::parameters(gpt)) count += p.numel();
  fmt::print("{} characters, {} different; {} layers, {} heads, width {}, context {}: {} parameters\n",
             text.tokens().size(), text.alphabet(), s.size.layers, s.size.heads, s.size.width, s.size.context, count);
  if (!s.load.empty()) nn::load_state_dict(gpt, uopc::load_safetensors(ctx, s.load));
  for (char c : s.prompt)
    if (text.encode({&c, 1}).empty()) throw std::runtime_error(fmt::format("--prompt: the text has no '{}'", c));
  if (s.steps > 0 || s.minutes > 0) train(ctx, gpt, text, s);
  if (!s.save.empty()) {
    uopc::save_safetensors(s.save, nn::state_dict(gpt));
    fmt::print("\nsaved as {}\n", s.save);
  }
  write(ctx, gpt, text, s);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Trains a small GPT on the characters of a text in this process, and lets it write"};
  Settings s;
  const auto number = [&](const char* name, int64_t& to, const char* help, int64_t low, int64_t high) {
    app.add_option(name, to, help)->check(CLI::Range(low, high))->capture_default_str();
  };
  app.add_option("--text", s.text, "a text file; without it the King James Bible of Debian's bible-kjv")
      ->check(CLI::ExistingFile);
  number("--layers", s.size.layers, "blocks", 1, 96);
  number("--heads", s.size.heads, "of each attention; divide the width", 1, 128);
  number("--width", s.size.width, "numbers a character", 1, 16384);
  number("--context", s.size.context, "characters that are seen", 1, 65536);
  app.add_option("--dropout", s.size.dropout, "share of zeros while training")->check(CLI::Range(0.0, 0.99));
  number("--batch", s.batch, "stretches of text a step", 1, 65536);
  number("--steps", s.steps, "steps; 0 only writes", 0, 100000000);
  app.add_option("--minutes", s.minutes, "train this long instead of a number of steps")->check(CLI::NonNegativeNumber);
  number("--report", s.report, "steps between two reports", 1, 1000000);
  app.add_option("--lr", s.lr, "size of the steps")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", s.seed, "of weights, batches and the text that it writes")->capture_default_str();
  app.add_option("--save", s.save, "write the weights into this .safetensors file")->check(in_a_folder());
  app.add_option("--load", s.load, "start with the weights of this .safetensors file")->check(CLI::ExistingFile);
  app.add_option("--prompt", s.prompt, "what the text that it writes begins with")->capture_default_str();
  number("--sample", s.sample, "characters to write", 0, 1000000);
  app.add_option("--temperature", s.temperature, "below 1 it writes what is likelier, above 1 what is rarer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return report_errors([&] { run(s); });
}
