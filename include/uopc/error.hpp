// The one exception type of the library.
#pragma once
#include <stdexcept>
#include <string>

#include "uopc/export.hpp"

namespace uopc {

enum class ErrorCode {
  Type,            // a UOp that does not type-check, or a graph that cannot mean anything
  Parse,           // malformed .uir, .npy or option text
  NotImplemented,  // legal input that this version does not handle
  Compile,         // a back end or the system compiler refused a program that we produced
  Run,             // a kernel was called wrongly, or failed while it ran
  Internal,        // a bug in uopc: an invariant of its own does not hold
};

// The name printed in front of a message: "UOpError", "ParseError", "NotImplementedError", "CompileError",
// "RunError", "InternalError".
UOPC_API const char* error_name(ErrorCode code) noexcept;

// `what()` is the message alone, without the name of the code.
class UOPC_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ~Error() override;
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace uopc
