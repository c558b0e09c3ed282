// The language of rewrite rules. A UPat is a tree written in infix, and serves as a rule's left side (what to match),
// its right side (what to build) and its condition (what must hold of the variables):
//
//   const UPat x = var('x'), c = integer('c');
//   Rule{"small-mod", x % c, x, 0 <= vmin(x) && vmax(x) < c}
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/bounds.hpp"
#include "uopc/uop.hpp"

namespace uopc {

struct PatNode;

class UPat {
 public:
  UPat() = default;
  UPat(int literal) : UPat(Scalar(literal)) {}  // an integer literal is an i32 CONST, 1.0 an f32 one
  UPat(double literal) : UPat(Scalar(literal)) {}
  UPat(bool literal) : UPat(Scalar(literal)) {}
  UPat(Scalar literal);
  explicit UPat(PatNode node);

  const PatNode& operator*() const { return *node_; }
  const PatNode* operator->() const { return node_.get(); }
  bool empty() const { return node_ == nullptr; }

 private:
  std::shared_ptr<const PatNode> node_;
};

struct PatNode {
  enum class Kind : uint8_t {
    Var,       // anything; the same thing wherever the letter occurs
    Integer,   // an i32 CONST
    Constant,  // any CONST
    Literal,
    Any,  // a node whose op is one of `ops`, with any sources
    Op,
    // Of conditions only; their value is an integer, and their arithmetic does not wrap.
    VMin,
    VMax,
    Exact,  // Bounds::exact
    Terms,  // Bounds::terms
    Fits,   // the value of the operand, a formula of constants, is an i32
    LessEqual,
    Equal,
    And,
  };
  Kind kind;
  char letter = 0;
  Scalar literal = {};
  Op op = Op::Const;
  OpSet ops = {};
  bool either_order = false;
  std::vector<UPat> src = {};
};

UPat var(char letter);
UPat integer(char letter);
UPat constant(char letter);
UPat any_of(OpSet ops);
UPat node(Op op, std::vector<UPat> src);
UPat either_order(const UPat& p);  // `p` as written, then with its two operands swapped

UPat operator+(const UPat& a, const UPat& b);
UPat operator*(const UPat& a, const UPat& b);
UPat operator/(const UPat& a, const UPat& b);  // FLOORDIV
UPat operator%(const UPat& a, const UPat& b);
UPat operator<(const UPat& a, const UPat& b);
UPat ne(const UPat& a, const UPat& b);
UPat max(const UPat& a, const UPat& b);
UPat where(const UPat& c, const UPat& a, const UPat& b);

UPat vmin(const UPat& p);
UPat vmax(const UPat& p);
UPat exact(const UPat& p);
UPat terms(const UPat& p);
UPat fits(const UPat& p);
UPat operator<=(const UPat& a, const UPat& b);
UPat operator==(const UPat& a, const UPat& b);
UPat operator&&(const UPat& a, const UPat& b);

std::string to_string(const UPat& p);

// What the letters of a pattern stand for.
class Bindings {
 public:
  UOp operator[](char letter) const { return values_[letter - 'a']; }
  bool bind(char letter, UOp u) {  // false where the letter already stands for something else
    const uint32_t bit = 1u << (letter - 'a');
    if (bound_ & bit) return values_[letter - 'a'] == u;
    bound_ |= bit;
    values_[letter - 'a'] = u;
    return true;
  }
  void clear() { bound_ = 0; }

 private:
  uint32_t bound_ = 0;
  UOp values_[26];
};

// Adds to `bindings`; their contents are unspecified when it returns false. Orders are as written: a pattern with
// `either_order` in it is matched through its `variants`.
bool match(const UPat& pattern, UOp u, Bindings& bindings);
std::vector<UPat> variants(const UPat& pattern);

// Ops on constants are folded on the way.
UOp build(const UPat& after, const Bindings& bindings, Graph& graph);

bool holds(const UPat& condition, const Bindings& bindings, Graph& graph, Bounds& bounds);

}  // namespace uopc
