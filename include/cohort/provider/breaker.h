#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/function.h"
#include "cohort/base/mutex.h"
#include "cohort/base/random.h"
#include "cohort/base/result.h"
#include "cohort/provider/failure_type.h"
#include "cohort/provider/window.h"

namespace cohort {

enum class BreakerState : std::uint8_t {
  kClosed,        ///< Calls pass and are measured.
  kOpen,          ///< The breaker refuses all calls until its open time is over.
  kHalfOpen,      ///< A few calls pass as probes. Their results close the breaker or open it again.
  kForcedOpen,    ///< By hand: the breaker refuses all calls.
  kForcedClosed,  ///< By hand: calls pass and are measured, and nothing opens the breaker.
  kDisabled,      ///< By hand: calls pass and are measured, as if there were no breaker.
};
[[nodiscard]] std::string_view to_string(BreakerState state);

struct BreakerOptions {
  WindowOptions window{};

  // A closed breaker opens when one of these conditions holds.
  std::uint32_t min_calls = 20;       ///< The rates count only from this many calls in the window on. 1 to 1,000,000.
  double error_rate_threshold = 0.5;  ///< The breaker opens at this error rate. Above 0, at most 1.
  /// A call that takes at least this long is slow. Longer than 0. Not set: 4 s, or `call_timeout` if that is shorter.
  std::optional<Duration> slow_call_threshold{};
  double slow_rate_threshold = 0.6;  ///< The breaker opens at this share of slow calls. Above 0, at most 1.
  /// The breaker opens after this many failures in a row. It also opens after twice as many calls in a row that their
  /// callers cut off, without any answer in between. At least 1.
  std::uint32_t consecutive_failure_threshold = 5;
  Duration call_timeout{0};  ///< How long a call may take. 0: unknown. A Router replaces 0 by its own time-out.

  // The breaker stays open for min(open_base * open_backoff_multiplier ^ n, open_max), plus or minus a random part of
  // at most open_jitter_ratio. n counts how often in a row the breaker has opened again out of half open.
  Duration open_base = std::chrono::seconds(5);   ///< Longer than 0.
  Duration open_max = std::chrono::seconds(300);  ///< At least open_base.
  double open_backoff_multiplier = 2.0;           ///< 1 to 10.
  double open_jitter_ratio = 0.2;                 ///< 0 to 0.9.

  // After the open time the breaker is half open.
  /// Maximum number of probes at a time. A failed probe keeps its place. 1 to 64.
  std::uint32_t permitted_calls_in_half_open = 2;
  /// The breaker closes after this many successful probes. 1 to permitted_calls_in_half_open.
  std::uint32_t half_open_success_threshold = 2;
  /// The breaker opens again after this many failed probes. It also opens again after 2 x
  /// `consecutive_failure_threshold` probes in a row that their callers cut off. 1 to permitted_calls_in_half_open.
  std::uint32_t half_open_failure_threshold = 1;
  /// How long one half-open period lasts. If the period ends undecided, the breaker opens again or extends the period
  /// by this duration. It opens again, when the last probe has ended, if a probe failed, or if a probe got a 429 and
  /// none has succeeded since. A success counts for ten minutes. Longer than 0.
  Duration half_open_max_duration = std::chrono::seconds(30);

  FailureRules rules{};
  /// A shadow breaker only reports what it would do. It changes its state and sends its events, but every call passes.
  /// Exception: it refuses calls while it is forced open by hand.
  bool shadow = false;

