#pragma once

// Part of Scheduler: puts tasks into a worker's turn, and accounts their start.

#include "group/scheduler.h"
#include "group/scheduler_scopes.h"

namespace cohort::internal {

// A task with a limit on its run time has a turn of its own, so that its time begins when the turn does. So has a task
// whose deadline is near, because it must not begin after it. So has a task that a caller runs.
inline bool wants_own_turn(const TaskRecord& record, Time now) {
  constexpr Duration kNear = std::chrono::milliseconds(5);
  if (record.phase == Phase::kAtDoor) return true;
  const TaskExtras* extras = record.extras_if_any();
  if (extras == nullptr) return false;
  return extras->options.run_timeout || (extras->limit.armed() && extras->limit.when() < saturating_add(now, kNear));
}

// Takes up to `share` of what the group may run into the turn; false when the turn is complete with it. A group has one
// segment in a turn: its tasks there run one after the other, and a second permit would only be kept from other
// workers.
template <class Faults>
bool Scheduler<Faults>::take_from(Group& group, Turn& turn, std::uint32_t share, double& budget_ns) {
  Turn::Segment* segment = turn.empty() ? nullptr : &turn.segments[turn.segment_count - 1];
  if (group.last_take == takes_ && segment != nullptr && segment->group != &group) return false;
  if (segment != nullptr && segment->group != &group) segment = nullptr;

  const auto next = [&] { return choose_in_time(group, segment != nullptr, segment != nullptr && segment->in_flight); };
  TaskRecord* record = next();
  if (record == nullptr) {  // The next ones are out of time, or all is being ended.
    refresh(group);
    return !group.is_ready();
  }
  const bool alone = record->phase == Phase::kResuming || wants_own_turn(*record, now_) || is_long(group);
  if (alone && !turn.empty()) return false;
  if (record->phase == Phase::kResuming) {
    go_on(*record, turn);
    return false;
  }
  const double each_ns = expected_ns(group);
  if (segment == nullptr) segment = &open_segment(group, turn);
  const std::uint32_t before = segment->count;
  do {
    start(*record, *segment, turn);
    budget_ns -= each_ns;
    if (alone || segment->count - before == share || turn.count == Turn::kMaxTasks || budget_ns <= 0) break;
    record = next();
  } while (record != nullptr && record->phase == Phase::kWaiting && !wants_own_turn(*record, now_));
  segment->each_ns = each_ns * charge_rate();
  segment->charged_ns += segment->each_ns * (segment->count - before);
  charge(group, segment->each_ns * (segment->count - before));
  group.last_take = takes_;
  group.last_turn = &turn;
  group.last_end = static_cast<std::uint8_t>(turn.count);
  refresh(group);
  // Behind the others of its bucket: a bucket is 25 us of time over weight, which for a heavy group is long.
  for (ReadySet& set : ready_) {
    if (set.contains(group)) set.update(group);
  }
  return !alone;
}

// The same for as long as only unawaited tasks are ready, and the next one and its group are plain. Nothing else can
// happen then, so this is all of the above in a few steps; it is where most tasks go through.
template <class Faults>
void Scheduler<Faults>::take_plain(Turn& turn, std::uint32_t share, double& budget_ns) {
  if (!ready_[kReadyToContinue].empty() || !ready_[kReadyUrgent].empty() || !ready_[kReadyForChores].empty() ||
      !parked_room() || ended_) {
    return;
  }
  const std::uint32_t seen = Faults::kStaleGlobalCheck ? global_seen_ : global_running_;
  if (!turn.global && seen >= global_limit_) return;
  ReadySet& set = ready_[kReadyNormal];
  const double rate = charge_rate();
  while (Group* group = set.min()) {
    set.prefetch_after(*group);
    TaskList& queue = group->queues[static_cast<std::size_t>(Priority::kNormal)];
    TaskRecord* record = queue.front();
    if (!group->plain || group->last_take == takes_ || record == nullptr || record->special ||
        !group->queues[static_cast<std::size_t>(Priority::kHigh)].empty() || (is_long(*group) && !turn.empty())) {
      return;
    }
    Turn::Segment& segment = open_segment(*group, turn);
    segment.in_flight = segment.plain = true;
    ++group->own;
    const double each_ns = expected_ns(*group);
    const std::uint32_t most = group->suspends ? 1 : std::min(share, Turn::kMaxTasks - turn.count);
    do {
      queue.erase(*record);
      record->phase = Phase::kTaken;
      record->own_account = true;
      if (!turn.measured) group->counters.queue_time += now_ - record->submitted_at;
      turn.segment_of[turn.count] = static_cast<std::uint8_t>(turn.segment_count - 1);
      turn.tasks[turn.count++] = record;
      ++segment.count;
      budget_ns -= each_ns;
      record = queue.front();
    } while (record != nullptr && segment.count < most && budget_ns > 0 && !record->special);
    group->counters.started += segment.count;
    group->waiting -= segment.count;
    waiting_ -= segment.count;
    group->urgent_in_a_row = 0;
    segment.each_ns = each_ns * rate;
    segment.charged_ns = segment.each_ns * segment.count;
    group->served += over_weight(segment.charged_ns, *group);
    group->last_take = takes_;
    group->last_turn = &turn;
    group->last_end = static_cast<std::uint8_t>(turn.count);
    set.erase(*group);
    if (group->waiting != 0 && group->running < group->width) {
      set.insert(*group);  // Behind the others of its bucket.
    } else {
      on_unready(*group);
      note_bound(*group, group->waiting == 0 ? Bound::kNothing : bound_of(*group, false));
    }
    if (group->suspends) budget_ns = 0;
    if (turn.count == Turn::kMaxTasks || budget_ns <= 0) return;
  }
}

// Takes in what has come. While nothing else could run, those of idle groups go straight into the turn, in the order in
// which they came.
template <class Faults>
void Scheduler<Faults>::take_arrivals(std::span<const Arrival> arrivals, Turn& turn, double& budget_ns) {
  const auto nothing_else = [this] {
    return ready_[kReadyNormal].empty() && ready_[kReadyUrgent].empty() && ready_[kReadyToContinue].empty() &&
           ready_[kReadyForChores].empty();
  };
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    prefetch_behind(arrivals, i);
    const Arrival& arrival = arrivals[i];
    if (few_per_group_ && nothing_else() && take_at_once(*arrival.record, turn, budget_ns)) continue;
    take_in(*arrival.record, arrival.origin, arrival.full);
  }
}

