#include "cohort/task/executor.h"

#include <utility>

#include "cohort/task/internal/executor_access.h"
#include "cohort/task/internal/listener_scope.h"

namespace cohort {

Result<void> Executor::check_key(std::string_view key) {
  if (key.empty()) return Error{ErrorCode::kInvalid, "the group key is empty", {}};
  if (key.size() <= kMaxKeyBytes) return {};
  return Error{ErrorCode::kInvalid,
               "the group key has " + std::to_string(key.size()) + " bytes; at most " + std::to_string(kMaxKeyBytes) +
                   " are allowed",
               {}};
}

namespace internal {

void ExecutorAccess::cancel(TaskRecord& record) {
  if (record.is_promise()) {
    if (!record.is_done()) record.request_stop();
    return;
  }
  const ExecutorHome::Visit visit(record);
  if (Executor* executor = visit.executor()) executor->cancel_record(record);
}

void ExecutorAccess::follow(TaskRecord& record, TaskRecord& predecessor) {
  if (predecessor.is_promise()) {
    record.submitted_at = system_clock().now();
    record.try_claim(TaskStatus::kRejected);
    record.set_error(
        {ErrorCode::kInvalid, "then() does not work on a promise: it has no group; await the promise inside a task"});
    record.drop_body();
    record.publish(record.submitted_at);
    record.drop_executors_reference(record.submitted_at);
    return;
  }
  record.home = predecessor.home;
  predecessor.home->executor().follow_record(record, predecessor);
}

Clock& ExecutorAccess::clock_of(Executor& executor) { return executor.clock(); }
void ExecutorAccess::set_home(Executor& executor, TaskRecord& record) { record.home = &executor.home_; }

void ExecutorAccess::submit(Executor& executor, TaskRecord& record) {
  record.count_executors_reference();
  executor.submit_record(record, Executor::Submission::kPlain);
}

bool HereTurns::run(TaskRef& record, Time now) { return executor_.run_here(record, now, *this); }
void HereTurns::end() {
  if (open != nullptr) executor_.end_here(*this);
  forget_time();
}

std::uint32_t ExecutorAccess::shortest_queue(Executor& executor) { return executor.shortest_queue(); }

bool ExecutorAccess::begin_blocking(Executor& executor) { return executor.begin_blocking(); }
void ExecutorAccess::end_blocking(Executor& executor) { executor.end_blocking(); }

void ExecutorAccess::close_group(Executor& executor, GroupLease& lease) { executor.close_lease(lease); }

std::unique_ptr<Error> ExecutorAccess::await(AwaitState& state, std::optional<Time> until) {
  if (state.satisfied()) return nullptr;
  COHORT_ASSERT(!ListenerScope::is_inside(),
                "a listener must not wait for tasks: it runs on the threads that run them");
  if (until == Time::max()) until.reset();  // A time-out that never comes is none, and no way out of a cycle.
  if (const TaskRecord* task = current_task()) return task->home->executor().await(state, until);
  Clock* clock = &system_clock();
  for (const TaskRef& record : state.records()) {
    const ExecutorHome::Visit visit(*record);
    Executor* const executor = visit.executor();
    if (executor == nullptr) continue;  // A promise, or done by now.
    if (executor->is_driven_by_callers()) return executor->await(state, until);
    clock = &executor->clock();
    break;
  }
  // Without a visit: the last of them may be something that the end of that executor must not wait for.
  wait_on_this_thread(state, until, *clock);
  return nullptr;
}

void ExecutorAccess::mark_awaited_elsewhere(const TaskRecord& awaiter, const AwaitState& state) {
  for (const TaskRef& record : state.records()) {
    if (record->home == nullptr || record->home == awaiter.home || record->is_promise()) continue;
    const ExecutorHome::Visit visit(*record);
    if (Executor* const executor = visit.executor()) executor->mark_awaited(*record);
  }
}

void ExecutorAccess::block(AwaitState& state) {
  if (state.satisfied()) return;
  if (const TaskRecord* task = current_task()) {
    task->home->executor().block(state);
  } else {
    static_cast<void>(await(state, std::nullopt));
  }
}

Time ExecutorAccess::now(const TaskRecord& record) {
  if (const TaskRecord* task = current_task()) return task->home->executor().clock().now();
  const ExecutorHome::Visit visit(record);
  return visit.executor() != nullptr ? visit.executor()->clock().now() : system_clock().now();
}

namespace {

TaskExtras& suspending_task(std::coroutine_handle<> resume_point) {
  TaskRecord* task = current_task();
  COHORT_ASSERT(task != nullptr && task->is_coroutine(),
                "co_await on a handle or a sleep works only inside a Task that an Executor runs");
  task->extras().resume_point = resume_point;
  return task->extras();
}

}  // namespace

void request_await(Ref<AwaitState> state, std::coroutine_handle<> resume_point) {
  suspending_task(resume_point).await_request = std::move(state);
}

void request_sleep(Duration duration, std::coroutine_handle<> resume_point, bool until_stop) {
  TaskExtras& extras = suspending_task(resume_point);
  extras.await_request.reset();
  extras.sleeps_until_stop = until_stop;
  extras.sleep_until = saturating_add(current_task()->home->executor().clock().now(), duration);
}

bool current_task_is_to_stop() {
  const TaskRecord* const task = current_task();
  const TaskExtras* const extras = task != nullptr ? task->extras_if_any() : nullptr;
  return extras != nullptr && (task->stop_requested() || extras->woken_by_stop);
}

std::unique_ptr<Error> take_await_error() {
  TaskRecord* const task = current_task();
  return task != nullptr ? collect_await_error(*task) : nullptr;
}

std::unique_ptr<Error> collect_await_error(TaskRecord& task) {
  TaskExtras* const extras = task.extras_if_any();
  if (extras == nullptr) return nullptr;
  if (!std::exchange(extras->out_of_time, false)) return std::move(extras->await_error);
  return std::make_unique<Error>(
      Error{ErrorCode::kTimedOut, "task '" + task.task_id() + "' ran out of time while it awaited", {}});
}

Error out_of_time_error(const TaskRecord& task) {
  return {ErrorCode::kTimedOut, "task '" + task.task_id() + "' has run out of time and cannot await any more", {}};
}

}  // namespace internal
}  // namespace cohort
