#pragma once

#include <chrono>

#include "cohort/base/wall_clock.h"
#include "cohort/testing/virtual_clock.h"

namespace cohort {

/// A wall clock in virtual time. It moves with a VirtualClock; a skew makes it wrong on purpose.
///
/// Thread-safety: thread-safe, except set_skew().
class VirtualWallClock final : public WallClock {
 public:
  explicit VirtualWallClock(const VirtualClock& clock, Duration skew = Duration::zero()) : clock_(clock), skew_(skew) {}

  [[nodiscard]] WallTime now() const override {
    constexpr WallTime kStart = std::chrono::sys_days(std::chrono::year(2026) / 1 / 1);
    return kStart + std::chrono::duration_cast<std::chrono::microseconds>(clock_.now().time_since_epoch() + skew_);
  }
  void set_skew(Duration skew) { skew_ = skew; }

 private:
  const VirtualClock& clock_;
  Duration skew_;
};

}  // namespace cohort
