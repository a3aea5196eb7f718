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

/// Runs tasks in groups on threads of its own. Each group has limits, a fair share and an end of its own; waiting costs
/// no thread.
///
///     GroupExecutor executor({.groups = {{"db-write", {.max_concurrency = 2}}}, .global_max_in_flight = 256});
///     TaskHandle<int> handle = executor.submit("db-write", "task-1", [] { return 42; });
///     TaskResult<int> result = handle.await();
///
/// Tasks may block: while bodies are stuck in system calls other threads take over, up to `max_threads`. Tasks may
/// submit tasks and await them, whatever the limits are. Coroutines give their thread back when they suspend.
///
/// Order: tasks of one group and priority start in the order in which they were submitted; those of several threads in
/// an order in which a submit that had returned comes before one that had not begun.
///
/// fork: a child process has none of the threads, and must not use the executor nor destroy it. Fork before making one,
/// or have the child call exec or _exit.
///
/// Callables, results and what they own are destroyed by a worker, or by the caller whose own call ended the task;
/// never by the thread that fires timers. Their destructors must not wait for tasks.
///
/// Destroying it is shutdown(0): what waits is cancelled, what runs is asked to stop, and the destructor waits for the
/// bodies. Handles may be used before, while and after that; submitting to it from outside at the same time may not.
///
/// Thread-safety: thread-safe.
/// Example: examples/01_hello_groups.cc
class GroupExecutor final : public Executor {
 public:
  explicit GroupExecutor(GroupExecutorOptions options = {});
  ~GroupExecutor() override;

  /// How many threads there are now, those of parked tasks included.
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
