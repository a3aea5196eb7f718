#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/mutex.h"
#include "cohort/base/result.h"
#include "cohort/group/group_executor_options.h"
#include "cohort/task/internal/await_state.h"
#include "cohort/task/internal/executor_home.h"
#include "cohort/task/internal/here_turns.h"
#include "group/inbox.h"
#include "group/scheduler.h"

namespace cohort::internal {

/// What the kernel says of a thread: neither running nor waiting for a processor.
[[nodiscard]] bool is_blocked_in_kernel(std::int32_t thread_id);

/// Drives a Scheduler with threads.
///
/// **The lock.** `mutex_` guards the scheduler and everything here that is not atomic. Nothing of a user's runs under
/// it: what the scheduler wants done is taken out under the lock (Aftermath) and done after it. Users' code that
/// follows from an event is a Chore: the caller's, where the event was his own call, else a worker's, like a task.
///
/// **Submitting** takes no lock: tasks are left in the inbox, and whoever has the lock takes them out. Every event but
/// a turn takes out all of them first, so a thread's submit is always before what it does next.
///
/// **Slots.** A thread takes turns only with a slot. There are `threads` of them and one more for each body that is
/// known to block. A slot is held by a thread or is idle, which the scheduler counts. A thread without one rests. A
/// body that parks gives its slot back; the worker that takes the turn of a parked task gives turn and slot to the
/// thread that waits for it.
///
/// **Who looks into the inbox.** `attended_` says that somebody will, soon and without being told: a thread that spins
/// before it rests, or has just been called; or, while the watcher looks every millisecond, a worker in a short turn,
/// or any if none is idle. A submitter who does not find it set looks himself, and wakes a worker. No task is
/// forgotten: he stores his task and then loads `attended_`; whoever clears it stores that and then looks into the
/// inbox; all four are sequentially consistent, so at least one of them sees the other's. And whoever releases the lock
/// while it is not set leaves nothing in the inbox but tickets that have not been used yet, whose owners will look.
///
/// **The watcher** is a thread that fires timers, and does nothing else.
///
/// **The minder** is a thread that looks every millisecond while no slot is idle, a turn has a rest that others could
/// run, or chores wait. A turn whose task takes long loses its rest, and a thread that the kernel says is blocked gets
/// a slot to stand in for it. A group whose tasks were found to block is expected to do so again, and its next ones are
/// stood in for at once. A stand-in's slot goes when the body is back. Chores that nobody has come for in a millisecond
/// get a thread without a slot, that does nothing else until somebody comes for them again: so two workers that spin
/// until they are told to stop are told.
///
/// **A caller at a door** waits on a Runner of his own (`waiting_` has it by his task), until his task is let into the
/// queue, or has ended, or he is handed a turn with it to run it himself.
///
/// Parts: thread_driver.cc (events, ends), thread_driver_threads.cc (slots and turns), thread_driver_bodies.cc (bodies
/// and their waits), thread_driver_watch.cc (the watcher and the minder).
///
/// Runners are never freed while the driver lives, so that one may be notified after the lock was released.
class ThreadDriver {
 public:
  ThreadDriver(ExecutorHome& home, GroupExecutorOptions options);
  /// After end().
  ~ThreadDriver();
  ThreadDriver(const ThreadDriver&) = delete;
  ThreadDriver& operator=(const ThreadDriver&) = delete;
  /// Shuts down, waits for all bodies and threads.
  void end();

  Clock& clock() { return clock_; }

  // For chores, see perform().
  void tell_settled(const TaskRecord& record, Time now) {
    if (listener_) tell(TaskEvent::Kind::kSettled, record, now, record.status());
  }
  void resolve(const Group& group);

  [[nodiscard]] ResolvedLimits resolve(std::string_view key);
  void clear_limits(std::string_view key);
  Result<void> evict(std::string_view key);
  void shutdown_group(std::string_view key);
  void close_lease(const GroupLease& lease);

