#pragma once

#include <cstdint>

namespace cohort {

/// Generates random numbers from a seed (xoshiro256**). Equal seeds give equal numbers on every machine.
///
/// Not for secrets: the numbers are predictable.
///
/// Thread-safety: thread-compatible.
class Random {
 public:
  explicit Random(std::uint64_t seed);

  /// Returns 64 random bits.
  std::uint64_t next();
  /// Returns a number from 0 to limit - 1, all equally likely. Requires limit > 0.
  std::uint64_t below(std::uint64_t limit);
  /// Returns a number from low to high, including low and high. Requires low <= high.
  std::int64_t between(std::int64_t low, std::int64_t high);
  /// Returns a number x with 0 <= x < 1.
  double unit();
  /// Returns true with the given probability.
  bool chance(double probability);

 private:
  std::uint64_t state_[4];
};

}  // namespace cohort
