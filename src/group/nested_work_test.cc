// Tasks that submit tasks and await them.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "cohort/task/promise.h"
#include "cohort/task/sleep.h"
#include "cohort/task/task_scope.h"
#include "cohort/task/when.h"
#include "testing/world_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class NestedWorkTest : public WorldTest {
 protected:
  static GroupExecutorOptions everything_at_one() {
    return {.defaults = {.max_concurrency = 1, .max_in_flight = 1}, .global_max_in_flight = 1, .threads = 1};
  }

  int depth(const std::string& group, int levels) {
    if (levels == 0) return 0;
    auto next =
        executor().submit(group, std::to_string(levels), [this, group, levels] { return depth(group, levels - 1); });
    return 1 + next.await().value.value_or(-1000);
  }

  Task<int> depth_co(std::string group, int levels) {
    if (levels == 0) co_return 0;
    auto next =
        executor().submit(group, std::to_string(levels), [this, group, levels] { return depth_co(group, levels - 1); });
    co_return 1 + (co_await next).value.value_or(-1000);
  }
};

TEST_F(NestedWorkTest, AHundredLevelsInOneGroupCompleteWithEveryLimitAtOne) {
  make_world(everything_at_one());
  EXPECT_EQ(executor().submit("a", "top", [this] { return depth("a", 100); }).await().value, 100);
  EXPECT_EQ(executor().submit("a", "top", [this] { return depth_co("a", 100); }).await().value, 100);
}

TEST_F(NestedWorkTest, TwoGroupsAwaitingEachOtherComplete) {
  make_world(everything_at_one());
  const auto cross = [&](const char* from, const char* to) {
    return executor().submit(from, "outer", [&, to] {
      executor().spend(1ms);
      return executor().submit(to, "inner", [&] { return 1; }).await().value.value_or(0);
    });
  };
  auto a = cross("a", "b");
  auto b = cross("b", "a");

  EXPECT_EQ(a.await().value, 1);
  EXPECT_EQ(b.await().value, 1);
}

TEST_F(NestedWorkTest, ATrueCycleIsAnErrorThatNamesIt) {
  make_world({.threads = 4});
  TaskHandle<std::string> first;
  TaskHandle<std::string> second;
  first = executor().submit("a", "first", [&] {
    executor().spend(1ms);
    const auto result = second.await();
    return result.ok() ? *result.value : result.error->message;
  });
  second = executor().submit("b", "second", [&] {
    executor().spend(2ms);
    const auto result = first.await();
    EXPECT_EQ(result.error->code, ErrorCode::kConflict);
    return result.error->message;
  });

  const std::string expected =
      "a cycle of awaits: task 'second' of group 'b' awaits 'first' of 'a' awaits 'second' of 'b'";
  EXPECT_EQ(second.await().value, expected);
  EXPECT_EQ(first.await().value, expected);
}

TEST_F(NestedWorkTest, AwaitingOneselfIsACycle) {
  make_world();
  TaskHandle<bool> self;
  self = executor().submit("a", "self", [&]() -> Task<bool> {
    const TaskResult<bool> result = co_await self;
    co_return result.error.has_value() && result.error->code == ErrorCode::kConflict;
  });
  EXPECT_EQ(self.await().value, true);
  self = {};
}

TEST_F(NestedWorkTest, CyclesAreFoundThroughThenAndWhenAll) {
  make_world({.threads = 4});
  TaskHandle<int> outer;
  ErrorCode through_then = ErrorCode::kInvalid;
  bool through_all = false;
  outer = executor().submit("a", "outer", [&] {
    auto after_me = outer.then([](int value) { return value; });
    through_then = after_me.await().error->code;
    auto fine = executor().submit("b", "fine", [] { return 1; });
    const auto results = when_all(fine, after_me).await();
    through_all = results[1].error.has_value() && results[1].error->code == ErrorCode::kConflict;
    // A when_any with one way out is no cycle.
    return static_cast<int>(when_any(after_me, fine).await());
  });

  EXPECT_EQ(outer.await().value, 1);
  EXPECT_EQ(through_then, ErrorCode::kConflict);
  EXPECT_TRUE(through_all);
  executor().run_until_idle();
  outer = {};
}

