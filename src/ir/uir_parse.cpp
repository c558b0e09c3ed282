// The parser of A.5: one pass over the text, a statement at a time, no recursion.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "ir/py_text.hpp"
#include "ir/uir_text.hpp"
#include "uopc/uir.hpp"

namespace uopc {
namespace {

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::Parse, fmt::format(format, std::forward<Args>(args)...));
}

bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
std::string_view trim(std::string_view s) {
  while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
  return s;
}
// Takes the piece of `s` up to the first character that `stop` accepts outside parentheses.
template <class Stop>
std::string_view take(std::string_view& s, Stop stop) {
  int64_t depth = 0;
  size_t i = 0;
  for (; i < s.size(); i++) {
    if (s[i] == '(') depth++;
    if (s[i] == ')' && depth > 0) depth--;
    if (depth == 0 && stop(s[i])) break;
  }
  const std::string_view piece = s.substr(0, i);
  s.remove_prefix(i);
  return piece;
}

// ---- literals ------------------------------------------------------------------------------------------------------

// The value of an integer literal that leaves int64, as Python's float() rounds it; nothing when `s` is no integer.
std::optional<double> huge_int(std::string_view s) {
  const bool negative = s.starts_with('-');
  if (negative || s.starts_with('+')) s.remove_prefix(1);
  if (s.empty() || s[0] < '0' || s[0] > '9') return std::nullopt;
  double magnitude = 0;
  const char prefix = s[0] == '0' && s.size() > 2 ? static_cast<char>(s[1] | 0x20) : ' ';
  const int digit_bits = prefix == 'x' ? 4 : prefix == 'o' ? 3 : prefix == 'b' ? 1 : 0;
  if (digit_bits) {
    // The leading bits, the last of them sticky, so that the conversion below rounds as if it saw them all.
    uint64_t lead = 0;
    int dropped = 0;
    bool after_digit = true;
    for (char c : s.substr(2)) {
      if (c == '_') {
        if (!after_digit) return std::nullopt;
        after_digit = false;
        continue;
      }
      const char lower = static_cast<char>(c | 0x20);
      const int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
      if (digit >> digit_bits) return std::nullopt;
      after_digit = true;
      if (lead >> (64 - digit_bits) == 0) {
        lead = lead << digit_bits | digit;
      } else {
        lead |= digit != 0;
        if (dropped < 4096) dropped += digit_bits;
      }
    }
    if (!after_digit) return std::nullopt;
    magnitude = std::ldexp(static_cast<double>(lead), dropped);
  } else {
    if (s[0] == '0' || s.find_first_not_of("0123456789_") != s.npos) return std::nullopt;
    const auto v = py_number(std::string(s) + ".0");
    if (!v) return std::nullopt;
    magnitude = v->as_float();
  }
  if (std::isinf(magnitude)) fail("int too large to convert to float");
  return negative ? -magnitude : magnitude;
}

// Plain decimal digits, the common case; everything else is py_number's.
std::optional<Scalar> short_int(std::string_view s) {
  const size_t sign = s.starts_with('-');
  if (s.size() <= sign || s.size() > 18 || (s[sign] == '0' && s.size() > sign + 1)) return std::nullopt;
  int64_t v = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return Scalar(v);
}

// "nan(0x7ff8000000000001)": a NaN other than the usual one, by its bits.
std::optional<Scalar> nan_of_bits(std::string_view s) {
  if (!s.starts_with("nan(0x") || !s.ends_with(')')) return std::nullopt;
  s = s.substr(6, s.size() - 7);
  uint64_t bits = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), bits, 16);
  const double v = std::bit_cast<double>(bits);
  if (error != std::errc() || end != s.data() + s.size() || v == v) return std::nullopt;
  return Scalar(v);
}

std::optional<Scalar> scalar_literal(std::string_view s) {
  if (auto v = short_int(s)) return v;
  if (s == "true" || s == "True") return Scalar(true);
  if (s == "false" || s == "False") return Scalar(false);
  if (s == "+inf" || s == "+nan" || s == "-nan") return std::nullopt;
  if (auto v = py_number(s)) return v;
  return nan_of_bits(s);
}

