#include "admin/explain_task.h"

#include <gtest/gtest.h>

#include "chain/chain_world_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class ExplainTaskTest : public ChainWorldTest {
 protected:
  std::string explain(const std::string& id) {
    NodeControl control{
        .engine = *engine, .store = *store, .executor = world->executor, .state = state, .concurrency = 4};
    return explain_task(get(id), control, false, wall->now()).dump();
  }
  std::atomic<NodeState> state{NodeState::kRunning};
};

TEST_F(ExplainTaskTest, ASuspectThatIsNextIsNamedByThoseWhoWaitForIt) {
  add_async("deaf", [](StepContext& step) -> Task<PluginResult> {
    co_await sleep_for(step.attempt() <= 2 ? Duration(15s) : Duration(1s));
    co_return PluginResult::success();
  });
  start({.retry = {.backoff = 1s, .jitter = 0}});
  submit(chain("suspect", {{.plugin = "deaf", .timeout = 10s}}));
  submit(chain("long", {{.plugin = "sleep", .parameters = R"({"ms": 120000})"}}, "long"));
  advance(35s);
  ASSERT_EQ(engine->gate().suspects, std::vector<std::string>{"suspect"}) << explain("suspect");
  submit(chain("other", {{.plugin = "note"}}, "other"));
  advance(2s);
  const std::string said = explain("other");
  EXPECT_NE(
      said.find("the step of task 'suspect' ran when two nodes died and runs alone next, when the steps of 'long'"),
      std::string::npos)
      << said;
  advance(120s);
  EXPECT_EQ(get("other").state, ChainState::kCompleted);
}

TEST_F(ExplainTaskTest, TheGateAndItsHolderAreNamed) {
  add_async("deaf", [](StepContext& step) -> Task<PluginResult> {
    co_await sleep_for(step.attempt() <= 2 ? Duration(15s) : Duration(10min));
    co_return PluginResult::success();
  });
  start({.retry = {.backoff = 1s, .jitter = 0}});
  submit(chain("suspect", {{.plugin = "deaf", .timeout = 10s}}));
  advance(35s);
  ASSERT_EQ(engine->gate().alone, "suspect");
  submit(chain("other", {{.plugin = "note"}}, "other"));
  advance(5s);
  EXPECT_NE(explain("other").find("it waits for the gate: task 'suspect' holds it"), std::string::npos)
      << explain("other");
  advance(40s);
}

}  // namespace
}  // namespace cohort
