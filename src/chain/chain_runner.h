#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "chain/alarms.h"
#include "chain/alone_gate.h"
#include "chain/chain_calls.h"
#include "chain/chain_lease.h"
#include "chain/chain_random.h"
#include "chain/feeder.h"
#include "chain/run.h"
#include "chain/run_table.h"
#include "chain/step_outputs.h"
#include "chain/store_call.h"
#include "chain/sure_calls.h"
#include "chain/wait_forecast.h"
#include "cohort/base/failpoint.h"
#include "cohort/base/log.h"
#include "cohort/base/text_time.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/task/sleep.h"

namespace cohort {

/// Bugs for tests to find; production has none.
struct NoChainFaults {
  static constexpr bool kForgetReadyRow = false;
  static constexpr bool kCheckpointBeforeStep = false;
  static constexpr bool kAcknowledgeEarly = false;
};

/// Claims tasks and runs their steps. A ticket is a coroutine in the executor: it claims the next task of its group,
/// runs its steps, and has the store write what became of them.
///
/// The order that the promise rests on:
/// 1. An attempt is durable before its body begins.
/// 2. The body of a step has ended before its checkpoint is sent.
/// 3. Nothing of the next step begins before that checkpoint is durable.
/// 4. A write that the store may or may not have taken is repeated under its number until that is known (SureCalls).
/// 5. The row of a run is what the last write answered; the runner itself changes nothing of it.
///
/// A run is in the gate while the store has an open attempt of it: from before the attempt is written until its end is.
///
/// Thread-safety: thread-safe. Tickets run on the executor's threads, tick() on any. The lock guards whether tickets
/// may claim, how many there are, and the counters; RunTable, Run, AloneGate, BasicFeeder and Alarms have locks of
/// their own. No lock is held while anything else is called.
template <class Faults>
class ChainRunner {
 public:
  ChainRunner(TaskStore& store, Executor& executor, const PluginRegistry& plugins, const ChainOptions& options,
              ChainCalls& calls, ChainLease& lease, ChainRandom& random, WaitForecast& forecast)
      : store_(store),
        executor_(executor),
        plugins_(plugins),
        options_(options),
        calls_(calls),
        lease_(lease),
        random_(random),
        sure_(store, executor, calls, lease),
        gate_(executor),
        feeder_([this](const std::string& group) { return put_ticket(group); }),
        forecast_(forecast) {
    for (const std::string& name : plugins_.names()) {
      if (plugins_.find(name)->runs_in_own_process()) own_process_plugins_.push_back(name);
    }
  }

  /// Makes the folder for the files of runs. Before begin().
  Result<void> open();
  void begin() {
    MutexLock lock(mutex_);
    is_running_ = true;
  }
  /// Tasks of the group became ready, or may have; `next_in`: they are due only then.
  void wake(const std::string& group, std::uint64_t count = 1) { feeder_.wake(group, count); }
  void wake_in(const std::string& group, Duration next_in) { alarms_->set(group, saturating_add(now(), next_in)); }
  /// Sends reports of steps, fails what overruns, and drops files that were kept long enough. Once a second.
  void tick();

  /// Claims nothing more. What runs goes on; calls to the store are not repeated after `give_up_at`.
  void stop(Time give_up_at);
  /// Asks all that runs to stop.
  void stop_runs() { runs_.stop_all(); }
  void stop_run(const std::string& task_id) { runs_.stop(task_id); }
  /// The claim has a run here, or will have one: it is being asked for.
  [[nodiscard]] bool has_run(const HeldClaim& claim) const {
    if (runs_.has(claim.task_id)) return true;
    MutexLock lock(mutex_);
    return asked_claims_.contains(claim.claim_id);
  }
  /// The claims are gone with the lease.
  void lose_claims() {
    runs_.stop_all();
    runs_.drop_kept(Time::max());
  }
  /// Lets every step in that waits to run alone or for one that runs alone. For an end that waits for nobody.
  void open_gate() { gate_.close(); }
  /// After the last ticket.
  void end() {
    if (alarms_) alarms_->stop();
    runs_.drop_kept(Time::max());
  }

  [[nodiscard]] bool has_tickets() const {
    MutexLock lock(mutex_);
    return tickets_ != 0;
  }
  void add_to(ChainStats& stats) const;
  [[nodiscard]] GateStatus gate_status() const;

 private:
  using RunRef = RunTable::RunRef;

  TaskHandle<void> put_ticket(const std::string& group);
  Task<> ticket(ChainCalls::Hold hold, std::string group, std::stop_token stop);
  struct AskedClaim;
  Task<ClaimAnswer> claim_next(const std::string& group, std::uint64_t wakes, AskedClaim& ask);
  [[nodiscard]] ClaimRequest claim_request(const std::string& group);

