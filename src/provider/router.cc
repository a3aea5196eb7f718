#include "cohort/provider/router.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace cohort {
namespace {

constexpr std::size_t kMostProviders = 64;

RouterOptions corrected(RouterOptions options) {
  options.max_failover_attempts = std::clamp(options.max_failover_attempts, 1U, 64U);
  options.timeout = std::max<Duration>(options.timeout, std::chrono::milliseconds(1));
  options.timeout = std::min<Duration>(options.timeout, std::chrono::hours(24 * 365));
  options.total_budget = options.total_budget > 1 ? std::min(options.total_budget, 100.0) : 1.0;
  options.probe_share = options.probe_share > 0 ? std::min(options.probe_share, 1.0) : 0.0;
  options.top_k = std::max(options.top_k, 1U);
  options.temperature = options.temperature > 0.01 ? std::min(options.temperature, 1e6) : 0.01;
  options.half_open_penalty = options.half_open_penalty > 0 ? std::min(options.half_open_penalty, 1.0) : 0.0;
  options.recovery = std::max(options.recovery, Duration::zero());
  return options;
}

}  // namespace

std::string_view to_string(RouteEnd end) {
  switch (end) {
    case RouteEnd::kOk: return "ok";
    case RouteEnd::kNotRetryable: return "not_retryable";
    case RouteEnd::kAttemptsExhausted: return "attempts_exhausted";
    case RouteEnd::kBudgetExhausted: return "budget_exhausted";
    case RouteEnd::kRetriesExhausted: return "retries_exhausted";
    case RouteEnd::kBulkheadFull: return "bulkhead_full";
    case RouteEnd::kRateLimited: return "rate_limited";
    case RouteEnd::kAllOpen: return "all_open";
    case RouteEnd::kBroken: return "broken";
  }
  return "ok";
}

// ---- Router

Result<std::unique_ptr<Router>> Router::make(std::vector<ProviderOptions> providers, RouterOptions options) {
  if (providers.empty()) return Error{ErrorCode::kInvalid, "a pool needs at least one provider"};
  if (providers.size() > kMostProviders) {
    return Error{ErrorCode::kInvalid, "a pool has at most 64 providers, not " + std::to_string(providers.size())};
  }
  std::set<std::string> names;
  for (const ProviderOptions& provider : providers) {
    if (!names.insert(provider.name).second) {
      return Error{ErrorCode::kInvalid, "there are two providers of the name '" + provider.name + "'"};
    }
    if (auto checked = provider.breaker.check(); !checked) {
      return Error{ErrorCode::kInvalid, "provider '" + provider.name + "': " + checked.error().message};
    }
  }
  return std::unique_ptr<Router>(new Router(std::move(providers), std::move(options)));
}

Router::Router(std::vector<ProviderOptions> providers, RouterOptions options)
    : options_(corrected(std::move(options))),
      clock_(options_.clock != nullptr ? *options_.clock : system_clock()),
      budget_(options_.retries, clock_),
      random_(options_.seed != 0 ? options_.seed : reinterpret_cast<std::uintptr_t>(this)) {
  std::uint64_t seed = options_.seed;
  for (const ProviderOptions& provider : providers) {
    providers_.push_back(std::make_unique<Provider>(provider, clock_, seed == 0 ? 0 : ++seed));
  }
}

Provider* Router::find(std::string_view name) {
  const auto found =
      std::ranges::find(providers_, name, [](const auto& each) { return std::string_view(each->name()); });
  return found == providers_.end() ? nullptr : found->get();
}

std::vector<ProviderStats> Router::stats() const {
  std::vector<ProviderStats> stats;
  stats.reserve(providers_.size());
  for (const auto& provider : providers_) stats.push_back(provider->stats());
  return stats;
}

