#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/base/internal/intrusive_list.h"
#include "cohort/base/internal/ref.h"
#include "cohort/base/timer.h"
#include "cohort/task/internal/executor_home.h"
#include "cohort/task/internal/task_label.h"
#include "cohort/task/submit_options.h"
#include "cohort/task/task_status.h"

namespace cohort {

class Executor;

namespace internal {

class AwaitState;
class TaskRecord;
class Waiter;
struct Group;
struct Turn;

using TaskRef = Ref<TaskRecord>;

/// The state of a task in the scheduler.
enum class Phase : std::uint8_t {
  kNew,         ///< Not handed in yet.
  kDependent,   ///< Follows a task that has not ended.
  kAtDoor,      ///< Waits for a place in the queue, or for its submitter to run it.
  kWaiting,     ///< In the queue.
  kTaken,       ///< In a worker's turn: about to run, running, or ended.
  kSuspended,   ///< Sleeps, or awaits only promises without an executor; holds its permits.
  kContinuing,  ///< A coroutine that waits for a thread; holds its permits.
  kParked,      ///< Awaits another task; holds only its place in layer 2.
  kResuming,    ///< Its await is over; waits for permits of layers 1 and 3.
  kForgotten,   ///< The scheduler has no reference to it any more.
};

/// Data that only some tasks need, kept apart so that the other tasks do not pay for it.
struct TaskExtras {
  explicit TaskExtras(TaskRecord& owner);
  ~TaskExtras();

  struct OwnedTimer : Timer {
    OwnedTimer(TaskRecord& task, bool is_wake) : record(task), wakes(is_wake), is_prompt(is_wake) {}
    TaskRecord& record;
    bool wakes;
    bool is_prompt;  ///< While armed: true if it is in the scheduler's queue of prompt timers.
  };

  std::unique_ptr<Error> error;   ///< Written before publish, read after it.
  IntrusiveList<Waiter> waiters;  ///< Guarded by the stripe of the record, see task_record.cc.
  SubmitOptions options;
  Turn* turn = nullptr;             ///< Its turn while it is kTaken, if it has a limit on its run time.
  OwnedTimer limit;                 ///< The queue time-out or the run time-out, depending on its phase.
  std::optional<Time> body_limit;   ///< The latest end that its body has set instead. Only the body's thread uses it.
  OwnedTimer wake;                  ///< The end of a sleep, or of a timed await.
  AwaitState* awaiting = nullptr;   ///< The wait of a parked task, or of a task suspended in an await.
  Duration layer1_bound_before{0};  ///< For a sleeping task: how long layer 1 had been full before the sleep.
  double prepaid_ns = 0;            ///< For a sleeping task: what its group was charged for the sleep in advance.
  TaskRef predecessor;              ///< The task that a dependent task follows.

  // The request of a coroutine that suspended. Its driver acts on the request after run() has returned.
  std::coroutine_handle<> resume_point;
  Ref<AwaitState> await_request;  ///< Null if the coroutine sleeps until `sleep_until`.
  Time sleep_until{};
  bool awaited_from_afar = false;                ///< A task of another executor awaits it, directly or not.
  bool in_far_waits = false;                     ///< Its wait is listed in FarWaits.
  bool out_of_time = false;                      ///< Its last await failed because its own time ran out.
  bool sleeps_until_stop = false;                ///< A stop request ends its sleep.
  bool woken_by_stop = false;                    ///< A stop request has ended its sleep. The scheduler sets it.
  std::atomic<std::stop_source*> stop{nullptr};  ///< Set if the body has asked for a stop token, see this_task.
  std::unique_ptr<Error> await_error;            ///< Why the last await failed, for the body to collect.
};

/// The part of a task that its handles, its waiters and the executor share. The typed part (callable, result) derives
/// from it.
///
/// A task ends exactly once. The side that claims the record (its body, the executor or a Promise) writes the result or
/// the error, then calls `publish`. After that they never change, and any thread may read them.
/// 1. While the task waits, only the executor can claim it, under the executor's lock.
/// 2. After the body has begun, the body claims the record when it ends. If the task has a time limit, the executor may
///    be faster, so body and executor use `try_claim`. Without a time limit the body needs no `try_claim`.
/// 3. The Turn of the task decides whether the body has begun, see Turn.
/// `state_` holds three things:
/// - the claim with its status;
/// - whether the record has been published (release, paired with the acquire of is_done);
/// - whether the waiter list may have entries, so that publish must look there.
///
/// The fields under "the scheduler's" are guarded by the lock of the executor that the task was handed to.
class TaskRecord : public ListLinks<TaskRecord> {
 public:
  TaskRecord(const GroupAddress& group_address, std::string_view task_id)
      : leased(group_address.lease != nullptr), label_(group_address, task_id) {}
  /// Makes another task with the group and the id of `like`.
  explicit TaskRecord(const TaskLabel& like) : leased(like.lease() != nullptr), label_(like) {}
  static void* operator new(std::size_t size) { return allocate_block(size); }
  static void operator delete(void* block, std::size_t size) { free_block(block, size); }
  static void* operator new(std::size_t size, std::align_val_t alignment) { return ::operator new(size, alignment); }
  static void operator delete(void* block, std::size_t, std::align_val_t alignment) {
    ::operator delete(block, alignment);
  }
  TaskRecord(const TaskRecord&) = delete;
  TaskRecord& operator=(const TaskRecord&) = delete;

