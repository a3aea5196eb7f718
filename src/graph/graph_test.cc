#include "cohort/graph/graph.h"

#include <gtest/gtest.h>

#include "cohort/testing/manual_executor.h"
#include "cohort/testing/virtual_clock.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST(GraphTest, RunsNodesWhenTheirInputsHaveEnded) {
  VirtualClock clock;
  ManualExecutor executor(clock, {});
  GraphBuilder<int> builder;
  auto a = builder.node("a", [](int request) { return request + 1; });
  auto b = builder.node(
      "b", [](const int& x) { return x * 2; }, a);
  auto c = builder
               .node(
                   "c", [](const int& x, const int& y) { return std::to_string(x) + "," + std::to_string(y); }, a, b)
               .output();
  auto graph = builder.build(executor);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const GraphRun run = graph->run(1);
  EXPECT_TRUE(run.complete());
  EXPECT_EQ(run[c], "2,4");
  EXPECT_EQ(run.outcome(b), Outcome::kOk);
}

}  // namespace
}  // namespace cohort
