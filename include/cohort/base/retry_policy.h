#pragma once

#include <cstdint>
#include <optional>

#include "cohort/base/clock.h"
#include "cohort/base/random.h"

namespace cohort {

/// Says how often and after which waits a failed call is tried again. The wait before retry n (from 0) is backoff x
/// multiplier^n, but at most max_backoff. Each wait is shortened at random by up to the fraction `jitter`, so that
/// calls that failed together do not retry together.
///
/// Thread-safety: thread-compatible.
struct RetryPolicy {
  std::uint32_t max_retries = 3;  ///< Number of retries after the first attempt.
  Duration backoff = std::chrono::seconds(1);
  double multiplier = 2.0;
  Duration max_backoff = std::chrono::minutes(1);
  double jitter = 0.2;  ///< Largest fraction by which a wait is shortened, 0 to 1.

  /// Returns how long to wait after `failures` failures in a row, or nullopt if no retry is left.
  [[nodiscard]] std::optional<Duration> wait_after(std::uint32_t failures, Random& random) const;

  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};

/// Returns a policy with a backoff of 100 ms to 10 s, for calls whose caller is waiting.
[[nodiscard]] inline RetryPolicy quick_retries(std::uint32_t count) {
  return {.max_retries = count, .backoff = std::chrono::milliseconds(100), .max_backoff = std::chrono::seconds(10)};
}

}  // namespace cohort
