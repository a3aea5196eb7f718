#pragma once

#include <coroutine>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/task/executor.h"

namespace cohort {

/// Owns the tasks that are submitted through it: no task outlives the scope. When the scope is destroyed, or its stop
/// token gets a stop request, the scope cancels its tasks that have not ended. The destructor then waits for them, even
/// in a task that has run out of time.
///
/// The scope does not wait for tasks made with `then`, nor for the body of a task that its own time-out has settled. A
/// task of the scope must not await the task that owns the scope.
///
///     TaskScope scope(executor);
///     scope.submit("db", "a", read_a);
///     scope.submit("db", "b", read_b);
///     if (auto joined = scope.join(); !joined) return joined.error();   // or co_await scope.joined()
///
/// Thread-safety: cancel() is thread-safe; the rest belongs to one thread or coroutine.
/// Example: examples/02_nested_work.cc
class TaskScope {
 public:
  explicit TaskScope(Executor& executor, std::stop_token stop = {});
  ~TaskScope();
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

  template <class F>
  auto submit(std::string_view group, std::string_view task_id, F&& callable, const SubmitOptions& options = {}) {
    auto handle = executor_.submit(group, task_id, std::forward<F>(callable), options);
    adopt(handle.record());
    return handle;
  }

  template <class F>
  auto submit(const GroupToken& group, std::string_view task_id, F&& callable, const SubmitOptions& options = {}) {
    auto handle = executor_.submit(group, task_id, std::forward<F>(callable), options);
    adopt(handle.record());
    return handle;
  }

  /// Cancels every task that has not ended, and every later one as it is submitted.
  void cancel();
  /// Blocks until all tasks of the scope have ended; inside a task it parks. Fails like an await: with kConflict for a
  /// cycle of awaits, with kTimedOut if the waiting task runs out of time.
  Result<void> join();

  /// `co_await scope.joined()` is join() for coroutines.
  auto joined() {
    struct Awaiter {
      TaskScope& scope;
      [[nodiscard]] bool await_ready() const { return scope.open_state()->satisfied(); }
      void await_suspend(std::coroutine_handle<> coroutine) const {
        internal::request_await(scope.open_state(), coroutine);
      }
      [[nodiscard]] Result<void> await_resume() const {
        if (auto error = internal::take_await_error()) return std::move(*error);
        return {};
      }
    };
    return Awaiter{*this};
  }

 private:
  struct Children;

  void adopt(internal::TaskRecord& record);
  [[nodiscard]] internal::Ref<internal::AwaitState> open_state() const;

  Executor& executor_;
  std::shared_ptr<Children> children_;  // Shared with the stop callback only.
  std::optional<std::stop_callback<Function<void()>>> on_stop_;
};

}  // namespace cohort
