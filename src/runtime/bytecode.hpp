// A linearized program for a register machine: what the interpreter runs.
//
// A register holds 32 bits: an i32, a float, a bool as 0 or 1; an f16 is held as the float of its value, rounded after
// each operation. Every value has a register of its own, constants are in theirs before the program starts.
#pragma once
#include <cstdint>
#include <vector>

#include "passes/linearize.hpp"
#include "uopc/dtype.hpp"

namespace uopc {

// I: i32 and (unless there is a B) bool. F: f32 and (unless there is an H) f16. H rounds its result to f16.
enum class Code : uint8_t {
  AddI,
  AddF,
  AddH,
  MulI,
  MulF,
  MulH,
  MaxI,
  MaxF,
  OrB,
  AndB,
  LtI,
  LtF,
  NeI,
  NeF,
  FloorDiv,
  FloorMod,
  Where,  // dst = c ? a : b
  RecipF,
  RecipH,
  Exp2F,
  Exp2H,
  Log2F,
  Log2H,
  SqrtF,
  SqrtH,
  SinF,
  SinH,
  IntToFloat,
  IntToHalf,
  FloatToInt,
  FloatToHalf,
  IntToBool,
  FloatToBool,
  LoadB,
  LoadI,
  LoadF,
  LoadH,  // dst = memory[b] at index a
  StoreB,
  StoreI,
  StoreF,
  StoreH,   // memory[b] at index a = c
  Declare,  // memory[b] holds nothing any more
  Open,     // dst = 0; to instruction b unless dst < a
  Close,    // dst += 1; to instruction b if dst < a
  Stop,
};

struct Instruction {
  Code code;
  uint32_t dst = 0, a = 0, b = 0, c = 0;
};

union Register {
  int32_t i;
  float f;
};

struct Bytecode {
  std::vector<Instruction> code;    // ends with Stop
  std::vector<Register> registers;  // as they are at the start
  std::vector<UOp> memories;        // BUFFERs and ALLOCs
};

// Throws Error(NotImplemented) for BARRIER and WMMA, Error(Type) for what is no scalar program.
Bytecode assemble(const Linearized& program);

}  // namespace uopc
