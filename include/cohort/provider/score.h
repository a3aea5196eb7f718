#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <optional>

#include "cohort/base/clock.h"
#include "cohort/base/mutex.h"

namespace cohort {

struct ScoreOptions {
  double alpha = 0.4;                               ///< Weight of the last call in the moving averages.
  Duration latency_safe = std::chrono::seconds(5);  ///< Up to this average latency there is no penalty.
  Duration latency_max = std::chrono::seconds(30);  ///< From this average latency on the penalty is full.
  std::uint32_t window = 20;                        ///< Number of recent calls for the failure rate. 1 to 64.
  std::uint32_t min_calls = 15;                     ///< With fewer calls there is no score.
};

/// Rates how good a provider is. The score says which provider is best, not whether a provider may be called.
///
/// Score = 70 x average success rate - 20 x latency penalty - 10 x failure rate of the recent calls, clamped to 1..100.
///
/// Thread-safety: thread-safe.
class Score {
 public:
  explicit Score(const ScoreOptions& options = {});

  void record(bool success, Duration latency);
  /// The score. `nullopt` after fewer than ScoreOptions::min_calls calls.
  [[nodiscard]] std::optional<double> value() const {
    if (calls_.load(std::memory_order_relaxed) < options_.min_calls) return std::nullopt;
    return value_.load(std::memory_order_relaxed);
  }

  /// The part of the state that survives a restart. The recent calls do not.
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
