// Programs as .uir text, compiled and run on vectors.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "uopc/uopc.hpp"

namespace uopc::jit {

using Bytes = std::vector<char>;

template <class T>
Bytes bytes(const std::vector<T>& v) {
  Bytes b(v.size() * sizeof(T));
  if (!b.empty()) std::memcpy(b.data(), v.data(), b.size());
  return b;
}
template <class T>
std::vector<T> values(const Bytes& b) {
  std::vector<T> v(b.size() / sizeof(T));
  if (!b.empty()) std::memcpy(v.data(), b.data(), b.size());
  return v;
}

inline std::vector<BufferRef> refs(std::vector<Bytes>& buffers) {
  std::vector<BufferRef> r;
  for (Bytes& b : buffers) r.emplace_back(static_cast<void*>(b.data()), b.size());
  return r;
}

inline Kernel compile(Engine& engine, const std::string& text, const Opts& opts = {}) {
  Graph graph;
  return engine.compile(parse(graph, text), opts);
}

// Runs `kernel` with the given bytes in its first buffers and zeros in the rest; returns all of them.
inline std::vector<Bytes> run(const Kernel& kernel, std::vector<Bytes> buffers) {
  while (buffers.size() < kernel.params().size()) {
    const KernelParam& p = kernel.params()[buffers.size()];
    buffers.emplace_back(static_cast<size_t>(p.size) * static_cast<size_t>(itemsize(p.dtype)));
  }
  kernel(refs(buffers));
  return buffers;
}

// The last buffer of a shaped graph after a run: its value.
template <class Out>
std::vector<Out> evaluate(Engine& engine, const std::string& text, std::vector<Bytes> inputs) {
  return values<Out>(run(compile(engine, text), std::move(inputs)).back());
}

// Options for tests of values: each index checked, at the given level.
inline Options options(int opt_level = 2, bool strict = false) {
  Options o;
  o.opt_level = opt_level;
  o.strict_float = strict;
  return o;
}

}  // namespace uopc::jit
