#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "cohort/base/assert.h"

namespace cohort {

template <class T>
class Task;

namespace internal {

class TaskPromiseBase {
 public:
  std::suspend_always initial_suspend() noexcept { return {}; }

  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) noexcept {
      const std::coroutine_handle<> next = ended.promise().continuation_;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }

  void unhandled_exception() { exception_ = std::current_exception(); }
  void set_continuation(std::coroutine_handle<> continuation) { continuation_ = continuation; }

 protected:
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  std::coroutine_handle<> continuation_;
  std::exception_ptr exception_;
};

template <class T>
class TaskPromise : public TaskPromiseBase {
 public:
  Task<T> get_return_object();
  template <class U = T>
    requires std::is_convertible_v<U, T>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T result() {
    rethrow();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> : public TaskPromiseBase {
 public:
  Task<void> get_return_object();
  void return_void() {}
  void result() { rethrow(); }
};

}  // namespace internal

/// A coroutine that runs as a task of an Executor, or inside one. It starts when it is awaited or submitted. It gives
/// its thread back whenever it suspends.
///
///     Task<int> fetch_both(Executor& executor) {
///       TaskHandle<int> a = executor.submit("db", "a", read_a);
///       co_await sleep_for(10ms);                                  // keeps its permits
///       TaskResult<int> result = co_await a;                       // parks
///       co_return result.ok() ? *result.value : 0;
///     }
///     executor.submit("api", "both", [&] { return fetch_both(executor); });
///
/// `co_await std::move(task)`, or co_await on a call that returns a Task, gives T or rethrows the exception of the
/// coroutine. A Task can be awaited only once. Inside a Task, co_await works on other Tasks, handles, scopes and
/// sleeps, and on nothing else.
///
/// Thread-safety: thread-compatible.
/// Example: examples/03_coroutines.cc
template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::TaskPromise<T>;
  using value_type = T;

  Task() = default;
  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  auto operator co_await() && {
    struct Awaiter {
      std::coroutine_handle<promise_type> coroutine;
      bool await_ready() { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) {
        coroutine.promise().set_continuation(awaiting);
        return coroutine;
      }
      T await_resume() { return coroutine.promise().result(); }
    };
    COHORT_ASSERT(coroutine_ && !coroutine_.done(), "a Task can be awaited once");
    return Awaiter{coroutine_};
  }

  /// For executors: the coroutine itself.
  [[nodiscard]] std::coroutine_handle<promise_type> coroutine() const { return coroutine_; }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

template <class T>
inline constexpr bool is_task_v = false;
template <class T>
inline constexpr bool is_task_v<Task<T>> = true;

namespace internal {

template <class T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

}  // namespace internal
}  // namespace cohort