  /// Fails with kInvalid if a value is out of range or contradicts another value. The message names the fields.
  [[nodiscard]] Result<void> check() const;
  /// The latency from which on a call counts as slow.
  [[nodiscard]] Duration slow_from() const;
  /// False if every call times out before it can count as slow.
  [[nodiscard]] bool can_be_slow() const { return call_timeout == Duration::zero() || slow_from() <= call_timeout; }
  friend bool operator==(const BreakerOptions&, const BreakerOptions&) = default;
};

/// A change of a breaker's state or options.
struct BreakerEvent {
  BreakerState from = BreakerState::kClosed;
  BreakerState to = BreakerState::kClosed;  ///< Equal to `from` if the state did not change.
  /// The cause: error_rate_threshold, slow_rate_threshold, consecutive_failure_threshold, cut_off_in_a_row,
  /// probes_succeeded, probes_failed, half_open_timeout, open_is_over, control, control_expired, reconfigured or
  /// restored.
  std::string_view reason{};
  double error_rate = 0;
  double slow_rate = 0;
  std::uint32_t consecutive_failures = 0;
  Duration open_duration{0};  ///< How long the breaker will stay open. Set only when it opens.
  std::uint32_t attempt = 0;  ///< How often in a row the breaker has opened again out of half open.
  bool shadow = false;        ///< The breaker is a shadow: the change has no effect on calls.
  Time at{};
  // Set only for changes by hand.
  std::string actor{};                   ///< The person or program that made the change.
  std::string text{};                    ///< The reason that the actor gave.
  std::optional<Duration> expires_in{};  ///< The change ends by itself after this time.
};

/// Switches for planted bugs. Production code plants none; a test plants one bug to check that the test suite finds it.
struct NoBreakerFaults {
  static constexpr bool kLeakProbe = false;    ///< An abandoned probe keeps its place.
  static constexpr bool kCountStale = false;   ///< A result from an earlier epoch counts.
  static constexpr bool kKeepBackoff = false;  ///< Closing does not reset the back-off.
  static constexpr bool kKeepWindow = false;   ///< Closing does not clear the window.
  static constexpr bool kNeverExtend = false;  ///< A half-open period that had only successes ends in open.
};

template <class Faults = NoBreakerFaults>
class BasicBreaker;

/// The permission of a breaker to make one call. An empty permit means "refused" and says when to ask again.
///
/// Report the end of the call with success(), failure() or cut_off(). A permit that is dropped ends as abandoned: the
/// breaker counts nothing and frees the place of a probe. If the breaker has changed its state since it gave the
/// permit, the end does not count.
///
/// Thread-safety: confined to one thread at a time.
template <class Faults = NoBreakerFaults>
class [[nodiscard]] BasicPermit {
 public:
  BasicPermit() = default;
  BasicPermit(BasicPermit&& other) noexcept { *this = std::move(other); }
  BasicPermit& operator=(BasicPermit&& other) noexcept {
    abandon();
    breaker_ = std::exchange(other.breaker_, nullptr);
    epoch_ = other.epoch_;
    started_ = other.started_;
    probe_ = other.probe_;
    return *this;
  }
  ~BasicPermit() { abandon(); }

  /// True if the call may be made.
  explicit operator bool() const { return breaker_ != nullptr; }
  /// For an empty permit: the time at which asking again is worthwhile.
  [[nodiscard]] Time retry_at() const { return started_; }
  /// When the breaker gave the permit.
  [[nodiscard]] Time started() const { return started_; }
  /// True if the call is a probe of a half-open breaker.
  [[nodiscard]] bool is_probe() const { return probe_ != 0; }

  /// Ends the permit. Without `latency`, the latency is the time since the breaker gave the permit.
  void success() { finish(FailureType::kSuccess); }
  void success(Duration latency) { finish(FailureType::kSuccess, latency); }
  void failure(FailureType type) { finish(type); }
  void failure(FailureType type, Duration latency) { finish(type, latency); }
  void finish(FailureType type);
  void finish(FailureType type, Duration latency);
  /// Counts a failure in the error rate, but not as one of the failures in a row. Use it if the request itself may be
  /// the cause.
  void failure_out_of_row(FailureType type, Duration latency);
  /// The caller gave the call less time than a call may take, and no answer came in that time. This is not a failure,
  /// but 2 x `consecutive_failure_threshold` of these calls in a row open the breaker.
  void cut_off();
  /// Ends the permit without counting anything. Frees the place of a probe.
  void abandon();

