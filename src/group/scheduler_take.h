#pragma once

// Part of Scheduler: which task may start, and which one a worker takes next (what it then puts into its turn:
// scheduler_start.h).

#include "group/scheduler.h"
#include "group/scheduler_scopes.h"

namespace cohort::internal {

template <class Faults>
bool Scheduler<Faults>::may_start(const Group& group) const {
  return !group.paused && !ended_ && group.jobs == nullptr && !group.unresolved &&
         group.overrunning < group.limits->max_overrunning &&
         group.running - group.suspended + group.overrunning + group.chore_turns < threads_for_one_group_ &&
         (!group.pace || group.pace->bucket.available(now_) > 0);
}

template <class Faults>
bool Scheduler<Faults>::may_start_unawaited(const Group& group, bool has_place) const {
  return (has_place || group.own < group.limits->max_in_flight) && group.parked < max_parked_ / 4;
}

// Brings everything that follows from a group's state up to date: the ready sets it is in, its timers, what blocks it.
// Called after every change.
template <class Faults>
void Scheduler<Faults>::refresh(Group& group) {
  if (!group.door.empty()) admit_from_door(group);
  const bool permit = group.running < group.limits->max_concurrency;
  const bool has_unawaited = group.has_unawaited() || !group.callers.empty();
  const bool start = permit && (group.waiting != 0 || has_unawaited) && may_start(group);
  const std::array<bool, kReadyKinds> wanted = {
      !group.continuing.empty(),
      (permit && !group.resumed.empty()) || (start && !group.awaited.empty()),
      start && has_unawaited && may_start_unawaited(group, false),
      may_do_chores(group),
  };
  if (group.waiting == 0) group.keeps_place = false;
  const bool was_ready = group.is_ready();
  const bool will_be_ready = wanted[0] || wanted[1] || wanted[2] || wanted[3];
  if (was_ready || will_be_ready) {
    if (!was_ready) on_ready(group);
    for (std::size_t kind = 0; kind < kReadyKinds; ++kind) {
      if (wanted[kind] == ready_[kind].contains(group)) continue;
      if (kind == kReadyForChores) {
        set_ready_for_chores(group, wanted[kind]);
      } else if (wanted[kind]) {
        ready_[kind].insert(group);
      } else {
        ready_[kind].erase(group);
      }
    }
    if (!will_be_ready) on_unready(group);
  }
  const bool has_some = group.waiting != 0 || group.at_door != 0;
  if (group.pace && permit && !group.paused && has_some && group.pace->bucket.available(now_) == 0) {
    rate_timers_.arm(group.pace->timer, group.pace->bucket.next_at(now_));
  }
  const Bound bound = group.waiting == 0       ? Bound::kNothing
                      : wanted[1] || wanted[2] ? Bound::kWorkers
                                               : bound_of(group, !group.awaited.empty());
  if (bound != group.bound) note_bound(group, bound);
  if (group.present == 0) note_idle(group);
  note_plain(group);
}

template <class Faults>
void Scheduler<Faults>::note_plain(Group& group) {
  group.plain = !group.paused && !group.pace && group.drains == 0 && group.following == 0 && group.parked == 0 &&
                group.suspended == 0 && group.overrunning == 0 && group.own == group.running && group.awaited.empty() &&
                group.resumed.empty() && group.continuing.empty() && group.door.empty() && group.callers.empty() &&
                group.chores.empty() && group.chore_turns == 0 && group.jobs == nullptr && !group.unresolved && !ended_;
  group.width = std::min({group.limits->max_concurrency, group.limits->max_in_flight, threads_for_one_group_});
}

// The same for a plain group of which only `waiting`, `running` and `present` have changed.
template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::refresh_plain(Group& group) {
  ReadySet& set = ready_[kReadyNormal];
  const bool wanted = group.waiting != 0 && group.running < group.width;
  if (group.waiting == 0) group.keeps_place = false;
  if (wanted != set.contains(group)) {
    if (wanted) {
      on_ready(group);
      set.insert(group);
    } else {
      set.erase(group);
      on_unready(group);
    }
  }
  const Bound bound = group.waiting == 0 ? Bound::kNothing : wanted ? Bound::kWorkers : bound_of(group, false);
  if (bound != group.bound) note_bound(group, bound);
  if (group.present == 0) note_idle(group);
}

template <class Faults>
bool Scheduler<Faults>::has_work() const {
  return !ready_[kReadyToContinue].empty() || !ready_[kReadyForChores].empty() ||
         (layer1_free() && (!ready_[kReadyUrgent].empty() || (parked_room() && !ready_[kReadyNormal].empty())));
}

template <class Faults>
void Scheduler<Faults>::add_idle_worker(Time now) {
  EventScope event(*this, now);
  ++idle_workers_;
}

// One wake-up at a time is under way: the worker that comes asks for the next one if there is still work for it.
template <class Faults>
void Scheduler<Faults>::wake_if_needed() {
  if (idle_workers_ == 0 || wake_pending_ || !has_work()) return;
  --idle_workers_;
  wake_pending_ = true;
  ++actions_.wake;
}

// The least served group that may have a worker now, and what for.
template <class Faults>
Group* Scheduler<Faults>::pick(bool has_global, ReadyKind& kind) {
  const std::uint32_t seen = Faults::kStaleGlobalCheck ? global_seen_ : global_running_;
  const bool layer1 = has_global || seen < global_limit_;
  const std::array<bool, kReadyKinds> allowed = {true, layer1, layer1 && parked_room(), true};
  if (ready_[kReadyToContinue].empty() && ready_[kReadyUrgent].empty() && ready_[kReadyForChores].empty()) {
    Group* group = allowed[kReadyNormal] ? ready_[kReadyNormal].min() : nullptr;
    if (group == nullptr || group->suspended == 0) {
      kind = kReadyNormal;
      return group;
    }
  }
  Group* best = nullptr;
  for (std::size_t each = 0; each < kReadyKinds; ++each) {
    if (!allowed[each] || ready_[each].empty()) continue;
    Group* group = ready_[each].min();
    // Charge what it holds while suspended before it is compared; then it may not be the first any more.
    while (group != nullptr && group->suspended != 0) {
      const double before = group->served;
      accrue_suspended(*group);
      if (group->served == before) break;
      group = ready_[each].min();
    }
    if (group == nullptr || (best != nullptr && best->served <= group->served)) continue;
    best = group;
    kind = static_cast<ReadyKind>(each);
  }
  if (best == nullptr) return nullptr;
  // Its chores and its tasks in turn: neither may keep the other waiting.
  if (!best->did_chores && ready_[kReadyForChores].contains(*best)) kind = kReadyForChores;
  if (kind == kReadyToContinue) kind = instead_of_continuing(*best, allowed);
  return best;
}

// Coroutines that sleep for a moment again and again would keep everything else of their group from starting. So after
// three tasks that went on an unawaited one starts, and an awaited or resumed one has every other turn.
template <class Faults>
ReadyKind Scheduler<Faults>::instead_of_continuing(const Group& group, const std::array<bool, kReadyKinds>& allowed) {
  const auto may = [&](ReadyKind kind) { return allowed[kind] && ready_[kind].contains(group); };
  if (group.urgent_in_a_row >= kMostInARow && may(kReadyNormal)) return kReadyNormal;
  if (group.continued_last && may(kReadyUrgent)) return kReadyUrgent;
  return kReadyToContinue;
}

template <class Faults>
bool Scheduler<Faults>::take(Turn& turn, std::span<const Arrival> arrivals, Time now) {
  EventScope event(*this, now);
  constexpr int kFewTimers = 16;  // Where there are many, they are left to tick() and its pace.
  if (!many_are_due_ && next_timer().value_or(Time::max()) <= now_) tick_some(kFewTimers);
  if (!Faults::kForgetWake) wake_pending_ = false;
  ++takes_;
  [[maybe_unused]] const std::uint32_t before = global_running_;
  accrue();
  turn.reset();
  double budget_ns = static_cast<double>(Turn::kLength.count());
  take_arrivals(arrivals, turn, budget_ns);
  ReadyKind kind = kReadyNormal;
  const std::size_t ready = ready_[kReadyUrgent].size() + ready_[kReadyNormal].size();
  const auto share = static_cast<std::uint32_t>(Turn::kMaxTasks / std::clamp<std::size_t>(ready, 1, Turn::kMaxTasks));
  while (turn.count < Turn::kMaxTasks && budget_ns > 0) {
    take_plain(turn, share, budget_ns);
    if (turn.count == Turn::kMaxTasks || budget_ns <= 0) break;
    Group* group = pick(turn.global, kind);
    if (group == nullptr) break;
    if (kind == kReadyForChores) {
      if (turn.empty()) take_chores_of(*group, turn);
      break;
    }
    if (kind == kReadyToContinue) {
      if (turn.empty()) go_on(*group->continuing.front(), turn);
      break;
    }
    if (!take_from(*group, turn, share, budget_ns)) break;
  }
  if (Faults::kStaleGlobalCheck) global_seen_ = before;  // The next one checks what was so before this one acted.
  // Where only tasks whose time is over were found, their settlements are chores now.
  if (Group* const group = turn.empty() ? ready_[kReadyForChores].min() : nullptr) take_chores_of(*group, turn);
  if (turn.empty()) {
    ++idle_workers_;
    return false;
  }
  wake_pending_ = false;
  if (turn.of_chores) return true;
  turn.expected = Turn::kLength - Duration(static_cast<std::int64_t>(budget_ns));
  hand_out(turn);
  return true;
}

template <class Faults>
bool Scheduler<Faults>::take_only(TaskRecord& record, Turn& turn, Time now) {
  EventScope event(*this, now);
  if (record.phase != Phase::kWaiting || !layer1_free() || !parked_room()) return false;
  Group& group = *record.group;
  if (group.running >= group.limits->max_concurrency || choose(group, false, false) != &record) return false;
  turn.reset();
  Turn::Segment& segment = open_segment(group, turn);
  start(record, segment, turn);
  refresh(group);
  hand_out(turn);
  return true;
}

// The task that the group would run next; null when none may start. Every fourth is the oldest unawaited task of the
// queue or, if the queue is empty, the oldest caller's, if it may start. Otherwise a caller's task goes before the
// queue, unless the queue has a task of a higher priority.
template <class Faults>
TaskRecord* Scheduler<Faults>::choose(Group& group, bool has_permit, bool has_place) const {
  if (!has_permit && group.running >= group.limits->max_concurrency) return nullptr;
  const bool start = may_start(group);
  TaskRecord* unawaited = nullptr;
  TaskRecord* caller = nullptr;
  if (start && parked_room() && may_start_unawaited(group, has_place)) {
    for (const TaskList& queue : group.queues) {
      if (unawaited == nullptr) unawaited = queue.front();
    }
    caller = group.callers.front();
  }
  const bool queue_is_due = group.urgent_in_a_row >= kMostInARow;
  if (queue_is_due && unawaited != nullptr) return unawaited;
  if (queue_is_due && caller != nullptr) return caller;
  if (!group.resumed.empty()) return group.resumed.front();
  if (start && !group.awaited.empty()) return group.awaited.front();
  const bool caller_first = caller != nullptr && (unawaited == nullptr || caller->priority <= unawaited->priority);
  return caller_first ? caller : unawaited;
}

// The same, but passes over those whose time is over, a few at a time: no task starts after that, whether its timer has
// been seen or not.
template <class Faults>
TaskRecord* Scheduler<Faults>::choose_in_time(Group& group, bool has_permit, bool has_place) {
  constexpr int kMostPassedOver = 16;
  for (int i = 0; i < kMostPassedOver; ++i) {
    TaskRecord* const record = choose(group, has_permit, has_place);
    if (record == nullptr || !is_out_of_time(*record)) return record;
    end_out_of_time(*record);
  }
  return nullptr;
}

}  // namespace cohort::internal
