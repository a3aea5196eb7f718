#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// Which tasks a series has: made once, for all its runs, and used with one executor.
struct SeriesPlan {
  explicit SeriesPlan(std::vector<const TaskLabel*> names) : labels(std::move(names)) {}

  /// In the order of the tasks. They have no leases, and outlive the records.
  const std::vector<const TaskLabel*> labels;

  // The scheduler's: the groups, valid while so many have been evicted. Guarded by the lock of the executor.
  std::vector<Group*> groups;
  std::uint64_t evictions = 0;
};

/// Short tasks of several groups, one of each, that one thread runs one after the other, in one record.
///
/// Their permits are taken all at once, or none is. A task that has not begun can be taken back at any time; then it is
/// as if it had never been there, and on_cut() tells whoever had asked for it: if he hands it in again, as a record of
/// its own that says `readmitted`, nothing that came meanwhile can keep it out. One that awaits becomes a task like any
/// other: what comes after it is taken back first, so that the record is its own from there on.
///
/// Thread-safety: what is here is for the thread that runs the series, but for plan(), on_cut() and label(), which is
/// that of the task that runs, is about to, or did a moment ago. What TaskRecord has is for whom it says there.
class SeriesRecord : public TaskRecord {
 public:
  explicit SeriesRecord(SeriesPlan& plan)
      : TaskRecord(*plan.labels.front(), true), plan_(plan), current_(plan.labels.front()) {}

  [[nodiscard]] SeriesPlan& plan() const { return plan_; }
  [[nodiscard]] const TaskLabel& current_label() const { return *current_.load(std::memory_order_relaxed); }
  /// How many have begun.
  [[nodiscard]] std::uint32_t begun() const { return begun_; }

  /// The next one is about to run.
  void enter_next() {
    current_.store(plan_.labels[begun_++], std::memory_order_relaxed);
    claimed_by_body = false;
    if (TaskExtras* extras = extras_if_any()) extras->error.reset();
  }
  /// The one that has run has ended, and its time is measured: what follows from that.
  virtual void end_one(Time now) = 0;
  /// None is left to run here. The permits are not back yet: what is handed in now is in before all looks ended.
  virtual void before_end() = 0;
  /// Now they are.
  virtual void end_all() = 0;
  /// Those that have not begun have been taken back. On any thread, perhaps while one runs.
  virtual void on_cut() = 0;

 private:
  SeriesPlan& plan_;
  std::atomic<const TaskLabel*> current_;
  std::uint32_t begun_ = 0;
};

}  // namespace cohort::internal
