// Side tables by node, and the walk that everything is built from.
//
// All nodes of one table belong to one Graph: a table is keyed by id. Its size follows the number of entries, not the
// size of the Graph, and nothing iterates over it.
#pragma once
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "uopc/uop.hpp"

namespace uopc {

template <class T>
class NodeMap {
 public:
  explicit NodeMap(size_t expected = 0) { resize_table(expected); }

  T* find(UOp u) {
    for (size_t i = slot(u.id());; i = (i + 1) & mask_) {
      if (keys_[i] == kEmpty) return nullptr;
      if (keys_[i] == u.id()) return &values_[i];
    }
  }
  const T* find(UOp u) const { return const_cast<NodeMap*>(this)->find(u); }
  bool contains(UOp u) const { return find(u) != nullptr; }
  const T& at(UOp u) const { return *find(u); }  // the entry must exist

  // The entry of `u`, made with `value` when there was none, and whether it was made. Invalidated by the next
  // insertion.
  std::pair<T*, bool> insert(UOp u, T value) {
    if ((count_ + 1) * 4 > keys_.size() * 3) grow();
    for (size_t i = slot(u.id());; i = (i + 1) & mask_) {
      if (keys_[i] == u.id()) return {&values_[i], false};
      if (keys_[i] == kEmpty) {
        keys_[i] = u.id();
        values_[i] = std::move(value);
        count_++;
        return {&values_[i], true};
      }
    }
  }
  T& operator[](UOp u) { return *insert(u, T{}).first; }
  size_t size() const { return count_; }

 private:
  static constexpr uint32_t kEmpty = UINT32_MAX;  // no node has this id

  size_t slot(uint32_t id) const { return (id * 0x9E3779B1u) & mask_; }
  void resize_table(size_t expected) {
    size_t n = 16;
    while (n * 3 < expected * 4) n *= 2;
    keys_.assign(n, kEmpty);
    values_.clear();
    values_.resize(n);
    mask_ = n - 1;
    count_ = 0;
  }
  void grow() {
    std::vector<uint32_t> keys = std::move(keys_);
    std::vector<T> values = std::move(values_);
    resize_table(keys.size() * 3 / 2);
    for (size_t k = 0; k < keys.size(); k++) {
      if (keys[k] == kEmpty) continue;
      size_t i = slot(keys[k]);
      while (keys_[i] != kEmpty) i = (i + 1) & mask_;
      keys_[i] = keys[k];
      values_[i] = std::move(values[k]);
      count_++;
    }
  }

  std::vector<uint32_t> keys_;
  std::vector<T> values_;
  size_t mask_ = 0, count_ = 0;
};

class NodeSet {
 public:
  bool insert(UOp u) { return map_.insert(u, 0).second; }  // whether it was new
  bool contains(UOp u) const { return map_.contains(u); }
  size_t size() const { return map_.size(); }

 private:
  NodeMap<char> map_;
};

// Calls visit(node) in depth-first post-order, each node once, sources in order; below a node for which descend(node)
// is false, and at nodes in `seen`, the walk does not go. Adds what it visits to `seen`.
template <class Visit, class Descend>
void post_order(UOp root, NodeSet& seen, Visit&& visit, Descend&& descend) {
  std::vector<std::pair<UOp, uint32_t>> stack;  // a node and the next source to look at
  auto enter = [&](UOp u) {
    if (seen.insert(u)) stack.emplace_back(u, descend(u) ? 0 : UINT32_MAX);
  };
  enter(root);
  while (!stack.empty()) {
    auto& [u, next] = stack.back();
    if (next < u.src().size()) {
      enter(u.src(next++));
    } else {
      const UOp done = u;
      stack.pop_back();
      visit(done);
    }
  }
}
template <class Visit, class Descend>
requires std::is_invocable_v<Descend, UOp>
void post_order(UOp root, Visit&& visit, Descend&& descend) {
  NodeSet seen;
  post_order(root, seen, visit, descend);
}
template <class Visit>
void post_order(UOp root, Visit&& visit) {
  post_order(root, visit, [](UOp) { return true; });
}
// Of several roots, one after the other.
template <class Visit>
void post_order(std::span<const UOp> roots, Visit&& visit) {
  NodeSet seen;
  for (UOp root : roots) post_order(root, seen, visit, [](UOp) { return true; });
}

// `u` with other sources.
inline UOp with_sources(UOp u, std::span<const UOp> src) {
  for (size_t i = 0; i < src.size(); i++)
    if (src[i] != u.src(i)) return u.graph().make(u.op(), src, u.arg());
  return u;
}

// The graph rebuilt from its leaves: a node's image is map(node, the node with its sources' images in their place).
// `images` holds those of all nodes reached, and may be kept for further roots.
template <class Map>
UOp map_graph(UOp root, NodeMap<UOp>& images, Map&& map) {
  std::vector<UOp> src;
  post_order(
      root,
      [&](UOp u) {
        if (images.contains(u)) return;
        src.clear();
        for (UOp s : u.src()) src.push_back(images.at(s));
        images.insert(u, map(u, with_sources(u, src)));
      },
      [&](UOp u) { return !images.contains(u); });
  return images.at(root);
}

// The same programs in another Graph.
inline std::vector<UOp> import_all(Graph& to, std::span<const UOp> roots) {
  NodeMap<UOp> images;
  std::vector<UOp> src, out;
  post_order(roots, [&](UOp u) {
    src.clear();
    for (UOp s : u.src()) src.push_back(images.at(s));
    images.insert(u, to.make(u.op(), src, u.arg()));
  });
  for (UOp root : roots) out.push_back(images.at(root));
  return out;
}

}  // namespace uopc
