#include "cohort/base/retry_policy.h"

#include <algorithm>
#include <cmath>

namespace cohort {

std::optional<Duration> RetryPolicy::wait_after(std::uint32_t failures, Random& random) const {
  if (failures > max_retries) return std::nullopt;
  const double exponent = std::min(failures == 0 ? 0U : failures - 1, 1000U);
  const double grown =
      static_cast<double>(std::max(backoff, Duration::zero()).count()) * std::pow(std::max(multiplier, 1.0), exponent);
  constexpr double kLongest = 3e17;  // Ten years, in nanoseconds.
  const double most = std::min(static_cast<double>(std::max(max_backoff, Duration::zero()).count()), kLongest);
  const double capped = grown < most ? grown : most;  // (What is no number is the longest.)
  return Duration(
      static_cast<Duration::rep>(capped * (1 - (jitter > 0 ? std::min(jitter, 1.0) : 0.0) * random.unit())));
}

}  // namespace cohort
