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

/// The settings of an executor.
///
/// The executor resolves a group's limits on the group's first use. It takes each field from the first of these that
/// sets it: `groups`, `resolver`, `defaults`, the built-in value. If the resolver throws, the executor acts as if the
/// resolver had set nothing. The resolver runs on the thread of a caller or a worker, with no lock held; several
/// threads may call it at the same time. Tasks that are submitted to the group in the meantime wait.
struct GroupExecutorOptions {
  std::unordered_map<std::string, GroupLimits> groups = {};
  Function<GroupLimits(std::string_view key)> resolver = {};
  GroupLimits defaults = {};
  /// Layer 1: how many tasks may run at the same time over all groups.
  Limit global_max_in_flight = kUnlimited;
  /// The number of workers for tasks that do not block. 0 means one per core of the machine.
  Limit threads = 0;
  /// The largest number of threads when tasks block; threads of parked tasks do not count. At least threads + 1. One
  /// group may occupy max_threads - threads - 1 of them, but at least `threads`.
  Limit max_threads = 256;
  /// While this many tasks are parked, the executor starts only awaited tasks. While one group has a quarter of this
  /// number parked, that group starts only awaited tasks. At least 4.
  Limit max_parked = 1000;
  /// Adaptive admission: if true, the executor estimates how long a new task would wait, from its group's queue and
  /// recent run times. It rejects the task at once if the task's deadline or queue_timeout would come first.
  bool reject_hopeless = false;
  /// A group that has been unused for this time is evicted, at the latest after twice this time. A group with a rate
  /// stays until all tokens of its rate are back. The counters of an evicted group stay in the totals.
  Duration evict_after = std::chrono::seconds(60);
  /// Receives the lifecycle events of every task, on the thread where the event happens and with no lock held. The
  /// listener must be quick. Several threads may call it at the same time. Exceptions of the listener are ignored.
  Function<void(const TaskEvent&)> listener = {};
  /// Null means system_clock(). The clock must advance by itself; for virtual time use a ManualExecutor.
  Clock* clock = nullptr;
  /// Called for a thread, given by its kernel id, that has been in one task for long. Returns true if the thread is
  /// blocked, false if it computes. Empty: the executor asks the kernel. Only one thread calls the probe, and that
  /// thread runs no other code of a user.
  Function<bool(std::int32_t thread_id)> blocked_probe = {};
};

}  // namespace cohort
