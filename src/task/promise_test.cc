#include "cohort/task/promise.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "cohort/task/when.h"
#include "cohort/testing/manual_executor.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST(PromiseTest, GivesItsHandlesWhatItIsSettledWith) {
  Promise<int> promise("answer");
  const TaskHandle<int> handle = promise.handle();
  EXPECT_FALSE(handle.is_done());
  EXPECT_TRUE(promise.settle(42));
  EXPECT_FALSE(promise.settle(43)) << "only the first counts";
  const TaskResult<int> result = handle.await();
  EXPECT_EQ(result.value, 42);
  EXPECT_EQ(result.task_id, "answer");
  EXPECT_EQ(result.group, "");
}

TEST(PromiseTest, AnErrorIsAFailureAndKCancelledACancellation) {
  Promise<void> failed;
  failed.settle(Error{ErrorCode::kUnavailable, "gone"});
  EXPECT_EQ(failed.handle().await().status, TaskStatus::kFailed);
  EXPECT_EQ(failed.handle().await().error->message, "gone");
  Promise<void> cancelled;
  cancelled.settle(Error{ErrorCode::kCancelled, "enough"});
  EXPECT_EQ(cancelled.handle().await().status, TaskStatus::kCancelled);
  Promise<void> good;
  good.settle({});
  EXPECT_TRUE(good.handle().await().ok());
}

TEST(PromiseTest, ADroppedOneFails) {
  TaskHandle<int> handle;
  {
    Promise<int> promise("lost");
    handle = promise.handle();
    const Promise<int> moved(std::move(promise));
    EXPECT_FALSE(handle.is_done());
  }
  EXPECT_EQ(handle.await().error->code, ErrorCode::kEnded);
}

TEST(PromiseTest, AThreadWaitsForIt) {
  Promise<std::unique_ptr<int>> promise;
  const auto handle = promise.handle();
  std::thread other([&] { promise.settle(std::make_unique<int>(7)); });
  EXPECT_EQ(**handle.take().value, 7);
  other.join();
  Promise<int> never;
  EXPECT_FALSE(never.handle().await_for(1ms).has_value());
  never.settle(1);
  EXPECT_EQ(never.handle().await_for(0ms)->value, 1);
}

TEST(PromiseTest, ACancelIsToldOnceAndNotAfterTheEnd) {
  int told = 0;
  Promise<int> promise("x", [&] { ++told; });
  promise.handle().cancel();
  promise.handle().cancel();
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(promise.handle().is_done()) << "whoever does the work decides";
  promise.settle(Error{ErrorCode::kCancelled, "as you wish"});

  Promise<int> ended("y", [&] { ++told; });
  ended.settle(1);
  ended.handle().cancel();
  EXPECT_EQ(told, 1);
}

TEST(PromiseTest, ThenIsRefusedForItHasNoGroup) {
  Promise<int> promise;
  const auto next = promise.handle().then([](int value) { return value; });
  EXPECT_EQ(next.await().status, TaskStatus::kRejected);
  EXPECT_EQ(next.await().error->code, ErrorCode::kInvalid);
}

TEST(PromiseTest, TasksWaitForItWithTheirPermits) {
  VirtualClock clock;
  ManualExecutor executor(clock, {.defaults = {.max_concurrency = 2}});
  Promise<int> promise;
  Promise<int> second;
  const auto handle = promise.handle();
  const auto both = executor.submit("g", "coroutine", [&]() -> Task<int> {
    const auto all = co_await when_all(handle, second.handle());
    co_return *all[0].value + *all[1].value;
  });
  const auto plain = executor.submit("g", "plain", [&] { return *handle.await().value; });
  executor.run_until_idle();
  EXPECT_FALSE(both.is_done());
  EXPECT_EQ(executor.group_stats("g")->running, 2U);
  EXPECT_EQ(executor.group_stats("g")->parked, 0U);
  const auto next = executor.submit("g", "next", [] {});
  executor.run_until_idle();
  EXPECT_FALSE(next.is_done());
  promise.settle(5);
  executor.run_until_idle();
  EXPECT_EQ(plain.await().value, 5);
  EXPECT_TRUE(next.is_done());
  second.settle(6);
  executor.run_until_idle();
  EXPECT_EQ(both.await().value, 11);
}

TEST(PromiseTest, OfManyThatSettleItOneIsRight) {
  for (int round = 0; round < 200; ++round) {
    Promise<int> promise;
    const auto handle = promise.handle();
    std::atomic<int> right{-1};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        if (promise.settle(i)) right = i;
      });
    }
    const int value = *handle.await().value;
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(value, right.load());
  }
}

}  // namespace
}  // namespace cohort
