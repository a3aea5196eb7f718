#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/function.h"
#include "cohort/base/result.h"
#include "cohort/task/explanation.h"
#include "cohort/task/group_limits.h"
#include "cohort/task/group_stats.h"
#include "cohort/task/group_token.h"
#include "cohort/task/internal/callable_record.h"
#include "cohort/task/internal/here_turns.h"
#include "cohort/task/submit_options.h"
#include "cohort/task/task_handle.h"

namespace cohort {

class Executor;

/// One task of a batch for Executor::submit_all and execute_all. It can be moved, not copied, and submitted once.
///
///     std::vector<GroupTask<int>> tasks;
///     tasks.emplace_back("vip", "task-1", [] { return 42; });
template <class T>
class GroupTask {
 public:
  template <class F>
    requires(internal::is_task_callable<F> && std::is_same_v<internal::BodyValue<F>, T>)
  GroupTask(std::string group, std::string task_id, F callable, SubmitOptions options = {});
  /// With the right to a group, see Executor::submit.
  template <class F>
    requires(internal::is_task_callable<F> && std::is_same_v<internal::BodyValue<F>, T>)
  GroupTask(const GroupToken& group, std::string task_id, F callable, SubmitOptions options = {})
      : GroupTask(std::string(group.key()), std::move(task_id), std::move(callable), options) {
    lease_ = internal::Ref<internal::GroupLease>(group.lease());
  }

  template <class Group, class F>
    requires(!internal::is_task_callable<F>)
  GroupTask(const Group&, std::string, F, SubmitOptions = {}) {
    static_assert(internal::never<F>, "a task is a callable that takes nothing or a std::stop_token");
  }

  [[nodiscard]] const std::string& group() const { return group_; }
  [[nodiscard]] const std::string& task_id() const { return task_id_; }

 private:
  friend class Executor;
  friend struct internal::ExecutorAccess;

  // Not handed in yet.
  TaskHandle<T> make(Executor& executor) { return std::exchange(make_, nullptr)(executor, *this); }
  [[nodiscard]] internal::GroupAddress address() const {
    return lease_ ? internal::GroupAddress(*lease_) : internal::GroupAddress(group_);
  }

  std::string group_;
  std::string task_id_;
  internal::Ref<internal::GroupLease> lease_;  // Null: it came with a key.
  std::unique_ptr<SubmitOptions> options_;     // Null: none. Apart, so that the callable fits into its Function.
  Function<TaskHandle<T>(Executor&, const GroupTask&)> make_;
};

/// Runs tasks in groups, each group within its own limits. This is the port that the rest of Cohort knows; a program
/// makes one of its implementations.
///
/// A callable takes nothing or a std::stop_token and returns a value, void, Result<T>, Error (the task has failed) or
/// Task<T>. Keys have 1 to 1,024
/// bytes, task ids at most 256 and need not be unique. `submit` never fails, and throws only what copying the callable
/// throws: a rejection, a bad key or a shutdown gives a handle that is settled with the reason.
///
/// Thread-safety: thread-safe, unless an implementation says otherwise. Tasks run with no lock held.
/// Example: examples/01_hello_groups.cc
class Executor {
 public:
  static constexpr std::size_t kMaxKeyBytes = internal::TaskLabel::kMaxKeyBytes;
  static constexpr std::size_t kMaxTaskIdBytes = internal::TaskLabel::kMaxIdLength;

  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  /// Puts one task into its group's queue. Blocks only where the group's overflow policy says so.
  template <class F>
  auto submit(std::string_view group, std::string_view task_id, F&& callable, const SubmitOptions& options = {}) {
    return submit_one(group, task_id, std::forward<F>(callable), options, Submission::kPlain);
  }
  /// With the right to a group: rejected with kEnded once the token is closed.
  template <class F>
  auto submit(const GroupToken& group, std::string_view task_id, F&& callable, const SubmitOptions& options = {}) {
    return submit_one(internal::GroupAddress(group.lease()), task_id, std::forward<F>(callable), options,
                      Submission::kPlain);
  }

