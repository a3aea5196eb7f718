#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cohort/testing/manual_executor.h"
#include "group/scheduler.h"
#include "testing/baton.h"

namespace cohort {

/// Drives the scheduler in virtual time.
/// Every method runs on the one thread that has the baton, so nothing here is locked.
class ManualExecutor::Driver {
 public:
  using AwaitState = internal::AwaitState;
  using Awaiting = internal::Awaiting;
  using BatonThread = internal::BatonThread;
  using Chore = internal::Chore;
  using EndJob = internal::EndJob;
  using Origin = internal::Origin;
  using TaskRecord = internal::TaskRecord;
  using Turn = internal::Turn;

  Driver(const internal::ExecutorHome& home, VirtualClock& clock, GroupExecutorOptions options)
      : home_(home),
        listener_(std::move(options.listener)),
        clock_(clock),
        workers_(options.threads),
        scheduler_(std::move(options), clock.now()) {}

  void end();
  internal::Scheduler<>& scheduler() { return scheduler_; }
  VirtualClock& clock() { return clock_; }
  [[nodiscard]] Time now() const { return clock_.now(); }

  void link(Driver& other);
  void unlink() { std::erase(*linked_, this); }

  bool run_one() {
    return std::ranges::any_of(*linked_, [](Driver* each) { return each->run_own(); });
  }

  bool run_own();
  void run() {
    while (run_one()) {
    }
  }

  void run_to(Time end) {
    run();
    while (pass_time(end)) run();
    if (clock_.now() < end) clock_.set(end);
  }

  // Moves the clock to the next thing that happens by itself, at most to `end`. False when there is none.
  bool pass_time(Time end);
  void catch_up();
  [[nodiscard]] Time next_event() const {
    return std::min(
        {scheduler_.next_timer().value_or(Time::max()), sleeps_.next().value_or(Time::max()), extra_worker_at()});
  }

  // Drives until `reached()`, or `until` has come, or nothing can happen any more.
  template <class Reached>
  bool drive(Reached&& reached, Time until) {
    while (!reached()) {
      if (run_one()) continue;
      if (pass_time(until)) continue;
      if (until != Time::max() && now() < until) clock_.set(until);
      return reached();
    }
    return true;
  }

  void spend(Duration duration);
  void submit(TaskRecord& record, Submission submission);
  bool run_record_here(TaskRecord& record);
  void call_at(Time at, Function<void()> call) {
    scheduler_.set_alarm(std::make_unique<internal::Alarm>(std::move(call)), at, now());
    apply();
  }

  void follow(TaskRecord& record, TaskRecord& predecessor);
  void cancel(TaskRecord& record) {
    scheduler_.cancel(record, now());
    apply();
  }

  std::unique_ptr<Error> await(AwaitState& state, std::optional<Time> until);
  Result<void> drain(std::string_view key, Duration timeout);
  Result<void> shutdown(Duration timeout);
  void apply();
  void apply_but_own(std::vector<Chore>& own);

  // For chores, see perform().
  void tell_settled(const TaskRecord& record, Time) { tell(TaskEvent::Kind::kSettled, record, record.status()); }
  void resolve(const internal::Group& group) { give_answer(group.key); }
  void give_answer(std::string_view key) {
    const GroupLimits answer = scheduler_.policy().ask(key);
    while (scheduler_.resolved(key, answer, now())) apply();
    apply();
  }

  ResolvedLimits resolve(std::string_view key) {
    return scheduler_.resolve(key, scheduler_.knows(key) ? GroupLimits() : scheduler_.policy().ask(key));
  }
  void clear_limits(std::string_view key) {
    scheduler_.clear_limits(key, scheduler_.policy().ask(key), now());
    apply();
  }
  Result<void> evict(std::string_view key) {
    Result<bool> evicted = scheduler_.evict(key, std::nullopt, now());
    if (evicted && !*evicted) evicted = scheduler_.evict(key, scheduler_.policy().ask(key), now());
    apply();
    return evicted ? Result<void>() : evicted.error();
  }
  void shutdown_group(std::string_view key) {
    end_work([&](EndJob& job) { return scheduler_.shutdown_group(key, job, now()); });
  }
  void close_lease(const internal::GroupLease& lease) {
    end_work([&](EndJob& job) { return scheduler_.close_lease(lease, job, now()); });
  }

