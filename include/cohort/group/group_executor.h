#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/group/group_executor_options.h"
#include "cohort/task/executor.h"

namespace cohort {

namespace internal {
class ThreadDriver;
}

/// Runs tasks in groups on its own threads. Each group has its own limits, its own fair share and its own shutdown. A
/// waiting task costs no thread.
///
///     GroupExecutor executor({.groups = {{"db-write", {.max_concurrency = 2}}}, .global_max_in_flight = 256});
///     TaskHandle<int> handle = executor.submit("db-write", "task-1", [] { return 42; });
///     TaskResult<int> result = handle.await();
///
/// Tasks may block: while a body is stuck in a system call, another thread takes over, up to `max_threads` threads.
/// Tasks may submit tasks and await them, whatever the limits are. A coroutine gives its thread back when it suspends.
///
/// Order: tasks of one group and priority start in the order in which they were submitted. If two threads submit, the
/// task whose submit returned before the other submit began comes first.
///
/// fork: a child process has none of the executor's threads and must neither use nor destroy the executor. Fork before
/// you make an executor, or let the child call exec or _exit.
///
/// Callables, results and the objects they own are destroyed by a worker, or by the thread whose own call ended the
/// task. The thread that fires timers never destroys them. Their destructors must not wait for tasks.
///
/// The destructor calls shutdown(0): it cancels waiting tasks, asks running tasks to stop, and waits for all bodies.
/// Handles may be used before, during and after the destruction. No thread may submit from outside during it.
///
/// Thread-safety: thread-safe.
/// Example: examples/01_hello_groups.cc
class GroupExecutor final : public Executor {
 public:
  explicit GroupExecutor(GroupExecutorOptions options = {});
  ~GroupExecutor() override;

  /// The current number of threads that run tasks or wait for tasks to run, including the threads of parked tasks.
  [[nodiscard]] std::size_t thread_count() const;

  [[nodiscard]] Clock& clock() override;
  [[nodiscard]] ResolvedLimits resolve(std::string_view group) override;
  Result<void> set_limits(std::string_view group, const GroupLimits& limits) override;
  Result<void> clear_limits(std::string_view group) override;
  Result<void> evict_group(std::string_view group) override;
  Result<void> pause_group(std::string_view group) override;
  Result<void> resume_group(std::string_view group) override;
  Result<void> shutdown_group(std::string_view group) override;
  Result<void> drain_group(std::string_view group, Duration timeout) override;
  Result<void> shutdown(Duration timeout) override;
  [[nodiscard]] ExecutorStats stats() override;
  [[nodiscard]] Result<GroupStats> group_stats(std::string_view group) override;
  [[nodiscard]] std::vector<std::string> active_groups() override;
  [[nodiscard]] Duration estimated_wait(std::string_view group) override;
  bool limit_current_task(std::optional<Time> end) override;
  void call_at(Time at, Function<void()> call) override;

 protected:
  void submit_record(internal::TaskRecord& record, Submission submission) override;
  bool run_here(internal::TaskRef& record, Time now, internal::HereTurns& turns) override;
  void end_here(internal::HereTurns& turns) override;
  bool begin_blocking() override;
  void end_blocking() override;
  void submit_records(std::span<internal::TaskRecord* const> records, Submission submission) override;
  void follow_record(internal::TaskRecord& record, internal::TaskRecord& predecessor) override;
  void cancel_record(internal::TaskRecord& record) override;
  void close_lease(internal::GroupLease& lease) override;
  std::unique_ptr<Error> await(internal::AwaitState& state, std::optional<Time> until) override;
  void mark_awaited(internal::TaskRecord& record) override;
  void block(internal::AwaitState& state) override;
  [[nodiscard]] std::uint32_t shortest_queue() override;
  [[nodiscard]] Explanation explain_record(internal::TaskRecord& record) override;

 private:
  std::unique_ptr<internal::ThreadDriver> driver_;
};

}  // namespace cohort