  /// As submit; and where the task's permits are free it has run by the time the call returns, in place of what this
  /// thread would have done. It must not block; a coroutine that suspends goes on elsewhere.
  template <class F>
  auto try_run_here(std::string_view group, std::string_view task_id, F&& callable, const SubmitOptions& options = {}) {
    return submit_one(group, task_id, std::forward<F>(callable), options, Submission::kRunHere);
  }
  template <class F>
  auto try_run_here(const GroupToken& group, std::string_view task_id, F&& callable,
                    const SubmitOptions& options = {}) {
    return submit_one(internal::GroupAddress(group.lease()), task_id, std::forward<F>(callable), options,
                      Submission::kRunHere);
  }

  /// Submits all, in order. Takes the callables out of `tasks`.
  template <class T>
  std::vector<TaskHandle<T>> submit_all(std::vector<GroupTask<T>>& tasks) {
    std::vector<TaskHandle<T>> handles(tasks.size());
    for (std::size_t first = 0; first < tasks.size(); first += internal::ExecutorAccess::kMaxSubmittedAtOnce) {
      const std::size_t count = std::min(tasks.size() - first, internal::ExecutorAccess::kMaxSubmittedAtOnce);
      submit_some(std::span(tasks).subspan(first, count), std::span(handles).subspan(first, count), Submission::kPlain);
    }
    return handles;
  }

  template <class T>
  std::vector<TaskHandle<T>> submit_all(std::vector<GroupTask<T>>&& tasks) {
    return submit_all(tasks);
  }

  /// Runs all and returns their results in input order, whatever becomes of each. Blocks. It paces itself: a queue that
  /// the batch has filled slows it down instead of rejecting; one that others have filled makes it wait too, except
  /// inside a task, where it rejects. When `stop` is asked for, what has not ended is cancelled. Takes the callables
  /// out of `tasks`.
  template <class T>
  std::vector<TaskResult<T>> execute_all(std::vector<GroupTask<T>>& tasks, std::stop_token stop = {});
  template <class T>
  std::vector<TaskResult<T>> execute_all(std::vector<GroupTask<T>>&& tasks, std::stop_token stop = {}) {
    return execute_all(tasks, std::move(stop));
  }

  /// Why the task is where it is.
  template <class T>
  [[nodiscard]] Explanation explain(const TaskHandle<T>& handle) {
    return explain_record(handle.record());
  }

  [[nodiscard]] virtual Clock& clock() = 0;

  // What changes a group fails with kInvalid when the key is empty or too long.

  /// What holds, or would hold, for a group of that key.
  [[nodiscard]] virtual ResolvedLimits resolve(std::string_view group) = 0;
  /// Changes the limits that are set, now and for good: growth takes effect at once, shrinking as tasks end. A
  /// max_concurrency of 0 pauses, until there is another or resume_group.
  virtual Result<void> set_limits(std::string_view group, const GroupLimits& limits) = 0;
  Result<void> resize(std::string_view group, Limit max_concurrency) {
    return set_limits(group, {.max_concurrency = max_concurrency});
  }
  /// Forgets what set_limits and resize have changed: what the options say holds again. A pause stays.
  virtual Result<void> clear_limits(std::string_view group) = 0;
  /// Forgets a group without tasks now instead of after `evict_after`; its limits are resolved anew when it is used
  /// again, and its tokens are all back. kNotFound: it is not in memory; kConflict: it has tasks.
  virtual Result<void> evict_group(std::string_view group) = 0;
  /// Starts nothing more of the group; what runs goes on, and may resume.
  virtual Result<void> pause_group(std::string_view group) = 0;
  /// Ends a pause, be it by pause_group or by a max_concurrency of 0.
  virtual Result<void> resume_group(std::string_view group) = 0;

