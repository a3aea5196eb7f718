#pragma once

// Part of Scheduler: whether a queue has room, and what becomes of tasks for which it has none: refused, kept at the
// door, or instead of another.

#include "group/scheduler.h"
#include "group/scheduler_scopes.h"

namespace cohort::internal {

// Refuses what has been queued beyond the limits. Where submitters are to wait for a place it keeps all of it: they did
// not know that they should have waited. False: there is more.
template <class Faults>
bool Scheduler<Faults>::trim_queue(Group& group, int& left) {
  if (lets_submitters_wait(group.limits->overflow)) return true;
  for (; !has_room(group, 1); --left) {
    TaskRecord* const victim =
        group.limits->overflow == OverflowPolicy::kDiscardOldest ? oldest_of_lowest(group) : newest_in_queue(group);
    if (victim == nullptr) break;
    if (left <= 0) return false;
    end_waiting(*victim, TaskStatus::kRejected, how_full(group, Why::kFull));
  }
  return true;
}

// Gives those at the door the place that they would have if they came now. False: there is more.
template <class Faults>
bool Scheduler<Faults>::sort_door(Group& group, int& left) {
  const OverflowPolicy policy = group.limits->overflow;
  TaskRecord* next = group.door.front();
  while (next != nullptr) {
    if (left <= 0) return false;
    TaskRecord& record = *next;
    next = TaskList::next(record);
    if (full_of(record.note) == FullQueue::kBlock || policy == OverflowPolicy::kBlock) {
      if (!is_meant_by_a_job(record) && !has_room(group)) continue;  // It goes on waiting, which is no work.
    }
    --left;
    if (is_meant_by_a_job(record)) {
      end_if_meant(group, record);
    } else if (has_room(group) || (policy == OverflowPolicy::kDiscardOldest && discard_for(group, record))) {
      leave_door(record);
      enqueue(group, record);
      actions_.admit.push_back(&record);
    } else if (policy == OverflowPolicy::kCallerRuns) {
      leave_door(record);
      record.blocks_thread = true;
      group.callers.push_back(record);
      ++group.at_door;
    } else {
      end_waiting(record, TaskStatus::kRejected, how_full(group, Why::kFull));
    }
  }
  return true;
}

template <class Faults>
TaskRecord* Scheduler<Faults>::newest_in_queue(const Group& group) {
  TaskRecord* newest = nullptr;
  for (const TaskList& queue : group.queues) {
    TaskRecord* const last = queue.back();
    if (last == nullptr) continue;
    if (newest == nullptr || static_cast<std::int32_t>(last->sequence - newest->sequence) > 0) newest = last;
  }
  return newest;
}

template <class Faults>
TaskRecord* Scheduler<Faults>::oldest_of_lowest(const Group& group) {
  TaskRecord* oldest = nullptr;
  for (const TaskList& queue : group.queues) oldest = queue.empty() ? oldest : queue.front();
  return oldest;
}

// Whether fewer of the group's tasks are without a result than may be. Tasks at the door are not in yet, and parked
// ones do not count. Tasks in a turn that have ended only seem to be there, nor do `but` others count.
template <class Faults>
bool Scheduler<Faults>::has_room(const Group& group, std::uint64_t but) const {
  const bool may_start_any = !group.paused && (!group.pace || group.pace->bucket.available(now_) > 0);
  const std::uint64_t most = may_start_any ? group.limits->most_open : group.limits->max_waiting;
  const std::uint64_t open =
      std::uint64_t{group.present} - group.at_door - (group.parked - group.resuming) - group.overrunning;
  return open < most + but || open - ended_in_turns(group).tasks < most + but;
}

template <class Faults>
Reason Scheduler<Faults>::how_full(const Group& group, Why why) {
  return {why,
          {group.waiting + group.following, group.running, group.limits->max_waiting, group.limits->max_concurrency}};
}

// Where the executor has been told to look: whether it would wait for longer than its time allows.
template <class Faults>
std::optional<Reason> Scheduler<Faults>::is_hopeless(const Group& group, const TaskRecord& record) const {
  if (!rejects_hopeless_ || !record.special) return std::nullopt;
  const SubmitOptions& options = record.extras_if_any()->options;
  Duration left = options.queue_timeout.value_or(Duration::max());
  if (options.deadline) left = std::min(left, *options.deadline - now_);
  const Duration wait = expected_wait(group, count_before(group, record.priority));
  if (wait <= left) return std::nullopt;
  const auto ms = [](Duration duration) {
    return static_cast<std::uint32_t>(std::min<std::int64_t>(duration.count() / 1'000'000, kUnlimited));
  };
  return Reason(Why::kHopeless, {ms(wait), ms(left), 0, 0});
}

// True when the record may be queued. Otherwise it has been settled, or stands at the door.
template <class Faults>
bool Scheduler<Faults>::make_room(Group& group, TaskRecord& record, Origin origin, FullQueue full) {
  const bool can_wait = may_wait(note_of(origin, full));
  if (group.unresolved) {
    record.note = note_of(origin, full);
    if (can_wait && full != FullQueue::kAsGroupSays) {
      stand_at_door(group, record, false);
      return false;
    }
    if (group.present < kMostUnresolved) return true;
    reject(record, &group, TaskStatus::kRejected, how_full(group, Why::kFull));
    return false;
  }
  if (!group.door.empty()) admit_from_door(group);  // They come first.
  if (group.door.empty() && has_room(group)) return true;
  const OverflowPolicy policy = group.limits->overflow;
  if (can_wait && (lets_submitters_wait(policy) || full == FullQueue::kBlock)) {
    stand_at_door(group, record, policy == OverflowPolicy::kCallerRuns && full == FullQueue::kCallerWaits);
    return false;
  }
  if (policy == OverflowPolicy::kDiscardOldest && discard_for(group, record)) return true;
  reject(record, &group, TaskStatus::kRejected, how_full(group, Why::kFull));
  return false;
}

template <class Faults>
void Scheduler<Faults>::stand_at_door(Group& group, TaskRecord& record, bool runs_on_caller) {
  adopt(group, record);
  record.blocks_thread = runs_on_caller;
  record.phase = Phase::kAtDoor;
  (runs_on_caller ? group.callers : group.door).push_back(record);
  ++group.at_door;
  arm_queue_limit(record);
}

// Gives up the oldest task of the lowest priority, unless the new one is lower still. Awaited tasks are kept: a task
// that holds a place in layer 2 waits for them.
template <class Faults>
bool Scheduler<Faults>::discard_for(Group& group, TaskRecord& record) {
  TaskRecord* const oldest = oldest_of_lowest(group);
  if (oldest == nullptr || record.priority > oldest->priority) return false;
  end_waiting(*oldest, TaskStatus::kRejected, {Why::kDiscarded, {group.limits->max_waiting, 0, 0, 0}});
  return true;
}

template <class Faults>
void Scheduler<Faults>::leave_door(TaskRecord& record) {
  Group& group = *record.group;
  unlist(group, record.blocks_thread ? group.callers : group.door, record);
  --group.at_door;
}

template <class Faults>
void Scheduler<Faults>::admit_from_door(Group& group) {
  while (!group.door.empty() && group.jobs == nullptr && !group.unresolved && has_room(group)) {
    TaskRecord& record = *group.door.front();
    leave_door(record);
    enqueue(group, record);
    actions_.admit.push_back(&record);
  }
}

}  // namespace cohort::internal
