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
#include "group/far_waits.h"
#include "group/group.h"
#include "group/group_policy.h"
#include "group/group_table.h"
#include "group/key_set.h"
#include "group/ready_set.h"
#include "group/turn.h"

namespace cohort::internal {

/// What the scheduler wants its driver to do, with no lock held. Users' code is in it only where the event was a
/// caller's own call (see Chore); what it drops is memory.
struct Actions {
  Actions() = default;
  Actions(Actions&& other) noexcept { *this = std::move(other); }
  Actions& operator=(Actions&& other) noexcept {
    own.swap(other.own);
    let_go.swap(other.let_go);
    admit.swap(other.admit);
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

  std::vector<Chore> own;  ///< What the caller is to do himself, whose own call this was.
  int wake = 0;            ///< So many idle workers are to call take().
  // To be looked at before anything else, for they may not be there afterwards.
  std::vector<TaskRecord*> let_go;  ///< Unblock their threads without permits: they have run out of time.
  std::vector<TaskRecord*> admit;   ///< Unblock their submitters: they stand at the door no more.

  // Records that the scheduler no longer needs, and since when.
  Time at{};
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
    own.insert(own.end(), other.own.begin(), other.own.end());
    other.own.clear();
    forgotten.insert(forgotten.end(), other.forgotten.begin(), other.forgotten.end());
    other.forgotten.clear();
    at = std::max(at, other.at);
  }

  [[nodiscard]] bool empty() const {
    return own.empty() && let_go.empty() && admit.empty() && wake == 0 && forgotten.empty();
  }
};

/// Production has no planted bugs. Tests of the tests plant one at a time, see scheduler_storm_test.cc.
struct NoFaults {
  static constexpr bool kKeepPermitOfCancelled = false;
  static constexpr bool kStaleGlobalCheck = false;
  static constexpr bool kIdleKeepsCredit = false;
  static constexpr bool kForgetWake = false;
  static constexpr bool kSettleTwice = false;
  static constexpr int kPortion = 256;  // Steps of work for many tasks that one event does at most.
};

/// Work of a group that is being ended: all that it has now, or what came with a lease. Bounded steps, because there
/// may be hundreds of thousands; meanwhile the group starts nothing, so what is meant is what was there when it began.
struct EndJob {
  Group* group = nullptr;             ///< Null: there is nothing to end.
  const GroupLease* lease = nullptr;  ///< Null: everything.
  Why why = Why::kGroupShutDown;
  std::uint32_t last_sequence = 0;  ///< What comes later is not meant.
  std::size_t list = 0;             ///< Where it is: in which list,
  bool in_list = false;             ///< and unless it has not begun with that,
  TaskRecord* next = nullptr;       ///< at which record.
  EndJob* other = nullptr;          ///< Of the same group.

  [[nodiscard]] bool means(const TaskRecord& record) const {
    return static_cast<std::int32_t>(record.sequence - last_sequence) <= 0 &&
           (lease == nullptr || (record.leased && record.label().lease() == lease));
  }
};

/// The end of everything, group by group.
struct EndAll {
  std::size_t next_place = 0;
  EndJob job;
};

/// An await on its way: how far the scheduler has come with what is awaited.
struct Awaiting {
  explicit Awaiting(AwaitState& what, bool is_timed) : state(what), timed(is_timed) {}
  AwaitState& state;
  bool timed;
  std::size_t checked = 0;      ///< So many of the awaited have been looked at for a cycle,
  std::size_t stuck = 0;        ///< so many of them cannot end before the one who waits,
  std::vector<TaskRef> cycle;   ///< as this shows;
  bool is_far = false;          ///< Other executors have to do with it, see FarWaits.
  std::size_t noted = kAll;     ///< So many have been put into FarWaits, where they have to be.
  std::size_t marked = 0;       ///< And so many have been marked as awaited,
  TaskRecord* chain = nullptr;  ///< the last of them with what it follows only as far as here.
  std::vector<TaskRef> held;    ///< Keeps that alive between two portions.

