#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "cohort/base/timer.h"
#include "cohort/group/group_executor_options.h"
#include "cohort/task/explanation.h"
#include "cohort/task/group_stats.h"
#include "cohort/task/internal/await_state.h"
#include "cohort/task/internal/task_record.h"
#include "group/await_cycle.h"
#include "group/group.h"
#include "group/group_policy.h"
#include "group/group_table.h"
#include "group/ready_set.h"
#include "group/turn.h"

namespace cohort::internal {

/// What the scheduler wants its driver to do. Everything in it is done with no lock held; so is dropping it, which may
/// destroy records and with them what users' callables returned.
struct Actions {
  Actions() = default;
  Actions(Actions&& other) noexcept { *this = std::move(other); }
  Actions& operator=(Actions&& other) noexcept {
    settle.swap(other.settle);
    stop.swap(other.stop);
    let_go.swap(other.let_go);
    admit.swap(other.admit);
    calls.swap(other.calls);
    released.swap(other.released);
    forgotten.swap(other.forgotten);
    std::swap(wake, other.wake);
    at = other.at;
    return *this;
  }
  ~Actions() {
    for (TaskRecord* record : forgotten) record->drop_executors_reference(at);
    if (forgotten.capacity() == 0 || forgotten.capacity() > kMostSpare || Spare::is_gone) return;
    if (forgotten.capacity() <= spare.forgotten.capacity()) return;
    forgotten.clear();
    forgotten.swap(spare.forgotten);
  }

  struct Settlement {
    TaskRef record;  ///< Claimed already: write `error`, publish, drop the body if it never ran.
    Error error;
    bool ran = false;
  };
  std::vector<Settlement> settle;
  std::vector<TaskRef> stop;            ///< Ask their bodies to stop.
  std::vector<TaskRef> let_go;          ///< Unblock their threads without permits: they have run out of time.
  std::vector<TaskRef> admit;           ///< Unblock their submitters: they have a place in the queue.
  std::vector<Function<void()>> calls;  ///< Alarms whose time has come.
  int wake = 0;                         ///< So many idle workers are to call take().

  // References that the scheduler no longer needs, and since when.
  Time at{};
  std::vector<TaskRef> released;
  std::vector<TaskRecord*> forgotten;
  // Most turns end with something to forget: its memory is used again by the thread that forgets. A thread may use an
  // executor when its thread-local objects are destroyed, and the main thread may when static ones are: then it is
  // gone.
  static constexpr std::size_t kMostSpare = 256;
  struct Spare {
    ~Spare() { is_gone = true; }
    std::vector<TaskRecord*> forgotten;
    static inline thread_local constinit bool is_gone = false;
  };
  static inline thread_local Spare spare;

  /// Adds what another one asks for; its `wake` has been seen to.
  void append(Actions other) {
    std::ranges::move(other.settle, std::back_inserter(settle));
    std::ranges::move(other.stop, std::back_inserter(stop));
    std::ranges::move(other.calls, std::back_inserter(calls));
    std::ranges::move(other.released, std::back_inserter(released));
    forgotten.insert(forgotten.end(), other.forgotten.begin(), other.forgotten.end());
    other.forgotten.clear();
    at = std::max(at, other.at);
  }

