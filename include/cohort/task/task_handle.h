#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "cohort/base/result.h"
#include "cohort/task/internal/callable_record.h"
#include "cohort/task/internal/executor_access.h"
#include "cohort/task/task_result.h"

namespace cohort {

namespace internal {

template <class T>
T value_of_impl(const ResultRecord<T>*);
/// The T of a record derived from ResultRecord<T>.
template <class Record>
using ValueOf = decltype(value_of_impl(static_cast<Record*>(nullptr)));

}  // namespace internal

/// Refers to a submitted task, to wait for it, cancel it or look at it. Copies refer to the same task. If all of its
/// handles are dropped, the task still runs, unobserved.
///
/// co_await copies the value out of the task. A value that cannot be copied is moved out, like by take().
///
/// A task that awaits another task parks: it gives its permits of layers 1 and 3 back until the awaited task is done.
/// So nested work cannot deadlock on limits. Exception: a task that awaits a Promise without an executor keeps its
/// permits.
///
/// An await fails at once if it would close a cycle of awaits (error kConflict), or when the awaiting task runs out of
/// time (error kTimedOut). The await then gives a result with status kFailed and that error.
///
/// Thread-safety: thread-safe, except assignment to a handle object that another thread uses.
/// Example: examples/01_hello_groups.cc
template <class T>
class TaskHandle {
 public:
  using Record = internal::ResultRecord<T>;
  using Value = typename TaskResult<T>::Value;

  TaskHandle() = default;
  explicit TaskHandle(internal::Ref<Record> record) : record_(std::move(record)) {}
  /// True if both handles refer to the same task.
  friend bool operator==(const TaskHandle& a, const TaskHandle& b) { return a.record_.get() == b.record_.get(); }

  /// False for a default-constructed handle, on which nothing else may be called.
  [[nodiscard]] bool valid() const { return static_cast<bool>(record_); }
  [[nodiscard]] std::string group() const { return record().group_key(); }
  [[nodiscard]] std::string task_id() const { return record().task_id(); }
  [[nodiscard]] bool is_done() const { return record().is_done(); }

  /// A waiting task settles as cancelled at once. A running task gets a stop request; its body must look at its stop
  /// token. A sleep_for or an await in the body continues. A settled task is not changed.
  void cancel() const { internal::ExecutorAccess::cancel(record()); }

  /// Blocks until the task is done and gives a copy of its result.
  [[nodiscard]] TaskResult<T> await() const
    requires std::copy_constructible<Value>
  {
    return waited([](Record& record) { return record.value; });
  }

  /// Like await(), but gives up after `timeout` and then returns nullopt.
  [[nodiscard]] std::optional<TaskResult<T>> await_for(Duration timeout) const
    requires std::copy_constructible<Value>
  {
    if (!is_done()) {
      auto state = internal::AwaitState::make(record());
      const Time until = saturating_add(internal::ExecutorAccess::now(record()), timeout);
      if (auto error = internal::ExecutorAccess::await(*state, until)) return not_awaited(std::move(*error));
      if (!is_done()) return std::nullopt;
    }
    return result([](Record& record) { return record.value; });
  }

  /// Like await(), but moves the value out; later calls on any handle of the task find no value. For one caller only.
  [[nodiscard]] TaskResult<T> take() const {
    return waited([](Record& record) { return std::exchange(record.value, std::nullopt); });
  }

  /// Runs `f` after this task is done, as a new task of the same group and priority. Returns the new task's handle.
  ///
  /// - If `f` takes the value of this task, it runs only if this task succeeded. Otherwise the new task ends as
  ///   kCancelled if this task was cancelled, else as kFailed.
  /// - If `f` takes the TaskResult<T>, it runs in any case.
  ///
  /// The new task can be rejected like any other task, and cancelled while it waits; `f` gets no stop token. Its id is
  /// the id of this task with a "+", unless `new_id` is given. A value that cannot be copied is moved out, like by
  /// take(). The executor must still exist.
  template <class F>
  auto then(F f) const {
    return then(task_id().substr(0, 255) + "+", std::move(f));
  }
  template <class F>
  auto then(std::string_view new_id, F f) const;

  /// Calls `f` with the result when the task is done: on the thread that ends the task, or inside this call if it is
  /// done already. `f` must neither block nor throw. For code outside of tasks that does not want to wait.
  template <class F>
  void on_done(F f) const& {
    internal::AwaitState::make(record())->arm(
        [handle = *this, f = std::move(f)]() mutable { f(handle.await_or_take()); });
  }
  /// `std::move(handle).on_done(f)` moves the result out, as take() does, instead of copying it.
  template <class F>
  void on_done(F f) && {
    internal::AwaitState::make(record())->arm([handle = *this, f = std::move(f)]() mutable { f(handle.take()); });
  }

  auto operator co_await() const {
    struct Awaiter {
      const TaskHandle& handle;
      bool await_ready() const { return handle.is_done(); }
      void await_suspend(std::coroutine_handle<> coroutine) const {
        internal::request_await(internal::AwaitState::make(handle.record()), coroutine);
      }
      TaskResult<T> await_resume() const {
        if (auto error = internal::take_await_error()) return handle.not_awaited(std::move(*error));
        return handle.await_or_take();
      }
    };
    return Awaiter{*this};
  }

