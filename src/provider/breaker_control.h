#pragma once

// Part of BasicBreaker, for breaker_parts.h: what is done by hand, what is seen from outside, what outlives a restart.

#include "provider/breaker_parts.h"

namespace cohort {

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
        enter_half_open("control", now, events);
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
    const Duration call_timeout = options_.call_timeout;
    options_ = options;
    if (options_.call_timeout == Duration::zero()) options_.call_timeout = call_timeout;
    if (!options_.can_be_slow()) {
      COHORT_LOG(kWarning, "provider", "the slow_call_threshold is longer than the time-out: no call can be slow");
    }
    set_live();
    const Time now = clock_.now();
    BreakerEvent event;
    event.from = event.to = state_of(state_.load(std::memory_order_relaxed));
    event.reason = "reconfigured";
    event.shadow = options_.shadow;
    event.at = now;
    event.actor = actor;
    event.text = reason;
    events.push_back(std::move(event));
    // What its probes have said so far may be enough now.
    if (events.back().to == BreakerState::kHalfOpen) decide_by_probes(now, events);
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
FailureRule BasicBreaker<Faults>::rule(FailureType type) const {
  MutexLock lock(mutex_);
  return options_.rules[type];
}

template <class Faults>
auto BasicBreaker<Faults>::snapshot_locked(Time now) const -> Snapshot {
  Snapshot snapshot;
  snapshot.state = state_of(state_.load(std::memory_order_relaxed));
  snapshot.window = window_.counts(now);
  snapshot.consecutive_failures = consecutive_.load(std::memory_order_relaxed);
  snapshot.cut_off_in_a_row = cut_off_.load(std::memory_order_relaxed);
  snapshot.attempt = attempt_;
  snapshot.shadow = options_.shadow;
  snapshot.shadow_passed = shadow_passed_.load(std::memory_order_relaxed);
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

}  // namespace cohort
