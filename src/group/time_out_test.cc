// Time-outs, cancelling, and the three ways to end: a group, a drain, the executor.

#include <stdexcept>
#include <string>
#include <vector>

#include "cohort/task/sleep.h"
#include "cohort/task/task_scope.h"
#include "cohort/task/this_task.h"
#include "testing/world_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class TimeOutTest : public WorldTest {};

TEST_F(TimeOutTest, QueueAndRunTimeOutsAreToldApart) {
  make_world({.threads = 2});
  auto running = executor().submit("a", "running", [&] { executor().spend(50ms); }, {.run_timeout = 10ms});
  auto queued = executor().submit("a", "queued", [] {}, {.queue_timeout = 5ms});
  executor().advance(5ms);
  ASSERT_TRUE(queued.is_done());
  EXPECT_EQ(queued.await().status, TaskStatus::kTimedOutQueued);
  EXPECT_EQ(queued.await().duration(), 0ms);
  EXPECT_FALSE(running.is_done());

  executor().advance(5ms);
  ASSERT_TRUE(running.is_done());
  EXPECT_EQ(running.await().status, TaskStatus::kTimedOutRunning);
  EXPECT_EQ(running.await().error->code, ErrorCode::kTimedOut);
  EXPECT_EQ(running.await().duration(), 10ms);
}

TEST_F(TimeOutTest, ADeadlineCountsInEitherPhase) {
  make_world();
  auto first = executor().submit("a", "1", [&] { executor().spend(20ms); }, {.deadline = now() + 10ms});
  auto second = executor().submit("a", "2", [] {}, {.deadline = now() + 9ms});
  auto gone = executor().submit("b", "3", [] {}, {.deadline = now() - 1ms});
  executor().advance(10ms);

  EXPECT_EQ(first.await().status, TaskStatus::kTimedOutRunning);
  EXPECT_EQ(second.await().status, TaskStatus::kTimedOutQueued);
  EXPECT_EQ(gone.await().status, TaskStatus::kTimedOutQueued);
}

TEST_F(TimeOutTest, AWaitForEverDoesNotComeRoundToThePast) {
  make_world();
  auto task = executor().submit("a", "1", [&] { executor().spend(1h); },
                                {.queue_timeout = Duration::max(), .run_timeout = Duration::max()});
  EXPECT_TRUE(task.await_for(Duration::max())->ok());
}

TEST_F(TimeOutTest, OverrunningBodiesReturnTheirPermitsAndAreBounded) {
  make_world(
      {.groups = {{"a", {.max_concurrency = 2, .max_overrunning = 2}}}, .global_max_in_flight = 2, .threads = 6});
  bool stop_seen = false;
  for (int i = 0; i < 2; ++i) {
    executor().submit("a", "deaf",
                      [&](std::stop_token token) {
                        executor().spend(100ms);
                        stop_seen = token.stop_requested();
                      },
                      {.run_timeout = 10ms});
  }
  executor().advance(10ms);
  EXPECT_EQ(executor().group_stats("a")->overrunning, 2U);
  EXPECT_EQ(executor().stats().running, 0U);

  auto next = executor().submit("a", "next", [] {});
  auto other = executor().submit("b", "other", [] {});
  executor().run();
  EXPECT_FALSE(next.is_done()) << "a group with so many bodies past their time starts nothing new";
  EXPECT_TRUE(other.is_done());
  EXPECT_EQ(executor().explain(next).bound, Bound::kOverrunning);

  executor().advance(90ms);
  EXPECT_TRUE(next.is_done());
  EXPECT_TRUE(stop_seen);
  EXPECT_EQ(executor().stats().overrunning, 0U);
}

TEST_F(TimeOutTest, AnOpenAwaitFailsAtTheTimeOutAndSoDoesEveryLaterOne) {
  make_world({.threads = 2});
  std::vector<ErrorCode> seen;
  auto slow = executor().submit("slow", "s", [&] {
    executor().spend(50ms);
    return 5;
  });
  auto plain = executor().submit("a", "plain",
                                 [&, slow] {
                                   seen.push_back(slow.await().error->code);
                                   seen.push_back(slow.await().error->code);
                                 },
                                 {.run_timeout = 10ms});
  auto coroutine = executor().submit("b", "coroutine",
                                     [&, slow]() -> Task<> {
                                       seen.push_back((co_await slow).error->code);
                                       seen.push_back((co_await slow).error->code);
                                     },
                                     {.run_timeout = 10ms});
  executor().advance(10ms);

  EXPECT_EQ(seen, std::vector<ErrorCode>(4, ErrorCode::kTimedOut));
  EXPECT_EQ(plain.await().status, TaskStatus::kTimedOutRunning);
  EXPECT_EQ(coroutine.await().status, TaskStatus::kTimedOutRunning);
  EXPECT_EQ(slow.await().value, 5) << "the awaited task is untouched";
}