// splitmix64 over a counter: no lock, and the same numbers for the same seed on one thread.
double Router::unit() {
  std::uint64_t value = random_.fetch_add(0x9E37'79B9'7F4A'7C15ULL, std::memory_order_relaxed);
  value = (value ^ (value >> 30)) * 0xBF58'476D'1CE4'E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D0'49BB'1331'11EBULL;
  return static_cast<double>((value ^ (value >> 31)) >> 11) * 0x1.0p-53;
}

double Router::forgotten_part(Duration unused) const {
  if (options_.forget_after <= Duration::zero() || unused <= options_.forget_after) return 0;
  return std::min(1.0, static_cast<double>((unused - options_.forget_after).count()) /
                           (4 * static_cast<double>(options_.forget_after.count())));
}

// What is left of a provider's score: less by hand; less while its calls pile up, which is the first one sees of a
// provider that has become slow; less by the errors in its breaker's window, which go up and down less than the score;
// and less while it recovers.
double Router::factor_of(const Provider& provider, Time now) const {
  const double free = 1 - static_cast<double>(provider.bulkhead().inside()) / provider.bulkhead().max_concurrent();
  double factor = provider.derated_to(now) * std::max(free, 0.0);
  const BreakerState state = provider.breaker().state();
  if (state == BreakerState::kHalfOpen || state == BreakerState::kOpen) return factor * options_.half_open_penalty;
  factor *= 1 - provider.breaker().error_rate(now);
  const std::optional<Time> closed_at = provider.breaker().changed_at();
  if (!closed_at || now - *closed_at >= options_.recovery) return factor;
  const double recovered =
      static_cast<double>((now - *closed_at).count()) / static_cast<double>(options_.recovery.count());
  return factor * (options_.half_open_penalty + (1 - options_.half_open_penalty) * std::clamp(recovered, 0.0, 1.0));
}

// Of those that may be called one of the best, the better the likelier.
std::optional<std::size_t> Router::select(Time now, const std::bitset<64>& except) {
  struct Candidate {
    std::size_t index;
    double score;
    double factor;
    double trust;  // In the score; without it the candidate counts as the pool's median.
  };
  std::array<Candidate, kMostProviders> candidates;
  std::size_t count = 0;
  bool needs_median = false;
  std::optional<std::size_t> last_resort;
  std::array<std::size_t, kMostProviders> to_probe;
  std::size_t probes = 0;
  for (std::size_t i = 0; i < providers_.size(); ++i) {
    Provider& provider = *providers_[i];
    if (except[i] || provider.cooling_until() > now || !provider.breaker().would_allow() ||
        !provider.bulkhead().has_room() || !provider.has_token(now, except.none() ? 2 : 1)) {
      continue;
    }
    if (provider.derated_to(now) == 0) {
      last_resort = i;
      continue;
    }
    const BreakerState state = provider.breaker().state();
    if (state == BreakerState::kHalfOpen || state == BreakerState::kOpen) to_probe[probes++] = i;
    const std::optional<double> score = provider.score().value();
    const double trust = score ? 1 - forgotten_part(now - provider.scored_at()) : 0;
    needs_median = needs_median || trust < 1;
    candidates[count++] = {i, score.value_or(-1), factor_of(provider, now), trust};
  }
  if (count == 0) return last_resort;
  if (probes != 0 && unit() < options_.probe_share) {
    return to_probe[static_cast<std::size_t>(unit() * static_cast<double>(probes)) % probes];
  }
  if (needs_median) {
    // Who has had too few calls for a score of his own counts as the pool's median. And a bad score is forgotten when
    // there is nothing new to go by; else who has it would never lose it.
    std::array<double, kMostProviders> known;
    std::size_t scored = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (candidates[i].score >= 0) known[scored++] = candidates[i].score;
    }
    double median = 70;
    if (scored != 0) {
      const auto middle = known.begin() + static_cast<std::ptrdiff_t>(scored / 2);
      std::nth_element(known.begin(), middle, known.begin() + static_cast<std::ptrdiff_t>(scored));
      median = *middle;
    }
    for (std::size_t i = 0; i < count; ++i) {
      Candidate& each = candidates[i];
      if (each.score < median) each.score = median + (each.score - median) * each.trust;
    }
  }
  for (std::size_t i = 0; i < count; ++i) candidates[i].score *= candidates[i].factor;
  const std::size_t best = std::min<std::size_t>(options_.top_k, count);
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(best),
                    candidates.begin() + static_cast<std::ptrdiff_t>(count),
                    [](const Candidate& a, const Candidate& b) {
                      return a.score != b.score ? a.score > b.score : a.index < b.index;
                    });
  std::array<double, kMostProviders> weights;
  weights[0] = 1;
  double sum = 1;
  for (std::size_t i = 1; i < best; ++i) {
    sum += weights[i] = std::exp((candidates[i].score - candidates[0].score) / options_.temperature);
  }
  double draw = unit() * sum;
  for (std::size_t i = 0; i + 1 < best; ++i) {
    if (draw < weights[i]) return candidates[i].index;
    draw -= weights[i];
  }
  return candidates[best - 1].index;
}