// The value of literal `s` where a constant of `target` is wanted; of its own Python type when there is no target.
Scalar literal_value(std::string_view s, std::optional<DType> target) {
  if (s.empty()) fail("an operand is missing");
  if (s.front() == '(') fail("no dtype for python value {}", s);
  const auto v = scalar_literal(s);
  if (!v) {
    if (const auto huge = huge_int(s)) {
      if (target == DType::Bool) return true;
      if (target && is_float(*target)) return *huge;
      fail("integer {} is out of range", s);
    }
    fail("bad literal {}", py_repr(s));
  }
  if (target == DType::I32 && v->is_float()) {
    const double d = v->as_float();
    if (std::isnan(d)) fail("cannot convert float NaN to integer");
    if (std::isinf(d)) fail("cannot convert float infinity to integer");
    if (d >= 0x1p63 || d < -0x1p63) fail("integer {} is out of range", s);
  }
  return target ? dtypes::convert(*v, *target) : *v;
}

int64_t int_literal(std::string_view s, std::string_view what) {
  if (const auto v = scalar_literal(s); v && v->is_int()) return v->as_int();
  if (!s.empty() && huge_int(s)) fail("{} {} is out of range", what, s);
  fail("{} must be an int, got {}", what, py_repr(s));
}

// Takes the elements of tuple `s` one by one.
template <class Element>
void each_element(std::string_view s, std::string_view what, Element element) {
  if (s.size() < 2 || s.front() != '(' || s.back() != ')') fail("{} must be a tuple, got {}", what, py_repr(s));
  std::string_view rest = trim(s.substr(1, s.size() - 2));
  while (!rest.empty()) {
    element(trim(take(rest, [](char c) { return c == ','; })));
    if (!rest.empty()) rest = trim(rest.substr(1));
  }
}

Shape shape_literal(std::string_view s, std::string_view what) {
  Shape shape;
  each_element(s, what, [&](std::string_view e) { shape.push_back(int_literal(e, "size")); });
  return shape;
}

ShrinkArg shrink_literal(std::string_view s) {
  ShrinkArg arg;
  each_element(s, "bounds", [&](std::string_view pair) {
    int64_t ends[2] = {}, n = 0;
    each_element(pair, "bounds of an axis", [&](std::string_view e) {
      if (n == 2) fail("bounds of an axis are (begin, end), got {}", pair);
      ends[n++] = int_literal(e, "bound");
    });
    if (n != 2) fail("bounds of an axis are (begin, end), got {}", pair);
    arg.bounds.emplace_back(ends[0], ends[1]);
  });
  return arg;
}

// ---- attributes ----------------------------------------------------------------------------------------------------

enum class Key : uint8_t { DType, Slot, Shape, Op, Pop, Idx, Kind, Space, Name };
constexpr std::string_view kKeys[] = {"dtype", "slot", "shape", "op", "pop", "idx", "kind", "space", "name"};
constexpr int kKeyCount = std::size(kKeys);

constexpr unsigned keys(std::initializer_list<Key> list) {
  unsigned mask = 0;
  for (Key k : list) mask |= 1u << static_cast<int>(k);
  return mask;
}
constexpr unsigned keys_of(Op op) {
  switch (op) {
    case Op::Const:
    case Op::Cast:
      return keys({Key::DType});
    case Op::Buffer:
      return keys({Key::DType, Key::Slot});
    case Op::Alloc:
      return keys({Key::DType, Key::Slot, Key::Space});
    case Op::Param:
      return keys({Key::DType, Key::Slot, Key::Shape});
    case Op::Reduce:
      return keys({Key::Op, Key::Pop});
    case Op::Range:
      return keys({Key::Idx, Key::Kind});
    case Op::Call:
    case Op::Stage:
      return keys({Key::Name});
    default:
      return 0;
  }
}

