#pragma once

#include "cohort/base/clock.h"
#include "cohort/task/internal/task_record.h"

namespace cohort {

class Executor;

namespace internal {

/// Records that this thread runs itself, one after the other, instead of a worker. The permits of one go back when the
/// next one takes its own, or with end(): so there is one event for each record and not two.
///
/// Thread-safety: confined to the thread that made it.
class HereTurns {
 public:
  explicit HereTurns(Executor& executor) : executor_(executor) {}
  ~HereTurns() { end(); }
  HereTurns(const HereTurns&) = delete;
  HereTurns& operator=(const HereTurns&) = delete;

  /// Runs a record without limits on its time, if it could start now and nothing of its group waits, and keeps it until
  /// the next. False: it has not been touched. `now` is the time, as the caller has just read it.
  bool run(TaskRef& record, Time now);
  /// Before anything that may take its time.
  void end();
  /// When the last one ended; Time::min(): there was none, or that is long ago.
  [[nodiscard]] Time last_end() const { return last_end_; }
  /// Something else has taken its time since.
  void forget_time() { last_end_ = Time::min(); }

  // For executors.
  void* open = nullptr;  ///< Whatever has not been given back yet,
  TaskRef last{};        ///< and the record whose it was.
  void note_end(Time at) { last_end_ = at; }

 private:
  Executor& executor_;
  Time last_end_ = Time::min();
};

}  // namespace internal
}  // namespace cohort
