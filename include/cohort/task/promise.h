#pragma once

#include <atomic>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cohort/base/clock.h"
#include "cohort/base/function.h"
#include "cohort/base/result.h"
#include "cohort/task/task_handle.h"

namespace cohort {

namespace internal {

/// A record that no executor runs. The code that does the work settles the record, from any thread.
template <class T>
class PromiseRecord final : public ResultRecord<T> {
 public:
  PromiseRecord(std::string_view name, Function<void()> on_cancel, Time now)
      : ResultRecord<T>(GroupAddress(std::string_view()), name), on_cancel_(std::move(on_cancel)) {
    this->submitted_at = now;
    this->begin(now);
  }
  /// Makes a record that is already settled with `result`.
  template <class Value>
  PromiseRecord(const TaskLabel& like, Value&& result, Time begun, Time ended) : ResultRecord<T>(like) {
    this->submitted_at = begun;
    this->begin(begun);
    this->value.emplace(std::forward<Value>(result));
    this->succeed_at_birth(ended);
  }

  bool settle(Result<T> result, Time now) {
    if (!this->try_claim(status_of(result))) return false;
    write(std::move(result));
    this->publish(now);
    return true;
  }

  bool run() override { return true; }
  [[nodiscard]] bool is_promise() const override { return true; }

 protected:
  void on_stop() override {
    if (!asked_.exchange(true, std::memory_order_acq_rel) && on_cancel_) on_cancel_();
  }

 private:
  static TaskStatus status_of(const Result<T>& result) {
    if (result.ok()) return TaskStatus::kSuccess;
    return result.error().code == ErrorCode::kCancelled ? TaskStatus::kCancelled : TaskStatus::kFailed;
  }

  void write(Result<T> result) {
    if (!result.ok()) return this->set_error(result.error());
    try {
      if constexpr (std::is_void_v<T>) {
        this->value.emplace();
      } else {
        this->value.emplace(*std::move(result));
      }
    } catch (...) {
      this->set_error(Error::from_exception(std::current_exception()));
      this->reclaim(TaskStatus::kFailed);
    }
  }

  std::atomic<bool> asked_{false};
  Function<void()> on_cancel_;
};

}  // namespace internal

/// The result of work that no executor runs, such as an answer from the network or a write on another thread. The code
/// that does the work holds the Promise. The code that waits has its handle, which supports everything except `then`.
///
///     Promise<int> promise("answer", [] { /* somebody called cancel() on a handle */ });
///     TaskHandle<int> handle = promise.handle();
///     std::thread other([promise = std::move(promise)]() mutable { promise.settle(42); });
///     TaskResult<int> answer = co_await handle;
///
/// A task that awaits a Promise keeps its permits, as if it slept. Exception: if a task of the same executor settles
/// the Promise, make the Promise for that executor. The awaiting task then parks, so its permits cannot keep the
/// settling task from starting.
///
/// A Promise that is destroyed unsettled fails with kEnded, so no caller waits for ever. A Promise that a task of a
/// ManualExecutor awaits must be settled on the thread that drives the executor.
///
/// Thread-safety: settle() and handle() are thread-safe. `on_cancel` runs at most once, on the thread that cancels,
/// perhaps after the promise was settled; it must not throw.
template <class T>
class Promise {
 public:
  explicit Promise(std::string_view name = {}, Function<void()> on_cancel = {}, Clock& clock = system_clock())
      : clock_(&clock), record_(internal::Ref<Record>::adopt(new Record(name, std::move(on_cancel), clock.now()))) {}
  /// Makes a Promise that work of `executor` settles, and so before the executor ends. If the executor must be driven
  /// (ManualExecutor), a caller that waits for the Promise drives it meanwhile.
  Promise(Executor& executor, std::string_view name, Function<void()> on_cancel = {})
      : Promise(name, std::move(on_cancel), internal::ExecutorAccess::clock_of(executor)) {
    internal::ExecutorAccess::set_home(executor, *record_);
  }
  Promise(Promise&& other) noexcept = default;
  Promise& operator=(Promise&&) = delete;
  ~Promise() {
    if (!record_ || record_->is_claimed()) return;
    settle(Error{ErrorCode::kEnded, "what '" + record_->task_id() + "' was to bring was given up"});
  }

  [[nodiscard]] TaskHandle<T> handle() const {
    return TaskHandle<T>(internal::Ref<internal::ResultRecord<T>>(*record_));
  }
  /// Settles the Promise. Returns false and changes nothing if it was settled before.
  bool settle(Result<T> result) { return record_->settle(std::move(result), clock_->now()); }
  [[nodiscard]] bool is_settled() const { return record_->is_claimed(); }

 private:
  using Record = internal::PromiseRecord<T>;

  Clock* clock_;
  internal::Ref<Record> record_;
};

}  // namespace cohort
