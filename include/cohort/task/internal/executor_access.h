#pragma once

#include <memory>
#include <optional>
#include <span>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/task/internal/await_state.h"
#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// What handles, coroutines and batches ask of the executors behind them.
struct ExecutorAccess {
  static void cancel(TaskRecord& record);
  static void follow(TaskRecord& record, TaskRecord& predecessor);
  /// For layers with records of their own: first this, before anybody else knows the record; then as the port says.
  static void set_home(Executor& executor, TaskRecord& record);
  static void submit(Executor& executor, TaskRecord& record);
  [[nodiscard]] static Clock& clock_of(Executor& executor);
  /// Cancels what came with a lease that has been closed.
  static void close_group(Executor& executor, GroupLease& lease);
  [[nodiscard]] static std::uint32_t shortest_queue(Executor& executor);
  /// Waits on this thread: through the current task's executor, so that it can park, else through that of the awaited.
  static std::unique_ptr<Error> await(AwaitState& state, std::optional<Time> until);
  /// As await, but blocks the thread where the current task cannot park any more.
  static void block(AwaitState& state);
  /// Has those of the awaited tasks that are another executor's marked as awaited there.
  static void mark_awaited_elsewhere(const TaskRecord& awaiter, const AwaitState& state);
  /// See BlockingRegion.
  [[nodiscard]] static bool begin_blocking(Executor& executor);
  static void end_blocking(Executor& executor);
  /// By the clock of the executor through which await would wait for it.
  [[nodiscard]] static Time now(const TaskRecord& record);

  static constexpr std::size_t kMaxSubmittedAtOnce = 64;
  /// Submits the tasks, at most so many, and writes their handles. What finds a full queue waits at its door.
  template <class ExecutorType, class Tasks, class Handles>
  static void submit_paced(ExecutorType& executor, Tasks tasks, Handles handles) {
    executor.submit_some(tasks, handles, ExecutorType::Submission::kPaced);
  }
};

/// Lets the current coroutine task wait for `state` when it suspends.
void request_await(Ref<AwaitState> state, std::coroutine_handle<> resume_point);
/// Lets the current coroutine task sleep when it suspends; `until_stop`: a stop request ends that.
void request_sleep(Duration duration, std::coroutine_handle<> resume_point, bool until_stop = false);
/// Whether the current task has been asked to stop.
[[nodiscard]] bool current_task_is_to_stop();
/// Why the await that the current task has come back from failed, or null.
std::unique_ptr<Error> take_await_error();
/// The same for any task, on its own thread.
std::unique_ptr<Error> collect_await_error(TaskRecord& task);
/// Why a task that has run out of time cannot await.
[[nodiscard]] Error out_of_time_error(const TaskRecord& task);

}  // namespace cohort::internal
