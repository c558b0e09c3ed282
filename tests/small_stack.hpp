// Runs a function on a thread of its own with a 256 KiB stack.
#pragma once
#include <pthread.h>

#include <exception>
#include <functional>
#include <stdexcept>

namespace uopc {

inline void on_small_stack(std::function<void()> body) {
  struct Run {
    std::function<void()> body;
    std::exception_ptr error;
  } run{std::move(body), nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t thread;
  const int failed = pthread_create(
      &thread, &attributes,
      [](void* p) -> void* {
        Run& run = *static_cast<Run*>(p);
        try {
          run.body();
        } catch (...) {
          run.error = std::current_exception();
        }
        return nullptr;
      },
      &run);
  pthread_attr_destroy(&attributes);
  if (failed) throw std::runtime_error("pthread_create");
  pthread_join(thread, nullptr);
  if (run.error) std::rethrow_exception(run.error);
}

}  // namespace uopc
