#include "group/group_policy.h"

#include <algorithm>
#include <utility>

namespace cohort::internal {
namespace {

// Fills what `limits` does not say from `next`.
void fall_back(GroupLimits& limits, const GroupLimits& next) {
  const auto fill = [](auto& field, const auto& other) {
    if (!field) field = other;
  };
  fill(limits.max_concurrency, next.max_concurrency);
  fill(limits.max_in_flight, next.max_in_flight);
  fill(limits.max_waiting, next.max_waiting);
  fill(limits.weight, next.weight);
  fill(limits.overflow, next.overflow);
  fill(limits.rate, next.rate);
  fill(limits.max_overrunning, next.max_overrunning);
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
    : groups_(std::move(options.groups)),
      resolver_(std::move(options.resolver)),
      defaults_(options.defaults),
      shortest_queue_(resolver_ ? 1 : std::max(1U, corrected(defaults_).max_waiting)) {
  for (const auto& [key, limits] : groups_) {
    if (limits.max_waiting)
      shortest_queue_ = std::min(shortest_queue_, std::max<std::uint32_t>(1, *limits.max_waiting));
  }
}

GroupLimits GroupPolicy::ask_resolver(std::string_view key) {
  if (!resolver_) return {};
  try {
    return resolver_(key);
  } catch (...) {
    return {};  // The documented meaning of a resolver that throws.
  }
}

GroupPolicy::Resolved GroupPolicy::resolve(std::string_view key) {
  Resolved resolved;
  GroupLimits limits;
  const std::string name(key);
  if (const auto change = changes_.find(name); change != changes_.end()) {
    limits = change->second.limits;
    resolved.paused = change->second.paused || change->second.stopped;
  }
  if (const auto group = groups_.find(name); group != groups_.end()) fall_back(limits, group->second);
  fall_back(limits, ask_resolver(key));
  fall_back(limits, defaults_);
  resolved.limits = corrected(limits);
  return resolved;
}

bool GroupPolicy::blocks_submitters() const {
  const auto blocks = [](const GroupLimits& limits) { return limits.overflow == OverflowPolicy::kBlock; };
  return blocks(defaults_) || std::ranges::any_of(groups_, [&](const auto& each) { return blocks(each.second); });
}

void GroupPolicy::change(std::string_view key, const GroupLimits& limits) {
  Change& change = changes_[std::string(key)];
  GroupLimits merged = limits;
  if (merged.max_waiting) shortest_queue_ = std::min(shortest_queue_, std::max<std::uint32_t>(1, *merged.max_waiting));
  if (merged.max_concurrency) {
    change.stopped = *merged.max_concurrency == 0;
    if (change.stopped) merged.max_concurrency.reset();
  }
  fall_back(merged, change.limits);
  change.limits = merged;
}

void GroupPolicy::clear(std::string_view key) {
  const auto change = changes_.find(std::string(key));
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
  const auto change = changes_.find(std::string(key));
  return change != changes_.end() && (change->second.paused || change->second.stopped);
}

ResolvedLimits changed(const ResolvedLimits& limits, const GroupLimits& change) {
  GroupLimits merged = change;
  if (merged.max_concurrency == 0U) merged.max_concurrency.reset();
  const bool overrunning_follows = limits.max_overrunning == limits.max_concurrency;
  fall_back(merged, {.max_concurrency = limits.max_concurrency,
                     .max_in_flight = limits.max_in_flight,
                     .max_waiting = limits.max_waiting,
                     .weight = limits.weight,
                     .overflow = limits.overflow,
                     .rate = limits.rate,
                     .max_overrunning = {}});
  if (!merged.max_overrunning && !overrunning_follows) merged.max_overrunning = limits.max_overrunning;
  return corrected(merged);
}

}  // namespace cohort::internal
