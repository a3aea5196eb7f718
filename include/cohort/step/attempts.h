#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/base/random.h"
#include "cohort/base/retry_policy.h"

namespace cohort {

/// The time-out and the retries of a step.
struct StepOptions {
  Duration timeout = std::chrono::seconds(1);  ///< Time-out of all attempts together, waits included. Above 0.
  RetryPolicy retry = quick_retries(0);
  /// Returns true if another attempt may help. Empty: Error::retryable().
  std::function<bool(const Error&)> retry_if{};
};

/// The attempts of one step. The caller drives it: the caller passes the time and the error of an attempt, and the
/// object answers when the next attempt begins.
///
///     Attempts attempts(options, now, deadline);
///     for (;;) {
///       Result<Page> page = fetch(attempts.deadline());
///       if (page) break;
///       std::optional<Time> next = attempts.after_failure(page.error(), clock.now(), random);
///       if (!next) break;  // That was the last attempt.
///       wait_until(*next);
///     }
///
/// Thread-safety: thread-compatible. The options must outlive the object.
class Attempts {
 public:
  Attempts() = default;
  /// The step must end within `options.timeout` from `now`, and before `deadline` if there is one.
  Attempts(const StepOptions& options, Time now, std::optional<Time> deadline = {})
      : options_(&options), deadline_(std::min(saturating_add(now, options.timeout), deadline.value_or(Time::max()))) {}

  /// When the step must have ended.
  [[nodiscard]] Time deadline() const { return deadline_; }
  /// The number of the current attempt, from 1.
  [[nodiscard]] std::uint32_t number() const { return number_; }
  /// Reports that the current attempt failed. Returns when the next attempt begins. `nullopt` if there is no next
  /// attempt: the error is not retryable, the retries are used up, or the deadline comes first.
  std::optional<Time> after_failure(const Error& error, Time now, Random& random);

 private:
  const StepOptions* options_ = nullptr;
  Time deadline_ = Time::max();
  std::uint32_t number_ = 1;
};

}  // namespace cohort
