#pragma once

#include <cstdint>

#include "cohort/base/clock.h"
#include "cohort/base/internal/int128.h"
#include "cohort/base/unlimited.h"

namespace cohort {

/// At most `count` per `period` on average, and up to `burst` at once.
struct Rate {
  Limit count = 1;                            ///< At least 1.
  Duration period = std::chrono::seconds(1);  ///< Longer than 0.
  Limit burst = 0;                            ///< 0 stands for `count`.

  friend bool operator==(const Rate&, const Rate&) = default;
};

/// Hands out the tokens of a Rate. Full at first. Time is an argument.
///
/// Exact: it counts in whole tokens and the time of the next one, so no fraction is ever lost to rounding.
///
/// Thread-safety: thread-compatible.
class TokenBucket {
 public:
  /// Impossible values (no count, no period) are corrected to 1 and 1 ns.
  TokenBucket(Rate rate, Time now);

  /// Takes one token if there is one.
  bool try_take(Time now);
  /// Puts back one that was not used.
  void put_back(Time now);
  [[nodiscard]] std::uint64_t available(Time now) const;
  [[nodiscard]] bool full(Time now) const { return available(now) == burst_; }
  /// When the next token can be taken: `now` if there is one.
  [[nodiscard]] Time next_at(Time now) const;
  /// When it will be full again if nobody takes any.
  [[nodiscard]] Time full_at(Time now) const;

 private:
  // The bucket is kept as the time at which it was (or would have been) empty: `now - empty_at_` is what flowed in
  // since. One token is `period / count`, counted in 1/count nanoseconds so that the division leaves no remainder.
  using Units = internal::Int128;
  [[nodiscard]] Units units(Time time) const { return Units{time.time_since_epoch().count()} * count_; }
  [[nodiscard]] Time at(Units units) const;

  std::uint64_t count_;
  std::uint64_t burst_;
  Units per_token_;
  Units empty_at_;
};

}  // namespace cohort
