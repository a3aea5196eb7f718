#pragma once

#include <cstdint>

#include "cohort/base/clock.h"
#include "cohort/base/random.h"

namespace cohort {

/// How long to wait before a try: base * multiplier ^ (tries before this one - 1), at most `max`, give or take `jitter`
/// of it, so that those who failed together do not come back together.
///
/// Thread-safety: a value.
struct Backoff {
  Duration base = std::chrono::milliseconds(100);
  Duration max = std::chrono::seconds(10);
  double multiplier = 2.0;
  double jitter = 0.2;  ///< 0 to 1.

  /// Before the first retry `attempt` is 1.
  [[nodiscard]] Duration wait(std::uint32_t attempt, Random& random) const;
};

}  // namespace cohort
