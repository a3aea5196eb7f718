#pragma once

// How the templates of Router work; router.h includes it.

#include "cohort/provider/router.h"

namespace cohort {

template <class T>
Routed<T> Router::finish(const Route& route, std::optional<T> value) {
  Routed<T> routed{value ? Result<T>(std::move(*value)) : Result<T>(route.error())};
  routed.end = route.end();
  routed.retry_at = route.retry_at();
  for (const Route::Try& each : route.tries()) routed.tries.push_back({each.provider, each.type, each.latency});
  return routed;
}

// True if another provider must be tried.
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

// g++ warns about the type of the coroutine's frame if F is local to a source file. No other file sees that frame.
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