 private:
  friend class BasicBreaker<Faults>;
  BasicPermit(BasicBreaker<Faults>* breaker, std::uint64_t epoch, Time started, std::uint32_t probe)
      : breaker_(breaker), epoch_(epoch), started_(started), probe_(probe) {}

  BasicBreaker<Faults>* breaker_ = nullptr;
  std::uint64_t epoch_ = 0;
  Time started_{};
  std::uint32_t probe_ = 0;  // The number of the probe's lease. 0: the call is no probe.
};

/// Decides from the results of a provider's last calls whether the provider may be called.
///
///     Breaker breaker;
///     if (Permit permit = breaker.allow()) {
///       call() ? permit.success() : permit.failure(FailureType::kHttp5xx);
///     } else {
///       // Open: ask again at permit.retry_at().
///     }
///
/// `state_` holds the state and the epoch, a number that each change of state increases. A permit remembers its epoch;
/// the end of a permit from an earlier epoch changes nothing. While the breaker is closed, allow() and success() are a
/// few atomic operations without a lock. Everything else happens under `mutex_`. Listeners run after the breaker has
/// released `mutex_`.
///
/// Thread-safety: thread-safe. All permits must have ended before the breaker is destroyed.
template <class Faults>
class BasicBreaker {
 public:
  using Permit = BasicPermit<Faults>;

  /// Corrects values that BreakerOptions::check() refuses to the nearest legal value and logs a warning.
  explicit BasicBreaker(const BreakerOptions& options = {}, Clock& clock = system_clock(), std::uint64_t seed = 0);
  BasicBreaker(const BasicBreaker&) = delete;
  BasicBreaker& operator=(const BasicBreaker&) = delete;

  /// Asks for the permission to make one call. Never blocks.
  ///
  /// `deadline` is the time at which the caller gives up. A probe that has not ended by then counts as failed; if
  /// `gave_less` is true, it counts as cut off. Set `gave_less` if the caller gives the call less time than a call may
  /// take. Without a deadline a probe has the longer of half_open_max_duration and call_timeout. A probe whose deadline
  /// is over gets no permit.
  Permit allow(std::optional<Time> deadline = std::nullopt, bool gave_less = false);
  /// True if calling allow() is worthwhile: it would give a permit, or enough time has passed for a change of state.
  /// Takes no permit.
  [[nodiscard]] bool would_allow() const;
  /// The time at which calling allow() is worthwhile. This is now, unless the breaker is open or a half-open breaker
  /// has no free place for a probe.
  [[nodiscard]] Time retry_at() const;

  [[nodiscard]] BreakerState state() const { return state_of(state_.load(std::memory_order_acquire)); }
  /// The error rate of the calls in the window.
  [[nodiscard]] double error_rate(Time now) const {
    return window_.has_trouble(now) ? std::min(window_.counts(now).error_rate(), 1.0) : 0.0;
  }
  /// When the breaker last changed its state. `nullopt` if it never has.
  [[nodiscard]] std::optional<Time> changed_at() const {
    const Time::rep at = changed_at_.load(std::memory_order_relaxed);
    return at == 0 ? std::nullopt : std::optional(Time(Duration(at)));
  }
  [[nodiscard]] BreakerOptions options() const;
  [[nodiscard]] bool is_shadow() const { return live_.shadow.load(std::memory_order_relaxed); }
  /// The rule for calls that end as `type`.
  [[nodiscard]] FailureRule rule(FailureType type) const;
  /// The state and the counters at one moment.
  struct Snapshot {
    BreakerState state = BreakerState::kClosed;
    Window::Counts window;
    std::uint32_t consecutive_failures = 0;
    std::uint32_t cut_off_in_a_row = 0;
    std::uint32_t attempt = 0;     ///< How often in a row the breaker has opened again out of half open.
    std::uint32_t probes_out = 0;  ///< Probes that have not ended.
    bool shadow = false;
    std::uint64_t shadow_passed = 0;  ///< Calls that passed only because the breaker is a shadow.
    /// How much longer the breaker stays open, or stays in the state that was forced by hand. Duration::max(): no end.
    Duration open_for{0};
  };
  [[nodiscard]] Snapshot snapshot() const;

