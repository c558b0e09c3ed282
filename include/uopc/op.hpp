// The ops, their table and the kinds of loop.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "uopc/export.hpp"

namespace uopc {

enum class Op : uint8_t {
#define UOPC_OP(id, name, group, lo, hi, first, last) id,
#include "uopc/op_table.def"
#undef UOPC_OP
};

enum class OpGroup : uint8_t { Value, Unary, Binary, Ternary, Memory, Loop, Movement, Reduce, Kernel, Gpu };

// The band of the pipeline an op may occur in; each later form is closer to scalar code.
enum class PipelineStage : uint8_t { Graph, Kernel, Loops };

struct OpInfo {
  const char* name;  // upper case, as the appendix writes it
  OpGroup group;
  int min_sources, max_sources;  // max -1: any number
  PipelineStage first, last;
};

inline constexpr OpInfo kOps[] = {
#define UOPC_OP(id, name, group, lo, hi, first, last) \
  {name, OpGroup::group, lo, hi, PipelineStage::first, PipelineStage::last},
#include "uopc/op_table.def"
#undef UOPC_OP
};
inline constexpr int kOpCount = sizeof(kOps) / sizeof(kOps[0]);

constexpr const OpInfo& info(Op op) {
  return kOps[static_cast<int>(op)];
}
constexpr const char* name(Op op) {
  return info(op).name;
}

// The op whose name is `name` in any case.
UOPC_API std::optional<Op> op_from_name(std::string_view name);

class OpSet {
 public:
  constexpr OpSet(std::initializer_list<Op> ops) {
    for (Op op : ops) mask_ |= bit(op);
  }
  constexpr OpSet(OpGroup group) {
    for (int i = 0; i < kOpCount; i++)
      if (kOps[i].group == group) mask_ |= bit(static_cast<Op>(i));
  }
  constexpr bool has(Op op) const { return mask_ & bit(op); }
  friend constexpr OpSet operator|(OpSet a, OpSet b) {
    a.mask_ |= b.mask_;
    return a;
  }

 private:
  static constexpr uint64_t bit(Op op) { return uint64_t{1} << static_cast<int>(op); }
  uint64_t mask_ = 0;
};
static_assert(kOpCount <= 64, "OpSet is one 64-bit mask");

inline constexpr OpSet kUnary{OpGroup::Unary};
inline constexpr OpSet kBinary{OpGroup::Binary};
inline constexpr OpSet kAlu = kUnary | kBinary | OpSet{Op::Where};
inline constexpr OpSet kCommutative{Op::Add, Op::Mul, Op::Max, Op::CmpNe};
inline constexpr OpSet kMovement{OpGroup::Movement};

// How a RANGE runs (A.7).
enum class AxisType : uint8_t { Loop, Reduce, Upcast, Thread, Global, Local };

constexpr const char* name(AxisType k) {
  constexpr const char* names[] = {"LOOP", "REDUCE", "UPCAST", "THREAD", "GLOBAL", "LOCAL"};
  return names[static_cast<int>(k)];
}

}  // namespace uopc