// ---- Route

Route::Route(Router& router)
    : router_(&router),
      last_(saturating_add(router.clock_.now(),
                           Duration(static_cast<Duration::rep>(static_cast<double>(router.options_.timeout.count()) *
                                                               router.options_.total_budget)))) {}

bool Route::next() {
  const RouterOptions& options = router_->options_;
  const Time now = router_->clock_.now();
  if (tries_.size() >= options.max_failover_attempts) {
    end_ = RouteEnd::kAttemptsExhausted;
    charge_held();
    return false;
  }
  if (last_ - now < options.timeout / 20) {
    end_ = RouteEnd::kBudgetExhausted;
    charge_held();
    return false;
  }
  std::bitset<64> except = tried_;
  bool full = false;
  bool paid = tries_.empty();
  for (;;) {
    const std::optional<std::size_t> index = router_->select(now, except);
    if (!index) break;
    Provider& provider = *router_->providers_[*index];
    except.set(*index);
    if (!paid && !router_->budget_.try_retry()) {
      end_ = RouteEnd::kRetriesExhausted;
      charge_held();
      return false;
    }
    paid = true;
    const Time deadline = std::min(last_, saturating_add(now, options.timeout));
    Bulkhead::Place place = provider.bulkhead().enter();
    if (!place) {
      full = true;
      continue;
    }
    Permit permit = provider.breaker().allow(deadline);
    if (!permit || !provider.take_token(now)) continue;  // (Both, or none: a dropped permit counts nowhere.)
    if (tries_.empty()) router_->budget_.count_request();
    tried_.set(*index);
    permit_ = std::move(permit);
    place_ = std::move(place);
    const Duration first =
        options.first_chunk_timeout > Duration::zero() ? options.first_chunk_timeout : options.timeout;
    attempt_ = {*index, provider.name(), static_cast<std::uint32_t>(tries_.size() + 1), deadline,
                std::min(deadline, saturating_add(now, first))};
    return true;
  }
  // Nobody is left. Why?
  charge_held();
  if (!tries_.empty()) {
    end_ = RouteEnd::kAttemptsExhausted;
    return false;
  }
  Time earliest = Time::max();
  for (const auto& provider : router_->providers_) {
    full = full || (provider->breaker().would_allow() && !provider->bulkhead().has_room());
    earliest = std::min(earliest, std::max(provider->breaker().retry_at(), provider->cooling_until()));
  }
  const bool limited = std::ranges::any_of(router_->providers_, [&](const auto& provider) {
    return provider->breaker().would_allow() && provider->cooling_until() <= now && !provider->has_token(now, 2);
  });
  end_ = full ? RouteEnd::kBulkheadFull : limited ? RouteEnd::kRateLimited : RouteEnd::kAllOpen;
  if (end_ == RouteEnd::kAllOpen) retry_at_ = std::max(earliest, now);
  return false;
}

