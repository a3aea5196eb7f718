// Awaits from one executor to another and back, in virtual time and with threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "cohort/group/group_executor.h"
#include "cohort/task/promise.h"
#include "cohort/task/sleep.h"
#include "cohort/task/task.h"
#include "cohort/task/when.h"
#include "cohort/testing/manual_executor.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class FarAwaitTest : public ::testing::Test {
 protected:
  void make(const GroupLimits& limits = {}) {
    const auto options = [&] { return GroupExecutorOptions{.defaults = limits, .threads = 2}; };
    a = std::make_unique<ManualExecutor>(clock, options());
    b = std::make_unique<ManualExecutor>(clock, options());
    a->link(*b);
  }
  void TearDown() override {
    EXPECT_TRUE(a->run_until_idle());
    EXPECT_EQ(a->leaks(), "");
    EXPECT_EQ(b->leaks(), "");
  }

  VirtualClock clock;
  std::unique_ptr<ManualExecutor> a;
  std::unique_ptr<ManualExecutor> b;
};

TEST_F(FarAwaitTest, ThereAndBackWorksWithEveryLimitAtOne) {
  make({.max_concurrency = 1, .max_in_flight = 1});
  auto outer = a->submit("g", "outer", [&] {
    return *b->submit("g", "middle",
                      [&] {
                        return *a->submit("g", "inner",
                                          [&] {
                                            a->spend(1ms);
                                            return 42;
                                          })
                                    .await()
                                    .value;
                      })
                .await()
                .value;
  });
  EXPECT_EQ(outer.await().value, 42);
}

TEST_F(FarAwaitTest, WhatAWaitingTaskFollowsIsAwaitedToo) {
  make({.max_concurrency = 1, .max_in_flight = 1});
  TaskHandle<int> last;
  auto blocker = b->submit("g", "holds the place", [&] {
    return *a->submit("h", "slow",
                      [&] {
                        a->spend(1ms);
                        return 1;
                      })
                .await()
                .value;
  });
  auto first = b->submit("g", "first", [] { return 1; });
  last = first.then([](int value) { return value + 1; });
  auto outer = a->submit("g", "outer", [&] { return *last.await().value; });
  EXPECT_EQ(outer.await().value, 2);
  EXPECT_EQ(blocker.await().value, 1);
}

// A coroutine each, to and fro.
Task<int> ping(Executor& here, Executor& there, int depth) {
  if (depth == 0) co_return 0;
  const auto next = co_await there.submit("g", "p", [&here, &there, depth] { return ping(there, here, depth - 1); });
  co_return *next.value + 1;
}

TEST_F(FarAwaitTest, PingPongGoesDeeperThanTheLimitOfParkedTasks) {
  make();
  auto deep = a->submit("g", "p", [&] { return ping(*a, *b, 3000); });
  EXPECT_EQ(deep.await().value, 3000);
}

TEST_F(FarAwaitTest, ACircleOverTwoExecutorsIsNamed) {
  make();
  TaskHandle<std::string> there;
  auto here = a->submit("g", "here", [&]() -> Task<std::string> {
    co_await sleep_for(1ms);
    const auto result = co_await there;
    co_return result.ok() ? *result.value : result.error->message;
  });
  there = b->submit("h", "there", [&]() -> Task<std::string> {
    co_await sleep_for(2ms);
    const auto result = co_await here;
    co_return result.ok() ? *result.value : result.error->message;
  });
  EXPECT_EQ(there.await().value,
            "a cycle of awaits: task 'there' of group 'h' awaits 'here' of 'g' awaits 'there' of 'h'");
  EXPECT_EQ(here.await().value, there.await().value) << "the other one goes on";
}

// here -> local (at home) -> there -> here. Whichever wait comes last, it is found.
TEST_F(FarAwaitTest, ACircleMayLeadThroughAwaitsAtHome) {
  std::vector<Duration> when = {1ms, 2ms, 3ms};
  do {
    make();
    TaskHandle<bool> here;
    TaskHandle<bool> local;
    TaskHandle<bool> there;
    const auto body = [](TaskHandle<bool>& awaited, Duration after) -> Task<bool> {
      co_await sleep_for(after);
      const auto result = co_await awaited;
      co_return result.ok() ? *result.value : true;
    };
    here = a->submit("x", "here", [&] { return body(local, when[0]); });
    local = a->submit("y", "local", [&] { return body(there, when[1]); });
    there = b->submit("z", "there", [&] { return body(here, when[2]); });
    ASSERT_TRUE(a->run_until_idle(1s)) << "it hangs";
    EXPECT_TRUE(*here.await().value && *local.await().value && *there.await().value);
  } while (std::next_permutation(when.begin(), when.end()));
}