  /// The waiting settle as cancelled, the running are asked to stop. The key may be used again at once; old bodies
  /// still count.
  virtual Result<void> shutdown_group(std::string_view group) = 0;
  /// Takes a right back: what was submitted with the token and waits settles as cancelled, what runs is asked to stop,
  /// and what comes with it later is rejected with kEnded. Other work of the group goes on.
  void close_group(const GroupToken& token) {
    if (token.lease().close()) close_lease(token.lease());
  }
  /// Refuses new work for the group from outside it and waits until the rest has ended. kTimedOut when that takes
  /// longer: then the group takes work again. kConflict from inside one of its tasks.
  virtual Result<void> drain_group(std::string_view group, Duration timeout) = 0;
  /// Refuses new work from outside, lets the rest finish until the time-out, then cancels it. kTimedOut when something
  /// had to be cancelled, kConflict from inside a task. Never waits for bodies that ignore their stop token.
  virtual Result<void> shutdown(Duration timeout) = 0;

  [[nodiscard]] virtual ExecutorStats stats() = 0;
  /// kNotFound for a group that is not in memory: never used, or evicted.
  [[nodiscard]] virtual Result<GroupStats> group_stats(std::string_view group) = 0;
  /// The groups with tasks that wait, run or are parked.
  [[nodiscard]] virtual std::vector<std::string> active_groups() = 0;
  /// How long a task submitted now would wait, by the group's queue and recent run times.
  [[nodiscard]] virtual Duration estimated_wait(std::string_view group) = 0;

  /// Inside a task that was submitted with a time-out or deadline: the latest end of that task from now on, in place of
  /// those; nothing: none. So one that does several things can give each its time. False: its time is over already.
  virtual bool limit_current_task(std::optional<Time> end) = 0;
  /// Makes a short call at that time, or when the executor ends, on one of its threads and with no lock held. It must
  /// not block or throw.
  virtual void call_at(Time at, Function<void()> call) = 0;

 protected:
  friend struct internal::ExecutorAccess;
  friend class internal::HereTurns;
  template <class T>
  friend class GroupTask;

  enum class Submission { kPlain, kRunHere, kPaced };

  [[nodiscard]] static Result<void> check_key(std::string_view key);
  [[nodiscard]] internal::ExecutorHome& home() const { return home_; }
  /// The last thing an implementation's destructor does before it takes itself apart: waits until nobody is on his way
  /// into it through a handle. All tasks are done.
  void close_home() { home_.close(); }

  /// Takes the record in with one reference to it, or settles it with the reason why not. kPaced: from outside, what
  /// finds a full queue waits at its door, and the submitter does not; kRunHere: see try_run_here.
  virtual void submit_record(internal::TaskRecord& record, Submission submission) = 0;
  /// The same for several, in their order; never kRunHere.
  virtual void submit_records(std::span<internal::TaskRecord* const> records, Submission submission) {
    for (internal::TaskRecord* record : records) submit_record(*record, submission);
  }
  /// What HereTurns says.
  virtual bool run_here(internal::TaskRef& record, Time now, internal::HereTurns& turns) = 0;
  virtual void end_here(internal::HereTurns& turns) = 0;
  /// Takes in a task of the predecessor's group that is to be queued when the predecessor is done.
  virtual void follow_record(internal::TaskRecord& record, internal::TaskRecord& predecessor) = 0;
  virtual void cancel_record(internal::TaskRecord& record) = 0;
  /// Cancels what came with a lease that has been closed.
  virtual void close_lease(internal::GroupLease& lease) = 0;
  /// Blocks until `state` is satisfied or `until` has come; the current task, if any, is parked meanwhile. Returns why
  /// it could not wait: a cycle (kConflict), or the current task's own time-out (kTimedOut).
  virtual std::unique_ptr<Error> await(internal::AwaitState& state, std::optional<Time> until) = 0;
  /// A task of another executor awaits this one.
  virtual void mark_awaited([[maybe_unused]] internal::TaskRecord& record) {}
  /// Blocks this thread until `state` is satisfied, whatever the current task is: for one that has run out of time.
  virtual void block(internal::AwaitState& state) = 0;
  /// What BlockingRegion says of the current task.
  virtual bool begin_blocking() { return false; }
  virtual void end_blocking() {}
  /// A thread that waits for its tasks has to run them meanwhile.
  [[nodiscard]] virtual bool is_driven_by_callers() const { return false; }
  /// No group has a smaller max_waiting.
  [[nodiscard]] virtual std::uint32_t shortest_queue() = 0;
  [[nodiscard]] virtual Explanation explain_record(internal::TaskRecord& record) = 0;

