#include "diff/harness.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "uopc/passes.hpp"
#include "uopc/reference.hpp"
#include "uopc/uir.hpp"

namespace uopc::diff {
namespace {

constexpr const char* kStrictFlags =
    "-O1 -fwrapv -fexcess-precision=16 -ffp-contract=off -fno-associative-math -fsigned-zeros -fno-fast-math "
    "-fno-unsafe-math-optimizations -w";
constexpr OpSet kFunctions{Op::Exp2, Op::Log2, Op::Sin};

int64_t count(const Shape& s) {
  return std::accumulate(s.begin(), s.end(), int64_t{1}, std::multiplies<>());
}

bool same(double a, double b) {
  return (a != a && b != b) || (a == b && std::signbit(a) == std::signbit(b));
}

double ulp(double v, DType d) {
  const int digits = d == DType::F16 ? 10 : 23, least = d == DType::F16 ? -14 : -126;
  return std::ldexp(1, (v == 0 ? least : std::max(std::ilogb(v), least)) - digits);
}

// Units of the last place that the function of `op` may be off; rounding an exact result is half of one.
double allowed_ulps(Op op, DType d) {
  if (d == DType::F16) return 1;
  return op == Op::Exp2 ? 1.0 : op == Op::Log2 ? 1.5 : 2.0;
}

// The memory that an address is in.
UOp memory_below(UOp u) {
  while (u.is(Op::Index) || u.is(Op::After) || kMovement.has(u.op())) u = u.src(0);
  return u;
}

std::vector<KernelParam> expected_params(UOp program) {
  std::vector<KernelParam> params;
  for (UOp b : buffers_of(program)) {
    KernelParam p{b.arg<ParamArg>().slot, b.dtype(), b.shape()[0], false, false};
    for (UOp u : toposort(program)) {
      if (u.is(Op::Load) && memory_below(u.src(0)) == b) p.read = true;
      if (u.is(Op::Store) && memory_below(u.src(0)) == b) p.written = true;
    }
    params.push_back(p);
  }
  return params;
}

bool same_params(std::span<const KernelParam> a, std::span<const KernelParam> b) {
  return std::ranges::equal(a, b, [](const KernelParam& x, const KernelParam& y) {
    return x.slot == y.slot && x.dtype == y.dtype && x.size == y.size && x.read == y.read && x.written == y.written;
  });
}

// Refused when it is about to run. The simplifier may find such a divisor in any program.
bool divides_by_constant_zero(UOp program) {
  return std::ranges::any_of(toposort(program),
                             [](UOp u) { return (u.is(Op::FloorDiv) || u.is(Op::FloorMod)) && u.src(1).is_const(0); });
}

Input input_of(int64_t slot, DType d, const std::vector<std::byte>& data) {
  return {slot, d, static_cast<int64_t>(data.size()) / itemsize(d), data};
}

}  // namespace

void Coverage::add(UOp root) {
  programs++;
  for (UOp u : toposort(root)) {
    const auto op = static_cast<int>(u.op()), d = static_cast<int>(u.dtype());
    ops[op]++;
    dtypes[d]++;
    op_dtype[op][d]++;
    ranks[std::min<int64_t>(u.ndim(), 7)]++;
  }
}

// A loop program with its data, and what the interpreter made of it.
struct Net::Unit {
  uint64_t seed;
  std::string label, uir;
  UOp program;
  std::vector<KernelParam> params;
  Contents before, after;
  bool with_c = true;
  // Of a unit that is one EXP2, LOG2 or SIN: the values in double, and how far from them a result may be.
  std::vector<double> function_values;
  double ulps = 0;
};

Net::Net(NetOptions options) : options_(std::move(options)) {
  if (!options_.lower) options_.lower = [](UOp value, UOp out) { return lower(value, out); };
  if (!options_.simplify) options_.simplify = [](UOp program) { return simplify(program); };
  if (!options_.for_back_ends) options_.for_back_ends = [](UOp program) { return program; };
}
Net::~Net() = default;

Engine& Net::engine(uint64_t seed, bool strict) {
  static const char* const kCpus[] = {"", "x86-64", "", "x86-64-v3"};
  static constexpr int kLevels[] = {2, 0, 3, 1};
  auto& engines = strict ? strict_ : fast_;
  engines.resize(4);
  auto& e = engines[seed % 4];
  if (!e) {
    Options o;
    o.strict_float = strict;
    o.threads = 2;
    o.check_bounds = seed % 4 == 1;
    o.cpu = kCpus[seed % 4];
    o.opt_level = kLevels[seed % 4];
    e = std::make_unique<Engine>(o);
  }
  return *e;
}

void Net::report(const Unit& unit, const std::string& what) {
  findings_.push_back({unit.seed, fmt::format("seed {}{}: {}", unit.seed, unit.label, what), unit.uir});
}

Net::Unit Net::unit_of(const Sample& sample, UOp program, const std::string& label) {
  Unit unit{sample.seed, label, to_uir(program), program, expected_params(program), {}, {}, true, {}, 0};
  Rng rng(sample.seed + 77);
  for (const KernelParam& p : unit.params) {
    const auto in = std::ranges::find(sample.inputs, p.slot, &Input::slot);
    unit.before.push_back(in != sample.inputs.end() ? in->data
                                                    : random_data(rng, p.dtype, p.size, {Fill::Kind::Small, 0}));
  }
  return unit;
}

Net::Contents Net::run(const Unit& unit, const std::function<void(std::span<const BufferRef>)>& call) {
  const auto buffers = fence_.place(unit.before, unit.seed % 3 ? Fence::Side::End : Fence::Side::Begin);
  call(buffers);
  return fence_.take();
}

bool Net::interpret_unit(Unit& unit) {
  try {
    unit.after = run(unit, [&](std::span<const BufferRef> b) { interpret(unit.program, b); });
  } catch (const Error& e) {
    report(unit, fmt::format("interpreter: {}: {}", error_name(e.code()), e.what()));
    return false;
  }
  for (size_t i = 0; i < unit.params.size(); i++)
    if (!unit.params[i].written && unit.after[i] != unit.before[i])
      report(unit, fmt::format("interpreter: data{} is not written by the program and changed", unit.params[i].slot));
  return true;
}

void Net::compare(const Unit& unit, const char* back_end, const Contents& got, bool signed_zeros) {
  for (size_t p = 0; p < unit.params.size(); p++) {
    const KernelParam& param = unit.params[p];
    for (int64_t i = 0; i < param.size; i++) {
      const auto at = static_cast<size_t>(i * itemsize(param.dtype));
      const double want = read_element(unit.after[p].data() + at, param.dtype);
      const double have = read_element(got[p].data() + at, param.dtype);
      if (same(want, have) || (!signed_zeros && want == have)) continue;
      if (!unit.function_values.empty() && param.written) {
        const double v = unit.function_values[static_cast<size_t>(i)], one = ulp(v, param.dtype);
        if (std::isfinite(v) && std::isfinite(have) && std::fabs(have - v) <= unit.ulps * one) continue;
        const double top = param.dtype == DType::F16 ? 65504 : 3.4028234663852886e38;
        if (std::isinf(have) && have > 0 && v > top - 2 * ulp(top, param.dtype)) continue;
      }
      report(unit, fmt::format("{}: element {} of data{} is {}, want {}", back_end, i, param.slot, have, want));
      return;
    }
  }
}

void Net::compare_with_exact(const Unit& unit, const Evaluated& truth, int64_t out_slot) {
  for (size_t p = 0; p < unit.params.size(); p++) {
    if (unit.params[p].slot != out_slot) continue;
    for (size_t i = 0; i < truth.elements.size(); i++) {
      const double have =
          read_element(unit.after[p].data() + i * static_cast<size_t>(itemsize(truth.dtype)), truth.dtype);
      if (same(have, truth.elements[i].exact)) continue;
      report(unit, fmt::format("interpreter: element {} of data{} is {}, the graph means {}", i, out_slot, have,
                               truth.elements[i].exact));
      return;
    }
  }
}

void Net::compare_in_bounds(const Unit& unit, const char* back_end, const Contents& got, const Evaluated& truth,
                            int64_t out_slot) {
  for (size_t p = 0; p < unit.params.size(); p++) {
    if (unit.params[p].slot != out_slot) {
      if (got[p] != unit.before[p]) report(unit, fmt::format("{}: data{} was written", back_end, unit.params[p].slot));
      continue;
    }
    for (size_t i = 0; i < truth.elements.size(); i++) {
      const Element& e = truth.elements[i];
      if (!e.known) {
        unknown_elements_++;
        continue;
      }
      fast_elements_++;
      const double have = read_element(got[p].data() + i * static_cast<size_t>(itemsize(truth.dtype)), truth.dtype);
      const double off = std::fabs(have - e.value), most = error_bound(e, truth.dtype);
      if ((have != have && e.value != e.value) || have == e.value || off <= most) continue;
      report(unit, fmt::format("{}: element {} of data{} is {}, want {} within {}", back_end, i, out_slot, have,
                               e.value, most));
      return;
    }
  }
}

// A program that was written as loops has not been simplified yet.
void Net::compare_simplified(const Sample& sample, const Unit& unit) {
  Unit simplified = unit_of(sample, options_.simplify(unit.program), unit.label + " simplified");
  if (!interpret_unit(simplified)) return;
  const Contents got = simplified.after;
  for (size_t p = 0; p < got.size(); p++) {
    const auto original = std::ranges::find(unit.params, simplified.params[p].slot, &KernelParam::slot);
    simplified.after[p] = unit.after[static_cast<size_t>(original - unit.params.begin())];
  }
  compare(simplified, "interpreter", got);
}

void Net::strict_jit(const Unit& unit) {
  if (!options_.jit) return;
  try {
    const Kernel k = engine(unit.seed, true).compile(options_.for_back_ends(unit.program));
    if (!same_params(k.params(), unit.params)) report(unit, "jit strict: params() are wrong");
    compare(unit, "jit strict", run(unit, [&](std::span<const BufferRef> b) { k(b); }));
    runs_of_jit_++;
  } catch (const Error& e) {
    report(unit, fmt::format("jit strict: {}: {}", error_name(e.code()), e.what()));
  }
}

void Net::fast_jit(const Unit& unit, const Evaluated* truth, int64_t out_slot) {
  if (!options_.jit) return;
  try {
    const Kernel k = engine(unit.seed, false).compile(options_.for_back_ends(unit.program));
    const Contents got = run(unit, [&](std::span<const BufferRef> b) { k(b); });
    if (truth) {
      compare_in_bounds(unit, "jit fast", got, *truth, out_slot);
    } else {
      compare(unit, "jit fast", got, false);
    }
    runs_of_jit_++;
  } catch (const Error& e) {
    report(unit, fmt::format("jit fast: {}: {}", error_name(e.code()), e.what()));
  }
}

void Net::check_properties(UOp root, UOp program, const Unit& unit) {
  Graph& graph = root.graph();
  if (parse(graph, to_uir(root)) != root) report(unit, "parse(to_uir(root)) is another graph");
  if (parse(graph, to_uir(program)) != program) report(unit, "parse(to_uir(program)) is another program");
  const UOp once = simplify(program);
  if (simplify(once) != once) report(unit, "simplify is not idempotent");
  if (!same_params(program_params(program), unit.params)) report(unit, "program_params are wrong");
}

void Net::add(std::unique_ptr<Graph> graph, const Sample& sample) {
  graphs_.push_back(std::move(graph));
  try {
    if (sample.root.is(Op::Sink)) {
      add_loops(sample);
    } else {
      add_graph(sample);
    }
  } catch (const Error& e) {
    findings_.push_back({sample.seed, fmt::format("seed {}: {}: {}", sample.seed, error_name(e.code()), e.what()),
                         to_uir(sample.root)});
  }
}

void Net::add_loops(const Sample& sample) {
  Unit unit = unit_of(sample, sample.root, " (loops)");
  check_properties(sample.root, sample.root, unit);
  if (!interpret_unit(unit)) return;
  compare_simplified(sample, unit);
  strict_jit(unit);
  // Sums of small integers are exact in any order, but for those of f16.
  if (std::ranges::none_of(toposort(sample.root), [](UOp u) { return u.dtype() == DType::F16; }))
    fast_jit(unit, nullptr, 0);
  if (options_.c) waiting_.push_back(std::move(unit));
}

void Net::add_graph(const Sample& sample) {
  Graph& graph = sample.root.graph();
  int64_t next_slot = 0;
  for (const Input& in : sample.inputs) next_slot = std::max(next_slot, in.slot + 1);
  std::vector<Input> inputs = sample.inputs;

  const auto lowered = [&](UOp value, int64_t slot, const std::string& label) {
    const UOp out = graph.buffer(std::max<int64_t>(1, count(value.shape())), value.dtype(), slot);
    const Sample part{sample.seed, value, inputs};
    Unit unit = unit_of(part, options_.lower(value, out), label);
    unit.uir = to_uir(value);
    check_properties(value, unit.program, unit);
    return unit;
  };

  // The whole program.
  const bool cut = std::ranges::any_of(toposort(sample.root), [](UOp u) { return kFunctions.has(u.op()); });
  const Evaluated truth = evaluate_doubles(sample.root, inputs);
  const int64_t slot = next_slot++;
  Unit whole = lowered(sample.root, slot, "");
  if (divides_by_constant_zero(whole.program)) return;
  if (!interpret_unit(whole)) return;
  fast_jit(whole, &truth, slot);
  compare_in_bounds(whole, "interpreter", whole.after, truth, slot);
  whole.with_c = !truth.hazards.any();
  if (!cut) {
    if (!truth.hazards.max_order && !options_.any_order) compare_with_exact(whole, truth, slot);
    strict_jit(whole);
    if (options_.c && whole.with_c) waiting_.push_back(std::move(whole));
    return;
  }

  // Its parts. `value` is a part on buffers that hold what the interpreter gave for the parts before it.
  const auto part = [&](UOp value, const std::string& label) {
    const int64_t out = next_slot++;
    Unit unit = lowered(value, out, label);
    const Evaluated exact = evaluate_doubles(value, inputs);
    unit.with_c = !exact.hazards.any();
    if (divides_by_constant_zero(unit.program)) return UOp();
    if (kFunctions.has(value.op())) {
      unit.ulps = allowed_ulps(value.op(), value.dtype());
      for (const Element& e : evaluate_doubles(value.src(0), inputs).elements)
        unit.function_values.push_back(value.is(Op::Exp2)   ? std::exp2(e.exact)
                                       : value.is(Op::Log2) ? std::log2(e.exact)
                                                            : std::sin(e.exact));
    }
    if (!interpret_unit(unit)) return UOp();
    if (options_.any_order) {
      if (!kFunctions.has(value.op())) compare_in_bounds(unit, "interpreter", unit.after, exact, out);
    } else if (!exact.hazards.max_order) {
      compare_with_exact(unit, exact, out);
    }
    strict_jit(unit);
    const auto index =
        static_cast<size_t>(std::ranges::find(unit.params, out, &KernelParam::slot) - unit.params.begin());
    inputs.push_back(input_of(out, value.dtype(), unit.after[index]));
    if (options_.c && unit.with_c) waiting_.push_back(std::move(unit));
    return graph.buffer(inputs.back().size, value.dtype(), out);
  };
  std::vector<std::pair<UOp, UOp>> cuts;  // every function and the BUFFER that has its values
  for (UOp u : toposort(sample.root)) {
    if (!kFunctions.has(u.op()) || count(u.shape()) == 0) continue;
    const UOp argument = part(substitute(u.src(0), cuts), fmt::format(" below {} {}", name(u.op()), cuts.size()));
    if (!argument) return;
    const UOp result =
        part(graph.make(u.op(), {argument.reshape(u.shape())}), fmt::format(" {} {}", name(u.op()), cuts.size()));
    if (!result) return;
    cuts.emplace_back(u, result.reshape(u.shape()));
  }
  part(substitute(sample.root, cuts), " cut");
}

void Net::flush() {
  if (waiting_.empty()) {
    graphs_.clear();
    return;
  }
  std::string source;
  std::vector<Unit> units;
  std::swap(units, waiting_);
  for (size_t i = 0; i < units.size(); i++) {
    const std::string name = fmt::format("k{}", i);
    try {
      const UOp program = options_.for_back_ends(units[i].program);
      const std::string body = render_c_body(program, name);
      if (source.empty()) {
        const std::string whole = render_c(program, name);
        source = whole.substr(0, whole.size() - body.size());
      }
      source += body;
    } catch (const Error& e) {
      report(units[i], fmt::format("C text: {}: {}", error_name(e.code()), e.what()));
      units.erase(units.begin() + static_cast<std::ptrdiff_t>(i--));
      continue;
    }
    source += fmt::format("void call_{}(void* const* b) {{ {}(", name, name);
    for (size_t p = 0; p < units[i].params.size(); p++) source += fmt::format("{}b[{}]", p ? ", " : "", p);
    source += "); }\n";
  }
  try {
    Options o;
    o.cflags = kStrictFlags;
    const Program program = compile_c(source, "k0", o);
    const std::unique_ptr<void, int (*)(void*)> library(dlopen(program.library_path().c_str(), RTLD_NOW | RTLD_LOCAL),
                                                        dlclose);
    if (!library) throw Error(ErrorCode::Compile, dlerror());
    for (size_t i = 0; i < units.size(); i++) {
      using Entry = void (*)(void* const*);
      const auto entry = reinterpret_cast<Entry>(dlsym(library.get(), fmt::format("call_k{}", i).c_str()));
      if (!entry) throw Error(ErrorCode::Compile, fmt::format("call_k{} is missing in the library", i));
      const Contents got = run(units[i], [&](std::span<const BufferRef> b) {
        std::vector<void*> pointers;
        for (const BufferRef& ref : b) pointers.push_back(ref.data);
        entry(pointers.data());
      });
      compare(units[i], "c", got);
      runs_of_c_++;
    }
  } catch (const Error& e) {
    findings_.push_back({units.front().seed,
                         fmt::format("C of seeds {} to {}: {}", units.front().seed, units.back().seed, e.what()), ""});
  }
  graphs_.clear();
}

std::vector<Finding> check(const Sample& sample, const NetOptions& options) {
  auto copy = std::make_unique<Graph>();
  Sample own{sample.seed, copy->import(sample.root), sample.inputs};
  Net net(options);
  net.add(std::move(copy), own);
  net.flush();
  return net.findings();
}

Sample minimise(const Sample& sample, const std::function<bool(const Sample&)>& fails) {
  Graph& graph = sample.root.graph();
  Sample best = sample;
  const auto attempt = [&](UOp root) {
    if (root == best.root) return false;
    Sample s{sample.seed, root, {}};
    for (UOp b : buffers_of(root))
      for (const Input& in : sample.inputs)
        if (in.slot == b.arg<ParamArg>().slot) s.inputs.push_back(in);
    if (!fails(s)) return false;
    best = s;
    return true;
  };
  if (sample.root.is(Op::Sink)) return best;
  for (bool smaller = true; smaller;) {
    smaller = false;
    const auto order = toposort(best.root);
    for (UOp u : order) {  // the smallest part that fails by itself
      if (u != best.root && u.ndim() <= 5 && attempt(u)) {
        smaller = true;
        break;
      }
    }
    if (smaller) continue;
    for (size_t i = order.size(); i-- > 0 && !smaller;) {
      const UOp u = order[i];
      if (u.src().empty()) continue;
      std::vector<UOp> others(u.src().begin(), u.src().end());
      others.push_back(graph.constant(dtypes::convert(Scalar(1), u.dtype()), u.dtype()).broadcast_to(u.shape()));
      for (UOp other : others) {
        if (other == u || other.dtype() != u.dtype() || other.shape() != u.shape()) continue;
        const std::pair<UOp, UOp> pair{u, other};
        if (toposort(substitute(best.root, {&pair, 1})).size() >= order.size()) continue;
        if (attempt(substitute(best.root, {&pair, 1}))) {
          smaller = true;
          break;
        }
      }
    }
  }
  return best;
}

}  // namespace uopc::diff
