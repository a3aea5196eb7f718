#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cohort/base/clock.h"
#include "cohort/task/group_limits.h"
#include "cohort/task/task_status.h"

namespace cohort {

/// The reason why a waiting task does not start.
enum class Bound : std::uint8_t {
  kNothing,      ///< The task does not wait to start: it runs, is parked or has settled.
  kWorkers,      ///< Its permits are free, but every worker is busy, or the fair share puts other groups first.
  kGlobal,       ///< Layer 1: global_max_in_flight.
  kInFlight,     ///< Layer 2: the group's max_in_flight.
  kConcurrency,  ///< Layer 3: the group's max_concurrency.
  kRate,         ///< The group's rate.
  kPaused,       ///< The group is paused.
  kOverrunning,  ///< The group's max_overrunning: so many bodies run past their time-out.
  kParked,       ///< max_parked, or the quarter of it that one group may use.
  kDependency,   ///< The task follows another task (see TaskHandle::then) that has not ended.
  kDoor,         ///< The queue is full; the task waits for a place in it.
};

inline constexpr int kBoundCount = 11;

[[nodiscard]] std::string_view to_string(Bound bound);

/// Counters since a group came into memory, or since an executor was made.
struct TaskCounters {
  std::uint64_t submitted = 0;
  std::uint64_t started = 0;
  Duration queue_time{0};                                 ///< How long the started tasks had waited, added up.
  Duration thread_time{0};                                ///< How long bodies occupied a thread, added up.
  std::array<std::uint64_t, kTaskStatusCount> settled{};  ///< Number of settled tasks, by TaskStatus.

  [[nodiscard]] std::uint64_t count(TaskStatus status) const { return settled[static_cast<std::size_t>(status)]; }
  [[nodiscard]] std::uint64_t settled_total() const;
  TaskCounters& operator+=(const TaskCounters& other);
};

/// The current state of one group.
struct GroupStats {
  std::string group;
  std::uint64_t waiting = 0;      ///< Tasks in the queue.
  std::uint32_t running = 0;      ///< Permits of layer 3 that running tasks hold.
  std::uint32_t parked = 0;       ///< Tasks that await another task.
  std::uint32_t in_flight = 0;    ///< Places of layer 2 in use. A task that started as an awaited task needs none.
  std::uint32_t overrunning = 0;  ///< Tasks that have timed out but whose body has not returned yet.
  bool paused = false;
  ResolvedLimits limits;
  TaskCounters counters;
  std::array<Duration, kBoundCount> blocked{};  ///< By Bound: how long it kept the group's waiting tasks from starting.

  [[nodiscard]] Duration blocked_by(Bound bound) const { return blocked[static_cast<std::size_t>(bound)]; }
};

/// The current state of the whole executor. `counters` include groups that have been evicted.
struct ExecutorStats {
  std::uint64_t groups = 0;
  std::uint64_t waiting = 0;
  std::uint32_t running = 0;
  std::uint32_t parked = 0;
  std::uint32_t overrunning = 0;
  TaskCounters counters;
};

}  // namespace cohort