TEST_F(FarAwaitTest, AWaitForOneOfSeveralIsNoCircleUnlessAllLeadBack) {
  make();
  TaskHandle<int> there;
  auto quick = b->submit("h", "quick", [&] {
    b->spend(5ms);
    return 1;
  });
  auto here = a->submit("g", "here", [&]() -> Task<bool> {
    co_await sleep_for(1ms);
    std::vector<TaskHandle<int>> any = {there, quick};
    co_await when_any(any);
    co_return quick.is_done();
  });
  there = b->submit("k", "there", [&]() -> Task<int> { co_return (co_await here).ok() ? 1 : 0; });
  EXPECT_EQ(here.await().value, true);
  EXPECT_EQ(there.await().value, 1);
}

TEST_F(FarAwaitTest, ATimedWaitIsNoCircle) {
  make();
  TaskHandle<int> there;
  auto here = a->submit("g", "here", [&] {
    a->spend(1ms);
    return there.await_for(5ms) ? 0 : 7;
  });
  there = b->submit("h", "there", [&] { return *here.await().value; });
  EXPECT_EQ(there.await().value, 7);
}

// A task of `a` drains a group of `b`: it parks, so a task of that group may await one of the drainer's group.
TEST_F(FarAwaitTest, ADrainOfAnotherExecutorsGroupParks) {
  make({.max_concurrency = 1, .max_in_flight = 2});
  auto there = b->submit("h", "there", [&]() -> Task<int> {
    co_await sleep_for(1ms);
    co_return *(co_await a->submit("g", "inner", [] { return 42; })).value;
  });
  auto drains = a->submit("g", "drains", [&] { return b->drain_group("h", 1h).ok(); });

  EXPECT_EQ(drains.await().value, true);
  EXPECT_EQ(there.await().value, 42);
}

TEST(FarAwaitThreadsTest, ADrainOfAnotherExecutorsGroupParks) {
  const auto options = [] {
    return GroupExecutorOptions{.defaults = {.max_concurrency = 1}, .global_max_in_flight = 1, .threads = 1};
  };
  GroupExecutor a(options());
  GroupExecutor b(options());
  std::latch drains_now(1);
  auto there = b.submit("h", "there", [&]() -> int {
    drains_now.wait();
    return *a.submit("g", "inner", [] { return 42; }).await().value;
  });
  auto drains = a.submit("g", "drains", [&] {
    drains_now.count_down();
    return b.drain_group("h", 1h).ok();
  });

  EXPECT_EQ(drains.await().value, true);
  EXPECT_EQ(there.await().value, 42);
}

TEST(FarAwaitThreadsTest, PingPongWithThreadsEnds) {
  GroupExecutor a({.threads = 2});
  GroupExecutor b({.threads = 2});
  std::function<int(Executor&, Executor&, int)> go = [&](Executor& here, Executor& there, int depth) {
    if (depth == 0) return 0;
    return 1 + *there.submit("g", "p", [&, depth] { return go(there, here, depth - 1); }).await().value;
  };
  EXPECT_EQ(a.submit("g", "p", [&] { return go(a, b, 700); }).await().value, 700);
}

// Both last waits at once, again and again: it never hangs, and at least one of the two is told.
TEST(FarAwaitThreadsTest, TwoLastWaitsAtOnceDoNotBothMissTheCircle) {
  GroupExecutor a({.defaults = {.max_concurrency = 4}, .threads = 2});
  GroupExecutor b({.defaults = {.max_concurrency = 4}, .threads = 2});
  for (int round = 0; round < 300; ++round) {
    Promise<TaskHandle<bool>> known("known");
    auto here = a.submit("g", "here", [handle = known.handle()] {
      const auto there = handle.await();
      return !there.value->await().ok();
    });
    auto there = b.submit("g", "there", [here] { return !here.await().ok(); });
    known.settle(there);
    EXPECT_TRUE(*here.await().value || *there.await().value);
  }
}

}  // namespace
}  // namespace cohort
