#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "cohort/provider/failure_type.h"
#include "cohort/provider/provider.h"
#include "cohort/provider/retry_budget.h"
#include "cohort/task/task.h"

namespace cohort {

struct RouterOptions {
  std::uint32_t max_failover_attempts = 3;      ///< Tries of one request, the first included. 1 to 64.
  Duration timeout = std::chrono::seconds(10);  ///< Of one try.
  Duration first_chunk_timeout{0};              ///< Of a stream, for its first chunk; 0: as `timeout`.
  double total_budget = 1.2;                    ///< Of all tries together, times `timeout`. At least 1.
  std::uint32_t top_k = 3;                      ///< One of so many best is taken. At least 1.
  double temperature = 10;                      ///< The higher, the less the score matters among them. Above 0.
  /// What a provider that is being probed has left of its score. Once it has recovered it regains the rest over
  /// `recovery`, so that it is not flooded, and one that comes and goes is used little.
  double half_open_penalty = 0.5;
  /// Of the requests, so many go to a provider that is to be probed, whatever its score; 0 to 1.
  double probe_share = 0.01;
  Duration recovery = std::chrono::seconds(30);
  /// A score below the pool's median that has not changed for so long begins to rise to it, and is there after five
  /// times as long. 0: never.
  Duration forget_after = std::chrono::seconds(15);
  Duration longest_cool_down = std::chrono::minutes(5);  ///< A provider may ask to be left alone for at most so long.
  RetryBudget::Options retries{};
  /// The kind of an Error, for those who know better.
  std::function<FailureType(const Error&)> classify{};
  Clock* clock = nullptr;  ///< The system's.
  std::uint64_t seed = 0;  ///< 0: any.
};

/// How a request came to its end.
enum class RouteEnd : std::uint8_t {
  kOk,
  kNotRetryable,       ///< It failed in a way for which no other provider is asked, or in the same way on two of them.
  kAttemptsExhausted,  ///< As often as allowed, or by everybody there is.
  kBudgetExhausted,    ///< Its time is over.
  kRetriesExhausted,   ///< There have been too many second tries of late.
  kBulkheadFull,       ///< All that may be called are busy.
  kRateLimited,        ///< All that may be called have been called often enough for now.
  kAllOpen,            ///< Nobody may be called; `retry_at` says when that may change.
  kBroken,             ///< A stream that had begun broke off.
};
[[nodiscard]] std::string_view to_string(RouteEnd end);

/// One try of a request.
struct Attempt {
  std::size_t index = 0;        ///< Of the provider in its pool.
  std::string_view provider{};  ///< Its name.
  std::uint32_t number = 1;
  Time deadline{};              ///< When the answer must be there.
  Time first_chunk_deadline{};  ///< Of a stream: when its first chunk must be.
};

/// What became of a request.
template <class T>
struct Routed {
  Result<T> result;
  RouteEnd end = RouteEnd::kOk;
  std::optional<Time> retry_at{};  ///< Of kAllOpen.
  struct Try {
    std::string provider;
    FailureType type = FailureType::kSuccess;
    Duration latency{0};
  };
  std::vector<Try> tries{};
  bool is_fallback = false;
};

/// What became of a stream.
struct Streamed {
  Result<void> result;
  RouteEnd end = RouteEnd::kOk;
  std::optional<Time> retry_at{};
  std::size_t delivered = 0;  ///< How many chunks the caller has got, also of one that broke off.
  std::string provider{};     ///< Whose.
};

class Router;

/// The tries of one request, one after the other; call() and its kin are made of it.
///
///     Route route(router);
///     while (route.next()) {
///       auto answer = ask(route.attempt());
///       if (answer) { route.succeed(); break; }
///       if (!route.fail(failure)) break;
///     }
///
/// Thread-safety: confined to one thread at a time.
class Route {
 public:
  explicit Route(Router& router);
  Route(Route&&) = default;
  Route& operator=(Route&&) = delete;
  ~Route() { charge_held(); }

  /// Chooses a provider and takes what a call of it needs. False: there is none, and end() says why.
  bool next();
  [[nodiscard]] const Attempt& attempt() const { return attempt_; }
  void succeed();
  /// True when it is worth trying the next. A failure that may be the request's own fault is charged to its provider
  /// only when another one has answered differently.
  bool fail(const Failure& failure);
  /// It failed when the caller had got part of it already: nobody else is asked.
  void break_off(const Failure& failure);
  /// The caller wants no more.
  void abandon();

  [[nodiscard]] RouteEnd end() const { return end_; }
  [[nodiscard]] std::optional<Time> retry_at() const { return retry_at_; }
  /// The last failure, or why there was no try at all.
  [[nodiscard]] Error error() const;
  using Try = Routed<int>::Try;
  [[nodiscard]] const std::vector<Try>& tries() const { return tries_; }

