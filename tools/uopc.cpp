// The command line tool.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>
#include <set>
#include <sstream>

#include "commands.hpp"
#include "io.hpp"
#include "uopc/error.hpp"
#include "uopc/version.hpp"

namespace uopc::tool {
namespace {

constexpr int kFailed = 1, kUsage = 2;

constexpr const char* kFileHelp = "A .uir file, or - for standard input";
constexpr const char* kOptsHelp =
    "How to map a shaped graph onto loops: \"Opts(upcast={0: 2}, thread=0, unroll=4)\"; fields in any order, missing "
    "ones keep their default";

// Everything the command line says.
struct CommandLine {
  GenerateRequest generate;
  RunRequest run;
  std::string file, opts = "Opts()", backend = "jit";
  std::vector<std::string> in, out;
  int threads = 0;
  bool prelude = false, lanes = false, unchecked = false, strict = false;
};

CLI::App* add_command(CLI::App& app, const char* name, const char* description, const char* example) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer(fmt::format("Example:\n  {}", example));
  return command;
}

void add_program(CLI::App* command, CommandLine& line) {
  command->add_option("F", line.file, kFileHelp)->required();
}

void add_code_options(CLI::App* command, CommandLine& line) {
  command->add_option("--opts", line.opts, kOptsHelp)->type_name("S");
  command->add_flag("--unchecked", line.unchecked, "Do not check the indices that bounds analysis cannot prove");
  command->add_flag("--strict-float", line.strict, "Keep the program's order of float operations; fuse none");
}

void declare(CLI::App& app, CommandLine& line) {
  app.set_version_flag("--version", fmt::format("uopc {}", version()), "Print the version and exit");
  app.require_subcommand(1);
  app.footer(
      "Errors go to standard error as \"ParseError: ...\" and the like; the exit status is then 1, and 2 for a wrong "
      "command line.\n'uopc COMMAND --help' shows the options of a command and an example.");

  add_program(add_command(app, "print", "Print a program in canonical form", "uopc print rowsum.uir"), line);
  add_program(add_command(app, "type", "Print the type of a program's value",
                          "uopc type rowsum.uir\n  dtype=f32 shape=(3,) addrspace=ALU"),
              line);
  add_program(add_command(app, "eval", "Print the value of a program that reads no buffer, as Python would",
                          "echo '%0 = add 1, 2' | uopc eval -\n  3"),
              line);

  add_program(
      add_command(app, "plan",
                  "Print the kernels that a graph is cut into: names, the memory each takes (in, tmp, out), C text",
                  "uopc plan softmax.uir"),
      line);
  CLI::App* c = add_command(app, "c", "Print the C text of a program", "uopc c --prelude gemm.uir >gemm.c");
  add_program(c, line);
  c->add_flag("--lanes", line.lanes,
              "The form that the JIT is given: the largest upcast is an innermost loop, and sizes need not divide");
  c->add_flag("--prelude", line.prelude, "Print the #includes and helpers too, so that the text compiles");
  c->add_option("--opts", line.opts, kOptsHelp)->type_name("S");
  for (const auto& [name, what, example] :
       {std::tuple{"llvm", "Print the LLVM IR of a program", "uopc llvm gemm.uir | opt-22 -S -O3"},
        {"asm", "Print the machine code of a program as assembly text", "uopc asm --strict-float gemm.uir"}}) {
    CLI::App* command = add_command(app, name, what, example);
    add_program(command, line);
    add_code_options(command, line);
  }

  CLI::App* run = add_command(app, "run", "Run a program on arrays in .npy files",
                              "uopc run gemm.uir --in 0=a.npy --in 1=b.npy --out c.npy\n"
                              "  uopc run gemm.uir --in 0=a.npy 1=b.npy --backend c --threads 2");
  run->add_option("F", line.file, kFileHelp);  // may have gone to --in, see below
  run->add_option("--in", line.in,
                  "SLOT=FILE.npy: the array that BUFFER SLOT starts with. A buffer that is written and not named here "
                  "starts at 0")
      ->type_name("SLOT=FILE");
  run->add_option("--out", line.out,
                  "[SLOT=]FILE.npy: where a written buffer goes; SLOT may be left out when there is one. Without --out "
                  "the array is printed as a nested Python list, one line a buffer (\"SLOT: \" in front if several)")
      ->type_name("[SLOT=]FILE")
      ->allow_extra_args(false);
  run->add_option("--backend", line.backend, "jit (default), c (the system compiler: CC, CFLAGS, UOPC_CACHE) or interp")
      ->check(CLI::IsMember({"jit", "c", "interp"}))
      ->type_name("NAME");
  run->add_option("--threads", line.threads, "Threads of a THREAD loop; 0: as many as the machine has")
      ->check(CLI::Range(0, 1024))
      ->type_name("N");
  add_code_options(run, line);
}

// "--in 0=a.npy F" and "--in 0=a.npy 1=b.npy" are both good: what has no "SLOT=" is F.
void sort_inputs(CommandLine& line, RunRequest& request) {
  for (const std::string& text : line.in) {
    SlotFile in = parse_slot_file(text);
    if (!in.slot) {
      if (!line.file.empty()) throw CLI::ValidationError("--in", fmt::format("'{}' is not SLOT=FILE.npy", text));
      line.file = in.file;
      continue;
    }
    for (const SlotFile& other : request.inputs)
      if (other.slot == in.slot) throw CLI::ValidationError("--in", fmt::format("slot {} is given twice", *in.slot));
    request.inputs.push_back(std::move(in));
  }
  if (line.file.empty()) throw CLI::RequiredError("F");
  for (const std::string& text : line.out) request.outputs.push_back(parse_slot_file(text));
}

std::string dispatch(const std::string& command, CommandLine& line) {
  if (command == "print") return show(line.file, Show::Canonical);
  if (command == "type") return show(line.file, Show::Type);
  if (command == "eval") return show(line.file, Show::Value);
  if (command == "plan") return show(line.file, Show::Plan);
  Options options = Options::from_env();
  options.check_bounds = !line.unchecked;
  options.strict_float = line.strict;
  options.threads = line.threads;
  if (command == "run") {
    line.run.file = line.file;
    line.run.opts = line.opts;
    line.run.options = options;
    line.run.backend = line.backend == "jit" ? Backend::Jit : line.backend == "c" ? Backend::C : Backend::Interpreter;
    return run_program(line.run);
  }
  const GenerateRequest request{line.file, line.opts, options, line.prelude, line.lanes};
  return generate(request, command == "c" ? Language::C : command == "llvm" ? Language::LlvmIr : Language::Assembly);
}

int complain(const char* kind, const char* what) {
  std::fprintf(stderr, "%s: %s\n", kind, what);
  return kFailed;
}

// Runs `action`; what it throws becomes a line on standard error and an exit status.
template <class Action>
int guarded(Action action) {
  try {
    action();
    return 0;
  } catch (const Error& e) {
    return complain(error_name(e.code()), e.what());
  } catch (const std::bad_alloc&) {
    return complain(error_name(ErrorCode::Run), "out of memory");
  } catch (const std::exception& e) {
    return complain(error_name(ErrorCode::Internal), e.what());
  }
}

int run(int argc, char** argv) {
  CLI::App app("Compiles and runs tensor programs written as .uir", "uopc");
  CommandLine line;
  declare(app, line);
  try {
    app.parse(argc, argv);
    if (app.got_subcommand("run")) sort_inputs(line, line.run);
  } catch (const CLI::ParseError& e) {
    std::ostringstream out, err;
    const bool good = app.exit(e, out, err) == 0;
    // CLI11 would only say that a command is missing.
    if (app.get_subcommands().empty() && !good && app.remaining_size() > 0)
      err.str(fmt::format("no command '{}'\nRun with --help for more information.\n", app.remaining().front()));
    std::fputs(err.str().c_str(), stderr);
    const int status = guarded([&] { write_output(out.str()); });
    return good ? status : kUsage;
  }
  return guarded([&] { write_output(dispatch(app.get_subcommands().front()->get_name(), line)); });
}

}  // namespace
}  // namespace uopc::tool

int main(int argc, char** argv) {
  uopc::tool::occupy_standard_descriptors();
  ::signal(SIGPIPE, SIG_IGN);  // a broken pipe is an error of write()
  return uopc::tool::run(argc, argv);
}