  // Control by hand. The event of the change carries `actor` and `reason`.
  /// Enters kForcedOpen until release() is called or `expires_in` has passed.
  void force_open(std::string_view actor, std::string_view reason, std::optional<Duration> expires_in = {});
  /// Enters kForcedClosed until release() is called or `expires_in` has passed.
  void force_closed(std::string_view actor, std::string_view reason, std::optional<Duration> expires_in = {});
  /// Enters kDisabled until release() is called or `expires_in` has passed.
  void disable(std::string_view actor, std::string_view reason, std::optional<Duration> expires_in = {});
  /// Ends the control by hand. A breaker that was forced open becomes half open. Any other breaker becomes closed, with
  /// an empty window.
  void release(std::string_view actor, std::string_view reason);

  /// Changes the options while the breaker runs and keeps all measurements. Fails with kInvalid if check() refuses
  /// `options` or if `options.window` differs from the current window.
  Result<void> reconfigure(const BreakerOptions& options, std::string_view actor = {}, std::string_view reason = {});

  /// The part of the state that survives a restart. It holds remaining times, not points of time.
  struct Saved {
    BreakerState state = BreakerState::kClosed;
    Duration open_for{0};  ///< Remaining time, if the breaker is open or forced by hand. Duration::max(): no end.
    std::uint32_t attempt = 0;
    std::uint32_t consecutive_failures = 0;
  };
  [[nodiscard]] Saved save() const;
  /// Restores a saved state. A half-open breaker is restored as open with no time left, so the next call is a probe.
  void restore(const Saved& saved);

  /// Sets the listener for changes. Call it before the breaker is used. The breaker calls the listener with no lock
  /// held. The listener may call the breaker. The breaker ignores exceptions of the listener.
  void on_event(Function<void(const BreakerEvent&)> listener) { listener_ = std::move(listener); }

 private:
  friend class BasicPermit<Faults>;
  static constexpr std::uint32_t kStateBits = 3;
  static constexpr std::uint64_t kNoEpoch = ~std::uint64_t{0};          // For a permit whose end counts nowhere.
  static constexpr Duration kSuccessCounts = std::chrono::minutes(10);  // How long a probe's success counts.
  static BreakerState state_of(std::uint64_t word) { return static_cast<BreakerState>(word & 7U); }
  static std::uint64_t epoch_of(std::uint64_t word) { return word >> kStateBits; }

  struct Probe {
    std::uint32_t number = 0;
    std::uint64_t epoch = 0;
    Time leased_until{};
    bool gave_less = false;
  };
  enum class Row : std::uint8_t { kCounts, kCountsNot };
  enum class ProbeEnd : std::uint8_t { kSuccess, kFailure, kRefused, kCutOff, kNothing };
  // Copies of the thresholds, for code that holds no lock.
  struct Live {
    std::atomic<std::uint32_t> min_calls;
    std::atomic<double> error_rate;
    std::atomic<double> slow_rate;
    std::atomic<Duration::rep> slow_call;
    std::atomic<std::uint32_t> consecutive;
    std::atomic<bool> shadow;
    std::array<std::atomic<std::uint8_t>, kFailureTypes> rules;
  };

