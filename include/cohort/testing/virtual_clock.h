#pragma once

#include <atomic>

#include "cohort/base/assert.h"
#include "cohort/base/clock.h"

namespace cohort {

/// A clock that changes only by advance() and set(). It starts at one hour.
///
/// Thread-safety: now() is thread-safe. Only one thread at a time may call advance() or set().
class VirtualClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override { return Time(Duration(now_.load(std::memory_order_acquire))); }

  void advance(Duration duration) { set(now() + duration); }
  /// Sets the time, which must not be earlier than now().
  void set(Time time) {
    COHORT_ASSERT(time >= now(), "virtual time does not go back");
    now_.store(time.time_since_epoch().count(), std::memory_order_release);
  }

 private:
  std::atomic<Duration::rep> now_{Duration(std::chrono::hours(1)).count()};
};

}  // namespace cohort
