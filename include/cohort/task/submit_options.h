#pragma once

#include <cstdint>
#include <optional>

#include "cohort/base/clock.h"

namespace cohort {

/// The order of tasks within a group: higher priority starts first. Between groups the fair share decides.
enum class Priority : std::uint8_t { kHigh, kNormal, kLow };

inline constexpr int kPriorityCount = 3;

/// The options of one task. A duration of 0 or less runs out at once.
struct SubmitOptions {
  /// How long the task may wait before it settles as kTimedOutQueued.
  std::optional<Duration> queue_timeout = {};
  /// How long the task may run, including parked time, before it settles as kTimedOutRunning.
  std::optional<Duration> run_timeout = {};
  /// The latest end. At this time a waiting task settles as kTimedOutQueued, a running one as kTimedOutRunning.
  std::optional<Time> deadline = {};
  Priority priority = Priority::kNormal;

  friend bool operator==(const SubmitOptions&, const SubmitOptions&) = default;
};

}  // namespace cohort
