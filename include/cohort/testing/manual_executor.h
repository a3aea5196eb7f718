#pragma once

#include <memory>
#include <string>

#include "cohort/group/group_executor_options.h"
#include "cohort/task/executor.h"
#include "cohort/testing/virtual_clock.h"

namespace cohort {

/// An Executor in virtual time: the scheduler of the real one, driven by the test. Nothing happens until it is asked
/// to, everything happens in the same order every time, and time passes only where the test or a sleeping body lets it.
///
///     VirtualClock clock;
///     ManualExecutor executor(clock, {.defaults = {.max_concurrency = 2}, .threads = 4});
///     auto handle = executor.submit("a", "1", [&] { executor.spend(10ms); return 42; });
///     executor.advance(10ms);
///     EXPECT_TRUE(handle.is_done());
///
/// It has `threads` virtual workers (0: 2). Bodies take no time, except by spend(). A body that blocks (spend, await)
/// has a thread of its own, and exactly one thread runs at any time. Awaiting from outside drives the executor, through
/// time if it must; when nothing is left that could happen, that is a deadlock and an assertion says who waits for
/// what.
/// A task of one ManualExecutor can await a task of another only if the two are linked: else nobody would drive that
/// one.
///
/// Thread-safety: confined to the thread that made it and the bodies it runs.
/// Example: examples/05_virtual_time.cc
class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(VirtualClock& clock, GroupExecutorOptions options = {});
  /// As shutdown(0); then waits for the bodies, through virtual time.
  ~ManualExecutor() override;

  /// From now on whoever drives one of the two drives both, through the time of their one clock.
  void link(ManualExecutor& other);

  /// Does one thing that can be done now: a worker takes a turn, or a body goes on. False when there is none.
  bool run_one();
  /// Does all that can be done now.
  void run();
  /// Lets time pass, doing everything at its time.
  void advance(Duration duration);
  /// Lets time pass until nothing waits or runs any more, at most for `limit`. True when that is so.
  bool run_until_idle(Duration limit = std::chrono::hours(24));

  /// When the next thing happens by itself: the end of a sleep, a time-out, an alarm. For who drives several executors
  /// by one clock: move it there, and run() each.
  [[nodiscard]] std::optional<Time> next_event() const;

  /// Called by a body: occupies its worker for so long, as a slow call would.
  void spend(Duration duration);

  /// What is left of tasks, permits and threads, in words; empty when nothing is.
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