  [[nodiscard]] std::string leaks() const;
  void block(AwaitState& state);

 private:
  void tell(TaskEvent::Kind kind, const TaskRecord& record, TaskStatus status = TaskStatus::kSuccess);
  [[nodiscard]] Origin origin_of(const TaskRecord& record) const;
  template <class Begin>
  void end_work(Begin&& begin) {
    EndJob job;
    std::vector<Chore> own;
    bool more = begin(job);
    apply_but_own(own);
    while (more) {
      more = scheduler_.end_some(job, now());
      apply_but_own(own);
    }
    for (const Chore& chore : own) internal::perform(chore, *this);
    apply();
  }

  void be_resolved(std::string_view key) {
    if (!scheduler_.policy().has_resolver() || key.empty() || key.size() > kMaxKeyBytes || scheduler_.knows(key))
      return;
    give_answer(key);
  }

  // Chores that no worker has come for in a millisecond get one of their own.
  [[nodiscard]] Time extra_worker_at() const {
    return saturating_add(scheduler_.chores_wait_since(), std::chrono::milliseconds(1));
  }
  void help_with_chores();

  // The task whose body is running, if it is one of this executor's.
  [[nodiscard]] TaskRecord* own_task() const {
    TaskRecord* task = internal::current_task();
    return task != nullptr && task->home == &home_ ? task : nullptr;
  }

  struct Worker {
    enum State { kLooking, kIdle, kBusy, kSpare } state = kLooking;
    Turn turn;
  };
  struct Sleep : Timer {
    BatonThread* thread = nullptr;
  };
  struct Workers : std::deque<Worker> {
    explicit Workers(Limit& count) : std::deque<Worker>(count == 0 ? 2 : std::size_t{count}) { count = size(); }
  };
  void wake_worker() {
    const auto idle = std::ranges::find(workers_, Worker::kIdle, &Worker::state);
    COHORT_ASSERT(idle != workers_.end(), "the scheduler wakes only workers that are idle");
    idle->state = Worker::kLooking;
  }

  void dispatch(Worker& worker);
  void pass_to(BatonThread& thread, Worker* worker);
  void yield(BatonThread& thread) {
    thread.yield();
    COHORT_ASSERT(current_thread_ == &thread, "whoever has the baton is the current thread");
  }

  void run_turn(BatonThread& thread);
  void end_turn(BatonThread& thread);
  bool run_body(TaskRecord& record, BatonThread& thread);
  static bool run_once(TaskRecord& record);
  bool suspend(TaskRecord& record, Worker* worker);
  // Why the task must not wait; null when it may.
  std::unique_ptr<Error> refusal(TaskRecord& task, Awaiting& awaiting);
  void begin_await(TaskRecord& record, Awaiting& awaiting);
  void leave(Worker& worker);
  void run_here(TaskRecord& record);
  Worker& spare_worker();
  void report_deadlock(const AwaitState& state);

  const internal::ExecutorHome& home_;
  Function<void(const TaskEvent&)> listener_;
  VirtualClock& clock_;
  Workers workers_;
  std::unordered_map<const Worker*, std::unique_ptr<Worker>> spare_;
  internal::Scheduler<> scheduler_;
  TimerQueue sleeps_;
  std::deque<BatonThread*> freed_;                         // May go on now.
  std::unordered_map<TaskRecord*, BatonThread*> blocked_;  // The threads of parked bodies.
  std::unordered_map<BatonThread*, Worker*> worker_of_;    // Whose turn a thread runs.
  BatonThread* current_thread_ = nullptr;
  std::shared_ptr<std::vector<Driver*>> linked_ = std::make_shared<std::vector<Driver*>>(1, this);
  internal::BatonThreads threads_;
};

}  // namespace cohort
