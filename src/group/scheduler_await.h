#pragma once

// Part of Scheduler: tasks that await tasks.
//
// Why nothing deadlocks on the layers. A parked task holds no permit of layers 1 and 3, so whoever runs can finish. It
// keeps its place in layer 2, but what it waits for is marked as awaited, through everything that depends on something
// else, and needs none; nor does max_parked hold it back. So of a chain of awaits the last task, which awaits nobody,
// can always start; and what it gives back when it ends lets the one before it resume. Only a circle has no last one.
//
// What comes from outside every executor (a Promise without one: an answer from the network, a commit) needs nobody's
// permits to come about. Who awaits that keeps his own, as if he slept: so a group's limits bound the calls it has
// open.

#include "group/scheduler.h"

namespace cohort::internal {

template <class Faults>
std::unique_ptr<Error> Scheduler<Faults>::check_await(TaskRecord& awaiter, const AwaitState& state, bool timed,
                                                      Time now) {
  EventScope event(*this, now);
  if (awaiter.overrunning) {
    return std::make_unique<Error>(Error{
        ErrorCode::kTimedOut, "task '" + awaiter.task_id() + "' has run out of time and cannot await any more", {}});
  }
  if (timed) return nullptr;
  const std::vector<const TaskRecord*> cycle = find_await_cycle(awaiter, state);
  if (cycle.empty()) return nullptr;
  std::string text = "a cycle of awaits: task '" + awaiter.task_id() + "' of group '" + awaiter.group_key() + "'";
  for (const TaskRecord* step : cycle) text += " awaits '" + step->task_id() + "' of '" + step->group_key() + "'";
  return std::make_unique<Error>(Error{ErrorCode::kConflict, std::move(text), {}});
}

template <class Faults>
void Scheduler<Faults>::mark_awaited(TaskRecord& record) {
  for (TaskRecord* each = &record; each != nullptr && !each->awaited && each->home == record.home;) {
    TaskRecord* next = nullptr;
    if (each->phase == Phase::kWaiting) {
      Group& group = *each->group;
      group.queues[static_cast<std::size_t>(each->priority)].erase(*each);
      group.awaited.push_back(*each);
      each->sequence = ++group.last_sequence;
      each->awaited = true;
      refresh(group);
    } else if (each->phase == Phase::kAtDoor) {
      // Whoever awaits it may be what the queue waits for, so it does not wait for a place.
      Group& group = *each->group;
      group.door.erase(*each);
      --group.at_door;
      each->awaited = true;
      enqueue(group, *each);
      actions_.admit.emplace_back(*each);
      refresh(group);
    } else {
      each->awaited = true;
      if (each->phase == Phase::kDependent) next = each->extras().predecessor.get();
    }
    each = next;
  }
}

template <class Faults>
void Scheduler<Faults>::park(Turn& turn, AwaitState& state, std::optional<Time> until, Time now) {
  EventScope event(*this, now);
  TaskRecord& record = leave_turn(turn);
  Group& group = *record.group;
  record.extras().awaiting = &state;
  group.aside.push_back(record);
  if (until) task_timers_.arm(record.extras().wake, *until);
  if (state.is_from_outside()) {
    record.phase = Phase::kSuspended;
    if (record.holds_concurrency) begin_suspended(record);
    refresh(group);
    return;
  }
  record.phase = Phase::kParked;
  ++group.parked;
  ++parked_;
  release_concurrency(group, record.holds_concurrency);
  release_global(record.holds_global);
  for (const TaskRef& awaited : state.records()) {
    if (awaited->home == record.home && !awaited->is_done()) mark_awaited(*awaited);
  }
  refresh(group);
}

template <class Faults>
void Scheduler<Faults>::resume(TaskRecord& record, const AwaitState& state, Time now) {
  EventScope event(*this, now);
  if ((record.phase != Phase::kParked && record.phase != Phase::kSuspended) || record.extras().awaiting != &state)
    return;
  record.extras().awaiting = nullptr;
  task_timers_.disarm(record.extras().wake);
  stop_waiting(record);
}

// It wants a worker again; a parked one its permits too.
template <class Faults>
void Scheduler<Faults>::stop_waiting(TaskRecord& record) {
  Group& group = *record.group;
  group.aside.erase(record);
  const bool was_parked = record.phase == Phase::kParked;
  record.phase = was_parked ? Phase::kResuming : Phase::kContinuing;
  if (was_parked) ++group.resuming;
  (was_parked ? group.resumed : group.continuing).push_back(record);
  refresh(group);
}

template <class Faults>
void Scheduler<Faults>::finish_let_go(TaskRecord& record, Time now) {
  EventScope event(*this, now);
  Group& group = *record.group;
  complete(record, Duration(0));
  refresh(group);
}

}  // namespace cohort::internal
