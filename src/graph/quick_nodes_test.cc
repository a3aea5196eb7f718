// Nodes that have been found quick run as a series where the run is asked for. What becomes of that when one of them is
// not quick any more, or something is done to a group meanwhile.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/graph/graph.h"
#include "cohort/task/internal/series_record.h"
#include "cohort/task/sleep.h"
#include "cohort/testing/world.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

bool in_series() { return internal::current_task() != nullptr && internal::current_task()->series; }

class QuickNodesTest : public ::testing::Test {
 protected:
  void make(GroupExecutorOptions options = {}) { world = std::make_unique<World>(std::move(options)); }

  // A node that does nothing at first, and later what `then` says.
  template <class... Inputs>
  auto quick(const std::string& name, std::function<void()> then, Inputs... inputs) {
    return builder.node(
        name,
        [this, name, then = std::move(then)](const int&, const auto&...) {
          if (!warm) return 1;
          ran.push_back(name);
          if (then) then();
          return 1;
        },
        inputs...);
  }
  void build(GraphOptions options = {}) {
    auto built = builder.build(world->executor, std::move(options));
    ASSERT_TRUE(built.ok()) << built.error().message;
    graph = std::make_unique<Graph<int>>(std::move(*built));
    for (int i = 0; i < 60; ++i) static_cast<void>(graph->run(1));
    warm = true;
  }
  GraphRun run() { return graph->run(1); }
  ManualExecutor& executor() { return world->executor; }

  void TearDown() override {
    graph.reset();
    EXPECT_EQ(world->leaks(), "");
  }

  std::unique_ptr<World> world;
  GraphBuilder<int> builder;
  std::unique_ptr<Graph<int>> graph;
  bool warm = false;
  std::vector<std::string> ran;
};

using Names = std::vector<std::string>;

TEST_F(QuickNodesTest, AreASeriesWithThePermitsOfAll) {
  make();
  auto a = quick("a", [&] {
    EXPECT_TRUE(in_series());
    for (const char* group : {"a", "b"}) EXPECT_EQ(executor().group_stats(group)->running, 1U);
  });
  auto b = quick(
               "b", [&] { EXPECT_TRUE(in_series()); }, a)
               .output();
  build();
  const TaskHandle<GraphRun> handle = graph->start(1);
  EXPECT_TRUE(handle.is_done());
  EXPECT_EQ(ran, (Names{"a", "b"}));
  for (const char* group : {"a", "b"}) {
    EXPECT_EQ(executor().group_stats(group)->running, 0U);
    EXPECT_EQ(executor().group_stats(group)->counters.started, 61U);
    EXPECT_EQ(executor().group_stats(group)->counters.settled_total(), 61U);
  }
  static_cast<void>(b);
}

TEST_F(QuickNodesTest, WhatWasTakenBackGoesFirstHoweverFullItsQueueIs) {
  GroupExecutorOptions options;
  options.groups["b"] = {.max_waiting = 2};
  make(std::move(options));
  Names order;
  quick("a", [&] {
    for (int i = 0; i < 2; ++i) static_cast<void>(executor().submit("b", "x", [&] { order.emplace_back("x"); }));
    executor().spend(10ms);
  }).output();
  quick("b",
        [&] {
          EXPECT_FALSE(in_series());
          order.emplace_back("b");
        })
      .concurrency(1)
      .output();
  build();
  EXPECT_TRUE(run().complete());
  executor().run_until_idle();
  EXPECT_EQ(order, (Names{"b", "x", "x"}));
}

TEST_F(QuickNodesTest, NobodyWaitsAtADoorForWhatWasTakenBack) {
  GroupExecutorOptions options;
  options.groups["b"] = {.max_waiting = 1, .overflow = OverflowPolicy::kBlock};
  make(std::move(options));
  quick("a", [&] {
    static_cast<void>(executor().submit("b", "x", [] {}));
    executor().spend(10ms);
  }).output();
  quick("b", {}).concurrency(1).output();
  build();
  const GraphRun ended = run();
  EXPECT_TRUE(ended.complete());
  EXPECT_EQ(ended.duration(), 10ms);
}

