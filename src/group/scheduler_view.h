#pragma once

// Part of Scheduler: what is seen from outside.

#include <algorithm>

#include "group/scheduler.h"
#include "group/scheduler_scopes.h"

namespace cohort::internal {

// What keeps the group's next waiting task. Where several do, the one that the group's owner can do most about.
template <class Faults>
Bound Scheduler<Faults>::bound_of(const Group& group, bool awaited) const {
  if (group.paused) return Bound::kPaused;
  if (group.overrunning >= group.limits->max_overrunning) return Bound::kOverrunning;
  if (group.running >= group.limits->max_concurrency) return Bound::kConcurrency;
  if (group.pace && group.pace->bucket.available(now_) == 0) return Bound::kRate;
  if (!awaited && group.own >= group.limits->max_in_flight) return Bound::kInFlight;
  if (!awaited && (group.parked >= max_parked_ / 4 || !parked_room())) return Bound::kParked;
  if (!layer1_free()) return Bound::kGlobal;
  return Bound::kWorkers;
}

// Something else binds the group now. Adds the time since the last change to what bound it then.
template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::note_bound(Group& group, Bound bound) {
  const Bound before = std::exchange(group.bound, bound);
  const Duration passed = now_ - std::exchange(group.bound_since, now_);
  if (global_limit_ == kUnlimited && before == Bound::kWorkers) {
    group.blocked_by_workers += passed;
  } else {
    add_blocked(group, before, passed);
  }
}

// Of the time in which it was ready, the part with layer 1 full is that layer's.
template <class Faults>
void Scheduler<Faults>::add_blocked(Group& group, Bound by, Duration passed) {
  if (!group.blocked) {
    if (by == Bound::kNothing && global_limit_ == kUnlimited) return;
    group.blocked = std::make_unique<Group::Blocked>();
  }
  const Duration bound_now = layer1_bound();
  const Duration layer1 = bound_now - std::exchange(group.blocked->layer1_bound_before, bound_now);
  if (by == Bound::kNothing) return;
  const auto blocked = [&](Bound each) -> Duration& {
    return each == Bound::kWorkers ? group.blocked_by_workers : group.blocked->by[static_cast<std::size_t>(each)];
  };
  if (by == Bound::kWorkers || by == Bound::kGlobal) {
    if (layer1 != Duration::zero()) blocked(Bound::kGlobal) += layer1;
    blocked(Bound::kWorkers) += passed - layer1;
  } else if (passed != Duration::zero()) {
    blocked(by) += passed;
  }
}

// A task may have its result before the worker has given the turn back. (What the worker writes of a task it writes
// before the result can be seen.)
template <class Faults>
auto Scheduler<Faults>::ended_in_turns(const Group& group) const -> EndedInTurns {
  EndedInTurns ended;
  for (Turn* turn = turns_.front(); turn != nullptr; turn = IntrusiveList<Turn>::next(*turn)) {
    const std::uint32_t begun = turn->begun();
    for (std::uint32_t s = turn->ended_segments; s < turn->segment_count; ++s) {
      const Turn::Segment& segment = turn->segments[s];
      if (segment.group != &group) continue;
      const std::uint32_t end = segment.first + segment.count;
      std::uint32_t i = segment.first;
      for (; i < std::min(end, begun); ++i) {
        const TaskRecord& record = *turn->tasks[i];
        if (!record.is_done() || record.overrunning) break;
        ++ended.tasks;
        if (record.claimed_by_body) ++ended.counters.settled[static_cast<std::size_t>(record.status())];
      }
      if (i != end) continue;
      if (segment.concurrency) ++ended.running;
      if (segment.in_flight) ++ended.own;
    }
  }
  return ended;
}

template <class Faults>
ExecutorStats Scheduler<Faults>::stats() const {
  ExecutorStats stats{.groups = groups_.size(),
                      .waiting = waiting_,
                      .running = 0,
                      .parked = parked_,
                      .overrunning = overrunning_,
                      .counters = evicted_};
  groups_.for_each([&](const Group& group) {
    stats.counters += group.counters;
    stats.running += group.running;
    if (group.running == 0) return;
    const EndedInTurns ended = ended_in_turns(group);
    stats.counters += ended.counters;
    stats.running -= ended.running;
  });
  return stats;
}

template <class Faults>
Result<GroupStats> Scheduler<Faults>::group_stats(std::string_view key, Time now) {
  EventScope event(*this, now);
  Group* group = find(key);
  if (group == nullptr) {
    return Error{ErrorCode::kNotFound, "group '" + std::string(key) + "' has no tasks and has had none lately", {}};
  }
  note_bound(*group, group->bound);
  auto blocked = group->blocked ? group->blocked->by : std::array<Duration, kBoundCount>{};
  blocked[static_cast<std::size_t>(Bound::kWorkers)] = group->blocked_by_workers;
  const EndedInTurns ended = ended_in_turns(*group);
  TaskCounters counters = group->counters;
  counters += ended.counters;
  return GroupStats{.group = std::string(group->key),
                    .waiting = group->waiting,
                    .running = group->running - ended.running,
                    .parked = group->parked,
                    .in_flight = group->own - ended.own,
                    .overrunning = group->overrunning,
                    .paused = group->paused,
                    .limits = *group->limits,
                    .counters = counters,
                    .blocked = blocked};
}

template <class Faults>
bool Scheduler<Faults>::find_active(std::size_t& place, std::vector<std::string>& keys) const {
  for (int left = Faults::kPortion; left > 0; --left) {
    const Group* const group = groups_.next(place);
    if (group == nullptr) return false;
    place = group->place + std::size_t{1};
    if (group->present == 0) continue;
    if (group->present > group->overrunning + ended_in_turns(*group).tasks) keys.emplace_back(group->key);
  }
  return true;
}

template <class Faults>
Duration Scheduler<Faults>::estimated_wait(std::string_view key) const {
  const Group* group = find(key);
  return group == nullptr ? Duration(0) : expected_wait(*group, group->waiting);
}

// For a task with `ahead` others before it in the queue: the permits of the group have to come back often enough, and
// the workers have to get through what is ahead. A task that runs is taken to be half done.
template <class Faults>
Duration Scheduler<Faults>::expected_wait(const Group& group, std::uint64_t ahead) const {
  if (group.expected_whole_ns < 0) return Duration(0);
  const double width = std::min(group.limits->max_concurrency, global_limit_);
  const double running = group.running - ended_in_turns(group).running;
  const auto waiting = static_cast<double>(ahead);
  if (waiting + running < width) return Duration(0);
  const double by_permits = static_cast<double>(group.expected_whole_ns) * (waiting + running - width + 0.5) / width;
  const double by_workers = std::max(group.expected_ns, 0.0) * waiting / workers_;
  constexpr double kLongest = 1e18;
  return Duration(static_cast<std::int64_t>(std::min(std::max(by_permits, by_workers), kLongest)));
}

// How many tasks of the queue a new one of this priority would have to wait for; counts only some where many wait.
template <class Faults>
std::uint64_t Scheduler<Faults>::count_before(const Group& group, Priority priority) const {
  const auto is_empty = [](const TaskList& queue) { return queue.empty(); };
  const auto lower = group.queues.begin() + static_cast<std::ptrdiff_t>(priority) + 1;
  if (std::all_of(lower, group.queues.end(), is_empty)) return group.waiting;
  std::uint64_t count = 0;
  for (auto queue = group.queues.begin(); queue != lower; ++queue) {
    for (TaskRecord* task = queue->front(); task != nullptr && count < static_cast<std::uint64_t>(Faults::kPortion);
         task = TaskList::next(*task))
      ++count;
  }
  return count;
}

template <class Faults>
Explanation Scheduler<Faults>::explain(TaskRecord& record, Time now) {
  EventScope event(*this, now);
  const std::string who = "task '" + record.task_id() + "'";
  if (record.is_claimed() || record.group == nullptr) {
    const std::string body = record.overrunning && record.group != nullptr ? "; its body has not returned yet" : "";
    return {.bound = Bound::kNothing,
            .ahead = 0,
            .holders = {},
            .text = who + " is settled: " + std::string(to_string(record.status())) + body};
  }
  const Group& group = *record.group;
  Explanation result;
  switch (record.phase) {
    case Phase::kDependent:
      result.bound = Bound::kDependency;
      result.holders.push_back(record.extras().predecessor->task_id());
      result.text = who + " follows task '" + result.holders.front() + "', which has not ended";
      return result;
    case Phase::kAtDoor:
      result.bound = Bound::kDoor;
      result.ahead = count_ahead(group, record);
      break;
    case Phase::kWaiting:
      result.bound = bound_of(group, record.awaited);
      result.ahead = count_ahead(group, record);
      break;
    case Phase::kResuming:
      result.bound = group.running >= group.limits->max_concurrency ? Bound::kConcurrency
                     : layer1_free()                                ? Bound::kWorkers
                                                                    : Bound::kGlobal;
      break;
    case Phase::kParked:
      for (const TaskRef& awaited : record.extras().awaiting->records()) {
        if (result.holders.size() == 8) break;
        if (!awaited->is_done()) result.holders.push_back(awaited->task_id());
      }
      result.text = who + " is parked: " +
                    (result.holders.empty() ? "what it awaited has just come"
                                            : "it awaits task '" + result.holders.front() + "'");
      return result;
    default: result.text = who + (record.has_begun() ? " is running" : " is about to run"); return result;
  }
  result.holders = holders(group, result.bound);
  const std::string some = result.ahead == kMostLookedAt ? "at least " : "";
  result.text = describe(group, result.bound) + "; " + some + std::to_string(result.ahead) + " ahead";
  return result;
}

template <class Faults>
std::string Scheduler<Faults>::describe(const Group& group, Bound bound) const {
  const auto of = [](std::uint64_t used, std::uint64_t limit) {
    return std::to_string(used) + " of " + std::to_string(limit);
  };
  const std::string name = "group '" + std::string(group.key) + "'";
  switch (bound) {
    case Bound::kConcurrency: return name + " runs " + of(group.running, group.limits->max_concurrency);
    case Bound::kInFlight: return name + " has " + of(group.own, group.limits->max_in_flight) + " in flight";
    case Bound::kGlobal: return "all groups together run " + of(global_running_, global_limit_);
    case Bound::kPaused: return name + " is paused";
    case Bound::kRate: {
      const Duration next = group.pace->bucket.next_at(now_) - now_;
      return name + " may start its next in " +
             std::to_string(std::chrono::ceil<std::chrono::milliseconds>(next).count()) + " ms by its rate";
    }
    case Bound::kOverrunning:
      return name + " has " + of(group.overrunning, group.limits->max_overrunning) + " bodies past their time-out";
    case Bound::kParked:
      if (parked_room()) return name + " has " + of(group.parked, max_parked_ / 4) + " tasks parked";
      return "all groups together have " + of(parked_, max_parked_) + " tasks parked";
    case Bound::kDoor: return text_of(how_full(group, Why::kFull), group.key);
    default: return name + " may run as soon as a worker comes to it";
  }
}

// At most eight: the group's own tasks where its own limits bind, else the groups that hold what it lacks.
template <class Faults>
std::vector<std::string> Scheduler<Faults>::holders(const Group& group, Bound bound) const {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    if (names.size() < kMost && std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  };
  const bool own = bound == Bound::kConcurrency || bound == Bound::kInFlight || bound == Bound::kOverrunning ||
                   bound == Bound::kParked;
  const bool others = bound == Bound::kGlobal || bound == Bound::kWorkers;
  if (!own && !others) return names;
  for (Turn* turn = turns_.front(); turn != nullptr; turn = IntrusiveList<Turn>::next(*turn)) {
    const std::uint32_t begun = turn->begun();
    if (begun == 0) continue;
    const Group& current = turn->group_of(begun - 1);
    if (others) add(current.key);
    if (own && &current == &group) add(std::string(turn->tasks[begun - 1]->label().id()));
  }
  if (own) {
    for (TaskRecord* task = group.aside.front(); task != nullptr && names.size() < kMost;
         task = TaskList::next(*task)) {
      add(task->task_id());
    }
  } else {
    std::size_t place = 0;
    for (int left = kMostLookedAt; left > 0 && names.size() < kMost; --left) {
      const Group* const other = groups_.next(place);
      if (other == nullptr) break;
      place = other->place + std::size_t{1};
      if (other->suspended != 0) add(other->key);
    }
  }
  return names;
}

// Resumed and awaited tasks go first, then by priority; the every-fourth rule makes this an estimate. Counts no further
// than kMostLookedAt.
template <class Faults>
std::uint64_t Scheduler<Faults>::count_ahead(const Group& group, const TaskRecord& record) const {
  std::uint64_t ahead = 0;
  const auto count = [&](const TaskList& list) {
    for (TaskRecord* task = list.front(); task != nullptr; task = TaskList::next(*task)) {
      if (task == &record || ahead == kMostLookedAt) return false;
      ++ahead;
    }
    return true;
  };
  bool more = count(group.resumed) && count(group.awaited) && count(group.callers);
  for (const TaskList& queue : group.queues) more = more && count(queue);
  if (more) count(group.door);
  return ahead;
}

}  // namespace cohort::internal
