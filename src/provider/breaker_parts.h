#pragma once

// What Breaker does; for breaker.cc, and for tests that plant bugs in it.

#include <algorithm>
#include <cmath>

#include "cohort/base/log.h"
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

/// Whether an end of that kind means that the provider has sent something.
constexpr bool is_from_provider(FailureType type) {
  switch (type) {
    case FailureType::kSuccess:
    case FailureType::kHttp5xx:
    case FailureType::kHttp429:
    case FailureType::kHttp4xx:
    case FailureType::kHttpAuth:
    case FailureType::kDecode: return true;
    default: return false;
  }
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
void BasicPermit<Faults>::failure_out_of_row(FailureType type, Duration latency) {
  if (breaker_ == nullptr) return;
  breaker_->end(*this, type, latency, breaker_->clock_.now(), BasicBreaker<Faults>::Row::kCountsNot);
}

template <class Faults>
void BasicPermit<Faults>::cut_off() {
  if (breaker_ != nullptr) breaker_->end_cut_off(*this);
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
  successes_.reserve(64);
  set_live();
  if (Result<void> checked = options.check(); !checked) {
    COHORT_LOG(kWarning, "provider", "options of a breaker were corrected: " + checked.error().message);
  }
}

template <class Faults>
void BasicBreaker<Faults>::set_live() {
  constexpr auto relaxed = std::memory_order_relaxed;
  live_.min_calls.store(options_.min_calls, relaxed);
  live_.error_rate.store(options_.error_rate_threshold, relaxed);
  live_.slow_rate.store(options_.slow_rate_threshold, relaxed);
  live_.slow_call.store(options_.slow_from().count(), relaxed);
  live_.shadow.store(options_.shadow, relaxed);
  live_.consecutive.store(options_.consecutive_failure_threshold, relaxed);
  for (std::size_t i = 0; i < kFailureTypes; ++i) {
    live_.rules[i].store(internal::packed(options_.rules[static_cast<FailureType>(i)]), relaxed);
  }
}

template <class Faults>
auto BasicBreaker<Faults>::refuse(Time now, Time retry_at) -> Permit {
  if (!live_.shadow.load(std::memory_order_relaxed)) return Permit(nullptr, 0, retry_at, 0);
  shadow_passed_.fetch_add(1, std::memory_order_relaxed);
  return Permit(this, kNoEpoch, now, 0);
}

template <class Faults>
auto BasicBreaker<Faults>::allow(std::optional<Time> deadline, bool gave_less) -> Permit {
  const Time now = clock_.now();
  const std::uint64_t word = state_.load(std::memory_order_acquire);
  if (state_of(word) == BreakerState::kClosed) return Permit(this, epoch_of(word), now, 0);
  if (state_of(word) == BreakerState::kOpen) {
    const Time until(Duration(until_.load(std::memory_order_relaxed)));
    // It may have opened again, for other times, since the first look: then the other way will tell.
    if (now < until && state_.load(std::memory_order_acquire) == word) return refuse(now, until);
  }
  return allow_slowly(now, deadline, gave_less);
}

template <class Faults>
auto BasicBreaker<Faults>::allow_slowly(Time now, std::optional<Time> deadline, bool gave_less) -> Permit {
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
      case BreakerState::kOpen: permit = refuse(now, Time(Duration(until_.load(std::memory_order_relaxed)))); break;
      case BreakerState::kForcedOpen:
        permit = Permit(nullptr, 0, Time(Duration(until_.load(std::memory_order_relaxed))), 0);
        break;
      case BreakerState::kHalfOpen:
        if (has_place_for_probe(now) && deadline.value_or(Time::max()) > now) {
          if (++next_probe_ == 0) ++next_probe_;
          const Duration longest = std::max(options_.half_open_max_duration, options_.call_timeout);
          probes_.push_back({next_probe_, epoch_of(word), deadline.value_or(saturating_add(now, longest)), gave_less});
          permit = Permit(this, epoch_of(word), now, next_probe_);
        } else {
          // A place may be free when the first lease ends; an answer may come any time.
          Time first = half_open_until_;
          for (const Probe& probe : probes_) first = std::min(first, probe.leased_until);
          permit = refuse(now, std::max(first, now));
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
  if (live_.shadow.load(std::memory_order_relaxed) && state != BreakerState::kForcedOpen) return true;
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

// Of those that are out, whenever they began, there are never more than permitted. One that has failed keeps its place,
// one that has succeeded gives it to the next.
template <class Faults>
bool BasicBreaker<Faults>::has_place_for_probe(Time now) const {
  if (now >= half_open_until_ && opens_at_end_of_period()) return false;  // They would come too late.
  const std::uint64_t epoch = epoch_of(state_.load(std::memory_order_relaxed));
  std::size_t out = 0;
  std::size_t taken = failures_;
  for (const Probe& probe : probes_) {
    if (probe.leased_until <= now) continue;
    ++out;
    if (probe.epoch == epoch) ++taken;
  }
  return out < options_.permitted_calls_in_half_open && taken < options_.permitted_calls_in_half_open;
}

template <class Faults>
Time BasicBreaker<Faults>::retry_at() const {
  const Time now = clock_.now();
  const BreakerState state = state_of(state_.load(std::memory_order_acquire));
  if (is_shadow() && state != BreakerState::kForcedOpen) return now;
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
void BasicBreaker<Faults>::end(Permit& permit, FailureType type, Duration latency, Time now, Row row) {
  permit.breaker_ = nullptr;
  const std::uint8_t rule = live_.rules[static_cast<std::size_t>(type)].load(std::memory_order_relaxed);
  const bool slow = latency.count() >= live_.slow_call.load(std::memory_order_relaxed);
  const std::uint32_t half_errors = rule & internal::kHalfErrorsMask;
  if (permit.probe_ != 0) {
    const bool counts = (rule & internal::kCounts) != 0;
    return end_probe(permit,
                     (rule & internal::kIsAnswer) != 0 ? (slow && counts ? ProbeEnd::kFailure : ProbeEnd::kSuccess)
                     : counts && half_errors == 2      ? ProbeEnd::kFailure
                     : counts && half_errors == 1      ? ProbeEnd::kRefused
                                                       : ProbeEnd::kNothing,
                     now);
  }
  if (epoch_of(state_.load(std::memory_order_acquire)) != permit.epoch_ && !Faults::kCountStale) return;
  if ((rule & internal::kIsAnswer) != 0) {
    if (consecutive_.load(std::memory_order_relaxed) != 0) consecutive_.store(0, std::memory_order_relaxed);
  } else if ((rule & internal::kConsecutive) != 0 && row == Row::kCounts) {
    consecutive_.fetch_add(1, std::memory_order_relaxed);
  }
  if (internal::is_from_provider(type) && cut_off_.load(std::memory_order_relaxed) != 0) {
    cut_off_.store(0, std::memory_order_relaxed);
  }
  if ((rule & internal::kCounts) == 0) return;
  window_.record(now, half_errors, slow);
  if (window_.has_trouble(now)) consider_opening(permit.epoch_, now);
}

template <class Faults>
void BasicBreaker<Faults>::end_abandoned(Permit& permit) {
  permit.breaker_ = nullptr;
  if (permit.probe_ == 0 || Faults::kLeakProbe) return;
  MutexLock lock(mutex_);
  std::erase_if(probes_, [&](const Probe& probe) { return probe.number == permit.probe_; });
}

template <class Faults>
void BasicBreaker<Faults>::end_cut_off(Permit& permit) {
  permit.breaker_ = nullptr;
  const Time now = clock_.now();
  if (permit.probe_ != 0) return end_probe(permit, ProbeEnd::kCutOff, now);
  if (epoch_of(state_.load(std::memory_order_acquire)) != permit.epoch_) return;
  cut_off_.fetch_add(1, std::memory_order_relaxed);
  consider_opening(permit.epoch_, now);
}

// A slow success is a failed probe, an answer of any other kind a successful one. One that was too much for the
// provider, that was cut off, or that does not count gives its place back.
template <class Faults>
void BasicBreaker<Faults>::end_probe(const Permit& permit, ProbeEnd end, Time now) {
  std::vector<BreakerEvent> events;
  {
    MutexLock lock(mutex_);
    const std::uint64_t word = state_.load(std::memory_order_relaxed);
    if (std::erase_if(probes_, [&](const Probe& each) { return each.number == permit.probe_; }) == 0) {
      return;  // Its lease ended.
    }
    if (state_of(word) != BreakerState::kHalfOpen) return;
    if (epoch_of(word) != permit.epoch_ && !Faults::kCountStale) return;
    switch (end) {
      case ProbeEnd::kSuccess:
        std::erase_if(successes_, [&](Time at) { return now - at >= kSuccessCounts; });
        successes_.push_back(now);
        refused_ = false;
        break;
      case ProbeEnd::kFailure: ++failures_; break;
      case ProbeEnd::kRefused: refused_ = successes(now) == 0; break;
      case ProbeEnd::kCutOff: ++cut_off_probes_; break;
      case ProbeEnd::kNothing: break;
    }
    if (end == ProbeEnd::kSuccess || end == ProbeEnd::kRefused) cut_off_probes_ = 0;
    decide_by_probes(now, events);
  }
  tell(events);
}

template <class Faults>
std::uint32_t BasicBreaker<Faults>::successes(Time now) const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(successes_, [&](Time at) { return now - at < kSuccessCounts; }));
}

template <class Faults>
bool BasicBreaker<Faults>::probes_failed() const {
  return failures_ >= options_.half_open_failure_threshold ||
         cut_off_probes_ >= 2 * options_.consecutive_failure_threshold;
}

// Where nothing speaks against the provider, the period is extended instead.
template <class Faults>
bool BasicBreaker<Faults>::opens_at_end_of_period() const {
  return failures_ != 0 || refused_ || Faults::kNeverExtend;
}

template <class Faults>
void BasicBreaker<Faults>::decide_by_probes(Time now, std::vector<BreakerEvent>& events) {
  const bool failed = probes_failed();
  const std::uint32_t succeeded = successes(now);
  // Where thresholds have been changed meanwhile all probes may be used up with nothing decided.
  const bool used_up = succeeded + failures_ >= options_.permitted_calls_in_half_open;
  if (!failed && succeeded >= options_.half_open_success_threshold) {
    close("probes_succeeded", now, events);
  } else if (failed || used_up) {
    ++attempt_;
    open("probes_failed", now, events);
  }
}

template <class Faults>
std::string_view BasicBreaker<Faults>::reason_to_open(Time now) const {
  constexpr auto relaxed = std::memory_order_relaxed;
  const std::uint32_t row = live_.consecutive.load(relaxed);
  if (consecutive_.load(relaxed) >= row) return "consecutive_failure_threshold";
  if (cut_off_.load(relaxed) >= 2 * row) return "cut_off_in_a_row";
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
  event.shadow = options_.shadow;
  event.at = now;
  events.push_back(std::move(event));
  successes_.clear();
  failures_ = cut_off_probes_ = 0;
  refused_ = false;
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
  cut_off_.store(0, std::memory_order_relaxed);
}

template <class Faults>
void BasicBreaker<Faults>::enter_half_open(std::string_view reason, Time now, std::vector<BreakerEvent>& events) {
  enter(BreakerState::kHalfOpen, reason, now, events);
  half_open_until_ = saturating_add(now, options_.half_open_max_duration);
}

// A probe whose lease has ended has failed: its provider has not answered in time, or its caller is lost. Where the
// caller gave it too little time, it was cut off. Its place is free again.
template <class Faults>
void BasicBreaker<Faults>::count_lost_probes(Time now) {
  const std::uint64_t epoch = epoch_of(state_.load(std::memory_order_relaxed));
  const auto is_lost = [&](const Probe& probe) { return probe.leased_until <= now; };
  for (const Probe& probe : probes_) {
    if (is_lost(probe) && probe.epoch == epoch) ++(probe.gave_less ? cut_off_probes_ : failures_);
  }
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
      enter_half_open("open_is_over", now, events);
      return;
    case BreakerState::kHalfOpen:
      count_lost_probes(now);
      std::erase_if(successes_, [&](Time at) { return now - at >= kSuccessCounts; });
      if (probes_failed()) {
        ++attempt_;
        open("probes_failed", now, events);
        return;
      }
      if (now < half_open_until_) return;
      if (!opens_at_end_of_period()) {
        half_open_until_ = saturating_add(now, options_.half_open_max_duration);
        return;
      }
      if (std::ranges::any_of(probes_, [&](const Probe& probe) {
            return probe.epoch == epoch_of(state_.load(std::memory_order_relaxed));
          })) {
        return;
      }
      ++attempt_;
      open("half_open_timeout", now, events);
      return;
    case BreakerState::kForcedOpen:
      if (now < until) return;
      enter_half_open("control_expired", now, events);
      return;
    case BreakerState::kForcedClosed:
    case BreakerState::kDisabled:
      if (now < until) return;
      close("control_expired", now, events);
      return;
  }
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

#include "provider/breaker_control.h"  // IWYU pragma: export