template <class Enum>
Enum enum_literal(std::string_view s, std::string_view what, int count) {
  for (int i = 0; i < count; i++) {
    if (lower_case(name(static_cast<Enum>(i))) == lower_case(s)) return static_cast<Enum>(i);
  }
  fail("unknown {} {}", what, py_repr(s));
}

class Attributes {
 public:
  void parse(Op op, std::string_view text) {
    present_ = 0;
    for (text = trim(text); !text.empty(); text = trim(text)) {
      const std::string_view item = take(text, is_blank);
      const size_t equals = item.find('=');
      if (equals == item.npos) fail("attribute {} is not key=value", py_repr(item));
      const std::string_view key = item.substr(0, equals);
      int k = 0;
      while (k < kKeyCount && kKeys[k] != key) k++;
      if (k == kKeyCount) fail("unknown attribute {}", py_repr(key));
      if (!(keys_of(op) >> k & 1)) fail("{} has no attribute {}", name(op), py_repr(key));
      if (present_ >> k & 1) fail("attribute {} is given twice", py_repr(key));
      present_ |= 1u << k;
      values_[k] = item.substr(equals + 1);
    }
  }

  bool has(Key k) const { return present_ >> static_cast<int>(k) & 1; }
  std::string_view at(Key k) const { return values_[static_cast<int>(k)]; }
  void require(Op op, Key k) const {
    if (!has(k)) fail("{} needs the attribute {}", name(op), py_repr(kKeys[static_cast<int>(k)]));
  }
  int64_t integer(Key k, int64_t otherwise) const {
    return has(k) ? int_literal(at(k), kKeys[static_cast<int>(k)]) : otherwise;
  }
  DType dtype() const { return has(Key::DType) ? dtypes::from_name(at(Key::DType)) : DType::F32; }

 private:
  std::array<std::string_view, kKeyCount> values_;
  unsigned present_ = 0;
};

// ---- statements ----------------------------------------------------------------------------------------------------

// Where the attributes begin: at a ':' that may not be confused with one inside a name, which no '=' follows.
size_t attribute_colon(std::string_view s) {
  const size_t equals = s.find('=');
  if (equals != s.npos) return s.substr(0, equals).rfind(':');
  for (size_t i = s.find(':'); i != s.npos; i = s.find(':', i + 1))
    if (i == 0 || i + 1 == s.size() || is_blank(s[i - 1]) || is_blank(s[i + 1])) return i;
  return s.npos;
}

class Parser {
 public:
  explicit Parser(Graph& graph) : graph_(graph) {}

  UOp run(std::string_view text) {
    UOp last;
    size_t line = 0;
    std::string_view statement;
    try {
      while (!text.empty()) {
        line++;
        statement = next_statement(text);
        if (!statement.empty()) last = parse_statement(statement);
      }
      if (!last) fail("the program has no statement");
    } catch (const Error& e) {
      if (e.code() != ErrorCode::Type && e.code() != ErrorCode::Parse) throw;
      throw Error(ErrorCode::Parse,
                  fmt::format("line {}: {}: {}", std::max<size_t>(line, 1), py_repr(statement), e.what()));
    }
    return last;
  }

 private:
  // Takes one line, however it ends; the rest of it after comment and blanks are gone.
  static std::string_view next_statement(std::string_view& text) {
    size_t end = 0;
    while (end < text.size() && text[end] != '\n' && text[end] != '\r') end++;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    text.remove_prefix(text.starts_with("\r\n") ? 2 : !text.empty());
    return trim(line.substr(0, line.find('#')));
  }

