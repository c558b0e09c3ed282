// How a kernel is mapped onto the machine (A.7; `docs/opts.md`). Which Opts fit depends on the value's shape: `lower`
// throws Error(Type) for others. `gpu` and `local` are an Error(NotImplemented) yet.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "uopc/export.hpp"

namespace uopc {

struct Opts {
  std::map<int64_t, int64_t> upcast;  // output axis -> unroll factor
  std::optional<int64_t> thread;      // output axis run in parallel
  int64_t unroll = 1;                 // of the innermost reduce axis
  std::map<int64_t, int64_t> tile;    // output axis -> cache block size
  bool gpu = false;                   // output axes become GLOBAL ranges
  std::map<int64_t, int64_t> local;   // output axis -> threads of a block on it
  friend bool operator==(const Opts&, const Opts&) = default;
};

// What the choice of Opts knows of the machine.
struct Machine {
  int64_t lanes = 4;       // f32 in a vector register
  int64_t registers = 16;  // vector registers
  int64_t threads = 1;
  int64_t cache = 1 << 20;  // bytes of a core's own second level

  // What one row of a register tile holds.
  int64_t tile_lanes() const { return lanes * (registers >= 32 ? 4 : 2); }
  friend bool operator==(const Machine&, const Machine&) = default;
};

// "Opts(upcast={0: 2}, thread=0, unroll=4, tile={}, gpu=False, local={})"
UOPC_API std::string to_string(const Opts& opts);

// Reads that text; fields in any order, missing ones keep their default. Throws Error(Parse).
UOPC_API Opts parse_opts(std::string_view text);

}  // namespace uopc
