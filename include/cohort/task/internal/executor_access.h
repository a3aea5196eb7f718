#pragma once

#include <memory>
#include <optional>
#include <span>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/task/internal/await_state.h"
#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// The calls that handles, coroutines and batches make to the executors of their tasks.
struct ExecutorAccess {
  static void cancel(TaskRecord& record);
  static void follow(TaskRecord& record, TaskRecord& predecessor);
  /// For layers that make their own records: call set_home() first, before any other thread knows the record, then
  /// submit().
  static void set_home(Executor& executor, TaskRecord& record);
  static void submit(Executor& executor, TaskRecord& record);
  [[nodiscard]] static Clock& clock_of(Executor& executor);
  /// Cancels the tasks that were submitted with `lease`, which has been closed.
  static void close_group(Executor& executor, GroupLease& lease);
  [[nodiscard]] static std::uint32_t shortest_queue(Executor& executor);
  /// Waits on this thread. In a task it waits through the task's executor, so that the task can park; outside a task,
  /// through the executor of an awaited task.
  static std::unique_ptr<Error> await(AwaitState& state, std::optional<Time> until);
  /// Like await(), but blocks the thread of a current task that cannot park any more.
  static void block(AwaitState& state);
  /// Marks those awaited tasks that belong to another executor as awaited, in that executor.
  static void mark_awaited_elsewhere(const TaskRecord& awaiter, const AwaitState& state);
  /// See BlockingRegion.
  [[nodiscard]] static bool begin_blocking(Executor& executor);
  static void end_blocking(Executor& executor);
  /// The current time by the clock of the executor through which await() would wait for `record`.
  [[nodiscard]] static Time now(const TaskRecord& record);

  static constexpr std::size_t kMaxSubmittedAtOnce = 64;
  /// Submits at most kMaxSubmittedAtOnce tasks and writes their handles. A task that finds a full queue waits at the
  /// door.
  template <class ExecutorType, class Tasks, class Handles>
  static void submit_paced(ExecutorType& executor, Tasks tasks, Handles handles) {
    executor.submit_some(tasks, handles, ExecutorType::Submission::kPaced);
  }
};

/// Makes the current coroutine task wait for `state` when it suspends.
void request_await(Ref<AwaitState> state, std::coroutine_handle<> resume_point);
/// Makes the current coroutine task sleep when it suspends. If `until_stop` is true, a stop request ends the sleep.
void request_sleep(Duration duration, std::coroutine_handle<> resume_point, bool until_stop = false);
/// Whether the current task has been asked to stop.
[[nodiscard]] bool current_task_is_to_stop();
/// Takes the error of the current task's last await; null if that await did not fail.
std::unique_ptr<Error> take_await_error();
/// Takes the error of the last await of `task`; null if that await did not fail. Call it on the task's own thread.
std::unique_ptr<Error> collect_await_error(TaskRecord& task);
/// The error of an await in a task that has run out of time.
[[nodiscard]] Error out_of_time_error(const TaskRecord& task);

}  // namespace cohort::internal
