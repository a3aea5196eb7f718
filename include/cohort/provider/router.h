#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
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
  Duration timeout = std::chrono::seconds(10);  ///< Of one try. 1 ms to a year.
  Duration first_chunk_timeout{0};              ///< Of a stream, for its first chunk; 0: as `timeout`.
  double total_budget = 1.2;                    ///< Of all tries together, times `timeout`. At least 1.
  std::uint32_t top_k = 3;                      ///< One of so many best is taken. At least 1.
  double temperature = 10;                      ///< The higher, the less the score matters among them. Above 0.
  /// First tries go to a provider that is to be probed as long as it has room for probes. For others, this is what it
  /// has left of its score. Once it has recovered it regains the rest over `recovery`, so that it is not flooded, and
  /// one that comes and goes is used little.
  double half_open_penalty = 0.5;
  Duration recovery = std::chrono::seconds(30);
  /// A score below the pool's median that has not changed for so long begins to rise to it, and is there after five
  /// times as long. 0: never.
  Duration forget_after = std::chrono::seconds(15);
  /// 401 and 403 count as failures, also in a row, and another provider is asked: for pools whose providers have keys
  /// of the service's own. By default they are answers, so that one tenant's expired key opens no breaker for others.
  bool auth_is_failure = false;
  /// When more than this share of the providers is open, calls are spread over all of them, open or not: then it is
  /// likelier that the breakers are wrong. Those that were forced open or derated to 0 by hand are left out of both. 0
  /// to 1; 1: never.
  double panic_share = 1;
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
  kBudgetExhausted,    ///< Its time is over, or its caller's.
  kRetriesExhausted,   ///< There have been too many second tries of late.
  kBulkheadFull,       ///< All that may be called are busy.
  kRateLimited,        ///< All that may be called have been called often enough for now.
  kAllOpen,            ///< Nobody may be called; `retry_at` says when that may change.
  kBroken,             ///< A stream that had begun broke off.
  kCancelled,          ///< Its caller wants no more.
};
[[nodiscard]] std::string_view to_string(RouteEnd end);

/// What a caller says of one request.
///
///     router.call(attempt, CallOptions().with_deadline(deadline).with_stop(stop))
///
/// (It is no aggregate because g++ 12 destroys an aggregate that is made inside a co_await expression twice.)
struct CallOptions {
  CallOptions() = default;
  CallOptions&& with_deadline(Time time) && { return deadline = time, std::move(*this); }
  CallOptions&& with_stop(std::stop_token token) && { return stop = std::move(token), std::move(*this); }
  CallOptions&& as_retry(bool is = true) && { return is_retry = is, std::move(*this); }

  /// When the caller gives up. If the task that calls runs out of time earlier, that counts.
  std::optional<Time> deadline{};
  /// The caller's cancel. A call that it stops before the deadline counts nowhere; one that it stops at the deadline or
  /// later is a time-out.
  std::stop_token stop{};
  /// It is another attempt of a request that was counted before: a retry to the budget, and no new request.
  bool is_retry = false;
};

/// One try of a request.
struct Attempt {
  std::size_t index = 0;        ///< Of the provider in its pool.
  std::string_view provider{};  ///< Its name.
  std::uint32_t number = 1;
  Time deadline{};              ///< When the answer must be there.
  Time first_chunk_deadline{};  ///< Of a stream: when its first chunk must be.
  std::stop_token stop{};       ///< Its caller's, to pass on.
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
/// It keeps the router alive. Inside a task with a time limit the earlier of the request's deadline and that counts.
///
/// Thread-safety: confined to one thread at a time.
class Route {
 public:
  enum class Kind : std::uint8_t { kCall, kStream };
  explicit Route(Router& router, CallOptions options = {}, Kind kind = Kind::kCall);
  Route(Route&&) = default;
  Route& operator=(Route&&) = delete;
  ~Route() { charge_held(InRow::kYes); }

  /// Chooses a provider and takes what a call of it needs. False: there is none, and end() says why.
  bool next();
  [[nodiscard]] const Attempt& attempt() const { return attempt_; }
  void succeed() { succeed(now() - started_); }
  void succeed(Duration latency);
  /// The first chunk of a stream has come. A probe has succeeded with it: the stream may last longer than its lease.
  void begin_to_answer(Duration latency);
  /// True when it is worth trying the next. A failure that may be the request's own fault is charged only when the
  /// request has ended: to nobody if two providers that serve others well gave the same kind of answer.
  bool fail(Failure failure);
  /// It failed when the caller had got part of it already, the first after `latency`: nobody else is asked. If it was
  /// the caller who ended it, by its own deadline or a stop, the provider has succeeded.
  void break_off(Failure failure, Duration latency);

