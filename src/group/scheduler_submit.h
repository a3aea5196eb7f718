#pragma once

// Part of Scheduler: how tasks come into the queues and leave them without having run.

#include "group/scheduler.h"
#include "group/scheduler_scopes.h"

namespace cohort::internal {

template <class Faults>
Group* Scheduler<Faults>::find(std::string_view key) const {
  return groups_.find(key, TaskLabel::hash(key));
}

template <class Faults>
Group& Scheduler<Faults>::find_or_create(std::string_view key, std::uint32_t hash, const GroupLimits* answer) {
  if (Group* group = groups_.find(key, hash)) return *group;
  Group& group = groups_.insert(key, hash);
  const auto resolved = policy_.resolve(key, answer != nullptr ? *answer : GroupLimits());
  group.unresolved = policy_.has_resolver() && answer == nullptr;
  if (!last_limits_ || resolved.limits != *last_limits_) {
    last_limits_ = Ref<SharedLimits>::adopt(new SharedLimits(resolved.limits));
  }
  group.limits = last_limits_;
  note_policy(group);
  group.paused = resolved.paused;
  if (group.limits->rate) group.pace = std::make_unique<Group::Pace>(group, *group.limits->rate, now_);
  // A new group has no old debt and no old credit.
  group.served = level();
  group.inactive_since = now_;
  if (group.unresolved) leave_to_workers(group, Chore::resolve(group));
  return group;
}

// What came meanwhile and is too much for the limits is dealt with as if it came now, a portion at a time.
template <class Faults>
bool Scheduler<Faults>::resolved(std::string_view key, const GroupLimits& answer, Time now) {
  EventScope event(*this, now);
  Group& group = find_or_create(key, TaskLabel::hash(key), &answer);
  bool more = false;
  if (group.unresolved) {
    set_resolved(group, policy_.resolve(key, answer).limits);
    int left = Faults::kPortion;
    more = !trim_queue(group, left) || !sort_door(group, left);
    group.unresolved = more;
    note_policy(group);
  }
  refresh(group);
  return more;
}

// For a task that has not been taken: nobody else can have decided its end.
template <class Faults>
void Scheduler<Faults>::end_waiting(TaskRecord& record, TaskStatus status, const Reason& reason) {
  const bool claimed = record.try_claim(status);
  COHORT_ASSERT(claimed, "a task that waits has not begun");
  settle_and_forget(record, reason);
}

template <class Faults>
void Scheduler<Faults>::submit(TaskRecord& record, Origin origin, FullQueue full, Time now) {
  EventScope event(*this, now);
  const OwnCall own(*this);
  record.submitted_at = now;
  take_in(record, origin, full);
}

template <class Faults>
void Scheduler<Faults>::submit_all(std::span<const Arrival> all, Time now) {
  EventScope event(*this, now);
  for (std::size_t i = 0; i < all.size(); ++i) {
    prefetch_behind(all, i);
    take_in(*all[i].record, all[i].origin, all[i].full);
  }
}

// Groups that have not been touched for a while are asked for before they are needed.
template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::prefetch_behind(std::span<const Arrival> all, std::size_t i) {
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
    reject(record, &group, TaskStatus::kTimedOutQueued, Why::kTimedOutBefore);
  } else if (refuse_while_draining(group, record, origin)) {
    // It has been settled.
  } else if (const auto hopeless = is_hopeless(group, record)) {
    reject(record, &group, TaskStatus::kRejected, *hopeless);
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
  record.sequence = ++group.last_sequence;
  ++present_;
  ++group.present;
}

template <class Faults>
bool Scheduler<Faults>::refuse_while_draining(Group& group, TaskRecord& record, Origin origin) {
  if (group.drains == 0 || origin == Origin::kSameGroup) return false;
  reject(record, &group, TaskStatus::kRejected, Why::kDraining);
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
  Why why = Why::kKeyEmpty;
  if (label.key().empty()) {
    why = Why::kKeyEmpty;
  } else if (label.key().size() > TaskLabel::kMaxKeyBytes) {
    why = Why::kKeyTooLong;
  } else if (label.id().size() > TaskLabel::kMaxIdLength) {
    why = Why::kIdTooLong;
  } else if (record.leased && label.own_lease().is_closed()) {
    why = Why::kTokenWasClosed;
  } else if (ended_ || (closed_ && (origin == Origin::kOutside || present_ == 0))) {  // Nobody is left inside.
    why = Why::kExecutorWasShutDown;
  } else {
    return false;
  }
  ++evicted_.submitted;
  reject(record, nullptr, TaskStatus::kRejected, why);
  return true;
}

// For a record that has not been adopted.
template <class Faults>
void Scheduler<Faults>::reject(TaskRecord& record, Group* group, TaskStatus status, const Reason& reason) {
  const bool claimed = record.try_claim(status);
  if (claimed) ++(group != nullptr ? group->counters : evicted_).settled[static_cast<std::size_t>(status)];
  Chore chore = claimed ? Chore::settle(record, reason, false, true) : Chore::drop(record);
  chore.refuses = true;
  if (group == nullptr) group = find(record.label().key());
  put_chore(group != nullptr ? *group : strangers_, chore);
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
  record.blocks_thread = false;  // A caller who was to run it does not any more.
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
  if (record.phase == Phase::kAtDoor) return leave_door(record);
  unlist(group, queue_of(group, record), record);
  --group.waiting;
  --waiting_;
}

template <class Faults>
void Scheduler<Faults>::follow(TaskRecord& record, TaskRecord& predecessor, Origin origin, Time now) {
  EventScope event(*this, now);
  const OwnCall own(*this);
  record.submitted_at = now;
  if (refuse(record, origin)) return;
  Group& group = find_or_create(record.label().key(), record.label().key_hash());
  ++group.counters.submitted;
  // A task that follows one at the door, and takes the place that that one waits for, would wait for ever.
  if (!group.door.empty()) admit_from_door(group);
  const bool full = group.unresolved ? group.present >= kMostUnresolved : !group.door.empty() || !has_room(group);
  if (refuse_while_draining(group, record, origin)) {
    // It has been settled.
  } else if (full && !(group.limits->overflow == OverflowPolicy::kDiscardOldest && discard_for(group, record))) {
    reject(record, &group, TaskStatus::kRejected, how_full(group, Why::kNoRoomToFollow));
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
  if (is_meant_by_a_job(record)) return;          // It is about to be.
  Group& group = *record.group;
  unlist(group, group.dependents, record);
  --group.following;
  forget_far_wait(record);
  put_chore(group, Chore::release(std::exchange(record.extras().predecessor, TaskRef())));
  enqueue(group, record);
  refresh(group);
}

template <class Faults>
void Scheduler<Faults>::cancel(TaskRecord& record, Time now) {
  EventScope event(*this, now);
  const OwnCall own(*this);
  switch (record.phase) {
    case Phase::kNew:
    case Phase::kForgotten: return;
    case Phase::kDependent:
    case Phase::kAtDoor:
    case Phase::kWaiting: break;
    default:
      if (take_out_of_turn(record)) break;
      // (One that its caller was to run is not there any more when it is taken back; the caller hands it in anew.)
      if (record.group != nullptr && !record.is_claimed()) ask_to_stop(record);
      return;
  }
  if (!record.try_claim(TaskStatus::kCancelled)) return;
  Group& group = *record.group;
  settle_and_forget(record, Why::kCancelled);
  refresh(group);
}

// For a claimed record that has not been taken: leaves its list too.
template <class Faults>
void Scheduler<Faults>::settle_and_forget(TaskRecord& record, const Reason& reason) {
  Group& group = *record.group;
  switch (record.phase) {
    case Phase::kDependent:
      unlist(group, group.dependents, record);
      --group.following;
      break;
    case Phase::kAtDoor:
      leave_door(record);
      actions_.admit.push_back(&record);
      break;
    case Phase::kWaiting: remove_waiting(record); break;
    default: COHORT_ASSERT(false, "only a task that waits can end without having been taken");
  }
  ++group.counters.settled[static_cast<std::size_t>(record.status())];
  part_with(record);
  put_chore(group, Chore::settle(record, reason, false, true));
}

// Nothing is dropped on the thread that fires timers. A caller drops what his own call has left behind; and a worker
// what its turn has, unless that may take a user's time, which would be charged to nobody.
template <class Faults>
void Scheduler<Faults>::forget(TaskRecord& record) {
  Group& group = *record.group;
  part_with(record);
  if (record.kept) return;
  const bool is_quick = !record.drops_users_code || (ends_turn_ && !record.has_one_reference());
  const bool at_once = own_call_ || (is_quick && !in_tick_);
  at_once ? actions_.forgotten.push_back(&record) : put_chore(group, Chore::drop(record));
}

template <class Faults>
void Scheduler<Faults>::part_with(TaskRecord& record) {
  disarm(record);
  if (TaskExtras* extras = record.extras_if_any(); extras != nullptr && extras->predecessor) {
    forget_far_wait(record);
    put_chore(*record.group, Chore::release(std::exchange(extras->predecessor, TaskRef())));
  }
  record.phase = Phase::kForgotten;
  --record.group->present;
  --present_;
  record.group = nullptr;
}

// Takes it out of a list of its group. Jobs that are on their way through that list step over it.
template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::unlist(Group& group, TaskList& list, TaskRecord& record) {
  for (EndJob* job = group.jobs; job != nullptr; job = job->other) {
    if (job->next == &record) job->next = TaskList::next(record);
  }
  list.erase(record);
}

}  // namespace cohort::internal
