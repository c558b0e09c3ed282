#include "codegen/c_style.hpp"

#include <fmt/format.h>

#include <cmath>

#include "ir/py_text.hpp"

namespace uopc {

// MAX prints both operands twice; a longer one gets a name, or nested MAXes would double the text level by level.
static constexpr size_t kMaxRepeatedText = 256;

std::string cconst(Scalar v, DType d) {
  if (d == DType::Bool) return v.as_bool() ? "1" : "0";
  if (d == DType::I32) return v.as_int() == INT32_MIN ? "(-2147483647-1)" : std::to_string(v.as_int());
  const double x = v.as_float();
  if (std::isnan(x)) return "NAN";
  if (std::isinf(x)) return x > 0 ? "INFINITY" : "-INFINITY";
  const std::string digits = py_repr(x) + "f";
  return d == DType::F32 ? digits : fmt::format("(({}){})", info(d).ctype, digits);
}

std::string CRenderer::memory_name(UOp memory) const {
  const char* prefix = memory.is(Op::Buffer) ? "data" : memory.addrspace() == AddrSpace::Shared ? "smem" : "acc";
  return prefix + std::to_string(memory.arg<ParamArg>().slot);
}

std::string CRenderer::head(const std::vector<UOp>& params, const std::string& name) const {
  std::string text = fmt::format("void {}(", name);
  for (size_t i = 0; i < params.size(); i++)
    text += fmt::format("{}{}* restrict {}", i ? ", " : "", type_name(params[i].dtype()), memory_name(params[i]));
  return text + ") {";
}

void CRenderer::declare(UOp alloc) {
  const int64_t size = alloc.shape()[0];
  const bool bare = size == 1 && alloc.addrspace() == AddrSpace::Local;
  line(fmt::format("{} {}{};", type_name(alloc.dtype()), memory_name(alloc), bare ? "" : fmt::format("[{}]", size)));
}

void CRenderer::open_loop(UOp range) {
  const std::string name = fmt::format("ridx{}", range.arg<RangeArg>().idx);
  const std::string end = text_of(range.src(0));
  named(range, name);
  if (range.arg<RangeArg>().kind == AxisType::Thread) line("#pragma omp parallel for");
  line(fmt::format("for (int {0} = 0; {0} < {1}; {0}++) {{", name, end));
  indent();
}

void CRenderer::close_loop(UOp) {
  outdent();
  line("}");
}

void CRenderer::barrier(UOp) {
  throw Error(ErrorCode::NotImplemented, "BARRIER in C text: one thread after another cannot wait for each other");
}

void CRenderer::cell(const Cell& c) {
  append(memory_name(c.memory));
  if (c.memory.addrspace() == AddrSpace::Local && c.memory.shape()[0] == 1) return;
  append("[");
  value(c.index);
  append("]");
}

void CRenderer::append_int(int64_t v) { append(std::to_string(v)); }

std::string CRenderer::text_of(UOp u) {
  const size_t begin = expr_.size();
  value(u);
  std::string text = expr_.substr(begin);
  expr_.resize(begin);
  return text;
}

void CRenderer::line(std::string_view text) {
  out_.append(static_cast<size_t>(depth_) * 2, ' ');
  out_ += text;
  out_ += '\n';
}

// An expression is at most kMaxInlineDepth deep, which is still too much for the stack of a caller's thread.
struct CRenderer::Task {
  enum class Kind : uint8_t {
    Value,
    Text,
    Begin,   // of an operand of MAX
    End,     // of that operand, which gets a name if its text is too long to be repeated
    Choose,  // between the two operands, whose texts are repeated
  };
  Kind kind;
  UOp u = {};
  const char* text = nullptr;