// What take_in() and take_plain() do for the only task of a group, without what they undo of one another.
template <class Faults>
bool Scheduler<Faults>::take_at_once(TaskRecord& record, Turn& turn, double& budget_ns) {
  if (turn.count == Turn::kMaxTasks || budget_ns <= 0 || !parked_room()) return false;
  const std::uint32_t seen = Faults::kStaleGlobalCheck ? global_seen_ : global_running_;
  if (!turn.global && seen >= global_limit_) return false;
  Group* group = idle_group_for(record);
  if (group == nullptr || (group->last_take == takes_ && group->last_turn == &turn)) return false;
  put_into(turn, *group, record, budget_ns);
  return true;
}

// The group of a plain task that is not handed in yet, if it could run at once as far as its group is concerned.
template <class Faults>
[[gnu::always_inline]] inline Group* Scheduler<Faults>::idle_group_for(const TaskRecord& record) const {
  const TaskLabel& label = record.label();
  Group* group = groups_.find(label.key(), label.key_hash());
  return group != nullptr && is_plain_arrival(record, *group) && could_start_at_once(*group) ? group : nullptr;
}

// For a plain group: a task that has not been handed in yet would not have to wait for anything of it.
template <class Faults>
[[gnu::always_inline]] inline bool Scheduler<Faults>::could_start_at_once(const Group& group) const {
  return group.waiting == 0 && group.running < group.width && !is_long(group);
}

template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::put_into(Turn& turn, Group& group, TaskRecord& record,
                                                               double& budget_ns) {
  record.group = &group;
  record.sequence = ++group.last_sequence;
  record.phase = Phase::kTaken;
  record.own_account = true;
  if (!turn.measured) group.counters.queue_time += now_ - record.submitted_at;
  count_start(group);
  start_at_once(turn, group, level(), budget_ns);
  turn.tasks[turn.count++] = &record;
}

// What it means for a group that a task of it begins without having waited, as the next entry of the turn.
template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::start_at_once(Turn& turn, Group& group, double to_level,
                                                                    double& budget_ns) {
  ++group.present;
  ++present_;
  if (group.charged == 0) {
    lift_newly_active(group, to_level);
  } else {
    lift_for_lack_of_demand(group);
  }
  group.keeps_place = false;
  group.no_demand_since = now_;
  group.urgent_in_a_row = 0;
  const double each_ns = expected_ns(group);
  budget_ns -= each_ns;
  Turn::Segment& segment = open_segment(group, turn);
  segment.in_flight = segment.plain = true;
  ++group.own;
  segment.count = 1;
  segment.each_ns = segment.charged_ns = each_ns * charge_rate();
  group.served += over_weight(segment.charged_ns, group);
  turn.segment_of[turn.count] = static_cast<std::uint8_t>(turn.segment_count - 1);
  group.last_take = takes_;
  group.last_turn = &turn;
  group.last_end = static_cast<std::uint8_t>(turn.count + 1);
}

