// Users' code that follows from what has happened: on whose thread it runs, and whom it keeps waiting.

#include <gtest/gtest.h>

#include <pthread.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/group/group_executor.h"
#include "cohort/task/sleep.h"
#include "cohort/task/task.h"
#include "cohort/task/when.h"
#include "testing/world_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

// Does something when it is destroyed, once.
class Destroyed {
 public:
  explicit Destroyed(std::function<void()> what) : what_(std::move(what)) {}
  Destroyed(Destroyed&& other) noexcept : what_(std::exchange(other.what_, nullptr)) {}
  Destroyed& operator=(Destroyed&& other) noexcept {
    std::swap(what_, other.what_);
    return *this;
  }
  ~Destroyed() {
    if (what_) what_();
  }

 private:
  std::function<void()> what_;
};

class Gate {
 public:
  void set() {
    open_ = true;
    open_.notify_all();
  }
  void wait() { open_.wait(false); }

 private:
  std::atomic<bool> open_{false};
};

class ChoresTest : public WorldTest {
 protected:
  VirtualClock& virtual_clock() { return world().clock; }
};

TEST_F(ChoresTest, SettlementsOfAGroupWithSlowDestructorsDelayNobodyElses) {
  make_world({.threads = 1});
  ASSERT_TRUE(executor().pause_group("slow"));
  ASSERT_TRUE(executor().pause_group("quick"));
  for (int i = 0; i < 100; ++i) {
    executor().submit("slow", "s", [owned = Destroyed([this] { executor().spend(1ms); })] {},
                      {.deadline = now() + 5ms});
  }
  auto quick = executor().submit("quick", "q", [] {}, {.deadline = now() + 6ms});
  executor().advance(9ms);
  EXPECT_TRUE(quick.is_done()) << "at most one of those destructors was before it";
  EXPECT_GT(executor().stats().counters.count(TaskStatus::kTimedOutQueued), 100U);
}

TEST_F(ChoresTest, TheyAreChargedToTheirGroup) {
  make_world({.threads = 1});
  int others = 0;
  // Results that take as long to destroy as the other group's tasks take to run.
  for (int i = 0; i < 600; ++i) {
    executor().submit("a", "a", [this] { return Destroyed([this] { executor().spend(300us); }); });
    executor().submit("b", "b", [&] {
      executor().spend(300us);
      ++others;
    });
  }
  executor().advance(100ms);
  EXPECT_NEAR(others, 166, 10) << "half of the time each";
  ASSERT_TRUE(executor().run_until_idle());
}

TEST_F(ChoresTest, AGroupsTasksAndItsChoresTakeTurns) {
  make_world({.groups = {{"a", {.max_concurrency = 2}}}, .threads = 1});
  int ran = 0;
  ASSERT_TRUE(executor().pause_group("a"));
  for (int i = 0; i < 100; ++i) {
    executor().submit("a", "late", [owned = Destroyed([this] { executor().spend(300us); })] {},
                      {.deadline = now() + 1ms});
  }
  for (int i = 0; i < 100; ++i) {
    executor().submit("a", "runs", [&] {
      executor().spend(300us);
      ++ran;
    });
  }
  executor().advance(1ms);
  ASSERT_TRUE(executor().resume_group("a"));
  executor().advance(30ms);
  EXPECT_GE(ran, 40);
  EXPECT_LE(ran, 60);
  ASSERT_TRUE(executor().run_until_idle());
}

TEST_F(ChoresTest, WhoseOwnCallEndsATaskSettlesIt) {
  make_world({.threads = 1});
  const auto here = std::this_thread::get_id();
  std::thread::id destroyed_on;
  auto blocker = executor().submit("a", "runs", [&] { executor().spend(10ms); });
  auto waiting =
      executor().submit("a", "waits", [owned = Destroyed([&] { destroyed_on = std::this_thread::get_id(); })] {});
  executor().run_one();
  waiting.cancel();
  EXPECT_TRUE(waiting.is_done()) << "at once, though the only worker is busy";
  EXPECT_EQ(destroyed_on, here);
  EXPECT_TRUE(blocker.await().ok());
}

