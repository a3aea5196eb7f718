#pragma once

#include <cstdint>

namespace cohort {

/// Random numbers from a seed: the same seed gives the same numbers on every machine (xoshiro256**).
///
/// Not for secrets.
///
/// Thread-safety: thread-compatible.
class Random {
 public:
  explicit Random(std::uint64_t seed);

  /// Any 64 bits.
  std::uint64_t next();
  /// 0 .. limit - 1, each as likely as the others. Requires limit > 0.
  std::uint64_t below(std::uint64_t limit);
  /// low .. high, both included. Requires low <= high.
  std::int64_t between(std::int64_t low, std::int64_t high);
  /// 0 <= x < 1.
  double unit();
  /// True in `probability` of the cases.
  bool chance(double probability);

 private:
  std::uint64_t state_[4];
};

}  // namespace cohort