  [[nodiscard]] bool empty() const {
    return settle.empty() && stop.empty() && let_go.empty() && admit.empty() && calls.empty() && wake == 0 &&
           released.empty() && forgotten.empty();
  }
};

/// Production has no planted bugs. Tests of the tests plant one at a time, see scheduler_storm_test.cc.
struct NoFaults {
  static constexpr bool kKeepPermitOfCancelled = false;
  static constexpr bool kStaleGlobalCheck = false;
  static constexpr bool kIdleKeepsCredit = false;
  static constexpr bool kForgetWake = false;
  static constexpr bool kSettleTwice = false;
};

/// Decides which task of which group runs next. It has no thread, lock, clock or system call: it is told the time and
/// what happened, and says through Actions what to do.
///
/// The life of a task (Phase in task_record.h):
///
///     submit -> kWaiting -> take -> kTaken -> finish
///                  ^                 |  ^
///                  '--- give_back ---'  |    park  -> kParked    -> resume -> kResuming   -> take
///                                       '--- sleep -> kSuspended -> tick   -> kContinuing -> take
/// A task that awaits something from outside every executor is suspended, not parked: it keeps its permits.
///
/// Permits. A task takes those of all layers in one step or none (take_from), so nobody holds one while waiting for
/// another. They are counted in `global_running_` (layer 1), Group::own (2) and Group::running (3), and belong to
///   1. a turn and its segments while a worker has it,
///   2. the record (holds_global, holds_concurrency, own_account) while it is suspended or parked,
///   3. nobody once a time-out has settled the task: strip_permits() gives them back, the body counts as overrunning.
/// A turn's unstarted rest always goes back before any of its permits does (give_back).
///
/// A record that is done may still look taken: see end_plain_segment.
///
/// References. The scheduler holds one reference to a record from submit or follow until it forgets it, or rejects it;
/// to one of take_here none.
///
/// Parts: scheduler_submit.h (in and out of queues), scheduler_take.h (who is taken), scheduler_run.h (turns),
/// scheduler_await.h (nested work),
/// scheduler_share.h (who is next), scheduler_time.h (time-outs, eviction), scheduler_ends.h (pause, shutdown),
/// scheduler_view.h (statistics, explain).
///
/// Thread-safety: thread-compatible; times must not go back.
template <class Faults = NoFaults>
class Scheduler {
 public:
  explicit Scheduler(GroupExecutorOptions options, Time now);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// What has come up since the last call.
  [[nodiscard]] Actions take_actions() {
    actions_.at = now_;
    Actions taken = std::exchange(actions_, Actions());
    if (!Actions::Spare::is_gone) actions_.forgotten.swap(Actions::spare.forgotten);
    return taken;
  }
  [[nodiscard]] bool has_actions() const { return !actions_.empty(); }
  /// When tick() is needed at the latest.
  [[nodiscard]] std::optional<Time> next_timer() const {
    const auto first = [](const TimerQueue& timers) { return timers.next().value_or(Time::max()); };
    const Time next = std::min({evict_at_, first(task_timers_), first(rate_timers_), first(alarm_timers_)});
    return next == Time::max() ? std::nullopt : std::optional(next);
  }

  // Coming in.
  /// Who submits: nobody's task, a task of some other group, or one of the same group.
  enum class Origin : std::uint8_t { kOutside, kOtherGroup, kSameGroup };
  enum class FullQueue : std::uint8_t { kAsGroupSays, kBlock };
  void submit(TaskRecord& record, Origin origin, FullQueue full, Time now);
  struct Submitted {
    TaskRecord* record;  ///< Its submitted_at is set, and it comes with a reference.
    Origin origin;
    FullQueue full;
  };
  void submit_all(std::span<const Submitted> all, Time now);
  void follow(TaskRecord& record, TaskRecord& predecessor, Origin origin, Time now);
  /// The predecessor of a following task is done.
  void release(TaskRecord& record, Time now);
  void cancel(TaskRecord& record, Time now);

  /// Groups that only wait for a worker.
  [[nodiscard]] std::size_t ready_groups() const { return ready_[kReadyNormal].size() + ready_[kReadyUrgent].size(); }

