#include "ir/pattern.hpp"

#include <fmt/format.h>

#include <array>

#include "ir/fold.hpp"
#include "ir/py_text.hpp"

namespace uopc {

using Kind = PatNode::Kind;

UPat::UPat(Scalar literal) : UPat(PatNode{.kind = Kind::Literal, .literal = literal}) {}
UPat::UPat(PatNode node) : node_(std::make_shared<const PatNode>(std::move(node))) {}

namespace {

UPat letter_of(Kind kind, char letter) {
  if (letter < 'a' || letter > 'z')
    throw Error(ErrorCode::Internal, fmt::format("the variable {:?} of a pattern is not one of a to z", letter));
  return UPat(PatNode{.kind = kind, .letter = letter});
}
UPat condition(Kind kind, std::vector<UPat> src) {
  return UPat(PatNode{.kind = kind, .src = std::move(src)});
}

bool is_integer(UOp u) {
  if (!u.is_const() || !u.value().is_int()) return false;
  const int64_t v = u.value().as_int();
  return INT32_MIN <= v && v <= INT32_MAX;
}

}  // namespace

UPat var(char letter) {
  return letter_of(Kind::Var, letter);
}
UPat integer(char letter) {
  return letter_of(Kind::Integer, letter);
}
UPat constant(char letter) {
  return letter_of(Kind::Constant, letter);
}
UPat any_of(OpSet ops) {
  return UPat(PatNode{.kind = Kind::Any, .ops = ops});
}
UPat node(Op op, std::vector<UPat> src) {
  return UPat(PatNode{.kind = Kind::Op, .op = op, .src = std::move(src)});
}
UPat either_order(const UPat& p) {
  PatNode n = *p;
  if (n.src.size() != 2) throw Error(ErrorCode::Internal, "either_order of a pattern without two operands");
  n.either_order = true;
  return UPat(std::move(n));
}

UPat operator+(const UPat& a, const UPat& b) {
  return node(Op::Add, {a, b});
}
UPat operator*(const UPat& a, const UPat& b) {
  return node(Op::Mul, {a, b});
}
UPat operator/(const UPat& a, const UPat& b) {
  return node(Op::FloorDiv, {a, b});
}
UPat operator%(const UPat& a, const UPat& b) {
  return node(Op::FloorMod, {a, b});
}
UPat operator<(const UPat& a, const UPat& b) {
  return node(Op::CmpLt, {a, b});
}
UPat ne(const UPat& a, const UPat& b) {
  return node(Op::CmpNe, {a, b});
}
UPat max(const UPat& a, const UPat& b) {
  return node(Op::Max, {a, b});
}
UPat where(const UPat& c, const UPat& a, const UPat& b) {
  return node(Op::Where, {c, a, b});
}

UPat vmin(const UPat& p) {
  return condition(Kind::VMin, {p});
}
UPat vmax(const UPat& p) {
  return condition(Kind::VMax, {p});
}
UPat exact(const UPat& p) {
  return condition(Kind::Exact, {p});
}
UPat terms(const UPat& p) {
  return condition(Kind::Terms, {p});
}
UPat fits(const UPat& p) {
  return condition(Kind::Fits, {p});
}
UPat operator<=(const UPat& a, const UPat& b) {
  return condition(Kind::LessEqual, {a, b});
}
UPat operator==(const UPat& a, const UPat& b) {
  return condition(Kind::Equal, {a, b});
}
UPat operator&&(const UPat& a, const UPat& b) {
  return condition(Kind::And, {a, b});
}

std::string to_string(const UPat& p) {
  const auto infix = [&](const char* sign) {
    return fmt::format("({} {} {})", to_string(p->src[0]), sign, to_string(p->src[1]));
  };
  const auto call = [&](std::string_view name) {
    std::string text(name);
    for (size_t i = 0; i < p->src.size(); i++) text += (i ? ", " : "(") + to_string(p->src[i]);
    return text + ")";
  };
  switch (p->kind) {
    case Kind::Var:
    case Kind::Integer:
    case Kind::Constant:
      return std::string(1, p->letter);
    case Kind::Literal:
      return p->literal.is_bool() ? (p->literal.as_bool() ? "true" : "false") : py_repr(p->literal);
    case Kind::Any:
      return "any op";
    case Kind::VMin:
      return call("vmin");
    case Kind::VMax:
      return call("vmax");
    case Kind::Exact:
      return call("exact");
    case Kind::Terms:
      return call("terms");
    case Kind::Fits:
      return call("fits");
    case Kind::LessEqual:
      return infix("<=");
    case Kind::Equal:
      return infix("==");
    case Kind::And:
      return infix("&&");
    case Kind::Op:
      break;
  }
  switch (p->op) {
    case Op::Add:
      return infix("+");
    case Op::Mul:
      return infix("*");
    case Op::FloorDiv:
      return infix("//");
    case Op::FloorMod:
      return infix("%");
    case Op::CmpLt:
      return infix("<");
    case Op::CmpNe:
      return infix("!=");
    default:
      return call(name(p->op));
  }
}

bool match(const UPat& pattern, UOp u, Bindings& bindings) {
  const PatNode& p = *pattern;
  switch (p.kind) {
    case Kind::Var:
      return bindings.bind(p.letter, u);
    case Kind::Integer:
      return is_integer(u) && bindings.bind(p.letter, u);
    case Kind::Constant:
      return u.is_const() && bindings.bind(p.letter, u);
    case Kind::Literal:
      return u.is_const(p.literal);
    case Kind::Any:
      return p.ops.has(u.op());
    case Kind::Op:
      if (!u.is(p.op) || u.src().size() != p.src.size()) return false;
      for (size_t i = 0; i < p.src.size(); i++)
        if (!match(p.src[i], u.src(i), bindings)) return false;
      return true;
    default:
      throw Error(ErrorCode::Internal, "a condition stands in a pattern: " + to_string(pattern));
  }
}

std::vector<UPat> variants(const UPat& pattern) {
  PatNode plain = *pattern;
  plain.either_order = false;
  std::vector<PatNode> all{plain};
  for (size_t i = 0; i < plain.src.size(); i++) {
    const std::vector<UPat> choices = variants(plain.src[i]);
    std::vector<PatNode> next;
    for (const PatNode& n : all)
      for (const UPat& choice : choices) {
        next.push_back(n);
        next.back().src[i] = choice;
      }
    all = std::move(next);
  }
  std::vector<UPat> result;
  for (const PatNode& n : all) result.push_back(UPat(n));
  if (!pattern->either_order) return result;
  for (PatNode& n : all) {
    std::swap(n.src[0], n.src[1]);
    result.push_back(UPat(std::move(n)));
  }
  return result;
}

UOp build(const UPat& after, const Bindings& bindings, Graph& graph) {
  const PatNode& p = *after;
  switch (p.kind) {
    case Kind::Var:
    case Kind::Integer:
    case Kind::Constant:
      return bindings[p.letter];
    case Kind::Literal:
      return graph.constant(p.literal);
    case Kind::Op:
      break;
    default:
      throw Error(ErrorCode::Internal, "a condition stands in the result of a rule: " + to_string(after));
  }
  std::array<UOp, 3> src;
  std::array<Scalar, 3> values;
  const size_t n = p.src.size();
  if (n > src.size())
    throw Error(ErrorCode::Internal, "too many operands in the result of a rule: " + to_string(after));
  bool all_const = kAlu.has(p.op) && p.op != Op::Cast;
  for (size_t i = 0; i < n; i++) {
    src[i] = build(p.src[i], bindings, graph);
    all_const = all_const && src[i].is_const();
    if (all_const) values[i] = src[i].value();
  }
  const std::span<const UOp> sources(src.data(), n);
  if (all_const) {
    const DType source_dtype = src[n - 1].dtype();
    const bool comparison = p.op == Op::CmpLt || p.op == Op::CmpNe;
    const auto v = fold(p.op, comparison ? DType::Bool : source_dtype, source_dtype, std::span(values.data(), n));
    if (v) return graph.constant(*v);
  }
  return graph.make(p.op, sources);
}

namespace {

int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t r;
  if (!__builtin_mul_overflow(a, b, &r)) return r;
  return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}
int64_t saturating_add(int64_t a, int64_t b) {
  int64_t r;
  if (!__builtin_add_overflow(a, b, &r)) return r;
  return a < 0 ? INT64_MIN : INT64_MAX;
}
int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return b == 0 ? 0 : saturating_mul(a, -1);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t evaluate(const UPat& condition, const Bindings& bindings, Graph& graph, Bounds& bounds) {
  const PatNode& p = *condition;
  const auto value = [&](size_t i) { return evaluate(p.src[i], bindings, graph, bounds); };
  const auto operand = [&] { return build(p.src[0], bindings, graph); };
  switch (p.kind) {
    case Kind::Integer:
    case Kind::Constant:
      return bindings[p.letter].value().as_int();
    case Kind::Literal:
      return p.literal.as_int();
    case Kind::VMin:
      return bounds.of(operand()).lo;
    case Kind::VMax:
      return bounds.of(operand()).hi;
    case Kind::Exact:
      return bounds.exact(operand());
    case Kind::Terms:
      return bounds.terms(operand());
    case Kind::Fits: {
      const int64_t v = value(0);
      return INT32_MIN <= v && v <= INT32_MAX;
    }
    case Kind::LessEqual:
      return value(0) <= value(1);
    case Kind::Equal:
      return value(0) == value(1);
    case Kind::And:
      return value(0) && value(1);
    case Kind::Op:
      break;
    default:
      throw Error(ErrorCode::Internal, "no value for a condition: " + to_string(condition));
  }
  switch (p.op) {
    case Op::Add:
      return saturating_add(value(0), value(1));
    case Op::Mul:
      return saturating_mul(value(0), value(1));
    case Op::FloorDiv:
      return floor_div(value(0), value(1));
    case Op::FloorMod:
      return value(0) - floor_div(value(0), value(1)) * value(1);
    case Op::CmpLt:
      return value(0) < value(1);
    case Op::CmpNe:
      return value(0) != value(1);
    default:
      throw Error(ErrorCode::Internal, "no value for a condition: " + to_string(condition));
  }
}

}  // namespace

bool holds(const UPat& condition, const Bindings& bindings, Graph& graph, Bounds& bounds) {
  return evaluate(condition, bindings, graph, bounds) != 0;
}

}  // namespace uopc
