#pragma once

#include <functional>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "cohort/base/clock.h"
#include "cohort/base/random.h"
#include "cohort/base/result.h"
#include "cohort/provider/backoff.h"
#include "cohort/provider/breaker.h"
#include "cohort/provider/bulkhead.h"
#include "cohort/provider/failure_type.h"
#include "cohort/provider/retry_budget.h"

namespace cohort {

/// What stands around a call. What is null or zero is left out.
struct Guard {
  Breaker* breaker = nullptr;
  Bulkhead* bulkhead = nullptr;
  Duration max_wait{0};           ///< For a place in the bulkhead.
  std::function<bool()> rate{};   ///< Whether there may be one more call now.
  Duration timeout{0};            ///< Of one try: the callable is given the deadline, and has to keep it.
  std::uint32_t retries = 0;      ///< Beyond the first try, for what fails over by its rule.
  Backoff backoff{};              ///< Between tries.
  RetryBudget* budget = nullptr;  ///< How many retries there may be in all.
  std::function<FailureType(const Error&)> classify{};
  Clock* clock = nullptr;  ///< The system's.
  /// Waits between tries; std::this_thread::sleep_for unless told.
  std::function<void(Duration)> sleep{};
  std::uint64_t seed = 1;
};

namespace internal {

inline FailureType type_of(const Guard& guard, const Error& error) {
  return guard.classify ? guard.classify(error) : classify(error);
}
/// Waits before the next try; false when there is none.
bool wait_for_next_try(const Guard& guard, FailureType type, std::uint32_t attempt, Random& random);
/// What keeps a try from being made, or nothing; else takes what it needs, and says by when it has to end.
std::optional<Error> enter(const Guard& guard, Clock& clock, Bulkhead::Place& place, Permit& permit, Time& deadline);

}  // namespace internal

/// Calls `callable(deadline)`, which returns Result<T>, behind all that the guard names: rate, bulkhead, breaker,
/// retries. What it throws is an Error. A call that may not be made fails with kUnavailable (open) or kRejected (full,
/// too many).
///
///     Guard guard{.breaker = &breaker, .bulkhead = &bulkhead, .timeout = 2s, .retries = 2};
///     Result<Page> page = guarded(guard, [&](Time deadline) { return fetch(url, deadline); });
///
/// Thread-safety: as that of what it names.
template <class F>
auto guarded(const Guard& guard, F&& callable) -> std::invoke_result_t<F&, Time> {
  using Answer = std::invoke_result_t<F&, Time>;
  static_assert(is_result_v<Answer>, "what is guarded takes a deadline and returns Result<T>");
  Clock& clock = guard.clock != nullptr ? *guard.clock : system_clock();
  Random random(guard.seed ^ static_cast<std::uint64_t>(clock.now().time_since_epoch().count()));
  if (guard.budget != nullptr) guard.budget->count_request();
  for (std::uint32_t attempt = 1;; ++attempt) {
    Bulkhead::Place place;
    Permit permit;
    Time deadline = Time::max();
    if (auto refused = internal::enter(guard, clock, place, permit, deadline)) return std::move(*refused);
    Answer answer = [&]() -> Answer {
      try {
        return callable(deadline);
      } catch (...) {
        return Error::from_exception(std::current_exception());
      }
    }();
    place.leave();
    const FailureType type = answer.ok() ? FailureType::kSuccess : internal::type_of(guard, answer.error());
    permit.finish(type);
    if (answer.ok() || attempt > guard.retries || !internal::wait_for_next_try(guard, type, attempt, random)) {
      return answer;
    }
  }
}

}  // namespace cohort
