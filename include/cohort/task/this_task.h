#pragma once

#include <optional>
#include <stop_token>

#include "cohort/base/clock.h"
#include "cohort/task/internal/executor_access.h"
#include "cohort/task/internal/task_record.h"

namespace cohort {

/// Functions that give a body access to its own task, however deep in calls. Outside a task, there is no deadline and
/// the stop token never gets a stop request.
///
/// Thread-safety: thread-safe; each thread sees the task that it runs.
namespace this_task {

/// The time at which the current task's time is over, by its executor's clock; nullopt if the task has no limit.
[[nodiscard]] inline std::optional<Time> deadline() {
  const internal::TaskRecord* const task = internal::current_task();
  return task != nullptr ? task->time_limit() : std::nullopt;
}

/// A token that gets a stop request when the current task is cancelled, runs out of time or is shut down.
[[nodiscard]] inline std::stop_token stop_token() {
  internal::TaskRecord* const task = internal::current_task();
  return task != nullptr ? task->stop_token() : std::stop_token();
}

}  // namespace this_task

/// Tells the executor that the code in this scope blocks its thread (a read, a lock, a library that waits). Another
/// thread then takes over at once. Without the region, it takes over only when the executor notices the block.
///
///     const BlockingRegion region;
///     std::getline(file, line);
///
/// Outside a task the region does nothing. Thread-safety: confined to the thread that made it.
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
  bool begins_;  // False if the region changes nothing, for example inside another region.
};

}  // namespace cohort
