#pragma once

// Part of Scheduler: chores, which are users' code that follows from what has happened (see Chore).
//
// A group with chores is ready like one with tasks, and a worker takes some of them as a turn without permits. So they
// are charged to their group, and one whose destructors take long delays its own settlements and nobody else's.
//
// A group may be far behind its share, because bodies that have not been told to stop are charged to it, while other
// groups keep all workers busy. So the groups also stand in a line (ChoreLine): a thread that does nothing but chores
// takes those of the group that has waited longest.

#include "group/scheduler.h"
#include "group/scheduler_scopes.h"

namespace cohort::internal {

template <class Faults>
void Scheduler<Faults>::put_chore(Group& group, const Chore& chore) {
  if (own_call_) {
    actions_.own.push_back(chore);
  } else {
    leave_to_workers(group, chore);
  }
}

template <class Faults>
void Scheduler<Faults>::leave_to_workers(Group& group, const Chore& chore) {
  group.chores.push_back(chore);
  ++group.chores_open;
  ++chores_open_;
  if (chore.refuses) {
    ++group.refusals_open;
    ++refusals_open_;
  }
  group.plain = false;
  if (ready_[kReadyForChores].contains(group) || !may_do_chores(group)) return;
  if (!group.is_ready()) on_ready(group);
  set_ready_for_chores(group, true);
}

// Chores of one group may block as many threads as its bodies may, both together; but one thread always.
template <class Faults>
bool Scheduler<Faults>::may_do_chores(const Group& group) const {
  if (group.chores.empty()) return false;
  return group.chore_turns == 0 ||
         group.running - group.suspended + group.overrunning + group.chore_turns < threads_for_one_group_;
}

template <class Faults>
void Scheduler<Faults>::set_ready_for_chores(Group& group, bool ready) {
  if (ready) {
    ready_[kReadyForChores].insert(group);
    chore_line_.push_back(group, now_);
  } else {
    ready_[kReadyForChores].erase(group);
    chore_line_.erase(group);
  }
}

template <class Faults>
bool Scheduler<Faults>::take_chores(Turn& turn, Time now) {
  EventScope event(*this, now);
  Group* const group = chore_line_.front();
  if (group == nullptr) return false;
  turn.reset();
  take_chores_of(*group, turn);
  return true;
}

// As many as should fill a turn. Of a group whose chores have not been seen yet, a few.
template <class Faults>
void Scheduler<Faults>::take_chores_of(Group& group, Turn& turn) {
  constexpr double kUnknown = static_cast<double>(Turn::kLength.count()) / 8;
  const double each_ns = group.chore_ns > 0 ? group.chore_ns : kUnknown;
  const double fitting = std::clamp(static_cast<double>(Turn::kLength.count()) / each_ns, 1.0, 1.0 * Turn::kMaxTasks);
  Turn::Segment& segment = turn.add_segment(group);
  begin_charging(group);
  while (turn.count < static_cast<std::uint32_t>(fitting) && !group.chores.empty()) {
    turn.chores[turn.count++] = group.chores.pop_front();
  }
  group.did_chores = true;
  segment.count = turn.count;
  segment.each_ns = each_ns;
  segment.charged_ns = each_ns * turn.count;
  charge(group, segment.charged_ns);
  ++group.chore_turns;
  refresh(group);
  if (ready_[kReadyForChores].contains(group)) {
    chore_line_.erase(group);
    chore_line_.push_back(group, now_);
  }
  ++chore_turns_taken_;
  turn.of_chores = turn.out = true;
  turn.taken_at = now_;
  turn.expected = Duration(static_cast<std::int64_t>(segment.charged_ns));
  turn.layer1_bound_before = layer1_bound();
  turn.current_started.store(now_.time_since_epoch().count(), std::memory_order_relaxed);
  chore_turns_.push_back(turn);
  level_is_fresh_ = false;
  turn.publish();
}

template <class Faults>
void Scheduler<Faults>::give_back_chores(Turn& turn) {
  const std::uint32_t kept = turn.take_back();
  if (kept == turn.count) return;
  Turn::Segment& segment = turn.segments[0];
  Group& group = *segment.group;
  const double returned_ns = segment.each_ns * (turn.count - kept);
  segment.charged_ns -= returned_ns;
  charge(group, -returned_ns);
  while (turn.count > kept) group.chores.push_front(turn.chores[--turn.count]);
  segment.count = kept;
  refresh(group);
}

template <class Faults>
void Scheduler<Faults>::finish_chores(Turn& turn) {
  give_back_chores(turn);
  turn.out = false;
  chore_turns_.erase(turn);
  const Turn::Segment segment = turn.segments[0];
  Group& group = *segment.group;
  const Duration spent = std::clamp(turn.left_body, turn.taken_at, std::max(now_, turn.taken_at)) - turn.taken_at;
  const auto spent_ns = static_cast<double>(spent.count());
  charge(group, spent_ns - segment.charged_ns);
  group.counters.thread_time += spent;
  if (segment.count != 0) {
    const double mean = spent_ns / segment.count;
    const double learned = group.chore_ns > 0 ? segment.count / (segment.count + 3.0) : 1.0;
    group.chore_ns += static_cast<float>((mean - group.chore_ns) * learned);
  }
  const auto done = std::span(turn.chores).first(segment.count);
  const auto refusals = static_cast<std::uint32_t>(std::ranges::count(done, true, &Chore::refuses));
  group.chores_open -= segment.count;
  chores_open_ -= segment.count;
  group.refusals_open -= refusals;
  refusals_open_ -= refusals;
  --group.chore_turns;
  turn.reset();
  refresh(group);
  end_charging(group);
  level_is_fresh_ = false;
}

}  // namespace cohort::internal
