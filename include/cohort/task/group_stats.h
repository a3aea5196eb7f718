#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cohort/base/clock.h"
#include "cohort/task/group_limits.h"
#include "cohort/task/task_status.h"

namespace cohort {

/// What keeps a waiting task from starting.
enum class Bound : std::uint8_t {
  kNothing,      ///< It is running, or settled.
  kWorkers,      ///< Its permits are free; every worker is busy, or others are ahead by their share.
  kGlobal,       ///< Layer 1: global_max_in_flight.
  kInFlight,     ///< Layer 2: the group's max_in_flight.
  kConcurrency,  ///< Layer 3: the group's max_concurrency.
  kRate,         ///< The group's rate.
  kPaused,       ///< The group is paused.
  kOverrunning,  ///< Bodies past their time-out: the group's max_overrunning.
  kParked,       ///< max_parked, or the group's quarter of it.
  kDependency,   ///< It follows a task that has not ended.
  kDoor,         ///< The queue is full and its submitter waits for a place.
};

inline constexpr int kBoundCount = 11;

[[nodiscard]] std::string_view to_string(Bound bound);

/// What has been counted since the beginning.
struct TaskCounters {
  std::uint64_t submitted = 0;
  std::uint64_t started = 0;
  Duration queue_time{0};                                 ///< Of those that started.
  Duration thread_time{0};                                ///< How long their bodies occupied a thread.
  std::array<std::uint64_t, kTaskStatusCount> settled{};  ///< By TaskStatus.

  [[nodiscard]] std::uint64_t count(TaskStatus status) const { return settled[static_cast<std::size_t>(status)]; }
  [[nodiscard]] std::uint64_t settled_total() const;
  TaskCounters& operator+=(const TaskCounters& other);
};

/// One group as it is now.
struct GroupStats {
  std::string group;
  std::uint64_t waiting = 0;      ///< In the queue.
  std::uint32_t running = 0;      ///< Holding a permit of layer 3.
  std::uint32_t parked = 0;       ///< Awaiting another task.
  std::uint32_t in_flight = 0;    ///< On the group's own account, as layer 2 counts.
  std::uint32_t overrunning = 0;  ///< Timed out, body not yet back.
  bool paused = false;
  ResolvedLimits limits;
  TaskCounters counters;
  std::array<Duration, kBoundCount> blocked{};  ///< By Bound: how long waiting tasks were kept by it.

  [[nodiscard]] Duration blocked_by(Bound bound) const { return blocked[static_cast<std::size_t>(bound)]; }
};

/// The whole executor as it is now; `counters` include groups that have been evicted.
struct ExecutorStats {
  std::uint64_t groups = 0;
  std::uint64_t waiting = 0;
  std::uint32_t running = 0;
  std::uint32_t parked = 0;
  std::uint32_t overrunning = 0;
  TaskCounters counters;
};

}  // namespace cohort
