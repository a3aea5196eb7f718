#pragma once

#include <optional>
#include <stop_token>

#include "cohort/base/clock.h"
#include "cohort/task/internal/executor_access.h"
#include "cohort/task/internal/task_record.h"

namespace cohort {

/// What a body can ask of the task that it is part of, however deep in calls. Outside every task there is no deadline,
/// and a token that is never asked.
///
/// Thread-safety: each thread asks for its own task.
namespace this_task {

/// When its time is over, by its executor's clock; nothing: it has no limit.
[[nodiscard]] inline std::optional<Time> deadline() {
  const internal::TaskRecord* const task = internal::current_task();
  return task != nullptr ? task->time_limit() : std::nullopt;
}

/// A token that is asked when the task is cancelled, runs out of time or is shut down.
[[nodiscard]] inline std::stop_token stop_token() {
  internal::TaskRecord* const task = internal::current_task();
  return task != nullptr ? task->stop_token() : std::stop_token();
}

}  // namespace this_task

/// Says that the next lines block the thread (a read, a lock, a library that waits), so that another thread takes over
/// at once and not only when the executor has noticed.
///
///     const BlockingRegion region;
///     file.read(…);
///
/// Outside every task it does nothing. Thread-safety: confined to the thread that made it.
class BlockingRegion {
 public:
  BlockingRegion() : task_(internal::current_task()) {
    begins_ = task_ != nullptr && internal::ExecutorAccess::begin_blocking(task_->home->executor());
  }
  ~BlockingRegion() {
    if (begins_) internal::ExecutorAccess::end_blocking(task_->home->executor());
  }
  BlockingRegion(const BlockingRegion&) = delete;
  BlockingRegion& operator=(const BlockingRegion&) = delete;

 private:
  internal::TaskRecord* const task_;
  bool begins_;  // Not where the body is in another region already.
};

}  // namespace cohort
