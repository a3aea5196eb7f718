#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "cohort/base/clock.h"

namespace cohort {

/// How many second tries there may be: retries must not make a flood out of a failure.
///
/// Over the last ten seconds, at most a part of the first tries, but always so many a second. A try counts when it is
/// decided on, so one that still waits in its back-off is counted too.
///
/// Thread-safety: thread-safe, without locks; threads that ask in the same moment may get one too many each.
class RetryBudget {
 public:
  struct Options {
    double ratio = 0.2;           ///< Of first tries; 0 to 10.
    double floor_per_second = 3;  ///< At least 0.
  };
  RetryBudget() : RetryBudget(Options()) {}
  explicit RetryBudget(Options options, Clock& clock = system_clock()) : options_(options), clock_(clock) {}

  void count_request() { requests_.count(clock_.now()); }
  /// True, and counted, when there may be one more.
  bool try_retry();
  /// How many there could be now.
  [[nodiscard]] double left() const;

 private:
  /// Counts by the second, exact up to four thousand million in each: what a Window counts in so many calls are rates.
  class Seconds {
   public:
    void count(Time now);
    [[nodiscard]] std::uint64_t sum(Time now) const;

   private:
    // A word: 32 bits of the second, 32 of the count.
    std::array<std::atomic<std::uint64_t>, 10> words_{};
  };

  Options options_;
  Clock& clock_;
  Seconds requests_;
  Seconds retries_;
};

}  // namespace cohort
