// The parser of A.5: one pass over the text, a statement at a time, no recursion.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "ir/py_text.hpp"
#include "ir/uir_text.hpp"
#include "uopc/uir.hpp"

namespace uopc {
namespace {

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

std::string list_keys(Op op) {
  std::string list;
  for (int k = 0; k < kKeyCount; k++)
    if (keys_of(op) >> k & 1) list += fmt::format("{}{}", list.empty() ? "" : ", ", kKeys[k]);
  return list.empty() ? "none" : list;
}

template <class Enum>
Enum enum_literal(std::string_view s, std::string_view what, int count) {
  for (int i = 0; i < count; i++) {
    if (lower_case(name(static_cast<Enum>(i))) == lower_case(s)) return static_cast<Enum>(i);
  }
  std::string choices;
  for (int i = 0; i < count; i++) {
    if (i > 0) choices += i + 1 < count ? ", " : " or ";
    choices += lower_case(name(static_cast<Enum>(i)));
  }
  parse_error("unknown {} {}: it is {}", what, py_repr(s), choices);
}

class Attributes {
 public:
  void parse(Op op, std::string_view text) {
    present_ = 0;
    for (text = trim(text); !text.empty(); text = trim(text)) {
      const std::string_view item = take(text, is_blank);
      const size_t equals = item.find('=');
      if (equals == item.npos) parse_error("attribute {} is not key=value", py_repr(item));
      const std::string_view key = item.substr(0, equals);
      int k = 0;
      while (k < kKeyCount && kKeys[k] != key) k++;
      if (k == kKeyCount || !(keys_of(op) >> k & 1))
        parse_error("{} has no attribute {}: it has {}", name(op), py_repr(key), list_keys(op));
      if (present_ >> k & 1) parse_error("attribute {} is given twice", py_repr(key));
      present_ |= 1u << k;
      values_[k] = item.substr(equals + 1);
    }
  }