  void submit(TaskRecord& record, bool paced);
  void submit_all(std::span<TaskRecord* const> records, bool paced);
  void submit_here(TaskRecord& record);
  bool run_here(TaskRef& record, Time now, HereTurns& turns);
  void end_here(HereTurns& turns);
  bool begin_blocking();
  void end_blocking();

  void follow(TaskRecord& record, TaskRecord& predecessor);
  void cancel(TaskRecord& record);
  std::unique_ptr<Error> await(AwaitState& state, std::optional<Time> until);
  void block(AwaitState& state);
  Result<void> drain(std::string_view key, Duration timeout);
  Result<void> shutdown(Duration timeout);
  std::size_t thread_count();
  [[nodiscard]] std::uint32_t shortest_queue() const { return shortest_queue_.load(std::memory_order_relaxed); }

  /// Calls `event(scheduler, now)` with the lock held and all submitted tasks taken in, then does what follows from it.
  template <class Event>
  auto with_scheduler(Event&& event) {
    std::optional<OutsideBody> outside(std::in_place, &clock_);
    Aftermath after;
    MutexLock lock(mutex_);
    const Time now = clock_.now();
    take_in_all(now);
    if constexpr (std::is_void_v<decltype(event(scheduler_, now))>) {
      event(scheduler_, now);
      follow_up(after, now);
      lock.unlock();
      outside.reset();  // What follows may be users' code again.
      perform(after);
    } else {
      auto answer = event(scheduler_, now);
      follow_up(after, now);
      lock.unlock();
      outside.reset();  // What follows may be users' code again.
      perform(after);
      return answer;
    }
  }

  /// Calls an event that is done in portions until it says false.
  template <class Event>
  void in_portions(Event&& event) {
    for (int holds = 1; with_scheduler(event); ++holds) {
      if (holds % kHoldsInARow == 0) std::this_thread::sleep_for(kBreath);
    }
  }

 private:
  struct Runner;
  // What is left to do after the lock is released.
  struct Aftermath {
    Actions actions;
    std::vector<Runner*> notify;
    std::vector<Runner*> start;
    bool notify_watcher = false;
    bool notify_minder = false;

    [[nodiscard]] bool empty() const {
      return actions.empty() && notify.empty() && start.empty() && !notify_watcher && !notify_minder;
    }
  };

  // A thread of the driver, or a caller's for as long as it runs a body. All but `turn`'s own protocol and `called` is
  // guarded by mutex_.
  struct Runner {
    explicit Runner(ThreadDriver& of) : driver(of) { turn->measured = true; }

    ThreadDriver& driver;
    std::unique_ptr<Turn> turn = std::make_unique<Turn>();
    CondVar wake;
    std::atomic<bool> called{false};          // Set with the lock held: it has a slot, or its wait is over.
    std::atomic<bool> in_body{false};         // In a user's code: only there a thread can block.
    std::atomic<std::uint32_t> left_body{0};  // How often it left it: counted by its own thread.

    void enter_body() { in_body.store(true, std::memory_order_relaxed); }
    void leave_body() {
      left_body.store(left_body.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      in_body.store(false, std::memory_order_relaxed);
    }
    Duration outside{0};    // Its own: how long the body has waited for the driver so far.
    bool is_guest = false;  // It is a caller's, and has no slot.
    bool has_slot = false;
    bool for_chores = false;        // Without a slot: counted in chore_threads_.
    std::uint64_t chore_turns = 0;  // How many had been taken by anybody when it had taken its last one.
    bool asleep = false;            // Needs to be notified.
    bool spins = false;             // Looks for work before it falls asleep: counted in spinning_.
    bool arrives = false;           // Has been given a slot and not looked yet: counted in arriving_.
    bool in_turn = false;
    bool in_batch = false;       // Its turn has several tasks: counted in batches_.
    bool in_short_turn = false;  // And is expected to be very short: counted in short_turns_.
    bool blocked = false;        // Counted in blocked_.
    bool starts = false;         // Its thread is on its way into `thread`.
    bool ended = true;           // No thread.
    std::uint64_t turns = 0;     // How many it has begun.
    Time probe_at{};             // When to ask the kernel next whether it is blocked.
    Duration probe_after{0};
    std::int32_t thread_id = 0;
    Aftermath after;  // Of a caller's thread that runs it, see run_here.
    std::thread thread;
  };