TEST_F(ChoresTest, ChoresThatNobodyComesForGetAWorkerOfTheirOwn) {
  make_world({.threads = 2});
  std::vector<TaskHandle<bool>> spinning;
  for (int i = 0; i < 2; ++i) {
    spinning.push_back(executor().submit("g" + std::to_string(i), "spins",
                                         [this](std::stop_token stop) {
                                           while (!stop.stop_requested()) executor().spend(100ms);
                                           return true;
                                         },
                                         {.run_timeout = 5ms}));
  }
  executor().advance(5ms);
  EXPECT_FALSE(spinning[0].is_done()) << "both workers are busy";
  executor().advance(1ms);
  EXPECT_TRUE(spinning[0].is_done());
  EXPECT_TRUE(spinning[1].is_done());
}

TEST_F(ChoresTest, AShutdownEndsExactlyWhatWasThere) {
  make_world({.threads = 1});
  // In many steps, with what follows from one done before the next: a destructor that submits meanwhile.
  std::vector<TaskHandle<int>> before;
  std::vector<TaskHandle<int>> meanwhile;
  ASSERT_TRUE(executor().pause_group("a"));
  for (int i = 0; i < 2000; ++i) {
    before.push_back(executor().submit("a", "b", [owned = Destroyed([this, &meanwhile] {
                                                    meanwhile.push_back(executor().submit("a", "m", [] { return 1; }));
                                                  })] { return 0; }));
  }
  ASSERT_TRUE(executor().shutdown_group("a"));
  for (const auto& each : before) EXPECT_EQ(each.await().status, TaskStatus::kCancelled);
  EXPECT_EQ(meanwhile.size(), 2000U);
  for (const auto& each : meanwhile) EXPECT_FALSE(each.is_done());
  ASSERT_TRUE(executor().resume_group("a"));
  for (const auto& each : meanwhile) EXPECT_EQ(each.await().value, 1);
}

TEST_F(ChoresTest, AShutdownReachesThoseThatMoveMeanwhile) {
  make_world({.groups = {{"a", {.max_concurrency = kUnlimited}}}, .threads = 2});
  // They sleep when it begins, and wake while it is under way.
  std::vector<TaskHandle<bool>> sleepers;
  for (int i = 0; i < 3000; ++i) {
    sleepers.push_back(executor().submit("a", "s", [](std::stop_token stop) -> Task<bool> {
      for (int step = 0; step < 5; ++step) co_await sleep_for(1ms);
      co_return stop.stop_requested();
    }));
  }
  std::vector<TaskHandle<int>> waiting;
  executor().run();
  auto own = executor().submit("b", "shuts it down", [this] { return executor().shutdown_group("a").ok(); });
  EXPECT_TRUE(*own.await().value);
  for (const auto& each : sleepers) EXPECT_EQ(each.await().value, true);
}

TEST_F(ChoresTest, NoTaskStartsPastItsTimeHoweverManyTimeOutAtOnce) {
  make_world({.groups = {{"a", {.max_concurrency = 4}}}, .threads = 2});
  constexpr int kMany = 5000;
  ASSERT_TRUE(executor().pause_group("a"));
  int started = 0;
  std::vector<TaskHandle<void>> late;
  for (int i = 0; i < kMany; ++i) {
    late.push_back(executor().submit("a", "late", [&] { ++started; }, {.deadline = now() + 1ms}));
  }
  auto in_time = executor().submit("a", "in time", [] { return 1; }, {.deadline = now() + 1h});
  virtual_clock().set(now() + 1ms);  // Nobody has looked at a timer yet.
  ASSERT_TRUE(executor().resume_group("a"));
  EXPECT_EQ(in_time.await().value, 1);
  for (const auto& each : late) EXPECT_EQ(each.await().status, TaskStatus::kTimedOutQueued);
  EXPECT_EQ(started, 0);
}