  // Running. False: the worker is idle now, and will be woken by an action.
  bool take(Turn& turn, Time now) { return take(turn, {}, now); }
  /// As submit_all() and then take(), but what comes in and can run at once spares the way through the queues.
  bool take(Turn& turn, std::span<const Submitted> arrivals, Time now);
  /// Takes just this one if it waits, is first in its group, and its permits are free.
  bool take_only(TaskRecord& record, Turn& turn, Time now);
  /// Takes a plain task that has not been handed in, if it could start now and nothing else of its group waits.
  /// Otherwise it does nothing. The caller keeps the record until the turn is finished, and the body has ended. One
  /// that is taken back before it began is not queued, but forgotten: the caller sees that it has not begun.
  bool take_here(TaskRecord& record, Turn& turn, Time now);
  /// Every begun entry has ended.
  void finish(Turn& turn, Time now);
  /// There is one worker more that has nothing to do,
  void add_idle_worker(Time now);
  /// or one less.
  void remove_idle_worker() { --idle_workers_; }
  [[nodiscard]] std::uint32_t idle_workers() const { return idle_workers_; }
  /// The driver does not follow a wake: a worker that comes back soon will do.
  void take_back_wake() {
    ++idle_workers_;
    wake_pending_ = false;
  }
  /// How long one worker would be busy with what waits, roughly.
  [[nodiscard]] Duration backlog() const {
    return Duration(static_cast<std::int64_t>(static_cast<double>(waiting_) * mean_ns_));
  }
  /// Whether some group's overflow policy blocks submitters.
  [[nodiscard]] bool may_block_submitters() const { return may_block_submitters_; }
  /// Whether there is something that a worker could take.
  [[nodiscard]] bool has_work() const;
  /// The worker will be long in its current entry: the rest of the turn goes back, and what has ended gives its permits
  /// back.
  void give_back(Turn& turn, Time now);
  /// The current entry, a coroutine, sleeps.
  void sleep(Turn& turn, Time until, Time now);

  /// The same for a coroutine that was let go: it has no turn.
  void sleep_let_go(TaskRecord& record, Time until, Time now);

  // Nested work.
  /// Why `awaiter` must not wait for `state`: a cycle, unless the wait is timed, or its own time-out. Null when it may.
  std::unique_ptr<Error> check_await(TaskRecord& awaiter, const AwaitState& state, bool timed, Time now);
  /// The current entry awaits; call check_await first, set its blocks_thread, and arm `state` afterwards. Ends at
  /// `until` at the latest.
  void park(Turn& turn, AwaitState& state, std::optional<Time> until, Time now);
  /// What it waited for has come. Does nothing unless it is parked for `state`.
  void resume(TaskRecord& record, const AwaitState& state, Time now);
  /// The body of a task that was let go has ended.
  void finish_let_go(TaskRecord& record, Time now);

  /// Fires what is due.
  /// `call` is to be made at that time, or at fire_alarms().
  /// Changes the latest end of a task that has begun. False: it is over.
  bool limit_run(TaskRecord& record, std::optional<Time> end, Time now);
  void set_alarm(Time at, Function<void()> call, Time now);
  /// The end: all that are set are due now, and nothing more is taken in.
  void fire_alarms(Time now);
  void tick(Time now);

  // Control.
  [[nodiscard]] ResolvedLimits resolve(std::string_view key);
  void set_limits(std::string_view key, const GroupLimits& limits, Time now);
  void clear_limits(std::string_view key, Time now);
  Result<void> evict(std::string_view key, Time now);
  void set_paused(std::string_view key, bool paused, Time now);
  void shutdown_group(std::string_view key, Time now);
  /// The same for what came with a lease, which has been closed.
  void close_lease(const GroupLease& lease, Time now);
  void begin_drain(std::string_view key, Time now);
  void end_drain(std::string_view key, Time now);
  /// Nothing of it waits, runs or is parked.
  [[nodiscard]] bool is_drained(std::string_view key) const;
  /// What a drain of the group waits for.
  [[nodiscard]] std::vector<TaskRef> open_tasks(std::string_view key) const;
  /// From now on only tasks may submit.
  void close(Time now);
  /// From now on nobody may; what waits is cancelled, what runs is asked to stop.
  void cancel_all(Time now);
  [[nodiscard]] bool is_drained() const;

