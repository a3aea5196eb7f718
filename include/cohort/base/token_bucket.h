#pragma once

#include <cstdint>

#include "cohort/base/clock.h"
#include "cohort/base/internal/int128.h"
#include "cohort/base/unlimited.h"

namespace cohort {

/// A rate limit: on average at most `count` events per `period`, and up to `burst` events at once.
struct Rate {
  Limit count = 1;                            ///< At least 1.
  Duration period = std::chrono::seconds(1);  ///< Longer than 0.
  Limit burst = 0;                            ///< 0 means equal to `count`.

  friend bool operator==(const Rate&, const Rate&) = default;
};

/// Hands out the tokens of a Rate. A new bucket is full. The caller passes the current time to each call.
///
/// Exact: the bucket counts time in units of 1/count nanoseconds, so no fraction of a token is lost to rounding.
///
/// Thread-safety: thread-compatible.
class TokenBucket {
 public:
  /// Corrects impossible values of `rate`: a count below 1 and a negative burst become 1, a period of 0 or less becomes
  /// 1 ns.
  TokenBucket(Rate rate, Time now);

  /// Takes one token. Returns false if none is available.
  bool try_take(Time now);
  /// Puts back one token that was taken but not used.
  void put_back(Time now);
  [[nodiscard]] std::uint64_t available(Time now) const;
  [[nodiscard]] bool full(Time now) const { return available(now) == burst_; }
  /// The time at which the next token can be taken; `now` if a token is available.
  [[nodiscard]] Time next_at(Time now) const;
  /// The time at which the bucket will be full again if no token is taken until then; `now` if it is full.
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
