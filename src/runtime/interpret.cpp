// The interpreter: docs/semantics.md step by step, in the program's own order of operations.
//
// Compiled without contraction (CMakeLists.txt), so that no a*b+c is rounded once where the program rounds twice.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "ir/half.hpp"
#include "passes/linearize.hpp"
#include "passes/verify.hpp"
#include "runtime/bytecode.hpp"
#include "runtime/check_buffers.hpp"
#include "uopc/error.hpp"
#include "uopc/passes.hpp"
#include "uopc/reference.hpp"

namespace uopc {
namespace {

constexpr uint64_t kMaxAllocBytes = uint64_t{4} << 30;
// An ALLOC starts with all bits set at every declaration, so that a program which reads what it has not written is seen
// to. A larger one is fresh zero pages once: filling it would make the whole of it resident.
constexpr uint64_t kMaxFilledBytes = uint64_t{1} << 20;

struct Memory {
  char* data;
  uint64_t size;  // elements
  uint64_t bytes;
};

struct Free {
  void operator()(char* p) const { std::free(p); }
};
using HeapBytes = std::unique_ptr<char, Free>;

int32_t add(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
int32_t mul(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

int32_t floor_div(int32_t a, int32_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int32_t>(0u - static_cast<uint32_t>(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int32_t floor_mod(int32_t a, int32_t b) {
  if (b == 0 || b == -1) return 0;
  const int32_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int32_t saturate(float v) {
  if (v != v) return 0;
  if (v >= 0x1p31f) return INT32_MAX;
  if (v < -0x1p31f) return INT32_MIN;
  return static_cast<int32_t>(v);
}

float half(double v) {
  return static_cast<float>(round_to_half(v));
}

template <class T>
T get(const Memory& m, int32_t i) {
  T v;
  std::memcpy(&v, m.data + static_cast<size_t>(i) * sizeof v, sizeof v);
  return v;
}

template <class T>
void set(const Memory& m, int32_t i, T v) {
  std::memcpy(m.data + static_cast<size_t>(i) * sizeof v, &v, sizeof v);
}

[[noreturn]] void out_of_range(UOp memory, int32_t index) {
  throw Error(ErrorCode::Run, fmt::format("index {} is out of range of {} slot {}, which has {} elements", index,
                                          name(memory.op()), memory.arg<ParamArg>().slot, memory.shape()[0]));
}

void execute(const Bytecode& program, std::vector<Register> registers, const std::vector<Memory>& memories) {
  Register* const r = registers.data();
  const Memory* const m = memories.data();
  const Instruction* const code = program.code.data();
  const auto checked = [&](const Instruction& i) {
    const int32_t index = r[i.a].i;
    if (static_cast<uint64_t>(static_cast<int64_t>(index)) >= m[i.b].size) out_of_range(program.memories[i.b], index);
    return index;
  };
  for (const Instruction* at = code;; at++) {
    const Instruction& i = *at;
    switch (i.code) {
      case Code::AddI:
        r[i.dst].i = add(r[i.a].i, r[i.b].i);
        break;
      case Code::AddF:
        r[i.dst].f = r[i.a].f + r[i.b].f;
        break;
      case Code::AddH:
        r[i.dst].f = half(static_cast<double>(r[i.a].f) + r[i.b].f);
        break;
      case Code::MulI:
        r[i.dst].i = mul(r[i.a].i, r[i.b].i);
        break;
      case Code::MulF:
        r[i.dst].f = r[i.a].f * r[i.b].f;
        break;
      case Code::MulH:
        r[i.dst].f = half(static_cast<double>(r[i.a].f) * r[i.b].f);
        break;
      case Code::MaxI:
        r[i.dst].i = r[i.a].i > r[i.b].i ? r[i.a].i : r[i.b].i;
        break;
      case Code::MaxF:
        r[i.dst].f = r[i.a].f > r[i.b].f ? r[i.a].f : r[i.b].f;
        break;
      case Code::OrB:
        r[i.dst].i = r[i.a].i | r[i.b].i;
        break;
      case Code::AndB:
        r[i.dst].i = r[i.a].i & r[i.b].i;
        break;
      case Code::LtI:
        r[i.dst].i = r[i.a].i < r[i.b].i;
        break;
      case Code::LtF:
        r[i.dst].i = r[i.a].f < r[i.b].f;
        break;
      case Code::NeI:
        r[i.dst].i = r[i.a].i != r[i.b].i;
        break;
      case Code::NeF:
        r[i.dst].i = r[i.a].f != r[i.b].f;
        break;
      case Code::FloorDiv:
        r[i.dst].i = floor_div(r[i.a].i, r[i.b].i);
        break;
      case Code::FloorMod:
        r[i.dst].i = floor_mod(r[i.a].i, r[i.b].i);
        break;
      case Code::Where:
        r[i.dst] = r[i.c].i ? r[i.a] : r[i.b];
        break;
      case Code::RecipF:
        r[i.dst].f = 1.0f / r[i.a].f;
        break;
      case Code::RecipH:
        r[i.dst].f = half(1.0 / r[i.a].f);
        break;
      case Code::Exp2F:
        r[i.dst].f = static_cast<float>(std::exp2(static_cast<double>(r[i.a].f)));
        break;
      case Code::Exp2H:
        r[i.dst].f = half(std::exp2(static_cast<double>(r[i.a].f)));
        break;
      case Code::Log2F:
        r[i.dst].f = static_cast<float>(std::log2(static_cast<double>(r[i.a].f)));
        break;
      case Code::Log2H:
        r[i.dst].f = half(std::log2(static_cast<double>(r[i.a].f)));
        break;
      case Code::SqrtF:
        r[i.dst].f = std::sqrt(r[i.a].f);
        break;
      case Code::SqrtH:
        r[i.dst].f = half(std::sqrt(static_cast<double>(r[i.a].f)));
        break;
      case Code::SinF:
        r[i.dst].f = static_cast<float>(std::sin(static_cast<double>(r[i.a].f)));
        break;
      case Code::SinH:
        r[i.dst].f = half(std::sin(static_cast<double>(r[i.a].f)));
        break;
      case Code::IntToFloat:
        r[i.dst].f = static_cast<float>(r[i.a].i);
        break;
      case Code::IntToHalf:
        r[i.dst].f = half(r[i.a].i);
        break;
      case Code::FloatToInt:
        r[i.dst].i = saturate(r[i.a].f);
        break;
      case Code::FloatToHalf:
        r[i.dst].f = half(r[i.a].f);
        break;
      case Code::IntToBool:
        r[i.dst].i = r[i.a].i != 0;
        break;
      case Code::FloatToBool:
        r[i.dst].i = r[i.a].f != 0;
        break;
      case Code::LoadB:
        r[i.dst].i = get<uint8_t>(m[i.b], checked(i)) != 0;
        break;
      case Code::LoadI:
        r[i.dst].i = get<int32_t>(m[i.b], checked(i));
        break;
      case Code::LoadF:
        r[i.dst].f = get<float>(m[i.b], checked(i));
        break;
      case Code::LoadH:
        r[i.dst].f = half_to_float(get<uint16_t>(m[i.b], checked(i)));
        break;
      case Code::StoreB:
        set<uint8_t>(m[i.b], checked(i), r[i.c].i != 0);
        break;
      case Code::StoreI:
        set<int32_t>(m[i.b], checked(i), r[i.c].i);
        break;
      case Code::StoreF:
        set<float>(m[i.b], checked(i), r[i.c].f);
        break;
      case Code::StoreH:
        set<uint16_t>(m[i.b], checked(i), half_from_double(r[i.c].f));
        break;
      case Code::Declare:
        if (m[i.b].bytes <= kMaxFilledBytes) std::memset(m[i.b].data, 0xff, m[i.b].bytes);
        break;
      case Code::Open:
        r[i.dst].i = 0;
        if (r[i.a].i <= 0) at = code + i.b - 1;
        break;
      case Code::Close:
        if (++r[i.dst].i < r[i.a].i) at = code + i.b - 1;
        break;
      case Code::Stop:
        return;
    }
  }
}

}  // namespace

void interpret(UOp program, std::span<const BufferRef> buffers) {
  if (!program.is(Op::Sink))
    throw Error(ErrorCode::Type,
                fmt::format("the interpreter runs loop programs (root SINK), not a {}; as_program makes "
                            "one of a shaped graph",
                            name(program.op())));
  verify_structure(program, PipelineStage::Loops);
  const std::vector<KernelParam> params = program_params(program);
  check_buffers(params, buffers);
  Bytecode bytecode = assemble(linearize(program));

  std::vector<Memory> memories;
  std::vector<HeapBytes> owned;
  uint64_t total = 0;
  for (UOp u : bytecode.memories) {
    const auto size = static_cast<uint64_t>(u.shape()[0]), bytes = size * static_cast<uint64_t>(itemsize(u.dtype()));
    char* data = nullptr;
    if (u.is(Op::Alloc)) {
      total += bytes;
      if (size > kMaxAllocBytes || total > kMaxAllocBytes)
        throw Error(ErrorCode::Run,
                    fmt::format("out of memory: ALLOC slot {} of {} elements of {} passes the limit of {} "
                                "bytes in all",
                                u.arg<ParamArg>().slot, size, name(u.dtype()), kMaxAllocBytes));
      owned.emplace_back(static_cast<char*>(std::calloc(std::max<uint64_t>(bytes, 1), 1)));
      data = owned.back().get();
      if (!data)
        throw Error(ErrorCode::Run,
                    fmt::format("out of memory: {} bytes for ALLOC slot {}", bytes, u.arg<ParamArg>().slot));
    } else {
      const auto it = std::lower_bound(params.begin(), params.end(), u.arg<ParamArg>().slot,
                                       [](const KernelParam& p, int64_t slot) { return p.slot < slot; });
      data = static_cast<char*>(buffers[static_cast<size_t>(it - params.begin())].data);
    }
    memories.push_back({data, size, bytes});
  }
  execute(bytecode, std::move(bytecode.registers), memories);
}

}  // namespace uopc