  // Seen from outside.
  [[nodiscard]] std::uint32_t shortest_queue() const { return policy_.shortest_queue(); }
  /// For tests. Null: it is not in memory.
  [[nodiscard]] const Group* group_of(std::string_view key) const { return find(key); }
  [[nodiscard]] std::uint64_t present() const { return present_; }
  [[nodiscard]] std::uint32_t global_running() const { return global_running_; }
  [[nodiscard]] ExecutorStats stats() const;
  [[nodiscard]] Result<GroupStats> group_stats(std::string_view key, Time now);
  [[nodiscard]] std::vector<std::string> active_groups() const;
  [[nodiscard]] Duration estimated_wait(std::string_view key) const;
  [[nodiscard]] Explanation explain(TaskRecord& record, Time now);

 private:
  // Sets the time of an event and, at its end, wakes a worker if one is needed.
  class EventScope {
   public:
    EventScope(Scheduler& scheduler, Time now) : scheduler_(scheduler) {
      scheduler_.now_ = std::max(scheduler_.now_, now);
    }
    ~EventScope() { scheduler_.wake_if_needed(); }
    EventScope(const EventScope&) = delete;
    EventScope& operator=(const EventScope&) = delete;

   private:
    Scheduler& scheduler_;
  };

  // scheduler_submit.h
  Group* find(std::string_view key) const;
  Group& find_or_create(std::string_view key, std::uint32_t hash);
  void take_in(TaskRecord& record, Origin origin, FullQueue full);
  void prefetch_behind(std::span<const Submitted> all, std::size_t i);
  [[nodiscard]] bool is_plain_arrival(const TaskRecord& record, const Group& group) const;
  void adopt(Group& group, TaskRecord& record);
  bool refuse(TaskRecord& record, Origin origin);
  bool refuse_while_draining(Group& group, TaskRecord& record, Origin origin);
  [[nodiscard]] bool has_run_out(const TaskRecord& record) const;
  [[nodiscard]] bool has_room(const Group& group) const;
  [[nodiscard]] std::string how_full(const Group& group) const;
  bool make_room(Group& group, TaskRecord& record, Origin origin, FullQueue full);
  bool discard_for(Group& group, TaskRecord& record);
  void reject(TaskRecord& record, Group* group, TaskStatus status, Error error);
  void enqueue(Group& group, TaskRecord& record);
  void enqueue_again(Group& group, TaskRecord& record);
  static TaskList& queue_of(Group& group, const TaskRecord& record);
  void remove_waiting(TaskRecord& record);
  void admit_from_door(Group& group);
  void settle(TaskRecord& record, Error error, bool ran);
  void settle_and_forget(TaskRecord& record, Error error);
  void forget(TaskRecord& record);

