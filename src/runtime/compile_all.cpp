#include "runtime/compile_all.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace uopc {
namespace {

class Crew {
 public:
  Crew(Engine& engine, std::span<const PlanKernel* const> kernels)
      : engine_(engine), kernels_(kernels), compiled_(kernels.size()), errors_(kernels.size()) {
    const size_t cores = std::max(1u, std::thread::hardware_concurrency());
    const size_t wanted = std::min(cores, kernels.size());
    // For one kernel, or on one core, this thread does it.
    if (wanted < 2) return;
    workers_.reserve(wanted);
    try {
      while (workers_.size() < wanted) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // those that there are do
    }
  }
  ~Crew() { finish(); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  CompiledSet run(const std::function<void(size_t)>& before) {
    CompiledSet out;
    try {
      for (size_t i = 0; i < kernels_.size() && wait_for_room(); i++) {
        before(i);
        begin(i);
      }
    } catch (...) {
      out.stopped = std::current_exception();
    }
    finish();
    // Whatever was begun came before the call that threw.
    const auto failed = std::ranges::find_if(errors_, [](const std::exception_ptr& e) { return e != nullptr; });
    if (failed != errors_.end()) out.stopped = *failed;
    out.kernels = std::move(compiled_);
    return out;
  }

 private:
  // Whether to go on: nothing failed.
  bool wait_for_room() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failed_ || workers_.empty() || begun_ - ended_ < workers_.size(); });
    return !failed_;
  }

  void begin(size_t i) {
    if (workers_.empty()) return compile(i);
    const std::lock_guard lock(mutex_);
    begun_++;
    changed_.notify_all();
  }

  void compile(size_t i) {
    try {
      compiled_[i] = engine_.compile(kernels_[i]->program, {}, kernels_[i]->name);
    } catch (...) {
      errors_[i] = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ended_++;
    failed_ |= errors_[i] != nullptr;
    changed_.notify_all();
  }

  void work() {
    for (;;) {
      size_t i;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return taken_ < begun_ || closed_; });
        if (taken_ == begun_) return;
        i = taken_++;
      }
      compile(i);
    }
  }

  void finish() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      changed_.notify_all();
    }
    for (std::thread& w : workers_)
      if (w.joinable()) w.join();
  }

  Engine& engine_;
  const std::span<const PlanKernel* const> kernels_;
  std::vector<Kernel> compiled_;
  std::vector<std::exception_ptr> errors_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t begun_ = 0, taken_ = 0, ended_ = 0;  // kernels
  bool failed_ = false, closed_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace

CompiledSet compile_all(Engine& engine, std::span<const PlanKernel* const> kernels,
                        const std::function<void(size_t)>& before) {
  return Crew(engine, kernels).run(before);
}

}  // namespace uopc