TEST_F(QuickNodesTest, AShutdownLetsThemFinish) {
  make();
  auto a = quick("a", [&] { executor().spend(10ms); });
  quick("b", {}, a).output();
  build();
  const TaskHandle<GraphRun> handle = graph->start(1);
  EXPECT_TRUE(executor().shutdown(1s).ok());
  ASSERT_TRUE(handle.is_done());
  EXPECT_TRUE(handle.await().value->complete());
}

TEST_F(QuickNodesTest, ABodyMayDrainTheGroupOfALaterOne) {
  make();
  Result<void> drained = Error{};
  auto a = quick("a", [&] { drained = executor().drain_group("b", 1s); });
  quick("b", {}, a).output();
  quick("c", {}).output();
  build();
  EXPECT_TRUE(run().complete());
  EXPECT_TRUE(drained.ok()) << drained.error().message;
}

TEST_F(QuickNodesTest, ATokenKeptByOneDoesNotTellOfAnother) {
  make();
  std::stop_token of_a;
  std::stop_token of_b;
  auto a = builder.node("a", [&](NodeContext& context, const int&) {
    of_a = context.stop;
    return 1;
  });
  auto b = builder
               .node(
                   "b",
                   [&](NodeContext& context, const int&) {
                     of_b = context.stop;
                     if (warm) static_cast<void>(executor().shutdown_group("b"));
                     return in_series() ? 1 : 0;
                   },
                   a)
               .output();
  build();
  EXPECT_EQ(run()[b], 1);
  EXPECT_TRUE(of_b.stop_requested());
  EXPECT_FALSE(of_a.stop_requested());
}

// ---- one alone, because another of its graph is not quick

TEST_F(QuickNodesTest, OneAloneMayHaveACondition) {
  make();
  auto slow = builder.node("slow", [](const int&) -> Task<int> {
    co_await sleep_for(1ms);
    co_return 1;
  });
  auto a = quick("a", {}).when([&](const RunView<int>&) { return !warm; });
  auto b = builder
               .node(
                   "b", [](const int&, const int* value) { return value == nullptr ? 0 : *value; }, slow, optional(a))
               .output();
  build();
  const auto started = executor().group_stats("a")->counters.started;
  const GraphRun ended = run();
  EXPECT_EQ(ended.outcome(a), Outcome::kSkipped);
  EXPECT_EQ(ended[b], 0);
  EXPECT_EQ(executor().group_stats("a")->counters.started, started) << "it was never a task";
}

TEST_F(QuickNodesTest, OneAloneIsAskedToStopWhenNobodyNeedsIt) {
  make();
  Duration stopped_after{0};
  auto a = builder.node("a", [&](NodeContext& context, const int&) {
    EXPECT_TRUE(!warm || in_series());
    const Time begun = world->clock.now();
    while (warm && !context.stop.stop_requested() && world->clock.now() - begun < 1s) executor().spend(1ms);
    stopped_after = world->clock.now() - begun;
    return 1;
  });
  auto broken = builder.node("broken", [&](const int&) -> Task<Result<int>> {
    co_await sleep_for(9500us);
    if (warm) co_return Error{ErrorCode::kInvalid, "no"};
    co_return 1;
  });
  auto c = builder
               .node(
                   "c", [](const int&, const int&) { return 1; }, a, broken)
               .output();
  build();
  EXPECT_EQ(run().outcome(c), Outcome::kUpstreamFailed);
  executor().run_until_idle();
  EXPECT_EQ(stopped_after, 10ms);
}

TEST_F(QuickNodesTest, OneAloneThatNobodyNeedsAnyMoreDoesNotBegin) {
  make();
  auto broken = builder.node("broken", [&](const int&) -> Task<Result<int>> {
    co_await sleep_for(10ms);
    if (warm) co_return Error{ErrorCode::kInvalid, "no"};
    co_return 1;
  });
  auto a = quick("a", {}).when([&](const RunView<int>&) {
    if (warm) executor().advance(20ms);  // Meanwhile the other one fails.
    return true;
  });
  auto c = builder
               .node(
                   "c", [](const int&, const int&) { return 1; }, a, broken)
               .output();
  build();
  const GraphRun ended = run();
  EXPECT_EQ(ended.outcome(c), Outcome::kUpstreamFailed);
  EXPECT_EQ(ended.outcome(a), Outcome::kCancelled);
  EXPECT_EQ(ran, Names{});
}

}  // namespace
}  // namespace cohort
