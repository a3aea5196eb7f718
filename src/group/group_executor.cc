#include "cohort/group/group_executor.h"

#include <algorithm>
#include <utility>

#include "group/thread_driver.h"

namespace cohort {

using internal::AwaitState;
using internal::Scheduler;
using internal::TaskRecord;
using internal::ThreadDriver;

GroupExecutor::GroupExecutor(GroupExecutorOptions options)
    : driver_(std::make_unique<ThreadDriver>(home(), std::move(options))) {}

GroupExecutor::~GroupExecutor() {
  driver_->end();
  close_home();
}

std::size_t GroupExecutor::thread_count() const { return driver_->thread_count(); }
Clock& GroupExecutor::clock() { return driver_->clock(); }

ResolvedLimits GroupExecutor::resolve(std::string_view group) { return driver_->resolve(group); }

Result<void> GroupExecutor::set_limits(std::string_view group, const GroupLimits& limits) {
  if (auto key = check_key(group); !key) return key;
  driver_->with_scheduler([&](Scheduler<>& scheduler, Time now) { scheduler.set_limits(group, limits, now); });
  return {};
}

Result<void> GroupExecutor::clear_limits(std::string_view group) {
  if (auto key = check_key(group); !key) return key;
  driver_->clear_limits(group);
  return {};
}

Result<void> GroupExecutor::evict_group(std::string_view group) {
  if (auto key = check_key(group); !key) return key;
  return driver_->evict(group);
}

Result<void> GroupExecutor::pause_group(std::string_view group) {
  if (auto key = check_key(group); !key) return key;
  driver_->with_scheduler([&](Scheduler<>& scheduler, Time now) { scheduler.set_paused(group, true, now); });
  return {};
}

Result<void> GroupExecutor::resume_group(std::string_view group) {
  if (auto key = check_key(group); !key) return key;
  driver_->with_scheduler([&](Scheduler<>& scheduler, Time now) { scheduler.set_paused(group, false, now); });
  return {};
}

Result<void> GroupExecutor::shutdown_group(std::string_view group) {
  if (auto key = check_key(group); !key) return key;
  driver_->shutdown_group(group);
  return {};
}

Result<void> GroupExecutor::drain_group(std::string_view group, Duration timeout) {
  if (auto key = check_key(group); !key) return key;
  return driver_->drain(group, timeout);
}

Result<void> GroupExecutor::shutdown(Duration timeout) { return driver_->shutdown(timeout); }

ExecutorStats GroupExecutor::stats() {
  return driver_->with_scheduler([](Scheduler<>& scheduler, Time) { return scheduler.stats(); });
}

Result<GroupStats> GroupExecutor::group_stats(std::string_view group) {
  return driver_->with_scheduler([&](Scheduler<>& scheduler, Time now) { return scheduler.group_stats(group, now); });
}

std::vector<std::string> GroupExecutor::active_groups() {
  std::vector<std::string> keys;
  std::size_t place = 0;
  driver_->in_portions([&](Scheduler<>& scheduler, Time) { return scheduler.find_active(place, keys); });
  std::ranges::sort(keys);
  return keys;
}

Duration GroupExecutor::estimated_wait(std::string_view group) {
  return driver_->with_scheduler([&](Scheduler<>& scheduler, Time) { return scheduler.estimated_wait(group); });
}

void GroupExecutor::submit_records(std::span<TaskRecord* const> records, Submission submission) {
  driver_->submit_all(records, submission == Submission::kPaced);
}

void GroupExecutor::submit_record(TaskRecord& record, Submission submission) {
  if (submission == Submission::kRunHere) {
    driver_->submit_here(record);
  } else {
    driver_->submit(record, submission == Submission::kPaced);
  }
}

void GroupExecutor::follow_record(TaskRecord& record, TaskRecord& predecessor) { driver_->follow(record, predecessor); }
std::uint32_t GroupExecutor::shortest_queue() { return driver_->shortest_queue(); }

void GroupExecutor::close_lease(internal::GroupLease& lease) { driver_->close_lease(lease); }

void GroupExecutor::cancel_record(TaskRecord& record) { driver_->cancel(record); }
std::unique_ptr<Error> GroupExecutor::await(AwaitState& state, std::optional<Time> until) {
  return driver_->await(state, until);
}
void GroupExecutor::mark_awaited(TaskRecord& record) {
  internal::TaskRef next(record);
  while (next) {
    next = driver_->with_scheduler(
        [&](Scheduler<>& scheduler, Time now) { return scheduler.mark_awaited_from_afar(*next, now); });
  }
}
void GroupExecutor::block(AwaitState& state) { driver_->block(state); }
bool GroupExecutor::run_here(internal::TaskRef& record, Time now, internal::HereTurns& turns) {
  return driver_->run_here(record, now, turns);
}
void GroupExecutor::end_here(internal::HereTurns& turns) { driver_->end_here(turns); }
bool GroupExecutor::begin_blocking() { return driver_->begin_blocking(); }
void GroupExecutor::end_blocking() { driver_->end_blocking(); }
bool GroupExecutor::limit_current_task(std::optional<Time> end) {
  TaskRecord* const task = internal::current_task();
  COHORT_ASSERT(task != nullptr && task->home == &home(), "limit_current_task is for a task of this executor");
  return driver_->with_scheduler(
      [&](Scheduler<>& scheduler, Time now) { return scheduler.limit_run(*task, end, now); });
}
void GroupExecutor::call_at(Time at, Function<void()> call) {
  auto alarm = std::make_unique<internal::Alarm>(std::move(call));  // Moves a user's callable: not under the lock.
  driver_->with_scheduler([&](Scheduler<>& scheduler, Time now) { scheduler.set_alarm(std::move(alarm), at, now); });
}

Explanation GroupExecutor::explain_record(TaskRecord& record) {
  return driver_->with_scheduler([&](Scheduler<>& scheduler, Time now) { return scheduler.explain(record, now); });
}

}  // namespace cohort
