#pragma once

// What a graph costs a service whose work is to wait: CPU time of requests that make eight calls, one after the other,
// each of which a timer completes after 1 to 5 ms.

#include <sys/resource.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cohort/graph/graph.h"
#include "cohort/group/group_executor.h"
#include "cohort/task/sleep.h"

namespace cohort::bench {

inline constexpr int kUpstreamCalls = 8;
inline constexpr int kUpstreamInFlight = 500;
inline constexpr int kUpstreamRequests = 10'000;

inline Duration upstream_latency(int request, int call) {
  return std::chrono::microseconds(
      1000 + (static_cast<unsigned>(request) * 7919U + static_cast<unsigned>(call) * 104729U) % 4000);
}

inline double cpu_us() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto us = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return us(used.ru_utime) + us(used.ru_stime);
}

/// A graph with a group, a limit, a time-out and an outcome for each call.
inline double upstream_ours() {
  GroupExecutor executor({.threads = 2});
  GraphBuilder<int> builder;
  std::optional<GraphNode<int, int>> last;
  for (int call = 0; call < kUpstreamCalls; ++call) {
    const std::string name = "call-" + std::to_string(call);
    if (!last) {
      last = builder.node(name, [call](int request) -> Task<int> {
        co_await sleep_for(upstream_latency(request, call));
        co_return request;
      });
    } else {
      last = builder.node(
          name,
          [call](int request, const int& before) -> Task<int> {
            co_await sleep_for(upstream_latency(request, call));
            co_return before;
          },
          *last);
    }
    last->concurrency(kUpstreamInFlight).timeout(std::chrono::seconds(2));
  }
  last->output();
  auto graph = std::move(*builder.build(executor, {.timeout = std::chrono::seconds(10)}));
  std::atomic<int> next{0};
  std::atomic<int> good{0};
  const auto run_some = [&](int requests) {
    const double before = cpu_us();
    next = 0;
    good = 0;
    std::vector<TaskHandle<void>> clients;
    for (int i = 0; i < kUpstreamInFlight; ++i) {
      clients.push_back(executor.submit("clients", "", [&]() -> Task<> {
        for (int request = next++; request < requests; request = next++) {
          const TaskResult<GraphRun> run = co_await graph.start(request);
          if (run.value->outcome(*last) == Outcome::kOk) ++good;
        }
      }));
    }
    for (const auto& client : clients) static_cast<void>(client.await());
    if (good != requests) std::abort();
    return (cpu_us() - before) / requests;
  };
  static_cast<void>(executor.set_limits("clients", {.max_concurrency = kUpstreamInFlight}));
  static_cast<void>(run_some(kUpstreamInFlight));
  return run_some(kUpstreamRequests);
}

/// The same by hand: coroutines of Asio, a timer and an outcome for each call, a deadline for the request; nothing
/// keeps one upstream from the threads of another.
inline double upstream_by_hand() {
  namespace asio = boost::asio;
  asio::io_context context(2);
  std::atomic<int> next{0};
  std::atomic<int> good{0};
  const auto request_of = [](int request) -> asio::awaitable<bool> {
    const Time deadline = system_clock().now() + std::chrono::seconds(10);
    asio::steady_timer timer(co_await asio::this_coro::executor);
    std::vector<int> outcomes(kUpstreamCalls, -1);
    for (int call = 0; call < kUpstreamCalls; ++call) {
      timer.expires_after(upstream_latency(request, call));
      co_await timer.async_wait(asio::use_awaitable);
      if (system_clock().now() > deadline) co_return false;
      outcomes[static_cast<std::size_t>(call)] = 0;
    }
    co_return outcomes.back() == 0;
  };
  const auto run_some = [&](int requests) {
    const double before = cpu_us();
    next = 0;
    good = 0;
    context.restart();
    for (int i = 0; i < kUpstreamInFlight; ++i) {
      asio::co_spawn(
          context,
          [&]() -> asio::awaitable<void> {
            for (int request = next++; request < requests; request = next++) {
              if (co_await request_of(request)) ++good;
            }
          },
          asio::detached);
    }
    std::thread other([&] { context.run(); });
    context.run();
    other.join();
    if (good != requests) std::abort();
    return (cpu_us() - before) / requests;
  };
  static_cast<void>(run_some(kUpstreamInFlight));
  return run_some(kUpstreamRequests);
}

}  // namespace cohort::bench
