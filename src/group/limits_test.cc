// Who may run at all: the three layers, their resolution and change, rates, and what a full queue does.

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "cohort/task/sleep.h"
#include "testing/world_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class LimitsTest : public WorldTest {
 protected:
  struct Gauge {
    int now = 0;
    int peak = 0;
    void enter() { peak = std::max(peak, ++now); }
    void leave() { --now; }
  };

  auto body(const std::string& group, Duration length = 1ms) {
    return [this, group, length] {
      all.enter();
      gauges[group].enter();
      executor().spend(length);
      gauges[group].leave();
      all.leave();
      return 1;
    };
  }

  void submit_many(const std::string& group, int count, Duration length = 1ms) {
    for (int i = 0; i < count; ++i) {
      handles.push_back(executor().submit(group, group + std::to_string(i), body(group, length)));
    }
  }

  Gauge all;
  std::map<std::string, Gauge> gauges;
  std::vector<TaskHandle<int>> handles;
};

TEST_F(LimitsTest, AGroupRunsNoMoreThanItsConcurrency) {
  make_world({.groups = {{"a", {.max_concurrency = 2}}}, .threads = 8});
  submit_many("a", 20);
  executor().run_until_idle();

  EXPECT_EQ(gauges["a"].peak, 2);
}

TEST_F(LimitsTest, GroupsRunBesideEachOther) {
  make_world({.defaults = {.max_concurrency = 2}, .threads = 8});
  for (const char* group : {"a", "b", "c", "d"}) submit_many(group, 10);
  executor().run_until_idle();

  EXPECT_EQ(all.peak, 8);
}

TEST_F(LimitsTest, ABatchCollectsFailuresInInputOrder) {
  make_world();
  std::vector<GroupTask<int>> tasks;
  for (int i = 0; i < 10; ++i) {
    tasks.emplace_back(i % 2 == 0 ? "a" : "b", std::to_string(i), [i]() -> int {
      if (i % 3 == 0) throw std::runtime_error("task " + std::to_string(i));
      return i;
    });
  }

  const std::vector<TaskResult<int>> results = executor().execute_all(std::move(tasks));

  ASSERT_EQ(results.size(), 10U);
  for (int i = 0; i < 10; ++i) {
    const TaskResult<int>& result = results[static_cast<std::size_t>(i)];
    EXPECT_EQ(result.task_id, std::to_string(i));
    EXPECT_EQ(result.status, i % 3 == 0 ? TaskStatus::kFailed : TaskStatus::kSuccess);
    if (i % 3 != 0) {
      EXPECT_EQ(result.value, i);
    }
  }
}

TEST_F(LimitsTest, TheResolverDecidesByKey) {
  make_world({.resolver = [](std::string_view key) -> GroupLimits {
                return {.max_concurrency = key.starts_with("vip:") ? 4U : 1U};
              },
              .threads = 8});
  submit_many("vip:alice", 20);
  submit_many("bob", 20);
  executor().run_until_idle();

  EXPECT_EQ(gauges["vip:alice"].peak, 4);
  EXPECT_EQ(gauges["bob"].peak, 1);
}

TEST_F(LimitsTest, LayerTwoBoundsWhatAGroupHasInFlight) {
  make_world({.groups = {{"a", {.max_concurrency = 20, .max_in_flight = 5}}},
              .defaults = {.max_concurrency = 20},
              .threads = 30});
  int in_flight = 0;
  int peak = 0;
  for (int i = 0; i < 20; ++i) {
    executor().submit("a", std::to_string(i), [&] {
      peak = std::max(peak, ++in_flight);
      auto other = executor().submit("b", "inner", [&] { executor().spend(1ms); });
      EXPECT_TRUE(other.await().ok());
      --in_flight;
    });
  }
  executor().run_until_idle();

  EXPECT_EQ(peak, 5);
}

TEST_F(LimitsTest, LayerOneBoundsAllAndStarvesNobody) {
  make_world({.defaults = {.max_concurrency = 10}, .global_max_in_flight = 2, .threads = 8});
  submit_many("a", 100);
  submit_many("b", 2);
  executor().advance(3ms);

  EXPECT_EQ(all.peak, 2);
  EXPECT_TRUE(handles[100].is_done());
  EXPECT_TRUE(handles[101].is_done());
  executor().run_until_idle();
  EXPECT_EQ(all.peak, 2);
}

