#pragma once

#include <optional>
#include <stop_token>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "cohort/base/result.h"
#include "cohort/task/internal/task_record.h"
#include "cohort/task/task.h"
#include "cohort/task/task_result.h"

namespace cohort::internal {

template <class>
inline constexpr bool never = false;

template <class F>
inline constexpr bool takes_stop_token = std::is_invocable_v<F&, std::stop_token>;
/// True for a callable of which a task can be made.
template <class F>
inline constexpr bool is_task_callable = takes_stop_token<F> || std::is_invocable_v<F&>;

struct NoStop {};
/// The member of a record that makes the stop token, if the callable takes one.
template <class F>
using StopOf = std::conditional_t<takes_stop_token<F>, std::stop_source, NoStop>;

template <class F>
decltype(auto) call_body(F& callable, [[maybe_unused]] const StopOf<F>& stop) {
  if constexpr (takes_stop_token<F>) {
    return callable(stop.get_token());
  } else {
    return callable();
  }
}

template <class F>
using Returned = decltype(call_body(std::declval<F&>(), std::declval<const StopOf<F>&>()));

// Maps the return type of a callable to the value type of its handle: Task<T> -> T, then Result<T> -> T.
template <class R>
struct Unwrapped {
  using Type = std::decay_t<R>;
};
template <>
struct Unwrapped<Error> {  // The task has failed.
  using Type = void;
};
template <class R>
struct Unwrapped<Result<R>> : Unwrapped<R> {};
template <class R>
struct Unwrapped<Task<R>> : Unwrapped<R> {};

template <class F>
using BodyValue = typename Unwrapped<Returned<std::decay_t<F>>>::Type;

/// A record with a place for its result.
template <class T>
class ResultRecord : public TaskRecord {
 public:
  using Value = typename TaskResult<T>::Value;
  using TaskRecord::TaskRecord;

  /// Written by the side that claimed the record, before publish().
  std::optional<Value> value;

 protected:
  void end_with_value(Value&& result) {
    if (!claim_by_body(TaskStatus::kSuccess)) return;
    try {
      value.emplace(std::move(result));
    } catch (...) {
      // The move of the result into the record threw: the task has failed after all.
      set_error(Error::from_exception(std::current_exception()));
      reclaim_by_body(TaskStatus::kFailed);
    }
  }

  void end_with_error(TaskStatus status, Error failure) {
    if (claim_by_body(status)) set_error(std::move(failure));
  }

  void end_with_error(Error failure) {
    end_with_error(failure.code == ErrorCode::kCancelled ? TaskStatus::kCancelled : TaskStatus::kFailed,
                   std::move(failure));
  }

  // A body that throws after a stop request ends as cancelled.
  void end_with_exception(std::exception_ptr exception) {
    Error failure = Error::from_exception(std::move(exception));
    if (stop_requested()) failure.code = ErrorCode::kCancelled;
    end_with_error(std::move(failure));
  }

  template <class R>
  void end_with(R&& returned) {
    if constexpr (std::is_same_v<std::decay_t<R>, Error>) {
      end_with_error(std::forward<R>(returned));
    } else if constexpr (!is_result_v<std::decay_t<R>>) {
      end_with_value(Value(std::forward<R>(returned)));
    } else if (!returned.ok()) {
      end_with_error(returned.error());
    } else if constexpr (std::is_void_v<T>) {
      end_with_value({});
    } else {
      end_with_value(*std::forward<R>(returned));
    }
  }

  // Calls `get` and ends with what it returns or throws.
  template <class Get>
  void end_with_outcome_of(Get&& get) {
    try {
      if constexpr (std::is_void_v<decltype(get())>) {
        get();
        end_with_value({});
      } else {
        end_with(get());
      }
    } catch (...) {
      end_with_exception(std::current_exception());
    }
  }
};

/// True for a type of callable that can be empty, and then cannot be called: a pointer, a std::function, a Function.
template <class F>
inline constexpr bool can_be_empty =
    std::is_pointer_v<F> ||
    (std::is_class_v<F> && std::is_constructible_v<bool, const F&> && std::is_default_constructible_v<F>);

/// The record of a task made of any callable that takes nothing or a stop token.
template <class F>
class CallableRecord final : public ResultRecord<BodyValue<F>> {
 public:
  template <class G>
  CallableRecord(const GroupAddress& group_address, std::string_view task_id, G&& callable)
      : ResultRecord<BodyValue<F>>(group_address, task_id), callable_(std::forward<G>(callable)) {
    if constexpr (is_task_v<Returned<F>>) {
      this->extras();
      this->special = true;
    }
    this->drops_users_code = !std::is_trivially_destructible_v<F> || kKeepsUsersValue;
  }

  bool run() override {
    if constexpr (can_be_empty<F>) {
      if (callable_ && !static_cast<bool>(*callable_)) {
        this->end_with_error({ErrorCode::kInvalid, "the callable is empty", {}});
        drop_callable();
        return true;
      }
    }
    if constexpr (is_task_v<Returned<F>>) {
      if (!go_on()) return false;
    } else {
      this->end_with_outcome_of([this]() -> decltype(auto) { return call_body(*callable_, stop_); });
    }
    drop_callable();
    return true;
  }

  [[nodiscard]] bool is_coroutine() const override { return is_task_v<Returned<F>>; }
  void drop_body() override { drop_callable(); }
  void drop_value() override {
    this->value.reset();
    this->drops_users_code = false;
  }

 protected:
  void on_stop() override {
    if constexpr (takes_stop_token<F>) stop_.request_stop();
  }

 private:
  static constexpr bool kKeepsUsersValue =
      !std::is_trivially_destructible_v<typename ResultRecord<BodyValue<F>>::Value>;
  void drop_callable() {
    callable_.reset();
    if constexpr (!kKeepsUsersValue) this->drops_users_code = false;
  }

  struct Nothing {};
  using Coroutine = typename std::conditional_t<is_task_v<Returned<F>>, std::type_identity<Returned<F>>,
                                                std::type_identity<Nothing>>::type;

  // Starts or resumes the coroutine. Returns true if it has ended.
  bool go_on() {
    std::coroutine_handle<> next = std::exchange(this->extras().resume_point, nullptr);
    if (!next) {
      try {
        coroutine_ = call_body(*callable_, stop_);
      } catch (...) {
        this->end_with_exception(std::current_exception());
        return true;
      }
      next = coroutine_.coroutine();
      COHORT_ASSERT(next, "a callable that returns a Task returns one that can be run");
    }
    next.resume();
    if (!coroutine_.coroutine().done()) {
      COHORT_ASSERT(this->extras().resume_point, "a Task awaits Tasks, handles, scopes and sleeps, nothing else");
      return false;
    }
    this->end_with_outcome_of([this]() -> decltype(auto) { return coroutine_.coroutine().promise().result(); });
    coroutine_ = Coroutine();
    return true;
  }

  std::optional<F> callable_;
  [[no_unique_address]] StopOf<F> stop_;
  [[no_unique_address]] Coroutine coroutine_{};
};

}  // namespace cohort::internal
