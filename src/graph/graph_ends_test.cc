// How nodes end that are not simply done: early defaults, cancelled runs, skipped nodes.

#include <optional>

#include "graph/graph_test_fixture.h"

namespace cohort {
namespace {

using GraphEndsTest = GraphTest;

// ---- a default that leaves time for others

class EarlyDefaultTest : public GraphTest {
 protected:
  // hangs -> second -> third; the first has a default.
  void make(Duration each) {
    first = slow("first", 1h);
    first->otherwise(7);
    const auto step = [each](const int& x) -> Task<int> {
      co_await sleep_for(each);
      co_return x + 1;
    };
    second = builder.node("second", step, *first);
    third = builder.node("third", step, *second).output();
    build({.timeout = 100ms, .node_timeout = 10s});
  }

  std::optional<GraphNode<Page, int>> first;
  std::optional<GraphNode<Page, int>> second;
  std::optional<GraphNode<Page, int>> third;
};

TEST_F(EarlyDefaultTest, AChainWhoseFirstNodeHangsGivesItsCallerTheRest) {
  make(10ms);
  for (int i = 0; i < 40; ++i) {
    const GraphRun run = graph->run({});
    ASSERT_TRUE(run.complete()) << i;
    EXPECT_EQ(run[*third], 9);
    EXPECT_EQ(run.outcome(*first), Outcome::kFallback);
    EXPECT_EQ(run.outcome(*third), Outcome::kOk);
    EXPECT_LE(run.duration(), 100ms);
    world.executor.run_until_idle();
  }
  // At first half of the time was kept for the rest; now what it takes, and a little more.
  const GraphRun run = graph->run({});
  EXPECT_GE(run.reports()[0].ran, 70ms);
}

// One in ten takes twenty times as long as the others. If only those counted that were not cut short, they would be
// given less and less.
TEST_F(EarlyDefaultTest, WhatWasCutShortCountsAsLong) {
  first = slow("first", 1h);
  first->otherwise(7);
  int runs = 0;
  second = builder
               .node(
                   "second",
                   [&runs](const int& x) -> Task<int> {
                     const bool is_slow = ++runs % 10 == 0;
                     co_await sleep_for(is_slow ? Duration(200ms) : Duration(10ms));
                     co_return x + 1;
                   },
                   *first)
               .output();
  build({.timeout = 500ms, .node_timeout = 10s});
  int incomplete = 0;
  for (int i = 0; i < 6000; ++i) {
    if (!graph->run({}).complete()) ++incomplete;
    world.executor.run_until_idle();
  }
  EXPECT_LE(incomplete, 60);
}

TEST_F(EarlyDefaultTest, AttemptsAndTheWaitsBetweenThemCount) {
  first = slow("first", 1h);
  first->otherwise(7);
  int tries = 0;
  second = builder
               .node(
                   "second",
                   [&tries](const int& x) -> Task<Result<int>> {
                     co_await sleep_for(10ms);
                     if (++tries % 2 == 1) co_return Error{ErrorCode::kUnavailable, "the first try fails"};
                     co_return x + 1;
                   },
                   *first)
               .retry({.max_retries = 1, .backoff = 100ms, .jitter = 0})
               .output();
  build({.timeout = 500ms, .node_timeout = 10s});
  int incomplete = 0;
  for (int i = 0; i < 100; ++i) {
    if (!graph->run({}).complete()) ++incomplete;
    world.executor.run_until_idle();
  }
  EXPECT_EQ(incomplete, 0);
}

TEST_F(EarlyDefaultTest, AtMostHalfOfTheTimeIsKept) {
  make(40ms);
  for (int i = 0; i < 20; ++i) {
    const GraphRun run = graph->run({});
    EXPECT_EQ(run.reports()[0].ran, 50ms);
    EXPECT_FALSE(run.complete()) << "80 ms do not fit";
    world.executor.run_until_idle();
  }
}

TEST_F(GraphEndsTest, ARequiredNodeIsNotCutShort) {
  auto first = slow("first", 90ms);
  auto second = builder
                    .node(
                        "second", [](const int& x) { return x; }, first)
                    .output();
  build({.timeout = 100ms, .node_timeout = 10s});
  for (int i = 0; i < 5; ++i) {
    const GraphRun run = graph->run({});
    EXPECT_EQ(run.outcome(first), Outcome::kOk);
    EXPECT_TRUE(run.complete());
  }
  static_cast<void>(second);
}

TEST_F(GraphEndsTest, ATimeOutOfItsOwnIsKept) {
  auto first = slow("first", 1h).timeout(80ms).otherwise(1);
  auto second = builder
                    .node(
                        "second", [](const int& x) { return x; }, first)
                    .output();
  build({.timeout = 100ms});
  EXPECT_EQ(graph->run({}).reports()[0].ran, 80ms);
  static_cast<void>(second);
}

TEST_F(GraphEndsTest, ADefaultThatNobodyNeedsMayTakeAllTheTime) {
  auto only = slow("only", 1h).otherwise(1).output();
  build({.timeout = 100ms, .node_timeout = 10s});
  const GraphRun run = graph->run({});
  EXPECT_EQ(run.duration(), 100ms);
  EXPECT_EQ(run[only], 1);
}

// ---- cancelled runs

TEST_F(GraphEndsTest, ACancelledRunSaysSoOfEveryNodeAndCallsNoFallback) {
  int fallbacks = 0;
  const auto fallback = [&] {
    ++fallbacks;
    return 0;
  };
  auto running = slow("running", 1h).timeout(1h).otherwise(fallback);
  auto waiting = builder
                     .node(
                         "waiting", [](const int& x) { return x; }, running)
                     .otherwise(fallback);
  auto beside = builder.node(
      "beside", [](const int* x) { return x == nullptr ? 0 : *x; }, optional(running));
  beside.otherwise(fallback).output();
  auto far = builder
                 .node(
                     "far", [](const int& x) { return x; }, waiting)
                 .otherwise(fallback)
                 .output();
  build({.timeout = 2h});
  const TaskHandle<GraphRun> handle = graph->start({});
  world.executor.run_until_idle(10ms);
  handle.cancel();
  const GraphRun run = *handle.await().value;
  for (const NodeReport& report : run.reports()) {
    EXPECT_EQ(report.outcome, Outcome::kCancelled) << report.name << ": " << report.error.message;
    EXPECT_EQ(report.error.code, ErrorCode::kCancelled) << report.name;
  }
  EXPECT_EQ(fallbacks, 0);
  EXPECT_FALSE(run.complete());
  world.executor.run_until_idle();
  static_cast<void>(far);
}

TEST_F(GraphEndsTest, NoAttemptBeginsAfterACancel) {
  int attempts = 0;
  auto node = builder.node("node", [&]() -> Result<int> {
    ++attempts;
    return Error{ErrorCode::kUnavailable, "no"};
  });
  node.retry({.max_retries = 100, .backoff = 10ms, .multiplier = 1, .jitter = 0}).timeout(1h).output();
  build({.timeout = 1h});
  const TaskHandle<GraphRun> handle = graph->start({});
  world.executor.run_until_idle(25ms);
  handle.cancel();
  EXPECT_EQ(handle.await().value->outcome(node), Outcome::kCancelled);
  const int before = attempts;
  world.executor.run_until_idle();
  EXPECT_EQ(attempts, before);
}

// ---- skipped nodes

TEST_F(GraphEndsTest, ASkippedNodeWithADefaultSaysSo) {
  auto skipped = builder.node("skipped", [] { return 1; });
  skipped.when([](const RunView<Page>&) { return false; }).otherwise(5).output();
  auto bare = builder.node("bare", [] { return 1; });
  bare.when([](const RunView<Page>&) { return false; }).output();
  const GraphRun run = build().run({});
  EXPECT_EQ(run.outcome(skipped), Outcome::kSkipped);
  EXPECT_TRUE(run.is_fallback(skipped));
  EXPECT_EQ(run[skipped], 5);
  EXPECT_TRUE(run.reports()[0].is_fallback);
  EXPECT_EQ(run.reports()[0].error.message, "its condition said no; its default stands in");
  EXPECT_FALSE(run.is_fallback(bare));
  EXPECT_EQ(run.error(bare)->message, "its condition said no");
}

}  // namespace
}  // namespace cohort