template <class Faults>
bool Scheduler<Faults>::take_here(TaskRecord& record, Turn& turn, Time now) {
  EventScope event(*this, now);
  if (closed_ || !layer1_free() || !parked_room() || record.leased) return false;
  const TaskLabel& label = record.label();
  Group* const known = groups_.find(label.key(), label.key_hash());
  Group& group = known != nullptr ? *known : find_or_create(label.key(), label.key_hash());
  if (known == nullptr) refresh(group);
  if (!is_plain_arrival(record, group) || group.waiting != 0 || group.running >= group.width) return false;
  ++takes_;
  turn.reset();
  turn.here = record.kept = true;
  double budget_ns = static_cast<double>(Turn::kLength.count());
  put_into(turn, group, record, budget_ns);
  turn.expected = Turn::kLength - Duration(static_cast<std::int64_t>(budget_ns));
  hand_out(turn);
  return true;
}

// The one place where permits are taken for a start: all layers or, since the caller has checked them all, none.
template <class Faults>
[[gnu::always_inline]] inline Turn::Segment& Scheduler<Faults>::open_segment(Group& group, Turn& turn) {
  Turn::Segment& segment = turn.add_segment(group);
  segment.concurrency = true;
  ++group.running;
  if (!turn.global) {
    turn.global = true;
    set_global_running(global_running_ + 1);
  }
  begin_charging(group);
  return segment;
}

template <class Faults>
void Scheduler<Faults>::start(TaskRecord& record, Turn::Segment& segment, Turn& turn) {
  Group& group = *segment.group;
  const bool from_door = record.phase == Phase::kAtDoor;
  remove_waiting(record);
  record.phase = Phase::kTaken;
  if (record.timed) {
    record.extras().turn = &turn;
    segment.plain = false;  // Its timer is to be disarmed when it ends.
  }
  record.own_account = !record.awaited;
  if (record.own_account && !segment.in_flight) {
    segment.in_flight = true;
    ++group.own;
  }
  const bool jumps_queue = from_door && group.urgent_in_a_row < kMostInARow;
  group.urgent_in_a_row = record.own_account && !jumps_queue ? 0 : one_more_in_a_row(group);
  group.continued_last = group.did_chores = false;
  if (group.pace) group.pace->bucket.try_take(now_);
  ++group.counters.started;
  if (!turn.measured) group.counters.queue_time += now_ - record.submitted_at;
  arm_run_limit(record);
  turn.segment_of[turn.count] = static_cast<std::uint8_t>(turn.segment_count - 1);
  turn.tasks[turn.count++] = &record;
  ++segment.count;
}

// Gives a worker to a task that has begun before: a coroutine with its permits, or a parked one that takes them again.
template <class Faults>
void Scheduler<Faults>::go_on(TaskRecord& record, Turn& turn) {
  Group& group = *record.group;
  if (is_meant_by_a_job(record) && !record.asked_to_stop && !record.is_claimed()) ask_to_stop(record);
  begin_charging(group);
  turn.goes_on = true;
  Turn::Segment& segment = turn.add_segment(group);
  segment.count = 1;
  turn.tasks[turn.count++] = &record;
  group.urgent_in_a_row = one_more_in_a_row(group);
  group.continued_last = record.phase == Phase::kContinuing;
  group.did_chores = false;
  if (record.phase == Phase::kContinuing) {
    unlist(group, group.continuing, record);
    if (record.holds_concurrency) end_suspended(record);
    turn.global = std::exchange(record.holds_global, false);
    segment.concurrency = std::exchange(record.holds_concurrency, false);
  } else {
    unlist(group, group.resumed, record);
    --group.resuming;
    --group.parked;
    --parked_;
    ++group.running;
    set_global_running(global_running_ + 1);
    turn.global = segment.concurrency = true;
  }
  segment.in_flight = record.own_account;
  record.phase = Phase::kTaken;
  if (record.timed) record.extras().turn = &turn;
  refresh(group);
}

template <class Faults>
void Scheduler<Faults>::hand_out(Turn& turn) {
  turn.taken_at = now_;
  turn.layer1_bound_before = layer1_bound();
  turn.current_started.store(now_.time_since_epoch().count(), std::memory_order_relaxed);
  turn.out = true;
  turns_.push_back(turn);
  few_per_group_ = turn.segment_count * 2 > turn.count;
  level_is_fresh_ = false;
  turn.publish();
}

}  // namespace cohort::internal
