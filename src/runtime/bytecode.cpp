#include "runtime/bytecode.hpp"

#include <fmt/format.h>

#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "ir/half.hpp"
#include "uopc/error.hpp"

namespace uopc {
namespace {

[[noreturn]] void type_error(const std::string& message) {
  throw Error(ErrorCode::Type, message);
}

class Assembler {
 public:
  explicit Assembler(const Linearized& program) : program_(program) {}

  Bytecode assemble() {
    for (const Line& line : program_.lines) statement(line);
    if (!loops_.empty()) throw Error(ErrorCode::Internal, "linearize left a loop open");
    emit({Code::Stop});
    return std::move(out_);
  }

 private:
  struct Loop {
    uint32_t open, end;  // the Open instruction, the register of the RANGE's end
    UOp range;
  };

  void statement(const Line& line) {
    const UOp u = line.node;
    switch (line.kind) {
      case Line::Kind::Alloc:
        emit({.code = Code::Declare, .b = memory(u)});
        break;
      case Line::Kind::Load:
        load(u);
        break;
      case Line::Kind::Store:
        store(u);
        break;
      case Line::Kind::Alu:
        registers_[u] = alu(u);
        break;
      case Line::Kind::Barrier:
        throw Error(ErrorCode::NotImplemented, "BARRIER in the interpreter, which runs the threads of a block in turn");
      case Line::Kind::Open: {
        const uint32_t end = value(u.src(0)), counter = fresh();
        registers_[u] = counter;
        loops_.push_back({here(), end, u});
        emit({.code = Code::Open, .dst = counter, .a = end});
        break;
      }
      case Line::Kind::Close: {
        const Loop loop = loops_.back();
        loops_.pop_back();
        emit({.code = Code::Close, .dst = registers_.at(loop.range), .a = loop.end, .b = loop.open + 1});
        out_.code[loop.open].b = here();
        break;
      }
    }
  }

  uint32_t here() const { return static_cast<uint32_t>(out_.code.size()); }
  void emit(Instruction i) { out_.code.push_back(i); }
  uint32_t fresh() {
    out_.registers.push_back({.i = 0});
    return static_cast<uint32_t>(out_.registers.size() - 1);
  }
  uint32_t emit_value(Code code, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
    const uint32_t dst = fresh();
    emit({code, dst, a, b, c});
    return dst;
  }

  uint32_t memory(UOp node) {
    const auto [it, is_new] = memories_.try_emplace(node, static_cast<uint32_t>(out_.memories.size()));
    if (is_new) out_.memories.push_back(node);
    return it->second;
  }

  // The memory and the register of the index that `address` stands for.
  std::pair<uint32_t, uint32_t> address(UOp address) {
    std::optional<UOp> index;
    UOp u = address;
    while (u.is(Op::After) || (u.is(Op::Index) && u.src().size() == 1) ||
           (u.is(Op::Index) && u.src().size() == 2 && !index)) {
      if (u.src().size() == 2 && u.is(Op::Index)) index = u.src(1);
      u = u.src(0);
    }
    if (!index || (!u.is(Op::Buffer) && !u.is(Op::Alloc)))
      type_error(fmt::format("LOAD and STORE need the address of one element, INDEX of a BUFFER or ALLOC; got {} of {}",
                             name(address.op()), name(u.op())));
    return {memory(u), value(*index)};
  }

  static int by_dtype(DType d) { return d == DType::Bool ? 0 : d == DType::I32 ? 1 : d == DType::F32 ? 2 : 3; }

  void load(UOp u) {
    const auto [memory, index] = address(u.src(0));
    constexpr Code kLoads[] = {Code::LoadB, Code::LoadI, Code::LoadF, Code::LoadH};
    registers_[u] = emit_value(kLoads[by_dtype(u.dtype())], index, memory);
  }

  void store(UOp u) {
    const auto [memory, index] = address(u.src(0));
    constexpr Code kStores[] = {Code::StoreB, Code::StoreI, Code::StoreF, Code::StoreH};
    emit({.code = kStores[by_dtype(u.src(1).dtype())], .a = index, .b = memory, .c = value(u.src(1))});
  }

  // The register that has the value of `u` already; nothing where it is still to be computed.
  std::optional<uint32_t> known(UOp u) {
    while (u.is(Op::After)) u = u.src(0);
    if (u.is_const()) return constant(u);
    if (const auto it = registers_.find(u); it != registers_.end()) return it->second;
    if (const auto it = temporaries_.find(u); it != temporaries_.end()) return it->second;
    return std::nullopt;
  }

  // The register of `root`, computed here, with what it is made of, where it has none. What has no line of its own is
  // forgotten again: another line may be one that this one does not come before.
  uint32_t value(UOp root) {
    if (const auto r = known(root)) return *r;
    std::vector<UOp> stack = {root}, made;
    while (!stack.empty()) {
      const UOp u = stack.back();
      if (known(u)) {
        stack.pop_back();
        continue;
      }
      if (program_.has_line(u) || u.is(Op::Range))
        throw Error(ErrorCode::Internal, fmt::format("{} is used before its line", name(u.op())));
      const size_t before = stack.size();
      push_unknown_sources(u, stack);
      if (stack.size() > before) continue;
      temporaries_.emplace(u, operation(u));
      made.push_back(u);
      stack.pop_back();
    }
    const uint32_t result = *known(root);
    for (UOp u : made) temporaries_.erase(u);
    return result;
  }