TEST_F(ChoresTest, AnAwaitOfThousandsMarksAllOfThem) {
  make_world({.defaults = {.max_concurrency = 1, .max_in_flight = 1}, .threads = 2});
  auto outer = executor().submit("a", "outer", [this] {
    std::vector<GroupTask<int>> tasks;
    for (int i = 0; i < 3000; ++i) tasks.emplace_back("a", "t", [i] { return i; });
    long sum = 0;
    for (const auto& result : executor().execute_all(tasks)) sum += *result.value;
    return sum;
  });
  EXPECT_EQ(outer.await().value, 3000L * 2999 / 2);
}

TEST_F(ChoresTest, ACircleThroughOneOfThousandsIsFound) {
  make_world({.defaults = {.max_concurrency = kUnlimited}, .threads = 2});
  TaskHandle<std::string> outer;
  outer = executor().submit("a", "outer", [&]() -> Task<std::string> {
    std::vector<TaskHandle<int>> many;
    for (int i = 0; i < 2000; ++i) {
      many.push_back(executor().submit("b", "t", [&, i]() -> Task<int> {
        if (i == 1777) static_cast<void>(co_await outer.settled());
        co_return i;
      }));
    }
    co_await sleep_for(1ms);
    const auto all = co_await when_all(many);
    (void)all;
    co_return "awaited";
  });
  const auto result = outer.await();
  EXPECT_TRUE(result.ok());
}

TEST_F(ChoresTest, ACallerRunsItsTaskItselfWhereTheQueueIsFull) {
  make_world({.groups = {{"a", {.max_waiting = 1, .overflow = OverflowPolicy::kCallerRuns}}}, .threads = 2});
  std::vector<std::string> order;
  const auto task = [&](const char* name) {
    return executor().submit("a", name, [this, &order, name] {
      executor().spend(1ms);
      order.emplace_back(name);
    });
  };
  auto runs = task("runs");
  executor().run_one();
  auto waits = task("waits");
  auto own = task("own");
  EXPECT_TRUE(own.is_done() || executor().group_stats("a")->running == 1) << "it has begun when submit() returns";
  ASSERT_TRUE(executor().run_until_idle());
  EXPECT_EQ(order, (std::vector<std::string>{"runs", "own", "waits"})) << "ahead of the queue";
}

TEST_F(ChoresTest, CallersDoNotKeepTheQueueWaitingForEver) {
  make_world({.groups = {{"a", {.max_waiting = 1, .overflow = OverflowPolicy::kCallerRuns}}}, .threads = 2});
  auto first = executor().submit("a", "1", [this] { executor().spend(1ms); });
  auto queued = executor().submit("a", "2", [this] { executor().spend(1ms); });
  for (int i = 0; i < 10; ++i) executor().submit("a", "own", [this] { executor().spend(1ms); });
  EXPECT_TRUE(queued.is_done());
}

TEST_F(ChoresTest, FromInsideATaskCallerRunsRejects) {
  make_world({.groups = {{"a", {.max_waiting = 0, .overflow = OverflowPolicy::kCallerRuns}}}, .threads = 2});
  auto outer =
      executor().submit("a", "outer", [this] { return executor().submit("a", "inner", [] {}).await().status; });
  EXPECT_EQ(outer.await().value, TaskStatus::kRejected);
}

TEST_F(ChoresTest, WhatWouldWaitLongerThanItsTimeIsRejectedIfAsked) {
  make_world({.threads = 1, .reject_hopeless = true});
  const auto task = [&](SubmitOptions options) {
    return executor().submit(
        "a", "t", [this] { executor().spend(10ms); }, options);
  };
  ASSERT_TRUE(task({}).await().ok());
  for (int i = 0; i < 5; ++i) static_cast<void>(task({}));
  executor().run();
  auto hopeless = task({.deadline = now() + 30ms});
  ASSERT_TRUE(hopeless.is_done());
  EXPECT_EQ(hopeless.await().status, TaskStatus::kRejected);
  EXPECT_EQ(hopeless.await().error->message,
            "task 't' of group 'a' would wait for about 45 ms, and its time runs out in 30 ms");
  EXPECT_TRUE(task({.deadline = now() + 100ms}).await().ok());
}

// ---- with threads

