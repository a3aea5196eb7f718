#pragma once

// Part of Scheduler: how tasks come into the queues and leave them without having run.

#include "group/scheduler.h"

namespace cohort::internal {

template <class Faults>
Group* Scheduler<Faults>::find(std::string_view key) const {
  return groups_.find(key, TaskLabel::hash(key));
}

template <class Faults>
Group& Scheduler<Faults>::find_or_create(std::string_view key, std::uint32_t hash) {
  if (Group* group = groups_.find(key, hash)) return *group;
  Group& group = groups_.insert(key, hash);
  const auto resolved = policy_.resolve(key);
  if (!last_limits_ || resolved.limits != *last_limits_) {
    last_limits_ = Ref<SharedLimits>::adopt(new SharedLimits(resolved.limits));
  }
  group.limits = last_limits_;
  may_block_submitters_ = may_block_submitters_ || group.limits->overflow == OverflowPolicy::kBlock;
  group.paused = resolved.paused;
  if (group.limits->rate) group.pace = std::make_unique<Group::Pace>(group, *group.limits->rate, now_);
  // A new group has no old debt and no old credit.
  group.served = level();
  group.inactive_since = now_;
  return group;
}

template <class Faults>
void Scheduler<Faults>::submit(TaskRecord& record, Origin origin, FullQueue full, Time now) {
  EventScope event(*this, now);
  record.submitted_at = now;
  take_in(record, origin, full);
}

template <class Faults>
void Scheduler<Faults>::submit_all(std::span<const Submitted> all, Time now) {
  EventScope event(*this, now);
  for (std::size_t i = 0; i < all.size(); ++i) {
    prefetch_behind(all, i);
    take_in(*all[i].record, all[i].origin, all[i].full);
  }
}

// Groups that have not been touched for a while are asked for before they are needed.
template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::prefetch_behind(std::span<const Submitted> all, std::size_t i) {
  const auto hash_of = [&](std::size_t each) { return all[each].record->label().key_hash(); };
  if (i + 8 < all.size()) groups_.prefetch(hash_of(i + 8));
  if (i + 4 < all.size()) groups_.prefetch_group(hash_of(i + 4));
}

template <class Faults>
void Scheduler<Faults>::take_in(TaskRecord& record, Origin origin, FullQueue full) {
  const TaskLabel& label = record.label();
  Group* known = groups_.find(label.key(), label.key_hash());
  if (known != nullptr && is_plain_arrival(record, *known)) {
    ++known->counters.submitted;
    adopt(*known, record);
    enqueue(*known, record);
    refresh_plain(*known);
    return;
  }
  if (refuse(record, origin)) return;
  Group& group = known != nullptr ? *known : find_or_create(label.key(), label.key_hash());
  ++group.counters.submitted;
  if (has_run_out(record)) {
    reject(record, &group, TaskStatus::kTimedOutQueued,
           {ErrorCode::kTimedOut, "the time of task '" + record.task_id() + "' had run out when it was submitted", {}});
  } else if (refuse_while_draining(group, record, origin)) {
    // It has been settled.
  } else if (make_room(group, record, origin, full)) {
    adopt(group, record);
    enqueue(group, record);
  }
  refresh(group);
}

// Nothing can be wrong with it, and it only has to be queued.
template <class Faults>
[[gnu::always_inline]] inline bool Scheduler<Faults>::is_plain_arrival(const TaskRecord& record,
                                                                       const Group& group) const {
  return group.plain && !record.special && !closed_ && !(record.leased && record.label().own_lease().is_closed()) &&
         record.label().id().size() <= TaskLabel::kMaxIdLength && group.present < group.limits->most_open;
}

template <class Faults>
void Scheduler<Faults>::adopt(Group& group, TaskRecord& record) {
  record.group = &group;
  ++present_;
  ++group.present;
}

template <class Faults>
bool Scheduler<Faults>::refuse_while_draining(Group& group, TaskRecord& record, Origin origin) {
  if (group.drains == 0 || origin == Origin::kSameGroup) return false;
  reject(record, &group, TaskStatus::kRejected,
         {ErrorCode::kEnded, "group '" + group.key + "' is draining and takes no new work from outside", {}});
  return true;
}

template <class Faults>
bool Scheduler<Faults>::has_run_out(const TaskRecord& record) const {
  const TaskExtras* extras = record.extras_if_any();
  if (extras == nullptr) return false;
  const SubmitOptions& options = extras->options;
  return options.queue_timeout.value_or(Duration(1)) <= Duration::zero() ||
         options.run_timeout.value_or(Duration(1)) <= Duration::zero() ||
         options.deadline.value_or(Time::max()) <= now_;
}

// Settles what cannot even be looked at as a task of a group.
template <class Faults>
bool Scheduler<Faults>::refuse(TaskRecord& record, Origin origin) {
  const TaskLabel& label = record.label();
  Error error{ErrorCode::kInvalid, {}, {}};
  if (label.key().empty()) {
    error.message = "the group key is empty";
  } else if (label.key().size() > TaskLabel::kMaxKeyBytes) {
    error.message = "the group key is longer than " + std::to_string(TaskLabel::kMaxKeyBytes) + " bytes";
  } else if (label.id().size() > TaskLabel::kMaxIdLength) {
    error.message = "the task id is longer than " + std::to_string(TaskLabel::kMaxIdLength) + " bytes";
  } else if (record.leased && label.own_lease().is_closed()) {
    error = {ErrorCode::kEnded, "the token for group '" + std::string(label.key()) + "' has been closed", {}};
  } else if (ended_ || (closed_ && (origin == Origin::kOutside || present_ == 0))) {  // Nobody is left inside.
    error = {ErrorCode::kEnded, "the executor has been shut down and takes no new work", {}};
  } else {
    return false;
  }
  ++evicted_.submitted;
  reject(record, nullptr, TaskStatus::kRejected, std::move(error));
  return true;
}

// For a record that has not been adopted.
template <class Faults>
void Scheduler<Faults>::reject(TaskRecord& record, Group* group, TaskStatus status, Error error) {
  actions_.forgotten.push_back(&record);
  if (!record.try_claim(status)) return;
  TaskCounters& counters = group != nullptr ? group->counters : evicted_;
  ++counters.settled[static_cast<std::size_t>(status)];
  actions_.settle.push_back({TaskRef(record), std::move(error)});
}

// Whether fewer of its tasks are without a result than may be. Those that stand at the door are not in yet, parked ones
// do not count, and those in a turn that have ended only seem to be there.
template <class Faults>
bool Scheduler<Faults>::has_room(const Group& group) const {
  const bool may_start_any = !group.paused && (!group.pace || group.pace->bucket.available(now_) > 0);
  const std::uint64_t most = may_start_any ? group.limits->most_open : group.limits->max_waiting;
  const std::uint64_t open =
      std::uint64_t{group.present} - group.at_door - (group.parked - group.resuming) - group.overrunning;
  return open < most || open - ended_in_turns(group).tasks < most;
}

template <class Faults>
std::string Scheduler<Faults>::how_full(const Group& group) const {
  return "group '" + group.key + "' has " + std::to_string(group.waiting + group.following) + " tasks waiting and " +
         std::to_string(group.running) + " running (max_waiting " + std::to_string(group.limits->max_waiting) +
         ", max_concurrency " + std::to_string(group.limits->max_concurrency) + ")";
}

// True when the record may be queued. Otherwise it has been settled, or stands at the door.
template <class Faults>
bool Scheduler<Faults>::make_room(Group& group, TaskRecord& record, Origin origin, FullQueue full) {
  if (!group.door.empty()) admit_from_door(group);  // They come first.
  if (group.door.empty() && has_room(group)) return true;
  const OverflowPolicy policy = group.limits->overflow;
  if (origin == Origin::kOutside && (policy == OverflowPolicy::kBlock || full == FullQueue::kBlock)) {
    adopt(group, record);
    record.phase = Phase::kAtDoor;
    group.door.push_back(record);
    ++group.at_door;
    arm_queue_limit(record);
    return false;
  }
  if (policy == OverflowPolicy::kDiscardOldest && discard_for(group, record)) return true;
  reject(record, &group, TaskStatus::kRejected,
         {ErrorCode::kRejected, how_full(group) + "; raise max_waiting or slow the producer", {}});
  return false;
}

// Gives up the oldest task of the lowest priority, unless the new one is lower still. Awaited tasks are kept: somebody
// who holds a place in layer 2 waits for them.
template <class Faults>
bool Scheduler<Faults>::discard_for(Group& group, TaskRecord& record) {
  for (int priority = kPriorityCount - 1; priority >= 0; --priority) {
    TaskRecord* oldest = group.queues[static_cast<std::size_t>(priority)].front();
    if (oldest == nullptr) continue;
    if (static_cast<int>(record.priority) > priority) return false;
    remove_waiting(*oldest);
    if (oldest->try_claim(TaskStatus::kRejected)) {
      settle(*oldest,
             {ErrorCode::kRejected,
              "discarded for a newer task: group '" + group.key + "' has max_waiting " +
                  std::to_string(group.limits->max_waiting) + " and keeps the newest",
              {}},
             false);
    }
    forget(*oldest);
    return true;
  }
  return false;
}

template <class Faults>
TaskList& Scheduler<Faults>::queue_of(Group& group, const TaskRecord& record) {
  return record.awaited ? group.awaited : group.queues[static_cast<std::size_t>(record.priority)];
}

template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::enqueue(Group& group, TaskRecord& record) {
  record.phase = Phase::kWaiting;
  record.sequence = ++group.last_sequence;
  ++group.waiting;
  ++waiting_;
  queue_of(group, record).push_back(record);
  arm_queue_limit(record);
}

// For a task that was taken and has not begun: back to where it was, behind older ones that have come back before it.
template <class Faults>
void Scheduler<Faults>::enqueue_again(Group& group, TaskRecord& record) {
  record.phase = Phase::kWaiting;
  ++group.waiting;
  ++waiting_;
  TaskList& queue = queue_of(group, record);
  const auto is_older = [&](const TaskRecord& other) {
    return static_cast<std::int32_t>(other.sequence - record.sequence) < 0;
  };
  TaskRecord* place = queue.front();
  while (place != nullptr && is_older(*place)) place = TaskList::next(*place);
  if (place != nullptr) {
    queue.insert_before(*place, record);
  } else {
    queue.push_back(record);
  }
  arm_queue_limit(record);
}

template <class Faults>
void Scheduler<Faults>::remove_waiting(TaskRecord& record) {
  Group& group = *record.group;
  queue_of(group, record).erase(record);
  --group.waiting;
  --waiting_;
}

template <class Faults>
void Scheduler<Faults>::admit_from_door(Group& group) {
  while (!group.door.empty() && has_room(group)) {
    TaskRecord& record = *group.door.pop_front();
    --group.at_door;
    enqueue(group, record);
    actions_.admit.emplace_back(record);
  }
}

template <class Faults>
void Scheduler<Faults>::follow(TaskRecord& record, TaskRecord& predecessor, Origin origin, Time now) {
  EventScope event(*this, now);
  record.submitted_at = now;
  if (refuse(record, origin)) return;
  Group& group = find_or_create(record.label().key(), record.label().key_hash());
  ++group.counters.submitted;
  // A task that follows one at the door, and takes the place that that one waits for, would wait for ever.
  if (!group.door.empty()) admit_from_door(group);
  const bool full = !group.door.empty() || !has_room(group);
  if (refuse_while_draining(group, record, origin)) {
    // It has been settled.
  } else if (full && !(group.limits->overflow == OverflowPolicy::kDiscardOldest && discard_for(group, record))) {
    reject(record, &group, TaskStatus::kRejected,
           {ErrorCode::kRejected, how_full(group) + " and no place for a following task", {}});
  } else {
    adopt(group, record);
    record.phase = Phase::kDependent;
    record.extras().predecessor = TaskRef(predecessor);
    ++group.following;
    group.dependents.push_back(record);
  }
  refresh(group);
}

template <class Faults>
void Scheduler<Faults>::release(TaskRecord& record, Time now) {
  EventScope event(*this, now);
  if (record.phase != Phase::kDependent) return;  // Cancelled meanwhile.
  Group& group = *record.group;
  group.dependents.erase(record);
  --group.following;
  actions_.released.push_back(std::exchange(record.extras().predecessor, TaskRef()));
  enqueue(group, record);
  refresh(group);
}

template <class Faults>
void Scheduler<Faults>::cancel(TaskRecord& record, Time now) {
  EventScope event(*this, now);
  switch (record.phase) {
    case Phase::kNew:
    case Phase::kForgotten: return;
    case Phase::kDependent:
    case Phase::kAtDoor:
    case Phase::kWaiting: break;
    default:
      if (take_out_of_turn(record)) break;
      if (!record.is_claimed()) ask_to_stop(record);
      return;
  }
  if (!record.try_claim(TaskStatus::kCancelled)) return;
  Group& group = *record.group;
  settle_and_forget(record, {ErrorCode::kCancelled, "cancelled while it waited", {}});
  refresh(group);
}

template <class Faults>
void Scheduler<Faults>::settle(TaskRecord& record, Error error, bool ran) {
  ++record.group->counters.settled[static_cast<std::size_t>(record.status())];
  actions_.settle.push_back({TaskRef(record), std::move(error), ran});
}

// For a claimed record that has not been taken: leaves its list too.
template <class Faults>
void Scheduler<Faults>::settle_and_forget(TaskRecord& record, Error error) {
  Group& group = *record.group;
  switch (record.phase) {
    case Phase::kDependent:
      group.dependents.erase(record);
      --group.following;
      break;
    case Phase::kAtDoor:
      group.door.erase(record);
      --group.at_door;
      break;
    case Phase::kWaiting: remove_waiting(record); break;
    default: COHORT_ASSERT(false, "only a task that waits can end without having been taken");
  }
  settle(record, std::move(error), false);
  forget(record);
}

template <class Faults>
void Scheduler<Faults>::forget(TaskRecord& record) {
  disarm(record);
  if (TaskExtras* extras = record.extras_if_any(); extras != nullptr && extras->predecessor) {
    actions_.released.push_back(std::exchange(extras->predecessor, TaskRef()));
  }
  record.phase = Phase::kForgotten;
  --record.group->present;
  --present_;
  record.group = nullptr;
  if (!record.kept) actions_.forgotten.push_back(&record);
}

}  // namespace cohort::internal
