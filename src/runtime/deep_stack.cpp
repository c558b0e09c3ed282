#include "runtime/deep_stack.hpp"

#include <pthread.h>

#include <exception>

#include "uopc/error.hpp"

namespace uopc {
namespace {

constexpr size_t kStack = size_t{8} << 20;

struct Task {
  const std::function<void()>& work;
  std::exception_ptr failure;
};

void* run(void* p) {
  auto& task = *static_cast<Task*>(p);
  try {
    task.work();
  } catch (...) {
    task.failure = std::current_exception();
  }
  return nullptr;
}

}  // namespace

void run_on_deep_stack(const std::function<void()>& work) {
  Task task{work, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, run, &task);
  pthread_attr_destroy(&attributes);
  if (error) throw Error(ErrorCode::Compile, "the system gives no thread to compile on");
  pthread_join(thread, nullptr);
  if (task.failure) std::rethrow_exception(task.failure);
}

}  // namespace uopc