  void ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void unref() {
    // The last reference needs no atomic subtraction: no other thread can add a reference.
    if (references_.load(std::memory_order_acquire) == 1 || references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete this;
    }
  }
  /// Adds a reference for the executor that gets the record. Call it before any other thread knows the record.
  void add_executors_reference() {
    references_.store(2, std::memory_order_relaxed);
    if (leased) enter_group();
  }
  /// Adds a reference for the executor that gets the record, if other threads may know the record already.
  void count_executors_reference() {
    ref();
    if (leased) enter_group();
  }
  /// Drops the executor's reference, when the executor has finished with the record.
  void drop_executors_reference(Time now) {
    if (leased) leave_group(now);
    unref();
  }

  [[nodiscard]] const TaskLabel& label() const { return label_; }
  [[nodiscard]] std::string task_id() const { return std::string(label().id()); }
  [[nodiscard]] std::string group_key() const { return std::string(label().key()); }

  /// Notes that the body begins.
  void begin(Time now) {
    started_at = now;
    begun_.store(true, std::memory_order_release);
  }
  bool try_claim(TaskStatus status);
  /// Changes the status of the claim. Only the side that claimed may call it, before publish().
  void reclaim(TaskStatus status);
  /// Claims the record for the body. Returns false if a time-out was faster.
  bool claim_by_body(TaskStatus status) {
    if (timed) return claimed_by_body = try_claim(status);
    outcome_ = status;
    return claimed_by_body = true;
  }
  /// Changes the status of the body's claim.
  void reclaim_by_body(TaskStatus status) {
    if (timed) return reclaim(status);
    outcome_ = status;
  }
  /// Announces the end and notifies the waiters. Only the side that claimed may call it, exactly once.
  bool publish(Time ended) {
    ended_at = ended;
    const std::uint32_t bits = kClaimed | kPublished | (static_cast<std::uint32_t>(outcome_) << kStatusShift);
    const bool has_waiters = (state_.fetch_or(bits, std::memory_order_acq_rel) & kWaiters) != 0;
    if (has_waiters) notify_waiters();
    return has_waiters;
  }

  [[nodiscard]] bool has_begun() const { return begun_.load(std::memory_order_acquire); }
  [[nodiscard]] bool is_claimed() const { return (state_.load(std::memory_order_acquire) & kClaimed) != 0; }
  [[nodiscard]] bool is_done() const { return (state_.load(std::memory_order_acquire) & kPublished) != 0; }
  /// The status. Valid after the claim; if the body claims, only after publish().
  [[nodiscard]] TaskStatus status() const {
    return static_cast<TaskStatus>(state_.load(std::memory_order_acquire) >> kStatusShift);
  }
  /// The status that publish() will announce.
  [[nodiscard]] TaskStatus claimed_status() const { return outcome_ != TaskStatus::kSuccess ? outcome_ : status(); }

  /// Adds a waiter, which must be removed or notified before it is destroyed. Returns false and does nothing if the
  /// task is done.
  bool add_waiter(Waiter& waiter);
  /// Removes a waiter. Returns false if the waiter has been notified or is being notified.
  bool remove_waiter(Waiter& waiter);

  /// Runs the body on this thread, or continues a coroutine. Returns true if the body has ended; `claimed_by_body` then
  /// says whether its outcome counts. Destroys the callable when the body has ended.
  virtual bool run() = 0;
  /// Asks the body to stop. Thread-safe, and safe to repeat. Callbacks on the stop token run inside this call.
  void request_stop();
  /// For the body: a token that gets a stop request when the task does.
  [[nodiscard]] std::stop_token stop_token();
  [[nodiscard]] bool stop_requested() const { return stop_requested_.load(std::memory_order_acquire); }
  /// Whether the body may suspend.
  [[nodiscard]] virtual bool is_coroutine() const { return false; }
  /// Whether the record is settled from outside an executor. It can still have a home, through which tasks await it.
  [[nodiscard]] virtual bool is_promise() const { return false; }
  /// Drops the callable of a task that will never run.
  virtual void drop_body() {}
  /// Drops the value of an ended task. Call it only if no handle can ask for the value any more.
  virtual void drop_value() {}
  /// Whether only one reference is left. If the caller holds it, no other thread can add one.
  [[nodiscard]] bool has_one_reference() const { return references_.load(std::memory_order_acquire) == 1; }

  /// Hints to the processor that the record is about to be read and written.
  void prefetch() const {
    const char* first = reinterpret_cast<const char*>(this);
    for (std::size_t line = 0; line < 3; ++line) __builtin_prefetch(first + 64 * line, 1);
  }

