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

/// One task of a batch for Executor::submit_all and execute_all. It can be moved but not copied, and submitted once.
///
///     std::vector<GroupTask<int>> tasks;
///     tasks.emplace_back("vip", "task-1", [] { return 42; });
template <class T>
class GroupTask {
 public:
  template <class F>
    requires(internal::is_task_callable<F> && std::is_same_v<internal::BodyValue<F>, T>)
  GroupTask(std::string group, std::string task_id, F callable, SubmitOptions options = {});
  /// Names the group by a token: the task is rejected with kEnded if the token has been closed.
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

  // Makes the task's record, which is not handed in yet.
  TaskHandle<T> make(Executor& executor) { return std::exchange(make_, nullptr)(executor, *this); }
  [[nodiscard]] internal::GroupAddress address() const {
    return lease_ ? internal::GroupAddress(*lease_) : internal::GroupAddress(group_);
  }

  std::string group_;
  std::string task_id_;
  internal::Ref<internal::GroupLease> lease_;  // Null if a key names the group.
  std::unique_ptr<SubmitOptions> options_;     // Null if none. Not in make_, so that the callable fits into that.
  Function<TaskHandle<T>(Executor&, const GroupTask&)> make_;
};

/// Runs tasks in groups, each group within its own limits. This is the port that the rest of Cohort uses. A program
/// makes an implementation of it, as a rule a GroupExecutor.
///
/// A callable takes nothing or a std::stop_token. It returns a value, void, Result<T>, Error (the task has failed) or
/// Task<T>. Keys have 1 to 1,024 bytes. Task ids have at most 256 bytes and need not be unique.
///
/// `submit` never fails: a rejection, a bad key or a shutdown gives a handle that is settled with the reason. `submit`
/// throws only an exception that the copy of the callable throws.
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
  /// Puts one task into the queue of the token's group. The task is rejected with kEnded if the token has been closed.
  template <class F>
  auto submit(const GroupToken& group, std::string_view task_id, F&& callable, const SubmitOptions& options = {}) {
    return submit_one(internal::GroupAddress(group.lease()), task_id, std::forward<F>(callable), options,
                      Submission::kPlain);
  }

  /// Like submit(), but if the task's permits are free, this thread runs the task before the call returns. The task
  /// must not block. A coroutine that suspends continues on another thread.
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

  /// Submits all tasks in order and returns their handles. Moves the callables out of `tasks`.
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

  /// Runs all tasks and returns their results in input order, whether they succeed or not. Blocks. Moves the callables
  /// out of `tasks`.
  ///
  /// The call paces itself: if the batch has filled a queue, the call slows down and its tasks are not rejected. If
  /// other submitters have filled the queue, the call waits too. Exception: inside a task it does not wait, and a task
  /// that finds no place is rejected. When `stop` gets a stop request, all tasks that have not ended are cancelled.
  template <class T>
  std::vector<TaskResult<T>> execute_all(std::vector<GroupTask<T>>& tasks, std::stop_token stop = {});
  template <class T>
  std::vector<TaskResult<T>> execute_all(std::vector<GroupTask<T>>&& tasks, std::stop_token stop = {}) {
    return execute_all(tasks, std::move(stop));
  }

  /// Says what the task does now and, if it waits, what it waits for.
  template <class T>
  [[nodiscard]] Explanation explain(const TaskHandle<T>& handle) {
    return explain_record(handle.record());
  }

  [[nodiscard]] virtual Clock& clock() = 0;

  // A call that changes a group fails with kInvalid if the key is empty or too long.

  /// The limits that hold for the group, or would hold if it came into use.
  [[nodiscard]] virtual ResolvedLimits resolve(std::string_view group) = 0;
  /// Changes the limits that are set in `limits`; the change also survives an eviction. Growth takes effect at once,
  /// shrinking takes effect as tasks end. A max_concurrency of 0 pauses the group until another max_concurrency is set
  /// or resume_group() is called.
  virtual Result<void> set_limits(std::string_view group, const GroupLimits& limits) = 0;
  Result<void> resize(std::string_view group, Limit max_concurrency) {
    return set_limits(group, {.max_concurrency = max_concurrency});
  }
  /// Undoes all changes by set_limits() and resize(), including a pause by a max_concurrency of 0. The limits of the
  /// executor's options hold again. A pause by pause_group() stays.
  virtual Result<void> clear_limits(std::string_view group) = 0;
  /// Evicts a group without tasks now instead of after `evict_after`. Its limits are resolved anew, at once or on its
  /// next use, and all tokens of its rate are back. kNotFound if the group is not in memory; kConflict if it has tasks.
  virtual Result<void> evict_group(std::string_view group) = 0;
  /// Starts no more tasks of the group. Running tasks go on, and parked tasks may resume.
  virtual Result<void> pause_group(std::string_view group) = 0;
  /// Ends a pause by pause_group() or by a max_concurrency of 0.
  virtual Result<void> resume_group(std::string_view group) = 0;

  /// Ends the work that the group has now: waiting tasks settle as cancelled, running tasks are asked to stop. The key
  /// may be used again at once. Bodies that have not returned still count for the limits of the key.
  virtual Result<void> shutdown_group(std::string_view group) = 0;
  /// Closes a token. The token's waiting tasks settle as cancelled, its running tasks are asked to stop, and a later
  /// submit with it is rejected with kEnded. Other work of the group goes on.
  void close_group(const GroupToken& token) {
    if (token.lease().close()) close_lease(token.lease());
  }
  /// Rejects new work from outside the group and waits until the group's tasks have ended. After the call the group
  /// accepts work again. kTimedOut if the tasks have not ended within `timeout`. kConflict if a task calls it that the
  /// drain would wait for.
  virtual Result<void> drain_group(std::string_view group, Duration timeout) = 0;
  /// Rejects new work from outside, and gives the other tasks until `timeout` to finish. Then it cancels the tasks that
  /// are left. kTimedOut if it had to cancel tasks; kConflict if a task of this executor calls it. Never waits for
  /// bodies that ignore their stop token.
  virtual Result<void> shutdown(Duration timeout) = 0;

  [[nodiscard]] virtual ExecutorStats stats() = 0;
  /// The current state of a group. kNotFound if the group is not in memory: never used, or evicted.
  [[nodiscard]] virtual Result<GroupStats> group_stats(std::string_view group) = 0;
  /// The keys of the groups that have waiting, running or parked tasks.
  [[nodiscard]] virtual std::vector<std::string> active_groups() = 0;
  /// Estimates how long a task submitted now would wait, from the group's queue and recent run times.
  [[nodiscard]] virtual Duration estimated_wait(std::string_view group) = 0;

  /// Sets the latest end of the current task; nullopt means no limit. Call it inside a task that was submitted with a
  /// run_timeout or a deadline: the new end replaces them. So a task with several parts can give each part its own
  /// time. Returns false if the task's time is over already.
  virtual bool limit_current_task(std::optional<Time> end) = 0;
  /// Runs `call` at the time `at` on a worker, with no lock held. If the executor is destroyed earlier, `call` runs
  /// then, on the destroying thread. If the executor has cancelled its work already, `call` runs inside this call.
  /// `call` must be short and must not block or throw.
  virtual void call_at(Time at, Function<void()> call) = 0;

 protected:
  friend struct internal::ExecutorAccess;
  friend class internal::HereTurns;
  template <class T>
  friend class GroupTask;

  enum class Submission { kPlain, kRunHere, kPaced };

  [[nodiscard]] static Result<void> check_key(std::string_view key);
  [[nodiscard]] internal::ExecutorHome& home() const { return home_; }
  /// Waits until no thread is calling this executor through a handle. The destructor of an implementation calls it
  /// last, before its members are destroyed and after all tasks are done.
  void close_home() { home_.close(); }

  /// Accepts the record with one reference to it, or settles it with the reason of the rejection. kPaced: a task from
  /// outside that finds a full queue waits at the door, but its submitter does not wait. kRunHere: see try_run_here().
  virtual void submit_record(internal::TaskRecord& record, Submission submission) = 0;
  /// Submits several records in their order. `submission` is never kRunHere.
  virtual void submit_records(std::span<internal::TaskRecord* const> records, Submission submission) {
    for (internal::TaskRecord* record : records) submit_record(*record, submission);
  }
  /// Implement run() and end() of HereTurns.
  virtual bool run_here(internal::TaskRef& record, Time now, internal::HereTurns& turns) = 0;
  virtual void end_here(internal::HereTurns& turns) = 0;
  /// Accepts a task of the predecessor's group. The task is queued when the predecessor is done.
  virtual void follow_record(internal::TaskRecord& record, internal::TaskRecord& predecessor) = 0;
  virtual void cancel_record(internal::TaskRecord& record) = 0;
  /// Cancels the tasks that were submitted with `lease`, which has been closed.
  virtual void close_lease(internal::GroupLease& lease) = 0;
  /// Blocks until `state` is satisfied or `until` has come; the current task, if any, is parked meanwhile. Returns
  /// null, or why it could not wait: a cycle of awaits (kConflict), or the current task's own time-out (kTimedOut).
  virtual std::unique_ptr<Error> await(internal::AwaitState& state, std::optional<Time> until) = 0;
  /// Notes that a task of another executor awaits `record`.
  virtual void mark_awaited([[maybe_unused]] internal::TaskRecord& record) {}
  /// Blocks this thread until `state` is satisfied, without parking. For a current task that has run out of time.
  virtual void block(internal::AwaitState& state) = 0;
  /// Begin and end a BlockingRegion in the current task. begin_blocking() returns false if the region changes nothing;
  /// end_blocking() must not be called then.
  virtual bool begin_blocking() { return false; }
  virtual void end_blocking() {}
  /// True if a thread that waits for tasks of this executor must run them meanwhile.
  [[nodiscard]] virtual bool is_driven_by_callers() const { return false; }
  /// The smallest max_waiting that a group may have, but at least 1.
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

  // Submits nothing if one of the records cannot be made.
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
