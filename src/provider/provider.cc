#include "cohort/provider/provider.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/base/log.h"

namespace cohort {

Provider::Provider(const ProviderOptions& options, Clock& clock, std::uint64_t seed)
    : name_(options.name),
      tier_(options.tier),
      clock_(clock),
      breaker_(options.breaker, clock, seed),
      bulkhead_(options.max_concurrent),
      score_(options.score),
      scored_at_(clock.now().time_since_epoch().count()) {
  MutexLock lock(mutex_);
  if (!options.rate) return;
  bucket_.emplace(*options.rate, clock.now());
  limited_.store(true, std::memory_order_relaxed);
}

void Provider::on_event(std::function<void(const ProviderEvent&)> listener) {
  listener_ = std::move(listener);
  breaker_.on_event([this](const BreakerEvent& event) { tell({event, {}, 1}); });
}

void Provider::tell(ProviderEvent event) const {
  if (!listener_) return;
  event.provider = name_;
  event.derated_to = derated_to(event.at);
  try {
    listener_(event);
  } catch (...) {
    // A listener's trouble is its own.
  }
}

void Provider::derate(double factor, std::string_view actor, std::string_view reason,
                      std::optional<Duration> expires_in) {
  if (std::isnan(factor) || factor < 0 || factor > 1) {
    COHORT_LOG(kWarning, "provider", "a part to derate to is from 0 to 1, and the nearest is used",
               {"provider", name_});
  }
  const Time until = expires_in ? saturating_add(clock_.now(), *expires_in) : Time::max();
  derated_until_.store(until.time_since_epoch().count(), std::memory_order_relaxed);
  derated_to_.store(factor > 0 ? std::min(factor, 1.0) : 0.0, std::memory_order_relaxed);  // What is no number is 0.
  const Breaker::Snapshot seen = breaker_.snapshot();
  ProviderEvent event;
  event.from = event.to = seen.state;
  event.reason = "derated";
  event.error_rate = seen.window.error_rate();
  event.slow_rate = seen.window.slow_rate();
  event.consecutive_failures = seen.consecutive_failures;
  event.attempt = seen.attempt;
  event.at = clock_.now();
  event.actor = actor;
  event.text = reason;
  event.expires_in = expires_in;
  tell(std::move(event));
}

double Provider::derated_to(Time now) const {
  const double factor = derated_to_.load(std::memory_order_relaxed);
  return factor == 1 || now.time_since_epoch().count() >= derated_until_.load(std::memory_order_relaxed) ? 1 : factor;
}

void Provider::cool_until(Time until) {
  const Time::rep wanted = until.time_since_epoch().count();
  Time::rep current = cooling_until_.load(std::memory_order_relaxed);
  while (current < wanted && !cooling_until_.compare_exchange_weak(current, wanted, std::memory_order_relaxed)) {
  }
}

void Provider::slow_down(Time now) {
  constexpr double kSlowestPace = 5;  // Below that there is nothing to go by, and only its cool-down counts.
  MutexLock lock(mutex_);
  // In the last ten seconds, by the second.
  const double answered = static_cast<double>(answered_.counts(now).calls) / 10;
  if (pace_ && now - pace_->slowed_at < std::chrono::seconds(1)) return;  // That was the same complaint.
  if (!pace_ && answered < kSlowestPace) return;
  const double pace = std::max(kSlowestPace, 0.9 * (pace_ ? pace_->per_second : answered));
  pace_ = {pace, 0, now, now};
  limited_.store(true, std::memory_order_relaxed);
}

void Provider::let_pace_flow(Time now) const {
  if (!pace_) return;
  const double seconds = std::max(0.0, std::chrono::duration<double>(now - pace_->at).count());
  pace_->at = std::max(pace_->at, now);
  pace_->per_second *= std::pow(1.01, seconds);
  // A tenth of a second's worth at once, no more.
  pace_->tokens = std::min(pace_->tokens + seconds * pace_->per_second, std::max(2.0, pace_->per_second / 10));
  if (now - pace_->slowed_at > std::chrono::minutes(2)) pace_.reset();
}

bool Provider::take_token(Time now) {
  if (!limited_.load(std::memory_order_relaxed)) return true;
  MutexLock lock(mutex_);
  let_pace_flow(now);
  const bool in_time = !pace_ || pace_->tokens >= 1;
  if (in_time && (!bucket_ || bucket_->try_take(now))) {
    if (pace_) pace_->tokens -= 1;
    return true;
  }
  rate_rejected_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool Provider::has_token(Time now, double tokens) const {
  if (!limited_.load(std::memory_order_relaxed)) return true;
  MutexLock lock(mutex_);
  let_pace_flow(now);
  return (!pace_ || pace_->tokens >= tokens) && (!bucket_ || bucket_->available(now) != 0);
}

void Provider::count(FailureType type, Duration latency) {
  const Time now = clock_.now();
  if (type == FailureType::kSuccess && was_excused()) was_excused_.store(false, std::memory_order_relaxed);
  {
    MutexLock lock(mutex_);
    ++calls_[static_cast<std::size_t>(type)];
    if (type != FailureType::kHttp429) answered_.record(now, 0, false);
    if (type != FailureType::kCancelled && type != FailureType::kLocal) latency_.record(latency);
  }
  const bool says_nothing = type == FailureType::kCancelled || type == FailureType::kLocal ||
                            type == FailureType::kHttp4xx ||
                            (type == FailureType::kHttpAuth && !breaker_.rule(type).counts);
  if (!says_nothing) {
    score_.record(type == FailureType::kSuccess, latency);
    scored_at_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
}

ProviderStats Provider::stats() const {
  const Time now = clock_.now();
  ProviderStats stats;
  stats.name = name_;
  stats.breaker = breaker_.snapshot();
  stats.concurrent = bulkhead_.inside();
  stats.bulkhead_rejected = bulkhead_.rejected();
  stats.rate_rejected = rate_rejected_.load(std::memory_order_relaxed);
  stats.score = score_.value();
  stats.derated_to = derated_to(now);
  stats.cooling_for = std::max(Duration::zero(), cooling_until() > now ? cooling_until() - now : Duration::zero());
  MutexLock lock(mutex_);
  stats.calls = calls_;
  stats.cut_off = cut_off_.load(std::memory_order_relaxed);
  stats.excused = excused_.load(std::memory_order_relaxed);
  stats.tier = tier_;
  stats.p50 = latency_.quantile(0.5);
  stats.p95 = latency_.quantile(0.95);
  stats.p99 = latency_.quantile(0.99);
  return stats;
}

Provider::Saved Provider::save() const {
  const Time now = clock_.now();
  return {breaker_.save(), score_.save(), cooling_until() > now ? cooling_until() - now : Duration::zero()};
}

void Provider::restore(const Saved& saved) {
  breaker_.restore(saved.breaker);
  score_.restore(saved.score);
  if (saved.cooling_for > Duration::zero()) {
    cool_until(saturating_add(clock_.now(), std::min(saved.cooling_for, breaker_.options().open_max)));
  }
}

}  // namespace cohort