  /// The extras of the record. Makes them on the first call, on any thread.
  TaskExtras& extras() {
    TaskExtras* there = extras_.load(std::memory_order_acquire);
    return there != nullptr ? *there : make_extras();
  }
  [[nodiscard]] TaskExtras* extras_if_any() const { return extras_.load(std::memory_order_acquire); }
  /// The time at which the task's time is over; nullopt if it has no limit. For its body.
  [[nodiscard]] std::optional<Time> time_limit() const;
  /// Why the task did not succeed, or null. Valid when the task is done.
  [[nodiscard]] const Error* error() const;
  /// Sets the error. Only the side that claimed may call it, before publish().
  void set_error(Error error);

 private:
  static constexpr std::uint32_t kClaimed = 1;
  static constexpr std::uint32_t kPublished = 2;
  static constexpr std::uint32_t kWaiters = 4;
  static constexpr int kStatusShift = 8;

  void enter_group();
  void leave_group(Time now);
  TaskExtras& make_extras();
  void notify_waiters();

  std::atomic<std::uint32_t> state_{0};
  std::atomic<std::uint32_t> references_{1};

 public:
  // The scheduler's.
  Group* group = nullptr;
  std::uint32_t sequence = 0;  ///< Its place in its queue relative to the others, modulo 2^32.
  Phase phase = Phase::kNew;
  Priority priority = Priority::kNormal;
  bool awaited = false;      ///< A task of some group awaits it, directly or not.
  bool own_account = false;  ///< Holds a place in layer 2.
  bool holds_global = false;
  bool holds_concurrency = false;
  bool overrunning = false;
  bool let_go = false;         ///< Runs on without permits or turn: it ran out of time while its thread was parked.
  bool blocks_thread = false;  ///< A thread waits for its next turn: its parked body, or its caller at the door.

  std::uint8_t note = 0;         ///< For the driver: how it was submitted, on its way through the inbox.
  bool special = false;          ///< It came with extras. Set before it is handed in.
  bool timed = false;            ///< It has a limit on its run time. Set before it is handed in.
  const bool leased;             ///< It came with a token.
  bool asked_to_stop = false;    ///< The scheduler has decided to stop it; the driver tells the body soon.
  bool kept = false;             ///< The executor has no reference to it: the thread that made it runs it.
  bool claimed_by_body = false;  ///< Set by the body; the scheduler reads it after the body has ended.
  /// Dropping the record may run a user's destructor: of the callable or of the value.
  bool drops_users_code = false;

 private:
  TaskStatus outcome_ = TaskStatus::kSuccess;  // The status of a body that needed no try_claim().
  std::atomic<bool> begun_{false};
  std::atomic<bool> stop_requested_{false};

 public:
  Time submitted_at{};           ///< Set before it is handed in.
  Time started_at{};             ///< Valid only if has_begun().
  Time ended_at{};               ///< Written before publish, read after it.
  ExecutorHome* home = nullptr;  ///< The home of its executor. Set once, before it is handed in.

 protected:
  virtual ~TaskRecord();
  virtual void on_stop() {}
  /// Called after publish(), on the publishing thread and with no lock held, for a record with ask_for_end().
  virtual void on_end() {}
  /// Settles a new record as succeeded. Call it after the value is set and before any other thread knows the record.
  void succeed_at_birth(Time ended) {
    ended_at = ended;
    state_.store(kClaimed | kPublished | (static_cast<std::uint32_t>(TaskStatus::kSuccess) << kStatusShift),
                 std::memory_order_relaxed);
  }
  /// Requests the call of on_end(). Call it before any other thread knows the record.
  void ask_for_end() { state_.store(kWaiters, std::memory_order_relaxed); }

 private:
  std::atomic<TaskExtras*> extras_{nullptr};
  TaskLabel label_;
};

/// The task whose body runs on this thread, or null.
inline thread_local constinit TaskRecord* task_of_this_thread = nullptr;
[[nodiscard]] inline TaskRecord* current_task() { return task_of_this_thread; }
/// True if the body of this thread's task has ended and code that follows from its end runs: the task cannot park then.
inline thread_local constinit bool task_of_this_thread_has_ended = false;

/// Makes `record` the current task of this thread for a scope.
class CurrentTaskScope {
 public:
  explicit CurrentTaskScope(TaskRecord* record, bool has_ended = false)
      : outer_(std::exchange(task_of_this_thread, record)),
        outer_has_ended_(std::exchange(task_of_this_thread_has_ended, has_ended)) {}
  ~CurrentTaskScope() {
    task_of_this_thread = outer_;
    task_of_this_thread_has_ended = outer_has_ended_;
  }
  CurrentTaskScope(const CurrentTaskScope&) = delete;
  CurrentTaskScope& operator=(const CurrentTaskScope&) = delete;

 private:
  TaskRecord* outer_;
  bool outer_has_ended_;
};

}  // namespace internal
}  // namespace cohort