TEST_F(TimeOutTest, ASleepingCoroutineTimesOut) {
  make_world();
  auto task = executor().submit("a", "1", []() -> Task<> { co_await sleep_for(1s); }, {.run_timeout = 10ms});
  executor().advance(10ms);
  EXPECT_EQ(task.await().status, TaskStatus::kTimedOutRunning);
  EXPECT_EQ(executor().stats().running, 0U);
  EXPECT_EQ(executor().stats().overrunning, 1U);
  executor().advance(1s);
  EXPECT_EQ(executor().stats().overrunning, 0U);
}

TEST_F(TimeOutTest, ACoroutineLetGoFromABlockingAwaitMaySleepAndEnd) {
  make_world({.threads = 2});
  auto slow = executor().submit("slow", "s", [&] { executor().spend(50ms); });
  bool ended = false;
  auto task = executor().submit("a", "1",
                                [&, slow]() -> Task<> {
                                  static_cast<void>(slow.await());
                                  co_await sleep_for(5ms);
                                  ended = true;
                                },
                                {.run_timeout = 10ms});
  executor().advance(14ms);
  EXPECT_EQ(task.await().status, TaskStatus::kTimedOutRunning);
  EXPECT_FALSE(ended);
  executor().advance(1ms);
  EXPECT_TRUE(ended);
}

TEST_F(TimeOutTest, AScopeWaitsForItsChildrenEvenPastTheTimeOut) {
  make_world({.threads = 1});
  bool child_ended = false;
  bool child_had_ended = false;
  executor().submit("a", "parent",
                    [&] {
                      {
                        TaskScope scope(executor());
                        scope.submit("b", "child", [&](std::stop_token token) {
                          while (!token.stop_requested()) executor().spend(1ms);
                          executor().spend(20ms);
                          child_ended = true;
                        });
                        static_cast<void>(scope.join());
                      }
                      child_had_ended = child_ended;
                    },
                    {.run_timeout = 10ms});
  executor().run_until_idle();
  EXPECT_TRUE(child_had_ended);
}

TEST_F(TimeOutTest, ATaskThatIsTakenBackHasItsRunTimeAgain) {
  make_world({.threads = 1});
  ASSERT_TRUE(executor().pause_group("a"));
  auto task = executor().submit("a", "1", [&] { executor().spend(5ms); }, {.run_timeout = 10ms});
  executor().advance(1s);
  EXPECT_FALSE(task.is_done());
  ASSERT_TRUE(executor().resume_group("a"));
  EXPECT_TRUE(task.await().ok());
}

TEST_F(TimeOutTest, CancellingAWaitingTaskSettlesItAtOnceAndFreesItsPlace) {
  make_world({.groups = {{"a", {.max_waiting = 2}}}});
  ASSERT_TRUE(executor().pause_group("a"));
  auto first = executor().submit("a", "1", [] {});
  auto second = executor().submit("a", "2", [] {});
  first.cancel();
  ASSERT_TRUE(first.is_done());
  EXPECT_EQ(first.await().status, TaskStatus::kCancelled);
  EXPECT_EQ(executor().group_stats("a")->waiting, 1U);

  auto third = executor().submit("a", "3", [] {});
  EXPECT_FALSE(third.is_done()) << "there is a place again";
  ASSERT_TRUE(executor().resume_group("a"));
  EXPECT_TRUE(third.await().ok());
  EXPECT_TRUE(second.await().ok());
}

TEST_F(TimeOutTest, CancellingFreesWhatTheCallableOwns) {
  make_world();
  auto owned = std::make_shared<int>(1);
  ASSERT_TRUE(executor().pause_group("a"));
  auto task = executor().submit("a", "1", [owned] {});
  task.cancel();
  EXPECT_EQ(owned.use_count(), 1);
}