  // A line of its own: `u` is not looked up, only its sources are.
  uint32_t alu(UOp u) {
    check_scalar(u);
    std::vector<UOp> made;
    for (UOp s : u.src())
      if (!known(s)) {
        temporaries_.emplace(s, value(s));
        made.push_back(s);
      }
    const uint32_t result = operation(u);
    for (UOp s : made) temporaries_.erase(s);
    return result;
  }

  void check_scalar(UOp u) {
    if (u.is(Op::Wmma)) throw Error(ErrorCode::NotImplemented, "WMMA in the interpreter");
    if (!kAlu.has(u.op())) type_error(fmt::format("{} is no part of a loop program", name(u.op())));
    if (!u.shape().empty()) type_error(fmt::format("{} of a loop program must be a scalar", name(u.op())));
  }

  void push_unknown_sources(UOp u, std::vector<UOp>& stack) {
    check_scalar(u);
    for (size_t i = u.src().size(); i-- > 0;)
      if (!known(u.src(i))) stack.push_back(u.src(i));
  }

  uint32_t constant(UOp u) {
    Register r{.i = 0};
    if (u.dtype() == DType::F32) r.f = static_cast<float>(u.value().as_float());
    if (u.dtype() == DType::I32) r.i = static_cast<int32_t>(static_cast<uint32_t>(u.value().as_int()));
    if (u.dtype() == DType::Bool) r.i = u.value().as_bool();
    const auto [it, is_new] = constants_.try_emplace(r.i, 0);
    if (is_new) {
      it->second = fresh();
      out_.registers.back() = r;
    }
    return it->second;
  }

  // Emits the op of `u`, whose sources have registers.
  uint32_t operation(UOp u) {
    const auto source = [&](size_t i) { return *known(u.src(i)); };
    if (u.is(Op::Cast)) return cast(u.src(0).dtype(), u.dtype(), source(0));
    if (u.is(Op::Where)) return emit_value(Code::Where, source(1), source(2), source(0));
    const DType d = u.src(0).dtype();
    const bool real = is_float(d), half = d == DType::F16, boolean = d == DType::Bool;
    const uint32_t a = source(0);
    const uint32_t b = u.src().size() > 1 ? source(1) : 0;
    const auto pick = [&](Code f, Code h) { return emit_value(half ? h : f, a, b); };
    switch (u.op()) {
      case Op::Add:
        return boolean ? emit_value(Code::OrB, a, b)
               : real  ? pick(Code::AddF, Code::AddH)
                       : emit_value(Code::AddI, a, b);
      case Op::Mul:
        return boolean ? emit_value(Code::AndB, a, b)
               : real  ? pick(Code::MulF, Code::MulH)
                       : emit_value(Code::MulI, a, b);
      case Op::Max:
        return emit_value(real ? Code::MaxF : Code::MaxI, a, b);
      case Op::CmpLt:
        return emit_value(real ? Code::LtF : Code::LtI, a, b);
      case Op::CmpNe:
        return emit_value(real ? Code::NeF : Code::NeI, a, b);
      case Op::FloorDiv:
        return emit_value(Code::FloorDiv, a, b);
      case Op::FloorMod:
        return emit_value(Code::FloorMod, a, b);
      case Op::Recip:
        return pick(Code::RecipF, Code::RecipH);
      case Op::Exp2:
        return pick(Code::Exp2F, Code::Exp2H);
      case Op::Log2:
        return pick(Code::Log2F, Code::Log2H);
      case Op::Sqrt:
        return pick(Code::SqrtF, Code::SqrtH);
      case Op::Sin:
        return pick(Code::SinF, Code::SinH);
      default:
        throw Error(ErrorCode::Internal, fmt::format("no instruction for {}", name(u.op())));
    }
  }

  uint32_t cast(DType from, DType to, uint32_t a) {
    if (from == to) return a;
    const bool real = is_float(from);
    switch (to) {
      case DType::Bool:
        return emit_value(real ? Code::FloatToBool : Code::IntToBool, a);
      case DType::I32:
        return real ? emit_value(Code::FloatToInt, a) : a;
      case DType::F32:
        return real ? a : emit_value(Code::IntToFloat, a);
      case DType::F16:
        return emit_value(real ? Code::FloatToHalf : Code::IntToHalf, a);
      case DType::Void:
        break;
    }
    type_error("CAST to void has no value");
  }

  const Linearized& program_;
  Bytecode out_;
  UOpMap<uint32_t> registers_, memories_, temporaries_;
  std::map<int32_t, uint32_t> constants_;  // by their bits
  std::vector<Loop> loops_;
};

}  // namespace

Bytecode assemble(const Linearized& program) {
  return Assembler(program).assemble();
}

}  // namespace uopc
