// The subcommands. Each returns the text for standard output.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "uopc/engine.hpp"

namespace uopc::tool {

enum class Show { Canonical, Type, Value, Plan };
std::string show(const std::string& file, Show what);

enum class Language { C, LlvmIr, Assembly };
struct GenerateRequest {
  std::string file, opts;
  Options options;
  bool prelude = false, lanes = false;
};
std::string generate(const GenerateRequest& request, Language language);

enum class Backend { Jit, C, Interpreter };
// "SLOT=FILE"; a FILE alone has no slot.
struct SlotFile {
  std::optional<int64_t> slot;
  std::string file;
};
SlotFile parse_slot_file(const std::string& text);

struct RunRequest {
  std::string file, opts;
  Options options;
  Backend backend = Backend::Jit;
  std::vector<SlotFile> inputs, outputs;
};
// The arrays that no file of `outputs` takes; nothing when there are `outputs`.
std::string run_program(const RunRequest& request);

}  // namespace uopc::tool