  Permit allow_slowly(Time now, std::optional<Time> deadline, bool gave_less) COHORT_EXCLUDES(mutex_);
  void end(Permit& permit, FailureType type, Duration latency, Time now, Row row = Row::kCounts);
  void end_abandoned(Permit& permit);
  void end_cut_off(Permit& permit);
  void end_probe(const Permit& permit, ProbeEnd end, Time now) COHORT_EXCLUDES(mutex_);
  Permit refuse(Time now, Time retry_at);
  void consider_opening(std::uint64_t epoch, Time now);
  [[nodiscard]] std::string_view reason_to_open(Time now) const;

  void enter(BreakerState state, std::string_view reason, Time now, std::vector<BreakerEvent>& events)
      COHORT_REQUIRES(mutex_);
  void open(std::string_view reason, Time now, std::vector<BreakerEvent>& events) COHORT_REQUIRES(mutex_);
  void close(std::string_view reason, Time now, std::vector<BreakerEvent>& events) COHORT_REQUIRES(mutex_);
  void look_at_time(Time now, std::vector<BreakerEvent>& events) COHORT_REQUIRES(mutex_);
  void enter_half_open(std::string_view reason, Time now, std::vector<BreakerEvent>& events) COHORT_REQUIRES(mutex_);
  void decide_by_probes(Time now, std::vector<BreakerEvent>& events) COHORT_REQUIRES(mutex_);
  void count_lost_probes(Time now) COHORT_REQUIRES(mutex_);
  [[nodiscard]] bool probes_failed() const COHORT_REQUIRES(mutex_);
  [[nodiscard]] bool opens_at_end_of_period() const COHORT_REQUIRES(mutex_);
  [[nodiscard]] std::uint32_t successes(Time now) const COHORT_REQUIRES(mutex_);
  [[nodiscard]] bool has_place_for_probe(Time now) const COHORT_REQUIRES(mutex_);
  void control(BreakerState state, std::string_view actor, std::string_view reason, std::optional<Duration> expires_in);
  void set_live() COHORT_REQUIRES(mutex_);
  [[nodiscard]] Snapshot snapshot_locked(Time now) const COHORT_REQUIRES(mutex_);
  void tell(const std::vector<BreakerEvent>& events);

  Clock& clock_;
  Function<void(const BreakerEvent&)> listener_;
  Live live_;
  Window window_;
  std::atomic<std::uint64_t> state_{0};
  std::atomic<std::uint32_t> consecutive_{0};
  std::atomic<std::uint32_t> cut_off_{0};  // Calls in a row that their callers cut off.
  std::atomic<std::uint64_t> shadow_passed_{0};
  std::atomic<Time::rep> changed_at_{0};
  std::atomic<Time::rep> until_{0};  // When the open or forced state ends.

  mutable Mutex mutex_;
  BreakerOptions options_ COHORT_GUARDED_BY(mutex_);
  Random random_ COHORT_GUARDED_BY(mutex_);
  std::uint32_t attempt_ COHORT_GUARDED_BY(mutex_) = 0;
  // Results of probes since the breaker became half open.
  std::vector<Time> successes_ COHORT_GUARDED_BY(mutex_);  // When the successful probes ended.
  std::uint32_t failures_ COHORT_GUARDED_BY(mutex_) = 0;
  std::uint32_t cut_off_probes_ COHORT_GUARDED_BY(mutex_) = 0;  // Cut-off probes in a row.
  // A probe got a 429 while no success counted, and no probe has succeeded since.
  bool refused_ COHORT_GUARDED_BY(mutex_) = false;
  std::uint32_t next_probe_ COHORT_GUARDED_BY(mutex_) = 0;
  // Probes that have not ended. Probes of an earlier half-open time are included, because they keep the provider busy.
  std::vector<Probe> probes_ COHORT_GUARDED_BY(mutex_);
  Time half_open_until_ COHORT_GUARDED_BY(mutex_){};
};

using Breaker = BasicBreaker<>;
using Permit = BasicPermit<>;
extern template class BasicBreaker<NoBreakerFaults>;
extern template class BasicPermit<NoBreakerFaults>;

}  // namespace cohort
