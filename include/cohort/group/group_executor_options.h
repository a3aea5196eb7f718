#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cohort/base/clock.h"
#include "cohort/base/function.h"
#include "cohort/base/unlimited.h"
#include "cohort/task/group_limits.h"
#include "cohort/task/task_event.h"

namespace cohort {

/// How an executor of groups is set up.
///
/// A group's limits are resolved field by field on its first use: `groups`, then `resolver`, then `defaults`, then the
/// built-in value. A resolver that throws counts as one that says nothing. It is called on the thread of a submitter or
/// a worker, with no lock held, perhaps by several threads at once; what is submitted to its group meanwhile waits.
struct GroupExecutorOptions {
  std::unordered_map<std::string, GroupLimits> groups = {};
  Function<GroupLimits(std::string_view key)> resolver = {};
  GroupLimits defaults = {};
  /// Layer 1: how many tasks run at all, over all groups.
  Limit global_max_in_flight = kUnlimited;
  /// Workers for tasks that do not block. 0: as many as the machine has cores.
  Limit threads = 0;
  /// How many there may be when tasks block, parked ones not counted; at least threads + 1. One group may occupy all
  /// but threads + 1 of them.
  Limit max_threads = 256;
  /// How many tasks may be parked before only awaited ones are started; one group is held to a quarter of it. At
  /// least 4.
  Limit max_parked = 1000;
  /// Adaptive admission: a task whose deadline or queue_timeout is nearer than the wait to be expected, by its group's
  /// queue and recent run times, is rejected when it comes instead of timing out later.
  bool reject_hopeless = false;
  /// A group unused for so long, and at most twice that, is forgotten; its counters stay in the totals.
  Duration evict_after = std::chrono::seconds(60);
  /// Told of the life of every task, on whichever thread it happens, with no lock held. It must be quick and may be
  /// called by several threads at once; what it throws is ignored.
  Function<void(const TaskEvent&)> listener = {};
  /// Null: system_clock(). It must run like a clock: an executor in virtual time is a ManualExecutor.
  Clock* clock = nullptr;
  /// Whether a thread, given by its kernel id, has been in a task for long because it is blocked, not because it
  /// computes. Empty: what the kernel says of it. Called by one thread that does nothing else of a user's.
  Function<bool(std::int32_t thread_id)> blocked_probe = {};
};

}  // namespace cohort