  UOp parse_statement(std::string_view s) {
    const size_t equals = s.find('=');
    if (s.front() != '%' || equals == s.npos) fail("a statement is '%name = op operands : attributes'");
    const std::string_view result = trim(s.substr(0, equals));
    const std::string_view value = trim(s.substr(equals + 1));
    const size_t colon = attribute_colon(value);
    std::string_view operands = trim(value.substr(0, colon));
    size_t op_end = 0;
    while (op_end < operands.size() && !is_blank(operands[op_end])) op_end++;
    const std::string_view op_name = operands.substr(0, op_end);
    const auto op = op_from_name(op_name);
    if (!op) fail("{}", py_repr(upper_case(op_name)));

    split_operands(trim(operands.substr(op_end)));
    attributes_.parse(*op, colon == value.npos ? std::string_view() : value.substr(colon + 1));
    const UOp u = make(*op);
    names_.insert_or_assign(result, u);
    return u;
  }

  void split_operands(std::string_view s) {
    operands_.clear();
    if (s.empty()) return;
    for (;;) {
      const std::string_view piece = trim(take(s, [](char c) { return c == ','; }));
      if (piece.empty()) fail("an operand is missing");
      operands_.push_back(piece);
      if (s.empty()) return;
      s.remove_prefix(1);
    }
  }

  UOp make(Op op) {
    Arg arg;
    size_t sources = operands_.size();
    switch (op) {
      case Op::Const: {
        const std::string_view value = only_operand(op, "a value");
        if (!attributes_.has(Key::DType)) return graph_.constant(literal_value(value, {}));
        const DType d = attributes_.dtype();
        return graph_.constant(literal_value(value, d), d);
      }
      case Op::Buffer:
      case Op::Alloc: {
        ParamArg a{attributes_.integer(Key::Slot, 0), attributes_.dtype(), {}, {}};
        if (attributes_.has(Key::Space)) a.addrspace = enum_literal<AddrSpace>(attributes_.at(Key::Space), "space", 4);
        a.shape = {int_literal(only_operand(op, "a size"), "size")};
        arg = std::move(a);
        sources = 0;
        break;
      }
      case Op::Param: {
        attributes_.require(op, Key::Slot);
        ParamArg a{attributes_.integer(Key::Slot, 0), attributes_.dtype(), {}, {}};
        if (attributes_.has(Key::Shape)) a.shape = shape_literal(attributes_.at(Key::Shape), "shape");
        arg = std::move(a);
        break;
      }
      case Op::Reshape:
      case Op::Expand:
      case Op::Permute:
      case Op::Shrink: {
        if (operands_.empty()) fail("{} needs a source and a tuple", name(op));
        const std::string_view last = operands_[--sources];
        if (op == Op::Shrink)
          arg = shrink_literal(last);
        else
          arg = shape_literal(last, op == Op::Permute ? "permutation" : "shape");
        break;
      }
      case Op::Cast:
        attributes_.require(op, Key::DType);
        arg = attributes_.dtype();
        break;
      case Op::Reduce: {
        ReduceArg a{Op::Add, attributes_.integer(Key::Pop, 1)};
        if (attributes_.has(Key::Op)) {
          const auto reduction = op_from_name(attributes_.at(Key::Op));
          if (!reduction) fail("unknown op {}", py_repr(attributes_.at(Key::Op)));
          a.op = *reduction;
        }
        arg = a;
        break;
      }
      case Op::Range: {
        RangeArg a{attributes_.integer(Key::Idx, 0), AxisType::Loop};
        if (attributes_.has(Key::Kind)) a.kind = enum_literal<AxisType>(attributes_.at(Key::Kind), "kind", 6);
        arg = a;
        break;
      }
      case Op::Call: {
        CallArg a;
        if (attributes_.has(Key::Name)) a.name = call_name(attributes_.at(Key::Name));
        arg = std::move(a);
        break;
      }
      case Op::Stage:
        if (!attributes_.has(Key::Name)) break;
        if (attributes_.at(Key::Name) != "detach")
          fail("the name of a STAGE is detach or absent, got {}", py_repr(attributes_.at(Key::Name)));
        arg = DetachArg{};
        break;
      default:
        break;
    }
    resolve(op, sources);
    broadcast(op);
    return graph_.make(op, src_, std::move(arg));
  }

  std::string_view only_operand(Op op, const char* what) const {
    if (operands_.size() != 1) fail("{} needs {} as its one operand, got {}", name(op), what, operands_.size());
    return operands_[0];
  }