  bool has(Key k) const { return present_ >> static_cast<int>(k) & 1; }
  std::string_view at(Key k) const { return values_[static_cast<int>(k)]; }
  void require(Op op, Key k) const {
    if (!has(k)) parse_error("{} needs the attribute {}", name(op), py_repr(kKeys[static_cast<int>(k)]));
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

// The values of the names so far. Those of the printer's kind, "%12", are found by their number.
class Names {
 public:
  explicit Names(size_t limit) : limit_(limit) {}

  UOp find(std::string_view name) const {
    if (const size_t n = number(name); n < limit_) return n < numbered_.size() ? numbered_[n] : UOp();
    const auto it = others_.find(name);
    return it == others_.end() ? UOp() : it->second;
  }
  void set(std::string_view name, UOp u) {
    const size_t n = number(name);
    if (n >= limit_) {
      others_.insert_or_assign(name, u);
      return;
    }
    if (n >= numbered_.size()) numbered_.resize(std::max(n + 1, std::min(numbered_.size() * 2, limit_)));
    numbered_[n] = u;
  }

 private:
  static size_t number(std::string_view name) {
    const bool canonical = name.size() == 2 || (name.size() > 2 && name.size() < 12 && name[1] != '0');
    size_t n = 0;
    for (char c : name.substr(1)) {
      if (!canonical || c < '0' || c > '9') return SIZE_MAX;
      n = n * 10 + static_cast<size_t>(c - '0');
    }
    return name.size() > 1 ? n : SIZE_MAX;
  }

  size_t limit_;  // on the numbers that are looked up so: a short text may hold a large one
  std::vector<UOp> numbered_;
  std::unordered_map<std::string_view, UOp> others_;
};

class Parser {
 public:
  Parser(Graph& graph, std::string_view text) : graph_(graph), names_(text.size() / 8) {}

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
      if (!last) parse_error("the program has no statement");
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
    if (s.front() != '%' || equals == s.npos) parse_error("a statement is '%name = op operands : attributes'");
    const std::string_view result = trim(s.substr(0, equals));
    const std::string_view value = trim(s.substr(equals + 1));
    const size_t colon = attribute_colon(value);
    std::string_view operands = trim(value.substr(0, colon));
    size_t op_end = 0;
    while (op_end < operands.size() && !is_blank(operands[op_end])) op_end++;
    const std::string_view op_name = operands.substr(0, op_end);
    const auto op = op_from_name(op_name);
    if (!op) parse_error("{}", py_repr(upper_case(op_name)));

    split_operands(trim(operands.substr(op_end)));
    attributes_.parse(*op, colon == value.npos ? std::string_view() : value.substr(colon + 1));
    const UOp u = make(*op);
    names_.set(result, u);
    return u;
  }

  void split_operands(std::string_view s) {
    operands_.clear();
    if (s.empty()) return;
    for (;;) {
      const std::string_view piece = trim(take(s, [](char c) { return c == ','; }));
      if (piece.empty()) parse_error("an operand is missing");
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
        if (!attributes_.has(Key::DType)) return graph_.constant(literal_value(value, {}, Literal::Const));
        const DType d = attributes_.dtype();
        return graph_.constant(literal_value(value, d, Literal::Const), d);
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
        if (operands_.empty()) parse_error("{} needs a source and a tuple", name(op));
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
          if (!reduction) parse_error("unknown op {}: it is add or max", py_repr(attributes_.at(Key::Op)));
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
        if (attributes_.has(Key::Name)) a.name = attributes_.at(Key::Name);
        return make_call(std::move(a));
      }
      case Op::Stage:
        if (!attributes_.has(Key::Name)) break;
        if (attributes_.at(Key::Name) != "detach")
          parse_error("the name of a STAGE is detach or absent, got {}", py_repr(attributes_.at(Key::Name)));
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
    if (operands_.size() != 1) parse_error("{} needs {} as its one operand, got {}", name(op), what, operands_.size());
    return operands_[0];
  }

  static bool is_name(std::string_view operand) { return operand.front() == '%'; }

  // Fills src_ with the nodes of the named ones of the first `n` operands. Whether there are others.
  bool resolve_names(size_t n) {
    src_.assign(n, UOp());
    bool literals = false;
    for (size_t i = 0; i < n; i++) {
      if (!is_name(operands_[i])) {
        literals = true;
        continue;
      }
      src_[i] = names_.find(operands_[i]);
      if (!src_[i]) parse_error("undefined {}", operands_[i]);
    }
    return literals;
  }

  void resolve(Op op, size_t n) {
    if (!resolve_names(n)) return;
    const std::optional<DType> common = dtype_of_literals(op);
    for (size_t i = 0; i < n; i++)
      if (!src_[i]) src_[i] = literal(operands_[i], op == Op::Store && i > 1 ? std::nullopt : common);
  }

  // A literal argument takes the dtype of its PARAM. In canonical text it has it already, so the walk over the body
  // that finds the PARAMs is only made where the literals do not fit as they are.
  UOp make_call(CallArg arg) {
    const size_t n = operands_.size();
    const bool literals = resolve_names(n);
    try {
      for (size_t i = 0; i < n; i++)
        if (!src_[i]) src_[i] = literal(operands_[i], {});
      return graph_.make(Op::Call, src_, arg);
    } catch (const Error&) {
      if (!literals || !src_[0]) throw;
    }
    const auto dtypes = param_dtypes(n);
    for (size_t i = 1; i < n; i++)
      if (!is_name(operands_[i])) src_[i] = literal(operands_[i], dtypes[i]);
    return graph_.make(Op::Call, src_, std::move(arg));
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
    const Scalar v = literal_value(s, target, Literal::Operand);
    return target && !v.is_bool() ? graph_.constant(v, *target) : graph_.constant(v);
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
        if (a != b && a != 1 && b != 1) parse_error("can't broadcast {} with {}", py_tuple(common), py_tuple(own));
        merged[merged.size() - k] = a == 1 ? b : a;
      }
      common = std::move(merged);
    }
    for (UOp& u : src_) u = u.broadcast_to(common);
  }

  Graph& graph_;
  Names names_;
  std::vector<std::string_view> operands_;
  std::vector<UOp> src_;
  Attributes attributes_;
};

}  // namespace

UOp parse(Graph& graph, std::string_view text) {
  return Parser(graph, text).run(text);
}

}  // namespace uopc
