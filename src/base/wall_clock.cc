#include "cohort/base/wall_clock.h"

#include <ctime>

namespace cohort {

namespace {

class SystemWallClock final : public WallClock {
 public:
  [[nodiscard]] WallTime now() const override {
    return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  }
};

class BoottimeClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override {
    timespec at{};
    clock_gettime(CLOCK_BOOTTIME, &at);
    return Time(std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec));
  }
};

}  // namespace

WallClock& system_wall_clock() {
  static SystemWallClock clock;
  return clock;
}

Clock& boottime_clock() {
  static BoottimeClock clock;
  return clock;
}

}  // namespace cohort
