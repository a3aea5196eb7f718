#pragma once

// Part of Scheduler: changing limits, pausing, and the three ways in which things end.

#include "group/scheduler.h"
#include "group/scheduler_scopes.h"

namespace cohort::internal {

template <class Faults>
Scheduler<Faults>::Scheduler(GroupExecutorOptions options, Time now)
    : policy_(options),
      global_limit_(std::max<std::uint32_t>(1, options.global_max_in_flight)),
      workers_(std::max<std::uint32_t>(1, options.threads)),
      threads_for_one_group_(
          std::max(workers_, std::max<std::uint32_t>(options.max_threads, workers_ + 1) - workers_ - 1)),
      max_parked_(std::max<std::uint32_t>(4, options.max_parked)),
      evict_after_(std::max<Duration>(options.evict_after, std::chrono::milliseconds(1))),
      now_(now),
      bound_rate_(static_cast<double>(std::min(workers_, global_limit_)) / global_limit_) {
  policy_.note_keys_that_block(keys_that_block_);
  rejects_hopeless_ = options.reject_hopeless;
  house_.limits = Ref<SharedLimits>::adopt(new SharedLimits(ResolvedLimits()));
  house_.drains = 1;  // It is never idle.
  strangers_.limits = house_.limits;
  strangers_.drains = 1;
}

template <class Faults>
Scheduler<Faults>::~Scheduler() {
  COHORT_ASSERT(present_ == 0 && chores_open_ == 0, "a scheduler ends after its last task has");
  while (Timer* const alarm = alarm_timers_.pop_due(Time::max())) delete static_cast<Alarm*>(alarm);
  groups_.for_each([this](Group& group) {
    if (group.pace) rate_timers_.disarm(group.pace->timer);
  });
}

template <class Faults>
ResolvedLimits Scheduler<Faults>::resolve(std::string_view key, const GroupLimits& answer) const {
  if (const Group* group = find(key); group != nullptr && !group->unresolved) return *group->limits;
  return policy_.resolve(key, answer).limits;
}

template <class Faults>
void Scheduler<Faults>::set_limits(std::string_view key, const GroupLimits& limits, Time now) {
  EventScope event(*this, now);
  policy_.change(key, limits);
  if (limits.overflow && lets_submitters_wait(*limits.overflow)) keys_that_block_.add(TaskLabel::hash(key));
  Group* group = find(key);
  if (group == nullptr) return;
  set_resolved(*group, changed(*group->limits, limits));
}

template <class Faults>
void Scheduler<Faults>::set_resolved(Group& group, const ResolvedLimits& limits) {
  const ResolvedLimits before = *group.limits;
  group.limits = Ref<SharedLimits>::adopt(new SharedLimits(limits));
  note_policy(group);
  const ResolvedLimits& after = *group.limits;
  if (group.is_ready()) ready_weight_ += after.weight - before.weight;
  group.paused = policy_.is_paused(group.key);
  if (after.rate != before.rate) {
    if (group.pace) rate_timers_.disarm(group.pace->timer);
    group.pace = after.rate ? std::make_unique<Group::Pace>(group, *after.rate, now_) : nullptr;
  }
  // What it is behind came from the old limit; with the new one it would be credit.
  group.keeps_place = false;
  give_back_rest_of(group);
  refresh(group);
}

template <class Faults>
void Scheduler<Faults>::clear_limits(std::string_view key, const GroupLimits& answer, Time now) {
  EventScope event(*this, now);
  policy_.clear(key);
  if (Group* const group = find(key)) set_resolved(*group, policy_.resolve(key, answer).limits);
}

template <class Faults>
void Scheduler<Faults>::note_policy(const Group& group) {
  if (!policy_.has_resolver() && !lets_submitters_wait(group.limits->overflow)) return;
  if (!group.unresolved) keys_seen_.add(group.hash);
  if (lets_submitters_wait(group.limits->overflow)) keys_that_block_.add(group.hash);
}

template <class Faults>
Result<bool> Scheduler<Faults>::evict(std::string_view key, const std::optional<GroupLimits>& answer, Time now) {
  EventScope event(*this, now);
  Group* const group = find(key);
  if (group == nullptr) return Error{ErrorCode::kNotFound, "group '" + std::string(key) + "' is not in memory"};
  if (group->present != ended_in_turns(*group).tasks || group->drains != 0 || group->jobs != nullptr) {
    return Error{ErrorCode::kConflict, "group '" + std::string(key) + "' has tasks; wait for them, or shut it down"};
  }
  // What has ended in turns that go on gives its permits back now.
  for (Turn* turn = turns_.front(); turn != nullptr && !group->is_unused(); turn = IntrusiveList<Turn>::next(*turn)) {
    if (!turn->of_chores) end_finished(*turn);
  }
  // If a worker has not come back from its last task, the group's next use finds it as new all the same.
  if (!group->is_unused()) {
    if (!answer) return false;
    set_resolved(*group, policy_.resolve(key, *answer).limits);
    if (group->pace) {
      rate_timers_.disarm(group->pace->timer);
      group->pace = std::make_unique<Group::Pace>(*group, *group->limits->rate, now_);
    }
    evict_soon(*group, Duration::zero());
    return true;
  }
  if (group->idle_listed) idle_groups_.erase(*group);
  remove_group(*group);
  return true;
}

template <class Faults>
void Scheduler<Faults>::set_paused(std::string_view key, bool paused, Time now) {
  EventScope event(*this, now);
  policy_.set_paused(key, paused);
  Group* group = find(key);
  if (group == nullptr) return;
  group->paused = policy_.is_paused(key);
  if (group->paused) give_back_rest_of(*group);
  refresh(*group);
}

// ---- the end of a group's work
//
// Tasks that wait are cancelled; tasks that have begun are asked to stop. A job sees to those in workers' turns at
// once. The others are in lists, and the job goes through one list after the other. Meanwhile a task changes its list
// only forwards, in the order of list_of(): stop_waiting() moves it from `aside` to `resumed` or `continuing`. A task
// that leaves the lists for a turn was asked to stop by go_on().

template <class Faults>
bool Scheduler<Faults>::shutdown_group(std::string_view key, EndJob& job, Time now) {
  EventScope event(*this, now);
  const OwnCall own(*this);
  job.group = find(key);
  int left = Faults::kPortion;
  return begin_job(job, left);
}

template <class Faults>
bool Scheduler<Faults>::close_lease(const GroupLease& lease, EndJob& job, Time now) {
  EventScope event(*this, now);
  const OwnCall own(*this);
  job.group = groups_.find(lease.key(), lease.key_hash());
  job.lease = &lease;
  job.why = Why::kTokenClosed;
  int left = Faults::kPortion;
  return begin_job(job, left);
}

template <class Faults>
bool Scheduler<Faults>::begin_job(EndJob& job, int& left) {
  if (job.group == nullptr) return false;
  Group& group = *job.group;
  give_back_rest_of(group);
  job.last_sequence = group.last_sequence;
  job.other = std::exchange(group.jobs, &job);
  refresh(group);  // From here on it starts nothing.
  for (Turn* turn = turns_.front(); turn != nullptr; turn = IntrusiveList<Turn>::next(*turn)) {
    for (std::uint32_t i = turn->ended_tasks; i < turn->count; ++i) {
      if (&turn->group_of(i) == &group) end_if_meant(group, *turn->tasks[i]);  // All that is left there has begun.
    }
  }
  return end_portion(job, left);
}

template <class Faults>
bool Scheduler<Faults>::end_some(EndJob& job, Time now) {
  EventScope event(*this, now);
  const OwnCall own(*this);
  int left = Faults::kPortion;
  return end_portion(job, left);
}

template <class Faults>
TaskList& Scheduler<Faults>::list_of(Group& group, std::size_t number) {
  TaskList* const lists[kListsOfGroup] = {&group.dependents, &group.door,      &group.callers,   &group.awaited,
                                          &group.queues[0],  &group.queues[1], &group.queues[2], &group.aside,
                                          &group.resumed,    &group.continuing};
  return *lists[number];
}

// True: there is more.
template <class Faults>
bool Scheduler<Faults>::end_portion(EndJob& job, int& left) {
  for (; job.list < kListsOfGroup; ++job.list, job.in_list = false) {
    if (!end_portion_of_list(job, list_of(*job.group, job.list), left)) return true;
  }
  end_job(job);
  return false;
}

template <class Faults>
bool Scheduler<Faults>::end_portion_of_list(EndJob& job, TaskList& list, int& left) {
  if (!std::exchange(job.in_list, true)) job.next = list.front();
  while (job.next != nullptr) {
    if (left-- <= 0) return false;
    TaskRecord& record = *job.next;
    job.next = TaskList::next(record);
    if (job.means(record)) end_if_meant(*job.group, record);
  }
  return true;
}

template <class Faults>
void Scheduler<Faults>::end_if_meant(Group& group, TaskRecord& record) {
  const EndJob* job = group.jobs;
  while (job != nullptr && !job->means(record)) job = job->other;
  if (job == nullptr || record.is_claimed()) return;
  switch (record.phase) {
    case Phase::kDependent:
    case Phase::kAtDoor:
    case Phase::kWaiting: end_waiting(record, TaskStatus::kCancelled, job->why); break;
    default:
      if (!record.asked_to_stop) ask_to_stop(record);
  }
}

template <class Faults>
void Scheduler<Faults>::end_job(EndJob& job) {
  Group& group = *job.group;
  EndJob** place = &group.jobs;
  while (*place != &job) place = &(*place)->other;
  *place = job.other;
  job.group = nullptr;
  refresh(group);
}

template <class Faults>
bool Scheduler<Faults>::is_meant_by_a_job(const TaskRecord& record) {
  if (record.group == nullptr) return false;
  const EndJob* job = record.group->jobs;
  while (job != nullptr && !job->means(record)) job = job->other;
  return job != nullptr;
}

// A sleep that it wants to be woken from is over.
template <class Faults>
void Scheduler<Faults>::ask_to_stop(TaskRecord& record) {
  put_chore(*record.group, Chore::stop(record));
  record.asked_to_stop = true;
  if (record.phase != Phase::kSuspended) return;
  TaskExtras& extras = record.extras();
  if (extras.awaiting != nullptr || !extras.sleeps_until_stop) return;
  extras.woken_by_stop = true;
  prompt_timers_.disarm(extras.wake);
  stop_waiting(record);
}

template <class Faults>
void Scheduler<Faults>::begin_drain(std::string_view key, Time now) {
  EventScope event(*this, now);
  Group& group = find_or_create(key, TaskLabel::hash(key));
  ++group.drains;
  refresh(group);
}

template <class Faults>
void Scheduler<Faults>::end_drain(std::string_view key, Time now) {
  EventScope event(*this, now);
  Group* group = find(key);
  if (group == nullptr || group->drains == 0) return;
  --group->drains;
  refresh(*group);
}

template <class Faults>
std::vector<TaskRef> Scheduler<Faults>::open_tasks(std::string_view key) const {
  std::vector<TaskRef> open;
  const Group* group = find(key);
  if (group == nullptr) return open;
  const auto is_full = [&] { return open.size() >= static_cast<std::size_t>(Faults::kPortion); };
  const auto add = [&](TaskRecord& record) {
    if (!record.is_claimed()) open.emplace_back(record);
  };
  const auto add_list = [&](const TaskList& list) {
    for (TaskRecord* record = list.front(); record != nullptr && !is_full(); record = TaskList::next(*record)) {
      add(*record);
    }
  };
  for (const TaskList* list : {&group->dependents, &group->door, &group->callers, &group->awaited, &group->aside,
                               &group->continuing, &group->resumed}) {
    add_list(*list);
  }
  for (const TaskList& queue : group->queues) add_list(queue);
  for (Turn* turn = turns_.front(); turn != nullptr && !is_full(); turn = IntrusiveList<Turn>::next(*turn)) {
    for (std::uint32_t i = turn->ended_tasks; i < turn->count; ++i) {
      if (&turn->group_of(i) == group) add(*turn->tasks[i]);
    }
  }
  return open;
}

template <class Faults>
bool Scheduler<Faults>::is_drained(std::string_view key) const {
  const Group* group = find(key);
  return group == nullptr || group->present == group->overrunning;
}

template <class Faults>
bool Scheduler<Faults>::is_quiet(std::string_view key) const {
  const Group* group = find(key);
  return is_drained(key) && (group == nullptr || group->chores_open == group->refusals_open);
}

template <class Faults>
bool Scheduler<Faults>::is_drained() const {
  return present_ == overrunning_;
}

template <class Faults>
void Scheduler<Faults>::close(Time now) {
  EventScope event(*this, now);
  closed_ = true;
}

template <class Faults>
bool Scheduler<Faults>::cancel_all(EndAll& all, Time now) {
  EventScope event(*this, now);
  const OwnCall own(*this);
  closed_ = ended_ = true;
  for (int left = Faults::kPortion; left > 0; --left) {
    if (all.job.group != nullptr) {
      if (end_portion(all.job, left)) return true;
      continue;
    }
    Group* const group = groups_.next(all.next_place);
    if (group == nullptr) return false;
    all.next_place = group->place + std::size_t{1};
    if (group->present == 0) continue;
    all.job = {.group = group, .why = Why::kExecutorShutDown};
    if (begin_job(all.job, left)) return true;
  }
  return true;
}

}  // namespace cohort::internal
