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

/// A record that no executor runs: who does the work settles it, from any thread.
template <class T>
class PromiseRecord final : public ResultRecord<T> {
 public:
  PromiseRecord(std::string_view name, Function<void()> on_cancel, Time now)
      : ResultRecord<T>(GroupAddress(std::string_view()), name), on_cancel_(std::move(on_cancel)) {
    this->submitted_at = now;
    this->begin(now);
  }
  /// What it was to bring is there already.
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

/// The end of something that no executor runs: an answer from the network, a write that another thread does. Whoever
/// does it holds the Promise; whoever waits for it has its handle, with all that handles can do but `then`.
///
///     Promise<int> promise("answer", [] { /* somebody called cancel() on a handle */ });
///     TaskHandle<int> handle = promise.handle();
///     … on any thread: promise.settle(42);
///     co_await handle;
///
/// A task that awaits it keeps its permits, as if it slept. One that is settled by a task of the same executor must be
/// made for that executor: then who awaits it parks, and cannot keep that task from starting.
///
/// A promise that is dropped unsettled fails with kEnded, so nobody waits for ever. One that a task of a ManualExecutor
/// awaits is settled on the thread that drives it.
///
/// Thread-safety: settle() and handle() are thread-safe. `on_cancel` runs at most once, on the thread that cancels,
/// perhaps after the promise was settled; it must not throw.
template <class T>
class Promise {
 public:
  explicit Promise(std::string_view name = {}, Function<void()> on_cancel = {}, Clock& clock = system_clock())
      : clock_(&clock), record_(internal::Ref<Record>::adopt(new Record(name, std::move(on_cancel), clock.now()))) {}
  /// For one that is settled by what this executor runs, and so before its end: who waits for it drives the executor
  /// meanwhile, where that has to be driven.
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
  /// False: it had been settled before, and this changes nothing.
  bool settle(Result<T> result) { return record_->settle(std::move(result), clock_->now()); }
  [[nodiscard]] bool is_settled() const { return record_->is_claimed(); }

 private:
  using Record = internal::PromiseRecord<T>;

  Clock* clock_;
  internal::Ref<Record> record_;
};

}  // namespace cohort
