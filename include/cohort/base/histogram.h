#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "cohort/base/clock.h"

namespace cohort {

/// Counts durations (latencies) in a fixed 4 KiB, for quantiles (p50, p95, p99) with an error of at most 1/8.
///
/// Each power of two is split into eight buckets. Durations below 8 ns are exact. A negative duration counts as 0.
///
/// Thread-safety: thread-compatible.
class Histogram {
 public:
  void record(Duration duration) {
    const Duration counted = std::max(duration, Duration(0));
    ++buckets_[bucket_of(static_cast<std::uint64_t>(counted.count()))];
    ++count_;
    sum_ += counted;
    max_ = std::max(max_, counted);
  }
  void merge(const Histogram& other);
  void clear() { *this = Histogram(); }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] Duration sum() const { return sum_; }
  [[nodiscard]] Duration max() const { return max_; }
  /// The duration that the fraction `q` (0 .. 1) of the recorded durations does not exceed. Never above max(). 0 if
  /// nothing has been recorded.
  [[nodiscard]] Duration quantile(double q) const;

 private:
  static constexpr int kSubBits = 3;
  static constexpr int kBuckets = 64 << kSubBits;
  static std::size_t bucket_of(std::uint64_t nanoseconds) {
    constexpr std::uint64_t kExact = 1U << kSubBits;
    if (nanoseconds < kExact) return nanoseconds;
    const int shift = static_cast<int>(std::bit_width(nanoseconds)) - 1 - kSubBits;
    return (static_cast<std::size_t>(shift + 1) << kSubBits) + (nanoseconds >> shift) - kExact;
  }
  static std::uint64_t upper_end(int bucket);

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  Duration sum_{0};
  Duration max_{0};
};

}  // namespace cohort
