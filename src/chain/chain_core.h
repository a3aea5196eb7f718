#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chain/chain_calls.h"
#include "chain/chain_control.h"
#include "chain/chain_lease.h"
#include "chain/chain_random.h"
#include "chain/chain_runner.h"
#include "chain/chain_submit.h"
#include "chain/end_waits.h"
#include "chain/event_relay.h"
#include "chain/intake.h"
#include "chain/retention.h"
#include "chain/wait_forecast.h"
#include "cohort/base/log.h"
#include "cohort/base/wall_clock.h"

namespace cohort {

/// The engine behind ChainEngine: puts its parts together, and takes them through start, running, draining and end.
///
/// | part | what it does |
/// |---|---|
/// | ChainLease | this node's lease in the store, under a boot |
/// | ChainSubmit | tasks that come in from callers |
/// | ChainControl | pauses, sizes, cancels |
/// | ChainRunner | tickets: claims tasks and runs their steps |
/// | BasicIntake, EventRelay | from and to the broker |
/// | EndWaits | callers that wait for tasks to end |
/// | WaitForecast | how long new tasks of a group will wait |
/// | Retention | forgets what ended long ago |
///
/// What the store tells (TaskStore::watch) moves them. A tick once a second does the rest: it renews the lease, sends
/// reports, fails what overruns, and now and then looks for what nobody has told of.
///
/// Each ticket and each call to store and broker holds a reference (ChainCalls), so the parts live as long as anything
/// of them is under way; close() waits for that.
///
/// Thread-safety: thread-safe. The lock guards the phase of life and the times of the last looks. The parts have locks
/// of their own and are called without this one.
template <class Faults>
class ChainCore : public std::enable_shared_from_this<ChainCore<Faults>> {
 public:
  static std::shared_ptr<ChainCore> make(TaskStore& store, Executor& executor, const PluginRegistry& plugins,
                                         ChainOptions options, Broker* broker = nullptr) {
    std::shared_ptr<ChainCore> core(new ChainCore(store, executor, plugins, std::move(options), broker));
    core->calls_.bind(core->weak_from_this(), [engine = core.get()] { engine->finish_draining(); });
    return core;
  }

  TaskHandle<void> start();
  TaskHandle<void> drain(Duration grace);
  void close();

  [[nodiscard]] ChainSubmit& tasks() { return submit_; }
  [[nodiscard]] ChainControl& control() { return control_; }
  [[nodiscard]] EndWaits& ends() { return *ends_; }
  [[nodiscard]] BasicIntake<Faults>* intake() const { return intake_.get(); }
  [[nodiscard]] ChainStats stats() const;
  [[nodiscard]] std::optional<Duration> estimated_wait(const std::string& group) const { return forecast_.wait(group); }
  [[nodiscard]] GateStatus gate_status() const { return runner_.gate_status(); }

 private:
  enum class Life { kNew, kJoining, kRunning, kDraining, kClosed };
  static constexpr Duration kTick = std::chrono::seconds(1);
  static constexpr Duration kLookAtWaits = std::chrono::seconds(5);
  static constexpr Duration kLastWrites = std::chrono::seconds(10);  // For what runs, to be written when draining.

  ChainCore(TaskStore& store, Executor& executor, const PluginRegistry& plugins, ChainOptions options, Broker* broker);

  void make_intake_and_relay();
  void begin_running();
  void begin_lease(const std::string& boot, bool is_first, Completion<void> done);
  void hear(const StoreNews& news);
  void tick();
  void tick_again_later();
  void look_at_everything();
  void look_for_work();
  void take_over();
  void look_at_waits();
  [[nodiscard]] bool clock_has_jumped();
  void finish_draining();

  void look_again_soon() {
    MutexLock lock(mutex_);
    looked_ = Time();
  }
  /// False once nothing runs any more: then nothing may begin that the end would have to wait for.
  [[nodiscard]] bool is_active() const {
    const bool has_tickets = runner_.has_tickets();
    MutexLock lock(mutex_);
    return life_ == Life::kRunning || (life_ == Life::kDraining && has_tickets);
  }
  [[nodiscard]] Time now() const { return executor_.clock().now(); }