  static std::string call_name(std::string_view s) {
    if (auto plain = unquote(s)) return *std::move(plain);
    fail("bad name {}", py_repr(s));
  }

  // Fills src_ with the nodes of the first `n` operands.
  void resolve(Op op, size_t n) {
    src_.assign(n, UOp());
    bool literals = false;
    for (size_t i = 0; i < n; i++) {
      const std::string_view operand = operands_[i];
      if (operand.front() != '%') {
        literals = true;
        continue;
      }
      const auto it = names_.find(operand);
      if (it == names_.end()) fail("undefined {}", operand);
      src_[i] = it->second;
    }
    if (!literals) return;

    const std::optional<DType> common = dtype_of_literals(op);
    std::vector<std::optional<DType>> of_params;
    for (size_t i = 0; i < n; i++) {
      if (src_[i]) continue;
      std::optional<DType> target = common;
      if (op == Op::Store && i > 1) target = {};
      if (op == Op::Call && i > 0) {
        if (of_params.empty()) of_params = param_dtypes(n);
        target = of_params[i];
      }
      src_[i] = literal(operands_[i], target);
    }
  }

  // The dtype that literals of a statement take from its first %name. Where an op does not ask its sources to agree,
  // a literal keeps its own type: the printer may have put a constant of any type there.
  std::optional<DType> dtype_of_literals(Op op) const {
    switch (op) {
      case Op::Index:
      case Op::Range:
      case Op::Load:
      case Op::After:
      case Op::Sink:
      case Op::End:
      case Op::Barrier:
      case Op::Call:
      case Op::Wmma:
        return {};
      default:
        break;
    }
    for (size_t i = op == Op::Where; i < src_.size(); i++)
      if (src_[i]) return src_[i].dtype();
    return {};
  }

  // By source of a CALL of `n` sources: the dtype of the PARAM that it stands for.
  std::vector<std::optional<DType>> param_dtypes(size_t n) const {
    std::vector<std::optional<DType>> result(n);
    for (UOp p : call_params(src_[0])) {
      const ParamArg& a = p.arg<ParamArg>();
      if (a.slot >= 0 && a.slot < static_cast<int64_t>(n) - 1) result[a.slot + 1] = a.dtype;
    }
    return result;
  }

  UOp literal(std::string_view s, std::optional<DType> target) {
    if (target == DType::Void) target = {};
    if (const auto v = scalar_literal(s); v && v->is_bool()) return graph_.constant(*v);
    const Scalar v = literal_value(s, target);
    return target ? graph_.constant(v, *target) : graph_.constant(v);
  }

  // NumPy's rule on the sources of a binary op or a WHERE; a wrong number of them is the type checker's to report.
  void broadcast(Op op) {
    if (!(kBinary.has(op) && src_.size() == 2) && !(op == Op::Where && src_.size() == 3)) return;
    bool equal = true;
    for (UOp u : src_) equal = equal && u.shape() == src_[0].shape();
    if (equal) return;
    Shape common;
    for (UOp u : src_) {
      const Shape& own = u.shape();
      Shape merged = own.size() > common.size() ? own : common;
      for (size_t k = 1; k <= std::min(own.size(), common.size()); k++) {
        const int64_t a = common[common.size() - k], b = own[own.size() - k];
        if (a != b && a != 1 && b != 1) fail("can't broadcast {} with {}", py_tuple(common), py_tuple(own));
        merged[merged.size() - k] = a == 1 ? b : a;
      }
      common = std::move(merged);
    }
    for (UOp& u : src_) u = u.broadcast_to(common);
  }

  Graph& graph_;
  std::unordered_map<std::string_view, UOp> names_;
  std::vector<std::string_view> operands_;
  std::vector<UOp> src_;
  Attributes attributes_;
};

}  // namespace

UOp parse(Graph& graph, std::string_view text) {
  return Parser(graph).run(text);
}

}  // namespace uopc