  [[nodiscard]] RouteEnd end() const { return end_; }
  [[nodiscard]] std::optional<Time> retry_at() const { return retry_at_; }
  /// The last failure, or why there was no try at all.
  [[nodiscard]] Error error() const;
  using Try = Routed<int>::Try;
  [[nodiscard]] const std::vector<Try>& tries() const { return tries_; }

 private:
  enum class InRow : std::uint8_t { kYes, kNo };
  // A failed call that has not been charged yet.
  struct Held {
    std::size_t index;
    Permit permit;
    FailureType type;
    Duration latency;
    std::string detail;
    bool serves_well;  // Its provider serves others well.

    // One that says nothing more than its type is like any of that type.
    [[nodiscard]] bool is_like(const Held& other) const {
      return type == other.type && (detail == other.detail || detail.empty() || other.detail.empty());
    }
  };
  [[nodiscard]] Time now() const;
  [[nodiscard]] bool is_over(Time now);
  bool take(std::size_t index, bool in_panic, Time now);
  void say_why_nobody(bool full, Time now);
  void charge(std::size_t index, Permit permit, FailureType type, Duration latency, InRow in_row);
  void charge_held(InRow in_row);
  /// By the deadline and the stop token, what the end of a try that its caller may have caused really is.
  void judge_stop(Failure& failure, Time now) const;
  [[nodiscard]] bool was_cut_off(FailureType type, Time now) const;
  [[nodiscard]] bool serves_well(std::size_t index) const;
  bool blame_request(const Held& last);

  std::shared_ptr<Router> router_;
  CallOptions options_;
  Kind kind_;
  Time begun_;
  std::optional<Time> callers_deadline_;
  Time last_;  // The end of its time, by the pool's budget and the caller's deadline.
  Time started_{};
  bool gave_less_ = false;  // This try has less time than the pool's own time-out.
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
/// Calls share in owning it: one that outlives its time-out finds it alive.
///
/// Thread-safety: thread-safe. Attempts run with no lock held.
/// Example: examples/07_failover.cc
class Router : public std::enable_shared_from_this<Router> {
 public:
  /// At most 64 providers, at least one, with different names. Options that cannot be are corrected, and a warning is
  /// logged; those of breakers are refused.
  static Result<std::shared_ptr<Router>> make(const std::vector<ProviderOptions>& providers,
                                              const RouterOptions& options = {});

  template <class F>
  auto call(F&& attempt, const CallOptions& options = {}) {
    return call(std::forward<F>(attempt), nullptr, options);
  }
  /// With `fallback(error)`, which gives the value when nobody could; not for a request that was cancelled.
  template <class F, class Fallback>
    requires(!std::is_convertible_v<Fallback, CallOptions>)
  auto call(F&& attempt, Fallback&& fallback, const CallOptions& options = {});
  /// The same for an attempt that is a coroutine, as a coroutine.
  template <class F>
  auto call_async(F attempt, CallOptions options = {})
      -> Task<Routed<typename internal::AttemptValue<std::invoke_result_t<F&, const Attempt&>>::Type>> {
    return call_async_of(shared_from_this(), std::move(attempt), std::move(options));
  }

  /// A stream: `attempt(attempt, emit)` calls `emit(chunk)` for each chunk and returns Result<void> or
  /// std::variant<std::monostate, Failure>. Each chunk goes to `sink(chunk)`. Another provider is asked only as long as
  /// nothing has been delivered; a first chunk that comes after its deadline counts as a time-out. When `emit` returns
  /// false the attempt is to stop: it is too late, or `sink` wants no more. A sink that returns false, or throws, ends
  /// a stream that has succeeded; what it throws is thrown again when the attempt has returned. The latency of a stream
  /// is that of its first chunk.
  template <class Chunk, class F, class Sink>
  Streamed call_stream(F&& attempt, Sink&& sink, const CallOptions& options = {});

  [[nodiscard]] std::size_t size() const { return providers_.size(); }
  [[nodiscard]] Provider& provider(std::size_t index) { return *providers_[index]; }
  /// Null: there is none of that name.
  [[nodiscard]] Provider* find(std::string_view name);
  [[nodiscard]] std::vector<ProviderStats> stats() const;
  /// What happens to any of them, see Provider::on_event. And, without the name of a provider and with the reason
  /// "panic_began" or "panic_ended", what happens to the pool.
  void on_event(const std::function<void(const ProviderEvent&)>& listener) {
    listener_ = listener;
    for (const auto& provider : providers_) provider->on_event(listener);
  }
  /// Calls are spread over all providers at the moment, see RouterOptions::panic_share.
  [[nodiscard]] bool in_panic() const { return in_panic_.load(std::memory_order_relaxed); }
  /// How many calls that was true of.
  [[nodiscard]] std::uint64_t panic_calls() const { return panic_calls_.load(std::memory_order_relaxed); }
  [[nodiscard]] const RouterOptions& options() const { return options_; }
  [[nodiscard]] Clock& clock() const { return clock_; }

