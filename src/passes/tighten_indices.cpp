#include "passes/tighten_indices.hpp"

#include "ir/bounds.hpp"
#include "ir/walk.hpp"
#include "passes/linear_form.hpp"

namespace uopc {
namespace {

int64_t floor_quotient(int64_t a, int64_t n) {
  return a / n - (a % n < 0 ? 1 : 0);
}

class Tightener {
 public:
  UOp operator()(UOp u) {
    if (!(u.is(Op::FloorDiv) || u.is(Op::FloorMod)) || u.dtype() != DType::I32 || !u.src(1).is_const()) return u;
    const int64_t n = u.src(1).value().as_int();
    if (n < 2 || !bounds_.exact(u.src(0))) return u;
    const auto form = linear_form(u.src(0));
    if (!form) return u;
    LinearForm quotient, rest;
    for (const auto& [id, term] : form->terms) {
      const int64_t q = floor_quotient(term.second, n), r = term.second - q * n;
      if (q != 0) quotient.terms[id] = {term.first, q};
      if (r != 0) rest.terms[id] = {term.first, r};
    }
    quotient.constant = floor_quotient(form->constant, n);
    rest.constant = form->constant - quotient.constant * n;
    const UOp left = rest.expression(u.graph());
    const Interval known = bounds_.of(left);
    if (!bounds_.exact(left) || known.empty() || known.lo < 0 || known.hi >= n) return u;
    return u.is(Op::FloorMod) ? left : quotient.expression(u.graph());
  }

 private:
  Bounds bounds_;
};

}  // namespace

UOp tighten_indices(UOp root) {
  Tightener tighten;
  NodeMap<UOp> images;
  return map_graph(root, images, [&](UOp, UOp u) { return tighten(u); });
}

}  // namespace uopc