  // scheduler_take.h, scheduler_run.h
  struct Used {
    Duration time{0};
    std::uint32_t tasks = 0;
  };
  [[nodiscard]] bool layer1_free() const { return global_running_ < global_limit_; }
  [[nodiscard]] bool parked_room() const { return parked_ < max_parked_; }
  [[nodiscard]] bool may_start(const Group& group) const;
  [[nodiscard]] bool may_start_unawaited(const Group& group, bool has_place) const;
  void refresh(Group& group);
  void refresh_plain(Group& group);
  void note_plain(Group& group);
  void wake_if_needed();
  Group* pick(bool has_global, ReadyKind& kind);
  [[nodiscard]] ReadyKind instead_of_continuing(const Group& group, const std::array<bool, kReadyKinds>& allowed);
  static constexpr std::uint8_t kMostInARow = 3;
  [[nodiscard]] static std::uint8_t one_more_in_a_row(const Group& group) {
    return static_cast<std::uint8_t>(std::min<int>(kMostInARow, group.urgent_in_a_row + 1));
  }
  bool take_from(Group& group, Turn& turn, std::uint32_t share, double& budget_ns);
  void take_plain(Turn& turn, std::uint32_t share, double& budget_ns);
  void take_arrivals(std::span<const Submitted> arrivals, Turn& turn, double& budget_ns);
  bool take_at_once(TaskRecord& record, Turn& turn, double& budget_ns);
  [[nodiscard]] bool could_start_at_once(const Group& group) const;
  [[nodiscard]] Group* idle_group_for(const TaskRecord& record) const;
  void put_into(Turn& turn, Group& group, TaskRecord& record, double& budget_ns);
  void start_at_once(Turn& turn, Group& group, double to_level, double& budget_ns);
  TaskRecord* choose(Group& group, bool has_permit, bool has_place) const;
  Turn::Segment& open_segment(Group& group, Turn& turn);
  void start(TaskRecord& record, Turn::Segment& segment, Turn& turn);
  void go_on(TaskRecord& record, Turn& turn);
  void hand_out(Turn& turn);
  void give_back_rest(Turn& turn);
  void give_back_rest_of(const Group& group);
  bool take_out_of_turn(TaskRecord& record);
  void undo_start(TaskRecord& record, const Turn& turn);
  void forget_here(TaskRecord& record);
  void wind_up(Turn& turn, TaskRecord* stays);
  void end_segment(Turn& turn, Turn::Segment& segment, double rate, TaskRecord* stays, Used& all);
  void end_finished(Turn& turn);
  void end_plain_segment(Turn& turn, Turn::Segment& segment, double rate, Used& all);
  void count_plain(Group& group, const Turn::Segment& segment, double rate, Used& all);
  static void count_start(Group& group) {
    ++group.counters.submitted;
    ++group.counters.started;
  }
  Used end_tasks(Turn& turn, const Turn::Segment& segment, const TaskRecord* stays);
  void complete(TaskRecord& record, Duration thread_time);
  TaskRecord& leave_turn(Turn& turn);
  void arm_wake(TaskRecord& record, Time until);
  void release_segment(Turn::Segment& segment);
  void release_global(bool& held);
  void release_concurrency(Group& group, bool& held);
  void release_place(Group& group, bool& held);

  // scheduler_await.h
  void mark_awaited(TaskRecord& record);

  // scheduler_share.h
  [[nodiscard]] static double over_weight(double nanoseconds, const Group& group);
  void charge(Group& group, double nanoseconds);
  [[nodiscard]] double charge_rate() const { return layer1_free() ? 1.0 : bound_rate_; }
  [[nodiscard]] double turn_rate(const Turn& turn) const;
  [[nodiscard]] Duration layer1_bound() const;
  void set_global_running(std::uint32_t running);
  void accrue();
  void accrue_turn(Turn& turn);
  void accrue_suspended(Group& group);
  void charge_holding(Group& group);
  void begin_suspended(TaskRecord& record);
  void end_suspended(TaskRecord& record);
  double level();
  [[nodiscard]] double level_of(const ReadySet* set) const;
  void on_ready(Group& group);
  void lift_newly_active(Group& group, double to_level);
  void lift_for_lack_of_demand(Group& group);
  void on_unready(Group& group);
  void begin_charging(Group& group);
  void end_charging(Group& group);
  void on_inactive(Group& group);
  [[nodiscard]] double expected_ns(const Group& group) const;
  /// Whether one task of it fills a turn, or may: then it has one of its own, and nobody waits for it to end.
  [[nodiscard]] bool is_long(const Group& group) const {
    return expected_ns(group) >= static_cast<double>(Turn::kLength.count());
  }
  void learn(Group& group, Duration total, std::uint32_t count);

  // scheduler_time.h
  void arm_queue_limit(TaskRecord& record);
  void arm_run_limit(TaskRecord& record);
  void disarm(TaskRecord& record);
  void sound(Timer& alarm);
  void sound_all();
  void on_limit(TaskRecord& record);
  void on_run_limit(TaskRecord& record);
  void strip_permits(TaskRecord& record);
  void overrun(TaskRecord& record);
  void on_wake(TaskRecord& record);
  void stop_waiting(TaskRecord& record);
  void note_idle(Group& group);
  void stand_in_line(Group& group);
  void evict_idle();
  void remove_group(Group& group);
  void arm_eviction();

