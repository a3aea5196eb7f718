#include "cohort/step/attempts.h"

namespace cohort {

std::optional<Time> Attempts::after_failure(const Error& error, Time now, Random& random) {
  if (options_ == nullptr) return std::nullopt;
  const std::optional<Duration> wait = options_->retry.wait_after(number_, random);
  if (!wait) return std::nullopt;
  bool worth_it = error.retryable();
  if (options_->retry_if) {
    try {
      worth_it = options_->retry_if(error);
    } catch (...) {
      worth_it = false;
    }
  }
  if (!worth_it) return std::nullopt;
  const Time next = saturating_add(now, *wait);
  if (next >= deadline_) return std::nullopt;
  ++number_;
  return next;
}

}  // namespace cohort
