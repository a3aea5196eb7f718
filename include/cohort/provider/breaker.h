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
  kOpen,          ///< Nothing passes until its time is over.
  kHalfOpen,      ///< A few probes pass and decide.
  kForcedOpen,    ///< By hand: nothing passes.
  kForcedClosed,  ///< By hand: calls pass and are measured, and nothing opens it.
  kDisabled,      ///< By hand: the same, as if there were no breaker.
};
[[nodiscard]] std::string_view to_string(BreakerState state);

struct BreakerOptions {
  WindowOptions window{};

  // It opens when one of these holds.
  std::uint32_t min_calls = 20;       ///< Below that many calls in the window no rate counts. 1 to 1,000,000.
  double error_rate_threshold = 0.5;  ///< Above 0, to 1.
  /// So long is slow. Longer than 0; nothing: 4 s, or `call_timeout` where that is shorter.
  std::optional<Duration> slow_call_threshold{};
  double slow_rate_threshold = 0.6;  ///< Above 0, to 1.
  /// Failures in a row. Twice as many calls in a row that their callers cut off, without any answer, open it too. At
  /// least 1.
  std::uint32_t consecutive_failure_threshold = 5;
  Duration call_timeout{0};  ///< How long a call may take; 0: unknown. A Router fills in its own.

  // How long it stays open: open_base * open_backoff_multiplier ^ (probes that failed in a row), at most open_max, give
  // or take open_jitter_ratio of it.
  Duration open_base = std::chrono::seconds(5);   ///< Longer than 0.
  Duration open_max = std::chrono::seconds(300);  ///< At least open_base.
  double open_backoff_multiplier = 2.0;           ///< 1 to 10.
  double open_jitter_ratio = 0.2;                 ///< 0 to 0.9.

  // Then it is half open.
  std::uint32_t permitted_calls_in_half_open = 2;  ///< Probes at a time, those that have failed included. 1 to 64.
  std::uint32_t half_open_success_threshold = 2;  ///< So many that succeed close it. 1 to permitted_calls_in_half_open.
  /// So many that fail open it again, as do as many that were cut off in a row as open a closed one. Likewise.
  std::uint32_t half_open_failure_threshold = 1;
  /// Undecided for so long, with failures or refusals (429), it opens again when the last probe has ended. Without, it
  /// goes on for as long again; a success counts for ten minutes. Longer than 0.
  Duration half_open_max_duration = std::chrono::seconds(30);

  FailureRules rules{};
  /// It only says what it would do: its states change and its events are told, and every call passes all the same,
  /// unless it is forced open by hand.
  bool shadow = false;

  /// What is wrong with them, naming the fields; or nothing.
  [[nodiscard]] Result<void> check() const;
  /// From when on a call is slow.
  [[nodiscard]] Duration slow_from() const;
  /// False: a call is over before it is slow.
  [[nodiscard]] bool can_be_slow() const { return call_timeout == Duration::zero() || slow_from() <= call_timeout; }
  friend bool operator==(const BreakerOptions&, const BreakerOptions&) = default;
};

/// Something that happened to a breaker.
struct BreakerEvent {
  BreakerState from = BreakerState::kClosed;
  BreakerState to = BreakerState::kClosed;  ///< The same as `from` when only its options changed.
  /// error_rate_threshold, slow_rate_threshold, consecutive_failure_threshold, cut_off_in_a_row, probes_succeeded,
  /// probes_failed, half_open_timeout, open_is_over, control, control_expired, reconfigured or restored.
  std::string_view reason{};
  double error_rate = 0;
  double slow_rate = 0;
  std::uint32_t consecutive_failures = 0;
  Duration open_duration{0};  ///< When it opens.
  std::uint32_t attempt = 0;  ///< How often in a row it has opened again out of half open.
  bool shadow = false;        ///< It would be so, if the breaker were more than a shadow.
  Time at{};
  // Of control.
  std::string actor{};
  std::string text{};
  std::optional<Duration> expires_in{};
};

/// Production has no planted bugs. Tests of the tests plant one at a time.
struct NoBreakerFaults {
  static constexpr bool kLeakProbe = false;    ///< An abandoned probe keeps its place.
  static constexpr bool kCountStale = false;   ///< A result of an older state counts.
  static constexpr bool kKeepBackoff = false;  ///< Closing does not reset the back-off.
  static constexpr bool kKeepWindow = false;   ///< Closing does not clear the window.
  static constexpr bool kNeverExtend = false;  ///< Half open with nothing but successes opens again.
};