  // scheduler_ends.h
  void set_resolved(Group& group, const ResolvedLimits& limits);
  void ask_to_stop(TaskRecord& record);
  template <class IsMeant>
  void end_work(Group& group, const std::string& reason, IsMeant&& is_meant);

  // scheduler_view.h
  /// What turns that are out still hold for tasks that have a result already.
  struct Ended {
    std::uint32_t tasks = 0;
    std::uint32_t running = 0;  // Permits of layer 3 that only such tasks have.
    std::uint32_t own = 0;      // And places in layer 2.
    TaskCounters counters;
  };
  [[nodiscard]] Ended ended_in_turns(const Group& group) const;
  [[nodiscard]] Bound bound_of(const Group& group, bool awaited) const;
  void note_bound(Group& group, Bound bound);
  void add_blocked(Group& group, Bound by, Duration passed);
  std::vector<std::string> holders(const Group& group, Bound bound) const;
  [[nodiscard]] std::string describe(const Group& group, Bound bound) const;
  std::uint64_t count_ahead(const Group& group, const TaskRecord& record) const;

  GroupPolicy policy_;
  std::uint32_t global_limit_;
  std::uint32_t workers_;
  std::uint32_t threads_for_one_group_;
  std::uint32_t max_parked_;
  Duration evict_after_;
  Time now_;
  Actions actions_;

  GroupTable groups_;
  Ref<SharedLimits> last_limits_;  // Most groups have those of the one before.
  TaskCounters evicted_;
  bool closed_ = false;  // To the outside.
  bool ended_ = false;   // To all.
  bool may_block_submitters_ = false;

  // Layer 1, and the totals.
  std::uint32_t global_running_ = 0;
  std::uint32_t global_seen_ = 0;  // Only a planted bug looks at it.
  std::uint32_t parked_ = 0;
  std::uint32_t overrunning_ = 0;
  std::uint64_t waiting_ = 0;
  std::uint64_t present_ = 0;  // Records it holds.

  // Workers.
  IntrusiveList<Turn> turns_;  // Those that are out.
  std::uint32_t idle_workers_ = 0;
  bool wake_pending_ = false;
  std::uint32_t takes_ = 0;
  bool few_per_group_ = false;  // The last turn was of many groups with few tasks each.

  // Share.
  std::array<ReadySet, kReadyKinds> ready_{ReadySet(&Group::to_continue), ReadySet(&Group::urgent),
                                           ReadySet(static_cast<ReadyHook Group::*>(&Group::normal))};
  double bound_rate_;
  double mean_ns_ =
      static_cast<double>(Turn::kLength.count());  // Moving average of a task's thread time, whatever its group.
  double level_ = 0;
  std::uint32_t active_ = 0;  // Groups that are ready or charged.
  double ready_weight_ = 0;   // The weights of those that are ready.
  bool level_is_fresh_ = false;
  Time accrued_at_{};
  std::vector<double> in_service_;  // What they were served; kept to spare allocations.
  Duration layer1_bound_total_{0};
  Time layer1_bound_since_{};

  // Time.
  TimerQueue task_timers_;  // TaskExtras::OwnedTimer.
  TimerQueue rate_timers_;  // Group::RateTimer.
  struct Alarm : Timer {
    explicit Alarm(Function<void()> what) : call(std::move(what)) {}
    Function<void()> call;
  };
  TimerQueue alarm_timers_;
  std::unordered_map<Timer*, std::unique_ptr<Alarm>> alarms_;
  Time evict_at_ = Time::max();
  IntrusiveList<Group> idle_groups_;  // By in_line_since.
};

extern template class Scheduler<NoFaults>;

}  // namespace cohort::internal
