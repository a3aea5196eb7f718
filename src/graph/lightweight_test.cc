// Nodes that run where their last input ended.

#include <stdexcept>
#include <string>

#include "graph/graph_test_fixture.h"

namespace cohort {
namespace {

using LightweightTest = GraphTest;

TEST_F(LightweightTest, TheyTakePermitsOfTheirGroup) {
  std::uint32_t running = 0;
  auto node = builder
                  .node("node",
                        [&] {
                          running = world.executor.group_stats("node")->running;
                          return 1;
                        })
                  .lightweight()
                  .concurrency(1)
                  .output();
  build();
  EXPECT_EQ(graph->run({})[node], 1);
  EXPECT_EQ(running, 1U);
  EXPECT_EQ(world.executor.group_stats("node")->running, 0U);
  EXPECT_EQ(world.executor.group_stats("node")->counters.started, 1U);
}

TEST_F(LightweightTest, WithoutAFreePermitTheyQueue) {
  auto node = builder.node("node", [] { return 1; }).lightweight().concurrency(1).timeout(1s).output();
  build();
  const auto blocker = world.executor.submit("node", "blocker", []() -> Task<> { co_await sleep_for(30ms); });
  world.executor.run();
  const TaskHandle<GraphRun> run = graph->start({});
  EXPECT_FALSE(run.is_done());
  EXPECT_EQ(world.executor.group_stats("node")->waiting, 1U);
  EXPECT_EQ((*run.await().value)[node], 1);
  EXPECT_EQ(run.await().value->duration(), 30ms);
  static_cast<void>(blocker.await());
}

TEST_F(LightweightTest, APausedGroupKeepsThem) {
  auto node = builder.node("node", [] { return 1; }).lightweight().timeout(20ms).output();
  build();
  ASSERT_TRUE(world.executor.pause_group("node"));
  EXPECT_EQ(graph->run({}).outcome(node), Outcome::kTimedOut);
  ASSERT_TRUE(world.executor.resume_group("node"));
  EXPECT_EQ(graph->run({})[node], 1);
}

TEST_F(LightweightTest, TheyFailRetryAndFallBackLikeOthers) {
  int tries = 0;
  auto flaky = builder
                   .node("flaky",
                         [&]() -> Result<int> {
                           if (++tries < 3) return Error{ErrorCode::kUnavailable, "not yet"};
                           return 7;
                         })
                   .lightweight()
                   .retry({.max_retries = 5, .backoff = 1ms, .jitter = 0})
                   .output();
  auto fails = builder.node("fails", []() -> int { throw std::runtime_error("no"); }).lightweight().otherwise(3);
  auto sum = builder
                 .node(
                     "sum", [](const int& a, const int& b) { return a + b; }, flaky, fails)
                 .lightweight()
                 .output();
  const GraphRun run = build().run({});
  EXPECT_EQ(run[sum], 10);
  EXPECT_EQ(run.reports()[0].attempts, 3U);
  EXPECT_EQ(run.outcome(fails), Outcome::kFallback);
}

TEST_F(LightweightTest, TheirTimeOutIsLookedAtWhenTheyReturn) {
  auto node = builder
                  .node("node",
                        [&] {
                          world.clock.advance(50ms);
                          return 1;
                        })
                  .lightweight()
                  .timeout(20ms)
                  .output();
  const GraphRun run = build().run({});
  EXPECT_EQ(run.outcome(node), Outcome::kTimedOut);
  EXPECT_EQ(run.find(node), nullptr);
}

TEST_F(LightweightTest, TheyRunInTasksToo) {
  auto a = builder.node("a", [](const Page& page) { return page.id; }).lightweight();
  auto b = builder
               .node(
                   "b", [](const int& x) { return 2 * x; }, a)
               .lightweight()
               .output();
  build();
  const auto task = world.executor.submit("g", "t", [&] { return graph->run({21})[b]; });
  EXPECT_EQ(task.await().value, 42);
}

TEST_F(LightweightTest, CoroutinesAndCallsOfPoolsAreNot) {
  auto coroutine = builder.node("coroutine", []() -> Task<int> { co_return 1; }).lightweight().output();
  EXPECT_NE(refusal().find("'coroutine'"), std::string::npos);
  const auto pool = Router::make({{.name = "a"}}).value();
  auto calls = builder.node("calls", [] { return 1; }).lightweight().through(*pool).output();
  EXPECT_NE(refusal().find("'calls'"), std::string::npos);
  static_cast<void>(coroutine);
  static_cast<void>(calls);
}

}  // namespace
}  // namespace cohort