template <class Faults = NoBreakerFaults>
class BasicBreaker;

/// The leave to make one call, as a breaker gives it; or none, and then the time at which to ask again.
///
/// It ends with success, failure, cut off or, when it is dropped, as abandoned: then its probe's place is free again
/// and nothing is counted. An end that comes after the breaker has changed its state does not count either.
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

  explicit operator bool() const { return breaker_ != nullptr; }
  /// Where there is no leave: when it is worth asking again.
  [[nodiscard]] Time retry_at() const { return started_; }
  [[nodiscard]] Time started() const { return started_; }
  [[nodiscard]] bool is_probe() const { return probe_ != 0; }

  /// The latency is the time since the permit was given, unless it is told.
  void success() { finish(FailureType::kSuccess); }
  void success(Duration latency) { finish(FailureType::kSuccess, latency); }
  void failure(FailureType type) { finish(type); }
  void failure(FailureType type, Duration latency) { finish(type, latency); }
  void finish(FailureType type);
  void finish(FailureType type, Duration latency);
  /// A failure that counts in the error rate, and not in the row: it may have been the request's own fault.
  void failure_out_of_row(FailureType type, Duration latency);
  /// Its caller gave it less time than a call may take, and that was over before there was an answer. No failure; but
  /// many of them in a row are one.
  void cut_off();
  void abandon();

 private:
  friend class BasicBreaker<Faults>;
  BasicPermit(BasicBreaker<Faults>* breaker, std::uint64_t epoch, Time started, std::uint32_t probe)
      : breaker_(breaker), epoch_(epoch), started_(started), probe_(probe) {}

  BasicBreaker<Faults>* breaker_ = nullptr;
  std::uint64_t epoch_ = 0;
  Time started_{};
  std::uint32_t probe_ = 0;  // The number of its lease; 0: it is none.
};

/// Decides whether a provider may be called, by how its last calls went.
///
///     Breaker breaker;
///     if (Permit permit = breaker.allow()) {
///       call() ? permit.success() : permit.failure(FailureType::kHttp5xx);
///     } else {
///       // Open: ask again at permit.retry_at().
///     }
///
/// `state_` holds the state and a number that each change of state increases, the epoch: a permit remembers it, and an
/// end under another epoch changes nothing. While it is closed, asking and succeeding are a few atomic operations
/// without a lock; everything else is done under `mutex_`. Listeners run after it has been released.
///
/// Thread-safety: thread-safe. Permits must end before it is destroyed.
template <class Faults>
class BasicBreaker {
 public:
  using Permit = BasicPermit<Faults>;

  /// Options that check() refuses are corrected to the nearest that it does not.
  explicit BasicBreaker(const BreakerOptions& options = {}, Clock& clock = system_clock(), std::uint64_t seed = 0);
  BasicBreaker(const BasicBreaker&) = delete;
  BasicBreaker& operator=(const BasicBreaker&) = delete;

  /// Never blocks. `deadline` is when the caller will give up: a probe that has not ended by then has failed, or was
  /// cut off where the caller `gave_less` time than a call may take. One without a deadline has until the longer of
  /// half_open_max_duration and call_timeout. There is no leave for a probe whose deadline is over.
  Permit allow(std::optional<Time> deadline = std::nullopt, bool gave_less = false);
  /// Whether it is worth calling allow(), without taking anything: it would, or time has brought something about.
  [[nodiscard]] bool would_allow() const;
  /// When it is worth asking: now, unless it is open.
  [[nodiscard]] Time retry_at() const;

