#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cohort/base/clock.h"
#include "cohort/base/function.h"
#include "cohort/base/unlimited.h"
#include "cohort/task/group_limits.h"

namespace cohort {

/// How an executor of groups is set up.
///
/// A group's limits are resolved field by field on its first use: `groups`, then `resolver`, then `defaults`, then the
/// built-in value. A resolver that throws counts as one that says nothing. It must be quick, and not call the executor.
struct GroupExecutorOptions {
  std::unordered_map<std::string, GroupLimits> groups = {};
  Function<GroupLimits(std::string_view key)> resolver = {};
  GroupLimits defaults = {};
  /// Layer 1: how many tasks run at all, over all groups.
  std::uint32_t global_max_in_flight = kUnlimited;
  /// Workers for tasks that do not block. 0 leaves it to the executor.
  std::uint32_t threads = 0;
  /// How many tasks may be parked before only awaited ones are started; one group is held to a quarter of it. At
  /// least 4.
  std::uint32_t max_parked = 1000;
  /// A group unused for so long is forgotten; its counters stay in the totals.
  Duration evict_after = std::chrono::seconds(60);
};

}  // namespace cohort
