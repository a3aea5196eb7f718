// Who goes next: weighted fair share by time.

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cohort/task/sleep.h"
#include "group/turn.h"
#include "testing/world_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;
using internal::Turn;

class FairShareTest : public WorldTest {
 protected:
  TaskHandle<void> submit(const std::string& group, Duration length) {
    return executor().submit(group, "t", [this, length] { executor().spend(length); });
  }

  // Keeps a group backlogged for ever: every task is replaced as it starts.
  void keep_busy(const std::string& group, Duration length, int waiting = 8) {
    for (int i = 0; i < waiting; ++i) refill(group, length);
  }

  void refill(const std::string& group, Duration length) {
    executor().submit(group, "busy", [this, group, length] {
      if (busy) refill(group, length);
      executor().spend(length);
    });
  }

  double thread_seconds(const std::string& group) {
    return std::chrono::duration<double>(executor().group_stats(group)->counters.thread_time).count();
  }

  void TearDown() override {
    busy = false;
    WorldTest::TearDown();
  }

  bool busy = true;
};

TEST_F(FairShareTest, TenThousandWaitingTasksDelayAnotherGroupByOneTurnOfEachWorker) {
  make_world({.global_max_in_flight = 2, .threads = 2});
  for (int i = 0; i < 10'000; ++i) submit("flood", 100us);
  executor().advance(50ms);
  const std::uint64_t before = executor().group_stats("flood")->counters.started;
  auto single = submit("single", 100us);
  while (executor().explain(single).bound != Bound::kNothing) executor().advance(1us);

  EXPECT_LE(executor().group_stats("flood")->counters.started - before, 2U);
}

TEST_F(FairShareTest, AFloodWithoutLimitDelaysAnotherGroupByOneTurnOfEachWorker) {
  make_world({.groups = {{"flood", {.max_concurrency = kUnlimited}}}, .threads = 2});
  for (int i = 0; i < 10'000; ++i) submit("flood", 7us);
  executor().advance(5ms);
  const Time asked = now();
  auto single = submit("single", 1us);

  const TaskResult<void> result = single.await();
  EXPECT_LE(result.started_at - asked, 2 * Turn::kLength + 7us);
}

struct ShareCase {
  const char* name;
  Duration length1;
  Duration length3;
  std::uint32_t concurrency;
  std::uint32_t threads;
};

class WeightTest : public FairShareTest, public ::testing::WithParamInterface<ShareCase> {};

TEST_P(WeightTest, WeightsOneToThreeGiveOneToThree) {
  const ShareCase c = GetParam();
  make_world({.groups = {{"one", {.max_concurrency = c.concurrency, .weight = 1.0}},
                         {"three", {.max_concurrency = c.concurrency, .weight = 3.0}}},
              .threads = c.threads});
  keep_busy("one", c.length1);
  keep_busy("three", c.length3);
  executor().advance(400 * std::max(c.length1, c.length3));

  const double ratio = thread_seconds("three") / thread_seconds("one");
  EXPECT_NEAR(ratio, 3.0, 0.09);
}

INSTANTIATE_TEST_SUITE_P(Lengths, WeightTest,
                         ::testing::Values(ShareCase{"Equal", 50us, 50us, kUnlimited, 2},
                                           ShareCase{"HeavierIsLonger", 50us, 500us, kUnlimited, 2},
                                           ShareCase{"LighterIsLonger", 500us, 50us, kUnlimited, 2},
                                           ShareCase{"MuchShorterThanATurn", 5us, 1ms, kUnlimited, 1},
                                           ShareCase{"MuchLonger", 10ms, 100us, kUnlimited, 1},
                                           ShareCase{"OneAtATime", 50us, 500us, 1, 1},
                                           ShareCase{"OneAtATimeLighterIsLonger", 500us, 50us, 1, 1},
                                           ShareCase{"FourWorkers", 30ms, 20ms, kUnlimited, 4},
                                           ShareCase{"ASecondAgainstTenMilliseconds", 1s, 10ms, 1, 1}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_F(FairShareTest, WhenLayerOneBindsHoldingItIsWhatCounts) {
  make_world({.groups = {{"one", {.max_concurrency = kUnlimited, .weight = 1.0}},
                         {"three", {.max_concurrency = kUnlimited, .weight = 3.0}}},
              .global_max_in_flight = 40,
              .threads = 2});
  std::map<std::string, Duration> held;
  std::function<void(std::string, Duration)> sleeper = [&](const std::string& group, Duration length) {
    executor().submit(group, "s", [&, group, length]() -> Task<> {
      if (busy) sleeper(group, length);
      co_await sleep_for(length);
      held[group] += length;
    });
  };
  for (int i = 0; i < 60; ++i) {
    sleeper("one", 5ms);
    sleeper("three", 50ms);
  }
  executor().advance(5s);

  const double ratio = std::chrono::duration<double>(held["three"]) / std::chrono::duration<double>(held["one"]);
  EXPECT_NEAR(ratio, 3.0, 0.09);
  busy = false;
  executor().run_until_idle();
}

TEST_F(FairShareTest, HeavyGroupsTakeTurnsToo) {
  make_world({.defaults = {.max_concurrency = kUnlimited, .weight = 10'000.0}, .threads = 1});
  for (int i = 0; i < 2000; ++i) submit("many", 10us);
  executor().advance(1ms);
  const Time asked = now();
  auto single = submit("single", 10us);
  EXPECT_LE(single.await().started_at - asked, 2 * Turn::kLength);
}

TEST_F(FairShareTest, AGroupThatSubmitsItsNextTaskWhileItRunsIsNotChargedTwice) {
  make_world({.threads = 1});
  int turn = 0;
  std::function<void(const std::string&)> next = [&](const std::string& group) {
    executor().submit(group, "t", [&, group] {
      if (busy) next(group);
      executor().spend(++turn % 2 == 0 ? 20ms : 100us);
    });
  };
  next("closed");
  for (int i = 0; i < 3; ++i) next("backlog");
  executor().advance(10s);
  EXPECT_NEAR(thread_seconds("closed"), 5.0, 0.1);
  busy = false;
  executor().run_until_idle();
}

TEST_F(FairShareTest, IdlenessEarnsNothing) {
  make_world({.defaults = {.max_concurrency = kUnlimited}, .threads = 1});
  submit("idle", 1ms);
  keep_busy("busy", 1ms);
  executor().advance(1s);
  const double before = thread_seconds("busy");
  keep_busy("idle", 1ms);
  executor().advance(400ms);

  EXPECT_NEAR(thread_seconds("busy") - before, 0.2, 0.005);
}

TEST_F(FairShareTest, RunningLittleWhileOthersRunMuchEarnsNothingEither) {
  make_world({.defaults = {.max_concurrency = kUnlimited}, .threads = 8});
  submit("little", 1s);
  keep_busy("much", 1ms, 30);
  executor().advance(900ms);
  const double before = thread_seconds("much");
  keep_busy("little", 1ms, 30);
  executor().advance(80ms);

  EXPECT_NEAR(thread_seconds("much") - before, 0.32, 0.05);
}

TEST_F(FairShareTest, ANewcomerDoesNotInheritTheArrearsOfALimitedGroup) {
  make_world(
      {.groups = {{"limited", {.max_concurrency = 1}}}, .defaults = {.max_concurrency = kUnlimited}, .threads = 8});
  keep_busy("limited", 1ms);
  keep_busy("old", 1ms, 30);
  executor().advance(1s);
  const double before = thread_seconds("old");
  keep_busy("new", 1ms, 30);
  executor().advance(100ms);

  EXPECT_NEAR(thread_seconds("old") - before, 0.35, 0.03);
}

TEST_F(FairShareTest, OneLongTaskIsNotHeldAgainstItsGroupLater) {
  make_world({.defaults = {.max_concurrency = kUnlimited}, .threads = 1});
  submit("long", 10s);
  executor().advance(10s);
  executor().advance(200ms);
  keep_busy("long", 1ms);
  keep_busy("other", 1ms);
  const double before = thread_seconds("long");
  executor().advance(1s);

  EXPECT_NEAR(thread_seconds("long") - before, 0.5, 0.01);
}

TEST_F(FairShareTest, NorIsItWhenBothComeRightAfterIt) {
  make_world({.defaults = {.max_concurrency = kUnlimited}, .threads = 1});
  submit("long", 10s);
  executor().advance(10s);
  executor().advance(10ms);
  keep_busy("long", 1ms);
  keep_busy("other", 1ms);
  const double before = thread_seconds("long");
  executor().advance(1s);

  EXPECT_NEAR(thread_seconds("long") - before, 0.5, 0.01);
}

TEST_F(FairShareTest, AShortPauseDoesNotClearADebt) {
  make_world({.defaults = {.max_concurrency = kUnlimited}, .threads = 1});
  keep_busy("steady", 1ms);
  executor().advance(10ms);
  auto greedy = submit("greedy", 2s);
  while (!greedy.is_done()) executor().advance(1ms);
  executor().advance(10ms);
  const double before = thread_seconds("greedy");
  keep_busy("greedy", 1ms);
  executor().advance(1s);

  EXPECT_LT(thread_seconds("greedy") - before, 0.01);
}

TEST_F(FairShareTest, OneTurnHoldsOnePermitForAllItsTasksOfAGroup) {
  make_world({.groups = {{"a", {.max_concurrency = 1}}}, .threads = 2});
  int running = 0;
  int peak = 0;
  for (int i = 0; i < 500; ++i) {
    executor().submit("a", std::to_string(i), [&] {
      peak = std::max(peak, ++running);
      --running;
    });
  }
  executor().run();

  EXPECT_EQ(peak, 1);
  EXPECT_EQ(executor().stats().running, 0U);
}

TEST_F(FairShareTest, ATaskThatBlocksInABatchGivesTheRestBack) {
  make_world({.groups = {{"a", {.max_concurrency = 2}}}, .threads = 2});
  for (int i = 0; i < 20; ++i) submit("a", 0us);
  executor().run();
  std::vector<int> order;
  executor().submit("a", "blocks", [&] {
    executor().spend(1s);
    order.push_back(-1);
  });
  for (int i = 0; i < 20; ++i) executor().submit("a", "next", [&order, i] { order.push_back(i); });
  executor().advance(1ms);

  EXPECT_EQ(order.size(), 20U) << "the second worker ran what the first one gave back";
  EXPECT_TRUE(std::ranges::is_sorted(order));
  executor().run_until_idle();
}

TEST_F(FairShareTest, TasksThatSleepAgainAndAgainDoNotKeepOthersOfTheirGroupWaiting) {
  make_world({.defaults = {.max_concurrency = 1000}, .threads = 1});
  bool stop = false;
  std::vector<TaskHandle<void>> pollers;
  for (int i = 0; i < 50; ++i) {
    pollers.push_back(executor().submit("g", "poller", [&]() -> Task<void> {
      while (!stop) {
        executor().spend(10us);
        co_await sleep_for(1us);
      }
    }));
  }
  executor().advance(10ms);
  int started = 0;
  std::vector<TaskHandle<void>> others;
  for (int i = 0; i < 100; ++i) others.push_back(executor().submit("g", "other", [&] { ++started; }));
  executor().advance(10ms);  // Each after at most three turns of pollers: some 3 ms.
  EXPECT_EQ(started, 100);
  stop = true;
  executor().run_until_idle();
}

}  // namespace
}  // namespace cohort
