// The type checker of A.3.
#pragma once
#include <span>

#include "uopc/uop.hpp"

namespace uopc {

struct Inferred {
  DType dtype = DType::Void;
  AddrSpace addrspace = AddrSpace::Alu;
  const Shape* shared = nullptr;  // the shape, when it is that of a source or of the arg
  Shape fresh;                    // the shape, when `shared` is null
  const Shape& shape() const { return shared ? *shared : fresh; }
};

// Throws Error(Type) with the appendix's message when the node would be malformed. `shared` of the result points into
// `src` or `arg`. `body_params` are the PARAMs of a CALL's body, and empty for any other op.
Inferred infer(Op op, std::span<const UOp> src, const Arg& arg, std::span<const UOp> body_params);

}  // namespace uopc
