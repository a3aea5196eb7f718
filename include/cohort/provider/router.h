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
  std::uint32_t max_failover_attempts = 3;      ///< Maximum tries of one request, the first included. 1 to 64.
  Duration timeout = std::chrono::seconds(10);  ///< Time-out of one try. 1 ms to a year.
  Duration first_chunk_timeout{0};              ///< Time-out of a stream's first chunk. 0: `timeout`.
  double total_budget = 1.2;  ///< Time for all tries of a request together, as a multiple of `timeout`. At least 1.
  std::uint32_t top_k = 3;    ///< The router chooses among this many best providers. At least 1.
  double temperature = 10;    ///< The higher, the less the score matters in the choice. Above 0.
  /// The factor on the score of a half-open provider, for failover. First tries go to a half-open provider as long as
  /// it has a free place for a probe. After the breaker has closed, the factor rises to 1 over `recovery`. So a
  /// recovered provider is not flooded, and a flapping provider is used little.
  double half_open_penalty = 0.5;
  /// How long the score of a provider takes to recover after its breaker has closed, see `half_open_penalty`.
  Duration recovery = std::chrono::seconds(30);
  /// A score below the pool's median begins to rise if it has not changed for this time. It reaches the median after
  /// five times this time. 0: never.
  Duration forget_after = std::chrono::seconds(15);
  /// True: 401 and 403 are failures, also in a row, and the router asks another provider. Use it if the service itself
  /// owns the keys of its providers. False: they are answers, so one tenant's expired key opens no breaker for others.
  bool auth_is_failure = false;
  /// If more than this share of the providers is open, the router spreads calls over all providers, open or not. It is
  /// then likelier that the breakers are wrong. Providers that were forced open or derated to 0 by hand do not count
  /// and get no calls. 0 to 1. 1: never.
  double panic_share = 1;
  RetryBudget::Options retries{};  ///< Limits the retries of the pool: all tries of a request after its first.
  /// Maps an Error to its kind. Empty: cohort::classify().
  std::function<FailureType(const Error&)> classify{};
  Clock* clock = nullptr;  ///< Null: the system's.
  std::uint64_t seed = 0;  ///< For random choices. 0: any.
};

/// How a request ended.
enum class RouteEnd : std::uint8_t {
  kOk,                 ///< A provider answered.
  kNotRetryable,       ///< The failure is of a kind that does not fail over, or two providers failed in the same way.
  kAttemptsExhausted,  ///< The request used all its tries, or no further provider could be called.
  kBudgetExhausted,    ///< The time for all tries, or the caller's deadline, is over.
  kRetriesExhausted,   ///< The retry budget of the pool is used up.
  kBulkheadFull,       ///< No provider could be called, and at least one had no free place in its bulkhead.
  kRateLimited,        ///< No provider could be called, and at least one had used up its rate.
  kAllOpen,            ///< No provider may be called. `retry_at` says when that may change, if it is known.
  kBroken,             ///< A stream broke off after its first chunk.
  kCancelled,          ///< The caller cancelled the request.
};
[[nodiscard]] std::string_view to_string(RouteEnd end);

/// The options of one request.
///
///     auto routed = router->call(attempt, CallOptions().with_deadline(deadline).with_stop(stop));
///
/// (CallOptions is not an aggregate, because g++ 12 destroys an aggregate twice if a co_await expression creates it.)
struct CallOptions {
  CallOptions() = default;
  CallOptions&& with_deadline(Time time) && { return deadline = time, std::move(*this); }
  CallOptions&& with_stop(std::stop_token token) && { return stop = std::move(token), std::move(*this); }
  CallOptions&& as_retry(bool is = true) && { return is_retry = is, std::move(*this); }

  /// When the caller gives up. Inside a task with a time limit the earlier of this deadline and the task's limit holds.
  std::optional<Time> deadline{};
  /// Cancels the request. A try that is stopped before its deadline counts nowhere. A try that is stopped at its
  /// deadline or later is a time-out.
  std::stop_token stop{};
  /// True if the caller repeats a request that was counted before. The retry budget counts it as a retry, not as a new
  /// request.
  bool is_retry = false;
};