void Route::charge(std::size_t index, Permit permit, FailureType type, Duration latency, Duration given) {
  Provider& provider = *router_->providers_[index];
  const Duration slow = provider.breaker().options().slow_call_threshold;
  // Who was given less time than a slow call takes cannot be told from one that is slow.
  if (type == FailureType::kTimeout && given < slow) {
    permit.finish(FailureType::kSuccess, slow);
  } else {
    permit.finish(type, latency);
  }
  provider.count(type, latency);
}

void Route::charge_held() {
  for (Held& held : held_) charge(held.index, std::move(held.permit), held.type, held.latency, held.given);
  held_.clear();
}

void Route::succeed() {
  const Duration latency = router_->clock_.now() - permit_.started();
  place_.leave();
  charge_held();
  charge(attempt_.index, std::move(permit_), FailureType::kSuccess, latency, Duration::max());
  tries_.push_back({std::string(attempt_.provider), FailureType::kSuccess, latency});
  end_ = RouteEnd::kOk;
}

void Route::break_off(const Failure& failure) {
  const Duration latency = router_->clock_.now() - permit_.started();
  place_.leave();
  charge_held();
  failure_ = failure;
  const Duration time = given();
  charge(attempt_.index, std::move(permit_), failure.type, latency, time);
  tries_.push_back({std::string(attempt_.provider), failure.type, latency});
  end_ = RouteEnd::kBroken;
}

void Route::abandon() {
  permit_.abandon();
  place_.leave();
  charge_held();
}

// It answered like that although it serves others well.
bool Route::may_be_its_own_fault(const Failure& failure, std::size_t index) const {
  if (failure.detail.empty()) return false;
  const bool kind = failure.type == FailureType::kHttp5xx || failure.type == FailureType::kDecode ||
                    failure.type == FailureType::kUnknown;
  if (!kind) return false;
  const Breaker& breaker = router_->providers_[index]->breaker();
  const Breaker::Snapshot seen = breaker.snapshot();
  return seen.state == BreakerState::kClosed && seen.window.calls >= 5 &&
         seen.window.error_rate() < breaker.options().error_rate_threshold / 2;
}

bool Route::fail(const Failure& failure) {
  const Time now = router_->clock_.now();
  const Duration latency = now - permit_.started();
  const Duration time = given();
  const std::size_t index = attempt_.index;
  Provider& provider = *router_->providers_[index];
  place_.leave();
  failure_ = failure;
  tries_.push_back({std::string(attempt_.provider), failure.type, latency});
  if (failure.type == FailureType::kHttp429) provider.slow_down(now);
  if (failure.type == FailureType::kHttp429 && failure.retry_after) {
    provider.cool_until(saturating_add(now, std::min(*failure.retry_after, router_->options_.longest_cool_down)));
  }
  const bool suspicious = may_be_its_own_fault(failure, index);
  const auto same = std::ranges::find_if(held_, [&](const Held& held) {
    return suspicious && held.type == failure.type && held.detail == failure.detail;
  });
  if (same != held_.end()) {
    // Charged to the request, and to nobody else.
    permit_.abandon();
    held_.erase(same);
    charge_held();
    end_ = RouteEnd::kNotRetryable;
    return false;
  }
  const bool fails_over = provider.breaker().options().rules[failure.type].fails_over;
  if (suspicious && fails_over) {
    held_.push_back({index, std::move(permit_), failure.type, latency, time, failure.detail});
  } else {
    charge(index, std::move(permit_), failure.type, latency, time);
  }
  if (fails_over) return true;
  charge_held();
  end_ = RouteEnd::kNotRetryable;
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
    case RouteEnd::kBudgetExhausted: return {ErrorCode::kTimedOut, "the time for all tries together is over"};
    default: break;
  }
  std::string text = "no provider may be called";
  if (retry_at_) {
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(*retry_at_ - router_->clock_.now());
    text += "; the first again in " + std::to_string(std::max<long>(wait.count(), 0)) + " ms";
  }
  return {ErrorCode::kUnavailable, text};
}

}  // namespace cohort
