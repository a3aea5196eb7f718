#pragma once

// Failures that a breaker has to tell apart, each in virtual time and alone: what a figure counts should not happen, or
// should happen at once.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/random.h"
#include "cohort/provider/router.h"
#include "cohort/testing/virtual_clock.h"

namespace cohort::bench {

using namespace std::chrono_literals;

/// Providers of one pool, and requests to it one after the other.
class CasePool {
 public:
  CasePool(int providers, std::uint64_t seed, RouterOptions options = {}) : random_(seed) {
    std::vector<ProviderOptions> all;
    for (int i = 0; i < providers; ++i) all.push_back({.name = std::to_string(i)});
    options.clock = &clock;
    options.seed = seed;
    router = Router::make(all, options).value();
  }

  /// A request whose every try ends like that, after so long. Gives the number of the provider that was asked first, or
  /// -1.
  int request(FailureType type, Duration latency, const std::string& detail = {}) {
    Route route(*router);
    int first = -1;
    while (route.next()) {
      if (first < 0) first = static_cast<int>(route.attempt().index);
      clock.advance(std::min(latency, route.attempt().deadline - clock.now()));
      if (type == FailureType::kSuccess) {
        route.succeed();
        break;
      }
      if (!route.fail({type, {ErrorCode::kUnavailable, "failed"}, {}, detail})) break;
    }
    return first;
  }
  void open(std::size_t index) {
    Breaker& breaker = router->provider(index).breaker();
    while (breaker.state() == BreakerState::kClosed) breaker.allow().failure(FailureType::kConnect, 1ms);
    clock.set(breaker.retry_at());
  }
  /// The time to the next request, when there are so many a second.
  Duration pause(double per_second) {
    return Duration(static_cast<Duration::rep>((0.5 + random_.unit()) * 1e9 / per_second));
  }
  [[nodiscard]] BreakerState state(std::size_t index) { return router->provider(index).breaker().state(); }

  VirtualClock clock;
  std::shared_ptr<Router> router;

 private:
  Random random_;
};

/// A provider that is well again after it was open: requests that it did not get though it had room for a probe, until
/// its breaker was closed; or a thousand if that took more than two of them.
inline double not_sent_to_recovered(int providers, double per_second) {
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CasePool pool(providers, seed);
    for (int i = 0; i < 100; ++i) pool.request(FailureType::kSuccess, 10ms);
    pool.open(0);
    int missed = 0;
    int requests = 0;
    while (pool.state(0) != BreakerState::kClosed && ++requests <= 1000) {
      missed += pool.request(FailureType::kSuccess, 10ms) != 0 ? 1 : 0;
      pool.clock.advance(pool.pause(per_second));
    }
    worst = std::max({worst, static_cast<double>(missed), requests > 2 ? 1000.0 : 0.0});
  }
  return worst;
}

/// The same when requests overlap: so many a second, each of 40 ms. Counts those that it did not get though one of its
/// two places was free.
inline double not_sent_to_recovered_at_once(double per_second) {
  struct Running {
    Time end;
    std::unique_ptr<Route> route;
  };
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CasePool pool(5, seed);
    for (int i = 0; i < 100; ++i) pool.request(FailureType::kSuccess, 10ms);
    pool.open(0);
    std::vector<Running> running;
    int missed = 0;
    for (int i = 0; i < 1000 && pool.state(0) != BreakerState::kClosed; ++i) {
      std::erase_if(running, [&](const Running& each) {
        if (each.end > pool.clock.now()) return false;
        each.route->succeed();
        return true;
      });
      if (pool.state(0) == BreakerState::kClosed) break;
      const bool has_place = pool.router->provider(0).breaker().snapshot().probes_out < 2;
      auto route = std::make_unique<Route>(*pool.router);
      if (!route->next() || (route->attempt().index != 0 && has_place)) ++missed;
      running.push_back({pool.clock.now() + 40ms, std::move(route)});
      pool.clock.advance(pool.pause(per_second));
    }
    for (const Running& each : running) each.route->succeed();
    worst = std::max(worst, static_cast<double>(missed));
  }
  return worst;
}

/// Every second call fails: the part of six hours in which the breaker is open, from when it has opened first.
inline double open_while_flapping(double per_second) {
  CasePool pool(1, 1);
  pool.open(0);
  Duration open{0};
  int calls = 0;
  const Time begin = pool.clock.now();
  while (pool.clock.now() - begin < 6h) {
    const Time before = pool.clock.now();
    const bool called = pool.request(++calls % 2 == 0 ? FailureType::kHttp5xx : FailureType::kSuccess, 1ms) >= 0;
    if (!called) --calls;
    pool.clock.advance(pool.pause(per_second));
    if (pool.state(0) == BreakerState::kOpen) open += pool.clock.now() - before;
  }
  return static_cast<double>(open.count()) / static_cast<double>((pool.clock.now() - begin).count());
}

/// A provider that answers nobody: requests until its breaker is open. The pool's time-out is 2 s; a caller that gives
/// less time cuts the try off.
inline double timeouts_to_open(Duration callers) {
  CasePool pool(1, 1, {.timeout = 2s});
  for (int i = 0; i < 100; ++i) pool.request(FailureType::kSuccess, 10ms);
  int requests = 0;
  while (pool.state(0) == BreakerState::kClosed && ++requests < 1000) {
    Route route(*pool.router, CallOptions().with_deadline(pool.clock.now() + callers));
    while (route.next()) {
      pool.clock.set(route.attempt().deadline);
      if (!route.fail({FailureType::kTimeout, {ErrorCode::kTimedOut, "hung"}, {}, {}})) break;
    }
  }
  return requests;
}

/// Three providers with ten good requests a second, and one a second that fails wherever it goes, for ten minutes: how
/// often a breaker opened.
inline double opened_by_poison() {
  double opened = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const FailureType type : {FailureType::kHttp5xx, FailureType::kDecode, FailureType::kUnknown}) {
      for (const char* detail : {"", "HTTP 500"}) {
        CasePool pool(3, seed);
        pool.router->on_event([&](const ProviderEvent& event) { opened += event.to == BreakerState::kOpen ? 1 : 0; });
        for (int second = 0; second < 600; ++second) {
          for (int i = 0; i < 10; ++i) {
            pool.request(FailureType::kSuccess, 10ms);
            pool.clock.advance(pool.pause(11));
          }
          pool.request(type, 10ms, detail);
        }
      }
    }
  }
  return opened;
}

/// The same three when every request fails everywhere and there are no retries left, so that no failure counts in a
/// row: the seconds until all breakers are open, by their rates.
inline double outage_to_open() {
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CasePool pool(3, seed, {.retries = {.ratio = 0, .floor_per_second = 0}});
    for (int i = 0; i < 2000; ++i) {
      pool.request(FailureType::kSuccess, 1ms);
      pool.clock.advance(pool.pause(100));
    }
    const Time begin = pool.clock.now();
    const auto all_open = [&] {
      return pool.state(0) != BreakerState::kClosed && pool.state(1) != BreakerState::kClosed &&
             pool.state(2) != BreakerState::kClosed;
    };
    while (!all_open() && pool.clock.now() - begin < 10min) {
      pool.request(FailureType::kHttp5xx, 1ms);
      pool.clock.advance(pool.pause(100));
    }
    worst = std::max(worst, std::chrono::duration<double>(pool.clock.now() - begin).count());
  }
  return worst;
}

}  // namespace cohort::bench