TEST_F(LimitsTest, ShuttingDownOneGroupLeavesOthersAlone) {
  make_world();
  submit_many("a", 10);
  submit_many("b", 10);
  executor().run();
  ASSERT_TRUE(executor().shutdown_group("a"));
  executor().run_until_idle();

  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(handles[i].await().status, i == 0 ? TaskStatus::kSuccess : TaskStatus::kCancelled);
    EXPECT_EQ(handles[10 + i].await().status, TaskStatus::kSuccess);
  }
}

TEST_F(LimitsTest, WithoutSettingsOnlyTheConcurrencyOfOneBinds) {
  make_world({.threads = 50});
  for (int i = 0; i < 40; ++i) submit_many("group" + std::to_string(i), 5);
  executor().run();
  EXPECT_EQ(all.now, 40);

  const ResolvedLimits limits = executor().resolve("any");
  EXPECT_EQ(limits.max_concurrency, 1U);
  EXPECT_EQ(limits.max_in_flight, kUnlimited);
  EXPECT_EQ(limits.max_waiting, 100'000U);
  executor().run_until_idle();
  EXPECT_EQ(all.peak, 40);
}

TEST_F(LimitsTest, ATaskHoldsNoLayerWhileItWaitsForAnother) {
  make_world({.global_max_in_flight = 2, .threads = 4});
  submit_many("slow", 50, 1s);
  executor().run();
  EXPECT_EQ(executor().stats().running, 1U);

  submit_many("quick", 1);
  executor().run();
  EXPECT_EQ(gauges["quick"].now, 1);
}

TEST_F(LimitsTest, GrowthTakesEffectAtOnceShrinkingByAttritionZeroPauses) {
  make_world({.threads = 16});
  submit_many("a", 100);
  executor().run();
  EXPECT_EQ(all.now, 1);

  ASSERT_TRUE(executor().resize("a", 8));
  executor().run();
  EXPECT_EQ(all.now, 8);

  ASSERT_TRUE(executor().resize("a", 2));
  executor().run();
  EXPECT_EQ(all.now, 8);
  executor().advance(1ms);
  EXPECT_EQ(all.now, 2);

  ASSERT_TRUE(executor().resize("a", 0));
  executor().advance(10ms);
  EXPECT_EQ(all.now, 0);

  ASSERT_TRUE(executor().resize("a", 4));
  executor().run();
  EXPECT_EQ(all.now, 4);
}

TEST_F(LimitsTest, ResizeAndPauseSurviveEviction) {
  make_world({.threads = 8, .evict_after = 1s});
  submit_many("a", 1);
  ASSERT_TRUE(executor().resize("a", 3));
  ASSERT_TRUE(executor().pause_group("b"));
  executor().run_until_idle();
  executor().advance(2s);
  ASSERT_EQ(executor().stats().groups, 0U);

  submit_many("a", 10);
  submit_many("b", 1);
  executor().run();
  EXPECT_EQ(gauges["a"].now, 3);
  EXPECT_EQ(gauges["b"].now, 0);
  ASSERT_TRUE(executor().resume_group("b"));
  executor().run();
  EXPECT_EQ(gauges["b"].now, 1);
}

TEST_F(LimitsTest, ARateSpacesStartsAfterItsBurst) {
  make_world(
      {.groups = {{"a", {.max_concurrency = 50, .rate = Rate{.count = 10, .period = 1s, .burst = 3}}}}, .threads = 50});
  submit_many("a", 10, 0ms);
  executor().run();
  const auto started = [&] { return executor().group_stats("a")->counters.started; };
  EXPECT_EQ(started(), 3U);
  executor().advance(99ms);
  EXPECT_EQ(started(), 3U);
  executor().advance(1ms);
  EXPECT_EQ(started(), 4U);
  executor().advance(600ms);
  EXPECT_EQ(started(), 10U);
}

TEST_F(LimitsTest, AnEvictedGroupLeavesItsCountersAndNothingElse) {
  make_world({.evict_after = 10s});
  for (int i = 0; i < 1000; ++i) submit_many("g" + std::to_string(i), 1, 0ms);
  executor().run();
  EXPECT_EQ(executor().stats().groups, 1000U);
  executor().advance(11s);

  EXPECT_EQ(executor().stats().groups, 0U);
  EXPECT_EQ(executor().stats().counters.count(TaskStatus::kSuccess), 1000U);
  EXPECT_EQ(executor().group_stats("g1").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(handles[0].group(), "g0");
}

TEST_F(LimitsTest, EvictionWaitsForAFullTokenBucket) {
  make_world({.groups = {{"a", {.rate = Rate{.count = 1, .period = 10s, .burst = 5}}}}, .evict_after = 1s});
  submit_many("a", 5, 0ms);
  executor().run();
  executor().advance(30s);
  EXPECT_EQ(executor().stats().groups, 1U);
  executor().advance(25s);
  EXPECT_EQ(executor().stats().groups, 0U);
}

TEST_F(LimitsTest, AFullQueueRejectsAndSaysWhatToDo) {
  make_world({.groups = {{"a", {.max_waiting = 3}}}});
  submit_many("a", 5);

  EXPECT_FALSE(handles[3].is_done()) << "one will run, three may wait";
  ASSERT_TRUE(handles[4].is_done());
  const TaskResult<int> result = handles[4].await();
  EXPECT_EQ(result.status, TaskStatus::kRejected);
  EXPECT_EQ(result.error->message,
            "group 'a' has 4 tasks waiting and 0 running (max_waiting 3, max_concurrency 1); raise max_waiting or slow "
            "the producer");
}

TEST_F(LimitsTest, WithNoPlaceToWaitATaskRunsNowOrNotAtAll) {
  make_world({.groups = {{"a", {.max_concurrency = 2, .max_waiting = 0}}}, .threads = 4});
  submit_many("a", 3);
  EXPECT_EQ(handles[2].await().status, TaskStatus::kRejected);
  EXPECT_TRUE(handles[0].await().ok());
  EXPECT_TRUE(handles[1].await().ok());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(executor().submit("a", "again", [] {}).await().ok());
}

TEST_F(LimitsTest, ManyThatFindFreePermitsAreAllTakenIn) {
  make_world({.groups = {{"a", {.max_concurrency = 8, .max_waiting = 1}}}, .threads = 2});
  for (int round = 0; round < 20; ++round) {
    handles.clear();
    submit_many("a", 9, 0ms);
    for (const auto& handle : handles) EXPECT_TRUE(handle.await().ok());
  }
}

TEST_F(LimitsTest, APausedGroupTakesInOnlyWhatMayWait) {
  make_world({.groups = {{"a", {.max_concurrency = 5, .max_waiting = 2}},
                         {"b", {.max_concurrency = 5, .max_waiting = 2, .rate = Rate{1, 1s, 1}}}}});
  ASSERT_TRUE(executor().pause_group("a"));
  submit_many("a", 3);
  EXPECT_TRUE(handles[2].is_done());
  ASSERT_TRUE(executor().resume_group("a"));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(handles[static_cast<std::size_t>(i)].await().ok());
  EXPECT_TRUE(executor().submit("b", "takes the token", [] {}).await().ok());
  handles.clear();
  submit_many("b", 3);
  EXPECT_TRUE(handles[2].is_done());
  executor().run_until_idle();
}

TEST_F(LimitsTest, ParkedTasksDoNotCount) {
  make_world({.groups = {{"a", {.max_concurrency = 1, .max_waiting = 1}}}, .threads = 2});
  auto outer = executor().submit("a", "outer", [&] {
    return executor()
        .submit("b", "inner",
                [&] {
                  executor().spend(10ms);
                  return 7;
                })
        .await()
        .value;
  });
  executor().run();  // The outer one is parked now.
  submit_many("a", 3);
  EXPECT_FALSE(handles[1].is_done());
  EXPECT_TRUE(handles[2].is_done());
  EXPECT_EQ(outer.await().value, 7);
  executor().run_until_idle();
}

TEST_F(LimitsTest, AWholeNumberThatCannotBeALimitIsCorrected) {
  const int negative = -5;
  make_world({.groups = {{"a", {.max_concurrency = negative, .max_in_flight = negative, .max_waiting = negative}},
                         {"b", {.max_concurrency = std::int64_t{1} << 40}}},
              .global_max_in_flight = negative});
  EXPECT_EQ(executor().resolve("a").max_concurrency, 1U);
  EXPECT_EQ(executor().resolve("a").max_in_flight, 1U);
  EXPECT_EQ(executor().resolve("a").max_waiting, 0U);
  EXPECT_EQ(executor().resolve("b").max_concurrency, kUnlimited);
  EXPECT_TRUE(executor().submit("a", "t", [] {}).await().ok());
  int running = 0;
  int most = 0;
  const auto body = [&] {
    most = std::max(most, ++running);
    executor().spend(1ms);
    --running;
  };
  auto first = executor().submit("c", "t", body);
  auto second = executor().submit("d", "t", body);
  EXPECT_TRUE(first.await().ok() && second.await().ok());
  EXPECT_EQ(most, 1) << "a negative limit of all groups is 1";
}

TEST_F(LimitsTest, ABlockingQueueMakesTheSubmitterWait) {
  make_world({.groups = {{"a", {.max_waiting = 2, .overflow = OverflowPolicy::kBlock}}}, .threads = 1});
  const Time start = now();
  submit_many("a", 6);

  EXPECT_EQ(now() - start, 3ms) << "one runs, two wait, and each of the other three waits for one to end";
  executor().run_until_idle();
  for (const auto& handle : handles) EXPECT_TRUE(handle.await().ok());
}

TEST_F(LimitsTest, ABlockingQueueRejectsFromInsideATask) {
  make_world({.groups = {{"a", {.max_waiting = 1, .overflow = OverflowPolicy::kBlock}}}});
  auto outer = executor().submit("b", "outer", [&] {
    std::vector<TaskStatus> statuses;
    std::vector<TaskHandle<int>> inner;
    for (int i = 0; i < 3; ++i) inner.push_back(executor().submit("a", std::to_string(i), [] { return 0; }));
    for (const auto& handle : inner) statuses.push_back(handle.await().status);
    return statuses;
  });

  EXPECT_EQ(outer.await().value, (std::vector{TaskStatus::kSuccess, TaskStatus::kSuccess, TaskStatus::kRejected}));
}

TEST_F(LimitsTest, DiscardingGivesUpTheOldestOfTheLowestPriority) {
  make_world({.groups = {{"a", {.max_waiting = 2, .overflow = OverflowPolicy::kDiscardOldest}}}});
  const auto submit = [&](const std::string& id, Priority priority) {
    return executor().submit("a", id, [] {}, {.priority = priority});
  };
  auto high = submit("high", Priority::kHigh);
  auto low1 = submit("low1", Priority::kLow);
  auto low2 = submit("low2", Priority::kLow);
  auto normal = submit("normal", Priority::kNormal);
  EXPECT_EQ(low1.await().status, TaskStatus::kRejected);

  auto normal2 = submit("normal2", Priority::kNormal);
  EXPECT_EQ(low2.await().status, TaskStatus::kRejected);
  auto low3 = submit("low3", Priority::kLow);
  EXPECT_EQ(low3.await().status, TaskStatus::kRejected) << "it is itself the lowest";

  EXPECT_TRUE(high.await().ok());
  EXPECT_TRUE(normal.await().ok());
  EXPECT_TRUE(normal2.await().ok());
}

TEST_F(LimitsTest, ABatchPacesItselfInsteadOfOverflowing) {
  make_world({.groups = {{"a", {.max_waiting = 5}}}});
  std::vector<GroupTask<int>> tasks;
  for (int i = 0; i < 100; ++i) tasks.emplace_back("a", std::to_string(i), [i] { return i; });

  for (const TaskResult<int>& result : executor().execute_all(std::move(tasks))) EXPECT_TRUE(result.ok());
}

TEST_F(LimitsTest, ASlowGroupInABatchDoesNotHoldUpTheOthers) {
  make_world({.groups = {{"slow", {.max_waiting = 2}}}, .threads = 2});
  const Time start = now();
  std::vector<GroupTask<int>> tasks;
  for (int i = 0; i < 20; ++i) {
    tasks.emplace_back("slow", std::to_string(i), [&] {
      executor().spend(100ms);
      return 0;
    });
  }
  tasks.emplace_back("fast", "fast", [] { return 1; });
  const auto results = executor().execute_all(tasks);
  EXPECT_EQ(results.back().ended_at - start, 0ms);
  EXPECT_EQ(results[19].ended_at - start, 2s);
}

TEST_F(LimitsTest, ABatchDoesNotLetItsOwnTasksWaitTooLong) {
  make_world({.groups = {{"slow", {.max_waiting = 1}}}, .threads = 2});
  std::vector<GroupTask<int>> tasks;
  for (int i = 0; i < 50; ++i) {
    tasks.emplace_back(
        "slow", std::to_string(i),
        [&] {
          executor().spend(5ms);
          return 0;
        },
        SubmitOptions{.queue_timeout = 40ms});
  }
  for (const auto& result : executor().execute_all(tasks)) EXPECT_EQ(result.status, TaskStatus::kSuccess);
}

TEST_F(LimitsTest, ABatchLeavesPlacesToOthers) {
  make_world({.groups = {{"g", {.max_concurrency = 4, .max_waiting = 16}}}, .threads = 6});
  std::vector<GroupTask<int>> tasks;
  for (int i = 0; i < 300; ++i) {
    tasks.emplace_back("g", std::to_string(i), [&] {
      executor().spend(1ms);
      return 0;
    });
  }
  // Another one submits every now and then.
  std::vector<TaskHandle<void>> others;
  auto outsider = executor().submit("outsider", "o", [&]() -> Task<void> {
    for (int i = 0; i < 50; ++i) {
      co_await sleep_for(1700us);
      others.push_back(executor().submit("g", "other", [] {}));
    }
  });
  EXPECT_EQ(executor().execute_all(tasks).size(), 300U);
  static_cast<void>(outsider.await());
  const auto rejected =
      std::ranges::count(others, TaskStatus::kRejected, [](const auto& other) { return other.await().status; });
  EXPECT_LT(rejected, 10) << "only at a moment at which none of the batch runs";
}

TEST_F(LimitsTest, ABatchThatIsAskedToStopCancelsTheRestInOrder) {
  make_world();
  std::stop_source stop;
  std::vector<GroupTask<int>> tasks;
  for (int i = 0; i < 10; ++i) {
    tasks.emplace_back("a", std::to_string(i), [&, i] {
      executor().spend(1ms);
      if (i == 3) stop.request_stop();
      return i;
    });
  }

  const auto results = executor().execute_all(std::move(tasks), stop.get_token());

  ASSERT_EQ(results.size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(results[i].status, i <= 3 ? TaskStatus::kSuccess : TaskStatus::kCancelled);
    EXPECT_EQ(results[i].task_id, std::to_string(i));
  }
}

TEST_F(LimitsTest, BadKeysAndIdsGiveASettledHandle) {
  make_world();
  auto empty = executor().submit("", "1", [] {});
  auto long_key = executor().submit(std::string(1025, 'k'), "1", [] {});
  auto long_id = executor().submit("a", std::string(257, 'i'), [] {});
  auto longest = executor().submit(std::string(1024, 'k'), std::string(256, 'i'), [] {});

  for (const auto& handle : {empty, long_key, long_id}) {
    ASSERT_TRUE(handle.is_done());
    EXPECT_EQ(handle.await().status, TaskStatus::kRejected);
    EXPECT_EQ(handle.await().error->code, ErrorCode::kInvalid);
  }
  EXPECT_TRUE(longest.await().ok());
  EXPECT_EQ(executor().pause_group("").error().code, ErrorCode::kInvalid);
}

TEST_F(LimitsTest, FirstInFirstOutWithinAGroupAfterPriority) {
  make_world();
  std::vector<std::string> order;
  for (int i = 0; i < 30; ++i) {
    const auto priority = static_cast<Priority>(i % 3);
    const std::string id = std::to_string(i % 3) + ":" + std::to_string(100 + i);
    executor().submit("a", id, [&order, id] { order.push_back(id); }, {.priority = priority});
  }
  executor().run();

  EXPECT_EQ(order.size(), 30U);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST_F(LimitsTest, StatisticsSayWhatBlockedAGroupForHowLong) {
  make_world({.groups = {{"a", {.max_concurrency = 1}}, {"p", {}}}, .threads = 4});
  submit_many("a", 3, 10ms);
  ASSERT_TRUE(executor().pause_group("p"));
  submit_many("p", 1);
  executor().run();
  executor().advance(20ms);

  EXPECT_EQ(executor().group_stats("a")->blocked_by(Bound::kConcurrency), 20ms);
  EXPECT_EQ(executor().group_stats("p")->blocked_by(Bound::kPaused), 20ms);
  EXPECT_EQ(executor().active_groups(), (std::vector<std::string>{"a", "p"}));
  EXPECT_EQ(executor().group_stats("a")->counters.thread_time, 20ms);
  EXPECT_EQ(executor().estimated_wait("a"), 5ms);  // It runs its last task.
  ASSERT_TRUE(executor().resume_group("p"));
}

TEST_F(LimitsTest, LimitsThatWereChangedCanBeForgotten) {
  make_world({.groups = {{"a", {.max_concurrency = 3, .rate = Rate{5, 1s, 5}}}}});
  submit_many("a", 1);
  executor().run_until_idle();
  ASSERT_TRUE(executor().set_limits("a", {.max_concurrency = 0, .max_in_flight = 7, .rate = Rate{kUnlimited, 1s, 1}}));
  ASSERT_TRUE(executor().pause_group("a"));
  ASSERT_TRUE(executor().clear_limits("a"));
  EXPECT_EQ(executor().resolve("a").max_concurrency, 3U);
  EXPECT_EQ(executor().resolve("a").max_in_flight, kUnlimited);
  EXPECT_EQ(executor().resolve("a").rate->count, 5U);
  EXPECT_TRUE(executor().group_stats("a")->paused) << "a pause stays";
  ASSERT_TRUE(executor().resume_group("a"));
  EXPECT_TRUE(executor().submit("a", "t", [] {}).await().ok());
  EXPECT_EQ(executor().clear_limits("").error().code, ErrorCode::kInvalid);
}

TEST_F(LimitsTest, AGroupWithoutTasksCanBeForgottenAtOnce) {
  int resolved = 0;
  make_world({.resolver = [&](std::string_view) -> GroupLimits {
    ++resolved;
    return {.rate = Rate{1, 1h, 1}};
  }});
  EXPECT_EQ(executor().evict_group("a").error().code, ErrorCode::kNotFound);
  submit_many("a", 2, 0ms);
  EXPECT_EQ(executor().evict_group("a").error().code, ErrorCode::kConflict);
  executor().run();
  handles[1].cancel();
  ASSERT_TRUE(executor().evict_group("a"));
  EXPECT_EQ(executor().stats().groups, 0U);
  EXPECT_EQ(executor().stats().counters.submitted, 2U) << "its counters stay";
  EXPECT_TRUE(executor().submit("a", "again", [] {}).await().ok()) << "its token is back";
  EXPECT_EQ(resolved, 2);
}

TEST_F(LimitsTest, ANegativeSizeIsOneAndNoPause) {
  make_world({.threads = 4});
  ASSERT_TRUE(executor().resize("a", -5));
  submit_many("a", 3);
  executor().run_until_idle();

  EXPECT_EQ(executor().group_stats("a")->limits.max_concurrency, 1U);
  EXPECT_FALSE(executor().group_stats("a")->paused);
  for (const auto& each : handles) EXPECT_TRUE(each.is_done());
}

TEST_F(LimitsTest, ABatchUsesAllPermitsThoughNothingMayWait) {
  make_world({.groups = {{"a", {.max_concurrency = 8, .max_waiting = 0}}}, .threads = 8});
  std::vector<GroupTask<int>> tasks;
  for (int i = 0; i < 64; ++i) tasks.emplace_back("a", "t", body("a"));
  const auto results = executor().execute_all(tasks);

  for (const auto& each : results) EXPECT_EQ(each.status, TaskStatus::kSuccess);
  EXPECT_EQ(gauges["a"].peak, 8);
}

}  // namespace
}  // namespace cohort
