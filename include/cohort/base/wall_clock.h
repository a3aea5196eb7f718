#pragma once

#include <chrono>

#include "cohort/base/clock.h"

namespace cohort {

/// A calendar time. It keeps its meaning after a restart and on other machines. Unlike a Clock, a WallClock may jump.
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

/// Returns `time + duration`, but at most WallTime::max().
[[nodiscard]] constexpr WallTime saturating_add(WallTime time, Duration duration) {
  const auto wanted = std::chrono::duration_cast<std::chrono::microseconds>(duration);
  return wanted > WallTime::max() - time ? WallTime::max() : time + wanted;
}

/// Tells the calendar time.
///
/// Thread-safety: now() is thread-safe.
class WallClock {
 public:
  virtual ~WallClock() = default;
  [[nodiscard]] virtual WallTime now() const = 0;
};

/// Returns the machine's wall clock. The object lives as long as the process.
[[nodiscard]] WallClock& system_wall_clock();

/// Returns a monotonic clock that also counts the time while the machine sleeps (CLOCK_BOOTTIME). For leases that other
/// nodes watch.
[[nodiscard]] Clock& boottime_clock();

}  // namespace cohort
