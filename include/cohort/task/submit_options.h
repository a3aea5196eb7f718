#pragma once

#include <cstdint>
#include <optional>

#include "cohort/base/clock.h"

namespace cohort {

/// Goes first within its group; between groups the fair share decides.
enum class Priority : std::uint8_t { kHigh, kNormal, kLow };

inline constexpr int kPriorityCount = 3;

/// What one task asks for. Durations of 0 or less have run out at once.
struct SubmitOptions {
  /// How long it may wait before it settles as kTimedOutQueued.
  std::optional<Duration> queue_timeout = {};
  /// How long it may run, parked time included, before it settles as kTimedOutRunning.
  std::optional<Duration> run_timeout = {};
  /// The latest end: whichever of the two it is in when this comes.
  std::optional<Time> deadline = {};
  Priority priority = Priority::kNormal;

  friend bool operator==(const SubmitOptions&, const SubmitOptions&) = default;
};

}  // namespace cohort
