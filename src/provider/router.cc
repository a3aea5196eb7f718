#include "cohort/provider/router.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "cohort/base/log.h"
#include "cohort/base/text_time.h"

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

}  // namespace cohort
