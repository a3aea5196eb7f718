#include "cohort/testing/manual_executor.h"

#include <algorithm>
#include <utility>

#include "testing/manual_driver.h"

namespace cohort {

using internal::AwaitState;
using internal::TaskRecord;

ManualExecutor::ManualExecutor(VirtualClock& clock, GroupExecutorOptions options)
    : driver_(std::make_unique<Driver>(home(), clock, std::move(options))) {}
ManualExecutor::~ManualExecutor() {
  driver_->end();
  driver_->unlink();
  close_home();
}

void ManualExecutor::link(ManualExecutor& other) {
  COHORT_ASSERT(&driver_->clock() == &other.driver_->clock(), "executors that are linked have one clock");
  driver_->link(*other.driver_);
}
void ManualExecutor::mark_awaited(TaskRecord& record) {
  internal::TaskRef next(record);
  while (next) next = driver_->scheduler().mark_awaited_from_afar(*next, driver_->now());
  driver_->apply();
}
bool ManualExecutor::run_one() { return driver_->run_one(); }
void ManualExecutor::run() { driver_->run(); }
void ManualExecutor::advance(Duration duration) { driver_->run_to(saturating_add(driver_->now(), duration)); }
bool ManualExecutor::run_until_idle(Duration limit) {
  driver_->run();
  const auto is_idle = [this] {
    return driver_->scheduler().present() == 0 && driver_->scheduler().chores_open() == 0;
  };
  return driver_->drive(is_idle, saturating_add(driver_->now(), limit));
}
void ManualExecutor::spend(Duration duration) { driver_->spend(duration); }
std::string ManualExecutor::leaks() const { return driver_->leaks(); }
Clock& ManualExecutor::clock() { return driver_->clock(); }

ResolvedLimits ManualExecutor::resolve(std::string_view group) { return driver_->resolve(group); }

Result<void> ManualExecutor::set_limits(std::string_view group, const GroupLimits& limits) {
  if (auto key = check_key(group); !key) return key;
  driver_->scheduler().set_limits(group, limits, driver_->now());
  driver_->apply();
  return {};
}

Result<void> ManualExecutor::clear_limits(std::string_view group) {
  if (auto key = check_key(group); !key) return key;
  driver_->clear_limits(group);
  return {};
}

Result<void> ManualExecutor::evict_group(std::string_view group) {
  if (auto key = check_key(group); !key) return key;
  return driver_->evict(group);
}

Result<void> ManualExecutor::pause_group(std::string_view group) { return set_paused(group, true); }
Result<void> ManualExecutor::resume_group(std::string_view group) { return set_paused(group, false); }

Result<void> ManualExecutor::set_paused(std::string_view group, bool paused) {
  if (auto key = check_key(group); !key) return key;
  driver_->scheduler().set_paused(group, paused, driver_->now());
  driver_->apply();
  return {};
}

Result<void> ManualExecutor::shutdown_group(std::string_view group) {
  if (auto key = check_key(group); !key) return key;
  driver_->shutdown_group(group);
  return {};
}

Result<void> ManualExecutor::drain_group(std::string_view group, Duration timeout) {
  if (auto key = check_key(group); !key) return key;
  return driver_->drain(group, timeout);
}
Result<void> ManualExecutor::shutdown(Duration timeout) { return driver_->shutdown(timeout); }

ExecutorStats ManualExecutor::stats() { return driver_->scheduler().stats(); }
Result<GroupStats> ManualExecutor::group_stats(std::string_view group) {
  return driver_->scheduler().group_stats(group, driver_->now());
}
std::vector<std::string> ManualExecutor::active_groups() {
  std::vector<std::string> keys;
  std::size_t place = 0;
  while (driver_->scheduler().find_active(place, keys)) {
  }
  std::ranges::sort(keys);
  return keys;
}
Duration ManualExecutor::estimated_wait(std::string_view group) { return driver_->scheduler().estimated_wait(group); }

void ManualExecutor::submit_record(TaskRecord& record, Submission submission) { driver_->submit(record, submission); }
bool ManualExecutor::run_here(internal::TaskRef& record, Time, internal::HereTurns& turns) {
  if (!driver_->run_record_here(*record)) return false;
  turns.last = std::move(record);
  turns.note_end(clock().now());
  return true;
}
void ManualExecutor::end_here(internal::HereTurns&) {}
bool ManualExecutor::limit_current_task(std::optional<Time> end) {
  TaskRecord* const task = internal::current_task();
  COHORT_ASSERT(task != nullptr && task->home == &home(), "limit_current_task is for a task of this executor");
  return driver_->scheduler().limit_run(*task, end, driver_->now());
}
std::optional<Time> ManualExecutor::next_event() const {
  const Time next = driver_->next_event();
  return next == Time::max() ? std::nullopt : std::optional(next);
}
void ManualExecutor::call_at(Time at, Function<void()> call) { driver_->call_at(at, std::move(call)); }
void ManualExecutor::follow_record(TaskRecord& record, TaskRecord& predecessor) {
  driver_->follow(record, predecessor);
}
std::uint32_t ManualExecutor::shortest_queue() { return driver_->scheduler().shortest_queue(); }
void ManualExecutor::close_lease(internal::GroupLease& lease) { driver_->close_lease(lease); }
void ManualExecutor::cancel_record(TaskRecord& record) { driver_->cancel(record); }
std::unique_ptr<Error> ManualExecutor::await(AwaitState& state, std::optional<Time> until) {
  return driver_->await(state, until);
}
void ManualExecutor::block(AwaitState& state) { driver_->block(state); }
Explanation ManualExecutor::explain_record(TaskRecord& record) {
  return driver_->scheduler().explain(record, driver_->now());
}

}  // namespace cohort
