#pragma once

// Part of Scheduler: who is next. Weighted fair share by time.
//
// 1. A group is charged for the time its tasks occupy a thread; while layer 1 is full, for the time they hold it,
//    suspended coroutines included, at workers / global limit. Group::served is the sum over the weight. The least
//    served ready group goes next.
// 2. A turn is charged with what it is expected to take when it is taken, so that several workers do not pick the same
//    group; the difference is corrected when it ends. Long tasks are charged while they run (accrue).
// 3. A group is active while it is ready or charged. One that becomes active is lifted to level(): idleness earns
//    nothing. Nor does it earn anything to run little while others run much for lack of demand; but a group that only
//    its own layer 3 had kept from running (keeps_place) wanted to all along, and what it is behind is its due.
// 4. After 100 ms without activity it is also lowered to the level plus one turn: an old debt is forgotten.
// 5. The level is where the least served active groups would together fill all workers. With one worker that is the
//    least served one. With eight, a group limited to 1 falls ever farther behind the unlimited ones; a newcomer put
//    beside it would shut those out until they are level.

#include <algorithm>
#include <limits>

#include "group/scheduler.h"

namespace cohort::internal {

inline constexpr Duration kForgetDebtAfter = std::chrono::milliseconds(100);
inline constexpr double kNoLevel = std::numeric_limits<double>::infinity();

template <class Faults>
[[gnu::always_inline]] inline double Scheduler<Faults>::over_weight(double nanoseconds, const Group& group) {
  const double weight = group.limits->weight;
  return weight == 1.0 ? nanoseconds : nanoseconds / weight;  // Most have it, and a division takes long.
}

template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::charge(Group& group, double nanoseconds) {
  group.served += over_weight(nanoseconds, group);
  if (nanoseconds >= 0 || !group.is_ready()) return;  // The sets notice growth by themselves.
  for (ReadySet& set : ready_) {
    if (set.contains(group)) set.update(group);
  }
}

template <class Faults>
[[gnu::always_inline]] inline double Scheduler<Faults>::expected_ns(const Group& group) const {
  return group.expected_ns < 0 ? static_cast<double>(Turn::kLength.count()) : group.expected_ns;
}

template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::learn(Group& group, Duration total, std::uint32_t count) {
  if (count == 0) return;
  const double mean = count == 1 ? static_cast<double>(total.count()) : static_cast<double>(total.count()) / count;
  if (group.expected_ns < 0) {
    group.expected_ns = mean;
  } else {
    group.expected_ns += (mean - group.expected_ns) * (count == 1 ? 0.125 : count / (count + 7.0));
  }
}

// How long layer 1 has been full, all in all.
template <class Faults>
Duration Scheduler<Faults>::layer1_bound() const {
  return layer1_free() ? layer1_bound_total_ : layer1_bound_total_ + (now_ - layer1_bound_since_);
}

template <class Faults>
void Scheduler<Faults>::set_global_running(std::uint32_t running) {
  const bool was_free = layer1_free();
  const Duration bound = layer1_bound();
  global_running_ = running;
  if (was_free && !layer1_free()) layer1_bound_since_ = now_;
  if (!was_free && layer1_free()) layer1_bound_total_ = bound;
}

// What a second of thread time in this turn has cost on average: 1, less for the part in which layer 1 was full.
template <class Faults>
double Scheduler<Faults>::turn_rate(const Turn& turn) const {
  const Duration lasted = now_ - turn.taken_at;
  if (lasted <= Duration::zero()) return charge_rate();
  const Duration bound = layer1_bound() - turn.layer1_bound_before;
  const double part = static_cast<double>(bound.count()) / static_cast<double>(lasted.count());
  return 1.0 - part * (1.0 - bound_rate_);
}

// Charges the turns that are out for what their current task has used beyond expectation. Bounded by the number of
// workers, and done at most once per turn length.
template <class Faults>
void Scheduler<Faults>::accrue() {
  if (now_ - accrued_at_ < Turn::kLength) return;
  for (Turn* turn = turns_.front(); turn != nullptr; turn = IntrusiveList<Turn>::next(*turn)) accrue_turn(*turn);
  for (Turn* turn = chore_turns_.front(); turn != nullptr; turn = IntrusiveList<Turn>::next(*turn)) accrue_turn(*turn);
  accrued_at_ = now_;
  level_is_fresh_ = false;
}

template <class Faults>
void Scheduler<Faults>::accrue_turn(Turn& turn) {
  const std::uint32_t begun = turn.begun();
  if (begun == 0) return;
  for (std::uint32_t s = 0; s < turn.segment_count; ++s) {
    Turn::Segment& segment = turn.segments[s];
    if (begun - 1 < segment.first || begun - 1 >= segment.first + segment.count) continue;
    const Time started(Duration(turn.current_started.load(std::memory_order_relaxed)));
    if (turn.accrued_entry != begun) turn.accrued_ns = 0;
    turn.accrued_entry = begun;
    const double beyond = static_cast<double>((now_ - started).count()) * turn_rate(turn) - segment.each_ns;
    if (beyond <= turn.accrued_ns) return;
    segment.charged_ns += beyond - turn.accrued_ns;
    charge(*segment.group, beyond - turn.accrued_ns);
    turn.accrued_ns = beyond;
  }
}

// Suspended tasks hold layer 1 without a thread. Each is charged in advance with what suspensions of its group cost on
// average, else the group whose tasks hold longest would win every tie; the difference is corrected when it goes on.
template <class Faults>
void Scheduler<Faults>::begin_suspended(TaskRecord& record) {
  Group& group = *record.group;
  accrue_suspended(group);
  ++group.suspended;
  if (global_limit_ == kUnlimited) return;
  TaskExtras& extras = record.extras();
  extras.layer1_bound_before = layer1_bound();
  extras.prepaid_ns = group.holding->expected_ns;
  group.holding->paid_ns += extras.prepaid_ns;
  charge_holding(group);
  begin_charging(group);
}

template <class Faults>
void Scheduler<Faults>::end_suspended(TaskRecord& record) {
  Group& group = *record.group;
  accrue_suspended(group);
  --group.suspended;
  if (global_limit_ == kUnlimited) return;
  const TaskExtras& extras = record.extras();
  Group::Holding& holding = *group.holding;
  const Duration bound = layer1_bound() - extras.layer1_bound_before;
  const double cost = static_cast<double>(bound.count()) * bound_rate_;
  holding.expected_ns = holding.expected_ns == 0 ? cost : holding.expected_ns + (cost - holding.expected_ns) / 8;
  holding.paid_ns += cost - extras.prepaid_ns;
  charge_holding(group);
  if (group.suspended == 0) holding.due_ns = holding.paid_ns = holding.charged_ns = 0;
  end_charging(group);
}

template <class Faults>
void Scheduler<Faults>::accrue_suspended(Group& group) {
  if (global_limit_ == kUnlimited) return;
  if (!group.holding) group.holding = std::make_unique<Group::Holding>();
  const Duration bound = layer1_bound();
  const Duration held = bound - std::exchange(group.holding->layer1_bound_before, bound);
  group.holding->due_ns += static_cast<double>(held.count()) * bound_rate_ * group.suspended;
  charge_holding(group);
}

template <class Faults>
void Scheduler<Faults>::charge_holding(Group& group) {
  Group::Holding& holding = *group.holding;
  const double total = std::max(holding.due_ns, holding.paid_ns);
  const double more = total - std::exchange(holding.charged_ns, total);
  if (more != 0) charge(group, more);
}

template <class Faults>
double Scheduler<Faults>::level() {
  if (active_ == 0) return level_;
  if (level_is_fresh_ && now_ - accrued_at_ < Turn::kLength) return level_;
  accrue();
  level_is_fresh_ = true;
  // Groups that run and want no more, or may have no more. A turn fills one worker, whatever is in it; of its groups
  // the last stands for all: they are near to one another, or they would not be in one turn.
  in_service_.clear();
  for (Turn* turn = turns_.front(); turn != nullptr; turn = IntrusiveList<Turn>::next(*turn)) {
    if (turn->segment_count == 0) continue;
    const Group& group = *turn->segments[turn->segment_count - 1].group;
    if (!group.is_ready()) in_service_.push_back(group.served);
  }
  for (Turn* turn = chore_turns_.front(); turn != nullptr; turn = IntrusiveList<Turn>::next(*turn)) {
    const Group& group = *turn->segments[0].group;
    if (!group.is_ready()) in_service_.push_back(group.served);
  }
  std::ranges::sort(in_service_);
  std::optional<double> lowest;
  for (const ReadyKind kind : {kReadyUrgent, kReadyNormal, kReadyForChores}) {
    if (!ready_[kind].empty()) lowest = std::min(level_of(&ready_[kind]), lowest.value_or(kNoLevel));
  }
  if (!lowest && !in_service_.empty()) lowest = level_of(nullptr);
  if (lowest) level_ = *lowest;
  return level_;
}

// Goes through the groups in service and those of `set`, the least served first, until they fill all workers.
template <class Faults>
double Scheduler<Faults>::level_of(const ReadySet* set) const {
  double reached = 0;
  double unfilled = workers_ - 0.001;
  auto next = in_service_.begin();
  const auto add = [&](double served, double width) {
    reached = std::max(reached, served);
    unfilled -= width;
    return unfilled > 0;
  };
  const auto add_in_service_to = [&](double served) {
    while (unfilled > 0 && next != in_service_.end() && *next <= served) add(*next++, 1.0);
  };
  if (set != nullptr) {
    set->visit_in_order([&](const Group& group) {
      add_in_service_to(group.served);
      return unfilled > 0 && add(group.served, group.limits->max_concurrency);
    });
  }
  add_in_service_to(kNoLevel);
  return reached;
}

template <class Faults>
void Scheduler<Faults>::on_ready(Group& group) {
  const bool was_active = group.charged != 0;
  if (was_active) {
    lift_for_lack_of_demand(group);
    ready_weight_ += group.limits->weight;
    return;
  }
  ++active_;
  ready_weight_ += group.limits->weight;
  lift_newly_active(group, level());
}

template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::lift_newly_active(Group& group, double to_level) {
  if (!Faults::kIdleKeepsCredit) group.served = std::max(group.served, to_level);
  if (now_ - group.inactive_since >= kForgetDebtAfter) {
    group.served = std::min(group.served, to_level + static_cast<double>(Turn::kLength.count()) / group.limits->weight);
  }
}

// For a group that was charged all the time, but had nothing waiting: while it ran on `charged` workers and wanted no
// more, those it left to the others earned it nothing.
template <class Faults>
void Scheduler<Faults>::lift_for_lack_of_demand(Group& group) {
  // Tasks in a turn that have not begun are as good as waiting.
  const bool has_unstarted = group.last_turn != nullptr && group.last_turn->begun() < group.last_end;
  if (group.keeps_place || has_unstarted || ready_weight_ <= 0 || workers_ <= group.charged) return;
  const auto lasted = static_cast<double>((now_ - group.no_demand_since).count());
  const double others = lasted * (workers_ - group.charged) / ready_weight_;
  const double own = lasted * group.charged / group.limits->weight;
  const double gained = std::min(others - own, level() - group.served);
  if (gained > 0 && !Faults::kIdleKeepsCredit) group.served += gained;
}

template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::on_unready(Group& group) {
  ready_weight_ -= group.limits->weight;
  if (active_ == 1) ready_weight_ = 0;  // No rounding errors for ever.
  group.keeps_place = group.waiting != 0 && group.running >= group.limits->max_concurrency && !group.paused;
  group.no_demand_since = now_;
  if (group.charged == 0) on_inactive(group);
}

template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::begin_charging(Group& group) {
  if (group.charged++ == 0 && !group.is_ready()) ++active_;
}

template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::end_charging(Group& group) {
  if (--group.charged == 0 && !group.is_ready()) on_inactive(group);
}

template <class Faults>
[[gnu::always_inline]] inline void Scheduler<Faults>::on_inactive(Group& group) {
  group.inactive_since = now_;
  // The last one to go leaves its mark: whoever comes next starts beside it, not before it.
  if (--active_ == 0) level_ = std::max(level_, group.served);
  level_is_fresh_ = active_ == 0;
}

}  // namespace cohort::internal
