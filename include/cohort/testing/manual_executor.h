#pragma once

#include <memory>
#include <string>

#include "cohort/group/group_executor_options.h"
#include "cohort/task/executor.h"
#include "cohort/testing/virtual_clock.h"

namespace cohort {

/// An Executor in virtual time, for tests. It has the scheduler of GroupExecutor, but the test drives it. Nothing
/// happens until the test drives the executor, and the order of events is the same in every run. Virtual time passes
/// only where a call of the test or a sleeping body lets it pass.
///
///     VirtualClock clock;
///     ManualExecutor executor(clock, {.defaults = {.max_concurrency = 2}, .threads = 4});
///     auto handle = executor.submit("a", "1", [&] { executor.spend(10ms); return 42; });
///     executor.advance(10ms);
///     EXPECT_TRUE(handle.is_done());
///
/// It has `threads` virtual workers (0 means 2). Bodies take no virtual time, except in spend(). A body that blocks (in
/// spend() or an await) has a thread of its own, but exactly one thread runs at any time.
///
/// An await from outside drives the executor and lets time pass if necessary. If nothing more can happen, the await is
/// a deadlock: an assertion fails and says which task waits for what. A task of one ManualExecutor can await a task of
/// another only if the two are linked. Otherwise nothing would drive the other executor.
///
/// Thread-safety: confined to the thread that made it and the bodies it runs.
/// Example: examples/05_virtual_time.cc
class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(VirtualClock& clock, GroupExecutorOptions options = {});
  /// Calls shutdown(0), then lets virtual time pass until all bodies have ended.
  ~ManualExecutor() override;

  /// From now on a call that drives one of the two executors drives both. They must have the same clock.
  void link(ManualExecutor& other);

  /// Does one thing that can be done now: a worker takes a turn, or a body goes on. False if nothing can be done.
  bool run_one();
  /// Does everything that can be done without letting time pass.
  void run();
  /// Lets `duration` pass and does everything at its time.
  void advance(Duration duration);
  /// Lets time pass until no task is left, but at most `limit`. Returns true if no task is left.
  bool run_until_idle(Duration limit = std::chrono::hours(24));

  /// The time at which something next happens by itself: a sleep ends, a time-out or an alarm comes. To drive several
  /// executors with one clock, set the clock to the earliest of these times and run() each executor.
  [[nodiscard]] std::optional<Time> next_event() const;

  /// Call it in a body: it occupies the body's worker for `duration`, like a slow call.
  void spend(Duration duration);

  /// Describes the tasks, permits and threads that are left. Empty if none are left.
  [[nodiscard]] std::string leaks() const;

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
  [[nodiscard]] bool is_driven_by_callers() const override { return true; }
  void follow_record(internal::TaskRecord& record, internal::TaskRecord& predecessor) override;
  void cancel_record(internal::TaskRecord& record) override;
  void close_lease(internal::GroupLease& lease) override;
  std::unique_ptr<Error> await(internal::AwaitState& state, std::optional<Time> until) override;
  void mark_awaited(internal::TaskRecord& record) override;
  void block(internal::AwaitState& state) override;
  [[nodiscard]] std::uint32_t shortest_queue() override;
  [[nodiscard]] Explanation explain_record(internal::TaskRecord& record) override;

 private:
  class Driver;
  Result<void> set_paused(std::string_view group, bool paused);
  std::unique_ptr<Driver> driver_;
};

}  // namespace cohort
