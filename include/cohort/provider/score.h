#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <optional>

#include "cohort/base/clock.h"
#include "cohort/base/mutex.h"

namespace cohort {

struct ScoreOptions {
  double alpha = 0.4;                               ///< How much the last call counts in the averages.
  Duration latency_safe = std::chrono::seconds(5);  ///< Up to here latency costs nothing,
  Duration latency_max = std::chrono::seconds(30);  ///< from here on no more.
  std::uint32_t window = 20;                        ///< The recent calls. 1 to 64.
  std::uint32_t min_calls = 15;                     ///< Below that many there is no score.
};

/// How good a provider is, 1 to 100: 70 x the average success rate - 20 x the penalty for latency - 10 x the failure
/// rate of the recent calls. It says which provider is best, not whether one may be called.
///
/// Thread-safety: thread-safe.
class Score {
 public:
  explicit Score(const ScoreOptions& options = {});

  void record(bool success, Duration latency);
  /// Nothing below min_calls.
  [[nodiscard]] std::optional<double> value() const {
    if (calls_.load(std::memory_order_relaxed) < options_.min_calls) return std::nullopt;
    return value_.load(std::memory_order_relaxed);
  }

  struct Saved {
    double success_rate = 1;
    double latency_ms = 0;
    std::uint64_t calls = 0;
  };
  [[nodiscard]] Saved save() const;
  void restore(const Saved& saved);

 private:
  void update() COHORT_REQUIRES(mutex_);

  const ScoreOptions options_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<double> value_{70};
  mutable Mutex mutex_;
  double success_rate_ COHORT_GUARDED_BY(mutex_) = 1;
  double latency_ms_ COHORT_GUARDED_BY(mutex_) = 0;
  std::bitset<64> failed_ COHORT_GUARDED_BY(mutex_);
  std::uint32_t next_ COHORT_GUARDED_BY(mutex_) = 0;
  std::uint32_t known_ COHORT_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