  /// Which provider would be asked now; nothing is taken. None: nobody may be.
  [[nodiscard]] std::optional<std::size_t> select() {
    const std::optional<Choice> choice = select(clock_.now(), {});
    return choice ? std::optional(choice->index) : std::nullopt;
  }

 private:
  friend class Route;
  Router(const std::vector<ProviderOptions>& providers, const RouterOptions& options);

  struct Choice {
    std::size_t index = 0;
    bool in_panic = false;
  };
  struct Candidate {
    std::size_t index;
    double score;
    double factor;
    double trust;  // In the score; without it the candidate counts as the pool's median.
    bool to_probe;
  };
  std::optional<Choice> select(Time now, const std::bitset<64>& except);
  std::optional<Choice> select_in_panic(Time now, const std::bitset<64>& except);
  [[nodiscard]] std::size_t choose(std::span<Candidate> candidates);
  [[nodiscard]] bool look_for_panic(Time now);
  [[nodiscard]] double unit();
  [[nodiscard]] double forgotten_part(Duration unused) const;
  [[nodiscard]] double factor_of(const Provider& provider, Time now) const;
  template <class F>
  static auto call_async_of(std::shared_ptr<Router> router, F attempt, CallOptions options)
      -> Task<Routed<typename internal::AttemptValue<std::invoke_result_t<F&, const Attempt&>>::Type>>;
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
  std::function<void(const ProviderEvent&)> listener_;
  std::atomic<bool> in_panic_{false};
  std::atomic<std::uint64_t> panic_calls_{0};
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
  requires(!std::is_convertible_v<Fallback, CallOptions>)
auto Router::call(F&& attempt, Fallback&& fallback, const CallOptions& options) {
  using Returned = std::invoke_result_t<F&, const Attempt&>;
  using T = typename internal::AttemptValue<Returned>::Type;
  Route route(*this, options);
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
    if (!routed.result.ok() && routed.end != RouteEnd::kCancelled) {
      routed.result = Result<T>(fallback(routed.result.error()));
      routed.is_fallback = true;
    }
  }
  return routed;
}

template <class Chunk, class F, class Sink>
Streamed Router::call_stream(F&& attempt, Sink&& sink, const CallOptions& options) {
  Route route(*this, options, Route::Kind::kStream);
  Streamed streamed{{}};
  while (route.next()) {
    const Time started = clock_.now();
    Duration first_chunk{0};
    bool late = false;
    bool unwanted = false;
    std::exception_ptr of_sink;
    const auto emit = [&](Chunk chunk) {
      if (late || unwanted) return false;
      if (streamed.delivered == 0) {
        const Time now = clock_.now();
        late = now > route.attempt().first_chunk_deadline;
        if (late) return false;
        first_chunk = now - started;
        route.begin_to_answer(first_chunk);
      }
      ++streamed.delivered;
      try {
        unwanted = !sink(std::move(chunk));
      } catch (...) {
        of_sink = std::current_exception();
        unwanted = true;
      }
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
    if (late) failure = Failure{FailureType::kTimeout, {ErrorCode::kTimedOut, "its first chunk came too late"}, {}, {}};
    if (unwanted || !failure) {
      route.succeed(streamed.delivered != 0 ? first_chunk : clock_.now() - started);
      if (of_sink) std::rethrow_exception(of_sink);
      return streamed;
    }
    if (streamed.delivered != 0) {
      route.break_off(std::move(*failure), first_chunk);
      break;
    }
    if (!route.fail(std::move(*failure))) break;
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
auto Router::call_async_of(std::shared_ptr<Router> router, F attempt, CallOptions options)
    -> Task<Routed<typename internal::AttemptValue<std::invoke_result_t<F&, const Attempt&>>::Type>> {
  using T = typename internal::AttemptValue<std::invoke_result_t<F&, const Attempt&>>::Type;
  Route route(*router, std::move(options));
  std::optional<T> value;
  while (route.next()) {
    bool more = false;
    try {
      more = router->settle(route, co_await attempt(route.attempt()), value);
    } catch (...) {
      more = route.fail(router->thrown());
    }
    if (!more) break;
  }
  co_return router->finish(route, std::move(value));
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace cohort
