#include "group/group_policy.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cohort/task/internal/task_label.h"

namespace cohort::internal {
namespace {

// Fills what `limits` does not say from `next`, and notes where it came from.
void fall_back(GroupLimits& limits, LimitSources& sources, const GroupLimits& next, LimitSource from) {
  const auto fill = [from](auto& field, LimitSource& source, const auto& other) {
    if (field || !other) return;
    field = other;
    source = from;
  };
  fill(limits.max_concurrency, sources.max_concurrency, next.max_concurrency);
  fill(limits.max_in_flight, sources.max_in_flight, next.max_in_flight);
  fill(limits.max_waiting, sources.max_waiting, next.max_waiting);
  fill(limits.weight, sources.weight, next.weight);
  fill(limits.overflow, sources.overflow, next.overflow);
  fill(limits.rate, sources.rate, next.rate);
  fill(limits.max_overrunning, sources.max_overrunning, next.max_overrunning);
}

void fall_back(GroupLimits& limits, const GroupLimits& next) {
  LimitSources unused;
  fall_back(limits, unused, next, LimitSource::kBuiltIn);
}

ResolvedLimits corrected(const GroupLimits& limits) {
  const auto at_least_one = [](std::optional<Limit> value, std::uint32_t otherwise) {
    return std::max<std::uint32_t>(1, value.value_or(otherwise));
  };
  ResolvedLimits result;
  result.max_concurrency = at_least_one(limits.max_concurrency, result.max_concurrency);
  result.max_in_flight = at_least_one(limits.max_in_flight, result.max_in_flight);
  result.max_waiting = limits.max_waiting.value_or(result.max_waiting);
  result.max_overrunning = at_least_one(limits.max_overrunning, result.max_concurrency);
  // Out of this range sums of charges would lose precision; NaN fails the comparison too.
  const double weight = limits.weight.value_or(1.0);
  result.weight = weight > 0 ? std::clamp(weight, 1e-6, 1e6) : 1.0;
  result.overflow = limits.overflow.value_or(result.overflow);
  if (limits.rate && limits.rate->count != kUnlimited) result.rate = limits.rate;
  return result;
}

}  // namespace

GroupPolicy::GroupPolicy(GroupExecutorOptions& options)
    : groups_(std::make_move_iterator(options.groups.begin()), std::make_move_iterator(options.groups.end())),
      resolver_(std::move(options.resolver)),
      defaults_(options.defaults),
      shortest_queue_(resolver_ ? 1 : std::max(1U, corrected(defaults_).max_waiting)) {
  for (const auto& [key, limits] : groups_) {
    if (limits.max_waiting)
      shortest_queue_ = std::min(shortest_queue_, std::max<std::uint32_t>(1, *limits.max_waiting));
  }
}

GroupLimits GroupPolicy::ask(std::string_view key) const {
  if (!resolver_) return {};
  try {
    return resolver_(key);
  } catch (...) {
    return {};  // The documented meaning of a resolver that throws.
  }
}

GroupPolicy::Resolved GroupPolicy::resolve(std::string_view key, const GroupLimits& answer) const {
  Resolved resolved;
  GroupLimits limits;
  LimitSources sources;
  if (const auto change = changes_.find(key); change != changes_.end()) {
    fall_back(limits, sources, change->second.limits, LimitSource::kChanged);
    resolved.paused = change->second.paused || change->second.stopped;
  }
  if (const auto group = groups_.find(key); group != groups_.end()) {
    fall_back(limits, sources, group->second, LimitSource::kGroups);
  }
  fall_back(limits, sources, answer, LimitSource::kResolver);
  fall_back(limits, sources, defaults_, LimitSource::kDefaults);
  resolved.limits = corrected(limits);
  resolved.limits.sources = sources;
  return resolved;
}

void GroupPolicy::note_keys_that_block(KeySet& keys) const {
  const auto blocks = [](const GroupLimits& limits) {
    return limits.overflow && lets_submitters_wait(*limits.overflow);
  };
  if (blocks(defaults_)) keys.add_all();
  for (const auto& [key, limits] : groups_) {
    if (blocks(limits)) keys.add(TaskLabel::hash(key));
  }
}

void GroupPolicy::change(std::string_view key, const GroupLimits& limits) {
  Change& change = changes_[std::string(key)];
  GroupLimits merged = limits;
  if (merged.max_waiting) shortest_queue_ = std::min(shortest_queue_, std::max<std::uint32_t>(1, *merged.max_waiting));
  if (merged.max_concurrency && merged.max_concurrency->was_negative()) merged.max_concurrency = 1U;
  if (merged.max_concurrency) {
    change.stopped = *merged.max_concurrency == 0;
    if (change.stopped) merged.max_concurrency.reset();
  }
  fall_back(merged, change.limits);
  change.limits = merged;
}

void GroupPolicy::clear(std::string_view key) {
  const auto change = changes_.find(key);
  if (change == changes_.end()) return;
  change->second.limits = {};
  change->second.stopped = false;
  if (change->second == Change{}) changes_.erase(change);
}

void GroupPolicy::set_paused(std::string_view key, bool paused) {
  const std::string name(key);
  Change& change = changes_[name];
  change.paused = paused;
  if (!paused) change.stopped = false;
  if (change == Change{}) changes_.erase(name);  // Keys that came and went cost nothing.
}

bool GroupPolicy::is_paused(std::string_view key) const {
  const auto change = changes_.find(key);
  return change != changes_.end() && (change->second.paused || change->second.stopped);
}

ResolvedLimits changed(const ResolvedLimits& limits, const GroupLimits& change) {
  GroupLimits merged = change;
  const bool pauses = change.max_concurrency == 0U && !change.max_concurrency->was_negative();
  if (pauses) merged.max_concurrency.reset();
  const bool overrunning_follows = limits.max_overrunning == limits.max_concurrency;
  fall_back(merged, {.max_concurrency = limits.max_concurrency,
                     .max_in_flight = limits.max_in_flight,
                     .max_waiting = limits.max_waiting,
                     .weight = limits.weight,
                     .overflow = limits.overflow,
                     .rate = limits.rate,
                     .max_overrunning = {}});
  if (!merged.max_overrunning && !overrunning_follows) merged.max_overrunning = limits.max_overrunning;
  ResolvedLimits result = corrected(merged);
  result.sources = limits.sources;
  const auto note = [](const auto& field, LimitSource& source) {
    if (field) source = LimitSource::kChanged;
  };
  if (!pauses) note(change.max_concurrency, result.sources.max_concurrency);
  note(change.max_in_flight, result.sources.max_in_flight);
  note(change.max_waiting, result.sources.max_waiting);
  note(change.weight, result.sources.weight);
  note(change.overflow, result.sources.overflow);
  note(change.rate, result.sources.rate);
  note(change.max_overrunning, result.sources.max_overrunning);
  return result;
}

}  // namespace cohort::internal