TEST_F(NestedWorkTest, TenThousandTasksAwaitingASlowGroupHoldUpNobody) {
  make_world({.groups = {{"slow", {.max_concurrency = 1}}, {"many", {.max_concurrency = 40}}},
              .global_max_in_flight = 64,
              .threads = 4,
              .max_parked = 100});
  std::uint32_t most_parked = 0;
  for (int i = 0; i < 10'000; ++i) {
    executor().submit("many", std::to_string(i), [&]() -> Task<> {
      auto slow = executor().submit("slow", "s", []() -> Task<> { co_await sleep_for(1ms); });
      co_await slow;
    });
  }
  for (int i = 0; i < 20; ++i) {
    executor().advance(1ms);
    const GroupStats stats = *executor().group_stats("many");
    most_parked = std::max(most_parked, stats.parked);
    EXPECT_LE(executor().stats().running, 64U);
  }
  EXPECT_GE(most_parked, 25U);
  EXPECT_LE(most_parked, 25U + 40U);

  auto other = executor().submit("other", "o", [] { return 1; });
  executor().run();
  EXPECT_TRUE(other.is_done());
  EXPECT_TRUE(executor().run_until_idle());
}

TEST_F(NestedWorkTest, PastMaxParkedOnlyAwaitedTasksStart) {
  make_world({.defaults = {.max_concurrency = kUnlimited}, .threads = 2, .max_parked = 8});
  auto slow = executor().submit("slow", "s", []() -> Task<> { co_await sleep_for(1s); });
  for (int i = 0; i < 30; ++i) {
    executor().submit("g" + std::to_string(i), "w", [slow]() -> Task<> { co_await slow; });
  }
  executor().run();
  EXPECT_LE(executor().stats().parked, 8U + 2U);
  auto waits = executor().submit("late", "w", [] {});
  executor().run();
  EXPECT_FALSE(waits.is_done());
  EXPECT_EQ(executor().explain(waits).bound, Bound::kParked);
  EXPECT_TRUE(executor().run_until_idle());
  EXPECT_TRUE(waits.is_done());
}

TEST_F(NestedWorkTest, AwaitingThroughCombinatorsIsAsSafe) {
  make_world(everything_at_one());
  int sum = 0;
  auto top = executor().submit("a", "top", [&] {
    const auto one = [&] { return executor().submit("a", "x", [] { return 1; }); };
    sum += one().then([](int v) { return v; }).then([](int v) { return v; }).await().value.value_or(-99);
    for (const auto& result : when_all(one(), one(), one()).await()) sum += result.value.value_or(-99);
    sum += static_cast<int>(when_any(one(), one()).await()) + 1;

    TaskScope scope(executor());
    for (int i = 0; i < 3; ++i) scope.submit("a", "child", [&] { ++sum; });
    EXPECT_TRUE(scope.join());

    std::vector<GroupTask<int>> batch;
    for (int i = 0; i < 2000; ++i) batch.emplace_back("a", "b", [] { return 1; });
    for (const auto& result : executor().execute_all(std::move(batch))) sum += result.value.value_or(-99);
  });

  EXPECT_TRUE(top.await().ok());
  EXPECT_EQ(sum, 1 + 3 + 1 + 3 + 2000);
}

TEST_F(NestedWorkTest, TheSameForCoroutines) {
  make_world(everything_at_one());
  auto top = executor().submit("a", "top", [&]() -> Task<int> {
    const auto one = [&] { return executor().submit("a", "x", [] { return 1; }); };
    int sum = (co_await one().then([](int v) { return v; })).value.value_or(-99);
    const auto all = co_await when_all(one(), one());
    sum += all[0].value.value_or(-99) + all[1].value.value_or(-99);
    TaskScope scope(executor());
    for (int i = 0; i < 3; ++i) scope.submit("a", "child", [] {});
    const Result<void> joined = co_await scope.joined();
    co_return joined.ok() ? sum : -1;
  });
  EXPECT_EQ(top.await().value, 3);
}

TEST_F(NestedWorkTest, ManyResumedAtOnceDoNotShutOutAnotherGroup) {
  make_world({.groups = {{"many", {.max_concurrency = 250}}}, .threads = 2});
  auto gate = executor().submit("gate", "g", []() -> Task<> { co_await sleep_for(10ms); });
  for (int i = 0; i < 250; ++i) {
    executor().submit("many", std::to_string(i), [&, gate]() -> Task<> {
      co_await gate;
      executor().spend(1ms);
    });
  }
  executor().advance(10ms);
  const Time asked = now();
  auto other = executor().submit("other", "o", [&] { executor().spend(10us); });

  EXPECT_LE(other.await().started_at - asked, 1ms) << "a turn of a worker is one task here";
  EXPECT_LE(executor().group_stats("many")->counters.count(TaskStatus::kSuccess), 4U);
}

