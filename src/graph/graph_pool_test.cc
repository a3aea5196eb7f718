// Nodes that call a pool of providers.

#include <algorithm>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "graph/graph_test_fixture.h"

namespace cohort {
namespace {

using GraphPoolTest = GraphTest;

TEST_F(GraphPoolTest, APoolFailsOver) {
  auto pool = std::move(*Router::make({{.name = "east"}, {.name = "west"}}, {.clock = &world.clock, .seed = 1}));
  std::vector<std::string> asked;
  auto plain = builder.node("plain", [&](NodeContext& context) -> std::variant<std::string, Failure> {
    asked.emplace_back(context.provider->provider);
    if (context.provider->provider == "east")
      return Failure{FailureType::kConnect, {ErrorCode::kUnavailable, "refused"}};
    return std::string(context.provider->provider);
  });
  plain.through(*pool).output();
  auto coroutine = builder.node("coroutine", [&](NodeContext& context) -> Task<Result<std::string>> {
    const std::string provider(context.provider->provider);
    co_await sleep_for(1ms);
    if (provider == "east") co_return Error{ErrorCode::kUnavailable, "refused"};
    co_return provider;
  });
  coroutine.through(*pool).output();
  build();
  for (int i = 0; i < 10; ++i) {
    const GraphRun run = graph->run({});
    EXPECT_EQ(run[plain], "west");
    EXPECT_EQ(run[coroutine], "west");
  }
  EXPECT_NE(std::ranges::find(asked, "east"), asked.end());
}

TEST_F(GraphPoolTest, EachTryOfAPoolHasATimeOfItsOwn) {
  auto pool = std::move(*Router::make({{.name = "a"}, {.name = "b"}},
                                      {.timeout = 40ms, .total_budget = 3, .clock = &world.clock, .seed = 1}));
  std::vector<Duration> left;
  auto node = builder.node("node", [&](NodeContext& context) -> Task<Result<int>> {
    left.push_back(context.deadline - world.clock.now());
    co_await sleep_for(40ms);
    co_return Error{ErrorCode::kTimedOut, "no answer"};
  });
  node.through(*pool).timeout(60ms).output();
  const GraphRun run = build().run({});
  EXPECT_EQ(left, (std::vector<Duration>{40ms, 20ms})) << "what the try has, and at most what the node has left";
  EXPECT_EQ(run.outcome(node), Outcome::kTimedOut);
  world.executor.run_until_idle();
}

TEST_F(GraphPoolTest, AHungProviderIsFoundThoughTheNodeGivesUpFirst) {
  auto pool = Router::make({{.name = "hung"}}, {.timeout = 10s, .clock = &world.clock, .seed = 1}).value();
  auto node = builder.node("node", [&](NodeContext& context) -> Task<Result<int>> {
    while (!context.stop.stop_requested()) co_await sleep_for(1ms);
    co_return Error{ErrorCode::kCancelled, "its client was stopped"};
  });
  node.through(*pool).timeout(50ms).output();
  build();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(pool->provider(0).breaker().state(), BreakerState::kClosed) << i;
    EXPECT_EQ(graph->run({}).outcome(node), Outcome::kTimedOut);
    world.executor.run_until_idle();
  }
  EXPECT_EQ(pool->provider(0).breaker().state(), BreakerState::kOpen);
}

TEST_F(GraphPoolTest, ACancelledRunIsChargedToNobody) {
  auto pool = Router::make({{.name = "a"}, {.name = "b"}}, {.timeout = 10s, .clock = &world.clock, .seed = 1}).value();
  int tries = 0;
  auto node = builder.node("node", [&](NodeContext& context) -> Task<Result<int>> {
    ++tries;
    while (!context.stop.stop_requested()) co_await sleep_for(1ms);
    co_return Error{ErrorCode::kCancelled, "its client was stopped"};
  });
  node.through(*pool).timeout(1s).retries(3).output();
  build();
  for (int i = 0; i < 20; ++i) {
    const TaskHandle<GraphRun> run = graph->start({});
    world.executor.run_until_idle(10ms);
    run.cancel();
    EXPECT_EQ(run.await().value->outcome(node), Outcome::kCancelled);
    world.executor.run_until_idle();
  }
  EXPECT_EQ(tries, 20) << "no further try begins";
  for (const ProviderStats& stats : pool->stats()) {
    EXPECT_EQ(stats.cut_off, 0U);
    EXPECT_EQ(stats.breaker.window.calls, 0U);
  }
}

TEST_F(GraphPoolTest, ARetryOfTheNodeIsNoNewRequestToTheBudget) {
  auto pool =
      Router::make({{.name = "a"}}, {.retries = {.ratio = 1, .floor_per_second = 0}, .clock = &world.clock, .seed = 1})
          .value();
  int tries = 0;
  auto node = builder.node("node", [&](NodeContext&) -> Result<int> {
    ++tries;
    return Error{ErrorCode::kUnavailable, "refused"};
  });
  node.through(*pool).retry({.max_retries = 3, .backoff = 1ms, .jitter = 0}).output();
  build();
  static_cast<void>(graph->run({}));
  EXPECT_EQ(tries, 2) << "one request, and so one retry";
}

}  // namespace
}  // namespace cohort