  TaskStore& store_;
  Broker* const broker_;
  Executor& executor_;
  const PluginRegistry& plugins_;
  const ChainOptions options_;
  ChainCalls calls_;
  ChainRandom random_;
  WaitForecast forecast_;
  ChainLease lease_;
  ChainRunner<Faults> runner_;
  ChainControl control_;
  ChainSubmit submit_;
  Retention retention_;
  const std::shared_ptr<EndWaits> ends_;
  std::shared_ptr<BasicIntake<Faults>> intake_;  // Null: there is no broker.
  std::shared_ptr<EventRelay> relay_;            // Likewise.

  mutable Mutex mutex_;
  Life life_ COHORT_GUARDED_BY(mutex_) = Life::kNew;
  std::shared_ptr<void> watch_ COHORT_GUARDED_BY(mutex_);
  std::optional<Duration> clock_offset_ COHORT_GUARDED_BY(mutex_);
  Time looked_ COHORT_GUARDED_BY(mutex_){};
  Time looked_at_waits_ COHORT_GUARDED_BY(mutex_){};
  std::string waits_after_ COHORT_GUARDED_BY(mutex_);  // The groups behind this one are looked at next.
  std::vector<Promise<void>> drained_ COHORT_GUARDED_BY(mutex_);
};

template <class Faults>
ChainCore<Faults>::ChainCore(TaskStore& store, Executor& executor, const PluginRegistry& plugins, ChainOptions options,
                             Broker* broker)
    : store_(store),
      broker_(broker),
      executor_(executor),
      plugins_(plugins),
      options_(std::move(options)),
      random_(options_.seed),
      lease_(
          store, calls_, random_, options_,
          [this](const std::string& boot, bool is_first, Completion<void> done) {
            begin_lease(boot, is_first, std::move(done));
          },
          [this] { runner_.lose_claims(); }),
      runner_(store, executor, plugins, options_, calls_, lease_, random_, forecast_),
      control_(store, executor, calls_,
               {.wake = [this](const std::string& group) { runner_.wake(group); },
                .stop_run = [this](const std::string& task_id) { runner_.stop_run(task_id); },
                .has_run = [this](const HeldClaim& claim) { return runner_.has_run(claim); },
                .boot = [this] { return lease_.is_held() ? lease_.boot() : std::string(); },
                .look_again = [this] { look_again_soon(); }}),
      submit_(store, executor, plugins, options_, calls_, random_, forecast_),
      retention_(store, executor, calls_, options_.retention),
      ends_(std::make_shared<EndWaits>(store, executor, calls_)) {}

// --- start

template <class Faults>
TaskHandle<void> ChainCore<Faults>::start() {
  {
    MutexLock lock(mutex_);
    COHORT_ASSERT(life_ == Life::kNew, "an engine is started once");
    life_ = Life::kJoining;
  }
  if (Result<void> good = check(options_.templates, plugins_); !good) {
    return failed_handle<void>(executor_, "start", good.error());
  }
  if (Result<void> opened = runner_.open(); !opened) return failed_handle<void>(executor_, "start", opened.error());
  if (broker_ != nullptr) make_intake_and_relay();
  return as_handle<void>(executor_, "start", [&](Completion<void> done) {
    lease_.join([this, hold = calls_.hold(), done = std::move(done)](Result<void> joined) mutable {
      if (joined) begin_running();
      done(std::move(joined));
    });
  });
}

template <class Faults>
void ChainCore<Faults>::make_intake_and_relay() {
  const auto holds = [this, engine = this->weak_from_this()]() -> std::shared_ptr<void> {
    const auto alive = engine.lock();
    return alive ? calls_.try_hold() : nullptr;
  };
  intake_ = std::make_shared<BasicIntake<Faults>>(
      *broker_, store_, executor_, [this](NewTask& task) { return submit_.accept(task); },
      [this](const std::string& group) { runner_.wake(group); }, holds);
  relay_ = std::make_shared<EventRelay>(*broker_, store_, holds);
}

template <class Faults>
void ChainCore<Faults>::begin_running() {
  {
    MutexLock lock(mutex_);
    if (life_ != Life::kJoining) return;
    life_ = Life::kRunning;
  }
  runner_.begin();
  // Watched first, then looked at: nothing that comes in between is missed.
  std::shared_ptr<void> watch = store_.watch([this, engine = this->weak_from_this()](const StoreNews& news) {
    if (const auto alive = engine.lock()) hear(news);
  });
  {
    MutexLock lock(mutex_);
    watch_ = std::move(watch);
  }
  store_.stats([this, hold = calls_.hold()](const Result<StoreStats>& stats) {
    if (stats) ends_->skip_to(stats->last_event);
  });
  look_for_work();
  tick();
  if (intake_) intake_->start();
  COHORT_LOG(kInfo, "chain", "the engine has started", {"node", lease_.boot()});
}

// First what the boots before have left, then what operators have asked for.
template <class Faults>
void ChainCore<Faults>::begin_lease(const std::string& boot, bool is_first, Completion<void> done) {
  store_.take_over(boot, !store_.is_shared() && is_first,
                   [this, hold = calls_.hold(), done = std::move(done)](auto taken) mutable {
                     look_again_soon();  // There is a lease, even if something after it goes wrong.
                     if (!taken) return done(taken.error());
                     control_.compare(std::move(done));
                   });
}

// --- while it runs

template <class Faults>
void ChainCore<Faults>::hear(const StoreNews& news) {
  if (!is_active()) return;
  if (news.everything) return look_at_everything();
  for (const ReadyGroup& each : news.ready) {
    if (each.next_in > Duration::zero()) {
      runner_.wake_in(each.group, each.next_in);
    } else {
      runner_.wake(each.group, each.count);
    }
  }
  if (news.control) control_.compare();
  if (news.last_event == 0) return;
  if (relay_) relay_->look();
  ends_->hear(news.last_event);
}

template <class Faults>
void ChainCore<Faults>::look_at_everything() {
  look_for_work();
  control_.compare();
  ends_->look();
  if (relay_) relay_->look();
}

template <class Faults>
void ChainCore<Faults>::look_for_work() {
  store_.groups_with_work([this, hold = calls_.hold()](Result<std::vector<GroupWork>> work) {
    if (!work) return look_again_soon();
    for (const GroupWork& each : *work) {
      if (each.next_in && *each.next_in > Duration::zero()) {
        runner_.wake_in(each.group, *each.next_in);
      } else {
        runner_.wake(each.group);
        forecast_.note_waiting(each.group, now());
      }
    }
  });
}

// Watches the leases of other nodes, and frees what dead nodes have claimed.
template <class Faults>
void ChainCore<Faults>::take_over() {
  store_.take_over(lease_.boot(), false, [this, hold = calls_.hold()](Result<std::vector<std::string>> groups) {
    if (!groups) look_again_soon();  // It may have freed something all the same.
  });
}

// A page of the groups at a time; a group's deadline is that of its tasks that give none.
template <class Faults>
void ChainCore<Faults>::look_at_waits() {
  constexpr std::uint32_t kPage = 1000;
  std::string after;
  {
    MutexLock lock(mutex_);
    if (now() - looked_at_waits_ < kLookAtWaits) return;
    looked_at_waits_ = now();
    after = waits_after_;
  }
  if (forecast_.is_idle()) return;
  store_.group_counts(after, kPage, [this, hold = calls_.hold()](Result<std::vector<GroupCounts>> counts) {
    if (!counts) return;
    for (const WaitForecast::Forecast& each : forecast_.note_counts(*counts, options_.deadline, now())) {
      const auto minutes = std::chrono::ceil<std::chrono::minutes>(each.wait);
      COHORT_LOG(kWarning, "chain", "tasks of the group will wait for longer than their deadline",
                 {"group", each.group}, {"wait", format_duration(minutes)},
                 {"deadline", format_duration(options_.deadline)});
    }
    MutexLock lock(mutex_);
    waits_after_ = counts->size() < kPage ? "" : counts->back().group;
  });
}

template <class Faults>
void ChainCore<Faults>::tick() {
  if (!is_active()) return;
  bool looks = clock_has_jumped();
  const bool has_lease = lease_.is_held();
  {
    MutexLock lock(mutex_);
    looks = has_lease && (looks || now() - looked_ >= options_.look_every);
    if (looks) looked_ = now();
  }
  const bool follows_others = store_.is_shared() && has_lease;
  lease_.tick();
  runner_.tick();
  retention_.tick();
  look_at_waits();
  if (follows_others) take_over();
  if (follows_others && !looks) control_.compare();
  if (looks) look_at_everything();
  if (relay_) relay_->tick();
  tick_again_later();
}

template <class Faults>
void ChainCore<Faults>::tick_again_later() {
  const Time due = now() + kTick;
  executor_.call_at(due, [this, engine = this->weak_from_this(), due] {
    const auto alive = engine.lock();
    if (alive && now() >= due) tick();  // Else the executor has ended.
  });
}

// Start times follow the wall clock: what has come due by a jump must be looked for.
template <class Faults>
bool ChainCore<Faults>::clock_has_jumped() {
  constexpr Duration kJump = std::chrono::seconds(1);
  const Duration offset = system_wall_clock().now().time_since_epoch() - boottime_clock().now().time_since_epoch();
  Duration jump{};
  {
    MutexLock lock(mutex_);
    jump = offset - clock_offset_.value_or(offset);
    clock_offset_ = offset;
  }
  if (jump < kJump && jump > -kJump) return false;
  COHORT_LOG(kWarning, "chain", "the time of day has jumped; delays and deadlines given as a length do not",
             {"seconds", std::chrono::duration_cast<std::chrono::seconds>(jump).count()});
  return true;
}

// --- ends

template <class Faults>
TaskHandle<void> ChainCore<Faults>::drain(Duration grace) {
  Promise<void> promise(executor_, "drain");
  TaskHandle<void> handle = promise.handle();
  bool was_running = false;
  {
    MutexLock lock(mutex_);
    was_running = life_ == Life::kRunning;
    if (life_ != Life::kClosed) life_ = Life::kDraining;
    drained_.push_back(std::move(promise));
  }
  if (was_running) {
    COHORT_LOG(kInfo, "chain", "draining: nothing new is started", {"node", lease_.boot()},
               {"running", stats().running}, {"grace", format_duration(grace)});
  }
  const Time until = saturating_add(now(), grace);
  runner_.stop(saturating_add(until, kLastWrites));
  retention_.stop();
  if (intake_) intake_->stop();
  executor_.call_at(until, [this, engine = this->weak_from_this()] {
    if (const auto alive = engine.lock()) runner_.stop_runs();
  });
  finish_draining();
  return handle;
}

// When the last ticket has ended and the last call is answered: what this boot still has (kept tasks) is free for
// others at once.
template <class Faults>
void ChainCore<Faults>::finish_draining() {
  std::vector<Promise<void>> drained;
  std::shared_ptr<void> watch;
  {
    MutexLock lock(mutex_);
    if (drained_.empty() || !calls_.is_idle()) return;
    drained = std::exchange(drained_, {});
    watch = std::move(watch_);
    life_ = Life::kClosed;
  }
  watch.reset();
  runner_.end();
  ends_->close();
  if (relay_) relay_->stop();
  const std::string boot = lease_.give_up();
  if (boot.empty()) {
    for (Promise<void>& each : drained) each.settle({});
    return;
  }
  store_.leave(boot, [drained = std::move(drained)](Result<void>) mutable {
    COHORT_LOG(kInfo, "chain", "drained: nothing runs any more");
    for (Promise<void>& each : drained) each.settle({});
  });
}

template <class Faults>
void ChainCore<Faults>::close() {
  const TaskHandle<void> drained = drain(Duration::zero());
  runner_.open_gate();
  static_cast<void>(drained.await());
}

template <class Faults>
ChainStats ChainCore<Faults>::stats() const {
  ChainStats stats;
  runner_.add_to(stats);
  stats.boot = lease_.boot();
  stats.has_lease = lease_.is_held();
  stats.lost_leases = lease_.times_lost();
  MutexLock lock(mutex_);
  stats.draining = life_ == Life::kDraining;
  return stats;
}

extern template class ChainCore<NoChainFaults>;  // In chain_engine.cc.

}  // namespace cohort
