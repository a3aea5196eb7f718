#include "cohort/provider/guard.h"

#include <algorithm>
#include <string>
#include <thread>

namespace cohort::internal {
namespace {

Error is_open(const Breaker& breaker) {
  return {ErrorCode::kUnavailable, "the breaker is " + std::string(to_string(breaker.state()))};
}

Time end_of(const Guard& guard, Time now) {
  return guard.total_timeout > Duration::zero() ? saturating_add(now, guard.total_timeout) : Time::max();
}

}  // namespace

GuardedCall::GuardedCall(Guard guard)
    : guard_(std::move(guard)),
      clock_(guard_.clock != nullptr ? *guard_.clock : system_clock()),
      random_(guard_.seed ^ static_cast<std::uint64_t>(clock_.now().time_since_epoch().count())),
      last_(end_of(guard_, clock_.now())) {
  if (guard_.budget) guard_.budget->count_request();
}

std::optional<Error> GuardedCall::enter() {
  if (guard_.breaker && !guard_.breaker->would_allow()) return is_open(*guard_.breaker);
  if (guard_.bulkhead) {
    place_ = guard_.bulkhead->enter(std::min(guard_.max_wait, last_ - clock_.now()));
    if (!place_) {
      return Error{ErrorCode::kRejected, "as many calls are under way as there may be (" +
                                             std::to_string(guard_.bulkhead->max_concurrent()) + ")"};
    }
  }
  const Time now = clock_.now();
  const Time by_timeout = guard_.timeout > Duration::zero() ? saturating_add(now, guard_.timeout) : Time::max();
  deadline_ = std::min(by_timeout, last_);
  gave_less_ = guard_.timeout > Duration::zero() && deadline_ - now < guard_.timeout - guard_.timeout / 20;
  if (now >= deadline_) return Error{ErrorCode::kTimedOut, "the time for all tries together is over"};
  if (guard_.breaker) {
    const bool is_limited = deadline_ != Time::max();
    permit_ = guard_.breaker->allow(is_limited ? std::optional(deadline_) : std::nullopt, gave_less_);
    if (!permit_) return is_open(*guard_.breaker);
  }
  if (guard_.rate && !guard_.rate()) {
    permit_.abandon();
    return Error{ErrorCode::kRejected, "there have been as many calls as there may be for now"};
  }
  return std::nullopt;
}

bool GuardedCall::leave(const Error* error) {
  place_.leave();
  if (error == nullptr) {
    permit_.success();
    return false;
  }
  const FailureType type = guard_.classify ? guard_.classify(*error) : classify(*error);
  const Time now = clock_.now();
  if (type == FailureType::kTimeout && gave_less_ && now >= deadline_) {
    permit_.cut_off();
    return false;
  }
  permit_.failure(type);
  const bool worth_it = guard_.breaker ? guard_.breaker->rule(type).fails_over : FailureRules()[type].fails_over;
  const std::optional<Duration> wait = guard_.retry.wait_after(++failures_, random_);
  if (!worth_it || !wait || saturating_add(now, *wait) >= last_) return false;
  if (guard_.budget && !guard_.budget->try_retry()) return false;
  if (guard_.sleep) {
    guard_.sleep(*wait);
  } else {
    std::this_thread::sleep_for(*wait);
  }
  return true;
}

}  // namespace cohort::internal
