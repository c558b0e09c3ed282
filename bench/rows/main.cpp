// Every row by every contestant, in one run: a table, and summary.json.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "contestant.hpp"

namespace rows {
namespace {

using nlohmann::json;

// The environment of a contestant with that many threads, each at its best: no fresh pages for each result, the core
// type chosen by the library, and in PyTorch, which has OpenMP's threads and OpenBLAS's own, none that spin.
std::vector<std::string> environment(int threads, bool passive) {
  static const std::vector<std::string> kUnset = {"OMP_", "KMP_", "GOMP_", "OPENBLAS_", "MALLOC_"};
  std::vector<std::string> all;
  for (char** e = environ; *e; e++)
    if (std::ranges::none_of(kUnset, [&](const std::string& p) { return std::string_view(*e).starts_with(p); }))
      all.emplace_back(*e);
  all.push_back(fmt::format("OMP_NUM_THREADS={}", threads));
  all.push_back(fmt::format("OPENBLAS_NUM_THREADS={}", threads));
  for (const char* e : {"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=34359738368", "MALLOC_TOP_PAD_=268435456"})
    all.emplace_back(e);
  if (passive) all.emplace_back("OMP_WAIT_POLICY=passive");
  return all;
}

// What a process writes to its standard output; nothing where it fails or takes more than two minutes.
std::optional<std::string> output_of(std::vector<std::string> command, int threads, bool passive = false) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  std::vector<std::string> values = environment(threads, passive);
  std::vector<char*> arguments, variables;
  for (std::string& s : command) arguments.push_back(s.data());
  for (std::string& s : values) variables.push_back(s.data());
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  bool late = false;
  while (!failed) {
    pollfd ready{ends[0], POLLIN, 0};
    char part[4096];
    late = poll(&ready, 1, 120'000) == 0;
    const ssize_t n = late ? 0 : read(ends[0], part, sizeof part);
    if (n <= 0) break;
    text.append(part, static_cast<size_t>(n));
  }
  close(ends[0]);
  if (failed) return {};
  if (late) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (late || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return {};
  return text;
}

struct Measured {
  std::vector<double> seconds;
  json sample;
  double median() const {
    std::vector<double> v = seconds;
    std::ranges::nth_element(v, v.begin() + static_cast<int64_t>(v.size() / 2));
    return v[v.size() / 2];
  }
};

struct Runner {
  std::string self, torch;  // the script, or empty

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Contestant& c : contestants())
      if (c.name != "limit") all.push_back(c.name);
    if (!torch.empty()) all.emplace_back("PyTorch");
    return all;
  }
  std::vector<std::string> command(const std::string& who, const Row& row, int threads) const {
    if (who != "PyTorch") return {self, "--as", who, "--row", row.name, "--threads", std::to_string(threads)};
    std::vector<std::string> c = {"/usr/bin/python3", torch,
                                  row.kind == Kind::Attention ? "attention"
                                  : row.kind == Kind::MlpStep ? "mlp"
                                                              : "none",
                                  std::to_string(threads)};
    for (int64_t d : row.dims) c.push_back(std::to_string(d));
    return c;
  }
  bool measure(const std::string& who, const Row& row, int threads, Measured& into) const {
    const auto text = output_of(command(who, row, threads), threads, who == "PyTorch");
    if (!text || text->empty()) return false;
    const json line = json::parse(*text, nullptr, false);
    if (line.is_discarded() || !line.contains("seconds")) return false;
    for (double s : line["seconds"]) into.seconds.push_back(s);
    into.sample = line["sample"];
    return true;
  }
};

// The largest difference of two samples over the largest value: sums are taken in different orders.
double difference(const json& a, const json& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0, scale = 1e-30;
  for (size_t i = 0; i < a.size(); i++) {
    if (!a[i].is_number() || !b[i].is_number()) return INFINITY;
    most = std::max(most, std::abs(a[i].get<double>() - b[i].get<double>()));
    scale = std::max(scale, std::abs(b[i].get<double>()));
  }
  return most / scale;
}

// Peers that hand a different answer are no peers: sums of up to 2^24 floats in any order agree within this.
constexpr double kAgree = 2e-3;

using Limits = std::map<std::pair<Bound, int>, double>;  // work a second, by the threads

Limits measure_limits(const Runner& runner, json& report) {
  Limits limits;
  for (const Row& row : limit_rows())
    for (int threads : row.threads) {
      Measured m;
      if (!runner.measure("limit", row, threads, m)) continue;
      const double speed = row.work / m.median();
      limits[{row.bound, threads}] = speed;
      report[fmt::format("{}, {} threads", row.name, threads)] = speed / 1e9;
      fmt::print("{:<12} {} thread{}  {:7.1f} G{}/s\n", row.name, threads, threads == 1 ? " " : "s", speed / 1e9,
                 row.bound == Bound::Flops ? "FLOP" : "B");
    }
  return limits;
}

// By everybody who computes the row.
std::map<std::string, Measured> measure_row(const Runner& runner, const Row& row, int threads) {
  constexpr int kRounds = 2;  // in turn, so that a slow minute of the machine meets everybody
  std::map<std::string, Measured> all;
  for (const std::string& who : runner.names()) {
    Measured m;
    if (runner.measure(who, row, threads, m)) all.emplace(who, std::move(m));
  }
  for (int round = 1; round < kRounds; round++)
    for (auto& [who, m] : all) runner.measure(who, row, threads, m);
  return all;
}

// The row's line of summary.json. A peer that computes something else is named, and makes `wrong` true.
json compare(const Row& row, int threads, const std::map<std::string, Measured>& all, const Limits& limits,
             bool& wrong) {
  const Measured& own = all.at("uopc");
  const double ours = own.median();
  const bool absolute = row.bound == Bound::Latency && row.work > 0;
  std::string best = absolute ? "goal" : "";
  double peer = absolute ? row.work : INFINITY;
  json peers = json::object();
  for (const auto& [who, m] : all) {
    if (who == "uopc") continue;
    peers[who] = m.median();
    const bool compared = !own.sample.empty() && !m.sample.empty();
    if (const double off = compared ? difference(own.sample, m.sample) : 0; off > kAgree) {
      fmt::print("{}: {} differs from uopc by {:.1e}\n", row.name, who, off);
      wrong = true;
    } else if (m.median() < peer) {
      std::tie(peer, best) = std::pair(m.median(), who);
    }
  }
  json line = {{"row", row.name}, {"threads", threads}, {"ours", ours},     {"peer", nullptr},
               {"name", best},    {"ratio", nullptr},   {"goal", row.goal}, {"fraction_of_limit", nullptr},
               {"peers", peers}};
  if (!best.empty()) {
    line["peer"] = peer;
    line["ratio"] = peer / ours;
  }
  if (row.bound != Bound::Latency && limits.contains({row.bound, threads}))
    line["fraction_of_limit"] = row.work / ours / limits.at({row.bound, threads});
  return line;
}

void print_line(const json& line) {
  const auto number = [&](const char* key, double scale, const char* unit) {
    return line[key].is_null() ? "-" : fmt::format("{:.2f}{}", line[key].get<double>() * scale, unit);
  };
  fmt::print("{:<36} {:>2} {:>11} {:>11}  {:<12} {:>6} {:>5} {:>9}\n", line["row"].get<std::string>(),
             line["threads"].get<int>(), number("ours", 1e6, " us"), number("peer", 1e6, " us"),
             line["name"].get<std::string>(), number("ratio", 1, ""), line["goal"].get<double>(),
             number("fraction_of_limit", 1, ""));
  std::fflush(stdout);
}

int run_table(const Runner& runner, const std::string& filter, const std::string& summary) {
  json report = {{"limits", json::object()}, {"rows", json::array()}};
  const Limits limits = measure_limits(runner, report["limits"]);
  fmt::print("\n{:<36} {:>2} {:>11} {:>11}  {:<12} {:>6} {:>5} {:>9}\n", "row", "t", "ours", "peer", "best peer",
             "ratio", "goal", "of limit");
  bool wrong = false;
  for (const Row& row : all_rows()) {
    if (row.name.find(filter) == std::string::npos) continue;
    for (int threads : row.threads) {
      const auto all = measure_row(runner, row, threads);
      if (!all.contains("uopc")) {
        fmt::print("{:<36} {:>2} failed\n", row.name, threads);
        wrong = true;
        continue;
      }
      report["rows"].push_back(compare(row, threads, all, limits, wrong));
      print_line(report["rows"].back());
      std::ofstream(summary) << report.dump(2) << '\n';
    }
  }
  return wrong ? 1 : 0;
}

int run_one(const std::string& who, const std::string& name, int threads) {
  const Row* row = find_row(name);
  for (const Contestant& c : contestants()) {
    if (!row || c.name != who) continue;
    auto work = c.make(*row, threads);
    if (!work) return 3;
    measure(*row, *work);
    return 0;
  }
  return 2;
}

}  // namespace
}  // namespace rows

int main(int argc, char** argv) try {
  CLI::App app("uopc beside the libraries that would be called instead, in one run on the same data.");
  std::string filter, summary = "summary.json", who, row, torch = UOPC_BENCH_TORCH;
  int threads = 1;
  app.add_option("filter", filter, "only rows whose name has this in it");
  app.add_option("--summary", summary, "where the JSON goes")->capture_default_str();
  app.add_option("--as", who, "measure one contestant alone")->group("");
  app.add_option("--row", row)->group("");
  app.add_option("--threads", threads)->group("");
  CLI11_PARSE(app, argc, argv);
  if (!who.empty()) return rows::run_one(who, row, threads);
  if (!rows::output_of({"/usr/bin/python3", "-c", "import torch"}, 1)) torch.clear();
  return rows::run_table({"/proc/self/exe", torch}, filter, summary);
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
