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

/// What stands around a call. What is null or zero is left out.
struct Guard {
  std::shared_ptr<Breaker> breaker{};
  std::shared_ptr<Bulkhead> bulkhead{};
  Duration max_wait{0};                   ///< For a place in the bulkhead.
  std::function<bool()> rate{};           ///< Whether there may be one more call now.
  Duration timeout{0};                    ///< Of one try: the callable is given the deadline, and has to keep it.
  Duration total_timeout{0};              ///< Of all tries together, waits between them included.
  RetryPolicy retry = quick_retries(0);   ///< For what fails over by its rule.
  std::shared_ptr<RetryBudget> budget{};  ///< How many retries there may be in all.
  std::function<FailureType(const Error&)> classify{};
  Clock* clock = nullptr;  ///< The system's.
  /// Waits between tries; std::this_thread::sleep_for unless told.
  std::function<void(Duration)> sleep{};
  std::uint64_t seed = 1;
};

namespace internal {

/// The tries of one guarded call.
class GuardedCall {
 public:
  explicit GuardedCall(Guard guard);
  /// What keeps a try from being made, or nothing; else takes what it needs, and deadline() says by when it has to end.
  std::optional<Error> enter();
  [[nodiscard]] Time deadline() const { return deadline_; }
  /// The try has ended; null: well. True, after a wait, when there is to be another.
  bool leave(const Error* error);

 private:
  Guard guard_;
  Clock& clock_;
  Random random_;
  const Time last_;
  std::uint32_t failures_ = 0;
  Time deadline_ = Time::max();
  bool gave_less_ = false;  // Than `timeout`.
  Bulkhead::Place place_;
  Permit permit_;
};

}  // namespace internal

/// Calls `callable(deadline)`, which returns Result<T>, behind all that the guard names: rate, bulkhead, breaker,
/// retries. What it throws is an Error. A call that may not be made fails with kUnavailable (open) or kRejected (full,
/// too many); but a retry that may not be made leaves the error of the try before it.
///
///     Guard guard{.breaker = breaker, .bulkhead = bulkhead, .timeout = 2s, .total_timeout = 5s,
///                 .retry = quick_retries(2)};
///     Result<Page> page = guarded(guard, [&](Time deadline) { return fetch(url, deadline); });
///
/// Thread-safety: as that of what it names.
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
