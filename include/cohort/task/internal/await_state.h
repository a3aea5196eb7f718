#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/function.h"
#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// One place on one record's waiter list.
class Waiter : public ListLinks<Waiter> {
 public:
  AwaitState* state = nullptr;
  bool listed = false;  // Guarded by the record's stripe.
};

/// One wait for `need` out of several tasks.
///
/// Whoever waits holds one reference and each listed waiter another, so a notification that is under way when the wait
/// is given up finds its object alive.
///
/// Thread-safety: thread-safe, but arm and disarm are the waiting side's.
class AwaitState {
 public:
  /// `need` of `records` (each at most once in it) have to be done.
  static Ref<AwaitState> make(std::vector<TaskRef> records, std::size_t need);
  /// For one record.
  static Ref<AwaitState> make(TaskRecord& record);

  /// Begins to wait: `on_satisfied` runs exactly once, on the thread that ends the last task needed, or right here.
  void arm(Function<void()> on_satisfied);
  /// Leaves the waiter lists. `on_satisfied` may still be running on another thread.
  void disarm();

  [[nodiscard]] bool satisfied() const;
  /// Nothing that any executor runs is waited for, only promises of the world outside.
  [[nodiscard]] bool is_from_outside() const;
  [[nodiscard]] std::span<const TaskRef> records() const { return records_; }
  [[nodiscard]] std::size_t need() const { return need_; }

  void notify();
  void ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void unref() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  AwaitState(std::vector<TaskRef> records, std::size_t need);
  ~AwaitState() = default;

  std::atomic<std::uint32_t> references_{1};
  std::size_t need_;
  std::atomic<std::ptrdiff_t> remaining_;
  std::vector<TaskRef> records_;
  std::unique_ptr<Waiter[]> waiters_;
  Function<void()> on_satisfied_;
};

/// Blocks a thread that has no task to park until `state` is satisfied or `until` has come.
void wait_on_this_thread(AwaitState& state, std::optional<Time> until, Clock& clock);

}  // namespace cohort::internal