TEST(ChoresThreadsTest, NoUsersCodeRunsOnTheThreadThatFiresTimersOrUnderALock) {
  const auto name = [] {
    std::array<char, 32> text{};
    pthread_getname_np(pthread_self(), text.data(), text.size());
    return std::string(text.data());
  };
  enum Kind { kResolver, kListener, kProbe, kDestructor, kDone, kStopCallback, kTimer, kResult, kKinds };
  std::atomic<int> on_watcher{0};
  std::array<std::atomic<int>, kKinds> calls{};
  std::atomic<GroupExecutor*> self{nullptr};
  // Every one of them calls the executor, which would wait for its own lock if it were held.
  const auto look = [&](Kind kind) {
    ++calls.at(kind);
    if (name() == "cohort-watch") ++on_watcher;
    if (GroupExecutor* const executor = self) static_cast<void>(executor->stats());
  };
  {
    GroupExecutor executor({.resolver = [&](std::string_view) -> GroupLimits {
                              look(kResolver);
                              return {.max_concurrency = 2};
                            },
                            .threads = 2,
                            .listener = [&](const TaskEvent&) { look(kListener); },
                            .blocked_probe =
                                [&](std::int32_t) {
                                  look(kProbe);
                                  return false;
                                }});
    self = &executor;
    std::vector<TaskHandle<void>> all;
    for (int i = 0; i < 20; ++i) {
      const std::string group = "g" + std::to_string(i % 4);
      all.push_back(executor.submit(group, "waits", [&, owned = Destroyed([&] { look(kDestructor); })] {},
                                    {.queue_timeout = 1ms}));
      all.back().on_done([&](const TaskResult<void>&) { look(kDone); });
      static_cast<void>(executor.submit(group, "gives", [&] { return Destroyed([&] { look(kResult); }); }));
      all.push_back(executor.submit(group, "runs",
                                    [&](std::stop_token stop) {
                                      const std::stop_callback callback(stop, [&] { look(kStopCallback); });
                                      while (!stop.stop_requested()) std::this_thread::yield();
                                    },
                                    {.run_timeout = 2ms}));
    }
    Gate called;
    executor.call_at(executor.clock().now() + 1ms, [&] {
      look(kTimer);
      called.set();
    });
    called.wait();
    for (const auto& each : all) static_cast<void>(each.await());
  }
  for (int kind = 0; kind < kKinds; ++kind) EXPECT_GT(calls.at(static_cast<std::size_t>(kind)), 0) << kind;
  EXPECT_EQ(on_watcher, 0);
}

TEST(ChoresThreadsTest, ASlowDestructorKeepsNoTimerWaiting) {
  GroupExecutor executor({.threads = 2});
  Gate may_end;
  static_cast<void>(executor.pause_group("slow"));
  auto slow = executor.submit("slow", "s", [owned = Destroyed([&] { may_end.wait(); })] {}, {.queue_timeout = 1ms});
  // Would never end if the thread that fires timers were in that destructor.
  auto sleeps = executor.submit("quick", "q", []() -> Task<int> {
    for (int i = 0; i < 20; ++i) co_await sleep_for(1ms);
    co_return 1;
  });
  EXPECT_EQ(sleeps.await().value, 1);
  EXPECT_FALSE(slow.is_done());
  may_end.set();
  EXPECT_EQ(slow.await().status, TaskStatus::kTimedOutQueued);
}

TEST(ChoresThreadsTest, ABodyThatWasInTheExecutorMeanwhileIsNotTakenForBlocked) {
  std::atomic<int> probes{0};
  std::atomic<bool> has_called{false};
  GroupExecutor executor({.threads = 1, .blocked_probe = [&](std::int32_t) {
                            if (++probes != 1) return false;
                            while (!has_called) std::this_thread::yield();
                            return true;  // As if it had waited for the executor's lock just now.
                          }});
  std::atomic<bool> other_ran{false};
  bool ran_beside = false;
  auto body = executor.submit("a", "runs", [&] {
    while (probes == 0) std::this_thread::yield();
    static_cast<void>(executor.stats());
    has_called = true;
    while (probes < 4) std::this_thread::yield();
    ran_beside = other_ran;
  });
  auto other = executor.submit("b", "waits", [&] { other_ran = true; });
  EXPECT_TRUE(body.await().ok());
  EXPECT_TRUE(other.await().ok());
  EXPECT_FALSE(ran_beside) << "no thread stood in for a body that was not blocked";
}

