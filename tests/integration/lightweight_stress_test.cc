// Lightweight nodes, and bodies past their time-out, on real threads.

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "cohort/graph/graph.h"
#include "cohort/group/group_executor.h"
#include "cohort/provider/router.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST(LightweightStressTest, RootsRunOnTheCallersThreadAndOthersWhereTheirLastInputEnded) {
  GroupExecutor executor({.threads = 2});
  GraphBuilder<int> builder;
  const auto where = [](auto...) { return std::this_thread::get_id(); };
  auto root = builder.node("root", [&](int) { return where(); }).lightweight().output();
  auto after = builder
                   .node(
                       "after", [&](const std::thread::id&) { return where(); }, root)
                   .lightweight()
                   .output();
  auto worker = builder.node("worker", [&](int) { return where(); }).output();
  auto behind = builder
                    .node(
                        "behind", [&](const std::thread::id&) { return where(); }, worker)
                    .lightweight()
                    .output();
  auto graph = std::move(*builder.build(executor));
  for (int i = 0; i < 50; ++i) {
    const GraphRun run = graph.run(i);
    EXPECT_EQ(run[root], std::this_thread::get_id());
    EXPECT_EQ(run[after], std::this_thread::get_id());
    EXPECT_NE(run[worker], std::this_thread::get_id());
    EXPECT_EQ(run[behind], run[worker]);
  }
}

TEST(LightweightStressTest, ALongChainOfThemIsALoop) {
  GroupExecutor executor({.threads = 1});
  GraphBuilder<int> builder;
  auto last = builder.node("n0", [](int x) { return x; }).lightweight();
  for (int i = 1; i < 9000; ++i) {
    last = builder
               .node(
                   "n" + std::to_string(i), [](const int& x) { return x + 1; }, last)
               .lightweight();
  }
  last.output();
  auto graph = std::move(*builder.build(executor, {.timeout = 1h, .node_timeout = 1h}));
  EXPECT_EQ(graph.run(1)[last], 9000);
}

TEST(LightweightStressTest, ASlowNodeBesideThemDoesNotHoldTheRunUp) {
  std::latch end(1);
  GroupExecutor executor({.threads = 2});  // It waits for its bodies, which use the latch.
  GraphBuilder<int> builder;
  auto quick = builder.node("quick", [](int x) { return x; }).lightweight();
  auto slow = builder.node("slow", [&](int) {
    end.wait();
    return 1;
  });
  auto both = builder
                  .node(
                      "both", [](const int& x, const int* y) { return x + (y ? *y : 0); }, quick, optional(slow))
                  .lightweight();
  slow.timeout(5ms);
  both.output();
  auto graph = std::move(*builder.build(executor, {.timeout = std::chrono::minutes(10)}));
  const GraphRun run = graph.run(3);
  EXPECT_EQ(run[both], 3);
  EXPECT_EQ(run.outcome(slow), Outcome::kTimedOut);
  end.count_down();
}

// A pause that comes between the taking of its permit and its start: it queues, and its time-out is kept.
TEST(LightweightStressTest, PausesAtAnyMomentAreKept) {
  GroupExecutor executor({.threads = 2});
  GraphBuilder<int> builder;
  auto a = builder.node("a", [](int x) { return x; }).lightweight().timeout(5ms).otherwise(-1);
  auto b = builder
               .node(
                   "b", [](const int& x) { return x; }, a)
               .lightweight()
               .output();
  auto graph = std::move(*builder.build(executor, {.timeout = std::chrono::minutes(10)}));
  std::atomic<bool> stop{false};
  std::thread pauser([&] {
    while (!stop) {
      static_cast<void>(executor.pause_group("a"));
      std::this_thread::yield();
      static_cast<void>(executor.resume_group("a"));
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 2000; ++i) {
    const GraphRun run = graph.run(i);
    EXPECT_TRUE(run[b] == i || run[b] == -1);
  }
  stop = true;
  pauser.join();
  static_cast<void>(executor.shutdown(std::chrono::minutes(10)));
  EXPECT_EQ(executor.group_stats("a")->running, 0U);
}

TEST(LightweightStressTest, ManyRunsAtOnce) {
  GroupExecutor executor({.threads = 2});
  GraphBuilder<int> builder;
  auto a = builder.node("a", [](int x) { return x; }).lightweight().concurrency(1);
  auto b = builder.node("b", [](int x) { return x; }).concurrency(1);
  auto c = builder
               .node(
                   "c", [](const int& x, const int& y) { return x + y; }, a, b)
               .lightweight()
               .concurrency(2);
  auto d = builder
               .node(
                   "d", [](const int& x) { return x; }, c)
               .concurrency(1);
  auto e = builder
               .node(
                   "e", [](const int& x, const int& y) { return x + y; }, c, d)
               .lightweight()
               .output();
  auto graph = std::move(
      *builder.build(executor, {.timeout = std::chrono::minutes(10), .node_timeout = std::chrono::minutes(10)}));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const GraphRun run = graph.run(i);
        if (run.find(e) == nullptr || run[e] != 4 * i) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  static_cast<void>(executor.shutdown(std::chrono::minutes(10)));
  for (const char* group : {"a", "b", "c", "d", "e"}) EXPECT_EQ(executor.group_stats(group)->running, 0U);
}

// The body is past its time-out, and the graph and its pool have gone: what it calls is there all the same.
TEST(GraphPoolStressTest, ABodyThatOutlivesItsTimeOutFindsItsPool) {
  std::latch go_on(1);
  GroupExecutor executor;
  {
    auto pool = Router::make({{.name = "a"}, {.name = "b"}}).value();
    GraphBuilder<int> builder;
    auto node = builder.node("node", [&](NodeContext& context) -> Result<int> {
      go_on.wait();
      return Error{ErrorCode::kUnavailable, std::string(context.provider->provider) + " refused"};
    });
    node.through(*pool).timeout(1ms).output();
    auto graph = std::move(*builder.build(executor));
    EXPECT_EQ(graph.run(1).outcome(node), Outcome::kTimedOut);
  }
  go_on.count_down();
  static_cast<void>(executor.shutdown(std::chrono::minutes(10)));
}

}  // namespace
}  // namespace cohort