  // --- chain_steps.h
  Task<> run(RunRef run);
  Task<bool> begin_attempt(RunRef run);
  Task<PluginResult> attempt(RunRef run);
  Task<PluginResult> run_body(RunRef run);
  Task<bool> after_attempt(RunRef run, PluginResult result);
  Task<bool> after_success(RunRef run, PluginResult result);
  Task<bool> after_interruption(RunRef run, PluginResult result);
  Task<bool> after_retry(RunRef run, PluginResult result);
  Task<bool> fail(RunRef run, std::string reason);
  Task<bool> give_back(RunRef run);
  Task<bool> write(RunRef run, RunnerWrite what);
  void after_overrun(const RunRef& run);
  void fail_overrunning(const RunRef& run);
  void send_report(Run& run);
  [[nodiscard]] std::optional<Duration> delay_of_retry(const Run& run, std::optional<Duration> after);
  [[nodiscard]] bool may_keep(Duration delay) const {
    return delay < options_.keep && runs_.kept() < std::size_t{4} * options_.concurrency;
  }

  // --- small things
  [[nodiscard]] bool is_running() const {
    MutexLock lock(mutex_);
    return is_running_;
  }
  [[nodiscard]] bool may_claim() const { return !store_.fault() && is_running() && lease_.is_held(); }
  /// The run is to end at its next step: it was asked to, or the node stops.
  [[nodiscard]] bool is_stopping(Run& run) const { return run.stop_requested() || !is_running(); }
  void leave_gate(Run& run) {
    if (const std::optional<bool> was_alone = run.take_out_of_gate()) gate_.leave(*was_alone);
  }
  void end_run(const RunRef& run) {
    if (runs_.remove(run)) wake(run->task.request.group);
  }
  void count(std::uint64_t ChainStats::*what) {
    MutexLock lock(mutex_);
    ++(counted_.*what);
  }
  [[nodiscard]] Time now() const { return executor_.clock().now(); }

  TaskStore& store_;
  Executor& executor_;
  const PluginRegistry& plugins_;
  const ChainOptions& options_;
  ChainCalls& calls_;
  ChainLease& lease_;
  ChainRandom& random_;
  std::vector<std::string> own_process_plugins_;
  SureCalls sure_;
  WorkFolder work_folder_;
  AloneGate gate_;
  BasicFeeder<Faults> feeder_;
  WaitForecast& forecast_;
  std::shared_ptr<Alarms> alarms_;
  RunTable runs_;

  mutable Mutex mutex_;
  bool is_running_ COHORT_GUARDED_BY(mutex_) = false;
  std::uint32_t tickets_ COHORT_GUARDED_BY(mutex_) = 0;  // That have started and not ended.
  ChainStats counted_ COHORT_GUARDED_BY(mutex_);
  std::unordered_set<std::string> asked_claims_ COHORT_GUARDED_BY(mutex_);  // Ids of claims without a run yet.
};

// A claim on its way: the store may have it before this node has its run.
template <class Faults>
struct ChainRunner<Faults>::AskedClaim {
  explicit AskedClaim(ChainRunner& of) : runner(of) {}
  AskedClaim(const AskedClaim&) = delete;
  AskedClaim& operator=(const AskedClaim&) = delete;
  ~AskedClaim() { end(); }
  void begin() {
    MutexLock lock(runner.mutex_);
    runner.asked_claims_.insert(id);
  }
  void end() {
    MutexLock lock(runner.mutex_);
    runner.asked_claims_.erase(id);
  }

