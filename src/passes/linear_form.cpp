#include "passes/linear_form.hpp"

namespace uopc {
namespace {

constexpr size_t kMaxTerms = 64;

// Adds factor * u. The depth is bounded with the number of terms.
bool add(LinearForm& out, UOp u, int64_t factor, size_t depth) {
  if (depth > kMaxTerms || out.terms.size() > kMaxTerms) return false;
  if (u.is_const()) {
    out.constant += factor * u.value().as_int();
    return true;
  }
  if (u.is(Op::Add)) return add(out, u.src(0), factor, depth + 1) && add(out, u.src(1), factor, depth + 1);
  if (u.is(Op::Mul))
    for (const size_t k : {0u, 1u})
      if (u.src(k).is_const()) return add(out, u.src(1 - k), factor * u.src(k).value().as_int(), depth + 1);
  auto& term = out.terms[u.id()];
  term.first = u;
  term.second += factor;
  if (term.second == 0) out.terms.erase(u.id());
  return true;
}

}  // namespace

LinearForm& LinearForm::subtract(const LinearForm& o) {
  constant -= o.constant;
  for (const auto& [id, term] : o.terms) {
    auto& own = terms[id];
    own.first = term.first;
    own.second -= term.second;
    if (own.second == 0) terms.erase(id);
  }
  return *this;
}

UOp LinearForm::expression(Graph& graph) const {
  UOp sum;
  for (const auto& [id, term] : terms) {
    const auto& [u, factor] = term;
    const UOp part = factor == 1 ? u : u * graph.constant(factor);
    sum = sum ? sum + part : part;
  }
  if (!sum) return graph.constant(constant);
  return constant == 0 ? sum : sum + graph.constant(constant);
}

std::optional<LinearForm> linear_form(UOp u) {
  LinearForm out;
  if (!add(out, u, 1, 0)) return {};
  return out;
}

}  // namespace uopc
