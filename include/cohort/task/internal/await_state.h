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

/// The entry of one AwaitState in the waiter list of one record.
class Waiter : public ListLinks<Waiter> {
 public:
  AwaitState* state = nullptr;
  bool listed = false;  // Guarded by the record's stripe, see task_record.cc.
};

/// One wait until `need` of several tasks are done.
///
/// The waiting side holds one reference, and each listed waiter holds one. So the object is still alive for a
/// notification that is under way when the wait is given up.
///
/// Thread-safety: thread-safe, but arm and disarm are the waiting side's.
class AwaitState {
 public:
  /// Makes a wait until `need` of `records` are done. Each record may be in `records` only once.
  static Ref<AwaitState> make(std::vector<TaskRef> records, std::size_t need);
  /// Makes a wait until `record` is done.
  static Ref<AwaitState> make(TaskRecord& record);

  /// Begins the wait: unless disarm() comes first, `on_satisfied` runs exactly once, on the thread that ends the last
  /// task needed, or inside this call.
  void arm(Function<void()> on_satisfied);
  /// Leaves the waiter lists. `on_satisfied` may still be running on another thread.
  void disarm();

  [[nodiscard]] bool satisfied() const;
  /// True if all records are promises without an executor.
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

/// Blocks this thread until `state` is satisfied or `until` has come. For a thread that has no task to park.
void wait_on_this_thread(AwaitState& state, std::optional<Time> until, Clock& clock);

}  // namespace cohort::internal
