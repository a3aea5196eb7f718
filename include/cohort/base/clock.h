#pragma once

#include <chrono>

namespace cohort {

using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

/// Returns `time + duration`, but at most Time::max(). So the end of a very long wait cannot overflow into the past.
[[nodiscard]] constexpr Time saturating_add(Time time, Duration duration) {
  return duration > Time::max() - time ? Time::max() : time + duration;
}

/// Tells the time. Code that waits, times out or measures takes a Clock, so that a test can control the time.
///
/// Thread-safety: now() is thread-safe. On one thread the time never goes back. A thread that has just synchronised
/// with another thread may read a slightly earlier time than the other thread did, as a rule by less than a
/// microsecond. Example: cohort/testing/virtual_clock.h
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Time now() const = 0;
};

/// Returns the machine's monotonic clock. The clock reads the processor's time stamp counter if the kernel itself
/// trusts that counter (it is then invariant and synchronised over the cores). Otherwise it reads
/// std::chrono::steady_clock. Either way the time is within 100 us of std::chrono::steady_clock. The object lives as
/// long as the process.
[[nodiscard]] Clock& system_clock();

namespace internal {

/// True if the kernel uses the time stamp counter as its clock source.
[[nodiscard]] bool tsc_is_trusted();

}  // namespace internal
}  // namespace cohort
