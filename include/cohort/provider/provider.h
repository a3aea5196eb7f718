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
  std::uint32_t max_concurrent = 50;  ///< At least 1.
  std::optional<Rate> rate{};
  std::uint32_t tier = 0;  ///< The lower, the earlier: near or cheap ones first. See Router.
  ScoreOptions score{};
};

/// What happened to a provider: to its breaker, or that it was derated, which has the reason "derated".
struct ProviderEvent : BreakerEvent {
  std::string provider{};
  double derated_to = 1;
};

/// How a provider is doing.
struct ProviderStats {
  std::string name;
  Breaker::Snapshot breaker;
  std::uint32_t concurrent = 0;
  std::uint64_t bulkhead_rejected = 0;
  std::uint64_t rate_rejected = 0;
  std::array<std::uint64_t, kFailureTypes> calls{};  ///< By how they ended.
  std::uint64_t cut_off = 0;                         ///< Calls that their callers gave too little time,
  std::uint64_t excused = 0;                         ///< and failures that were charged to the request.
  std::uint32_t tier = 0;
  Duration p50{0};  ///< Of the latency of all calls that ended, as are
  Duration p95{0};
  Duration p99{0};
  std::optional<double> score;
  double derated_to = 1;
  Duration cooling_for{0};  ///< It asked not to be called for so long.
};

/// Something that serves requests, with all that stands between it and a caller.
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

  /// Lowers its score to that part, until the expiry if there is one; 1 ends it. At 0 it is not called. With who did it
  /// and why, for the event.
  void derate(double factor, std::string_view actor, std::string_view reason, std::optional<Duration> expires_in = {});
  [[nodiscard]] double derated_to(Time now) const;
  [[nodiscard]] Time derated_until() const { return Time(Duration(derated_until_.load(std::memory_order_relaxed))); }
  [[nodiscard]] std::uint32_t tier() const { return tier_; }

  /// Called with no lock held; may call the provider; what it throws is ignored. Set before it is used.
  void on_event(std::function<void(const ProviderEvent&)> listener);

  /// It asked to be left alone until then.
  void cool_until(Time until);
  [[nodiscard]] Time cooling_until() const { return Time(Duration(cooling_until_.load(std::memory_order_relaxed))); }

  /// It said that it was too much. For two minutes it is asked at most as often as it has answered of late, less a
  /// tenth, and a little more with each second in which it does not complain.
  void slow_down(Time now);

  /// Takes a token of its rate and of the pace it has set, where there are such.
  bool take_token(Time now);
  /// Whether there are so many tokens of its pace, and one of its rate.
  [[nodiscard]] bool has_token(Time now, double tokens = 1) const;

  /// For the statistics and the score, how a call ended.
  void count(FailureType type, Duration latency);
  void count_cut_off() { cut_off_.fetch_add(1, std::memory_order_relaxed); }
  /// A failure was charged to the request.
  void excuse() {
    excused_.fetch_add(1, std::memory_order_relaxed);
    was_excused_.store(true, std::memory_order_relaxed);
  }
  /// That was so, and it has not served anybody since.
  [[nodiscard]] bool was_excused() const { return was_excused_.load(std::memory_order_relaxed); }
  /// When a call last changed its score.
  [[nodiscard]] Time scored_at() const { return Time(Duration(scored_at_.load(std::memory_order_relaxed))); }
  [[nodiscard]] ProviderStats stats() const;

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
  std::atomic<bool> limited_{false};  // There is a rate or a pace.

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