  Task(UOp u) : kind(Kind::Value), u(u) {}
  Task(const char* text) : kind(Kind::Text), text(text) {}
  Task(Kind kind, UOp u) : kind(kind), u(u) {}
};

void CRenderer::value(UOp root) {
  std::vector<Task> tasks{root};
  std::vector<size_t> marks;  // begin and size of operands of MAX
  while (!tasks.empty()) {
    const Task t = tasks.back();
    tasks.pop_back();
    switch (t.kind) {
      case Task::Kind::Text: append(t.text); break;
      case Task::Kind::Value:
        if (t.u.is_const()) {
          append(cconst(t.u.value(), t.u.dtype()));
        } else if (const auto it = names_.find(t.u); it != names_.end()) {
          append(it->second);
        } else {
          const std::vector<Task> parts = alu(t.u);
          tasks.insert(tasks.end(), parts.rbegin(), parts.rend());
        }
        break;
      case Task::Kind::Begin: marks.push_back(expr_.size()); break;
      case Task::Kind::End: {
        const size_t begin = marks.back();
        if (expr_.size() - begin > kMaxRepeatedText) {
          const std::string name = fresh("alu");
          line(fmt::format("{} {} = {};", type_name(t.u.dtype()), name, std::string_view(expr_).substr(begin)));
          expr_.resize(begin);
          append(name);
        }
        marks.push_back(expr_.size() - begin);
        break;
      }
      case Task::Kind::Choose: {
        const size_t* m = marks.data() + marks.size() - 4;
        append(")?" + expr_.substr(m[0], m[1]) + ":" + expr_.substr(m[2], m[3]) + ")");
        marks.resize(marks.size() - 4);
        break;
      }
    }
  }
}

// The text of an ALU op around its operands.
std::vector<CRenderer::Task> CRenderer::alu(UOp u) {
  const DType d = u.dtype();
  const auto infix = [&](const char* sign) { return std::vector<Task>{"(", u.src(0), sign, u.src(1), ")"}; };
  const auto call = [&](const char* function) {
    return std::vector<Task>{function, d == DType::F32 ? "f(" : "(", u.src(0), ")"};
  };
  // C's division truncates: it is floor division where neither side is negative.
  const auto divide = [&](const char* sign, const char* helper) {
    const UOp a = u.src(0), b = u.src(1);
    if (bounds_.of(a).lo >= 0 && b.is_const() && b.value().as_int() > 0) return infix(sign);
    return std::vector<Task>{helper, a, ",", b, ")"};
  };
  switch (u.op()) {
    case Op::Cast: return {"((", type_name(d), ")(", u.src(0), "))"};
    case Op::Recip:
      if (d == DType::F32) return {"(1.0f/", u.src(0), ")"};
      return {"((", type_name(d), ")1.0f/", u.src(0), ")"};
    case Op::Exp2: return call("exp2");
    case Op::Log2: return call("log2");
    case Op::Sqrt: return call("sqrt");
    case Op::Sin: return call("sin");
    case Op::Add: return infix("+");
    case Op::Mul: return infix("*");
    case Op::CmpLt: return infix("<");
    case Op::CmpNe: return infix("!=");
    case Op::FloorDiv: return divide("/", "floordiv_i32(");
    case Op::FloorMod: return divide("%", "floormod_i32(");
    case Op::Max: {
      using Kind = Task::Kind;
      const UOp a = u.src(0), b = u.src(1);
      return {"((", {Kind::Begin, a}, a, {Kind::End, a}, ">", {Kind::Begin, b}, b, {Kind::End, b}, {Kind::Choose, u}};
    }
    case Op::Where: return {"(", u.src(0), "?", u.src(1), ":", u.src(2), ")"};
    default: throw Error(ErrorCode::NotImplemented, fmt::format("{} has no C text", name(u.op())));
  }
}

void CRenderer::statement(const Line& l, const Linearized& program) {
  const UOp u = l.node;
  expr_.clear();
  const auto define = [&](const char* prefix) {
    const std::string name = fresh(prefix);
    line(fmt::format("{} {} = {};", type_name(u.dtype()), name, expr_));
    named(u, name);
  };
  switch (l.kind) {
    case Line::Kind::Alloc: return declare(u);
    case Line::Kind::Open: return open_loop(u);
    case Line::Kind::Close: return close_loop(u);
    case Line::Kind::Barrier: return barrier(u);
    case Line::Kind::Load: cell(program.cell(u)); return define("val");
    case Line::Kind::Alu: value(u); return define("alu");
    case Line::Kind::Store:
      cell(program.cell(u));
      append(" = ");
      value(u.src(1));
      append(";");
      return line(expr_);
  }
}

std::string CRenderer::render(const Linearized& program, const std::string& name) {
  names_.clear();
  out_.clear();
  counter_ = depth_ = 0;
  line(head(program.params, name));
  indent();
  for (const Line& l : program.lines) statement(l, program);
  outdent();
  line("}");
  return std::move(out_);
}

}  // namespace uopc
