// Programs in, text out.
#pragma once
#include <string>
#include <string_view>

#include "uopc/uop.hpp"

namespace uopc::tool {

// The program in the .uir file `path`, or on standard input for "-". Throws Error(Run) and Error(Parse).
UOp read_program(Graph& graph, const std::string& path);

// Throws Error(Run) when standard output is closed, full or a broken pipe.
void write_output(std::string_view text);

// Descriptors 0 to 2 that are closed become ones that cannot be used, so that no file we open takes their place.
void occupy_standard_descriptors();

}  // namespace uopc::tool
