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

/// Where the scheduler has a task.
enum class Phase : std::uint8_t {
  kNew,         ///< Not handed in yet.
  kDependent,   ///< Follows a task that has not ended.
  kAtDoor,      ///< Its submitter waits for a place in the queue.
  kWaiting,     ///< In the queue.
  kTaken,       ///< In a worker's turn: about to run, running, or run.
  kSuspended,   ///< Sleeps, or awaits something from outside every executor; holds its permits.
  kContinuing,  ///< A coroutine that wants a thread; holds its permits.
  kParked,      ///< Awaits another task; holds only its place in layer 2.
  kResuming,    ///< Wants its permits of layers 1 and 3 back.
  kForgotten,   ///< The scheduler knows it no more.
};

/// What only some tasks need, so that the others do not pay for it.
struct TaskExtras {
  explicit TaskExtras(TaskRecord& owner);
  ~TaskExtras();

  struct OwnedTimer : Timer {
    OwnedTimer(TaskRecord& task, bool is_wake) : record(task), wakes(is_wake), is_prompt(is_wake) {}
    TaskRecord& record;
    bool wakes;
    bool is_prompt;  ///< In which queue of the scheduler it is while it is armed.
  };

  std::unique_ptr<Error> error;   ///< Written before publish, read after it.
  IntrusiveList<Waiter> waiters;  ///< Guarded by the stripe of the record, see task_record.cc.
  SubmitOptions options;
  Turn* turn = nullptr;             ///< While kTaken, if it has a limit on its run time.
  OwnedTimer limit;                 ///< The queue or run time-out, whichever phase it is in.
  std::optional<Time> body_limit;   ///< What its body has set in their place. The body's.
  OwnedTimer wake;                  ///< The end of a sleep, or of a timed await.
  AwaitState* awaiting = nullptr;   ///< What a parked task waits for.
  Duration layer1_bound_before{0};  ///< While it sleeps: how long layer 1 had been full before,
  double prepaid_ns = 0;            ///< and what its group was charged for it in advance.
  TaskRef predecessor;              ///< What a dependent task follows.

  // What a coroutine asked for when it suspended; its driver acts on it after run() has returned.
  std::coroutine_handle<> resume_point;
  Ref<AwaitState> await_request;  ///< Null: it sleeps until `sleep_until`.
  Time sleep_until{};
  bool awaited_from_afar = false;                ///< By a task of another executor, perhaps through others.
  bool in_far_waits = false;                     ///< What it waits for is in FarWaits.
  bool out_of_time = false;                      ///< Its last await failed because its own time ran out.
  bool sleeps_until_stop = false;                ///< A stop request ends its sleep.
  bool woken_by_stop = false;                    ///< The scheduler's, before it goes on: it has been.
  std::atomic<std::stop_source*> stop{nullptr};  ///< Of a body that has asked for a token, see this_task.
  std::unique_ptr<Error> await_error;            ///< Why the last await failed, for the body to collect.
};

