// Tensors in files: safetensors, .npy and .npz.
//
// A file is replaced in one step when everything has been written, or kept. Nothing that a file says is believed before
// it is compared with the file's size; a damaged one is Error(Parse) "x.safetensors: ...", one that cannot be read or
// written Error(Run).
#pragma once
#include <map>
#include <string>

#include "uopc/nn.hpp"
#include "uopc/npy.hpp"
#include "uopc/tensor.hpp"

namespace uopc {

// safetensors: little-endian BOOL, I32, F32, F16. Other dtypes are refused, except BF16, F64 and I64 with `convert`,
// which become F32 and I32 (an I64 that does not fit is an error).
UOPC_API void save_safetensors(const std::string& path, const nn::StateDict& tensors,
                               const std::map<std::string, std::string>& metadata = {});
UOPC_API nn::StateDict load_safetensors(const Context& ctx, const std::string& path, bool convert = false);
UOPC_API std::map<std::string, std::string> safetensors_metadata(const std::string& path);

UOPC_API void save_npy(const std::string& path, const Tensor& t);
UOPC_API Tensor load_npy(const Context& ctx, const std::string& path);

// A zip of .npy files: stored when written, stored or deflated when read.
UOPC_API void save_npz(const std::string& path, const nn::StateDict& tensors);
UOPC_API nn::StateDict load_npz(const Context& ctx, const std::string& path);

}  // namespace uopc
