#include "cohort/provider/router.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "cohort/base/log.h"
#include "cohort/base/text_time.h"
#include "cohort/task/internal/executor_access.h"
#include "cohort/task/internal/task_record.h"

namespace cohort {
namespace {

constexpr std::size_t kMostProviders = 64;

bool is_to_be_probed(const Breaker& breaker) {
  const BreakerState state = breaker.state();
  return (state == BreakerState::kHalfOpen || state == BreakerState::kOpen) && !breaker.is_shadow();
}

// Options that cannot be become the nearest that can, and the log says so.
class Corrected {
 public:
  explicit Corrected(const RouterOptions& options) : options_(options) {
    constexpr auto kShortest = std::chrono::milliseconds(1);
    constexpr auto kLongest = std::chrono::hours(24 * 365);
    set("max_failover_attempts", options_.max_failover_attempts, 1U, 64U);
    set<Duration>("timeout", options_.timeout, kShortest, kLongest);
    set<Duration>("first_chunk_timeout", options_.first_chunk_timeout, Duration::zero(), kLongest);
    set("total_budget", options_.total_budget, 1.0, 100.0);
    set("top_k", options_.top_k, 1U, static_cast<std::uint32_t>(kMostProviders));
    set("temperature", options_.temperature, 0.01, 1e6);
    set("half_open_penalty", options_.half_open_penalty, 0.0, 1.0);
    set("panic_share", options_.panic_share, 0.0, 1.0);
    set<Duration>("recovery", options_.recovery, Duration::zero(), kLongest);
    set<Duration>("forget_after", options_.forget_after, Duration::zero(), kLongest);
    set("retries.ratio", options_.retries.ratio, 0.0, 10.0);
    set("retries.floor_per_second", options_.retries.floor_per_second, 0.0, 1e9);
    if (!names_.empty()) {
      COHORT_LOG(kWarning, "provider", "options of a router were out of range, and the nearest allowed value is used",
                 {"options", names_});
    }
  }
  [[nodiscard]] RouterOptions options() && { return std::move(options_); }

 private:
  template <class T>
  void set(const char* name, T& value, T low, T high) {
    if (value >= low && value <= high) return;
    value = value > high ? high : low;  // What is no number is the lowest.
    names_ += (names_.empty() ? "" : ", ") + std::string(name);
  }