 private:
  template <class F>
  auto submit_one(const internal::GroupAddress& group, std::string_view task_id, F&& callable,
                  const SubmitOptions& options, Submission submission) {
    if constexpr (!internal::is_task_callable<std::decay_t<F>>) {
      static_assert(internal::never<F>, "a task is a callable that takes nothing or a std::stop_token");
      return TaskHandle<void>();
    } else {
      return hand_in(group, task_id, std::forward<F>(callable), options, submission);
    }
  }

  template <class F>
  auto hand_in(const internal::GroupAddress& group, std::string_view task_id, F&& callable,
               const SubmitOptions& options, Submission submission) {
    auto record = make_record(group, task_id, std::forward<F>(callable), options);
    record->add_executors_reference();
    submit_record(*record, submission);
    return as_handle(std::move(record));
  }

  template <class F>
  auto make_record(const internal::GroupAddress& group, std::string_view task_id, F&& callable,
                   const SubmitOptions& options) {
    using Record = internal::CallableRecord<std::decay_t<F>>;
    auto record = internal::Ref<Record>::adopt(new Record(group, task_id, std::forward<F>(callable)));
    record->home = &home_;
    record->priority = options.priority;
    if (options.queue_timeout || options.run_timeout || options.deadline) {
      record->extras().options = options;
      record->special = true;
      record->timed = options.run_timeout || options.deadline;
    }
    return record;
  }

  template <class Record>
  static auto as_handle(internal::Ref<Record> record) {
    using Typed = internal::ResultRecord<internal::ValueOf<Record>>;
    return TaskHandle<internal::ValueOf<Record>>(internal::Ref<Typed>::adopt(record.release()));
  }

  // Nothing is submitted unless all of them could be made.
  template <class T>
  void submit_some(std::span<GroupTask<T>> tasks, std::span<TaskHandle<T>> handles, Submission submission) {
    std::array<internal::TaskRecord*, internal::ExecutorAccess::kMaxSubmittedAtOnce> records;
    try {
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        handles[i] = tasks[i].make(*this);
        records[i] = &handles[i].record();
      }
    } catch (...) {
      std::ranges::fill(handles, TaskHandle<T>());
      throw;
    }
    for (std::size_t i = 0; i < tasks.size(); ++i) records[i]->add_executors_reference();
    submit_records(std::span(records).first(tasks.size()), submission);
  }

  internal::ExecutorHome& home_ = internal::ExecutorHome::open(*this);
};

template <class T>
template <class F>
  requires(internal::is_task_callable<F> && std::is_same_v<internal::BodyValue<F>, T>)
GroupTask<T>::GroupTask(std::string group, std::string task_id, F callable, SubmitOptions options)
    : group_(std::move(group)),
      task_id_(std::move(task_id)),
      options_(options == SubmitOptions() ? nullptr : std::make_unique<SubmitOptions>(options)),
      make_([callable = std::move(callable)](Executor& executor, const GroupTask& task) mutable {
        static const SubmitOptions kNone;
        return Executor::as_handle(executor.make_record(task.address(), task.task_id_, std::move(callable),
                                                        task.options_ ? *task.options_ : kNone));
      }) {}

}  // namespace cohort

#include "cohort/task/internal/execute_all.h"  // IWYU pragma: export
