#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/clock.h"
#include "cohort/base/histogram.h"
#include "cohort/base/mutex.h"
#include "cohort/base/token_bucket.h"
#include "cohort/provider/breaker.h"
#include "cohort/provider/bulkhead.h"
#include "cohort/provider/failure_type.h"
#include "cohort/provider/score.h"

namespace cohort {

struct ProviderOptions {
  std::string name;
  BreakerOptions breaker{};
  std::uint32_t max_concurrent = 50;  ///< Maximum number of calls at a time. At least 1.
  std::optional<Rate> rate{};         ///< Maximum rate of calls. Not set: no limit.
  std::uint32_t tier = 0;             ///< A Router uses the providers with the lowest tier first, see Router.
  ScoreOptions score{};
};

/// A change of a provider: a change of its breaker, or a call of derate() (reason "derated").
struct ProviderEvent : BreakerEvent {
  std::string provider{};
  double derated_to = 1;  ///< The factor on the provider's score, see Provider::derate.
};

/// Counters and percentiles of a provider at one moment.
struct ProviderStats {
  std::string name;
  Breaker::Snapshot breaker;
  std::uint32_t concurrent = 0;
  std::uint64_t bulkhead_rejected = 0;
  std::uint64_t rate_rejected = 0;
  std::array<std::uint64_t, kFailureTypes> calls{};  ///< Ended calls by FailureType, without cut-off and excused ones.
  std::uint64_t cut_off = 0;                         ///< Calls to which their callers gave too little time.
  std::uint64_t excused = 0;                         ///< Failures that the Router charged to the request.
  std::uint32_t tier = 0;
  Duration p50{0};  ///< Median latency of the calls in `calls`, without cancelled and local ones.
  Duration p95{0};  ///< 95th percentile of the latency of the calls in `calls`, without cancelled and local ones.
  Duration p99{0};  ///< 99th percentile of the latency of the calls in `calls`, without cancelled and local ones.
  std::optional<double> score;  ///< Not set while the provider has had fewer calls than ScoreOptions::min_calls.
  double derated_to = 1;        ///< The factor on the score, see Provider::derate.
  Duration cooling_for{0};      ///< Remaining time for which the provider asked not to be called.
};

/// A service that can be called, with its breaker, bulkhead, rate limit and score.
///
/// Thread-safety: thread-safe.
class Provider {
 public:
  explicit Provider(const ProviderOptions& options, Clock& clock = system_clock(), std::uint64_t seed = 0);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Breaker& breaker() { return breaker_; }
  [[nodiscard]] const Breaker& breaker() const { return breaker_; }
  [[nodiscard]] Bulkhead& bulkhead() { return bulkhead_; }
  [[nodiscard]] const Bulkhead& bulkhead() const { return bulkhead_; }
  [[nodiscard]] Score& score() { return score_; }

  /// Multiplies the provider's score by `factor` until `expires_in` has passed. 1 ends the derating. At 0 a Router does
  /// not call the provider. The event "derated" carries `actor` and `reason`.
  void derate(double factor, std::string_view actor, std::string_view reason, std::optional<Duration> expires_in = {});
  /// The factor on the score that holds at `now`.
  [[nodiscard]] double derated_to(Time now) const;
  [[nodiscard]] Time derated_until() const { return Time(Duration(derated_until_.load(std::memory_order_relaxed))); }
  [[nodiscard]] std::uint32_t tier() const { return tier_; }

  /// Sets the listener for changes. Call it before the provider is used. The provider calls the listener with no lock
  /// held. The listener may call the provider. The provider ignores exceptions of the listener.
  void on_event(std::function<void(const ProviderEvent&)> listener);

  /// Records that the provider asked not to be called before `until`. An earlier time than the recorded one is ignored.
  void cool_until(Time until);
  [[nodiscard]] Time cooling_until() const { return Time(Duration(cooling_until_.load(std::memory_order_relaxed))); }

  /// Records that the provider reported an overload (429). For two minutes the provider gets a pace: a tenth less than
  /// its recent rate of answers. The pace grows a little with each second without a new 429.
  void slow_down(Time now);

  /// Takes one token of the rate limit and one of the pace, if the provider has them. False if a token is missing.
  bool take_token(Time now);
  /// True if the pace has at least `tokens` tokens and the rate limit has one. A limit that is not set always has.
  [[nodiscard]] bool has_token(Time now, double tokens = 1) const;

  /// Records the end of a call in the statistics and in the score.
  void count(FailureType type, Duration latency);
  /// Records a call to which its caller gave too little time.
  void count_cut_off() { cut_off_.fetch_add(1, std::memory_order_relaxed); }
  /// Records a failure that was charged to the request, not to this provider.
  void excuse() {
    excused_.fetch_add(1, std::memory_order_relaxed);
    was_excused_.store(true, std::memory_order_relaxed);
  }
  /// True if a failure was charged to the request and no call of the provider has succeeded since.
  [[nodiscard]] bool was_excused() const { return was_excused_.load(std::memory_order_relaxed); }
  /// When a call last changed the score. Before the first change: when the provider was created.
  [[nodiscard]] Time scored_at() const { return Time(Duration(scored_at_.load(std::memory_order_relaxed))); }
  [[nodiscard]] ProviderStats stats() const;

  /// The part of the state that survives a restart. It holds remaining times, not points of time.
  struct Saved {
    Breaker::Saved breaker;
    Score::Saved score;
    Duration cooling_for{0};
  };
  [[nodiscard]] Saved save() const;
  void restore(const Saved& saved);

 private:
  void tell(ProviderEvent event) const;

  const std::string name_;
  const std::uint32_t tier_;
  Clock& clock_;
  std::function<void(const ProviderEvent&)> listener_;
  Breaker breaker_;
  Bulkhead bulkhead_;
  Score score_;
  std::atomic<double> derated_to_{1};
  std::atomic<Time::rep> derated_until_{Time::max().time_since_epoch().count()};
  std::atomic<Time::rep> cooling_until_{Time::min().time_since_epoch().count()};
  std::atomic<Time::rep> scored_at_;
  std::atomic<std::uint64_t> rate_rejected_{0};
  std::atomic<std::uint64_t> cut_off_{0};
  std::atomic<std::uint64_t> excused_{0};
  std::atomic<bool> was_excused_{false};
  std::atomic<bool> limited_{false};  // The provider has a rate limit or a pace.

  mutable Mutex mutex_;
  std::optional<TokenBucket> bucket_ COHORT_GUARDED_BY(mutex_);
  struct Pace {
    double per_second = 0;
    double tokens = 0;
    Time at{};
    Time slowed_at{};
  };
  void let_pace_flow(Time now) const COHORT_REQUIRES(mutex_);
  mutable std::optional<Pace> pace_ COHORT_GUARDED_BY(mutex_);
  Window answered_ COHORT_GUARDED_BY(mutex_);
  std::array<std::uint64_t, kFailureTypes> calls_ COHORT_GUARDED_BY(mutex_){};
  Histogram latency_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort
