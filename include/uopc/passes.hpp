// The steps of the compiler, one function each. Every one is a pure function of its input and makes its nodes in the
// Graph of its input; `Engine` (engine.hpp) runs them in order on a copy.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "uopc/opts.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// The value of an ALU op on constants as the appendix's `exec_alu` prints it (A.4); nothing where it refuses to fold.
UOPC_API std::optional<Scalar> exec_alu(Op op, DType dtype, std::span<const Scalar> values);

// Bounds of a scalar value, saturating and aware of wrapping: `dtypes::min/max` where nothing better is known.
UOPC_API Scalar vmin(UOp u);
UOPC_API Scalar vmax(UOp u);

// Equal at run time for every input, and canonical: simplify(simplify(u)) == simplify(u).
UOPC_API UOp simplify(UOp root);

// A CALL replaced by its body with the arguments in place of its PARAMs.
UOPC_API UOp inline_call(UOp call);

// Inlines every CALL, pushes ALU ops through STACKs and resolves INDEX of a STACK by a constant, simplifying on the
// way. Of a graph with more than a million elements in all, ALU ops and movement stay as they are.
UOPC_API UOp evaluate(UOp root);

// A nested list of scalars, as `to_python` returns it.
struct PyValue {
  std::variant<Scalar, std::vector<PyValue>> value;
};
// The value of a graph that reads no buffer; throws Error(Type) when it does.
UOPC_API PyValue run(UOp root);
// Text as Python prints it: "[[1, 2], [3, 4]]", "True", "nan", "1e-05".
UOPC_API std::string to_string(const PyValue& v);

// Composites of A.4, built from the movement ops: `before` and `after` zeros on each axis; the axis reversed.
UOPC_API UOp pad(UOp x, std::span<const std::pair<int64_t, int64_t>> before_after);
UOPC_API UOp flip_axis(UOp x, int64_t axis);

// Reverse-mode derivatives: for each target the sum over `root` of seed * d root / d target, as a graph of the target's
// shape and dtype; `seed` has root's shape and dtype. A target that root does not depend on, or only through
// STAGE(x, "detach"), CMPLT, CMPNE or a CAST to bool or i32, gets zeros. Ties in MAX share the gradient equally; a
// branch of WHERE that is not taken contributes 0, also where its own derivative is infinite (of EXP2, SIN and MUL: up
// to where the branch broadcasts). Linear in the graph's size.
UOPC_API std::vector<UOp> gradient(UOp root, UOp seed, std::span<const UOp> targets);

// What the type checker leaves out and lowering needs: sizes not negative, no void data, indices within i32, scalar
// pointers. Also refuses what surely is a mistake: a divisor that is the constant 0. Throws Error(Type) that names the
// node.
UOPC_API void verify(UOp root, PipelineStage stage);
// What `verify` refuses of a node wherever it stands, so that half a program can be asked too: a negative size, more
// elements than an i32 reaches, data of void, an int constant that is no i32, a constant index outside its axis.
UOPC_API void verify_nodes(UOp root);

// Unrolled: as the reference, an upcast axis becomes copies of the body, and factors divide. Lanes: the copies of the
// axis with the largest upcast factor (the last of equals) are an innermost loop of kind UPCAST, which the JIT runs as
// vectors; what a factor leaves over gets loops of its own.
enum class LowerForm { Unrolled, Lanes };

// The loop program that writes shaped value `value` into BUFFER `out` in row-major order: a SINK. Throws Error(Type)
// for Opts that do not fit the value.
UOPC_API UOp lower(UOp value, UOp out, const Opts& opts = {}, LowerForm form = LowerForm::Unrolled);

// A loop program (root SINK) as it is; a shaped graph lowered into a fresh output BUFFER whose slot is the number of
// the graph's buffers. Throws Error(Type) where that slot is taken. Parameters go by slot, so the
// output comes last when the inputs are numbered from 0.
UOPC_API UOp as_program(UOp root, const Opts& opts = {}, LowerForm form = LowerForm::Unrolled);

// C text of a loop program (root SINK), prelude included.
UOPC_API std::string render_c(UOp program, const std::string& name = "kernel");
// The text from "void kernel" on.
UOPC_API std::string render_c_body(UOp program, const std::string& name = "kernel");

}  // namespace uopc
