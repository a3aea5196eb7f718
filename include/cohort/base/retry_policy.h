#pragma once

#include <cstdint>
#include <optional>

#include "cohort/base/clock.h"
#include "cohort/base/random.h"

namespace cohort {

/// How often and when something that failed is tried again: backoff x multiplier^n, at most max_backoff, each wait
/// shortened at random by up to the jitter, so that those who failed together do not come back together.
///
/// Thread-safety: a value.
struct RetryPolicy {
  std::uint32_t max_retries = 3;  ///< After the first attempt.
  Duration backoff = std::chrono::seconds(1);
  double multiplier = 2.0;
  Duration max_backoff = std::chrono::minutes(1);
  double jitter = 0.2;  ///< 0 to 1.

  /// How long to wait after so many failures in a row; nothing: that was the last attempt.
  [[nodiscard]] std::optional<Duration> wait_after(std::uint32_t failures, Random& random) const;

  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};

/// Waits of a tenth of a second to ten seconds, for calls that somebody waits for.
[[nodiscard]] inline RetryPolicy quick_retries(std::uint32_t count) {
  return {.max_retries = count, .backoff = std::chrono::milliseconds(100), .max_backoff = std::chrono::seconds(10)};
}

}  // namespace cohort
