#include "cohort/provider/retry_budget.h"

#include <algorithm>

namespace cohort {

double RetryBudget::left() const {
  constexpr double kSeconds = 10;  // Of a Window as it is by default.
  const Time now = clock_.now();
  const double allowed =
      std::max(options_.ratio * static_cast<double>(requests_.counts(now).calls), options_.floor_per_second * kSeconds);
  return allowed - static_cast<double>(retries_.counts(now).calls);
}

bool RetryBudget::try_retry() {
  if (left() < 1) return false;
  retries_.record(clock_.now(), 0, false);
  return true;
}

}  // namespace cohort