 private:
  // A failed call that has not been charged yet.
  struct Held {
    std::size_t index;
    Permit permit;
    FailureType type;
    Duration latency;
    Duration given;
    std::string detail;
  };
  void charge(std::size_t index, Permit permit, FailureType type, Duration latency, Duration given);
  [[nodiscard]] Duration given() const { return attempt_.deadline - permit_.started(); }
  void charge_held();
  [[nodiscard]] bool may_be_its_own_fault(const Failure& failure, std::size_t index) const;

  Router* router_;
  Time last_;  // The end of its time.
  Attempt attempt_{};
  Permit permit_;
  Bulkhead::Place place_;
  std::bitset<64> tried_;
  std::vector<Held> held_;
  std::vector<Try> tries_;
  std::optional<Failure> failure_;
  RouteEnd end_ = RouteEnd::kAllOpen;
  std::optional<Time> retry_at_;
};

namespace internal {

template <class R>
struct AttemptValue;
template <class T>
struct AttemptValue<Result<T>> {
  using Type = T;
};
template <class T>
struct AttemptValue<std::variant<T, Failure>> {
  using Type = T;
};
template <class T>
struct AttemptValue<Task<T>> : AttemptValue<T> {};

}  // namespace internal

/// A pool of providers that can serve the same requests: chooses the best that may be called, and another when it
/// fails.
///
///     Router router({{.name = "east"}, {.name = "west"}});
///     Routed<Page> page = router.call([&](const Attempt& attempt) -> Result<Page> {
///       return fetch(url_of(attempt.provider), attempt.deadline);
///     });
///
/// The attempt returns Result<T>, whose error is classified, or std::variant<T, Failure>; what it throws is classified
/// too. As a coroutine it returns Task of one of these.
///
/// Thread-safety: thread-safe. Attempts run with no lock held.
/// Example: examples/07_failover.cc
class Router {
 public:
  /// At most 64 providers, at least one, with different names.
  static Result<std::unique_ptr<Router>> make(std::vector<ProviderOptions> providers, RouterOptions options = {});

  template <class F>
  auto call(F&& attempt) {
    return call(std::forward<F>(attempt), nullptr);
  }
  /// With `fallback(error)`, which gives the value when nobody could.
  template <class F, class Fallback>
  auto call(F&& attempt, Fallback&& fallback);
  /// The same for an attempt that is a coroutine, as a coroutine.
  template <class F>
  auto call_async(F attempt)
      -> Task<Routed<typename internal::AttemptValue<std::invoke_result_t<F&, const Attempt&>>::Type>>;

  /// A stream: `attempt(attempt, emit)` calls `emit(chunk)` for each chunk and returns Result<void> or
  /// std::variant<std::monostate, Failure>. Each chunk goes to `sink(chunk)`. Another provider is asked only as long as
  /// nothing has been delivered; a first chunk that comes after its deadline counts as a time-out. When `emit` returns
  /// false the attempt is to stop: it is too late, or `sink` returned false, which ends the stream without a failure.
  template <class Chunk, class F, class Sink>
  Streamed call_stream(F&& attempt, Sink&& sink);

  [[nodiscard]] std::size_t size() const { return providers_.size(); }
  [[nodiscard]] Provider& provider(std::size_t index) { return *providers_[index]; }
  /// Null: there is none of that name.
  [[nodiscard]] Provider* find(std::string_view name);
  [[nodiscard]] std::vector<ProviderStats> stats() const;
  /// What happens to any of them, see Provider::on_event.
  void on_event(const std::function<void(const ProviderEvent&)>& listener) {
    for (const auto& provider : providers_) provider->on_event(listener);
  }
  [[nodiscard]] const RouterOptions& options() const { return options_; }
  [[nodiscard]] Clock& clock() const { return clock_; }

  /// Which provider would be asked now; nothing is taken. None: nobody may be.
  [[nodiscard]] std::optional<std::size_t> select() { return select(clock_.now(), {}); }

 private:
  friend class Route;
  Router(std::vector<ProviderOptions> providers, RouterOptions options);

  std::optional<std::size_t> select(Time now, const std::bitset<64>& except);
  [[nodiscard]] double unit();
  [[nodiscard]] double forgotten_part(Duration unused) const;
  [[nodiscard]] double factor_of(const Provider& provider, Time now) const;
  template <class T>
  Routed<T> finish(const Route& route, std::optional<T> value);
  template <class T, class R>
  bool settle(Route& route, R&& returned, std::optional<T>& value);
  /// Of the exception that is being handled.
  [[nodiscard]] Failure thrown() const {
    Error error = Error::from_exception(std::current_exception());
    const FailureType type = options_.classify ? options_.classify(error) : classify(std::current_exception());
    return {type, std::move(error), {}, {}};
  }
  FailureType type_of(const Error& error) const {
    return options_.classify ? options_.classify(error) : classify(error);
  }

