#include "cohort/provider/backoff.h"

#include <algorithm>
#include <cmath>

namespace cohort {

Duration Backoff::wait(std::uint32_t attempt, Random& random) const {
  const double exponent = std::min(attempt == 0 ? 0U : attempt - 1, 1000U);
  const double grown = static_cast<double>(base.count()) * std::pow(std::max(multiplier, 1.0), exponent);
  const double capped = std::clamp(grown, 0.0, static_cast<double>(std::max(max, Duration::zero()).count()));
  const double part = 1 + (random.unit() * 2 - 1) * std::clamp(jitter, 0.0, 1.0);
  return Duration(static_cast<Duration::rep>(capped * part));
}

}  // namespace cohort
