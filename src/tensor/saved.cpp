#include "uopc/saved.hpp"

#include <fmt/format.h>

#include <array>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/py_text.hpp"
#include "runtime/files.hpp"
#include "tensor/safetensors.hpp"
#include "tensor/zip.hpp"
#include "uopc/error.hpp"

namespace uopc {
namespace {

// `read`, with errors that name the file.
template <class F>
auto of_file(const std::string& path, F read) {
  try {
    return read();
  } catch (const Error& e) {
    throw Error(e.code(), path + ": " + e.what());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::Run, path + ": not enough memory for what the file holds");
  }
}

Tensor to_tensor(const Context& ctx, NpyArray array, const std::string& name) {
  try {
    return Tensor::from_bytes(ctx, array.data, std::move(array.shape), array.dtype);
  } catch (const Error& e) {  // a shape that files can say and tensors cannot have
    throw Error(ErrorCode::Parse, name.empty() ? e.what() : py_repr(name) + ": " + e.what());
  }
}

std::string_view text_of(const Tensor& t) {
  const std::span<const std::byte> bytes = t.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// All in one plan. The bytes of a tensor are asked for after this only, since realizing one may move another's.
void realize_all(const nn::StateDict& tensors, const char* what) {
  std::vector<Tensor> all;
  for (const auto& [name, t] : tensors) {
    if (!t) throw Error(ErrorCode::Type, fmt::format("{}: {} is an empty tensor", what, py_repr(name)));
    all.push_back(t);
  }
  if (!all.empty()) Tensor::realize(all);
}

}  // namespace

void save_safetensors(const std::string& path, const nn::StateDict& tensors,
                      const std::map<std::string, std::string>& metadata) {
  realize_all(tensors, "save_safetensors");
  std::vector<NamedArray> arrays;
  for (const auto& [name, t] : tensors) arrays.push_back({name, t.dtype(), t.shape(), text_of(t)});
  write_file(path, SafetensorsParts(arrays, metadata).parts);
}

nn::StateDict load_safetensors(const Context& ctx, const std::string& path, bool convert) {
  const std::string file = read_file(path);
  return of_file(path, [&] {
    nn::StateDict out;
    for (const SafetensorsEntry& e : parse_safetensors(file).entries)
      out.emplace_back(e.name, to_tensor(ctx, decode(e, convert), e.name));
    return out;
  });
}

std::map<std::string, std::string> safetensors_metadata(const std::string& path) {
  const std::string file = read_file(path);
  return of_file(path, [&] { return parse_safetensors(file).metadata; });
}

void save_npy(const std::string& path, const Tensor& t) {
  if (!t) throw Error(ErrorCode::Type, "save_npy: an empty tensor");
  const std::string_view data = text_of(t);
  const std::string header = npy_header(t.dtype(), t.shape());
  write_file(path, std::array{std::string_view(header), data});
}

Tensor load_npy(const Context& ctx, const std::string& path) {
  const std::string file = read_file(path);
  return of_file(path, [&] { return to_tensor(ctx, parse_npy(file), {}); });
}

void save_npz(const std::string& path, const nn::StateDict& tensors) {
  realize_all(tensors, "save_npz");
  std::vector<std::string> headers;
  headers.reserve(tensors.size());  // the members point into them
  std::vector<ZipPart> members;
  for (const auto& [name, t] : tensors)
    members.push_back({name + ".npy", {headers.emplace_back(npy_header(t.dtype(), t.shape())), text_of(t)}});
  write_file(path, ZipParts(members).parts);
}

nn::StateDict load_npz(const Context& ctx, const std::string& path) {
  const std::string file = read_file(path);
  return of_file(path, [&] {
    nn::StateDict out;
    for (ZipMember& m : read_zip(file)) {
      constexpr std::string_view kSuffix = ".npy";
      if (!m.name.ends_with(kSuffix)) throw Error(ErrorCode::Parse, "member " + py_repr(m.name) + " is no .npy file");
      std::string name = m.name.substr(0, m.name.size() - kSuffix.size());
      NpyArray array;
      try {
        array = parse_npy(m.data);
      } catch (const Error& e) {
        throw Error(e.code(), "member " + py_repr(m.name) + ": " + e.what());
      }
      m.data = {};
      Tensor t = to_tensor(ctx, std::move(array), name);
      out.emplace_back(std::move(name), std::move(t));
    }
    return out;
  });
}

}  // namespace uopc
