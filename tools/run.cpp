#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "commands.hpp"
#include "io.hpp"
#include "uopc/error.hpp"
#include "uopc/npy.hpp"
#include "uopc/passes.hpp"
#include "uopc/reference.hpp"

namespace uopc::tool {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::Run, message);
}

std::string describe(int64_t slot, DType dtype, int64_t size) {
  return fmt::format("BUFFER slot {} ({}, {} element{})", slot, name(dtype), size, size == 1 ? "" : "s");
}

// A program and the way to run it.
class Runner {
 public:
  Runner(UOp root, const Opts& opts, const RunRequest& request) : request_(request) {
    if (request.backend == Backend::Jit) {
      Engine engine(request.options);
      kernel_ = engine.compile(root, opts);
      params_.assign(kernel_->params().begin(), kernel_->params().end());
    } else {
      if (!root.is(Op::Sink)) verify(root, PipelineStage::Graph);
      program_ = as_program(root, opts, LowerForm::Lanes);  // as the JIT's: the same Opts fit in every back end
      params_ = program_params(program_);
    }
  }

  const std::vector<KernelParam>& params() const { return params_; }

  void run(std::span<const BufferRef> buffers) const {
    switch (request_.backend) {
      case Backend::Jit:
        return (*kernel_)(buffers);
      case Backend::C:
        return run_c(program_, buffers, request_.options);
      case Backend::Interpreter:
        return interpret(program_, buffers);
    }
  }

 private:
  const RunRequest& request_;
  std::optional<Kernel> kernel_;
  UOp program_;
  std::vector<KernelParam> params_;
};

using Data = std::vector<std::byte>;

void check_fits(const SlotFile& in, const NpyArray& array, DType dtype, int64_t size) {
  if (array.dtype != dtype)
    fail(fmt::format("--in {}={}: the elements are {}, but it is {}", *in.slot, in.file, numpy_name(array.dtype),
                     describe(*in.slot, dtype, size)));
  if (array.size() != size)
    fail(fmt::format("--in {}={}: {} elements of {} do not fit {}", *in.slot, in.file, array.size(),
                     numpy_name(array.dtype), describe(*in.slot, dtype, size)));
}

std::map<int64_t, Data> read_inputs(const RunRequest& request, UOp root) {
  // Of the graph, not of the program: an input that simplification made needless may still be given.
  std::map<int64_t, UOp> buffers;
  for (UOp u : toposort(root))
    if (u.is(Op::Buffer)) buffers.emplace(u.arg<ParamArg>().slot, u);
  std::map<int64_t, Data> out;
  for (const SlotFile& in : request.inputs) {
    const auto it = buffers.find(*in.slot);
    if (it == buffers.end())
      fail(fmt::format("--in {}={}: the program has no BUFFER slot {}", *in.slot, in.file, *in.slot));
    NpyArray array = read_npy(in.file);
    check_fits(in, array, it->second.dtype(), it->second.shape()[0]);
    out[*in.slot] = std::move(array.data);
  }
  return out;
}

// Which file each written buffer goes to.
std::map<int64_t, std::string> assign_outputs(const RunRequest& request, const std::vector<KernelParam>& params) {
  std::vector<int64_t> written;
  for (const KernelParam& p : params)
    if (p.written) written.push_back(p.slot);
  const auto list = [&] {
    std::string out;
    for (int64_t slot : written) out += fmt::format("{}{}", out.empty() ? "" : ", ", slot);
    return out.empty() ? "none" : out;
  };
  std::map<int64_t, std::string> files;
  for (const SlotFile& out : request.outputs) {
    if (!out.slot && written.size() != 1)
      fail(fmt::format("--out {}: which buffer? Give --out SLOT={} (written: {})", out.file, out.file, list()));
    const int64_t slot = out.slot.value_or(written.empty() ? 0 : written[0]);
    if (std::find(written.begin(), written.end(), slot) == written.end())
      fail(fmt::format("--out {}={}: the program does not write BUFFER slot {} (written: {})", slot, out.file, slot,
                       list()));
    if (!files.emplace(slot, out.file).second) fail(fmt::format("BUFFER slot {} has two --out files", slot));
  }
  return files;
}

}  // namespace

SlotFile parse_slot_file(const std::string& text) {
  int64_t slot = 0;
  const char *begin = text.data(), *end = begin + text.size();
  const auto [at, error] = std::from_chars(begin, end, slot);
  if (error != std::errc() || at == end || *at != '=') return {std::nullopt, text};
  return {slot, std::string(at + 1, end)};
}

std::string run_program(const RunRequest& request) {
  const Opts opts = parse_opts(request.opts);
  Graph graph;
  const UOp root = read_program(graph, request.file);
  std::map<int64_t, Data> inputs = read_inputs(request, root);
  const Runner runner(root, opts, request);
  const std::vector<KernelParam>& params = runner.params();
  const std::map<int64_t, std::string> files = assign_outputs(request, params);

  std::vector<Data> memory;
  std::vector<BufferRef> buffers;
  for (const KernelParam& p : params) {
    if (const auto it = inputs.find(p.slot); it != inputs.end()) {
      memory.push_back(std::move(it->second));
    } else if (p.written) {
      memory.emplace_back(static_cast<size_t>(p.size) * static_cast<size_t>(itemsize(p.dtype)));
    } else {
      fail(
          fmt::format("{} is read and has no value: give --in {}=FILE.npy", describe(p.slot, p.dtype, p.size), p.slot));
    }
  }
  for (Data& data : memory) buffers.emplace_back(data);
  runner.run(buffers);

  std::string text;
  const auto written = std::count_if(params.begin(), params.end(), [](const KernelParam& p) { return p.written; });
  for (size_t i = 0; i < params.size(); i++) {
    const KernelParam& p = params[i];
    if (!p.written) continue;
    // A shaped graph has its shape, of which an empty one fills nothing of the buffer; a loop program has flat buffers.
    const Shape shape = root.is(Op::Sink) ? Shape{p.size} : root.shape();
    BufferRef data = memory[i];
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) data.bytes = 0;
    if (const auto it = files.find(p.slot); it != files.end())
      write_npy(it->second, p.dtype, shape, data);
    else if (files.empty())
      text += (written > 1 ? fmt::format("{}: ", p.slot) : "") + to_string(to_python(p.dtype, shape, data)) + "\n";
  }
  return text;
}

}  // namespace uopc::tool
