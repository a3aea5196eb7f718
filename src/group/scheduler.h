#pragma once

#include <algorithm>
#include <array>
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
#include "group/actions.h"
#include "group/await_cycle.h"
#include "group/chore_line.h"
#include "group/far_waits.h"
#include "group/group.h"
#include "group/group_policy.h"
#include "group/group_table.h"
#include "group/key_set.h"
#include "group/no_faults.h"
#include "group/ready_set.h"
#include "group/scheduler_jobs.h"
#include "group/submission_note.h"
#include "group/turn.h"

namespace cohort::internal {

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
/// Permits. A task takes the permits of all layers in one step or none (take_from), so no task holds one while it waits
/// for another. Layer 1 is counted in `global_running_`, layer 2 in Group::own, layer 3 in Group::running. They belong
/// to
///   1. a turn and its segments while a worker has it,
///   2. the record (holds_global, holds_concurrency, own_account) while it is suspended or parked,
///   3. no one once a time-out has settled the task: strip_permits() gives them back, the body counts as overrunning.
/// A turn's unstarted rest goes back before any of its permits does (give_back). A record that is done may still look
/// taken: see end_plain_segment.
///
/// Users' code never runs in here. Each event leaves what may run users' code as a Chore: for the caller if the event
/// is the caller's own call (OwnCall), otherwise for a worker, which takes it like a task of the group.
///
/// Bounded steps. No event does more than Faults::kPortion steps of work for many tasks at once. tick() leaves the rest
/// for the next tick(); a caller that ends a group's work or awaits thousands calls again (EndJob, Awaiting). Meanwhile
/// nothing starts whose time is over or whose group is being ended.
///
/// References. The scheduler holds one reference to a record from submit or follow until it forgets or rejects it.
///
/// Parts: scheduler_submit.h (in and out of queues), scheduler_door.h (full queues), scheduler_take.h (which task is
/// next), scheduler_start.h (into a turn), scheduler_run.h (turns), scheduler_await.h (nested work), scheduler_chores.h
/// (users' code), scheduler_share.h (which group is next), scheduler_time.h (time-outs, eviction), scheduler_ends.h
/// (pause, shutdown), scheduler_view.h (statistics).
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
    const Time next =
        std::min({evict_at_, first(prompt_timers_), first(limit_timers_), first(rate_timers_), first(alarm_timers_)});
    return next == Time::max() ? std::nullopt : std::optional(next);
  }

  // Coming in.
  void submit(TaskRecord& record, Origin origin, FullQueue full, Time now);
  void submit_all(std::span<const Arrival> all, Time now);
  void follow(TaskRecord& record, TaskRecord& predecessor, Origin origin, Time now);
  /// The predecessor of a following task is done.
  void release(TaskRecord& record, Time now);
  void cancel(TaskRecord& record, Time now);

  /// Groups that only wait for a worker.
  [[nodiscard]] std::size_t ready_groups() const { return ready_[kReadyNormal].size() + ready_[kReadyUrgent].size(); }
  /// Whether the group of a key is in memory, and its limits are known.
  [[nodiscard]] bool knows(std::string_view key) const {
    const Group* const group = find(key);
    return group != nullptr && !group->unresolved;
  }
  /// The answer of the resolver for a group that has none yet. To be repeated while it says true.
  bool resolved(std::string_view key, const GroupLimits& answer, Time now);

  // Running. False: the worker is idle now, and will be woken by an action.
  bool take(Turn& turn, Time now) { return take(turn, {}, now); }
  /// As submit_all() and then take(), but what comes in and can run at once spares the way through the queues.
  bool take(Turn& turn, std::span<const Arrival> arrivals, Time now);
  /// Takes just this one if it waits, is first in its group, and its permits are free.
  bool take_only(TaskRecord& record, Turn& turn, Time now);
  /// Takes a plain task that has not been handed in, if it could start now and nothing else of its group waits.
  /// Otherwise it does nothing. The caller keeps the record until the turn is finished, and the body has ended. One
  /// that is taken back before it began is not queued, but forgotten: the caller sees that it has not begun.
  bool take_here(TaskRecord& record, Turn& turn, Time now);
  /// Every begun entry has ended.
  void finish(Turn& turn, Time now);
  /// For a thread that does nothing but chores: those of the group that has waited longest.
  bool take_chores(Turn& turn, Time now);
  /// Since when the chores of some group wait that nobody has come for; Time::max(): there are none.
  [[nodiscard]] Time chores_wait_since() const {
    return chore_line_.front() == nullptr ? Time::max() : chore_line_.front()->chores_wait_since;
  }
  [[nodiscard]] std::uint64_t chores_open() const { return chores_open_; }
  /// Those of tasks that were not taken in.
  [[nodiscard]] std::uint64_t refusals_open() const { return refusals_open_; }
  /// How many turns of chores have been taken.
  [[nodiscard]] std::uint64_t chore_turns() const { return chore_turns_taken_; }
  [[nodiscard]] const GroupPolicy& policy() const { return policy_; }
  /// There is one worker more that has nothing to do.
  void add_idle_worker(Time now);
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
  /// Whose overflow policy lets submitters wait.
  [[nodiscard]] const KeySet& keys_that_block() const { return keys_that_block_; }
  /// Groups whose limits have been known.
  [[nodiscard]] const KeySet& keys_seen() const { return keys_seen_; }
  /// Whether there is something that a worker could take.
  [[nodiscard]] bool has_work() const;
  /// The worker will be long in its current entry: the rest of the turn goes back, and what has ended gives its permits
  /// back.
  void give_back(Turn& turn, Time now);
  /// The current entry, a coroutine, sleeps.
  void sleep(Turn& turn, Time until, Time now);
  /// A coroutine that was let go, and so has no turn, sleeps.
  void sleep_let_go(TaskRecord& record, Time until, Time now);

  // Nested work.
  /// Whether `awaiter` must not wait: a cycle, unless the wait is timed, or its own time-out. Of many awaited tasks it
  /// looks at some; check_more() goes on.
  Awaiting::Verdict check_await(TaskRecord& awaiter, Awaiting& awaiting, Time now);
  /// The current entry awaits; call check_await first, and set its blocks_thread. Call check_more() until it says that
  /// all have been looked at, and arm the state afterwards. Ends at `until` at the latest.
  void park(Turn& turn, Awaiting& awaiting, std::optional<Time> until, Time now);
  /// The next portion of what is awaited. False: that was all, or there is a cycle.
  bool check_more(TaskRecord& awaiter, Awaiting& awaiting, Time now);
  /// A task of another executor awaits this one: it is awaited, with all that it depends on. Gives the task to go on
  /// with, if there is more to mark.
  TaskRef mark_awaited_from_afar(TaskRecord& record, Time now);
  /// The await must not be after all: it ends with this error.
  void fail_await(TaskRecord& awaiter, const AwaitState& state, std::unique_ptr<Error> error, Time now);
  /// What it waited for has come. Does nothing unless it is parked for `state`.
  void resume(TaskRecord& record, const AwaitState& state, Time now);
  /// The body of a task that was let go has ended.
  void finish_let_go(TaskRecord& record, Time now);

  /// Changes the latest end of a task that has begun. False: it is over.
  bool limit_run(TaskRecord& record, std::optional<Time> end, Time now);
  /// The alarm's call is to be made at that time, or at fire_alarms().
  void set_alarm(std::unique_ptr<Alarm> alarm, Time at, Time now);
  /// The end: all alarms that are set are due now, and nothing more is taken in.
  void fire_alarms(Time now);
  /// Fires what is due.
  void tick(Time now);

  // Control.
  /// `answer`: the resolver's, for a group that is not known yet.
  [[nodiscard]] ResolvedLimits resolve(std::string_view key, const GroupLimits& answer = {}) const;
  void set_limits(std::string_view key, const GroupLimits& limits, Time now);
  void clear_limits(std::string_view key, const GroupLimits& answer, Time now);
  /// False: ask the resolver for limits and call it again with the answer, for the group cannot be removed yet.
  Result<bool> evict(std::string_view key, const std::optional<GroupLimits>& answer, Time now);
  void set_paused(std::string_view key, bool paused, Time now);
  /// Each ends a portion; go on with end_some() while that says true. The job must stay where it is until then.
  bool shutdown_group(std::string_view key, EndJob& job, Time now);
  /// The same for what came with a lease, which has been closed.
  bool close_lease(const GroupLease& lease, EndJob& job, Time now);
  bool end_some(EndJob& job, Time now);
  void begin_drain(std::string_view key, Time now);
  void end_drain(std::string_view key, Time now);
  /// Nothing of it waits, runs or is parked.
  [[nodiscard]] bool is_drained(std::string_view key) const;
  /// And all results of what was taken in are out.
  [[nodiscard]] bool is_quiet(std::string_view key) const;
  /// What a drain of the group waits for; of many tasks some.
  [[nodiscard]] std::vector<TaskRef> open_tasks(std::string_view key) const;
  /// From now on only tasks may submit.
  void close(Time now);
  /// From now on nobody may; what waits is cancelled, what runs is asked to stop. To be repeated while it says true.
  bool cancel_all(EndAll& all, Time now);
  [[nodiscard]] bool is_drained() const;
  [[nodiscard]] bool is_quiet() const { return is_drained() && chores_open_ == refusals_open_; }

  // Seen from outside.
  [[nodiscard]] std::uint32_t shortest_queue() const { return policy_.shortest_queue(); }
  /// For tests. Null: it is not in memory.
  [[nodiscard]] const Group* group_of(std::string_view key) const { return find(key); }
  [[nodiscard]] std::uint64_t present() const { return present_; }
  [[nodiscard]] std::uint32_t global_running() const { return global_running_; }
  [[nodiscard]] ExecutorStats stats() const;
  [[nodiscard]] Result<GroupStats> group_stats(std::string_view key, Time now);
  /// Adds the keys of some active groups, from `place` on, which begins at 0. To be repeated while it says true.
  bool find_active(std::size_t& place, std::vector<std::string>& keys) const;
  [[nodiscard]] Duration estimated_wait(std::string_view key) const;
  [[nodiscard]] Duration expected_wait(const Group& group, std::uint64_t ahead) const;
  [[nodiscard]] Explanation explain(TaskRecord& record, Time now);

 private:
  class EventScope;
  class OwnCall;

  // scheduler_submit.h, scheduler_door.h
  Group* find(std::string_view key) const;
  Group& find_or_create(std::string_view key, std::uint32_t hash, const GroupLimits* answer = nullptr);
  void take_in(TaskRecord& record, Origin origin, FullQueue full);
  void prefetch_behind(std::span<const Arrival> all, std::size_t i);
  [[nodiscard]] bool is_plain_arrival(const TaskRecord& record, const Group& group) const;
  void adopt(Group& group, TaskRecord& record);
  bool refuse(TaskRecord& record, Origin origin);
  bool refuse_while_draining(Group& group, TaskRecord& record, Origin origin);
  [[nodiscard]] bool has_run_out(const TaskRecord& record) const;
  // While the limits of a group are not known it takes in so many tasks.
  static constexpr std::uint32_t kMostUnresolved = 100'000;
  bool trim_queue(Group& group, int& left);
  bool sort_door(Group& group, int& left);
  [[nodiscard]] static TaskRecord* newest_in_queue(const Group& group);
  [[nodiscard]] static TaskRecord* oldest_of_lowest(const Group& group);
  void end_waiting(TaskRecord& record, TaskStatus status, const Reason& reason);
  [[nodiscard]] bool has_room(const Group& group, std::uint64_t but = 0) const;
  [[nodiscard]] static Reason how_full(const Group& group, Why why);
  [[nodiscard]] std::optional<Reason> is_hopeless(const Group& group, const TaskRecord& record) const;
  bool make_room(Group& group, TaskRecord& record, Origin origin, FullQueue full);
  void stand_at_door(Group& group, TaskRecord& record, bool runs_on_caller);
  void leave_door(TaskRecord& record);
  bool discard_for(Group& group, TaskRecord& record);
  void reject(TaskRecord& record, Group* group, TaskStatus status, const Reason& reason);
  void enqueue(Group& group, TaskRecord& record);
  void enqueue_again(Group& group, TaskRecord& record);
  static TaskList& queue_of(Group& group, const TaskRecord& record);
  void remove_waiting(TaskRecord& record);
  void admit_from_door(Group& group);
  void settle_and_forget(TaskRecord& record, const Reason& reason);
  void forget(TaskRecord& record);
  void part_with(TaskRecord& record);
  void unlist(Group& group, TaskList& list, TaskRecord& record);

  // scheduler_chores.h
  void put_chore(Group& group, const Chore& chore);
  void leave_to_workers(Group& group, const Chore& chore);
  [[nodiscard]] bool may_do_chores(const Group& group) const;
  void set_ready_for_chores(Group& group, bool ready);
  void take_chores_of(Group& group, Turn& turn);
  void give_back_chores(Turn& turn);
  void finish_chores(Turn& turn);

  // scheduler_take.h, scheduler_run.h
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
  void take_arrivals(std::span<const Arrival> arrivals, Turn& turn, double& budget_ns);
  bool take_at_once(TaskRecord& record, Turn& turn, double& budget_ns);
  [[nodiscard]] bool could_start_at_once(const Group& group) const;
  [[nodiscard]] Group* idle_group_for(const TaskRecord& record) const;
  void put_into(Turn& turn, Group& group, TaskRecord& record, double& budget_ns);
  void start_at_once(Turn& turn, Group& group, double to_level, double& budget_ns);
  TaskRecord* choose(Group& group, bool has_permit, bool has_place) const;
  TaskRecord* choose_in_time(Group& group, bool has_permit, bool has_place);
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
  void end_segment(Turn& turn, Turn::Segment& segment, double rate, TaskRecord* stays, Turn::Used& all);
  void end_finished(Turn& turn);
  void end_head(Turn& turn, Turn::Segment& segment, std::uint32_t current, double rate);
  void end_plain_segment(Turn& turn, Turn::Segment& segment, double rate, Turn::Used& all);
  void count_plain(Group& group, const Turn::Segment& segment, double rate, Turn::Used& all);
  static void count_start(Group& group) {
    ++group.counters.submitted;
    ++group.counters.started;
  }
  Turn::Used end_tasks(Turn& turn, const Turn::Segment& segment, const TaskRecord* stays);
  void complete(TaskRecord& record, Duration thread_time, Time ended);
  TaskRecord& leave_turn(Turn& turn);
  void arm_wake(TaskRecord& record, Time until);
  void release_segment(Turn::Segment& segment);
  void release_global(bool& held);
  void release_concurrency(Group& group, bool& held);
  void release_place(Group& group, bool& held);

  // scheduler_await.h
  TaskRecord* mark_awaited(TaskRecord& record);
  void end_wait(TaskRecord& record);
  void note_far_wait(TaskRecord& awaiter, Awaiting& awaiting);
  std::size_t note_far(TaskRecord& record);
  static void forget_far_wait(TaskRecord& record);
  void check_some(const TaskRecord& awaiter, Awaiting& awaiting);
  void mark_some(const TaskRecord& awaiter, Awaiting& awaiting);

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
  /// A task of such a group has a turn of its own: it may fill one, or suspend, which would send back what is behind
  /// it.
  [[nodiscard]] bool is_long(const Group& group) const {
    return group.suspends || expected_ns(group) >= static_cast<double>(Turn::kLength.count());
  }
  void learn(Group& group, Duration total, std::uint32_t count);

  // scheduler_time.h
  void arm_queue_limit(TaskRecord& record);
  void disarm_limit(TaskExtras& extras);
  void arm_promptly(TaskExtras& extras, Time limit);
  void arm_run_limit(TaskRecord& record);
  void disarm(TaskRecord& record);
  void tick_some(int most);
  [[nodiscard]] bool is_out_of_time(const TaskRecord& record) const;
  void end_out_of_time(TaskRecord& record);
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
  void evict_soon(Group& group, Duration after);
  void evict_idle();
  void remove_group(Group& group);
  void arm_eviction();

  // scheduler_ends.h
  void set_resolved(Group& group, const ResolvedLimits& limits);
  void note_policy(const Group& group);
  void ask_to_stop(TaskRecord& record);
  bool begin_job(EndJob& job, int& left);
  bool end_portion(EndJob& job, int& left);
  bool end_portion_of_list(EndJob& job, TaskList& list, int& left);
  void end_job(EndJob& job);
  void end_if_meant(Group& group, TaskRecord& record);
  [[nodiscard]] static bool is_meant_by_a_job(const TaskRecord& record);
  static constexpr std::size_t kListsOfGroup = 10;
  [[nodiscard]] static TaskList& list_of(Group& group, std::size_t number);

  // scheduler_view.h
  [[nodiscard]] EndedInTurns ended_in_turns(const Group& group) const;
  [[nodiscard]] Bound bound_of(const Group& group, bool awaited) const;
  void note_bound(Group& group, Bound bound);
  void add_blocked(Group& group, Bound by, Duration passed);
  static constexpr int kMostLookedAt = 1000;
  std::vector<std::string> holders(const Group& group, Bound bound) const;
  [[nodiscard]] std::string describe(const Group& group, Bound bound) const;
  std::uint64_t count_ahead(const Group& group, const TaskRecord& record) const;
  [[nodiscard]] std::uint64_t count_before(const Group& group, Priority priority) const;

  GroupPolicy policy_;
  std::uint32_t global_limit_;
  std::uint32_t workers_;
  std::uint32_t threads_for_one_group_;
  std::uint32_t max_parked_;
  Duration evict_after_;
  Time now_;
  Actions actions_;
  bool own_call_ = false;      // See OwnCall.
  bool many_are_due_ = false;  // The last tick() has left some.
  bool in_tick_ = false;       // Perhaps on the thread that fires timers.
  bool ends_turn_ = false;     // What is forgotten was in a turn whose worker has just come back from it.

  GroupTable groups_;
  Ref<SharedLimits> last_limits_;  // Most groups have those of the one before.
  TaskCounters evicted_;
  bool closed_ = false;  // To the outside.
  bool ended_ = false;   // To all.
  KeySet keys_that_block_;
  KeySet keys_seen_;
  bool rejects_hopeless_ = false;

  // Layer 1, and the totals.
  std::uint32_t global_running_ = 0;
  std::uint32_t global_seen_ = 0;  // Only a planted bug looks at it.
  std::uint32_t parked_ = 0;
  std::uint32_t overrunning_ = 0;
  std::uint64_t waiting_ = 0;
  std::uint64_t present_ = 0;  // Records it holds.

  // Workers.
  IntrusiveList<Turn> turns_;        // Those that are out,
  IntrusiveList<Turn> chore_turns_;  // and those of chores.
  std::uint32_t idle_workers_ = 0;
  bool wake_pending_ = false;
  std::uint32_t takes_ = 0;
  bool few_per_group_ = false;  // The last turn was of many groups with few tasks each.

  // Share.
  std::array<ReadySet, kReadyKinds> ready_{ReadySet(&Group::to_continue), ReadySet(&Group::urgent),
                                           ReadySet(static_cast<ReadyHook Group::*>(&Group::normal)),
                                           ReadySet(&Group::for_chores)};
  double bound_rate_;
  double mean_ns_ = static_cast<double>(Turn::kLength.count());  // Moving average of the thread time of all tasks.
  double level_ = 0;
  std::uint32_t active_ = 0;  // Groups that are ready or charged.
  double ready_weight_ = 0;   // The weights of those that are ready.
  bool level_is_fresh_ = false;
  Time accrued_at_{};
  std::vector<double> in_service_;  // What they were served; kept to spare allocations.
  Duration layer1_bound_total_{0};
  Time layer1_bound_since_{};

  // Chores.
  Group house_{std::string_view()};      // Has the alarms,
  Group strangers_{std::string_view()};  // and those of tasks whose group is not known.
  std::uint64_t chores_open_ = 0;
  std::uint64_t refusals_open_ = 0;  // Of these.
  ChoreLine chore_line_;
  std::uint64_t chore_turns_taken_ = 0;

  // Time.
  // TaskExtras::OwnedTimer. Many tasks may wait with one deadline, and sleeps and run times of other groups must not
  // wait until all of these have been dealt with: so they have a queue of their own, which goes first.
  TimerQueue prompt_timers_;  // Ends of sleeps, of timed awaits, of run times.
  TimerQueue limit_timers_;   // All other limits.
  TimerQueue rate_timers_;    // Group::RateTimer.
  TimerQueue alarm_timers_;   // Alarm, owned.
  Time evict_at_ = Time::max();
  IntrusiveList<Group> idle_groups_;  // By in_line_since.
};

extern template class Scheduler<NoFaults>;

}  // namespace cohort::internal