  /// `co_await handle.settled()` waits until the task is done and leaves the result in the task. Fails with kConflict
  /// if the wait would close a cycle of awaits, with kTimedOut if the awaiting task runs out of time.
  [[nodiscard]] auto settled() const {
    struct Awaiter {
      const TaskHandle& handle;
      bool await_ready() const { return handle.is_done(); }
      void await_suspend(std::coroutine_handle<> coroutine) const {
        internal::request_await(internal::AwaitState::make(handle.record()), coroutine);
      }
      Result<void> await_resume() const {
        if (auto error = internal::take_await_error()) return std::move(*error);
        return {};
      }
    };
    return Awaiter{*this};
  }

  /// For executors and combinators.
  [[nodiscard]] Record& record() const {
    COHORT_ASSERT(valid(), "a default-constructed TaskHandle refers to no task");
    return *record_;
  }
  /// Calls await() if the value can be copied, else take().
  [[nodiscard]] TaskResult<T> await_or_take() const {
    if constexpr (std::copy_constructible<Value>) {
      return await();
    } else {
      return take();
    }
  }

 private:
  template <class F>
  auto follow_with(std::string_view new_id, F f) const;

  template <class Read>
  TaskResult<T> waited(Read read) const {
    if (!is_done()) {
      auto state = internal::AwaitState::make(record());
      if (auto error = internal::ExecutorAccess::await(*state, std::nullopt)) return not_awaited(std::move(*error));
    }
    return result(read);
  }

  template <class Read>
  TaskResult<T> result(Read read) const {
    std::optional<Error> error;
    if (const Error* failure = record_->error()) error = *failure;
    const Time started_at = record_->has_begun() ? record_->started_at : record_->ended_at;
    return {group(),    task_id(),        record_->status(), read(*record_), std::move(error), record_->submitted_at,
            started_at, record_->ended_at};
  }

  TaskResult<T> not_awaited(Error error) const {
    return {group(), task_id(), TaskStatus::kFailed, std::nullopt, std::move(error), record_->submitted_at, {}, {}};
  }

  internal::Ref<Record> record_;
};

namespace internal {

/// The body of a task that TaskHandle::then() makes.
template <class T, class F>
class Continuation {
 public:
  Continuation(Ref<ResultRecord<T>> before, F f) : before_(std::move(before)), f_(std::move(f)) {}

  static constexpr bool takes_value() {
    if constexpr (std::is_void_v<T>) {
      return std::is_invocable_v<F&>;
    } else {
      return std::is_invocable_v<F&, T>;
    }
  }

  auto operator()() {
    TaskHandle<T> handle(std::move(before_));
    if constexpr (takes_value()) {
      return with_value(handle.await_or_take());
    } else {
      return std::invoke(f_, handle.await_or_take());
    }
  }

 private:
  static decltype(auto) call(F& f, TaskResult<T>& result) {
    if constexpr (std::is_void_v<T>) {
      return std::invoke(f);
    } else {
      return std::invoke(f, std::move(*result.value));
    }
  }

  auto with_value(TaskResult<T> result) {
    using R = decltype(call(f_, result));
    static_assert(!is_task_v<std::decay_t<R>>, "a following task is a plain callable; it may submit a coroutine");
    using Plain = std::conditional_t<std::is_same_v<std::decay_t<R>, Error>, void, std::decay_t<R>>;
    using Answer = std::conditional_t<is_result_v<std::decay_t<R>>, std::decay_t<R>, Result<Plain>>;
    if (!result.ok()) return Answer(passed_on(result));
    if (!result.value) {
      return Answer(Error{ErrorCode::kConflict, "the value of task '" + result.task_id + "' has been taken already"});
    }
    if constexpr (std::is_void_v<R>) {
      call(f_, result);
      return Answer();
    } else {
      return Answer(call(f_, result));
    }
  }

  static Error passed_on(const TaskResult<T>& result) {
    Error error = *result.error;
    if (result.status == TaskStatus::kCancelled) error.code = ErrorCode::kCancelled;
    error.message = "it follows task '" + result.task_id + "', which ended as " +
                    std::string(to_string(result.status)) + ": " + error.message;
    return error;
  }

  Ref<ResultRecord<T>> before_;
  F f_;
};

}  // namespace internal

template <class T>
template <class F>
auto TaskHandle<T>::then(std::string_view new_id, F f) const {
  // (Two separate tests: for a callable that takes the value, the test with a TaskResult might not compile.)
  if constexpr (internal::Continuation<T, F>::takes_value()) {  // NOLINT(bugprone-branch-clone): see above.
    return follow_with(new_id, std::move(f));
  } else if constexpr (std::is_invocable_v<F&, TaskResult<T>>) {
    return follow_with(new_id, std::move(f));
  } else {
    static_assert(internal::never<F>, "then(f): f takes the value of the task before, or its TaskResult");
    return TaskHandle<void>();
  }
}

template <class T>
template <class F>
auto TaskHandle<T>::follow_with(std::string_view new_id, F f) const {
  using Body = internal::Continuation<T, F>;
  using Next = internal::CallableRecord<Body>;
  auto next = internal::Ref<Next>::adopt(new Next(record_->label().address(), new_id, Body(record_, std::move(f))));
  next->priority = record_->priority;
  next->add_executors_reference();
  internal::ExecutorAccess::follow(*next, *record_);
  using U = internal::ValueOf<Next>;
  return TaskHandle<U>(internal::Ref<internal::ResultRecord<U>>(*next));
}

}  // namespace cohort
