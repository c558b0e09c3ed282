// Kernels out of a graph: what a graph is cut into, which memory each kernel takes, and in which order they run.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "uopc/opts.hpp"
#include "uopc/uop.hpp"

namespace uopc {

// The memory behind one BUFFER of a kernel: an input of the plan, one of its temporaries, or one of its outputs.
struct PlanRef {
  enum class Kind : uint8_t { In, Tmp, Out };
  Kind kind;
  int64_t index;
  friend bool operator==(const PlanRef&, const PlanRef&) = default;
};

struct PlanBuffer {
  DType dtype;
  int64_t size;  // elements
  friend bool operator==(const PlanBuffer&, const PlanBuffer&) = default;
};

struct PlanKernel {
  std::string name;           // r_ or e_ and the output shape: "r_3", "e_3_4"; equal names do not mean equal kernels
  UOp program;                // a SINK; its BUFFERs have the slots 0..refs.size()-1
  std::vector<PlanRef> refs;  // by slot; the written one is last, unless a kernel writes in place of an input it reads
  double flops = 0;           // float operations of one run
};

// One result. Without `input` it is a new buffer, `outs` of the plan in order; with it, it overwrites that input.
struct PlanResult {
  UOp value;
  std::optional<UOp> into;  // a BUFFER of the value's dtype, at least as large
};

struct Plan {
  std::vector<PlanKernel> kernels;  // in an order in which each finds what it reads
  std::vector<PlanBuffer> temps;
  std::vector<PlanBuffer> outs;  // of the results without `into`, in order
};

struct PlanAndInputs {
  Plan plan;
  std::vector<UOp> inputs;  // BUFFERs by first use over all kernels; a BUFFER that is only written comes last
};

// Where a graph is cut. A cut is a STAGE; what stands between cuts becomes one kernel each.
struct CutOptions {
  int opt = 0;  // 0: the reference's cuts and loops. 1 and more: cuts and loops that suit the machine
  Machine machine{};
};

// STAGE(x, "detach") is x.
UOPC_API UOp strip_detach(UOp root);

// STAGEs the reductions that a broadcast would repeat.
UOPC_API UOp stage_broadcast_compute(UOp root);

// Cuts, lowers and orders. All values of one Graph. A result that overwrites an input is written when nothing reads the
// input's old value any more, by the kernel that computes it where that reads the input at the index it writes only,
// and otherwise by a copy from a temporary. Throws Error(Type) like `lower`.
UOPC_API PlanAndInputs make_plan(std::span<const PlanResult> results, const CutOptions& options = {});
UOPC_API PlanAndInputs make_plan(std::initializer_list<UOp> values);

// "e_4 [('in', 0), ('tmp', 0)]", C text of every kernel, "temps: [(dtypes.f32, 4)]  outs: [(dtypes.f32, 4)]".
UOPC_API std::string to_string(const Plan& plan);

}  // namespace uopc