  // While a body is in the driver, where it may wait for the driver's lock: that is no blocking of the body's, and with
  // a clock it is no time of the body's either.
  class OutsideBody {
   public:
    explicit OutsideBody(const Clock* clock)
        : runner_(current_runner_),
          was_in_body_(runner_ != nullptr && runner_->in_body.load(std::memory_order_relaxed)),
          clock_(was_in_body_ ? clock : nullptr) {
      if (was_in_body_) runner_->leave_body();
      if (clock_ != nullptr) since_ = clock_->now();
    }
    ~OutsideBody() {
      if (clock_ != nullptr) runner_->outside += clock_->now() - since_;
      if (was_in_body_) runner_->enter_body();
    }
    OutsideBody(const OutsideBody&) = delete;
    OutsideBody& operator=(const OutsideBody&) = delete;

   private:
    Runner* const runner_;
    const bool was_in_body_;
    const Clock* const clock_;
    Time since_{};
  };

  // Events.
  using Arrivals = std::array<Arrival, Turn::kMaxTasks>;
  std::span<const Arrival> fetch(Arrivals& arrivals, std::uint32_t most) COHORT_REQUIRES(mutex_);
  void take_in(Time now, std::uint32_t most) COHORT_REQUIRES(mutex_);
  // Then workers take in nothing more, and submitters are slowed down.
  [[nodiscard]] bool has_many_refusals() const COHORT_REQUIRES(mutex_) {
    return scheduler_.refusals_open() > Inbox::kSize;
  }
  void take_in_all(Time now) COHORT_REQUIRES(mutex_);
  void look() COHORT_EXCLUDES(mutex_);
  void leave_in_inbox(std::span<TaskRecord* const> records) COHORT_EXCLUDES(mutex_);
  template <class HasRoom>
  void make_room(HasRoom has_room) COHORT_EXCLUDES(mutex_);
  void follow_up(Aftermath& after, Time now) COHORT_REQUIRES(mutex_);
  void follow_actions(Aftermath& after) COHORT_REQUIRES(mutex_);
  void call(Runner& runner, Aftermath& after) COHORT_REQUIRES(mutex_);
  [[nodiscard]] bool is_worth_waking() const COHORT_REQUIRES(mutex_);
  void wake_one(Aftermath& after) COHORT_REQUIRES(mutex_);
  [[nodiscard]] bool attend() COHORT_REQUIRES(mutex_);
  // Does what is to be done, and drops it: nothing is kept by a thread that rests afterwards.
  void perform(Aftermath& after) COHORT_EXCLUDES(mutex_) {
    if (std::exchange(after.notify_watcher, false)) watch_wake_.notify_one();
    if (std::exchange(after.notify_minder, false)) mind_wake_.notify_one();
    if (!after.empty()) perform_all(std::move(after));
  }
  void perform_all(Aftermath after) COHORT_EXCLUDES(mutex_);
  void submit_or_wait(TaskRecord& record);
  [[nodiscard]] std::unique_ptr<Runner> stand_at_door(const TaskRecord& record) COHORT_REQUIRES(mutex_);
  void wait_at_door(const TaskRecord& record, std::unique_ptr<Runner> guest) COHORT_EXCLUDES(mutex_);
  void be_resolved(const TaskRecord& record);
  void give_answer(std::string_view key);
  template <class Begin>
  void end_work(Begin&& begin);
  void tell(TaskEvent::Kind kind, const TaskRecord& record, Time at, TaskStatus status = TaskStatus::kSuccess);
  [[nodiscard]] TaskRecord* own_task() const;
  [[nodiscard]] Origin origin_of(const TaskRecord& record) const;
  [[nodiscard]] static bool may_wait_at_door();
  [[nodiscard]] static FullQueue full_queue(bool paced);