TEST_F(NestedWorkTest, WithinAGroupEveryFourthStartIsUnawaited) {
  make_world({.groups = {{"g", {.max_concurrency = 1}}}, .threads = 2});
  std::vector<char> order;
  ASSERT_TRUE(executor().pause_group("g"));
  for (int i = 0; i < 10; ++i) executor().submit("g", "plain", [&] { order.push_back('p'); });
  auto top = executor().submit("top", "t", [&] {
    std::vector<TaskHandle<void>> awaited;
    for (int i = 0; i < 12; ++i) awaited.push_back(executor().submit("g", "awaited", [&] { order.push_back('a'); }));
    EXPECT_EQ(when_all(std::move(awaited)).await().size(), 12U);
  });
  executor().run();
  ASSERT_TRUE(executor().resume_group("g"));
  executor().run();

  EXPECT_EQ(std::string(order.begin(), order.end()), "aaapaaapaaapaaappppppp");
  EXPECT_TRUE(top.is_done());
}

TEST_F(NestedWorkTest, APauseStopsStartsNotResumes) {
  make_world({.threads = 2});
  auto outer = executor().submit("a", "outer", [&] {
    auto inner = executor().submit("b", "inner", [&] { executor().spend(5ms); });
    EXPECT_TRUE(inner.await().ok());
    return 1;
  });
  executor().run();
  ASSERT_TRUE(executor().pause_group("a"));
  auto waiting = executor().submit("a", "waiting", [] {});

  EXPECT_EQ(outer.await().value, 1);
  EXPECT_FALSE(waiting.is_done());
  ASSERT_TRUE(executor().resume_group("a"));
}

TEST_F(NestedWorkTest, ASuspendedCoroutineKeepsItsPermitsAParkedOneDoesNot) {
  make_world({.groups = {{"a", {.max_concurrency = 1}}}, .threads = 2});
  auto sleeping = executor().submit("a", "sleeping", []() -> Task<> { co_await sleep_for(5ms); });
  auto next = executor().submit("a", "next", [] {});
  executor().run();
  EXPECT_FALSE(next.is_done());
  EXPECT_EQ(executor().group_stats("a")->running, 1U);
  executor().advance(5ms);
  EXPECT_TRUE(next.is_done());

  auto parked = executor().submit(
      "a", "parked", [&]() -> Task<> { co_await executor().submit("b", "slow", [&] { executor().spend(5ms); }); });
  auto after = executor().submit("a", "after", [] {});
  executor().run();
  EXPECT_TRUE(after.is_done());
  EXPECT_EQ(executor().group_stats("a")->parked, 1U);
  EXPECT_EQ(executor().group_stats("a")->running, 0U);
  EXPECT_TRUE(sleeping.is_done());
  EXPECT_FALSE(parked.is_done());
}

TEST_F(NestedWorkTest, WhoAwaitsSomethingFromOutsideKeepsItsPermits) {
  make_world({.groups = {{"a", {.max_concurrency = 1}}}, .threads = 1});
  for (const bool as_coroutine : {true, false}) {
    Promise<int> answer("answer", {}, executor().clock());
    auto asks =
        as_coroutine
            ? executor().submit(
                  "a", "asks", [handle = answer.handle()]() -> Task<int> { co_return (co_await handle).value.value(); })
            : executor().submit("a", "asks", [handle = answer.handle()] {
                EXPECT_FALSE(handle.await_for(1ms).has_value());
                return handle.await().value.value();
              });
    auto next = executor().submit("a", "next", [] {});
    auto other = executor().submit("b", "other", [] {});
    executor().advance(5ms);
    EXPECT_TRUE(other.is_done()) << "its worker is free";
    EXPECT_FALSE(next.is_done());
    EXPECT_EQ(executor().group_stats("a")->running, 1U);
    EXPECT_EQ(executor().group_stats("a")->parked, 0U);
    answer.settle(42);
    executor().run();
    EXPECT_EQ(asks.await().value, 42);
    EXPECT_TRUE(next.is_done());
  }
}

