#pragma once

// What Breaker does; for breaker.cc, and for tests that plant bugs in it.

#include <algorithm>
#include <cmath>

#include "cohort/provider/breaker.h"

namespace cohort {

namespace internal {

// A FailureRule in a byte, for those who read it without a lock.
inline constexpr std::uint8_t kHalfErrorsMask = 3;
inline constexpr std::uint8_t kConsecutive = 4;
inline constexpr std::uint8_t kCounts = 8;
inline constexpr std::uint8_t kIsAnswer = 16;

inline std::uint8_t packed(const FailureRule& rule) {
  const auto half_errors = static_cast<unsigned>(std::lround(std::clamp(rule.weight, 0.0, 1.0) * 2));
  return static_cast<std::uint8_t>(half_errors | (rule.consecutive ? kConsecutive : 0U) | (rule.counts ? kCounts : 0U) |
                                   (rule.is_answer ? kIsAnswer : 0U));
}

[[nodiscard]] BreakerOptions corrected(BreakerOptions options);

}  // namespace internal

// ---- permits

template <class Faults>
void BasicPermit<Faults>::finish(FailureType type) {
  if (breaker_ == nullptr) return;
  const Time now = breaker_->clock_.now();
  breaker_->end(*this, type, now - started_, now);
}

template <class Faults>
void BasicPermit<Faults>::finish(FailureType type, Duration latency) {
  if (breaker_ == nullptr) return;
  breaker_->end(*this, type, latency, breaker_->clock_.now());
}

template <class Faults>
void BasicPermit<Faults>::abandon() {
  if (breaker_ != nullptr) breaker_->end_abandoned(*this);
}

// ---- asking

template <class Faults>
BasicBreaker<Faults>::BasicBreaker(const BreakerOptions& options, Clock& clock, std::uint64_t seed)
    : clock_(clock),
      window_(internal::corrected(options).window),
      options_(internal::corrected(options)),
      random_(seed != 0 ? seed : reinterpret_cast<std::uintptr_t>(this)) {
  MutexLock lock(mutex_);
  probes_.reserve(64);
  set_live();
}

template <class Faults>
void BasicBreaker<Faults>::set_live() {
  constexpr auto relaxed = std::memory_order_relaxed;
  live_.min_calls.store(options_.min_calls, relaxed);
  live_.error_rate.store(options_.error_rate_threshold, relaxed);
  live_.slow_rate.store(options_.slow_rate_threshold, relaxed);
  live_.slow_call.store(options_.slow_call_threshold.count(), relaxed);
  live_.consecutive.store(options_.consecutive_failure_threshold, relaxed);
  for (std::size_t i = 0; i < kFailureTypes; ++i) {
    live_.rules[i].store(internal::packed(options_.rules[static_cast<FailureType>(i)]), relaxed);
  }
}

template <class Faults>
auto BasicBreaker<Faults>::allow(std::optional<Time> deadline) -> Permit {
  const Time now = clock_.now();
  const std::uint64_t word = state_.load(std::memory_order_acquire);
  if (state_of(word) == BreakerState::kClosed) return Permit(this, epoch_of(word), now, 0);
  if (state_of(word) == BreakerState::kOpen) {
    const Time until(Duration(until_.load(std::memory_order_relaxed)));
    // It may have opened again, for other times, since the first look: then the other way will tell.
    if (now < until && state_.load(std::memory_order_acquire) == word) return Permit(nullptr, 0, until, 0);
  }
  return allow_slowly(now, deadline);
}

template <class Faults>
auto BasicBreaker<Faults>::allow_slowly(Time now, std::optional<Time> deadline) -> Permit {
  std::vector<BreakerEvent> events;
  Permit permit;
  {
    MutexLock lock(mutex_);
    look_at_time(now, events);
    const std::uint64_t word = state_.load(std::memory_order_relaxed);
    switch (state_of(word)) {
      case BreakerState::kClosed:
      case BreakerState::kForcedClosed:
      case BreakerState::kDisabled: permit = Permit(this, epoch_of(word), now, 0); break;
      case BreakerState::kOpen:
      case BreakerState::kForcedOpen:
        permit = Permit(nullptr, 0, Time(Duration(until_.load(std::memory_order_relaxed))), 0);
        break;
      case BreakerState::kHalfOpen:
        if (has_place_for_probe(now) && deadline.value_or(Time::max()) > now) {
          probed_ = true;
          if (++next_probe_ == 0) ++next_probe_;
          probes_.push_back(
              {next_probe_, epoch_of(word), deadline.value_or(saturating_add(now, options_.half_open_max_duration))});
          permit = Permit(this, epoch_of(word), now, next_probe_);
        } else {
          // A place may be free when the first lease ends; an answer may come any time.
          Time first = half_open_until_;
          for (const Probe& probe : probes_) first = std::min(first, probe.leased_until);
          permit = Permit(nullptr, 0, std::max(first, now), 0);
        }
        break;
    }
  }
  tell(events);
  return permit;
}

template <class Faults>
bool BasicBreaker<Faults>::would_allow() const {
  const BreakerState state = state_of(state_.load(std::memory_order_acquire));
  if (state == BreakerState::kClosed || state == BreakerState::kForcedClosed || state == BreakerState::kDisabled) {
    return true;
  }
  const Time now = clock_.now();
  if (state != BreakerState::kHalfOpen) return now >= Time(Duration(until_.load(std::memory_order_relaxed)));
  MutexLock lock(mutex_);
  if (has_place_for_probe(now)) return true;
  // Time has brought something about that only allow() can see to: it is worth asking.
  const std::uint64_t epoch = epoch_of(state_.load(std::memory_order_relaxed));
  const auto is_out = [&](const Probe& probe) { return probe.epoch == epoch && probe.leased_until > now; };
  const bool lost = std::ranges::any_of(
      probes_, [&](const Probe& probe) { return probe.epoch == epoch && probe.leased_until <= now; });
  return lost || (now >= half_open_until_ && std::ranges::none_of(probes_, is_out));
}

// Of those that are out, whenever they began, there are never more than permitted; nor of those that decide.
template <class Faults>
bool BasicBreaker<Faults>::has_place_for_probe(Time now) const {
  if (now >= half_open_until_) return false;  // They would come too late.
  const std::uint64_t epoch = epoch_of(state_.load(std::memory_order_relaxed));
  std::size_t out = 0;
  std::size_t decide = successes_ + failures_;
  for (const Probe& probe : probes_) {
    if (probe.leased_until <= now) continue;
    ++out;
    if (probe.epoch == epoch) ++decide;
  }
  return out < options_.permitted_calls_in_half_open && decide < options_.permitted_calls_in_half_open;
}

template <class Faults>
Time BasicBreaker<Faults>::retry_at() const {
  const Time now = clock_.now();
  const BreakerState state = state_of(state_.load(std::memory_order_acquire));
  if (state == BreakerState::kHalfOpen) {
    MutexLock lock(mutex_);
    if (probes_.empty() || has_place_for_probe(now)) return now;
    return std::max(now, std::ranges::min(probes_, {}, &Probe::leased_until).leased_until);
  }
  if (state != BreakerState::kOpen && state != BreakerState::kForcedOpen) return now;
  return std::max(now, Time(Duration(until_.load(std::memory_order_relaxed))));
}

// ---- ends

template <class Faults>
void BasicBreaker<Faults>::end(Permit& permit, FailureType type, Duration latency, Time now) {
  permit.breaker_ = nullptr;
  const std::uint8_t rule = live_.rules[static_cast<std::size_t>(type)].load(std::memory_order_relaxed);
  const bool slow = latency.count() >= live_.slow_call.load(std::memory_order_relaxed);
  if (permit.probe_ != 0) return end_probe(permit.epoch_, permit.probe_, type, slow, now);
  if (epoch_of(state_.load(std::memory_order_acquire)) != permit.epoch_ && !Faults::kCountStale) return;
  if ((rule & internal::kIsAnswer) != 0) {
    if (consecutive_.load(std::memory_order_relaxed) != 0) consecutive_.store(0, std::memory_order_relaxed);
  } else if ((rule & internal::kConsecutive) != 0) {
    consecutive_.fetch_add(1, std::memory_order_relaxed);
  }
  if ((rule & internal::kCounts) == 0) return;
  window_.record(now, rule & internal::kHalfErrorsMask, slow);
  if (window_.has_trouble(now)) consider_opening(permit.epoch_, now);
}

template <class Faults>
void BasicBreaker<Faults>::end_abandoned(Permit& permit) {
  permit.breaker_ = nullptr;
  if (permit.probe_ == 0 || Faults::kLeakProbe) return;
  MutexLock lock(mutex_);
  std::erase_if(probes_, [&](const Probe& probe) { return probe.number == permit.probe_; });
}

// A slow success is a failed probe, an answer of any other kind a successful one; one that was too much for the
// provider (half an error) gives its place back, as does one that does not count.
template <class Faults>
void BasicBreaker<Faults>::end_probe(std::uint64_t epoch, std::uint32_t probe, FailureType type, bool slow, Time now) {
  std::vector<BreakerEvent> events;
  {
    MutexLock lock(mutex_);
    const std::uint64_t word = state_.load(std::memory_order_relaxed);
    if (std::erase_if(probes_, [&](const Probe& each) { return each.number == probe; }) == 0)
      return;  // Its lease ended.
    if (state_of(word) != BreakerState::kHalfOpen || (epoch_of(word) != epoch && !Faults::kCountStale)) return;
    const FailureRule& rule = options_.rules[type];
    const bool half = rule.counts && rule.weight > 0 && rule.weight < 1;
    if (rule.is_answer) {
      ++(slow && rule.counts ? failures_ : successes_);
    } else if (rule.counts && !half) {
      ++failures_;
    }
    const bool failed = failures_ >= options_.half_open_failure_threshold;
    // Where thresholds have been changed meanwhile all probes may be used up with nothing decided.
    const bool used_up = successes_ + failures_ >= options_.permitted_calls_in_half_open;
    if (!failed && successes_ >= options_.half_open_success_threshold) {
      close("probes_succeeded", now, events);
    } else if (failed || used_up) {
      ++attempt_;
      open("probes_failed", now, events);
    }
  }
  tell(events);
}

template <class Faults>
std::string_view BasicBreaker<Faults>::reason_to_open(Time now) const {
  constexpr auto relaxed = std::memory_order_relaxed;
  if (consecutive_.load(relaxed) >= live_.consecutive.load(relaxed)) return "consecutive_failure_threshold";
  const Window::Counts counts = window_.counts(now);
  if (counts.calls < live_.min_calls.load(relaxed)) return {};
  if (counts.error_rate() >= live_.error_rate.load(relaxed)) return "error_rate_threshold";
  if (counts.slow_rate() >= live_.slow_rate.load(relaxed)) return "slow_rate_threshold";
  return {};
}

template <class Faults>
void BasicBreaker<Faults>::consider_opening(std::uint64_t epoch, Time now) {
  if (reason_to_open(now).empty()) return;
  std::vector<BreakerEvent> events;
  {
    MutexLock lock(mutex_);
    const std::uint64_t word = state_.load(std::memory_order_relaxed);
    const bool current = epoch_of(word) == epoch || Faults::kCountStale;
    if (state_of(word) != BreakerState::kClosed || !current) return;
    const std::string_view reason = reason_to_open(now);
    if (!reason.empty()) open(reason, now, events);
  }
  tell(events);
}

// ---- changes of state

template <class Faults>
void BasicBreaker<Faults>::enter(BreakerState state, std::string_view reason, Time now,
                                 std::vector<BreakerEvent>& events) {
  const std::uint64_t word = state_.load(std::memory_order_relaxed);
  const Window::Counts counts = window_.counts(now);
  BreakerEvent event;
  event.from = state_of(word);
  event.to = state;
  event.reason = reason;
  event.error_rate = counts.error_rate();
  event.slow_rate = counts.slow_rate();
  event.consecutive_failures = consecutive_.load(std::memory_order_relaxed);
  event.attempt = attempt_;
  event.at = now;
  events.push_back(std::move(event));
  successes_ = failures_ = 0;
  probed_ = false;
  changed_at_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  state_.store((epoch_of(word) + 1) << kStateBits | static_cast<std::uint64_t>(state), std::memory_order_release);
}

template <class Faults>
void BasicBreaker<Faults>::open(std::string_view reason, Time now, std::vector<BreakerEvent>& events) {
  const double grown = static_cast<double>(options_.open_base.count()) *
                       std::pow(options_.open_backoff_multiplier, std::min(attempt_, 1000U));
  constexpr double kLongest = 3e17;  // Ten years, in nanoseconds.
  const double capped = std::min({grown, static_cast<double>(options_.open_max.count()), kLongest});
  const double jittered = capped * (1 + (random_.unit() * 2 - 1) * options_.open_jitter_ratio);
  const Duration duration(static_cast<Duration::rep>(std::max(jittered, 1.0)));
  until_.store(saturating_add(now, duration).time_since_epoch().count(), std::memory_order_relaxed);
  enter(BreakerState::kOpen, reason, now, events);
  events.back().open_duration = duration;
}

template <class Faults>
void BasicBreaker<Faults>::close(std::string_view reason, Time now, std::vector<BreakerEvent>& events) {
  enter(BreakerState::kClosed, reason, now, events);
  if (!Faults::kKeepBackoff) attempt_ = 0;
  if (!Faults::kKeepWindow) window_.clear();
  consecutive_.store(0, std::memory_order_relaxed);
}

// A probe whose lease has ended has failed: its provider has not answered in time, or its caller is lost. Its place is
// free again.
template <class Faults>
void BasicBreaker<Faults>::fail_lost_probes(Time now) {
  const std::uint64_t epoch = epoch_of(state_.load(std::memory_order_relaxed));
  const auto is_lost = [&](const Probe& probe) { return probe.leased_until <= now; };
  failures_ += static_cast<std::uint32_t>(
      std::ranges::count_if(probes_, [&](const Probe& probe) { return is_lost(probe) && probe.epoch == epoch; }));
  std::erase_if(probes_, is_lost);
}

// What the time alone brings about.
template <class Faults>
void BasicBreaker<Faults>::look_at_time(Time now, std::vector<BreakerEvent>& events) {
  const Time until(Duration(until_.load(std::memory_order_relaxed)));
  switch (state_of(state_.load(std::memory_order_relaxed))) {
    case BreakerState::kClosed: return;
    case BreakerState::kOpen:
      if (now < until) return;
      enter(BreakerState::kHalfOpen, "open_is_over", now, events);
      half_open_until_ = saturating_add(now, options_.half_open_max_duration);
      return;
    case BreakerState::kHalfOpen:
      fail_lost_probes(now);
      if (failures_ >= options_.half_open_failure_threshold) {
        ++attempt_;
        open("probes_failed", now, events);
        return;
      }
      if (now < half_open_until_) return;
      if (std::ranges::any_of(probes_, [&](const Probe& probe) {
            return probe.epoch == epoch_of(state_.load(std::memory_order_relaxed));
          })) {
        return;
      }
      if (!probed_) {
        half_open_until_ = saturating_add(now, options_.half_open_max_duration);  // Nobody has asked.
        return;
      }
      ++attempt_;
      open("half_open_timeout", now, events);
      return;
    case BreakerState::kForcedOpen:
      if (now < until) return;
      enter(BreakerState::kHalfOpen, "control_expired", now, events);
      half_open_until_ = saturating_add(now, options_.half_open_max_duration);
      return;
    case BreakerState::kForcedClosed:
    case BreakerState::kDisabled:
      if (now < until) return;
      close("control_expired", now, events);
      return;
  }
}

// ---- by hand

template <class Faults>
void BasicBreaker<Faults>::control(BreakerState state, std::string_view actor, std::string_view reason,
                                   std::optional<Duration> expires_in) {
  const Time now = clock_.now();
  std::vector<BreakerEvent> events;
  {
    MutexLock lock(mutex_);
    const BreakerState before = state_of(state_.load(std::memory_order_relaxed));
    if (state == BreakerState::kClosed) {
      if (before == BreakerState::kForcedOpen) {
        enter(BreakerState::kHalfOpen, "control", now, events);
        half_open_until_ = saturating_add(now, options_.half_open_max_duration);
      } else {
        close("control", now, events);
      }
    } else {
      const Time until = expires_in ? saturating_add(now, *expires_in) : Time::max();
      until_.store(until.time_since_epoch().count(), std::memory_order_relaxed);
      enter(state, "control", now, events);
    }
    events.back().actor = actor;
    events.back().text = reason;
    events.back().expires_in = expires_in;
  }
  tell(events);
}

template <class Faults>
void BasicBreaker<Faults>::force_open(std::string_view actor, std::string_view reason,
                                      std::optional<Duration> expires_in) {
  control(BreakerState::kForcedOpen, actor, reason, expires_in);
}

template <class Faults>
void BasicBreaker<Faults>::force_closed(std::string_view actor, std::string_view reason,
                                        std::optional<Duration> expires_in) {
  control(BreakerState::kForcedClosed, actor, reason, expires_in);
}

template <class Faults>
void BasicBreaker<Faults>::disable(std::string_view actor, std::string_view reason,
                                   std::optional<Duration> expires_in) {
  control(BreakerState::kDisabled, actor, reason, expires_in);
}

template <class Faults>
void BasicBreaker<Faults>::release(std::string_view actor, std::string_view reason) {
  control(BreakerState::kClosed, actor, reason, std::nullopt);
}

template <class Faults>
Result<void> BasicBreaker<Faults>::reconfigure(const BreakerOptions& options, std::string_view actor,
                                               std::string_view reason) {
  if (auto checked = options.check(); !checked) return checked;
  std::vector<BreakerEvent> events;
  {
    MutexLock lock(mutex_);
    if (options.window != options_.window) {
      return Error{ErrorCode::kInvalid,
                   "window cannot change while the breaker runs: it would lose what it has measured"};
    }
    options_ = options;
    set_live();
    BreakerEvent event;
    event.from = event.to = state_of(state_.load(std::memory_order_relaxed));
    event.reason = "reconfigured";
    event.at = clock_.now();
    event.actor = actor;
    event.text = reason;
    events.push_back(std::move(event));
  }
  tell(events);
  return {};
}

// ---- seen from outside

template <class Faults>
BreakerOptions BasicBreaker<Faults>::options() const {
  MutexLock lock(mutex_);
  return options_;
}

template <class Faults>
auto BasicBreaker<Faults>::snapshot_locked(Time now) const -> Snapshot {
  Snapshot snapshot;
  snapshot.state = state_of(state_.load(std::memory_order_relaxed));
  snapshot.window = window_.counts(now);
  snapshot.consecutive_failures = consecutive_.load(std::memory_order_relaxed);
  snapshot.attempt = attempt_;
  snapshot.probes_out = static_cast<std::uint32_t>(probes_.size());
  const Time until(Duration(until_.load(std::memory_order_relaxed)));
  const bool has_end = snapshot.state != BreakerState::kClosed && snapshot.state != BreakerState::kHalfOpen;
  if (has_end && until > now) snapshot.open_for = until == Time::max() ? Duration::max() : until - now;
  return snapshot;
}

template <class Faults>
auto BasicBreaker<Faults>::snapshot() const -> Snapshot {
  const Time now = clock_.now();
  MutexLock lock(mutex_);
  return snapshot_locked(now);
}

template <class Faults>
auto BasicBreaker<Faults>::save() const -> Saved {
  const Snapshot now = snapshot();
  return {now.state, now.open_for, now.attempt, now.consecutive_failures};
}

template <class Faults>
void BasicBreaker<Faults>::restore(const Saved& saved) {
  const Time now = clock_.now();
  std::vector<BreakerEvent> events;
  {
    MutexLock lock(mutex_);
    attempt_ = std::min(saved.attempt, 1000U);
    const bool opens = saved.state == BreakerState::kOpen || saved.state == BreakerState::kHalfOpen;
    const bool forced = saved.state == BreakerState::kForcedOpen || saved.state == BreakerState::kForcedClosed ||
                        saved.state == BreakerState::kDisabled;
    const Duration open_for =
        std::clamp(saved.open_for, Duration::zero(), forced ? Duration::max() : options_.open_max);
    const Time until = saturating_add(now, open_for);
    until_.store(until.time_since_epoch().count(), std::memory_order_relaxed);
    enter(opens ? BreakerState::kOpen : forced ? saved.state : BreakerState::kClosed, "restored", now, events);
    consecutive_.store(opens ? 0 : saved.consecutive_failures, std::memory_order_relaxed);
    if (opens) events.back().open_duration = open_for;
  }
  tell(events);
}

template <class Faults>
void BasicBreaker<Faults>::tell(const std::vector<BreakerEvent>& events) {
  if (!listener_) return;
  for (const BreakerEvent& event : events) {
    try {
      listener_(event);
    } catch (...) {
      // The documented meaning of a listener that throws.
    }
  }
}

}  // namespace cohort
