#pragma once

#include <chrono>

namespace cohort {

using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

/// `time + duration`, at most Time::max(): a wait of "for ever" must not come round to the past.
[[nodiscard]] constexpr Time saturating_add(Time time, Duration duration) {
  return duration > Time::max() - time ? Time::max() : time + duration;
}

/// Tells the time. Whatever waits, times out or measures is given one, so that tests can hold it in their hand.
///
/// Thread-safety: now() is thread-safe. It never goes back on one thread; two threads that talk to each other may see
/// it go back by very little, as a rule less than a microsecond. Example: cohort/testing/virtual_clock.h
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Time now() const = 0;
};

/// The machine's monotonic clock by the cheapest way that is exact: the time stamp counter where the kernel itself
/// trusts it (invariant and synchronised over the cores), std::chrono::steady_clock elsewhere. The object lives for
/// the life of the process. Both ways tell the same time as std::chrono::steady_clock within 100 us.
[[nodiscard]] Clock& system_clock();

namespace internal {

/// True where the kernel keeps time by the time stamp counter.
[[nodiscard]] bool tsc_is_trusted();

}  // namespace internal
}  // namespace cohort
