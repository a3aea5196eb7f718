#pragma once

// Part of Scheduler: time-outs, the ends of sleeps, rates, eviction.

#include "group/scheduler.h"
#include "group/scheduler_scopes.h"

namespace cohort::internal {

template <class Faults>
void Scheduler<Faults>::arm_queue_limit(TaskRecord& record) {
  TaskExtras* extras = record.extras_if_any();
  if (extras == nullptr) return;
  disarm_limit(*extras);
  Time limit = extras->options.deadline.value_or(Time::max());
  if (extras->options.queue_timeout) {
    limit = std::min(limit, saturating_add(record.submitted_at, *extras->options.queue_timeout));
  }
  if (limit != Time::max()) limit_timers_.arm(extras->limit, limit);
}

template <class Faults>
void Scheduler<Faults>::disarm_limit(TaskExtras& extras) {
  (extras.limit.is_prompt ? prompt_timers_ : limit_timers_).disarm(extras.limit);
  extras.limit.is_prompt = false;
}

template <class Faults>
void Scheduler<Faults>::arm_promptly(TaskExtras& extras, Time limit) {
  disarm_limit(extras);
  if (limit == Time::max()) return;
  extras.limit.is_prompt = true;
  prompt_timers_.arm(extras.limit, limit);
}

template <class Faults>
void Scheduler<Faults>::arm_run_limit(TaskRecord& record) {
  TaskExtras* extras = record.extras_if_any();
  if (extras == nullptr) return;
  Time limit = extras->options.deadline.value_or(Time::max());
  if (extras->options.run_timeout) limit = std::min(limit, saturating_add(now_, *extras->options.run_timeout));
  arm_promptly(*extras, limit);
}

template <class Faults>
bool Scheduler<Faults>::limit_run(TaskRecord& record, std::optional<Time> end, Time now) {
  EventScope event(*this, now);
  COHORT_ASSERT(record.timed, "only the end of a task that was submitted with one can be changed");
  if (record.overrunning || record.group == nullptr) return false;
  record.extras().body_limit = end.value_or(Time::max());
  arm_promptly(record.extras(), end.value_or(Time::max()));
  return true;
}

template <class Faults>
void Scheduler<Faults>::disarm(TaskRecord& record) {
  if (TaskExtras* extras = record.extras_if_any()) {
    disarm_limit(*extras);
    prompt_timers_.disarm(extras->wake);
  }
}

template <class Faults>
void Scheduler<Faults>::tick(Time now) {
  EventScope event(*this, now);
  tick_some(Faults::kPortion);
  many_are_due_ = next_timer().value_or(Time::max()) <= now_;
}

// Of what is due at most so many, the others next time. Each queue has a share of them, so that none waits until
// another is empty: there may always be sleeps that are due.
template <class Faults>
void Scheduler<Faults>::tick_some(int most) {
  in_tick_ = true;
  const auto fire_some = [&](TimerQueue& timers, int& left, auto&& fire) {
    for (Timer* timer = nullptr; left > 0 && (timer = timers.pop_due(now_)) != nullptr; --left) fire(*timer);
  };
  const auto on_alarm = [this](Timer& timer) { sound(timer); };
  const auto on_rate = [this](Timer& timer) { refresh(static_cast<Group::Pace::RateTimer&>(timer).group); };
  const auto on_task_timer = [this](Timer& timer) {
    auto& owned = static_cast<TaskExtras::OwnedTimer&>(timer);
    owned.is_prompt = owned.wakes;
    if (owned.wakes) {
      on_wake(owned.record);
    } else {
      on_limit(owned.record);
    }
  };
  int left = 0;
  const auto with_share = [&](TimerQueue& timers, auto&& fire) {
    int share = std::max(1, most / 4);
    fire_some(timers, share, fire);
    left += share;
  };
  with_share(alarm_timers_, on_alarm);
  with_share(rate_timers_, on_rate);
  with_share(prompt_timers_, on_task_timer);
  with_share(limit_timers_, on_task_timer);
  fire_some(alarm_timers_, left, on_alarm);
  fire_some(rate_timers_, left, on_rate);
  fire_some(prompt_timers_, left, on_task_timer);
  fire_some(limit_timers_, left, on_task_timer);
  if (evict_at_ <= now_) evict_idle();
  in_tick_ = false;
}

template <class Faults>
void Scheduler<Faults>::sound(Timer& alarm) {
  put_chore(house_, Chore::call(static_cast<Alarm&>(alarm)));
}

template <class Faults>
void Scheduler<Faults>::set_alarm(std::unique_ptr<Alarm> alarm, Time at, Time now) {
  EventScope event(*this, now);
  const OwnCall own(*this);
  alarm_timers_.arm(*alarm.release(), at);
  if (ended_) sound_all();
}

template <class Faults>
void Scheduler<Faults>::fire_alarms(Time now) {
  EventScope event(*this, now);
  const OwnCall own(*this);
  closed_ = ended_ = true;
  sound_all();
}

template <class Faults>
void Scheduler<Faults>::sound_all() {
  while (Timer* timer = alarm_timers_.pop_due(Time::max())) sound(*timer);
}

template <class Faults>
void Scheduler<Faults>::on_wake(TaskRecord& record) {
  if (record.phase != Phase::kSuspended && record.phase != Phase::kParked) return;
  forget_far_wait(record);
  record.extras().awaiting = nullptr;
  stop_waiting(record);
}

template <class Faults>
void Scheduler<Faults>::on_limit(TaskRecord& record) {
  Group& group = *record.group;
  const bool waits = record.phase == Phase::kWaiting || record.phase == Phase::kAtDoor || take_out_of_turn(record);
  if (waits && record.try_claim(TaskStatus::kTimedOutQueued)) {
    settle_and_forget(record, Why::kTimedOutWaiting);
  } else if (!waits) {
    on_run_limit(record);
  }
  refresh(group);
}

// For a task that waits in the queue or at the door and could start now.
template <class Faults>
bool Scheduler<Faults>::is_out_of_time(const TaskRecord& record) const {
  if (!record.special || (record.phase != Phase::kWaiting && record.phase != Phase::kAtDoor)) return false;
  const Timer& limit = record.extras_if_any()->limit;
  return limit.armed() && limit.when() <= now_;
}

template <class Faults>
void Scheduler<Faults>::end_out_of_time(TaskRecord& record) {
  disarm_limit(record.extras());
  on_limit(record);
}

// The handle settles, the permits return, and the body is on its own.
template <class Faults>
void Scheduler<Faults>::on_run_limit(TaskRecord& record) {
  // First, so that its worker cannot go on to the next one: if it has not ended yet, it is the last of its turn.
  if (record.phase == Phase::kTaken && !record.let_go) give_back_rest(*record.extras().turn);
  const bool won = record.try_claim(TaskStatus::kTimedOutRunning);
  if (!won && !Faults::kSettleTwice) return;  // The body ended in the same moment.
  ++record.group->counters.settled[static_cast<std::size_t>(record.status())];
  put_chore(*record.group, Chore::settle(record, Why::kTimedOutRunning, true, false));
  if (!won) return;
  ask_to_stop(record);
  strip_permits(record);
  overrun(record);
}

template <class Faults>
void Scheduler<Faults>::strip_permits(TaskRecord& record) {
  Group& group = *record.group;
  if (record.phase == Phase::kTaken) {
    Turn& turn = *record.extras().turn;  // What came after it has been given back, and what came before it has ended.
    end_finished(turn);
    Turn::Segment& segment = turn.segments[turn.segment_count - 1];
    release_concurrency(group, segment.concurrency);
    release_place(group, segment.in_flight);
    release_global(turn.global);
    record.own_account = false;
    return;
  }
  if (record.holds_concurrency) end_suspended(record);
  release_concurrency(group, record.holds_concurrency);
  release_place(group, record.own_account);
  release_global(record.holds_global);
}

template <class Faults>
void Scheduler<Faults>::overrun(TaskRecord& record) {
  Group& group = *record.group;
  record.overrunning = true;
  ++group.overrunning;
  ++overrunning_;
  const bool awaits_outside = record.phase == Phase::kSuspended && record.extras().awaiting != nullptr;
  if (record.phase != Phase::kParked && record.phase != Phase::kResuming && !awaits_outside) return;

  // Its await fails now; a coroutine needs a worker to hear of it, a blocked thread only has to be let go.
  unlist(group, record.phase == Phase::kResuming ? group.resumed : group.aside, record);
  if (record.phase == Phase::kResuming) --group.resuming;
  if (!awaits_outside) {
    --group.parked;
    --parked_;
  }
  forget_far_wait(record);
  record.extras().awaiting = nullptr;
  prompt_timers_.disarm(record.extras().wake);
  record.extras().out_of_time = true;
  if (!record.blocks_thread) {
    record.phase = Phase::kContinuing;
    group.continuing.push_back(record);
  } else {
    record.phase = Phase::kTaken;
    record.let_go = true;
    actions_.let_go.push_back(&record);
  }
}

// A group that is used again stays in the line until its time comes: one that comes and goes all the time costs
// nothing.
template <class Faults>
void Scheduler<Faults>::note_idle(Group& group) {
  if (!group.is_unused() || group.idle_listed) return;
  stand_in_line(group);
  if (evict_at_ == Time::max()) arm_eviction();
}

template <class Faults>
void Scheduler<Faults>::stand_in_line(Group& group) {
  group.idle_listed = true;
  group.in_line_since = now_;
  idle_groups_.push_back(group);
}

// The group is removed as soon as nothing of it is left: its tasks have ended, but a turn has not been given back.
template <class Faults>
void Scheduler<Faults>::evict_soon(Group& group, Duration after) {
  group.evict_soon = true;
  if (group.idle_listed) idle_groups_.erase(group);
  group.idle_listed = true;
  group.in_line_since = now_ - evict_after_ + after;
  idle_groups_.push_front(group);
  evict_at_ = now_ + after;
}

// Not at once again: whoever evicts many does it in steps and lets others have the scheduler in between.
template <class Faults>
void Scheduler<Faults>::arm_eviction() {
  const Group* first = idle_groups_.front();
  if (first == nullptr) {
    evict_at_ = Time::max();
    return;
  }
  const Time due = saturating_add(first->in_line_since, evict_after_);
  evict_at_ = std::max(due, saturating_add(now_, std::chrono::microseconds(250)));
}

// A bounded number at a time. A group that is busy leaves the line; one that has been used in between, or whose tokens
// are not all back yet, goes to its end.
template <class Faults>
void Scheduler<Faults>::evict_idle() {
  static constexpr Duration kBusyLook = std::chrono::milliseconds(10);
  IntrusiveList<Group> busy;
  for (int i = 0; i < Faults::kPortion; ++i) {
    Group* group = idle_groups_.front();
    if (group == nullptr || saturating_add(group->in_line_since, evict_after_) > now_) break;
    idle_groups_.erase(*group);
    group->idle_listed = false;
    const bool soon = group->evict_soon;
    group->evict_soon = false;
    if (soon && group->present == ended_in_turns(*group).tasks && !group->is_unused()) {
      busy.push_back(*group);  // A chore of it is under way.
      continue;
    }
    if (!group->is_unused()) continue;
    if (!soon && (saturating_add(group->inactive_since, evict_after_) > now_ ||
                  (group->pace && !group->pace->bucket.full(now_)))) {
      stand_in_line(*group);
      continue;
    }
    remove_group(*group);
  }
  while (Group* group = busy.front()) {
    busy.erase(*group);
    evict_soon(*group, kBusyLook);
  }
  arm_eviction();
}

template <class Faults>
void Scheduler<Faults>::remove_group(Group& group) {
  if (group.pace) rate_timers_.disarm(group.pace->timer);
  evicted_ += group.counters;
  groups_.erase(group);
}

}  // namespace cohort::internal
