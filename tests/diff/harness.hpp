// Runs a program in every back end on the same data and compares.
//
// Strict: the interpreter, the C text (compiled without contraction, reassociation or signed overflow) and a JIT with
// `strict_float` give the same bits; NaNs count as equal. For shaped graphs the evaluator in doubles_eval.hpp gives the
// same bits too, and shares nothing with any of them. EXP2, LOG2 and SIN may differ by their last bits, so a graph is
// cut there: what stands below one becomes a program of its own, the function becomes one on the very bits that the
// interpreter computed, compared in units of the last place, and its result becomes a BUFFER of the rest.
//
// Fast: the whole program in a JIT with default options lies within the evaluator's error bound.
//
// A program in which C is undefined or differs (`Hazards`) is compared without C.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "diff/doubles_eval.hpp"
#include "diff/fence.hpp"
#include "diff/generator.hpp"
#include "uopc/engine.hpp"

namespace uopc::diff {

struct Finding {
  uint64_t seed = 0;
  std::string where;  // "seed 12: jit strict: element 3 of data1 is 2.5, want 3"
  std::string uir;
};

// How often each op, dtype and rank occurred.
struct Coverage {
  int ops[kOpCount] = {};
  int dtypes[5] = {};
  int ranks[8] = {};
  int op_dtype[kOpCount][5] = {};
  int programs = 0;
  void add(UOp root);
};

struct NetOptions {
  bool c = true, jit = true;
  // `lower` may change the order in which floats are added: its programs meet the graph's meaning within bounds, not to
  // the bit.
  bool any_order = false;
  // The steps under test. A test of the net puts something wrong in their place.
  std::function<UOp(UOp value, UOp out)> lower;
  std::function<UOp(UOp program)> simplify;
  // What the JIT and C get in place of the program that the interpreter runs.
  std::function<UOp(UOp program)> for_back_ends;
};

class Net {
 public:
  explicit Net(NetOptions options = {});
  ~Net();

  // Runs what runs in this process, and keeps the program's C for `flush`. `sample` must live in `graph`.
  void add(std::unique_ptr<Graph> graph, const Sample& sample);
  // Compiles the C of all programs added since the last time as one file, and compares.
  void flush();

  const std::vector<Finding>& findings() const { return findings_; }
  int runs_of_c() const { return runs_of_c_; }
  int runs_of_jit() const { return runs_of_jit_; }
  int64_t fast_elements() const { return fast_elements_; }  // compared with a bound, and how many had none
  int64_t unknown_elements() const { return unknown_elements_; }

 private:
  struct Unit;
  using Contents = std::vector<std::vector<std::byte>>;

  void add_graph(const Sample& sample);
  void add_loops(const Sample& sample);
  Unit unit_of(const Sample& sample, UOp program, const std::string& label);
  bool interpret_unit(Unit& unit);
  void compare_with_exact(const Unit& unit, const Evaluated& truth, int64_t out_slot);
  void compare_simplified(const Sample& sample, const Unit& unit);
  void strict_jit(const Unit& unit);
  void fast_jit(const Unit& unit, const Evaluated* truth, int64_t out_slot);
  void check_properties(UOp root, UOp program, const Unit& unit);
  void compare(const Unit& unit, const char* back_end, const Contents& got, bool signed_zeros = true);
  void compare_in_bounds(const Unit& unit, const char* back_end, const Contents& got, const Evaluated& truth,
                         int64_t out_slot);
  void report(const Unit& unit, const std::string& what);
  Contents run(const Unit& unit, const std::function<void(std::span<const BufferRef>)>& call);
  Engine& engine(uint64_t seed, bool strict);

  NetOptions options_;
  Fence fence_;
  std::vector<std::unique_ptr<Graph>> graphs_;  // of the units that wait
  std::vector<Unit> waiting_;
  std::vector<Finding> findings_;
  std::vector<std::unique_ptr<Engine>> strict_, fast_;
  int runs_of_c_ = 0, runs_of_jit_ = 0;
  int64_t fast_elements_ = 0, unknown_elements_ = 0;
};

// The findings of one program alone.
std::vector<Finding> check(const Sample& sample, const NetOptions& options = {});

// A smaller program that `fails`, found by putting parts in the place of the whole and operands in the place of
// results.
Sample minimise(const Sample& sample, const std::function<bool(const Sample&)>& fails);

}  // namespace uopc::diff
