#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/base/random.h"
#include "cohort/base/retry_policy.h"

namespace cohort {

/// How a step is tried.
struct StepOptions {
  Duration timeout = std::chrono::seconds(1);  ///< Of all attempts together, waiting included. Above 0.
  RetryPolicy retry = quick_retries(0);
  /// Whether another attempt may help; empty: as Error::retryable() says.
  std::function<bool(const Error&)> retry_if{};
};

/// The attempts of one step. It is driven: told the time and how an attempt ended, it says when the next begins.
///
///     Attempts attempts(options, now, deadline);
///     for (;;) {
///       … try it, until attempts.deadline() …
///       std::optional<Time> next = attempts.after_failure(error, now, random);
///       if (!next) break;       // That was the last.
///       … wait until *next …
///     }
///
/// Thread-safety: thread-compatible. The options must outlive it.
class Attempts {
 public:
  Attempts() = default;
  /// The step must have ended by its time-out from now, and by the deadline if there is one.
  Attempts(const StepOptions& options, Time now, std::optional<Time> deadline = {})
      : options_(&options), deadline_(std::min(saturating_add(now, options.timeout), deadline.value_or(Time::max()))) {}

  [[nodiscard]] Time deadline() const { return deadline_; }
  /// Of the current one, from 1.
  [[nodiscard]] std::uint32_t number() const { return number_; }
  /// When the next one begins; nothing: there is none, because this error is not worth it, there have been enough, or
  /// the deadline comes first.
  std::optional<Time> after_failure(const Error& error, Time now, Random& random);

 private:
  const StepOptions* options_ = nullptr;
  Time deadline_ = Time::max();
  std::uint32_t number_ = 1;
};

}  // namespace cohort
