#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "ir/py_text.hpp"
#include "ir/walk.hpp"
#include "passes/kernelize.hpp"
#include "tensor/context_impl.hpp"
#include "uopc/passes.hpp"

namespace uopc {
namespace {

// `root` and all that it was built from, the later ones first.
std::vector<std::shared_ptr<Value>> history(const std::shared_ptr<Value>& root) {
  std::vector<std::shared_ptr<Value>> out{root};
  std::unordered_set<const Value*> seen{root.get()};
  for (size_t i = 0; i < out.size(); i++)
    for (const auto& s : std::vector(out[i]->sources))
      if (seen.insert(s.get()).second) out.push_back(s);
  std::ranges::sort(out, std::ranges::greater{}, [](const auto& v) { return v->id; });
  return out;
}

// The root's UOp, with what is known of how the computed values in it came about put back, but for the targets.
UOp unfold(const Value& root, std::span<const std::shared_ptr<Value>> history,
           const std::unordered_set<const Value*>& targets) {
  const auto same = [](UOp, UOp u) { return u; };
  NodeMap<UOp> images;
  for (size_t i = history.size(); i-- > 0;) {
    const Value& v = *history[i];
    if (!v.buffer || v.sources.empty() || &v == &root || targets.contains(&v)) continue;
    const UOp image = map_graph(v.built_as, images, same);
    images.insert(v.uop, image);
  }
  return map_graph(root.built_as, images, same);
}

// Looks for targets behind values of which it is no longer known how they were computed: the gradient would lack what
// comes from there.
class LostPaths {
 public:
  LostPaths(const Context::Impl& context, std::span<const Tensor> targets) {
    for (const Value* v = context.values; v; v = v->next)
      if (v->buffer) in_slot_[v->buffer->slot].push_back(v);
    for (size_t i = 0; i < targets.size(); i++) {
      const Value& v = *targets[i].impl()->value;
      for (UOp u : {v.uop, v.built_as}) {
        targets_at_[u].push_back(i);
        front_.insert(u);
      }
      since_.push_back(v.since);
    }
  }

  void check(UOp root) {
    look(root, front_, INT64_MAX, nullptr, [](UOp) {});
    while (!lost_.empty()) {
      const Lost lost = lost_.top();
      lost_.pop();
      look(lost.value->origin, behind_, lost.value->id, lost.entry, [&](UOp u) {
        const auto* at = targets_at_.find(u);
        if (!at) return;
        for (size_t i : *at)
          if (since_[i] < lost.value->id)
            throw Error(ErrorCode::Type,
                        fmt::format("gradient: it leads to target {} through a tensor of shape {} that had been "
                                    "computed before it was used, and how is not kept; take the gradient before "
                                    "realize or item, or detach the tensor",
                                    i, py_tuple(lost.entry->uop.shape())));
      });
    }
  }

 private:
  struct Lost {
    const Value* value;
    const Value* entry;  // the one on the way to it that the gradient meets
    bool operator<(const Lost& o) const { return value->id < o.value->id; }
  };

  // Visits what a gradient passes through from `root` on; notes the values older than `before` that are met.
  template <class Visit>
  void look(UOp root, NodeSet& seen, int64_t before, const Value* entry, Visit&& visit) {
    post_order(
        root, seen,
        [&](UOp u) {
          visit(u);
          if (!u.is(Op::Buffer)) return;
          for (const Value* v : in_slot_[u.arg<ParamArg>().slot])
            if (v->origin && v->id < before && asked_.insert(v).second) lost_.push({v, entry ? entry : v});
        },
        [&](UOp u) { return is_float(u.dtype()) && !is_detach(u); });
  }

  std::unordered_map<int64_t, std::vector<const Value*>> in_slot_;
  NodeMap<std::vector<size_t>> targets_at_;
  std::vector<int64_t> since_;
  NodeSet front_, behind_;
  std::unordered_set<const Value*> asked_;
  std::priority_queue<Lost> lost_;  // the latest first
};

}  // namespace

std::vector<Tensor> Tensor::gradient(std::span<const Tensor> targets) const {
  std::vector<Tensor> all(targets.begin(), targets.end());
  all.push_back(*this);
  check_one_context(all, "gradient");
  if (numel() != 1 || !is_float(dtype()))
    throw Error(ErrorCode::Type, fmt::format("gradient is of a float tensor of one element, not dtypes.{}{}",
                                             name(dtype()), py_tuple(shape())));
  const std::shared_ptr<Value> root = impl_->value.shared();
  std::unordered_set<const Value*> wanted_values;
  std::vector<UOp> wanted;
  for (const Tensor& t : targets) {
    if (!is_float(t.dtype()))
      throw Error(ErrorCode::Type, fmt::format("gradient with respect to a tensor of dtypes.{}", name(t.dtype())));
    const Value& v = *t.impl()->value;
    wanted_values.insert(&v);
    wanted.push_back(v.built_as);
    wanted.push_back(v.uop);  // dependents made after it was realized hold this one
  }
  if (root->buffer && root->origin && !targets.empty() && !wanted_values.contains(root.get()))
    throw Error(
        ErrorCode::Type,
        "gradient: the tensor has been computed, and how is not kept; take the gradient before realize or item");
  std::vector<std::shared_ptr<Value>> all_of_it = history(root);
  const UOp u = unfold(*root, all_of_it, wanted_values);
  LostPaths(*root->context, targets).check(u);
  const std::vector<UOp> found = uopc::gradient(u, u.const_like(1), wanted);
  // The gradients read the memory of all that the root was built from.
  const auto tape = std::make_shared<Value>(root->context, root->uop, std::move(all_of_it));
  std::vector<Tensor> out;
  for (size_t i = 0; i < targets.size(); i++) {
    UOp g = found[2 * i];
    if (wanted[2 * i] != wanted[2 * i + 1]) g = g + found[2 * i + 1];
    out.emplace_back(std::make_shared<Tensor::Impl>(std::make_shared<Value>(root->context, g, std::vector{tape})));
  }
  return out;
}

}  // namespace uopc
