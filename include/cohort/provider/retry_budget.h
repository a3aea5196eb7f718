#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "cohort/base/clock.h"

namespace cohort {

/// Limits the number of retries, so that retries do not turn a failure into a flood.
///
/// Over the last ten seconds retries may be at most `ratio` of the first tries, but `floor_per_second` retries a second
/// are always allowed. try_retry() counts the retry, so a retry that still waits in its back-off counts too.
///
/// Thread-safety: thread-safe, without locks. Threads that ask at the same moment may each get one retry too many.
class RetryBudget {
 public:
  struct Options {
    double ratio = 0.2;           ///< Allowed retries per first try. 0 to 10.
    double floor_per_second = 3;  ///< Retries per second that are always allowed. At least 0.
  };
  RetryBudget() : RetryBudget(Options()) {}
  explicit RetryBudget(Options options, Clock& clock = system_clock()) : options_(options), clock_(clock) {}

  /// Counts a first try.
  void count_request() { requests_.count(clock_.now()); }
  /// True if one more retry is allowed. It is then counted.
  bool try_retry();
  /// How many retries are allowed now.
  [[nodiscard]] double left() const;

 private:
  /// Exact counts per second, up to 2^32 - 1 in each. (A Window halves large counts, so it is exact for rates only.)
  class Seconds {
   public:
    void count(Time now);
    [[nodiscard]] std::uint64_t sum(Time now) const;

   private:
    // A word has 32 bits for the second and 32 for the count.
    std::array<std::atomic<std::uint64_t>, 10> words_{};
  };

  Options options_;
  Clock& clock_;
  Seconds requests_;
  Seconds retries_;
};

}  // namespace cohort
