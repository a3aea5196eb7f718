#pragma once

#include <chrono>

#include "cohort/base/clock.h"

namespace cohort {

/// A time of day, for what must mean the same after a restart and on other machines. Unlike Time it may jump.
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

/// `time + duration`, at most WallTime::max().
[[nodiscard]] constexpr WallTime saturating_add(WallTime time, Duration duration) {
  const auto wanted = std::chrono::duration_cast<std::chrono::microseconds>(duration);
  return wanted > WallTime::max() - time ? WallTime::max() : time + wanted;
}

/// Tells the time of day.
///
/// Thread-safety: now() is thread-safe.
class WallClock {
 public:
  virtual ~WallClock() = default;
  [[nodiscard]] virtual WallTime now() const = 0;
};

/// The machine's. The object lives for the life of the process.
[[nodiscard]] WallClock& system_wall_clock();

/// A monotonic clock that also counts the time the machine was asleep (CLOCK_BOOTTIME): for leases that others watch.
[[nodiscard]] Clock& boottime_clock();

}  // namespace cohort