TEST(ChoresThreadsTest, WorkersThatSpinAreToldToStop) {
  GroupExecutor executor({.threads = 2, .blocked_probe = [](std::int32_t) { return false; }});
  std::vector<TaskHandle<void>> spinning;
  for (int i = 0; i < 2; ++i) {
    spinning.push_back(executor.submit("g" + std::to_string(i), "spins",
                                       [](std::stop_token stop) {
                                         while (!stop.stop_requested()) std::this_thread::yield();
                                       },
                                       {.run_timeout = 2ms}));
  }
  for (const auto& each : spinning) EXPECT_EQ(each.await().status, TaskStatus::kTimedOutRunning);
}

// The thread that ends waits for its thread-local objects; nobody waits for that thread.
TEST(ChoresThreadsTest, AThreadThatEndsSlowlyKeepsNoTimerWaiting) {
  static Gate* may_end = nullptr;
  static std::atomic<int> slow_ends{0};
  struct SlowEnd {
    bool used = false;
    ~SlowEnd() {
      if (!used) return;
      ++slow_ends;
      may_end->wait();
    }
  };
  Gate event;
  may_end = &event;
  slow_ends = 0;
  {
    GroupExecutor executor({.groups = {{"blocks", {.max_concurrency = 8}}}, .threads = 1});
    Gate go;
    std::vector<TaskHandle<void>> all;
    for (int i = 0; i < 8; ++i) {
      all.push_back(executor.submit("blocks", "b", [&] {
        static thread_local SlowEnd slow;
        slow.used = true;
        go.wait();
      }));
    }
    while (executor.thread_count() < 8) std::this_thread::sleep_for(1ms);
    go.set();
    for (const auto& each : all) static_cast<void>(each.await());
    while (slow_ends == 0) std::this_thread::sleep_for(1ms);
    auto sleeps = executor.submit("quick", "q", []() -> Task<int> {
      for (int i = 0; i < 5; ++i) co_await sleep_for(1ms);
      co_return 1;
    });
    EXPECT_EQ(sleeps.await().value, 1);
    event.set();
  }
}

TEST(ChoresThreadsTest, TheCallerRunsOnItsOwnThread) {
  GroupExecutor executor(
      {.groups = {{"a", {.max_waiting = 1, .overflow = OverflowPolicy::kCallerRuns}}}, .threads = 2});
  Gate started;
  Gate go;
  auto runs = executor.submit("a", "runs", [&] {
    started.set();
    go.wait();
  });
  started.wait();
  auto waits = executor.submit("a", "waits", [] { return std::this_thread::get_id(); });
  std::thread submitter([&] {
    auto own = executor.submit("a", "own", [] { return std::this_thread::get_id(); });
    EXPECT_EQ(own.await().value, std::this_thread::get_id());
  });
  while (executor.active_groups().empty()) std::this_thread::yield();
  std::this_thread::sleep_for(5ms);
  go.set();
  submitter.join();
  EXPECT_NE(waits.await().value, std::this_thread::get_id());
}

// A caller's thread takes no worker's place, however long its task blocks.
TEST(ChoresThreadsTest, ACallerWhoseTaskBlocksKeepsNoOtherGroupWaiting) {
  GroupExecutor executor({.groups = {{"a", {.max_waiting = 0, .overflow = OverflowPolicy::kCallerRuns}}},
                          .threads = 1,
                          .blocked_probe = [](std::int32_t) { return false; }});
  Gate first_may_end;
  Gate caller_runs;
  Gate caller_may_end;
  auto first = executor.submit("a", "first", [&] { first_may_end.wait(); });
  std::thread submitter([&] {
    auto own = executor.submit("a", "own", [&] {
      EXPECT_EQ(executor.submit("b", "awaited", [] { return 1; }).await().value, 1);
      caller_runs.set();
      caller_may_end.wait();
      return std::this_thread::get_id();
    });
    EXPECT_EQ(own.await().value, std::this_thread::get_id());
  });
  while (executor.stats().counters.submitted != 2) std::this_thread::yield();
  first_may_end.set();
  caller_runs.wait();
  EXPECT_TRUE(executor.submit("b", "b", [] {}).await().ok());
  caller_may_end.set();
  submitter.join();
}

