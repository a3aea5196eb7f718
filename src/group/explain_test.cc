// explain() names what binds, in each case that can bind. Overrunning bodies: time_out_test.cc; parked tasks:
// nested_work_test.cc; the door of a full queue: scheduler_test.cc.

#include <string>
#include <vector>

#include "cohort/task/sleep.h"
#include "testing/world_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class ExplainTest : public WorldTest {
 protected:
  TaskHandle<void> submit(const std::string& group, const std::string& id) {
    return executor().submit(group, id, [this] { executor().spend(10ms); });
  }

  void expect(const TaskHandle<void>& handle, Bound bound, const std::string& text) {
    const Explanation why = executor().explain(handle);
    EXPECT_EQ(why.bound, bound) << to_string(why.bound);
    EXPECT_EQ(why.text, text);
  }
};

TEST_F(ExplainTest, Concurrency) {
  make_world({.groups = {{"vip", {.max_concurrency = 4}}}, .threads = 8});
  TaskHandle<void> last;
  for (int i = 0; i < 17; ++i) last = submit("vip", "t" + std::to_string(i));
  executor().run();

  expect(last, Bound::kConcurrency, "group 'vip' runs 4 of 4; 12 ahead");
  EXPECT_EQ(executor().explain(last).ahead, 12U);
  EXPECT_EQ(executor().explain(last).holders, (std::vector<std::string>{"t0", "t1", "t2", "t3"}));
}

TEST_F(ExplainTest, Global) {
  make_world({.global_max_in_flight = 1, .threads = 4});
  submit("a", "1");
  executor().run();
  auto waits = submit("b", "2");

  expect(waits, Bound::kGlobal, "all groups together run 1 of 1; 0 ahead");
  EXPECT_EQ(executor().explain(waits).holders, std::vector<std::string>{"a"});
}

TEST_F(ExplainTest, InFlight) {
  make_world({.groups = {{"a", {.max_concurrency = 8, .max_in_flight = 1}}}, .threads = 4});
  auto parked = executor().submit("a", "parked", [&]() -> Task<> { co_await submit("b", "slow"); });
  executor().run();
  auto waits = submit("a", "2");

  expect(waits, Bound::kInFlight, "group 'a' has 1 of 1 in flight; 0 ahead");
  EXPECT_EQ(executor().explain(waits).holders, std::vector<std::string>{"parked"});
  EXPECT_EQ(executor().explain(parked).text, "task 'parked' is parked: it awaits task 'slow'");
}

TEST_F(ExplainTest, Workers) {
  make_world({.threads = 1});
  submit("a", "1");
  executor().run();
  auto waits = submit("b", "2");

  expect(waits, Bound::kWorkers, "group 'b' may run as soon as a worker comes to it; 0 ahead");
  EXPECT_EQ(executor().explain(waits).holders, std::vector<std::string>{"a"});
}

TEST_F(ExplainTest, RateAndPause) {
  make_world({.groups = {{"a", {.rate = Rate{.count = 1, .period = 1s, .burst = 1}}}}, .threads = 4});
  submit("a", "1");
  auto rated = submit("a", "2");
  executor().advance(100ms);
  expect(rated, Bound::kRate, "group 'a' may start its next in 900 ms by its rate; 0 ahead");

  ASSERT_TRUE(executor().pause_group("b"));
  auto paused = submit("b", "1");
  expect(paused, Bound::kPaused, "group 'b' is paused; 0 ahead");
  ASSERT_TRUE(executor().resume_group("b"));
}

TEST_F(ExplainTest, AFollowingTaskAndOneThatRuns) {
  make_world({.threads = 1});
  auto first = executor().submit("a", "first", [&] { executor().spend(10ms); });
  auto following = first.then("second", [] {});
  expect(following, Bound::kDependency, "task 'second' follows task 'first', which has not ended");
  expect(first, Bound::kWorkers, "group 'a' may run as soon as a worker comes to it; 0 ahead");
  executor().run();
  expect(first, Bound::kNothing, "task 'first' is running");
  executor().advance(10ms);
  expect(first, Bound::kNothing, "task 'first' is settled: success");
}

}  // namespace
}  // namespace cohort