  [[nodiscard]] bool is_through() const {
    const std::size_t all = state.records().size();
    return checked == all && marked == all && chain == nullptr && noted >= all;
  }
  static constexpr std::size_t kAll = static_cast<std::size_t>(-1);
  enum class Verdict : std::uint8_t { kMay, kCycle, kOutOfTime };
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
/// Users' code. Nothing of it runs in here. What follows from an event, and may be users' code, is a Chore: of the
/// caller, where the event is his own call (OwnCall), else of the group, for workers to take like a task.
///
/// Bounded steps. No event does more than Faults::kPortion steps of work for many tasks at once: tick() leaves the rest
/// of what is due for the next one; whoever ends the work of a group, or awaits thousands, comes again (EndJob,
/// Awaiting). Meanwhile nothing starts that should not: a task whose time is over does not start, whether a timer has
/// said so yet or not, nor does one of a group whose work is being ended.
///
/// References. The scheduler holds one reference to a record from submit or follow until it forgets it, or rejects it;
/// to one of take_here none.
///
/// Parts: scheduler_submit.h (in and out of queues), scheduler_take.h (who is taken), scheduler_run.h (turns),
/// scheduler_await.h (nested work),
/// scheduler_chores.h (users' code), scheduler_share.h (who is next), scheduler_time.h (time-outs, eviction),
/// scheduler_ends.h (pause, shutdown),
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
    const Time next =
        std::min({evict_at_, first(prompt_timers_), first(limit_timers_), first(rate_timers_), first(alarm_timers_)});
    return next == Time::max() ? std::nullopt : std::optional(next);
  }

  // Coming in.
  /// Who submits: nobody's task, a task of some other group, or one of the same group.
  enum class Origin : std::uint8_t { kOutside, kOtherGroup, kSameGroup };
  /// What is to happen if the queue is full: what the group's policy says, which may be that the submitter's thread,
  /// where it waits, runs the task itself; or in any case to stand at the door.
  /// Submitters that must not wait, because a task or a worker would wait with them, are refused instead.
  enum class FullQueue : std::uint8_t { kAsGroupSays, kCallerWaits, kBlock, kNeverWait };
  /// What TaskRecord::note keeps of both, on its way to the queue.
  [[nodiscard]] static std::uint8_t note_of(Origin origin, FullQueue full) {
    return static_cast<std::uint8_t>(static_cast<unsigned>(origin) | (static_cast<unsigned>(full) << 2));
  }
  [[nodiscard]] static Origin origin_of(std::uint8_t note) { return static_cast<Origin>(note & 3); }
  [[nodiscard]] static FullQueue full_of(std::uint8_t note) { return static_cast<FullQueue>(note >> 2); }
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
  bool take(Turn& turn, std::span<const Submitted> arrivals, Time now);
  /// Takes just this one if it waits, is first in its group, and its permits are free.
  bool take_only(TaskRecord& record, Turn& turn, Time now);
  /// Takes a plain task that has not been handed in, if it could start now and nothing else of its group waits.
  /// Otherwise it does nothing. The caller keeps the record until the turn is finished, and the body has ended. One
  /// that is taken back before it began is not queued, but forgotten: the caller sees that it has not begun.
  bool take_here(TaskRecord& record, Turn& turn, Time now);
  /// Every begun entry has ended.
  void finish(Turn& turn, Time now);
  /// For a thread that does nothing but chores.
  bool take_chores(Turn& turn, Time now);
  /// Since when chores wait that nobody has come for; Time::max(): there are none.
  [[nodiscard]] Time chores_wait_since() const {
    return ready_[kReadyForChores].empty() ? Time::max() : chores_wait_since_;
  }
  [[nodiscard]] std::uint64_t chores_open() const { return chores_open_; }
  /// Those of tasks that were not taken in.
  [[nodiscard]] std::uint64_t refusals_open() const { return refusals_open_; }
  /// How many turns of chores have been taken.
  [[nodiscard]] std::uint64_t chore_turns() const { return chore_turns_taken_; }
  [[nodiscard]] const GroupPolicy& policy() const { return policy_; }
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