TEST_F(TimeOutTest, CancellingARunningTaskIsCooperative) {
  make_world({.threads = 8});
  const auto until_stopped = [&](auto after) {
    return [&, after](std::stop_token token) {
      while (!token.stop_requested()) executor().spend(1ms);
      return after();
    };
  };
  auto throws = executor().submit("a", "1", until_stopped([]() -> int { throw std::runtime_error("stopping"); }));
  auto says = executor().submit("b", "2", until_stopped([]() -> Result<int> {
                                  return Error{ErrorCode::kCancelled, "as asked", {}};
                                }));
  auto value = executor().submit("c", "3", until_stopped([]() -> int { return 7; }));
  auto deaf = executor().submit("d", "4", [&] {
    executor().spend(5ms);
    return 8;
  });
  executor().advance(2ms);
  for (auto* handle : {&throws, &says, &value, &deaf}) handle->cancel();
  executor().advance(10ms);

  EXPECT_EQ(throws.await().status, TaskStatus::kCancelled);
  EXPECT_EQ(says.await().status, TaskStatus::kCancelled);
  EXPECT_EQ(value.await().value, 7);
  EXPECT_EQ(deaf.await().value, 8);
}

TEST_F(TimeOutTest, AShutGroupCanBeUsedAgainAndOldBodiesStillCount) {
  make_world({.threads = 4});
  auto old = executor().submit("a", "old", [&](std::stop_token) { executor().spend(10ms); });
  auto waiting = executor().submit("a", "waiting", [] {});
  auto following = old.then([] {});
  executor().run();
  ASSERT_TRUE(executor().shutdown_group("a"));
  EXPECT_EQ(waiting.await().status, TaskStatus::kCancelled);
  EXPECT_EQ(following.await().status, TaskStatus::kCancelled);

  auto fresh = executor().submit("a", "fresh", [] {});
  executor().advance(9ms);
  EXPECT_FALSE(fresh.is_done());
  executor().advance(1ms);
  EXPECT_TRUE(fresh.is_done());
  EXPECT_TRUE(old.is_done());
}

TEST_F(TimeOutTest, DrainingRefusesNewWorkAndWaitsForTheRest) {
  make_world({.threads = 4});
  auto running = executor().submit("a", "running", [&] {
    executor().spend(5ms);
    return executor().submit("a", "nested", [] { return 3; }).await().value.value_or(0);
  });
  std::vector<TaskStatus> refused;
  executor().submit("b", "late", [&] {
    executor().spend(2ms);
    refused.push_back(executor().submit("a", "new", [] {}).await().status);
  });

  EXPECT_TRUE(executor().drain_group("a", 1s));
  EXPECT_EQ(running.await().value, 3) << "what its own tasks submit belongs to the rest";
  EXPECT_EQ(refused, std::vector{TaskStatus::kRejected});
  EXPECT_TRUE(executor().submit("a", "again", [] {}).await().ok());
}

TEST_F(TimeOutTest, ATaskMayDrainAnotherGroupWithEveryLimitAtOne) {
  make_world({.global_max_in_flight = 1, .threads = 1});
  auto task = executor().submit("d", "drainer", [&] {
    for (int i = 0; i < 3; ++i) executor().submit("a", "work", [&] { executor().spend(1ms); });
    return executor().drain_group("a", 1s).ok();
  });
  EXPECT_EQ(task.await().value, true);
}

TEST_F(TimeOutTest, DrainingGivesUpAfterItsTime) {
  make_world();
  executor().submit("a", "long", [&] { executor().spend(1s); });
  EXPECT_EQ(executor().drain_group("a", 10ms).error().code, ErrorCode::kTimedOut);
  EXPECT_TRUE(executor().submit("a", "again", [] {}).await().ok());
}

TEST_F(TimeOutTest, DrainingOrShuttingDownFromInsideIsAnError) {
  make_world();
  auto inside = executor().submit("a", "inside", [&] {
    EXPECT_EQ(executor().drain_group("a", 1s).error().code, ErrorCode::kConflict);
    EXPECT_EQ(executor().shutdown(1s).error().code, ErrorCode::kConflict);
  });
  EXPECT_TRUE(inside.await().ok());
}

TEST_F(TimeOutTest, DrainingAGroupThatAwaitsTheDrainerIsAnErrorToo) {
  make_world({.threads = 2});
  auto outer = executor().submit("a", "outer", [&] {
    auto inner = executor().submit("b", "inner", [&] { return executor().drain_group("a", 1s).error().code; });
    return inner.then([](ErrorCode code) { return code; }).await().value;
  });
  EXPECT_EQ(outer.await().value, ErrorCode::kConflict);
}

TEST_F(TimeOutTest, AfterACancellingShutdownNotEvenTasksMaySubmit) {
  make_world();
  auto deaf = executor().submit("a", "deaf", [&] {
    executor().spend(20ms);
    return executor().submit("b", "late", [] {}).await().status;
  });
  EXPECT_EQ(executor().shutdown(10ms).error().code, ErrorCode::kTimedOut);
  EXPECT_EQ(deaf.await().value, TaskStatus::kRejected);
}