/// One try of a request.
struct Attempt {
  std::size_t index = 0;        ///< The index of the provider in its pool.
  std::string_view provider{};  ///< The name of the provider.
  std::uint32_t number = 1;     ///< The number of the try within its request, from 1.
  Time deadline{};              ///< When the answer must be there.
  Time first_chunk_deadline{};  ///< For a stream: when its first chunk must be there.
  std::stop_token stop{};       ///< The caller's stop token. Pass it on to the client.
};

/// The result of a request, and how the router got it.
template <class T>
struct Routed {
  Result<T> result;
  RouteEnd end = RouteEnd::kOk;
  std::optional<Time> retry_at{};  ///< For kAllOpen: when a provider may be callable again.
  /// One try of the request: the provider, how the try ended, and its latency.
  struct Try {
    std::string provider;
    FailureType type = FailureType::kSuccess;
    Duration latency{0};
  };
  std::vector<Try> tries{};
  bool is_fallback = false;  ///< True if the caller's fallback made `result`.
};

/// The result of a stream.
struct Streamed {
  Result<void> result;
  RouteEnd end = RouteEnd::kOk;
  std::optional<Time> retry_at{};  ///< For kAllOpen: when a provider may be callable again.
  std::size_t delivered = 0;       ///< The number of chunks that the sink has got, also if the stream broke off.
  std::string provider{};          ///< The name of the last provider that was asked.
};

class Router;

/// The tries of one request, one after the other. Router::call(), call_async() and call_stream() use it.
///
///     Route route(*router);
///     while (route.next()) {
///       Result<Page> page = ask(route.attempt());
///       if (page) {
///         route.succeed();
///         break;
///       }
///       if (!route.fail({classify(page.error()), page.error(), {}, {}})) break;
///     }
///
/// A Route keeps its router alive. Inside a task with a time limit the earlier of the request's deadline and the task's
/// limit holds.
///
/// Thread-safety: confined to one thread at a time.
class Route {
 public:
  enum class Kind : std::uint8_t { kCall, kStream };
  explicit Route(Router& router, CallOptions options = {}, Kind kind = Kind::kCall);
  Route(Route&&) = default;
  Route& operator=(Route&&) = delete;
  ~Route() { charge_held(InRow::kYes); }

  /// Begins the next try: chooses a provider and takes its permit, its bulkhead place and its token. False if there is
  /// no further try; end() says why.
  bool next();
  [[nodiscard]] const Attempt& attempt() const { return attempt_; }
  /// Ends the current try as a success. Without `latency`, the latency is the time since the try began.
  void succeed() { succeed(now() - started_); }
  void succeed(Duration latency);
  /// Reports the first chunk of a stream. A probe succeeds with its first chunk, because the stream may last longer
  /// than the lease of the probe.
  void begin_to_answer(Duration latency);
  /// Ends the current try as a failure. True if another try is worthwhile.
  ///
  /// The request itself may be the cause of a failure. The route charges this kind of failure only when the request
  /// ends. If two providers that serve other requests well gave the same kind of answer, it charges neither of them.
  bool fail(Failure failure);
  /// Ends the current try of a stream that failed after its first chunk. `latency` is the latency of the first chunk.
  /// No other provider is asked. If the caller ended the stream, by its deadline or a stop, the provider has succeeded.
  void break_off(Failure failure, Duration latency);

  [[nodiscard]] RouteEnd end() const { return end_; }
  /// For kAllOpen: when a provider may be callable again.
  [[nodiscard]] std::optional<Time> retry_at() const { return retry_at_; }
  /// The error of the last try. If there was no try: the reason.
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
    bool serves_well;  // The provider serves other requests well.

    // True if both failures have the same type and the same detail. An empty detail matches every detail.
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
  /// Corrects kTimeout to kCancelled and vice versa: the deadline and the stop token say which of them is true.
  void judge_stop(Failure& failure, Time now) const;
  [[nodiscard]] bool was_cut_off(FailureType type, Time now) const;
  [[nodiscard]] bool serves_well(std::size_t index) const;
  bool blame_request(const Held& last);