  RouterOptions options_;
  std::string names_;
};

// What a pool says of all its providers.
ProviderOptions in_pool(ProviderOptions provider, const RouterOptions& pool) {
  BreakerOptions& breaker = provider.breaker;
  if (breaker.call_timeout == Duration::zero()) breaker.call_timeout = pool.timeout;
  if (!breaker.can_be_slow()) {
    COHORT_LOG(kWarning, "provider", "the slow_call_threshold is longer than the time-out: no call can be slow",
               {"provider", provider.name}, {"slow_call_threshold", format_duration(breaker.slow_from())},
               {"timeout", format_duration(breaker.call_timeout)});
  }
  if (pool.auth_is_failure) breaker.rules[FailureType::kHttpAuth] = FailureRule();
  if (provider.max_concurrent == 0) {
    COHORT_LOG(kWarning, "provider", "max_concurrent is at least 1, and 1 is used", {"provider", provider.name});
  }
  if (provider.rate && (provider.rate->count == 0 || provider.rate->period <= Duration::zero())) {
    COHORT_LOG(kWarning, "provider", "a rate has a count and a period above 0, and the least are used",
               {"provider", provider.name});
  }
  return provider;
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
    case RouteEnd::kCancelled: return "cancelled";
  }
  return "ok";
}

// ---- Router

Result<std::shared_ptr<Router>> Router::make(const std::vector<ProviderOptions>& providers,
                                             const RouterOptions& options) {
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
  return std::shared_ptr<Router>(new Router(providers, options));
}

Router::Router(const std::vector<ProviderOptions>& providers, const RouterOptions& options)
    : options_(Corrected(options).options()),
      clock_(options_.clock != nullptr ? *options_.clock : system_clock()),
      budget_(options_.retries, clock_),
      random_(options_.seed != 0 ? options_.seed : reinterpret_cast<std::uintptr_t>(this)) {
  std::uint64_t seed = options_.seed;
  for (const ProviderOptions& provider : providers) {
    providers_.push_back(std::make_unique<Provider>(in_pool(provider, options_), clock_, seed == 0 ? 0 : ++seed));
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
  if (is_to_be_probed(provider.breaker())) return factor * options_.half_open_penalty;
  factor *= 1 - provider.breaker().error_rate(now);
  if (provider.breaker().is_shadow()) return factor;
  const std::optional<Time> closed_at = provider.breaker().changed_at();
  if (!closed_at || now - *closed_at >= options_.recovery) return factor;
  const double recovered =
      static_cast<double>((now - *closed_at).count()) / static_cast<double>(options_.recovery.count());
  return factor * (options_.half_open_penalty + (1 - options_.half_open_penalty) * std::clamp(recovered, 0.0, 1.0));
}

// True as long as more than the share is open; the first who sees a change tells it.
bool Router::look_for_panic(Time now) {
  if (options_.panic_share >= 1) return false;
  std::size_t open = 0;
  std::size_t all = 0;
  for (const auto& provider : providers_) {
    const BreakerState state = provider->breaker().state();
    if (state == BreakerState::kForcedOpen || provider->derated_to(now) == 0) continue;
    ++all;
    if (state == BreakerState::kOpen && !provider->breaker().would_allow()) ++open;
  }
  const bool panic = static_cast<double>(open) > options_.panic_share * static_cast<double>(all);
  if (in_panic_.load(std::memory_order_relaxed) == panic || in_panic_.exchange(panic) == panic) return panic;
  COHORT_LOG(kWarning, "provider",
             panic ? "most of a pool is open: calls are spread over all its providers"
                   : "a pool is out of its panic: calls go to providers that may be called",
             {"open", open}, {"of", all});
  if (listener_) {
    ProviderEvent event;
    event.reason = panic ? "panic_began" : "panic_ended";
    event.at = now;
    try {
      listener_(event);
    } catch (...) {
      // A listener's trouble is its own.
    }
  }
  return panic;
}

std::optional<Router::Choice> Router::select_in_panic(Time now, const std::bitset<64>& except) {
  std::array<std::size_t, kMostProviders> all;
  std::size_t count = 0;
  for (std::size_t i = 0; i < providers_.size(); ++i) {
    const Provider& provider = *providers_[i];
    if (except[i] || provider.breaker().state() == BreakerState::kForcedOpen || provider.derated_to(now) == 0 ||
        provider.cooling_until() > now || !provider.bulkhead().has_room() || !provider.has_token(now)) {
      continue;
    }
    all[count++] = i;
  }
  if (count == 0) return std::nullopt;
  return Choice{all[static_cast<std::size_t>(unit() * static_cast<double>(count)) % count], true};
}

// Of those that may be called, only the first tier that has any: one that is to be probed, if this is a first try; else
// one of the best.
std::optional<Router::Choice> Router::select(Time now, const std::bitset<64>& except) {
  if (look_for_panic(now)) return select_in_panic(now, except);
  std::array<Candidate, kMostProviders> candidates;
  std::size_t count = 0;
  std::uint32_t tier = 0;
  for (std::size_t i = 0; i < providers_.size(); ++i) {
    Provider& provider = *providers_[i];
    if (count != 0 && provider.tier() > tier) continue;
    if (except[i] || provider.cooling_until() > now || provider.derated_to(now) == 0 ||
        !provider.breaker().would_allow() || !provider.bulkhead().has_room() ||
        !provider.has_token(now, except.none() ? 2 : 1)) {
      continue;
    }
    if (count != 0 && provider.tier() < tier) count = 0;
    tier = provider.tier();
    const std::optional<double> score = provider.score().value();
    const double trust = score ? 1 - forgotten_part(now - provider.scored_at()) : 0;
    candidates[count++] = {i, score.value_or(-1), factor_of(provider, now), trust, is_to_be_probed(provider.breaker())};
  }
  if (count == 0) return std::nullopt;
  const std::span<Candidate> found(candidates.data(), count);
  if (except.none()) {
    const auto probes = std::ranges::count_if(found, &Candidate::to_probe);
    if (probes != 0) {
      auto skip = static_cast<std::ptrdiff_t>(unit() * static_cast<double>(probes)) % probes;
      return Choice{
          std::ranges::find_if(found, [&](const Candidate& each) { return each.to_probe && skip-- == 0; })->index,
          false};
    }
  }
  return Choice{choose(found), false};
}

// One of the best, the better the likelier.
std::size_t Router::choose(std::span<Candidate> candidates) {
  if (std::ranges::any_of(candidates, [](const Candidate& each) { return each.trust < 1; })) {
    // A provider with too few calls for a score of its own counts as the pool's median. And a bad score is forgotten
    // when there is nothing new to go by; else a provider would never lose it.
    std::array<double, kMostProviders> known;
    std::size_t scored = 0;
    for (const Candidate& each : candidates) {
      if (each.score >= 0) known[scored++] = each.score;
    }
    double median = 70;
    if (scored != 0) {
      const auto middle = known.begin() + static_cast<std::ptrdiff_t>(scored / 2);
      std::nth_element(known.begin(), middle, known.begin() + static_cast<std::ptrdiff_t>(scored));
      median = *middle;
    }
    for (Candidate& each : candidates) {
      if (each.score < median) each.score = median + (each.score - median) * each.trust;
    }
  }
  for (Candidate& each : candidates) each.score *= each.factor;
  const std::size_t best = std::min<std::size_t>(options_.top_k, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(best), candidates.end(),
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