  [[nodiscard]] BreakerState state() const { return state_of(state_.load(std::memory_order_acquire)); }
  /// Of the calls in its window.
  [[nodiscard]] double error_rate(Time now) const {
    return window_.has_trouble(now) ? std::min(window_.counts(now).error_rate(), 1.0) : 0.0;
  }
  /// When it last changed its state; nothing if it never has.
  [[nodiscard]] std::optional<Time> changed_at() const {
    const Time::rep at = changed_at_.load(std::memory_order_relaxed);
    return at == 0 ? std::nullopt : std::optional(Time(Duration(at)));
  }
  [[nodiscard]] BreakerOptions options() const;
  [[nodiscard]] bool is_shadow() const { return live_.shadow.load(std::memory_order_relaxed); }
  /// The rule for that kind of end.
  [[nodiscard]] FailureRule rule(FailureType type) const;
  struct Snapshot {
    BreakerState state = BreakerState::kClosed;
    Window::Counts window;
    std::uint32_t consecutive_failures = 0;
    std::uint32_t cut_off_in_a_row = 0;
    std::uint32_t attempt = 0;
    std::uint32_t probes_out = 0;
    bool shadow = false;
    std::uint64_t shadow_passed = 0;  ///< Calls that passed because it is only a shadow.
    Duration open_for{0};  ///< How much longer, while it is open or forced by hand; Duration::max(): without an end.
  };
  [[nodiscard]] Snapshot snapshot() const;

  // By hand, with who did it and why; until release() or, if there is one, the expiry.
  void force_open(std::string_view actor, std::string_view reason, std::optional<Duration> expires_in = {});
  void force_closed(std::string_view actor, std::string_view reason, std::optional<Duration> expires_in = {});
  void disable(std::string_view actor, std::string_view reason, std::optional<Duration> expires_in = {});
  /// Back to work: closed, and beginning anew; half open after having been forced open.
  void release(std::string_view actor, std::string_view reason);

  /// Changes thresholds while it runs; what it has measured stays. Fails with what check() says, and with kInvalid when
  /// the window would have another shape.
  Result<void> reconfigure(const BreakerOptions& options, std::string_view actor = {}, std::string_view reason = {});

  /// What is worth keeping over a restart, in durations, not in points of time.
  struct Saved {
    BreakerState state = BreakerState::kClosed;
    Duration open_for{0};  ///< While it is open, or forced by hand; Duration::max(): without an end.
    std::uint32_t attempt = 0;
    std::uint32_t consecutive_failures = 0;
  };
  [[nodiscard]] Saved save() const;
  /// Half open is restored as open with no time left, which is asked again at once.
  void restore(const Saved& saved);

  /// Called with no lock held; may call the breaker; what it throws is ignored. Set before it is used.
  void on_event(Function<void(const BreakerEvent&)> listener) { listener_ = std::move(listener); }

 private:
  friend class BasicPermit<Faults>;
  static constexpr std::uint32_t kStateBits = 3;
  static constexpr std::uint64_t kNoEpoch = ~std::uint64_t{0};          // Of a permit whose end counts nowhere.
  static constexpr Duration kSuccessCounts = std::chrono::minutes(10);  // While half open.
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
  // The thresholds, as those who hold no lock read them.
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
  std::atomic<std::uint32_t> cut_off_{0};  // In a row.
  std::atomic<std::uint64_t> shadow_passed_{0};
  std::atomic<Time::rep> changed_at_{0};
  std::atomic<Time::rep> until_{0};  // While open or forced: when to look again.

  mutable Mutex mutex_;
  BreakerOptions options_ COHORT_GUARDED_BY(mutex_);
  Random random_ COHORT_GUARDED_BY(mutex_);
  std::uint32_t attempt_ COHORT_GUARDED_BY(mutex_) = 0;
  // Of the probes since it is half open.
  std::vector<Time> successes_ COHORT_GUARDED_BY(mutex_);  // When they ended.
  std::uint32_t failures_ COHORT_GUARDED_BY(mutex_) = 0;
  std::uint32_t cut_off_probes_ COHORT_GUARDED_BY(mutex_) = 0;  // In a row.
  bool refused_ COHORT_GUARDED_BY(mutex_) = false;  // One was too much for the provider, and none has succeeded since.
  std::uint32_t next_probe_ COHORT_GUARDED_BY(mutex_) = 0;
  // Those that are out; also those of an earlier time half open, which keep the provider busy still.
  std::vector<Probe> probes_ COHORT_GUARDED_BY(mutex_);
  Time half_open_until_ COHORT_GUARDED_BY(mutex_){};
};

using Breaker = BasicBreaker<>;
using Permit = BasicPermit<>;
extern template class BasicBreaker<NoBreakerFaults>;
extern template class BasicPermit<NoBreakerFaults>;

}  // namespace cohort