  // Threads.
  void start(Runner& runner) COHORT_EXCLUDES(mutex_);
  void work(Runner& runner) COHORT_EXCLUDES(mutex_);
  enum class Next { kRun, kLookAgain, kRest };
  bool next_turn(Runner& runner) COHORT_EXCLUDES(mutex_);
  Next take_chores(Runner& runner, Time now) COHORT_REQUIRES(mutex_);
  Next take_turn(Runner& runner, Time now, Aftermath& after) COHORT_REQUIRES(mutex_);
  void enter_turn(Runner& runner, Time now) COHORT_REQUIRES(mutex_);
  void leave_turn(Runner& runner) COHORT_REQUIRES(mutex_);
  void leave_batch(Runner& runner) COHORT_REQUIRES(mutex_);
  Next hand_over(Runner& from, Time now, Aftermath& after) COHORT_REQUIRES(mutex_);
  bool rest(Runner& runner) COHORT_EXCLUDES(mutex_);
  [[nodiscard]] bool spin(const Runner& runner) const;
  void release_slot(Runner& runner, Time now) COHORT_REQUIRES(mutex_);
  void note_blocked(Runner& runner, Time now) COHORT_REQUIRES(mutex_);
  Runner& spare_runner() COHORT_REQUIRES(mutex_);

  // Bodies.
  [[nodiscard]] std::unique_ptr<Runner> take_guest() COHORT_REQUIRES(mutex_);
  Time run_guest(Runner& guest, Time now) COHORT_EXCLUDES(mutex_);
  void run_on_guest(std::unique_ptr<Runner> guest) COHORT_EXCLUDES(mutex_);
  void end_guest(Runner& guest, Time now) COHORT_REQUIRES(mutex_);
  Time run_turn(Runner& runner, Time now) COHORT_EXCLUDES(mutex_);
  Time run_chores(Runner& runner, Time now) COHORT_EXCLUDES(mutex_);
  bool run_body(TaskRecord& record, Runner& runner, Time& now) COHORT_EXCLUDES(mutex_);
  static void note_outside(const TaskRecord& record, Runner& runner);
  bool suspend(TaskRecord& record, Runner& runner) COHORT_EXCLUDES(mutex_);
  void begin_await(TaskRecord& record, Awaiting& awaiting) COHORT_EXCLUDES(mutex_);
  std::unique_ptr<Error> refusal(TaskRecord& task, Awaiting& awaiting) COHORT_EXCLUDES(mutex_);
  static std::unique_ptr<Error> error_of(Awaiting::Verdict verdict, const TaskRecord& task, const Awaiting& awaiting);

  // The watcher and the minder.
  void watch() COHORT_EXCLUDES(mutex_);
  void mind() COHORT_EXCLUDES(mutex_);
  void look_around() COHORT_EXCLUDES(mutex_);
  [[nodiscard]] bool needs_minding() const COHORT_REQUIRES(mutex_);
  // The minder looks within `kLookEvery`. True: it sleeps and must be notified.
  [[nodiscard]] bool begin_minding(Time now) COHORT_REQUIRES(mutex_) {
    if (std::exchange(minding_, true)) return false;
    look_at_ = now + kLookEvery;
    return std::exchange(minder_sleeps_, false);
  }
  void help_with_chores(Time now, Aftermath& after) COHORT_REQUIRES(mutex_);
  template <class Reached>
  bool wait_for_progress(Reached&& reached, Time until) COHORT_EXCLUDES(mutex_);

