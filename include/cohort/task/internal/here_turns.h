#pragma once

#include "cohort/base/clock.h"
#include "cohort/task/internal/task_record.h"

namespace cohort {

class Executor;

namespace internal {

/// Runs records on this thread, one after the other, instead of on a worker. The permits of a record go back when the
/// next record takes its permits, or in end(). So each record costs one event of the scheduler instead of two.
///
/// Thread-safety: confined to the thread that made it.
class HereTurns {
 public:
  explicit HereTurns(Executor& executor) : executor_(executor) {}
  ~HereTurns() { end(); }
  HereTurns(const HereTurns&) = delete;
  HereTurns& operator=(const HereTurns&) = delete;

  /// Runs a record that has no time limits, if it could start now and no task of its group waits. Keeps the record
  /// until the next run(). Returns false if the record has not begun; the caller keeps it then. `now` is the time
  /// that the caller has just read.
  bool run(TaskRef& record, Time now);
  /// Gives the permits of the last record back. Call it before anything that may take long.
  void end();
  /// When the last record ended; Time::min() if there was none, or if that may be long ago.
  [[nodiscard]] Time last_end() const { return last_end_; }
  /// Call it after this thread has spent time on something else: last_end() is no longer the current time.
  void forget_time() { last_end_ = Time::min(); }

  // For executors.
  void* open = nullptr;  ///< The executor's state of the last record, while its permits have not gone back.
  TaskRef last{};        ///< The last record.
  void note_end(Time at) { last_end_ = at; }

 private:
  Executor& executor_;
  Time last_end_ = Time::min();
};

}  // namespace internal
}  // namespace cohort
