#include "cohort/base/histogram.h"

#include <algorithm>
#include <cmath>

namespace cohort {

std::uint64_t Histogram::upper_end(int bucket) {
  constexpr int kExact = 1 << kSubBits;
  if (bucket < kExact) return static_cast<std::uint64_t>(bucket);
  const int shift = (bucket >> kSubBits) - 1;
  const std::uint64_t first = std::uint64_t{kExact} + static_cast<std::uint64_t>(bucket & (kExact - 1));
  return ((first + 1) << shift) - 1;
}

void Histogram::merge(const Histogram& other) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

Duration Histogram::quantile(double q) const {
  if (count_ == 0) return Duration(0);
  const double clamped = std::clamp(q, 0.0, 1.0);
  const auto rank =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(clamped * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::min(max_, Duration(static_cast<std::int64_t>(upper_end(static_cast<int>(i)))));
  }
  return max_;
}

}  // namespace cohort
