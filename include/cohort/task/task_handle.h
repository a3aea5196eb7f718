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

/// A submitted task: wait for it, cancel it, look at it. Copies refer to the same task; dropping all of them lets it go
/// on unobserved.
///
/// A value that cannot be copied is moved out by co_await, as by take().
///
/// Inside a task every await of a task parks: it gives its permits of layers 1 and 3 back until the awaited one is
/// done, so nested work cannot deadlock on limits. (A Promise without an executor comes from outside: who awaits that
/// keeps his permits.) An await that would wait for itself in a circle, or whose own task has run out of time, gives at
/// once a result with status kFailed and the error kConflict or kTimedOut.
///
/// Thread-safety: thread-safe, except assigning to one handle object.
/// Example: examples/01_hello_groups.cc
template <class T>
class TaskHandle {
 public:
  using Record = internal::ResultRecord<T>;
  using Value = typename TaskResult<T>::Value;

  TaskHandle() = default;
  explicit TaskHandle(internal::Ref<Record> record) : record_(std::move(record)) {}
  /// The same task, not an equal result.
  friend bool operator==(const TaskHandle& a, const TaskHandle& b) { return a.record_.get() == b.record_.get(); }

  /// False for a default-constructed handle, on which nothing else may be called.
  [[nodiscard]] bool valid() const { return static_cast<bool>(record_); }
  [[nodiscard]] std::string group() const { return record().group_key(); }
  [[nodiscard]] std::string task_id() const { return record().task_id(); }
  [[nodiscard]] bool is_done() const { return record().is_done(); }

  /// Waiting: settles as cancelled at once. Running: asks its stop token, and leaves it to the body to look there; a
  /// sleep or an await in it goes on. Settled: nothing.
  void cancel() const { internal::ExecutorAccess::cancel(record()); }

  /// Blocks until it is done and gives a copy of its result.
  [[nodiscard]] TaskResult<T> await() const
    requires std::copy_constructible<Value>
  {
    return waited([](Record& record) { return record.value; });
  }

  /// As await, but gives up after `timeout` and returns nothing then.
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

  /// As await, but moves the value out; later calls on any copy find none. For one caller.
  [[nodiscard]] TaskResult<T> take() const {
    return waited([](Record& record) { return std::exchange(record.value, std::nullopt); });
  }

  /// Runs `f` as another task of the same group and priority once this one is done. `f` takes its value: then it runs
  /// if this one succeeded, and otherwise the new task ends as this one did, as kCancelled or kFailed. Or it takes the
  /// TaskResult<T>: then it runs either way. The new task is one like any other: it can be rejected, and cancelled
  /// while it waits; `f` gets no stop token. Its id is this one's with a "+", unless one is given. A value that cannot
  /// be copied is moved out, as by take(). The executor must still exist.
  template <class F>
  auto then(F f) const {
    return then(task_id().substr(0, 255) + "+", std::move(f));
  }
  template <class F>
  auto then(std::string_view new_id, F f) const;

  /// Calls `f` with its result once it is done, on the thread that ends it or right here; `f` must neither block nor
  /// throw. For those who are not in a task and do not want to wait.
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

  /// `co_await handle.settled()` waits until it is done and leaves the result where it is. Fails when it could not
  /// wait, see above.
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
  /// As await for values that can be copied, as take for others.
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

/// The body of a task that follows another.
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
  // (One after the other: what takes the value may not even be asked whether it takes a TaskResult.)
  if constexpr (internal::Continuation<T, F>::takes_value()) {
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
