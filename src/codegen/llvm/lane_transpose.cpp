// Squares of memory that lanes cross: lane l of copy c reads element base + l * stride + c. A row of a square is read
// as one vector, and the rows are turned in registers.
#include <algorithm>
#include <map>

#include "codegen/llvm/function_emitter.hpp"
#include "passes/linear_form.hpp"

namespace uopc::codegen {

using llvm::Value;

namespace {

constexpr int64_t kLeastSquare = 4;

// Swaps the blocks off the diagonal: of two halves, of two quarters within each, and so on.
void transpose(llvm::IRBuilder<>& b, std::vector<Value*>& rows) {
  const auto n = static_cast<int>(rows.size());
  std::vector<int> upper(rows.size()), lower(rows.size());
  for (int h = n / 2; h > 0; h /= 2) {
    for (int p = 0; p < n; p++) {
      const bool first = (p & h) == 0;
      upper[static_cast<size_t>(p)] = first ? p : n + p - h;
      lower[static_cast<size_t>(p)] = first ? p + h : n + p;
    }
    for (int i = 0; i < n; i++) {
      if (i & h) continue;
      Value *&x = rows[static_cast<size_t>(i)], *&y = rows[static_cast<size_t>(i + h)];
      Value* old = x;
      x = b.CreateShuffleVector(old, y, upper);
      y = b.CreateShuffleVector(old, y, lower);
    }
  }
}

}  // namespace

void FunctionEmitter::find_squares(const Lanes::Loop& loop) {
  squares_.clear();
  square_of_ = NodeMap<SquarePlace>();
  if (loop.width < kLeastSquare || !loop.full()) return;
  struct Candidate {
    int64_t offset;
    UOp load;
  };
  using Key = std::vector<std::pair<uint32_t, int64_t>>;  // the memory, and the terms of the index
  std::map<Key, std::vector<Candidate>> alike;
  NodeMap<char> stored;
  for (size_t i = loop.open + 1; i < loop.close; i++) {
    const auto& [kind, u] = m_.program.lines[i];
    if (kind == Line::Kind::Open) return;
    if (kind == Line::Kind::Store) stored.insert(m_.program.cell(u).memory, 1);
    if (kind != Line::Kind::Load || !m_.lanes.varies(u)) continue;
    const Cell& cell = m_.program.cell(u);
    const int64_t stride = m_.lanes.stride(cell.index);
    if (stride == 0 || stride == 1 || stride == Lanes::kIrregular || m_.lanes.copies(cell.memory) > 1) continue;
    const auto form = linear_form(cell.index);
    if (!form) continue;
    Key key{{cell.memory.id(), 0}};
    for (const auto& [id, term] : form->terms) key.emplace_back(id, term.second);
    alike[key].push_back({form->constant, u});
  }
  for (auto& [key, loads] : alike) {
    if (stored.contains(m_.program.cell(loads[0].load).memory)) continue;
    std::ranges::stable_sort(loads, {}, &Candidate::offset);
    const auto n = static_cast<size_t>(loop.width);
    for (size_t i = 0; i + n <= loads.size();) {
      if (loads[i + n - 1].offset != loads[i].offset + loop.width - 1) {
        i++;
        continue;
      }
      for (size_t c = 0; c < n; c++) square_of_.insert(loads[i + c].load, {squares_.size(), static_cast<int64_t>(c)});
      squares_.emplace_back();
      i += n;
    }
  }
}

// The vector of a load that is part of a square, which is read with the first of them.
Value* FunctionEmitter::load_of_square(UOp load, const SquarePlace& place) {
  std::vector<Value*>& rows = squares_[place.square];
  if (rows.empty()) {
    const Cell& cell = m_.program.cell(load);
    llvm::Type* element = memory_type(load.dtype());
    auto* type = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_->width));
    Value* first = b_.CreateNSWSub(first_lane(cell.index), b_.getInt64(static_cast<uint64_t>(place.copy)));
    const int64_t stride = m_.lanes.stride(cell.index);
    for (int64_t k = 0; k < lanes_->width; k++) {
      Value* at = b_.CreateNSWAdd(first, b_.getInt64(static_cast<uint64_t>(k * stride)));
      rows.push_back(b_.CreateAlignedLoad(type, cell_address(cell.memory, at), llvm::Align(itemsize(load.dtype()))));
    }
    transpose(b_, rows);
  }
  return rows[static_cast<size_t>(place.copy)];
}

}  // namespace uopc::codegen