  std::shared_ptr<Router> router_;
  CallOptions options_;
  Kind kind_;
  Time begun_;
  std::optional<Time> callers_deadline_;
  Time last_;  // The end of the request's time: the earlier of the pool's budget and the caller's deadline.
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

/// A pool of providers that can serve the same requests. For each request it chooses one of the best providers that may
/// be called. If that provider fails, it asks another.
///
///     auto router = Router::make({{.name = "east"}, {.name = "west"}}).value();
///     Routed<Page> page = router->call([&](const Attempt& attempt) -> Result<Page> {
///       return fetch(url_of(attempt.provider), attempt.deadline);
///     });
///
/// `attempt` returns Result<T> or std::variant<T, Failure>. A coroutine returns Task<Result<T>> or
/// Task<std::variant<T, Failure>>. The router classifies the Error of a Result and exceptions. It takes a Failure as it
/// is.
///
/// A call shares the ownership of its router, so a call that outlives its time-out finds the router alive.
///
/// Thread-safety: thread-safe. Attempts run with no lock held.
/// Example: examples/07_failover.cc
class Router : public std::enable_shared_from_this<Router> {
 public:
  /// Makes a pool of 1 to 64 providers with different names. Corrects illegal options to the nearest legal value and
  /// logs a warning. Fails with kInvalid for a bad number of providers, two equal names, or illegal BreakerOptions.
  static Result<std::shared_ptr<Router>> make(const std::vector<ProviderOptions>& providers,
                                              const RouterOptions& options = {});

  /// Calls `attempt(const Attempt&)` for one provider after another until one answers or the request ends otherwise.
  template <class F>
  auto call(F&& attempt, const CallOptions& options = {}) {
    return call(std::forward<F>(attempt), nullptr, options);
  }
  /// Like call(attempt, options), but if the request fails, `fallback(error)` makes the value. The router does not call
  /// `fallback` for a cancelled request.
  template <class F, class Fallback>
    requires(!std::is_convertible_v<Fallback, CallOptions>)
  auto call(F&& attempt, Fallback&& fallback, const CallOptions& options = {});
  /// Like call(), but as a coroutine, for an `attempt` that is a coroutine.
  template <class F>
  auto call_async(F attempt, CallOptions options = {})
      -> Task<Routed<typename internal::AttemptValue<std::invoke_result_t<F&, const Attempt&>>::Type>> {
    return call_async_of(shared_from_this(), std::move(attempt), std::move(options));
  }

  /// Makes a request whose answer is a stream of chunks.
  ///
  /// `attempt(const Attempt&, emit)` calls `emit(chunk)` for each chunk and returns Result<void> or
  /// std::variant<std::monostate, Failure>. The router passes each chunk to `sink(chunk)`. It asks another provider
  /// only as long as it has delivered no chunk.
  ///
  /// - A first chunk that comes after its deadline counts as a time-out.
  /// - If `emit` returns false, the attempt must stop: the chunk was too late, or the sink wants no more.
  /// - If the sink returns false or throws, the stream has succeeded. The exception is rethrown when the attempt has
  ///   returned.
  /// - The latency of a stream is the latency of its first chunk.
  template <class Chunk, class F, class Sink>
  Streamed call_stream(F&& attempt, Sink&& sink, const CallOptions& options = {});

  [[nodiscard]] std::size_t size() const { return providers_.size(); }
  [[nodiscard]] Provider& provider(std::size_t index) { return *providers_[index]; }
  /// The provider with that name, or null.
  [[nodiscard]] Provider* find(std::string_view name);
  /// The statistics of all providers, in the order of make().
  [[nodiscard]] std::vector<ProviderStats> stats() const;
  /// Sets the listener for changes of the providers, see Provider::on_event. The listener also gets the events
  /// "panic_began" and "panic_ended" of the pool, which have no provider name.
  void on_event(const std::function<void(const ProviderEvent&)>& listener) {
    listener_ = listener;
    for (const auto& provider : providers_) provider->on_event(listener);
  }
  /// True while the router spreads calls over all providers, see RouterOptions::panic_share.
  [[nodiscard]] bool in_panic() const { return in_panic_.load(std::memory_order_relaxed); }
  /// The number of tries that were made in a panic.
  [[nodiscard]] std::uint64_t panic_calls() const { return panic_calls_.load(std::memory_order_relaxed); }
  [[nodiscard]] const RouterOptions& options() const { return options_; }
  [[nodiscard]] Clock& clock() const { return clock_; }

  /// The index of the provider that the router would ask now. `nullopt` if no provider may be called. Takes no permit.
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
    double trust;  // 1: the score counts. 0: the pool's median counts instead of it.
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
  /// The Failure for the exception that is being handled.
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

}  // namespace cohort

#include "cohort/provider/internal/router_calls.h"  // IWYU pragma: export
