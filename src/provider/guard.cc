#include "cohort/provider/guard.h"

namespace cohort::internal {

bool wait_for_next_try(const Guard& guard, FailureType type, std::uint32_t attempt, Random& random) {
  const FailureRules rules = guard.breaker != nullptr ? guard.breaker->options().rules : FailureRules();
  if (!rules[type].fails_over) return false;
  if (guard.budget != nullptr && !guard.budget->try_retry()) return false;
  const Duration wait = guard.backoff.wait(attempt, random);
  if (guard.sleep) {
    guard.sleep(wait);
  } else {
    std::this_thread::sleep_for(wait);
  }
  return true;
}

namespace {

Error is_open(const Breaker& breaker) {
  return {ErrorCode::kUnavailable, "the breaker is " + std::string(to_string(breaker.state()))};
}

}  // namespace

std::optional<Error> enter(const Guard& guard, Clock& clock, Bulkhead::Place& place, Permit& permit, Time& deadline) {
  if (guard.breaker != nullptr && !guard.breaker->would_allow()) return is_open(*guard.breaker);
  if (guard.bulkhead != nullptr) place = guard.bulkhead->enter(guard.max_wait);
  if (guard.bulkhead != nullptr && !place) {
    return Error{ErrorCode::kRejected, "as many calls are under way as there may be (" +
                                           std::to_string(guard.bulkhead->max_concurrent()) + ")"};
  }
  if (guard.timeout > Duration::zero()) deadline = saturating_add(clock.now(), guard.timeout);
  if (guard.breaker != nullptr) {
    permit = guard.breaker->allow(deadline == Time::max() ? std::nullopt : std::optional(deadline));
    if (!permit) return is_open(*guard.breaker);
  }
  if (guard.rate && !guard.rate()) {
    permit.abandon();
    return Error{ErrorCode::kRejected, "there have been as many calls as there may be for now"};
  }
  return std::nullopt;
}

}  // namespace cohort::internal