TEST_F(TimeOutTest, ShutdownLetsTheRestFinishThenRefuses) {
  make_world();
  auto running = executor().submit("a", "1", [&] {
    executor().spend(5ms);
    return executor().submit("b", "nested", [] { return 2; }).await().value.value_or(0);
  });
  EXPECT_TRUE(executor().shutdown(1s));
  EXPECT_EQ(running.await().value, 2);

  auto late = executor().submit("a", "late", [] {});
  ASSERT_TRUE(late.is_done());
  EXPECT_EQ(late.await().status, TaskStatus::kRejected);
  EXPECT_EQ(late.await().error->code, ErrorCode::kEnded);
  EXPECT_EQ(late.group(), "a");
}

TEST_F(TimeOutTest, ShutdownCancelsWhatIsLeftAtItsTime) {
  make_world();
  auto running = executor().submit("a", "running", [&](std::stop_token token) -> Result<void> {
    while (!token.stop_requested()) executor().spend(1ms);
    return Error{ErrorCode::kCancelled, "stopped", {}};
  });
  auto waiting = executor().submit("a", "waiting", [] {});
  EXPECT_EQ(executor().shutdown(10ms).error().code, ErrorCode::kTimedOut);
  EXPECT_EQ(waiting.await().status, TaskStatus::kCancelled);
  executor().advance(1ms);
  EXPECT_EQ(running.await().status, TaskStatus::kCancelled);
}

TEST_F(TimeOutTest, HandlesOutliveTheirExecutor) {
  TaskHandle<int> handle;
  {
    World world;
    handle = world.executor.submit("a", "1", [] { return 4; });
    world.executor.run();
  }
  EXPECT_EQ(handle.await().value, 4);
  EXPECT_EQ(handle.group(), "a");
}

// ---- sleeps that a stop request ends

class StoppedSleepTest : public WorldTest {
 protected:
  TaskHandle<int> poller(const SubmitOptions& options = {}) {
    return executor().submit(
        "g", "poller",
        []() -> Task<int> {
          int rounds = 0;
          while (co_await sleep_unless_stopped(1s)) ++rounds;
          co_return rounds;
        },
        options);
  }
};

TEST_F(StoppedSleepTest, ACancelEndsIt) {
  make_world();
  const Time begin = now();
  auto task = poller();
  executor().advance(2500ms);
  task.cancel();
  EXPECT_EQ(task.await().value, 2);
  EXPECT_EQ(now() - begin, 2500ms);
}

TEST_F(StoppedSleepTest, ATimeOutAndAShutdownEndIt) {
  make_world({.defaults = {.max_concurrency = 2}});
  auto late = poller({.run_timeout = 1500ms});
  auto other = poller();
  executor().advance(1600ms);
  EXPECT_EQ(late.await().status, TaskStatus::kTimedOutRunning);
  EXPECT_EQ(executor().group_stats("g")->overrunning, 0U) << "its body has heard of it";
  ASSERT_TRUE(executor().shutdown_group("g"));
  executor().run();
  EXPECT_TRUE(other.is_done());
}

TEST_F(StoppedSleepTest, WhoWasAskedBeforeDoesNotSleep) {
  make_world({.threads = 1});
  TaskHandle<bool> task = executor().submit("g", "t", [&]() -> Task<bool> {
    task.cancel();
    co_return co_await sleep_unless_stopped(1h);
  });
  const Time begin = now();
  executor().run();
  EXPECT_TRUE(task.is_done());
  EXPECT_EQ(now(), begin);
}

// ---- what a body knows of itself

TEST_F(StoppedSleepTest, ABodyCanAskForItsDeadlineAndItsStop) {
  make_world();
  EXPECT_EQ(this_task::deadline(), std::nullopt);
  EXPECT_FALSE(this_task::stop_token().stop_possible());
  const Time begin = now();
  auto limited = executor().submit("g", "limited", [] { return this_task::deadline(); }, {.run_timeout = 3s});
  EXPECT_EQ(limited.await().value, begin + 3s);
  auto stopped = executor().submit("g", "stopped", [&] {
    const std::stop_token token = this_task::stop_token();
    EXPECT_FALSE(token.stop_requested());
    executor().spend(1s);
    return token.stop_requested();
  });
  executor().advance(500ms);
  stopped.cancel();
  EXPECT_EQ(stopped.await().value, true);
}

}  // namespace
}  // namespace cohort
