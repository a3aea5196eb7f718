#pragma once

// Part of Scheduler: changing limits, pausing, and the three ways in which things end.

#include "group/scheduler.h"

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
  may_block_submitters_ = policy_.blocks_submitters();
}

template <class Faults>
Scheduler<Faults>::~Scheduler() {
  COHORT_ASSERT(present_ == 0, "a scheduler ends after its last task has");
  groups_.for_each([this](Group& group) {
    if (group.pace) rate_timers_.disarm(group.pace->timer);
  });
}

template <class Faults>
ResolvedLimits Scheduler<Faults>::resolve(std::string_view key) {
  if (const Group* group = find(key)) return *group->limits;
  return policy_.resolve(key).limits;
}

template <class Faults>
void Scheduler<Faults>::set_limits(std::string_view key, const GroupLimits& limits, Time now) {
  EventScope event(*this, now);
  policy_.change(key, limits);
  may_block_submitters_ = may_block_submitters_ || limits.overflow == OverflowPolicy::kBlock;
  Group* group = find(key);
  if (group == nullptr) return;
  set_resolved(*group, changed(*group->limits, limits));
}

template <class Faults>
void Scheduler<Faults>::set_resolved(Group& group, const ResolvedLimits& limits) {
  const ResolvedLimits before = *group.limits;
  group.limits = Ref<SharedLimits>::adopt(new SharedLimits(limits));
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
void Scheduler<Faults>::clear_limits(std::string_view key, Time now) {
  EventScope event(*this, now);
  policy_.clear(key);
  if (Group* const group = find(key)) set_resolved(*group, policy_.resolve(key).limits);
}

template <class Faults>
Result<void> Scheduler<Faults>::evict(std::string_view key, Time now) {
  EventScope event(*this, now);
  Group* const group = find(key);
  if (group == nullptr) return Error{ErrorCode::kNotFound, "group '" + std::string(key) + "' is not in memory"};
  if (group->present != 0 || group->drains != 0) {
    return Error{ErrorCode::kConflict, "group '" + group->key + "' has tasks; wait for them, or shut it down"};
  }
  if (group->idle_listed) idle_groups_.erase(*group);
  remove_group(*group);
  return {};
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

template <class Faults>
void Scheduler<Faults>::shutdown_group(std::string_view key, Time now) {
  EventScope event(*this, now);
  Group* group = find(key);
  if (group == nullptr) return;
  end_work(*group, "group '" + group->key + "' was shut down", [](const TaskRecord&) { return true; });
}

template <class Faults>
void Scheduler<Faults>::close_lease(const GroupLease& lease, Time now) {
  EventScope event(*this, now);
  Group* group = groups_.find(lease.key(), lease.key_hash());
  if (group == nullptr) return;
  end_work(*group, "the token for group '" + group->key + "' was closed",
           [&](const TaskRecord& record) { return record.leased && record.label().lease() == &lease; });
}

// Of those that are meant, what waits is cancelled, what has begun is asked to stop.
template <class Faults>
template <class IsMeant>
void Scheduler<Faults>::end_work(Group& group, const std::string& reason, IsMeant&& is_meant) {
  give_back_rest_of(group);
  const auto cancel = [&](TaskList& list) {
    for (TaskRecord* record = list.front(); record != nullptr;) {
      TaskRecord& each = *record;
      record = TaskList::next(each);
      if (!is_meant(each)) continue;
      const bool claimed = each.try_claim(TaskStatus::kCancelled);
      COHORT_ASSERT(claimed, "a task that waits has not begun");
      settle_and_forget(each, {ErrorCode::kCancelled, reason, {}});
    }
  };
  cancel(group.dependents);
  cancel(group.door);
  cancel(group.awaited);
  for (TaskList& queue : group.queues) cancel(queue);

  const auto stop = [&](TaskRecord& record) {
    if (!record.is_claimed() && is_meant(record)) ask_to_stop(record);
  };
  for (const TaskList* list : {&group.aside, &group.continuing, &group.resumed}) {
    for (TaskRecord* record = list->front(); record != nullptr;) {
      TaskRecord& each = *record;
      record = TaskList::next(each);  // It may go to another list.
      stop(each);
    }
  }
  for (Turn* turn = turns_.front(); turn != nullptr; turn = IntrusiveList<Turn>::next(*turn)) {
    for (std::uint32_t i = turn->ended_tasks; i < turn->count; ++i) {
      if (&turn->group_of(i) == &group) stop(*turn->tasks[i]);  // All that is left in turns of the group has begun.
    }
  }
  refresh(group);
}

// A sleep that it wants to be woken from is over.
template <class Faults>
void Scheduler<Faults>::ask_to_stop(TaskRecord& record) {
  actions_.stop.emplace_back(record);
  record.asked_to_stop = true;
  if (record.phase != Phase::kSuspended) return;
  TaskExtras& extras = record.extras();
  if (extras.awaiting != nullptr || !extras.sleeps_until_stop) return;
  extras.woken_by_stop = true;
  task_timers_.disarm(extras.wake);
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
  const auto add = [&](TaskRecord& record) {
    if (!record.is_claimed()) open.emplace_back(record);
  };
  const auto add_list = [&](const TaskList& list) {
    for (TaskRecord* record = list.front(); record != nullptr; record = TaskList::next(*record)) add(*record);
  };
  for (const TaskList* list :
       {&group->dependents, &group->door, &group->awaited, &group->aside, &group->continuing, &group->resumed}) {
    add_list(*list);
  }
  for (const TaskList& queue : group->queues) add_list(queue);
  for (Turn* turn = turns_.front(); turn != nullptr; turn = IntrusiveList<Turn>::next(*turn)) {
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
bool Scheduler<Faults>::is_drained() const {
  return present_ == overrunning_;
}

template <class Faults>
void Scheduler<Faults>::close(Time now) {
  EventScope event(*this, now);
  closed_ = true;
}

template <class Faults>
void Scheduler<Faults>::cancel_all(Time now) {
  EventScope event(*this, now);
  closed_ = ended_ = true;
  groups_.for_each(
      [this](Group& group) { end_work(group, "the executor was shut down", [](const TaskRecord&) { return true; }); });
}

}  // namespace cohort::internal