TEST_F(NestedWorkTest, AnAwaitOfSomethingFromOutsideEndsWithItsTasksTime) {
  make_world({.groups = {{"a", {.max_concurrency = 1, .max_overrunning = 5}}}, .threads = 1});
  for (const bool as_coroutine : {true, false}) {
    Promise<int> answer("answer", {}, executor().clock());
    std::vector<ErrorCode> codes;
    auto asks = as_coroutine ? executor().submit("a", "asks",
                                                 [&, handle = answer.handle()]() -> Task<> {
                                                   codes.push_back((co_await handle).error->code);
                                                   codes.push_back((co_await handle).error->code);
                                                 },
                                                 {.run_timeout = 3ms})
                             : executor().submit("a", "asks",
                                                 [&, handle = answer.handle()] {
                                                   codes.push_back(handle.await().error->code);
                                                   codes.push_back(handle.await().error->code);
                                                 },
                                                 {.run_timeout = 3ms});
    auto next = executor().submit("a", "next", [] {});
    executor().advance(3ms);
    EXPECT_EQ(asks.await().status, TaskStatus::kTimedOutRunning);
    EXPECT_EQ(codes, (std::vector{ErrorCode::kTimedOut, ErrorCode::kTimedOut}));
    EXPECT_TRUE(next.is_done());
  }
}

TEST_F(NestedWorkTest, APromiseOfTheExecutorParksWhoAwaitsIt) {
  make_world({.groups = {{"a", {.max_concurrency = 1}}}, .threads = 1});
  Promise<int> answer(executor(), "answer");
  auto asks = executor().submit("a", "asks", [&] { return answer.handle().await().value.value(); });
  auto gives = executor().submit("a", "gives", [&] { answer.settle(7); });
  EXPECT_EQ(asks.await().value, 7);
}

TEST_F(NestedWorkTest, ATaskGivesEachThingItDoesItsTime) {
  make_world({.groups = {{"a", {.max_concurrency = 1}}}, .threads = 1});
  std::vector<bool> stopped;
  const auto two_things = [&](std::stop_token stop) -> Task<> {
    EXPECT_TRUE(executor().limit_current_task(executor().clock().now() + 10ms));
    co_await sleep_for(9ms);
    stopped.push_back(stop.stop_requested());
    EXPECT_TRUE(executor().limit_current_task(std::nullopt));
    co_await sleep_for(1h);
    stopped.push_back(stop.stop_requested());
    EXPECT_TRUE(executor().limit_current_task(executor().clock().now() + 10ms));
    co_await sleep_for(11ms);
    stopped.push_back(stop.stop_requested());
    stopped.push_back(executor().limit_current_task(std::nullopt));
  };
  auto task = executor().submit("a", "two things", two_things, {.run_timeout = 1ms});
  EXPECT_EQ(task.await().status, TaskStatus::kTimedOutRunning);
  executor().advance(2ms);
  EXPECT_EQ(stopped, (std::vector{false, false, true, false}));
}

TEST_F(NestedWorkTest, ATimedAwaitInsideATaskGivesUpAndResumes) {
  make_world({.threads = 2});
  std::vector<bool> got;
  auto outer = executor().submit("a", "outer", [&] {
    auto slow = executor().submit("b", "slow", [&] { executor().spend(10ms); });
    got.push_back(slow.await_for(4ms).has_value());
    got.push_back(slow.await_for(20ms).has_value());
  });
  EXPECT_TRUE(outer.await().ok());
  EXPECT_EQ(got, (std::vector{false, true}));
}

TEST_F(NestedWorkTest, ATimedAwaitIsNoCycle) {
  make_world({.threads = 2});
  TaskHandle<int> first;
  TaskHandle<int> second;
  first = executor().submit("a", "first", [&] { return second.await_for(10ms).has_value() ? 1 : 2; });
  second = executor().submit("b", "second", [&] {
    executor().spend(5ms);
    return first.await().value.value_or(-1) + 10;
  });
  EXPECT_EQ(second.await().value, 12);
  first = second = {};
}

TEST_F(NestedWorkTest, AScopeCancelsItsChildren) {
  make_world({.threads = 4});
  std::vector<TaskStatus> ends;
  std::stop_source stop;
  auto running = executor().submit("top", "t", [&] {
    TaskScope scope(executor(), stop.get_token());
    auto waits = scope.submit("a", "1", [&](std::stop_token token) {
      while (!token.stop_requested()) executor().spend(1ms);
      throw std::runtime_error("stopped");
    });
    auto behind = scope.submit("a", "2", [] {});
    executor().spend(3ms);
    stop.request_stop();
    EXPECT_TRUE(scope.join());
    ends = {waits.await().status, behind.await().status, scope.submit("b", "late", [] {}).await().status};
  });
  EXPECT_TRUE(running.await().ok());
  EXPECT_EQ(ends, (std::vector{TaskStatus::kCancelled, TaskStatus::kCancelled, TaskStatus::kCancelled}));
}

}  // namespace
}  // namespace cohort
