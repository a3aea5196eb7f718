// Graphs on real threads: cancelled, out of time, all at once.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "cohort/base/random.h"
#include "cohort/graph/graph.h"
#include "cohort/group/group_executor.h"
#include "cohort/task/sleep.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

int identity(int x) { return x; }
int add(const int& x, const int& y) { return x + y; }

struct Five {
  explicit Five(Executor& executor, GraphOptions options = {}) : graph(make(executor, std::move(options))) {}
  Graph<int> make(Executor& executor, GraphOptions options) {
    return std::move(*builder.build(executor, std::move(options)));
  }

  GraphBuilder<int> builder;
  GraphNode<int, int> a = builder.node("a", identity).concurrency(4);
  GraphNode<int, int> b = builder.node("b", identity).concurrency(4);
  GraphNode<int, int> c = builder.node("c", add, a, b).concurrency(4);
  GraphNode<int, int> d = builder
                              .node(
                                  "d", [](const int& x) { return x; }, b)
                              .concurrency(4);
  GraphNode<int, int> e = builder.node("e", add, c, d).concurrency(4).output();
  Graph<int> graph;
};

TEST(GraphStressTest, SeveralThreadsRunTheSameGraph) {
  GroupExecutor executor({.threads = 2});
  Five five(executor);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int request = i * 10 + t;
        if (i % 3 == 0) {
          const auto handle = five.graph.start(request);
          if ((*handle.await().value)[five.e] != 3 * request) ++wrong;
        } else if (five.graph.run(request)[five.e] != 3 * request) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(five.graph.stats().runs, 6000U);
  EXPECT_EQ(five.graph.stats().complete, 6000U);
  EXPECT_TRUE(executor.shutdown(1min).ok());
  EXPECT_EQ(executor.stats().running, 0U);
}

// Runs a graph of three nodes, one after another; the first does something to the last one's group.
template <class Act>
Outcome outcome_after(Act act) {
  GroupExecutor executor({.threads = 2});
  std::atomic<bool> acts{false};
  GraphBuilder<int> builder;
  auto a = builder.node("a", [&](int x) {
    if (acts) act(executor);
    return x;
  });
  auto b = builder.node(
      "b", [](const int& x) { return x; }, a);
  auto c = builder
               .node(
                   "c", [](const int& x) { return x; }, b)
               .output();
  auto graph = std::move(*builder.build(executor, {.timeout = 300ms, .node_timeout = 300ms}));
  for (int i = 0; i < 300; ++i) static_cast<void>(graph.run(i));
  acts = true;
  return graph.run(1).outcome(c);
}

TEST(GraphStressTest, WhatIsDoneToAGroupMeanwhileDoesNotHoldARunUp) {
  const Outcome shut = outcome_after([](Executor& executor) { static_cast<void>(executor.shutdown_group("c")); });
  EXPECT_NE(shut, Outcome::kFailed) << "it ended, that is all";
  EXPECT_EQ(outcome_after([](Executor& executor) { static_cast<void>(executor.pause_group("c")); }),
            Outcome::kTimedOut);
  const Outcome ended = outcome_after([](Executor& executor) {
    std::thread other([&] { static_cast<void>(executor.shutdown(0ms)); });
    other.join();
  });
  EXPECT_NE(ended, Outcome::kSkipped);
}

TEST(GraphStressTest, EverythingAtOnce) {
  GroupExecutor executor({.threads = 2});
  GraphBuilder<int> builder;
  auto a = builder.node("a", [](int x) -> Result<int> {
    if (x % 11 == 0) return Error{ErrorCode::kUnavailable, "no"};
    return x;
  });
  a.retry({.max_retries = 1, .backoff = 10us, .max_backoff = 1ms}).concurrency(2);
  auto b = builder.node("b", [](NodeContext& context, int x) -> Task<int> {
    if (x % 7 == 0) co_await sleep_for(context.attempt * 300us);
    co_return x;
  });
  b.concurrency(3);
  auto c = builder.node("c", add, a, b).concurrency(2);
  auto d = builder.node(
      "d", [](const int& x, const int* y) { return x + (y == nullptr ? 0 : *y); }, b, optional(c));
  d.timeout(200us).otherwise(-1).concurrency(2).output();
  auto e = builder
               .node(
                   "e",
                   [](const int& x) {
                     if (x % 13 == 0) throw std::runtime_error("unlucky");
                     if (x % 5 == 0) std::this_thread::sleep_for(400us);
                     return x;
                   },
                   b)
               .timeout(300us)
               .concurrency(2)
               .output();
  auto f = builder
               .node(
                   "f", [](const int*, const int*) { return 1; }, optional(e), optional(c))
               .output();
  auto graph = std::make_unique<Graph<int>>(std::move(*builder.build(executor, {.timeout = 5ms, .concurrency = 8})));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> runs{0};
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Random random(t + 1);
      for (int i = 0; i < 300; ++i) {
        const auto handle = graph->start(static_cast<int>(random.below(1000)));
        if (random.chance(0.3)) handle.cancel();
        const TaskResult<GraphRun> result = handle.await();
        ++runs;
        for (const NodeReport& report : result.value->reports()) {
          const bool fine = report.outcome == Outcome::kOk || !report.error.message.empty();
          if (!fine || report.queued < Duration::zero() || report.ran < Duration::zero()) ++wrong;
        }
        if (result.value->outcome(f) == Outcome::kOk && (*result.value)[f] != 1) ++wrong;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(graph->stats().runs, runs.load());
  graph.reset();
  EXPECT_TRUE(executor.shutdown(1min).ok());
  EXPECT_EQ(executor.stats().running, 0U);
  EXPECT_EQ(executor.stats().waiting, 0U);
}

TEST(GraphStressTest, RunsEndWithTheirExecutor) {
  for (int round = 0; round < 20; ++round) {
    std::vector<TaskHandle<GraphRun>> handles;
    {
      GroupExecutor executor({.threads = 2});
      GraphBuilder<int> builder;
      auto a = builder.node("a", [](int) -> Task<int> {
        co_await sleep_for(2ms);
        co_return 1;
      });
      auto b = builder.node(
          "b",
          [](const int&) -> Result<int> {
            return Error{ErrorCode::kUnavailable, "no"};
          },
          a);
      b.retry({.max_retries = 1000, .backoff = 5ms, .max_backoff = 5ms}).timeout(1min).output();
      auto graph = std::move(*builder.build(executor, {.timeout = 1min}));
      for (int i = 0; i < 5; ++i) handles.push_back(graph.start(i));
      std::this_thread::sleep_for(round * 300us);
    }
    for (const auto& handle : handles) EXPECT_TRUE(handle.is_done());
  }
}

}  // namespace
}  // namespace cohort