  static constexpr std::uint32_t kTakenInAtOnce = 256;
  static constexpr Duration kLookEvery = std::chrono::milliseconds(1);
  static constexpr Duration kLongTask = std::chrono::microseconds(500);
  static constexpr Duration kChoresWaitFor = std::chrono::milliseconds(1);
  // A thread that takes the lock again and again pauses after every few times: a lock that is not fair goes to it, and
  // threads that sleep until they get the lock would not.
  static constexpr int kHoldsInARow = 4;
  static constexpr Duration kBreath = std::chrono::microseconds(200);

  static thread_local Runner* current_runner_;

  const ExecutorHome& home_;
  Clock& clock_;
  Function<void(const TaskEvent&)> listener_;
  Function<bool(std::int32_t)> blocked_probe_;
  const std::uint32_t threads_;
  const std::uint32_t max_threads_;

  Inbox inbox_;
  alignas(64) std::atomic<bool> attended_{false};
  std::atomic<std::uint32_t> shortest_queue_;

  alignas(64) Mutex mutex_;
  Scheduler<> scheduler_ COHORT_GUARDED_BY(mutex_);
  // Parts of it that are thread-safe.
  const GroupPolicy& policy_;
  const KeySet& keys_that_block_;
  const KeySet& keys_seen_;
  std::vector<std::unique_ptr<Runner>> runners_ COHORT_GUARDED_BY(mutex_);
  // For callers who run tasks on their own thread: those not in use, and those in it.
  std::vector<std::unique_ptr<Runner>> guests_ COHORT_GUARDED_BY(mutex_);
  std::vector<Runner*> resting_ COHORT_GUARDED_BY(mutex_);
  // Whose thread waits for the turn of a task: that of a parked body, or of a caller at a door.
  std::unordered_map<const TaskRecord*, Runner*> waiting_ COHORT_GUARDED_BY(mutex_);
  std::uint32_t live_threads_ COHORT_GUARDED_BY(mutex_) = 0;
  std::uint32_t starting_ COHORT_GUARDED_BY(mutex_) = 0;  // On their way into Runner::thread.
  std::uint32_t spinning_ COHORT_GUARDED_BY(mutex_) = 0;
  std::uint32_t arriving_ COHORT_GUARDED_BY(mutex_) = 0;
  std::uint32_t batches_ COHORT_GUARDED_BY(mutex_) = 0;
  std::uint32_t short_turns_ COHORT_GUARDED_BY(mutex_) = 0;
  std::uint32_t blocked_ COHORT_GUARDED_BY(mutex_) = 0;      // Runners whose body is known to block.
  std::uint32_t extra_slots_ COHORT_GUARDED_BY(mutex_) = 0;  // Those that stand in for them.
  std::uint32_t unstarted_ COHORT_GUARDED_BY(mutex_) = 0;    // Slots for which no thread could be had.
  std::uint32_t chore_threads_ COHORT_GUARDED_BY(mutex_) = 0;
  std::thread last_ended_ COHORT_GUARDED_BY(mutex_);  // Each thread that ends joins the one before it.
  bool stopping_ COHORT_GUARDED_BY(mutex_) = false;

  CondVar progress_;  // For those who wait for a drain, a place in a queue, or the end.
  std::uint32_t progress_waiters_ COHORT_GUARDED_BY(mutex_) = 0;

  CondVar watch_wake_;
  Time watcher_sleeps_until_ COHORT_GUARDED_BY(mutex_){};  // Time::min() while it is awake.
  std::thread watcher_;
  CondVar mind_wake_;
  bool minding_ COHORT_GUARDED_BY(mutex_) = false;
  bool minder_sleeps_ COHORT_GUARDED_BY(mutex_) = false;  // For as long as it takes.
  Time look_at_ COHORT_GUARDED_BY(mutex_){};              // While minding_.
  std::thread minder_;
  static inline thread_local constinit const ThreadDriver* driver_of_thread_ = nullptr;  // That has made it.
};

}  // namespace cohort::internal
