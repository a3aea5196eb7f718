#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "cohort/base/clock.h"
#include "cohort/base/random.h"
#include "cohort/base/result.h"
#include "cohort/base/retry_policy.h"
#include "cohort/provider/breaker.h"
#include "cohort/provider/bulkhead.h"
#include "cohort/provider/failure_type.h"
#include "cohort/provider/retry_budget.h"

namespace cohort {

/// The protections around a call, for guarded(). A protection that is null or zero is not used.
struct Guard {
  std::shared_ptr<Breaker> breaker{};
  std::shared_ptr<Bulkhead> bulkhead{};
  Duration max_wait{0};                   ///< How long a try may wait for a place in the bulkhead.
  std::function<bool()> rate{};           ///< Returns true if one more call may be made now.
  Duration timeout{0};                    ///< Time-out of one try. The callable gets the deadline and must keep it.
  Duration total_timeout{0};              ///< Time-out of all tries together, with the waits between them.
  RetryPolicy retry = quick_retries(0);   ///< Applies to failures whose FailureRule has `fails_over`.
  std::shared_ptr<RetryBudget> budget{};  ///< Limits the retries of all calls that share it.
  std::function<FailureType(const Error&)> classify{};  ///< Maps an Error to its kind. Empty: cohort::classify().
  Clock* clock = nullptr;                               ///< Null: the system's.
  /// Waits between two tries. Empty: std::this_thread::sleep_for.
  std::function<void(Duration)> sleep{};
  std::uint64_t seed = 1;
};

namespace internal {

/// The tries of one guarded call.
class GuardedCall {
 public:
  explicit GuardedCall(Guard guard);
  /// Takes all that the next try needs. Returns an Error if the try may not be made.
  std::optional<Error> enter();
  /// When the current try must have ended.
  [[nodiscard]] Time deadline() const { return deadline_; }
  /// Ends a try. A null `error` means success. Returns true, after the back-off, if another try must follow.
  bool leave(const Error* error);

 private:
  Guard guard_;
  Clock& clock_;
  Random random_;
  const Time last_;
  std::uint32_t failures_ = 0;
  Time deadline_ = Time::max();
  bool gave_less_ = false;  // The try has less time than `timeout`.
  Bulkhead::Place place_;
  Permit permit_;
};

}  // namespace internal

/// Calls `callable(deadline)` behind the protections of the guard: rate, bulkhead, breaker, retries. The callable
/// returns Result<T>. An exception of the callable becomes an Error.
///
/// If the first try may not be made, guarded() fails with kUnavailable (breaker open), kRejected (bulkhead full or rate
/// used up) or kTimedOut (`total_timeout` over). If a retry may not be made, it returns the error of the last try.
///
///     Guard guard{.breaker = breaker, .bulkhead = bulkhead, .timeout = 2s, .total_timeout = 5s,
///                 .retry = quick_retries(2)};
///     Result<Page> page = guarded(guard, [&](Time deadline) { return fetch(url, deadline); });
///
/// Thread-safety: thread-safe if the callable and the functions in the guard are.
template <class F>
auto guarded(Guard guard, F&& callable) -> std::invoke_result_t<F&, Time> {
  using Answer = std::invoke_result_t<F&, Time>;
  static_assert(is_result_v<Answer>, "what is guarded takes a deadline and returns Result<T>");
  internal::GuardedCall call(std::move(guard));
  std::optional<Answer> last;
  for (;;) {
    if (auto refused = call.enter()) return last ? *std::move(last) : Answer(*std::move(refused));
    last.emplace([&]() -> Answer {
      try {
        return callable(call.deadline());
      } catch (...) {
        return Error::from_exception(std::current_exception());
      }
    }());
    if (!call.leave(last->ok() ? nullptr : &last->error())) return *std::move(last);
  }
}

}  // namespace cohort
