#pragma once

// Part of Scheduler: turns that are out. What comes back of them, and how they end.

#include "group/scheduler.h"
#include "group/scheduler_scopes.h"

namespace cohort::internal {

template <class Faults>
void Scheduler<Faults>::give_back(Turn& turn, Time now) {
  EventScope event(*this, now);
  if (!turn.out) return;
  if (turn.of_chores) return give_back_chores(turn);
  // Perhaps on the thread that looks for blocked bodies: what ends here is dropped by a chore.
  const bool was_in_tick = std::exchange(in_tick_, true);
  give_back_rest(turn);
  end_finished(turn);
  in_tick_ = was_in_tick;
}

// What has not begun goes back to the front of its queues, in its order, with its tokens and its part of the charge.
template <class Faults>
void Scheduler<Faults>::give_back_rest(Turn& turn) {
  if (turn.goes_on) return;  // Its one task has begun long ago, even if its worker has not come to it yet.
  if (turn.begun() == turn.count) return;
  const std::uint32_t kept = turn.take_back();
  if (turn.count == kept) return;
  while (turn.count > kept) {
    TaskRecord& record = *turn.tasks[--turn.count];
    Turn::Segment& segment = turn.segments[turn.segment_count - 1];
    Group& group = *segment.group;
    segment.charged_ns -= segment.each_ns;
    charge(group, -segment.each_ns);
    --segment.count;
    undo_start(record, turn);
    if (turn.here) {
      forget_here(record);
    } else {
      enqueue_again(group, record);
    }
    const bool emptied = segment.count == 0;
    if (emptied) {
      release_segment(segment);
      --turn.segment_count;
    }
    refresh(group);
    if (group.last_turn == &turn) group.last_turn = nullptr;
    if (emptied) end_charging(group);
  }
  if (kept == 0) {
    release_global(turn.global);
    return;
  }
  // The current task alone is left of its group: a place in layer 2 that others had needed is free.
  Turn::Segment& current = turn.segments[turn.segment_count - 1];
  if (!turn.tasks[kept - 1]->own_account) release_place(*current.group, current.in_flight);
  refresh(*current.group);
}

// What start() had counted for a task that did not begin after all.
template <class Faults>
void Scheduler<Faults>::undo_start(TaskRecord& record, const Turn& turn) {
  Group& group = *record.group;
  --group.counters.started;
  if (!turn.measured) group.counters.queue_time -= turn.taken_at - record.submitted_at;
  if (group.pace) group.pace->bucket.put_back(now_);
  record.own_account = false;
}

// It is as if it had never been there: the thread that brought it sees that it has not begun.
template <class Faults>
void Scheduler<Faults>::forget_here(TaskRecord& record) {
  --record.group->counters.submitted;
  --record.group->present;
  --present_;
  record.group = nullptr;
  record.phase = Phase::kNew;
  record.kept = false;
}

// For a task that was taken: true when it had not begun, and waits again.
template <class Faults>
bool Scheduler<Faults>::take_out_of_turn(TaskRecord& record) {
  if (record.phase != Phase::kTaken || record.has_begun()) return false;
  for (Turn* turn = turns_.front(); turn != nullptr; turn = IntrusiveList<Turn>::next(*turn)) {
    const auto end = turn->tasks.begin() + turn->count;
    if (std::find(turn->tasks.begin() + turn->ended_tasks, end, &record) == end) continue;
    give_back_rest(*turn);
    if (Faults::kKeepPermitOfCancelled && record.phase == Phase::kWaiting) ++record.group->running;
    break;
  }
  return record.phase == Phase::kWaiting;
}

template <class Faults>
void Scheduler<Faults>::give_back_rest_of(const Group& group) {
  for (Turn* turn = turns_.front(); turn != nullptr; turn = IntrusiveList<Turn>::next(*turn)) {
    for (std::uint32_t i = turn->begun(); i < turn->count; ++i) {
      if (&turn->group_of(i) != &group) continue;
      give_back_rest(*turn);
      break;
    }
  }
}

template <class Faults>
void Scheduler<Faults>::finish(Turn& turn, Time now) {
  EventScope event(*this, now);
  if (turn.of_chores) return finish_chores(turn);
  give_back_rest(turn);
  wind_up(turn, nullptr);
}

// Ends a turn whose unstarted rest has been given back: charges what it used, returns its permits and forgets its
// tasks. `stays` is the one that has not ended: its permits become the record's own.
template <class Faults>
void Scheduler<Faults>::wind_up(Turn& turn, TaskRecord* stays) {
  const double rate = turn_rate(turn);
  ends_turn_ = true;
  if (std::exchange(turn.out, false)) turns_.erase(turn);  // First, so that nobody charges it any more.
  Turn::Used all;
  if (!turn.here) actions_.forgotten.reserve(actions_.forgotten.size() + turn.count);
  for (std::uint32_t s = turn.ended_segments; s < turn.segment_count; ++s) {
    if (s + 4 < turn.segment_count) turn.segments[s + 4].group->prefetch();
    end_segment(turn, turn.segments[s], rate, stays, all);
  }
  if (all.tasks != 0) mean_ns_ += (static_cast<double>(all.time.count()) / all.tasks - mean_ns_) / 8;
  if (stays != nullptr) stays->holds_global = std::exchange(turn.global, false);
  release_global(turn.global);
  turn.reset();
  ends_turn_ = false;
  level_is_fresh_ = false;
}

template <class Faults>
void Scheduler<Faults>::end_segment(Turn& turn, Turn::Segment& segment, double rate, TaskRecord* stays,
                                    Turn::Used& all) {
  Group& group = *segment.group;
  const bool is_plain = segment.plain && !segment.split && group.plain && turn.measured;
  if (stays == nullptr && is_plain && segment.succeeded == segment.count) {
    return end_plain_segment(turn, segment, rate, all);
  }
  const Turn::Used used = end_tasks(turn, segment, stays);
  charge(group, static_cast<double>(used.time.count()) * rate - segment.charged_ns);
  learn(group, used.time, used.tasks);
  all.time += used.time;
  all.tasks += used.tasks;
  if (stays != nullptr && stays->group == &group) {
    stays->holds_concurrency = std::exchange(segment.concurrency, false);
    if (stays->own_account) segment.in_flight = false;
  }
  release_segment(segment);
  if (group.last_turn == &turn) group.last_turn = nullptr;
  // In this order: a group that can run on goes straight from being charged to being ready, and keeps its place.
  refresh(group);
  end_charging(group);
}

// Ends the tasks in front of the current one although the turn goes on, and gives the permits back of groups that have
// no others in it. The worker has moved the cursor past these tasks: it has written all it had to say about them, and
// will not look at them again.
template <class Faults>
void Scheduler<Faults>::end_finished(Turn& turn) {
  const std::uint32_t begun = turn.begun();
  if (turn.goes_on || begun == 0) return;
  const double rate = turn_rate(turn);
  Turn::Used all;
  while (turn.ended_segments < turn.segment_count) {
    Turn::Segment& segment = turn.segments[turn.ended_segments];
    if (segment.first + segment.count >= begun) break;
    end_segment(turn, segment, rate, nullptr, all);
    turn.ended_tasks = segment.first + segment.count;
    ++turn.ended_segments;
  }
  if (turn.ended_segments < turn.segment_count) end_head(turn, turn.segments[turn.ended_segments], begun - 1, rate);
}

// Ends the tasks of the current segment that come before the current task. What the worker has added up for the segment
// belongs to the worker until the turn ends; these tasks are measured by their records.
template <class Faults>
void Scheduler<Faults>::end_head(Turn& turn, Turn::Segment& segment, std::uint32_t current, double rate) {
  if (segment.first >= current) return;
  Turn::Segment head;
  head.group = segment.group;
  head.first = segment.first;
  head.count = current - segment.first;
  const Turn::Used used = end_tasks(turn, head, nullptr);
  const double charged_ns = segment.each_ns * head.count;
  charge(*head.group, static_cast<double>(used.time.count()) * rate - charged_ns);
  learn(*head.group, used.time, used.tasks);
  segment.charged_ns -= charged_ns;
  segment.first = turn.ended_tasks = current;
  segment.count -= head.count;
  segment.split = true;
  // A place in layer 2 that only the tasks before had needed is free.
  const auto needs_place = [](const TaskRecord* record) { return record->own_account; };
  if (std::none_of(&turn.tasks[segment.first], &turn.tasks[segment.first] + segment.count, needs_place)) {
    release_place(*head.group, segment.in_flight);
  }
  refresh(*head.group);
}

// What tasks of a plain group have used that have all been measured.
template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::count_plain(Group& group, const Turn::Segment& segment,
                                                                  double rate, Turn::Used& all) {
  const Duration used(static_cast<std::int64_t>(std::max(segment.used_ns - segment.outside_ns, 0.0F)));
  all.time += used;
  all.tasks += segment.count;
  group.served += over_weight(static_cast<double>(used.count()) * rate - segment.charged_ns, group);
  learn(group, used, segment.count);
  group.expected_whole_ns = static_cast<float>(group.expected_ns);
  group.counters.thread_time += used;
  group.counters.queue_time += Duration(static_cast<std::int64_t>(segment.queued_ns));
  group.counters.settled[static_cast<std::size_t>(segment.last_status)] += segment.count;
  group.present -= segment.count;
  present_ -= segment.count;
}

// Ends a segment of such tasks that have all succeeded: nobody will ask for them any more, so they are dropped without
// a look. What they are left with (phase, group) means nothing once they are done.
template <class Faults>
inline void Scheduler<Faults>::end_plain_segment(Turn& turn, Turn::Segment& segment, double rate, Turn::Used& all) {
  Group& group = *segment.group;
  count_plain(group, segment, rate, all);
  group.suspends = false;
  for (std::uint32_t i = 0; i < segment.count && !turn.here; ++i) {
    TaskRecord& record = *turn.tasks[segment.first + i];
    in_tick_ ? put_chore(group, Chore::drop(record)) : actions_.forgotten.push_back(&record);
  }
  release_segment(segment);
  if (group.last_turn == &turn) group.last_turn = nullptr;
  ReadySet& set = ready_[kReadyNormal];
  if (set.contains(group)) set.update(group);  // It may have been charged too much.
  refresh_plain(group);
  end_charging(group);
}

// Completes and forgets a segment's tasks, all but `stays`, and says what they used.
template <class Faults>
auto Scheduler<Faults>::end_tasks(Turn& turn, const Turn::Segment& segment, const TaskRecord* stays) -> Turn::Used {
  Turn::Used used;
  for (std::uint32_t i = segment.first; i < segment.first + segment.count; ++i) {
    TaskRecord& record = *turn.tasks[i];
    const Time started = turn.goes_on ? std::max(turn.taken_at, turn.entered_body) : record.started_at;
    // (One that ran out of time may not have been published yet.)
    const bool is_current = turn.count == 1 || &record == stays || record.overrunning;
    // (The time that it waits for the lock afterwards is not its own.)
    const Time ended = is_current ? std::clamp(turn.left_body, started, std::max(now_, started)) : record.ended_at;
    const Duration spent = ended - started;
    used.time += spent;
    ++used.tasks;
    if (turn.measured && !turn.goes_on) segment.group->counters.queue_time += record.started_at - record.submitted_at;
    if (&record == stays) {
      segment.group->counters.thread_time += spent;
    } else {
      if (!turn.goes_on) segment.group->suspends = false;
      complete(record, spent, ended);
    }
  }
  const Duration outside(static_cast<std::int64_t>(segment.outside_ns));
  used.time -= std::min(used.time, outside);
  return used;
}

template <class Faults>
void Scheduler<Faults>::complete(TaskRecord& record, Duration thread_time, Time ended) {
  Group& group = *record.group;
  group.counters.thread_time += thread_time;
  const auto took = static_cast<float>((ended - record.started_at).count());
  group.expected_whole_ns =
      group.expected_whole_ns < 0 ? took : group.expected_whole_ns + (took - group.expected_whole_ns) / 8;
  if (record.claimed_by_body) ++group.counters.settled[static_cast<std::size_t>(record.status())];
  if (record.overrunning) {
    --group.overrunning;
    --overrunning_;
  }
  forget(record);
}

// The current task leaves its turn with the permits it holds; the worker is free.
template <class Faults>
TaskRecord& Scheduler<Faults>::leave_turn(Turn& turn) {
  give_back_rest(turn);
  TaskRecord& record = *turn.tasks[turn.count - 1];
  wind_up(turn, &record);
  record.group->suspends = true;
  return record;
}

template <class Faults>
void Scheduler<Faults>::sleep(Turn& turn, Time until, Time now) {
  EventScope event(*this, now);
  TaskRecord& record = leave_turn(turn);
  Group& group = *record.group;
  record.phase = Phase::kSuspended;
  group.aside.push_back(record);
  if (record.holds_concurrency) begin_suspended(record);
  arm_wake(record, until);
  refresh(group);
}

template <class Faults>
void Scheduler<Faults>::arm_wake(TaskRecord& record, Time until) {
  TaskExtras& extras = record.extras();
  extras.woken_by_stop = extras.sleeps_until_stop && record.asked_to_stop;  // While it was on its way to its sleep.
  prompt_timers_.arm(extras.wake, extras.woken_by_stop ? now_ : until);
}

// A task that was let go while its thread was parked sleeps: from here on it is a coroutine without permits.
template <class Faults>
void Scheduler<Faults>::sleep_let_go(TaskRecord& record, Time until, Time now) {
  EventScope event(*this, now);
  record.let_go = false;
  record.phase = Phase::kSuspended;
  record.group->aside.push_back(record);
  arm_wake(record, until);
}

template <class Faults>
void Scheduler<Faults>::release_segment(Turn::Segment& segment) {
  release_concurrency(*segment.group, segment.concurrency);
  release_place(*segment.group, segment.in_flight);
}

template <class Faults>
void Scheduler<Faults>::release_global(bool& held) {
  if (std::exchange(held, false)) set_global_running(global_running_ - 1);
}

template <class Faults>
void Scheduler<Faults>::release_concurrency(Group& group, bool& held) {
  if (std::exchange(held, false)) --group.running;
}

template <class Faults>
void Scheduler<Faults>::release_place(Group& group, bool& held) {
  if (std::exchange(held, false)) --group.own;
}

}  // namespace cohort::internal