  RouterOptions options_;
  Clock& clock_;
  std::vector<std::unique_ptr<Provider>> providers_;
  RetryBudget budget_;
  std::atomic<std::uint64_t> random_;
};

// ---- how the templates work

template <class T>
Routed<T> Router::finish(const Route& route, std::optional<T> value) {
  Routed<T> routed{value ? Result<T>(std::move(*value)) : Result<T>(route.error())};
  routed.end = route.end();
  routed.retry_at = route.retry_at();
  for (const Route::Try& each : route.tries()) routed.tries.push_back({each.provider, each.type, each.latency});
  return routed;
}

// True when the next one is to be tried.
template <class T, class R>
bool Router::settle(Route& route, R&& returned, std::optional<T>& value) {
  if constexpr (std::is_same_v<std::decay_t<R>, Result<T>>) {
    if (returned.ok()) {
      value.emplace(std::move(*returned));
      route.succeed();
      return false;
    }
    return route.fail({type_of(returned.error()), returned.error(), {}, {}});
  } else {
    if (T* answer = std::get_if<T>(&returned)) {
      value.emplace(std::move(*answer));
      route.succeed();
      return false;
    }
    return route.fail(std::get<Failure>(returned));
  }
}

template <class F, class Fallback>
auto Router::call(F&& attempt, Fallback&& fallback) {
  using Returned = std::invoke_result_t<F&, const Attempt&>;
  using T = typename internal::AttemptValue<Returned>::Type;
  Route route(*this);
  std::optional<T> value;
  while (route.next()) {
    bool more = false;
    try {
      more = settle(route, attempt(route.attempt()), value);
    } catch (...) {
      more = route.fail(thrown());
    }
    if (!more) break;
  }
  Routed<T> routed = finish(route, std::move(value));
  if constexpr (!std::is_same_v<std::decay_t<Fallback>, std::nullptr_t>) {
    if (!routed.result.ok()) {
      routed.result = Result<T>(fallback(routed.result.error()));
      routed.is_fallback = true;
    }
  }
  return routed;
}

template <class Chunk, class F, class Sink>
Streamed Router::call_stream(F&& attempt, Sink&& sink) {
  Route route(*this);
  Streamed streamed{{}};
  while (route.next()) {
    bool late = false;
    bool unwanted = false;
    const auto emit = [&](Chunk chunk) {
      late = late || (streamed.delivered == 0 && clock_.now() > route.attempt().first_chunk_deadline);
      if (late || unwanted) return false;
      ++streamed.delivered;
      unwanted = !sink(std::move(chunk));
      return !unwanted;
    };
    streamed.provider = route.attempt().provider;
    std::optional<Failure> failure;
    try {
      auto returned = attempt(route.attempt(), emit);
      if constexpr (is_result_v<decltype(returned)>) {
        if (!returned.ok()) failure = Failure{type_of(returned.error()), returned.error(), {}, {}};
      } else if (const Failure* told = std::get_if<Failure>(&returned)) {
        failure = *told;
      }
    } catch (...) {
      failure = thrown();
    }
    if (unwanted) {
      route.abandon();
      return streamed;
    }
    if (late) failure = Failure{FailureType::kTimeout, {ErrorCode::kTimedOut, "its first chunk came too late"}, {}, {}};
    if (!failure) {
      route.succeed();
      return streamed;
    }
    if (streamed.delivered != 0) {
      route.break_off(*failure);
      break;
    }
    if (!route.fail(*failure)) break;
  }
  streamed.end = route.end();
  streamed.retry_at = route.retry_at();
  streamed.result = route.error();
  return streamed;
}

// g++ warns of the coroutine's frame when F was born in a source file; nobody else ever sees that frame.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif
template <class F>
auto Router::call_async(F attempt)
    -> Task<Routed<typename internal::AttemptValue<std::invoke_result_t<F&, const Attempt&>>::Type>> {
  using T = typename internal::AttemptValue<std::invoke_result_t<F&, const Attempt&>>::Type;
  Route route(*this);
  std::optional<T> value;
  while (route.next()) {
    bool more = false;
    try {
      more = settle(route, co_await attempt(route.attempt()), value);
    } catch (...) {
      more = route.fail(thrown());
    }
    if (!more) break;
  }
  co_return finish(route, std::move(value));
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace cohort