/// One task: what its handles, its waiters and the executor share. The typed part (callable, result) derives from it.
///
/// It ends exactly once: whoever claims it writes the result or the error, then calls `publish`, after which they never
/// change and any thread may read them.
/// 1. While it waits only the executor can claim it, under its lock.
/// 2. Once the body has begun, the body claims it when it ends. Only where the task has a time limit can the executor
/// be
///    faster; then both use `try_claim`, and otherwise none has to.
/// 3. Whether the body has begun is decided by the Turn it is in, see there.
/// `state_` holds the claim with its status, whether it has been published (release, paired with the acquire of
/// is_done), and whether somebody is on the waiter list, so that publish has to look there.
///
/// The fields under "the scheduler's" are guarded by the lock of the executor that the task was handed to.
class TaskRecord : public ListLinks<TaskRecord> {
 public:
  TaskRecord(const GroupAddress& group_address, std::string_view task_id)
      : leased(group_address.lease != nullptr), label_(group_address, task_id) {}
  /// Another task with the same names.
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
    // The only one left needs no atomic subtraction: nobody else can add to it.
    if (references_.load(std::memory_order_acquire) == 1 || references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete this;
    }
  }
  /// A second reference for the executor that it is handed to; before anybody else knows it.
  void add_executors_reference() {
    references_.store(2, std::memory_order_relaxed);
    if (leased) enter_group();
  }
  /// The same for a record that others know already.
  void count_executors_reference() {
    ref();
    if (leased) enter_group();
  }
  /// The executor is through with it.
  void drop_executors_reference(Time now) {
    if (leased) leave_group(now);
    unref();
  }

  [[nodiscard]] const TaskLabel& label() const { return label_; }
  [[nodiscard]] std::string task_id() const { return std::string(label().id()); }
  [[nodiscard]] std::string group_key() const { return std::string(label().key()); }

  /// The body begins.
  void begin(Time now) {
    started_at = now;
    begun_.store(true, std::memory_order_release);
  }
  bool try_claim(TaskStatus status);
  /// Changes the status it was claimed with. Only for the one who claimed, before publish.
  void reclaim(TaskStatus status);
  /// The body's claim. False when a time-out was faster.
  bool claim_by_body(TaskStatus status) {
    if (timed) return claimed_by_body = try_claim(status);
    outcome_ = status;
    return claimed_by_body = true;
  }
  /// The body's claim turns out to be of another kind.
  void reclaim_by_body(TaskStatus status) {
    if (timed) return reclaim(status);
    outcome_ = status;
  }
  /// Announces the end and notifies the waiters. Only for the one who claimed, once.
  void publish(Time ended) {
    ended_at = ended;
    const std::uint32_t bits = kClaimed | kPublished | (static_cast<std::uint32_t>(outcome_) << kStatusShift);
    if ((state_.fetch_or(bits, std::memory_order_acq_rel) & kWaiters) != 0) notify_waiters();
  }

  [[nodiscard]] bool has_begun() const { return begun_.load(std::memory_order_acquire); }
  [[nodiscard]] bool is_claimed() const { return (state_.load(std::memory_order_acquire) & kClaimed) != 0; }
  [[nodiscard]] bool is_done() const { return (state_.load(std::memory_order_acquire) & kPublished) != 0; }
  /// Only once claimed; for a body's claim, once published.
  [[nodiscard]] TaskStatus status() const {
    return static_cast<TaskStatus>(state_.load(std::memory_order_acquire) >> kStatusShift);
  }
  /// What publish will announce.
  [[nodiscard]] TaskStatus claimed_status() const { return outcome_ != TaskStatus::kSuccess ? outcome_ : status(); }

  /// False, and nothing done, when the task is done already. The waiter must be removed or notified before it dies.
  bool add_waiter(Waiter& waiter);
  /// False when it has been, or is being, notified.
  bool remove_waiter(Waiter& waiter);

  /// Runs the body on this thread, or goes on with a coroutine. True when it has ended: then `claimed_by_body` says
  /// whether its outcome counts. Destroys the callable at the end.
  virtual bool run() = 0;
  /// Tells a cooperative body to stop. Thread-safe, and safe to repeat. Callbacks on the stop token run right here.
  void request_stop();
  /// For its body: a token that is asked when the task is.
  [[nodiscard]] std::stop_token stop_token();
  [[nodiscard]] bool stop_requested() const { return stop_requested_.load(std::memory_order_acquire); }
  /// Whether it may suspend.
  [[nodiscard]] virtual bool is_coroutine() const { return false; }
  /// Whether somebody else than an executor settles it. It may have a home all the same, to wait through.
  [[nodiscard]] virtual bool is_promise() const { return false; }
  /// Drops the callable of a task that will never run.
  virtual void drop_body() {}
  /// Drops the value of a task that has ended and that nobody can ask for it any more.
  virtual void drop_value() {}
  /// Whether only one reference is left. If it is the caller's, there will be no other.
  [[nodiscard]] bool has_one_reference() const { return references_.load(std::memory_order_acquire) == 1; }

  /// Hints that it is about to be read and written.
  void prefetch() const {
    const char* first = reinterpret_cast<const char*>(this);
    for (std::size_t line = 0; line < 3; ++line) __builtin_prefetch(first + 64 * line, 1);
  }

  /// Made when first needed, by any thread.
  TaskExtras& extras() {
    TaskExtras* there = extras_.load(std::memory_order_acquire);
    return there != nullptr ? *there : make_extras();
  }
  [[nodiscard]] TaskExtras* extras_if_any() const { return extras_.load(std::memory_order_acquire); }
  /// When its time is over; nothing: it has no limit. For its body.
  [[nodiscard]] std::optional<Time> time_limit() const;
  /// Why it did not succeed, or null. Once it is done.
  [[nodiscard]] const Error* error() const;
  /// For the one who claimed, before publish.
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
  bool let_go = false;         ///< Goes on without permits or turn: it ran out of time while its thread was parked.
  bool blocks_thread = false;  ///< While parked: a thread waits for it, not a suspended coroutine.

  std::uint8_t note = 0;         ///< The driver's, for the way through the inbox.
  bool special = false;          ///< It came with extras. Set before it is handed in, as is
  bool timed = false;            ///< that it has a limit on its run time,
  const bool leased;             ///< and that it came with a token.
  bool asked_to_stop = false;    ///< The scheduler has said so; its driver tells the body soon.
  bool kept = false;             ///< Its executor has no reference of its own: it runs where it was made.
  bool claimed_by_body = false;  ///< The body's; the scheduler reads it after the body has ended.
  /// Dropping it may take a user's time: his callable or his value is in it, and does something when it is destroyed.
  bool drops_users_code = false;

 private:
  TaskStatus outcome_ = TaskStatus::kSuccess;  // Of a body that nobody could contest.
  std::atomic<bool> begun_{false};
  std::atomic<bool> stop_requested_{false};

 public:
  Time submitted_at{};           ///< Set before it is handed in.
  Time started_at{};             ///< Written before it is begun; means nothing unless it has.
  Time ended_at{};               ///< Written before publish, read after it.
  ExecutorHome* home = nullptr;  ///< Its executor's. Set once, when it is handed in.

 protected:
  virtual ~TaskRecord();
  virtual void on_stop() {}
  /// It has been published, on whichever thread did that and with no lock held; for a record that asked for it.
  virtual void on_end() {}
  /// Before anybody else knows it: its value is there.
  void succeed_at_birth(Time ended) {
    ended_at = ended;
    state_.store(kClaimed | kPublished | (static_cast<std::uint32_t>(TaskStatus::kSuccess) << kStatusShift),
                 std::memory_order_relaxed);
  }
  /// Before anybody else knows it.
  void ask_for_end() { state_.store(kWaiters, std::memory_order_relaxed); }

 private:
  std::atomic<TaskExtras*> extras_{nullptr};
  TaskLabel label_;
};

/// The task whose body runs on this thread, or null.
inline thread_local constinit TaskRecord* task_of_this_thread = nullptr;
[[nodiscard]] inline TaskRecord* current_task() { return task_of_this_thread; }
/// It is not its body that runs, but something that follows from its end: it cannot park any more.
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
