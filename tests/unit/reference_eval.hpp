// Two slow evaluators that share nothing but the meaning of an ALU op: of a shaped graph, element by element as A.4
// defines the ops, and of a loop program, line by line.
#pragma once
#include <map>
#include <stdexcept>
#include <vector>

#include "ir/fold.hpp"
#include "ir/walk.hpp"
#include "passes/linearize.hpp"
#include "uopc/uopc.hpp"

namespace uopc::test {

using Data = std::vector<Scalar>;
using Memory = std::map<int64_t, Data>;  // by slot

inline int64_t count(const Shape& s) {
  int64_t n = 1;
  for (int64_t d : s) n *= d;
  return n;
}

// The multi-index of flat position `i`.
inline Shape position(int64_t i, const Shape& shape) {
  Shape at(shape.size());
  for (size_t k = shape.size(); k-- > 0;) at[k] = i % shape[k], i /= shape[k];
  return at;
}
inline int64_t flat(const Shape& at, const Shape& shape) {
  int64_t i = 0;
  for (size_t k = 0; k < shape.size(); k++) i = i * shape[k] + at[k];
  return i;
}

inline Scalar alu(UOp u, std::span<const Scalar> values) {
  return run_alu(u.op(), u.dtype(), u.src(u.is(Op::Where) ? 1 : 0).dtype(), values);
}

inline Data evaluate_shaped(UOp root, const Memory& buffers) {
  NodeMap<Data> values;
  post_order(root, [&](UOp u) {
    Data out;
    const int64_t n = count(u.shape());
    const auto src = [&](size_t k) -> const Data& { return values.at(u.src(k)); };
    const auto pick = [&](auto&& index_map) {  // of the output's multi-index
      for (int64_t i = 0; i < n; i++)
        out.push_back(src(0)[static_cast<size_t>(flat(index_map(position(i, u.shape())), u.src(0).shape()))]);
    };
    if (kAlu.has(u.op())) {
      for (size_t i = 0; i < static_cast<size_t>(n); i++) {
        std::vector<Scalar> operands;
        for (size_t k = 0; k < u.src().size(); k++) operands.push_back(src(k)[i]);
        out.push_back(alu(u, operands));
      }
    } else {
      switch (u.op()) {
        case Op::Const: out = {to_dtype(u.value(), u.dtype())}; break;
        case Op::Buffer: out = buffers.at(u.arg<ParamArg>().slot); break;
        case Op::Stage:
        case Op::Load:
        case Op::Reshape: out = src(0); break;
        case Op::Expand:
          pick([&](Shape at) {
            for (size_t k = 0; k < at.size(); k++)
              if (u.src(0).shape()[k] == 1) at[k] = 0;
            return at;
          });
          break;
        case Op::Permute:
          pick([&](const Shape& at) {
            Shape in(at.size());
            for (size_t k = 0; k < at.size(); k++) in[static_cast<size_t>(u.arg<Shape>()[k])] = at[k];
            return in;
          });
          break;
        case Op::Shrink:
          pick([&](Shape at) {
            for (size_t k = 0; k < at.size(); k++) at[k] += u.arg<ShrinkArg>().bounds[k].first;
            return at;
          });
          break;
        case Op::Stack:
          for (size_t k = 0; k < u.src().size(); k++) out.insert(out.end(), src(k).begin(), src(k).end());
          break;
        case Op::Index: {
          int64_t begin = 0, stride = count(u.src(0).shape());
          for (size_t k = 1; k < u.src().size(); k++) {
            const int64_t size = u.src(0).shape()[k - 1], i = src(k)[0].as_int();
            if (i < 0 || i >= size) throw std::out_of_range("index");
            stride /= size;
            begin += i * stride;
          }
          out.assign(src(0).begin() + begin, src(0).begin() + begin + n);
          break;
        }
        case Op::Reduce: {
          const Op op = u.arg<ReduceArg>().op;
          const int64_t inner = n ? static_cast<int64_t>(src(0).size()) / n : 0;
          for (int64_t i = 0; i < n; i++) {
            // One element is itself: -0.0 stays.
            Scalar acc = op == Op::Max ? dtypes::min(u.dtype()) : dtypes::convert(0, u.dtype());
            if (inner == 1) acc = src(0)[static_cast<size_t>(i)];
            for (int64_t k = 0; k < inner && inner > 1; k++) {
              const Scalar pair[] = {acc, src(0)[static_cast<size_t>(i * inner + k)]};
              acc = run_alu(op, u.dtype(), u.dtype(), pair);
            }
            out.push_back(acc);
          }
          break;
        }
        default: throw std::logic_error(name(u.op()));
      }
    }
    values.insert(u, std::move(out));
  });
  return values.at(root);
}

// Runs the lines of a program; written buffers change in place.
inline void run_lines(const Linearized& program, Memory& buffers) {
  UOpMap<Scalar> named;
  UOpMap<Data> allocs;
  struct Loop {
    size_t first;
    int64_t i, end;
  };
  std::vector<Loop> loops;
  const auto value = [&](auto&& self, UOp u, bool top) -> Scalar {
    if (u.is_const()) return to_dtype(u.value(), u.dtype());
    if (const auto it = named.find(u); !top && it != named.end()) return it->second;
    if (!kAlu.has(u.op())) throw std::logic_error(std::string("no value yet: ") + name(u.op()));
    std::vector<Scalar> operands;
    for (UOp s : u.src()) operands.push_back(self(self, s, false));
    return alu(u, operands);
  };
  const auto cell = [&](UOp address) -> Scalar& {
    while (address.is(Op::After)) address = address.src(0);
    const UOp memory = memory_of(address);
    Data& data = memory.is(Op::Buffer) ? buffers.at(memory.arg<ParamArg>().slot) : allocs.at(memory);
    return data.at(static_cast<size_t>(value(value, address.src(1), false).as_int()));
  };
  for (size_t k = 0; k < program.lines.size(); k++) {
    const auto [kind, u] = program.lines[k];
    switch (kind) {
      case Line::Kind::Alloc:
        allocs[u] = Data(static_cast<size_t>(u.shape()[0]), dtypes::convert(77, u.dtype()));
        break;
      case Line::Kind::Load: named[u] = cell(u.src(0)); break;
      case Line::Kind::Store: cell(u.src(0)) = value(value, u.src(1), false); break;
      case Line::Kind::Alu: named[u] = value(value, u, true); break;
      case Line::Kind::Open: {
        const int64_t end = value(value, u.src(0), false).as_int();
        if (end > 0) {
          loops.push_back({k, 0, end});
          named[u] = Scalar(0);
          break;
        }
        for (int depth = 1; depth > 0;) {
          k++;
          depth += program.lines[k].kind == Line::Kind::Open;
          depth -= program.lines[k].kind == Line::Kind::Close;
        }
        break;
      }
      case Line::Kind::Close:
        if (++loops.back().i < loops.back().end) {
          k = loops.back().first;
          named[u] = Scalar(loops.back().i);
        } else {
          loops.pop_back();
        }
        break;
      case Line::Kind::Barrier: break;
    }
  }
}

// `value` lowered and run on `inputs`.
inline Data run_lowered(UOp value, Memory inputs) {
  const int64_t slot = static_cast<int64_t>(inputs.size());
  const UOp out = value.graph().buffer(std::max<int64_t>(count(value.shape()), 1), value.dtype(), slot);
  inputs[slot] = Data(static_cast<size_t>(out.shape()[0]));
  run_lines(linearize(lower(value, out)), inputs);
  inputs[slot].resize(static_cast<size_t>(count(value.shape())));
  return inputs[slot];
}

}  // namespace uopc::test
