#pragma once

#include <atomic>

#include "cohort/base/assert.h"
#include "cohort/base/clock.h"

namespace cohort {

/// A clock that stands still until it is told to go on. Starts at one hour.
///
/// Thread-safety: now() is thread-safe; one thread at a time may set it.
class VirtualClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override { return Time(Duration(now_.load(std::memory_order_acquire))); }

  void advance(Duration duration) { set(now() + duration); }
  /// Time does not go back.
  void set(Time time) {
    COHORT_ASSERT(time >= now(), "virtual time does not go back");
    now_.store(time.time_since_epoch().count(), std::memory_order_release);
  }

 private:
  std::atomic<Duration::rep> now_{Duration(std::chrono::hours(1)).count()};
};

}  // namespace cohort