  /// The same for a coroutine that was let go: it has no turn.
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

  /// Fires what is due.
  /// `call` is to be made at that time, or at fire_alarms().
  /// Changes the latest end of a task that has begun. False: it is over.
  bool limit_run(TaskRecord& record, std::optional<Time> end, Time now);
  void set_alarm(std::unique_ptr<Alarm> alarm, Time at, Time now);
  /// The end: all that are set are due now, and nothing more is taken in.
  void fire_alarms(Time now);
  void tick(Time now);

  // Control.
  /// `answer`: the resolver's, for a group that is not known yet.
  [[nodiscard]] ResolvedLimits resolve(std::string_view key, const GroupLimits& answer = {}) const;
  void set_limits(std::string_view key, const GroupLimits& limits, Time now);
  void clear_limits(std::string_view key, const GroupLimits& answer, Time now);
  Result<void> evict(std::string_view key, const GroupLimits& answer, Time now);
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
  /// And all results are out.
  [[nodiscard]] bool is_quiet(std::string_view key) const;
  /// What a drain of the group waits for; of many tasks some.
  [[nodiscard]] std::vector<TaskRef> open_tasks(std::string_view key) const;
  /// From now on only tasks may submit.
  void close(Time now);
  /// From now on nobody may; what waits is cancelled, what runs is asked to stop. To be repeated while it says true.
  bool cancel_all(EndAll& all, Time now);
  [[nodiscard]] bool is_drained() const;
  [[nodiscard]] bool is_quiet() const { return is_drained() && chores_open_ == 0; }

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
  [[nodiscard]] Duration expected_wait(const Group& group, std::uint64_t ahead) const;
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

  // While it lives, what follows from an event is the caller's to do: it is his own call.
  class OwnCall {
   public:
    explicit OwnCall(Scheduler& scheduler) : scheduler_(scheduler) { scheduler_.own_call_ = true; }
    ~OwnCall() { scheduler_.own_call_ = false; }
    OwnCall(const OwnCall&) = delete;
    OwnCall& operator=(const OwnCall&) = delete;

   private:
    Scheduler& scheduler_;
  };

  // scheduler_submit.h
  Group* find(std::string_view key) const;
  Group& find_or_create(std::string_view key, std::uint32_t hash, const GroupLimits* answer = nullptr);
  void take_in(TaskRecord& record, Origin origin, FullQueue full);
  void prefetch_behind(std::span<const Submitted> all, std::size_t i);
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
  void take_chores_of(Group& group, Turn& turn);
  void give_back_chores(Turn& turn);
  void finish_chores(Turn& turn);

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
  void end_segment(Turn& turn, Turn::Segment& segment, double rate, TaskRecord* stays, Used& all);
  void end_finished(Turn& turn);
  void end_plain_segment(Turn& turn, Turn::Segment& segment, double rate, Used& all);
  void count_plain(Group& group, const Turn::Segment& segment, double rate, Used& all);
  static void count_start(Group& group) {
    ++group.counters.submitted;
    ++group.counters.started;
  }
  Used end_tasks(Turn& turn, const Turn::Segment& segment, const TaskRecord* stays);
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
  /// Whether one task of it fills a turn, or may: then it has one of its own, and nobody waits for it to end.
  /// Where tasks suspend, what was behind them in their turn would only be taken back.
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

  // Chores.
  Group house_{std::string_view()};  // Has those that are no group's.
  std::uint64_t chores_open_ = 0;
  std::uint64_t refusals_open_ = 0;  // Of these.
  Time chores_wait_since_{};
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