  ChainRunner& runner;
  std::string id;
};

template <class Faults>
Result<void> ChainRunner<Faults>::open() {
  alarms_ = std::make_shared<Alarms>(executor_, [this, engine = calls_.owner()](const std::string& group) {
    if (const auto alive = engine.lock()) feeder_.wake(group);
  });
  if (options_.work_folder.empty()) return {};
  Result<WorkFolder> folder = WorkFolder::make(options_.work_folder);
  if (!folder) return folder.error();
  work_folder_ = *std::move(folder);
  return {};
}

template <class Faults>
void ChainRunner<Faults>::tick() {
  if (store_.fault()) stop_runs();  // Nothing that they do could be written any more.
  for (const RunRef& run : runs_.all()) {
    send_report(*run);
    fail_overrunning(run);
  }
  gate_.look();
  runs_.drop_kept(now());
}

template <class Faults>
void ChainRunner<Faults>::stop(Time give_up_at) {
  {
    MutexLock lock(mutex_);
    is_running_ = false;
  }
  sure_.give_up_at(give_up_at);
  feeder_.stop();
}

template <class Faults>
void ChainRunner<Faults>::add_to(ChainStats& stats) const {
  stats.running = runs_.running();
  stats.kept = runs_.kept();
  MutexLock lock(mutex_);
  stats.completed = counted_.completed;
  stats.failed = counted_.failed;
  stats.retried = counted_.retried;
}

template <class Faults>
GateStatus ChainRunner<Faults>::gate_status() const {
  GateStatus status{.alone = gate_.alone(), .suspects = gate_.suspects(), .is_clear = gate_.is_clear()};
  for (const RunRef& run : runs_.all()) {
    if (run->is_in_gate()) status.inside.push_back(run->claim.task_id);
  }
  return status;
}

// --- tickets

template <class Faults>
TaskHandle<void> ChainRunner<Faults>::put_ticket(const std::string& group) {
  // With a time-out only so that each step can set its own.
  static constexpr SubmitOptions kOptions{.run_timeout = Duration::max()};
  return executor_.submit(
      group, "ticket",
      [this, engine = calls_.owner().lock(), group](std::stop_token stop) {
        return ticket(calls_.hold(), group, stop);
      },
      kOptions);
}

template <class Faults>
ClaimRequest ChainRunner<Faults>::claim_request(const std::string& group) {
  ClaimRequest request;
  request.id = random_.make_id();
  request.boot = lease_.boot();
  request.group = group;
  request.without_plugins = runs_.paused_plugins(group);
  request.own_process_plugins = own_process_plugins_;
  request.poison_after = options_.poison_after;
  return request;
}

// The answer has a task: then the ticket is in the gate for it.
template <class Faults>
Task<ClaimAnswer> ChainRunner<Faults>::claim_next(const std::string& group, std::uint64_t wakes, AskedClaim& ask) {
  ClaimRequest request = claim_request(group);
  ask.id = request.id;
  ClaimAnswer answer;
  if (!may_claim()) {
    feeder_.claimed(group, answer, wakes);
    co_return answer;
  }
  TaskHandle<void> place = gate_.enter(false);
  if (place.valid()) co_await place;
  if (may_claim()) {
    ask.begin();
    TaskHandle<ClaimAnswer> asked = as_handle<ClaimAnswer>(
        executor_, "claim", [&](Completion<ClaimAnswer> done) { sure_.claim(std::move(request), std::move(done)); });
    TaskResult<ClaimAnswer> claimed = co_await asked;
    if (claimed.ok()) {
      answer = *std::move(claimed.value);
      forecast_.note_claim(group, answer.task.has_value(), answer.more, now());
    }
  }
  feeder_.claimed(group, answer, wakes);
  if (answer.next_in) wake_in(group, *answer.next_in);
  if (!answer.task) gate_.leave(false);
  co_return answer;
}

template <class Faults>
Task<> ChainRunner<Faults>::ticket(ChainCalls::Hold hold, std::string group, std::stop_token stop) {
  const ChainCalls::Hold under_way = std::move(hold);  // Ends with the body; the parameter may live longer.
  struct TicketScope {
    ChainRunner& runner;
    const std::string& group;
    TicketScope(ChainRunner& of, const std::string& in) : runner(of), group(in) {
      MutexLock lock(runner.mutex_);
      ++runner.tickets_;
    }
    TicketScope(const TicketScope&) = delete;
    TicketScope& operator=(const TicketScope&) = delete;
    ~TicketScope() {
      runner.feeder_.ended(group);
      MutexLock lock(runner.mutex_);
      --runner.tickets_;
    }
  };
  const TicketScope scope(*this, group);
  const std::uint64_t wakes = feeder_.started(group);
  AskedClaim ask(*this);
  ClaimAnswer answer = co_await claim_next(group, wakes, ask);
  if (!answer.task) co_return;
  static_cast<void>(COHORT_FAILPOINT("chain.claimed"));
  RunRef run = std::make_shared<Run>(*std::move(answer.task));
  run->enter_gate(false);
  run->is_suspect = answer.suspect;
  if (answer.suspect) leave_gate(*run);
  if (runs_.has(run->task.id())) {  // A body of it, from before a lease was lost, has not returned yet.
    run->delay = std::chrono::seconds(1);
    static_cast<void>(co_await give_back(run));
    leave_gate(*run);
    co_return;
  }
  runs_.add(run);
  ask.end();
  // Asked after add(): a stop of all runs that comes later finds this one.
  if (!is_running() || !lease_.is_held_by(run->claim.boot)) run->request_stop();
  {
    const std::stop_callback on_stop(stop, [run] { run->request_stop(); });
    co_await this->run(run);
  }
  end_run(run);
}

}  // namespace cohort

#include "chain/chain_steps.h"  // IWYU pragma: export
