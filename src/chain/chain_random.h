#pragma once

#include <optional>
#include <string>

#include "cohort/base/mutex.h"
#include "cohort/base/random.h"
#include "cohort/base/retry_policy.h"

namespace cohort {

/// The random numbers of an engine: ids and jittered back-offs, from one seed.
///
/// Thread-safety: thread-safe. The lock guards the generator.
class ChainRandom {
 public:
  /// 0: a seed of the system.
  explicit ChainRandom(std::uint64_t seed);

  /// 32 hexadecimal digits.
  [[nodiscard]] std::string make_id();
  /// Delay before the next attempt after this many failures; nothing: the policy allows no more attempts.
  [[nodiscard]] std::optional<Duration> wait_after(const RetryPolicy& policy, std::uint32_t failures) {
    MutexLock lock(mutex_);
    return policy.wait_after(failures, random_);
  }

 private:
  Mutex mutex_;
  Random random_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort
