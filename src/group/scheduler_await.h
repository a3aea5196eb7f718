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

//
// Awaits from one executor to another. The awaited task is marked by its own executor, as if it were awaited at home;
// and what a circle could lead through is in FarWaits.

#include "group/scheduler.h"
#include "group/scheduler_scopes.h"

namespace cohort::internal {

template <class Faults>
Awaiting::Verdict Scheduler<Faults>::check_await(TaskRecord& awaiter, Awaiting& awaiting, Time now) {
  EventScope event(*this, now);
  if (awaiter.overrunning) return Awaiting::Verdict::kOutOfTime;
  check_some(awaiter, awaiting);
  return awaiting.cycle.empty() ? Awaiting::Verdict::kMay : Awaiting::Verdict::kCycle;
}

// Each awaited task is looked at by itself: whether it could end if `awaiter` never did.
template <class Faults>
void Scheduler<Faults>::check_some(const TaskRecord& awaiter, Awaiting& awaiting) {
  const std::span<const TaskRef> records = awaiting.state.records();
  std::size_t steps = 0;
  for (; steps < static_cast<std::size_t>(Faults::kPortion) && awaiting.checked < records.size(); ++steps) {
    const TaskRef& record = records[awaiting.checked++];
    if (record->home != awaiter.home && record->home != nullptr) awaiting.is_far = true;
    if (awaiting.timed) continue;
    std::vector<TaskRef> cycle = find_await_cycle(awaiter, record, steps);
    if (cycle.empty()) continue;
    ++awaiting.stuck;
    if (records.size() - awaiting.stuck >= awaiting.state.need()) continue;
    awaiting.cycle = std::move(cycle);
    return;
  }
}

template <class Faults>
bool Scheduler<Faults>::check_more(TaskRecord& awaiter, Awaiting& awaiting, Time now) {
  EventScope event(*this, now);
  const TaskExtras* const extras = awaiter.extras_if_any();
  if (extras == nullptr || extras->awaiting != &awaiting.state) return false;
  if (awaiting.checked < awaiting.state.records().size()) {
    check_some(awaiter, awaiting);
    note_far_wait(awaiter, awaiting);
    return awaiting.cycle.empty();
  }
  mark_some(awaiter, awaiting);
  note_far_wait(awaiter, awaiting);
  return !awaiting.is_through();
}

// A wait that other executors have to do with is in FarWaits, unless it ends by itself.
template <class Faults>
void Scheduler<Faults>::note_far_wait(TaskRecord& awaiter, Awaiting& awaiting) {
  TaskExtras& extras = awaiter.extras();
  awaiting.is_far = awaiting.is_far || extras.awaited_from_afar;
  if (!awaiting.is_far || awaiting.timed) return;
  if (!std::exchange(extras.in_far_waits, true)) {
    FarWaits::all().add(awaiter, {awaiting.state.records(), awaiting.state.need()});
    if (extras.awaited_from_afar) awaiting.noted = 0;
  }
  const std::span<const TaskRef> records = awaiting.state.records();
  for (std::size_t steps = 0; awaiting.noted < records.size() && steps < static_cast<std::size_t>(Faults::kPortion);
       ++steps) {
    TaskRecord& record = *records[awaiting.noted++];
    if (record.home == awaiter.home) steps += note_far(record);
  }
}

// With all that it waits for here. Like the search for a circle this gives up after many. Gives the number of steps.
template <class Faults>
std::size_t Scheduler<Faults>::note_far(TaskRecord& record) {
  constexpr std::size_t kMost = 10'000;
  std::vector<TaskRecord*> found = {&record};
  for (std::size_t i = 0; i < found.size() && found.size() < kMost; ++i) {
    TaskRecord& each = *found[i];
    if (each.is_done() || each.home != record.home || each.is_promise()) continue;
    TaskExtras& extras = each.extras();
    if (std::exchange(extras.awaited_from_afar, true)) continue;
    const AwaitEdge edge = await_edge_of(each);
    if (edge.need == 0) continue;
    if (!std::exchange(extras.in_far_waits, true)) FarWaits::all().add(each, edge);
    for (const TaskRef& next : edge.records) found.push_back(next.get());
  }
  return found.size();
}

template <class Faults>
void Scheduler<Faults>::forget_far_wait(TaskRecord& record) {
  TaskExtras* const extras = record.extras_if_any();
  if (extras != nullptr && std::exchange(extras->in_far_waits, false)) FarWaits::all().remove(record);
}

template <class Faults>
TaskRef Scheduler<Faults>::mark_awaited_from_afar(TaskRecord& record, Time now) {
  EventScope event(*this, now);
  if (record.is_done() || record.phase == Phase::kForgotten) return {};
  TaskRecord* next = &record;
  for (int i = 0; next != nullptr && i < Faults::kPortion; ++i) next = mark_awaited(*next);
  note_far(record);
  return next != nullptr ? TaskRef(*next) : TaskRef();
}

template <class Faults>
void Scheduler<Faults>::fail_await(TaskRecord& awaiter, const AwaitState& state, std::unique_ptr<Error> error,
                                   Time now) {
  EventScope event(*this, now);
  const TaskExtras* const extras = awaiter.extras_if_any();
  if (extras == nullptr || extras->awaiting != &state) return;
  awaiter.extras().await_error = std::move(error);
  end_wait(awaiter);
}

// Marks what is awaited, and all that it depends on, a portion at a time.
template <class Faults>
void Scheduler<Faults>::mark_some(const TaskRecord& awaiter, Awaiting& awaiting) {
  const std::span<const TaskRef> records = awaiting.state.records();
  for (int i = 0; i < Faults::kPortion; ++i) {
    if (awaiting.chain == nullptr) {
      if (awaiting.marked == records.size()) return;
      TaskRecord& record = *records[awaiting.marked++];
      if (record.home == awaiter.home && !record.is_done()) awaiting.chain = &record;
    }
    if (awaiting.chain != nullptr) awaiting.chain = mark_awaited(*awaiting.chain);
  }
  if (awaiting.chain != nullptr) awaiting.held.emplace_back(*awaiting.chain);
}

// Gives what it depends on, to be marked too.
template <class Faults>
TaskRecord* Scheduler<Faults>::mark_awaited(TaskRecord& record) {
  TaskRecord* each = &record;
  TaskRecord* next = nullptr;
  if (!each->awaited && !is_meant_by_a_job(*each)) {
    if (each->phase == Phase::kWaiting) {
      Group& group = *each->group;
      unlist(group, group.queues[static_cast<std::size_t>(each->priority)], *each);
      group.awaited.push_back(*each);
      each->sequence = ++group.last_sequence;
      each->awaited = true;
      refresh(group);
    } else if (each->phase == Phase::kAtDoor && !each->group->unresolved) {
      // Whoever awaits it may be what the queue waits for, so it does not wait for a place.
      Group& group = *each->group;
      leave_door(*each);
      each->blocks_thread = false;
      each->awaited = true;
      enqueue(group, *each);
      actions_.admit.push_back(each);
      refresh(group);
    } else {
      each->awaited = true;
      if (each->phase == Phase::kDependent) next = each->extras().predecessor.get();
    }
  }
  return next;
}

template <class Faults>
void Scheduler<Faults>::park(Turn& turn, Awaiting& awaiting, std::optional<Time> until, Time now) {
  EventScope event(*this, now);
  AwaitState& state = awaiting.state;
  TaskRecord& record = leave_turn(turn);
  Group& group = *record.group;
  record.extras().awaiting = &state;
  group.aside.push_back(record);
  if (until) prompt_timers_.arm(record.extras().wake, *until);
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
  mark_some(record, awaiting);
  note_far_wait(record, awaiting);
  refresh(group);
}

template <class Faults>
void Scheduler<Faults>::resume(TaskRecord& record, const AwaitState& state, Time now) {
  EventScope event(*this, now);
  if ((record.phase != Phase::kParked && record.phase != Phase::kSuspended) || record.extras().awaiting != &state)
    return;
  end_wait(record);
}

template <class Faults>
void Scheduler<Faults>::end_wait(TaskRecord& record) {
  forget_far_wait(record);
  record.extras().awaiting = nullptr;
  prompt_timers_.disarm(record.extras().wake);
  stop_waiting(record);
}

// It wants a worker again; a parked one its permits too.
template <class Faults>
void Scheduler<Faults>::stop_waiting(TaskRecord& record) {
  Group& group = *record.group;
  unlist(group, group.aside, record);
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
  ends_turn_ = true;
  complete(record, Duration(0), now_);
  ends_turn_ = false;
  refresh(group);
}

}  // namespace cohort::internal