// What it would wait for may wait for its thread.
TEST(ChoresThreadsTest, UsersCodeOnAWorkerIsRefusedAtADoor) {
  GroupExecutor executor({.groups = {{"a", {.max_waiting = 1, .overflow = OverflowPolicy::kBlock}}}, .threads = 1});
  std::atomic<int> rejected{0};
  Gate done;
  Gate go;
  auto first = executor.submit("a", "first", [&] { go.wait(); });
  auto queued = executor.submit("a", "queued", [] {});
  first.on_done([&](const TaskResult<void>&) {
    for (int i = 0; i < 3; ++i) {
      auto handle = executor.submit("a", "more", [] {});
      handle.on_done([&](const TaskResult<void>& result) { rejected += result.status == TaskStatus::kRejected; });
    }
    done.set();
  });
  go.set();
  done.wait();
  EXPECT_TRUE(queued.await().ok());
  EXPECT_TRUE(executor.shutdown(600s));
  EXPECT_GE(rejected, 1);
}

TEST(ChoresThreadsTest, ManyCallersAtOneDoorAllReturn) {
  GroupExecutor executor(
      {.groups = {{"a", {.max_waiting = 2, .overflow = OverflowPolicy::kCallerRuns}}}, .threads = 2});
  std::atomic<int> ran{0};
  std::vector<std::thread> submitters;
  for (int t = 0; t < 4; ++t) {
    submitters.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        auto handle = executor.submit("a", "t", [&] { ++ran; });
        if (i % 50 == 0) handle.cancel();
      }
    });
  }
  for (std::thread& each : submitters) each.join();
  EXPECT_TRUE(executor.shutdown(600s));
  const auto counters = executor.stats().counters;
  EXPECT_EQ(counters.settled_total(), 2000U);
  EXPECT_EQ(counters.count(TaskStatus::kSuccess), static_cast<std::uint64_t>(ran));
  EXPECT_EQ(counters.count(TaskStatus::kRejected), 0U);
}

TEST(ChoresThreadsTest, AFloodOfRejectionsIsSlowedDownAndAllSettle) {
  std::atomic<int> destroyed{0};
  constexpr int kMany = 50'000;
  {
    GroupExecutor executor({.groups = {{"a", {.max_waiting = 1}}}, .threads = 2});
    Gate go;
    auto blocker = executor.submit("a", "b", [&] { go.wait(); });
    for (int i = 0; i < kMany; ++i) executor.submit("a", "t", [owned = Destroyed([&] { ++destroyed; })] {});
    go.set();
    EXPECT_TRUE(executor.shutdown(600s)) << "it waits for what was taken in, not for what was rejected";
  }
  EXPECT_EQ(destroyed, kMany);
}

TEST(ChoresThreadsTest, ASlowResolverKeepsOnlyItsOwnGroupWaiting) {
  Gate may_answer;
  GroupExecutor executor({.resolver = [&](std::string_view key) -> GroupLimits {
                            if (key == "slow") may_answer.wait();
                            return {.max_concurrency = 2};
                          },
                          .threads = 2});
  std::thread submitter([&] { EXPECT_TRUE(executor.submit("slow", "s", [] {}).await().ok()); });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(executor.submit("quick", "q", [] {}).await().ok());
  // From inside a task nobody waits for the resolver, but the task does.
  auto inside = executor.submit("quick", "q", [&] { return executor.submit("slow", "t", [] { return 3; }); });
  auto slow = *inside.await().value;
  EXPECT_FALSE(slow.is_done());
  may_answer.set();
  EXPECT_EQ(slow.await().value, 3);
  submitter.join();
  EXPECT_EQ(executor.resolve("slow").max_concurrency, 2U);
  EXPECT_EQ(executor.resolve("slow").sources.max_concurrency, LimitSource::kResolver);
}

}  // namespace
}  // namespace cohort
