#include <algorithm>
#include <cmath>

#include "cohort/base/text_time.h"
#include "cohort/provider/router.h"
#include "cohort/task/internal/executor_access.h"
#include "cohort/task/internal/task_record.h"

namespace cohort {
namespace {

// Of the task that runs on this thread, by its own clock.
std::optional<Duration> time_left_of_task() {
  const internal::TaskRecord* const task = internal::current_task();
  if (task == nullptr) return std::nullopt;
  const std::optional<Time> limit = task->time_limit();
  return limit ? std::optional(*limit - internal::ExecutorAccess::now(*task)) : std::nullopt;
}

}  // namespace

Route::Route(Router& router, CallOptions options, Kind kind)
    : router_(router.shared_from_this()), options_(std::move(options)), kind_(kind), begun_(now()) {
  const RouterOptions& pool = router_->options_;
  last_ = saturating_add(
      begun_, Duration(static_cast<Duration::rep>(static_cast<double>(pool.timeout.count()) * pool.total_budget)));
  callers_deadline_ = options_.deadline;
  if (const std::optional<Duration> left = time_left_of_task()) {
    callers_deadline_ = std::min(callers_deadline_.value_or(Time::max()), saturating_add(begun_, *left));
  }
  if (callers_deadline_) last_ = std::clamp(*callers_deadline_, begun_, last_);
}

Time Route::now() const { return router_->clock_.now(); }

// Whether there is to be no further try, for one of the reasons that have nothing to do with providers.
bool Route::is_over(Time now) {
  if (options_.stop.stop_requested() && now < last_) {
    end_ = RouteEnd::kCancelled;
    return true;
  }
  const bool first = tries_.empty();
  // What is left must be worth a try.
  const Duration least = first ? Duration(1) : std::min(router_->options_.timeout, last_ - begun_) / 20;
  if (options_.stop.stop_requested() || last_ - now < least) {
    end_ = RouteEnd::kBudgetExhausted;
    return true;
  }
  if (tries_.size() < router_->options_.max_failover_attempts) return false;
  end_ = RouteEnd::kAttemptsExhausted;
  return true;
}

bool Route::next() {
  const Time now = this->now();
  if (is_over(now)) {
    charge_held(InRow::kYes);
    return false;
  }
  std::bitset<64> except = tried_;
  bool full = false;
  bool paid = tries_.empty() && !options_.is_retry;
  for (;;) {
    const std::optional<Router::Choice> choice = router_->select(now, except);
    if (!choice) break;
    except.set(choice->index);
    if (!paid && !router_->budget_.try_retry()) {
      // There is no second opinion. A provider that fails for others too is found by its rate.
      end_ = RouteEnd::kRetriesExhausted;
      charge_held(InRow::kNo);
      return false;
    }
    paid = true;
    place_ = router_->providers_[choice->index]->bulkhead().enter();
    if (!place_) {
      full = true;
    } else if (take(choice->index, choice->in_panic, now)) {
      return true;
    }
  }
  charge_held(InRow::kYes);
  if (tries_.empty()) {
    say_why_nobody(full, now);
  } else {
    end_ = RouteEnd::kAttemptsExhausted;
  }
  return false;
}

// With a place in its bulkhead, all else that a call needs.
bool Route::take(std::size_t index, bool in_panic, Time now) {
  const RouterOptions& pool = router_->options_;
  Provider& provider = *router_->providers_[index];
  const Duration first_chunk = pool.first_chunk_timeout > Duration::zero() ? pool.first_chunk_timeout : pool.timeout;
  const Time deadline = std::min(last_, saturating_add(now, pool.timeout));
  const Duration own = kind_ == Kind::kStream ? std::min(first_chunk, pool.timeout) : pool.timeout;
  gave_less_ = deadline - now < own - own / 20;
  Permit permit = provider.breaker().allow(deadline, gave_less_);
  // (Both, or none: a dropped permit counts nowhere.)
  if ((!permit && !in_panic) || !provider.take_token(now)) {
    place_.leave();
    return false;
  }
  if (in_panic) router_->panic_calls_.fetch_add(1, std::memory_order_relaxed);
  if (tries_.empty() && !options_.is_retry) router_->budget_.count_request();
  tried_.set(index);
  permit_ = std::move(permit);
  started_ = now;
  attempt_ = {index,
              provider.name(),
              static_cast<std::uint32_t>(tries_.size() + 1),
              deadline,
              std::min(deadline, saturating_add(now, first_chunk)),
              options_.stop};
  return true;
}

void Route::say_why_nobody(bool full, Time now) {
  Time earliest = Time::max();
  bool limited = false;
  for (const auto& provider : router_->providers_) {
    const bool derated = provider->derated_to(now) == 0;
    const bool may = provider->breaker().would_allow() && !derated;
    full = full || (may && !provider->bulkhead().has_room());
    limited = limited || (may && provider->cooling_until() <= now && !provider->has_token(now, 2));
    const Time from = derated ? provider->derated_until() : Time::min();
    earliest = std::min(earliest, std::max({provider->breaker().retry_at(), provider->cooling_until(), from}));
  }
  end_ = full ? RouteEnd::kBulkheadFull : limited ? RouteEnd::kRateLimited : RouteEnd::kAllOpen;
  if (end_ == RouteEnd::kAllOpen && earliest != Time::max()) retry_at_ = std::max(earliest, now);
}

void Route::charge(std::size_t index, Permit permit, FailureType type, Duration latency, InRow in_row) {
  if (in_row == InRow::kYes) {
    permit.finish(type, latency);
  } else {
    permit.failure_out_of_row(type, latency);
  }
  router_->providers_[index]->count(type, latency);
}

// A provider that serves few is excused from the row by one that serves others well and gave the same answer.
void Route::charge_held(InRow in_row) {
  for (Held& held : held_) {
    const bool excused = !held.serves_well && std::ranges::any_of(held_, [&](const Held& other) {
      return other.serves_well && other.is_like(held);
    });
    charge(held.index, std::move(held.permit), held.type, held.latency, excused ? InRow::kNo : in_row);
  }
  held_.clear();
}

void Route::succeed(Duration latency) {
  place_.leave();
  charge_held(InRow::kYes);
  charge(attempt_.index, std::move(permit_), FailureType::kSuccess, latency, InRow::kYes);
  tries_.push_back({std::string(attempt_.provider), FailureType::kSuccess, latency});
  end_ = RouteEnd::kOk;
}

void Route::begin_to_answer(Duration latency) {
  if (permit_.is_probe()) permit_.success(latency);
}

// The caller gave it less time than the pool would have, and that is over. (A client may give up a little early.)
bool Route::was_cut_off(FailureType type, Time now) const {
  const Time deadline = kind_ == Kind::kStream ? attempt_.first_chunk_deadline : attempt_.deadline;
  return type == FailureType::kTimeout && gave_less_ && now >= deadline - (deadline - started_) / 10;
}

void Route::judge_stop(Failure& failure, Time now) const {
  const bool is_timeout = failure.type == FailureType::kTimeout;
  if (!is_timeout && failure.type != FailureType::kCancelled) return;
  if (now >= attempt_.deadline) {
    if (is_timeout) return;
    failure.type = FailureType::kTimeout;
    failure.error = {ErrorCode::kTimedOut, "its time was over: " + failure.error.message};
  } else if (is_timeout && options_.stop.stop_requested()) {
    failure.type = FailureType::kCancelled;
    failure.error.code = ErrorCode::kCancelled;
  }
}

void Route::break_off(Failure failure, Duration latency) {
  const Time now = this->now();
  // Not by the pool's budget: a stream may last longer.
  const bool is_past = callers_deadline_ && now >= *callers_deadline_;
  if (failure.type == FailureType::kTimeout && !is_past && options_.stop.stop_requested()) {
    failure.type = FailureType::kCancelled;
  } else if (failure.type == FailureType::kCancelled && is_past) {
    failure.type = FailureType::kTimeout;
  }
  place_.leave();
  charge_held(InRow::kYes);
  const bool by_deadline = failure.type == FailureType::kTimeout && is_past;
  const bool by_caller = failure.type == FailureType::kCancelled || by_deadline;
  if (by_caller) {
    charge(attempt_.index, std::move(permit_), FailureType::kSuccess, latency, InRow::kYes);
  } else {
    charge(attempt_.index, std::move(permit_), failure.type, now - started_, InRow::kYes);
  }
  tries_.push_back({std::string(attempt_.provider), failure.type, now - started_});
  end_ = !by_caller ? RouteEnd::kBroken : by_deadline ? RouteEnd::kBudgetExhausted : RouteEnd::kCancelled;
  failure_ = std::move(failure);
}

bool Route::serves_well(std::size_t index) const {
  const Breaker& breaker = router_->providers_[index]->breaker();
  const Breaker::Snapshot seen = breaker.snapshot();
  // (A success since it was last excused: else an outage would excuse itself until the window is empty.)
  const bool is_closed =
      seen.state == BreakerState::kClosed || (seen.shadow && seen.state != BreakerState::kForcedOpen);
  return is_closed && seen.window.calls >= 5 && !router_->providers_[index]->was_excused() &&
         seen.window.error_rate() < breaker.options().error_rate_threshold / 2;
}

// Providers that serve others well have given the same kind of answer: it is the request's own fault, and they are not
// charged.
bool Route::blame_request(const Held& last) {
  const bool blamed = last.serves_well && std::ranges::any_of(held_, [&](const Held& held) {
                        return held.serves_well && held.is_like(last);
                      });
  if (!blamed) return false;
  router_->providers_[last.index]->excuse();
  for (Held& held : held_) {
    if (!held.is_like(last)) {
      charge(held.index, std::move(held.permit), held.type, held.latency, InRow::kYes);
    } else if (!held.serves_well) {
      charge(held.index, std::move(held.permit), held.type, held.latency, InRow::kNo);
    } else {
      router_->providers_[held.index]->excuse();
    }
  }
  held_.clear();  // A permit that is dropped counts nowhere.
  end_ = RouteEnd::kNotRetryable;
  return true;
}

bool Route::fail(Failure failure) {
  const Time now = this->now();
  const Duration latency = now - started_;
  const std::size_t index = attempt_.index;
  Provider& provider = *router_->providers_[index];
  place_.leave();
  judge_stop(failure, now);
  const FailureType type = failure.type;
  tries_.push_back({std::string(attempt_.provider), type, latency});
  failure_ = std::move(failure);
  if (type == FailureType::kHttp429) {
    provider.slow_down(now);
    if (const std::optional<Duration> after = failure_->retry_after) {
      const Duration most = provider.breaker().options().open_max;
      provider.cool_until(saturating_add(now, std::clamp(*after, Duration::zero(), most)));
    }
  }
  if (was_cut_off(type, now)) {
    permit_.cut_off();
    provider.count_cut_off();
    return true;
  }
  const bool fails_over = provider.breaker().rule(type).fails_over;
  const bool is_suspicious =
      type == FailureType::kHttp5xx || type == FailureType::kDecode || type == FailureType::kUnknown;
  // (A probe decides now: the request may go on for long.)
  if (fails_over && is_suspicious && !permit_.is_probe()) {
    Held held{index, std::move(permit_), type, latency, failure_->detail, serves_well(index)};
    if (blame_request(held)) return false;
    held_.push_back(std::move(held));
  } else {
    charge(index, std::move(permit_), type, latency, InRow::kYes);
  }
  if (fails_over) return true;
  charge_held(InRow::kYes);
  end_ = type == FailureType::kCancelled ? RouteEnd::kCancelled : RouteEnd::kNotRetryable;
  return false;
}

Error Route::error() const {
  if (failure_) {
    Error error = failure_->error;
    if (end_ == RouteEnd::kNotRetryable) return error;
    std::string text;
    for (const Try& each : tries_) {
      text += (text.empty() ? "" : ", ") + each.provider + " " + std::string(to_string(each.type));
    }
    error.message = std::string(to_string(end_)) + " after " + text + "; the last: " + error.message;
    return error;
  }
  switch (end_) {
    case RouteEnd::kBulkheadFull:
      return {ErrorCode::kRejected, "every provider that may be called has as many calls as it may have"};
    case RouteEnd::kRateLimited:
      return {ErrorCode::kRejected, "every provider that may be called has been called often enough for now"};
    case RouteEnd::kRetriesExhausted: return {ErrorCode::kRejected, "there have been too many retries of late"};
    case RouteEnd::kBudgetExhausted: return {ErrorCode::kTimedOut, "the time for all tries together is over"};
    case RouteEnd::kCancelled: return {ErrorCode::kCancelled, "its caller wants no more"};
    default: break;
  }
  if (!retry_at_) return {ErrorCode::kUnavailable, "no provider may be called before somebody allows it by hand"};
  const Duration wait = std::max(*retry_at_ - now(), Duration::zero());
  return {ErrorCode::kUnavailable, "no provider may be called; the first again in " +
                                       format_duration(std::chrono::ceil<std::chrono::milliseconds>(wait))};
}

}  // namespace cohort
