// GroupExecutor with real threads: what its promises are, one by one. The scheduler's own rules are tested in virtual
// time; races are in group_executor_stress_test.cc.

#include "cohort/group/group_executor.h"

#include <gtest/gtest.h>

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/task/sleep.h"
#include "cohort/task/task.h"
#include "cohort/task/task_scope.h"
#include "cohort/task/this_task.h"
#include "cohort/task/when.h"
#include "group/gate_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST(GroupExecutorTest, RunsATaskAndGivesItsResult) {
  GroupExecutor executor;
  auto handle = executor.submit("vip:alice", "task-1", [] { return 42; });
  const TaskResult<int> result = handle.await();
  EXPECT_EQ(result.status, TaskStatus::kSuccess);
  EXPECT_EQ(result.value, 42);
  EXPECT_EQ(result.group, "vip:alice");
  EXPECT_EQ(result.task_id, "task-1");
  EXPECT_LE(result.submitted_at, result.started_at);
  EXPECT_LE(result.started_at, result.ended_at);
}

TEST(GroupExecutorTest, KeepsTheLimitOfAGroup) {
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  GroupExecutor executor({.defaults = {.max_concurrency = 2}, .threads = 4});
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < 500; ++i) {
    handles.push_back(executor.submit("g", std::to_string(i), [&] {
      const int running = ++now;
      int seen = most.load();
      while (running > seen && !most.compare_exchange_weak(seen, running)) {
      }
      std::this_thread::yield();
      --now;
    }));
  }
  for (auto& handle : handles) EXPECT_TRUE(handle.await().ok());
  EXPECT_LE(most.load(), 2);
}

TEST(GroupExecutorTest, OneGroupIsFirstInFirstOut) {
  GroupExecutor executor({.threads = 3});
  std::vector<int> order;
  TaskHandle<void> last;
  for (int i = 0; i < 20'000; ++i) last = executor.submit("g", "t", [&, i] { order.push_back(i); });
  ASSERT_TRUE(last.await().ok());
  ASSERT_EQ(order.size(), 20'000U);
  for (int i = 0; i < 20'000; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(GroupExecutorTest, SubmitsOfSeveralThreadsRunInTheOrderInWhichTheyReturned) {
  GroupExecutor executor({.threads = 2});
  constexpr int kThreads = 3;
  constexpr int kEach = 3000;
  // Each body writes the ticket its submitter drew before the submit began, and the one it drew after it returned.
  std::atomic<int> tickets{0};
  struct Submit {
    int begun = 0;
    int place = -1;
    std::atomic<int> returned{0};
  };
  std::vector<Submit> submits(kThreads * kEach);
  std::vector<int> order;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const int number = t * kEach + i;
        Submit& submit = submits[static_cast<std::size_t>(number)];
        submit.begun = ++tickets;
        executor.submit("g", "t", [&order, number] { order.push_back(number); });
        submit.returned = ++tickets;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(executor.submit("g", "last", [] {}).await().ok());
  ASSERT_EQ(order.size(), submits.size());
  // Whoever returned before the other began has started before it: going backwards, the earliest return seen so far
  // must not be before this one's begin.
  int earliest_return = tickets + 1;
  for (auto number = order.rbegin(); number != order.rend(); ++number) {
    const Submit& submit = submits[static_cast<std::size_t>(*number)];
    ASSERT_GT(earliest_return, submit.begun);
    earliest_return = std::min(earliest_return, submit.returned.load());
  }
}

TEST(GroupExecutorTest, ResultsOfEveryKindArriveOnce) {
  GroupExecutor executor;
  EXPECT_EQ(*executor.submit("g", "move-only", [] { return std::make_unique<int>(7); }).take().value.value(), 7);
  EXPECT_TRUE(executor.submit("g", "void", [] {}).await().ok());
  EXPECT_EQ(executor.submit("g", "result",
                            []() -> Result<int> {
                              return Error{ErrorCode::kNotFound, "no", {}};
                            })
                .await()
                .error->code,
            ErrorCode::kNotFound);
  const auto thrown = executor.submit("g", "throws", []() -> int { throw std::runtime_error("broken"); }).await();
  EXPECT_EQ(thrown.status, TaskStatus::kFailed);
  EXPECT_EQ(thrown.error->message, "broken");
  const auto odd = executor.submit("g", "throws an int", []() -> int { throw 3; }).await();
  EXPECT_EQ(odd.status, TaskStatus::kFailed);
  auto moved = [value = std::make_unique<int>(5)] { return *value; };
  EXPECT_EQ(executor.submit("g", "callable", std::move(moved)).await().value, 5);
}

TEST(GroupExecutorTest, AnEmptyCallableFails) {
  GroupExecutor executor;
  const std::function<int()> nothing;
  EXPECT_EQ(executor.submit("g", "std", nothing).await().status, TaskStatus::kFailed);
  EXPECT_EQ(executor.submit("g", "cohort", Function<int()>()).await().status, TaskStatus::kFailed);
  int (*no_function)() = nullptr;
  EXPECT_EQ(executor.submit("g", "pointer", no_function).await().status, TaskStatus::kFailed);
}

TEST(GroupExecutorTest, BadNamesAreRejectedWithTheReason) {
  GroupExecutor executor;
  const auto status_of = [&](const std::string& key, const std::string& id) {
    const auto result = executor.submit(key, id, [] {}).await();
    return result.error ? result.error->code : ErrorCode::kInternal;
  };
  EXPECT_EQ(status_of("", "t"), ErrorCode::kInvalid);
  EXPECT_EQ(status_of(std::string(1025, 'k'), "t"), ErrorCode::kInvalid);
  EXPECT_EQ(status_of("k", std::string(257, 'i')), ErrorCode::kInvalid);
  EXPECT_TRUE(executor.submit(std::string(1024, 'k'), std::string(256, 'i'), [] {}).await().ok());
  EXPECT_TRUE(executor.submit(std::string("a\0b", 3), "", [] {}).await().ok());
  EXPECT_EQ(executor.set_limits("", {}).error().code, ErrorCode::kInvalid);
}

TEST(GroupExecutorTest, AfterShutdownEverythingIsRejected) {
  GroupExecutor executor;
  auto before = executor.submit("g", "before", [] { return 1; });
  EXPECT_TRUE(executor.shutdown(600s));
  EXPECT_EQ(before.await().value, 1);
  const auto after = executor.submit("g", "after", [] { return 1; }).await();
  EXPECT_EQ(after.status, TaskStatus::kRejected);
  EXPECT_EQ(after.error->code, ErrorCode::kEnded);
  EXPECT_TRUE(executor.shutdown(0s));
}

TEST(GroupExecutorTest, AListenerHearsOfEveryTaskInOrderAndMayThrow) {
  Mutex mutex;
  std::vector<std::string> heard;
  {
    GroupExecutor executor({.groups = {{"full", {.max_waiting = 1}}}, .listener = [&](const TaskEvent& event) {
                              MutexLock lock(mutex);
                              heard.push_back(std::string(event.task_id) + "/" +
                                              std::to_string(static_cast<int>(event.kind)));
                              throw std::runtime_error("ignored");
                            }});
    EXPECT_TRUE(executor.submit("g", "a", [] {}).await().ok());
    {
      MutexLock lock(mutex);
      EXPECT_EQ(heard, (std::vector<std::string>{"a/0", "a/1", "a/2"}));
      heard.clear();
    }
    ASSERT_TRUE(executor.pause_group("full"));
    auto waits = executor.submit("full", "w", [] {});
    EXPECT_EQ(executor.submit("full", "r", [] {}).await().status, TaskStatus::kRejected);
    waits.cancel();
    EXPECT_EQ(waits.await().status, TaskStatus::kCancelled);
    MutexLock lock(mutex);
    EXPECT_EQ(heard, (std::vector<std::string>{"w/0", "r/0", "r/2", "w/2"}));
  }
}

struct ThrowsWhenTaken {
  ThrowsWhenTaken(std::thread::id by_whom, std::atomic<bool>& has_thrown) : by(by_whom), thrown(&has_thrown) {}
  ThrowsWhenTaken(ThrowsWhenTaken&& other) : by(other.by), thrown(other.thrown) {  // NOLINT(*-noexcept-move*)
    if (std::this_thread::get_id() != by) return;
    *thrown = true;
    throw std::runtime_error("cannot be taken");
  }
  std::thread::id by;
  std::atomic<bool>* thrown;
};

TEST(GroupExecutorTest, NothingOfABatchOutlivesTheCallEvenIfThatThrows) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> thrown{false};
  std::atomic<bool> ended{false};
  GroupExecutor executor({.threads = 2});
  std::vector<GroupTask<ThrowsWhenTaken>> tasks;
  tasks.emplace_back("a", "throws", [&] { return ThrowsWhenTaken(caller, thrown); });
  tasks.emplace_back("b", "slow", [&] {
    // It ends after the exception is on its way, unless the batch waits for it before it takes the first result.
    for (int i = 0; i < 20'000 && !thrown; ++i) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    ended = true;
    return ThrowsWhenTaken(caller, thrown);
  });
  EXPECT_THROW((void)executor.execute_all(tasks), std::runtime_error);
  EXPECT_TRUE(ended);
}

TEST(GroupExecutorTest, ABatchOfPlainSubmitsIsHeldUpByABlockingGroupToo) {
  for (const bool by_resolver : {false, true}) {
    std::atomic<int> ran{0};
    const GroupLimits blocking{.max_concurrency = 1, .max_waiting = 1, .overflow = OverflowPolicy::kBlock};
    GroupExecutorOptions options{.threads = 1};
    if (by_resolver) {
      options.resolver = [&](std::string_view) { return blocking; };
    } else {
      options.defaults = blocking;
    }
    GroupExecutor executor(std::move(options));
    static_cast<void>(executor.submit("g", "first", [&] { ++ran; }).await());  // From here on the group is known.
    std::vector<GroupTask<void>> tasks;
    for (int i = 0; i < 100; ++i) tasks.emplace_back("g", "t", [&] { ++ran; });
    const auto handles = executor.submit_all(tasks);
    EXPECT_GE(ran, 98) << "at most one waits and one runs";
  }
}

TEST(GroupExecutorTest, ATokenIsARightThatCanBeTakenBack) {
  Gate gate;
  std::atomic<bool> begun{false};
  std::atomic<bool> stopped{false};
  GroupExecutor executor({.threads = 2});
  const GroupToken token("s/g");
  const GroupToken other("s/g");
  auto running = executor.submit(token, "running", [&](std::stop_token stop) {
    begun = true;
    gate.pass();
    stopped = stop.stop_requested();
  });
  while (!begun) std::this_thread::yield();
  auto waiting = executor.submit(token, "waiting", [] {});
  auto stays = executor.submit(other, "stays", [] { return 1; });
  auto by_key = executor.submit("s/g", "by key", [] { return 2; });
  executor.close_group(token);
  EXPECT_EQ(waiting.await().status, TaskStatus::kCancelled);
  EXPECT_EQ(executor.submit(token, "late", [] {}).await().error->code, ErrorCode::kEnded);
  gate.open();
  EXPECT_TRUE(running.await().status == TaskStatus::kSuccess && stopped);
  EXPECT_EQ(stays.await().value, 1);
  EXPECT_EQ(by_key.await().value, 2);
  while (token.open_tasks() + other.open_tasks() != 0) std::this_thread::yield();
  EXPECT_EQ(executor.submit(GroupToken(""), "no key", [] {}).await().error->code, ErrorCode::kInvalid);
  EXPECT_EQ(executor.submit(GroupToken(std::string(1025, 'k')), "long key", [] {}).await().error->code,
            ErrorCode::kInvalid);
}

TEST(GroupExecutorTest, AThrowingResolverCountsAsSilent) {
  GroupExecutor executor({.resolver = [](std::string_view) -> GroupLimits { throw std::runtime_error("no idea"); },
                          .defaults = {.max_concurrency = 7}});
  EXPECT_TRUE(executor.submit("g", "t", [] {}).await().ok());
  EXPECT_EQ(executor.resolve("g").max_concurrency, 7U);
}

TEST(GroupExecutorTest, NestedTasksDoNotDeadlockWithEveryLimitAtOne) {
  GroupExecutor executor(
      {.defaults = {.max_concurrency = 1, .max_in_flight = 1}, .global_max_in_flight = 1, .threads = 1});
  std::function<int(int)> depth = [&](int left) -> int {
    if (left == 0) return 0;
    return 1 + executor.submit("g", std::to_string(left), [&, left] { return depth(left - 1); }).await().value.value();
  };
  EXPECT_EQ(executor.submit("g", "root", [&] { return depth(50); }).await().value, 50);
}

TEST(GroupExecutorTest, ACycleOfAwaitsIsNamed) {
  GroupExecutor executor({.threads = 2});
  TaskHandle<ErrorCode> self;
  Gate known;
  self = executor.submit("g", "self", [&] {
    known.pass();
    return self.await().error->code;
  });
  known.open();
  EXPECT_EQ(self.await().value, ErrorCode::kConflict);
}

TEST(GroupExecutorTest, CoroutinesSleepAwaitAndResumeOnAnyThread) {
  GroupExecutor executor({.defaults = {.max_concurrency = 100}, .threads = 2});
  std::vector<TaskHandle<int>> handles;
  for (int i = 0; i < 200; ++i) {
    handles.push_back(executor.submit("co", std::to_string(i), [&executor, i]() -> Task<int> {
      co_await sleep_for(1ms);
      const TaskResult<int> inner = co_await executor.submit("inner", std::to_string(i), [i] { return i; });
      co_return inner.value.value();
    }));
  }
  for (int i = 0; i < 200; ++i) EXPECT_EQ(handles[static_cast<std::size_t>(i)].await().value, i);
}

TEST(GroupExecutorTest, TimeOutsFireWhileQueuedAndWhileRunning) {
  Gate gate;
  GroupExecutor executor({.threads = 2});
  auto running = executor.submit("g", "running",
                                 [&](std::stop_token stop) {
                                   while (!stop.stop_requested()) std::this_thread::yield();
                                   gate.pass();
                                 },
                                 {.run_timeout = 1ms});
  ASSERT_TRUE(executor.pause_group("h"));
  auto queued = executor.submit("h", "queued", [] {}, {.queue_timeout = 1ms});
  EXPECT_EQ(running.await().status, TaskStatus::kTimedOutRunning);
  EXPECT_EQ(queued.await().status, TaskStatus::kTimedOutQueued);
  EXPECT_EQ(running.await_for(0s)->status, TaskStatus::kTimedOutRunning);
  gate.open();
}

TEST(GroupExecutorTest, AnAwaitFailsWhenItsOwnTaskRunsOutOfTime) {
  Gate gate;
  std::atomic<bool> failed{false};
  GroupExecutor executor({.threads = 2});
  auto outer = executor.submit("g", "outer",
                               [&] {
                                 auto inner = executor.submit("h", "inner", [&] { gate.pass(); });
                                 failed = inner.await().error->code == ErrorCode::kTimedOut && !inner.is_done();
                                 gate.open();
                               },
                               {.run_timeout = 5ms});
  EXPECT_EQ(outer.await().status, TaskStatus::kTimedOutRunning);
  gate.wait_for(1);
  EXPECT_TRUE(executor.drain_group("h", 600s));
  EXPECT_TRUE(failed);
}

TEST(GroupExecutorTest, AnAwaitThatBeginsAfterTheTimeOutFailsAtOnce) {
  Gate gate;
  std::atomic<bool> failed{false};
  GroupExecutor executor({.threads = 2});
  auto other = executor.submit("h", "other", [&] { gate.pass(); });
  auto outer = executor.submit("g", "outer",
                               [&](std::stop_token stop) {
                                 while (!stop.stop_requested()) std::this_thread::yield();
                                 failed = other.await().error->code == ErrorCode::kTimedOut && !other.is_done();
                                 gate.open();
                               },
                               {.run_timeout = 5ms});
  EXPECT_EQ(outer.await().status, TaskStatus::kTimedOutRunning);
  EXPECT_TRUE(other.await().ok());
  EXPECT_TRUE(failed);
}

TEST(GroupExecutorTest, CancelReachesTheWaitingAndTheRunning) {
  Gate gate;
  GroupExecutor executor({.threads = 2});
  auto running = executor.submit("g", "running", [&](std::stop_token stop) -> Result<int> {
    gate.pass();
    while (!stop.stop_requested()) std::this_thread::yield();
    return Error{ErrorCode::kCancelled, "stopped", {}};
  });
  auto waiting = executor.submit("g", "waiting", [] { return 1; });
  gate.wait_for(1);
  waiting.cancel();
  EXPECT_EQ(waiting.await().status, TaskStatus::kCancelled);
  gate.open();
  running.cancel();
  EXPECT_EQ(running.await().status, TaskStatus::kCancelled);
}

TEST(GroupExecutorTest, ScopesBatchesAndFollowersWork) {
  std::atomic<int> sum{0};
  GroupExecutor executor({.defaults = {.max_concurrency = 2, .max_waiting = 8}, .threads = 2});
  {
    TaskScope scope(executor);
    for (int i = 0; i < 5; ++i) scope.submit("scope", "s", [&] { ++sum; });
    EXPECT_TRUE(scope.join());
  }
  EXPECT_EQ(sum, 5);
  std::vector<GroupTask<int>> tasks;
  for (int i = 0; i < 1000; ++i) tasks.emplace_back("batch" + std::to_string(i % 3), "b", [i] { return i; });
  const auto results = executor.execute_all(tasks);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i)].value, i);
  auto doubled = executor.submit("g", "one", [] { return 21; }).then([](int value) { return value * 2; });
  EXPECT_EQ(doubled.await().value, 42);
  auto a = executor.submit("g", "a", [] { return 1; });
  auto b = executor.submit("h", "b", [] { return 2; });
  EXPECT_EQ(when_all(a, b).await().size(), 2U);
  EXPECT_LT(when_any(a, b).await(), 2U);
}

TEST(GroupExecutorTest, ABlockingPolicyHoldsTheSubmitterBack) {
  Gate gate;
  GroupExecutor executor({.groups = {{"g", {.max_waiting = 2, .overflow = OverflowPolicy::kBlock}}}, .threads = 1});
  executor.submit("g", "first", [&] { gate.pass(); });
  gate.wait_for(1);
  std::atomic<int> submitted{0};
  std::thread submitter([&] {
    for (int i = 0; i < 10; ++i) {
      executor.submit("g", std::to_string(i), [] {});
      ++submitted;
    }
  });
  // Two are in the queue and the third stands at the door.
  while (executor.active_groups().empty() || executor.group_stats("g")->counters.submitted < 4)
    std::this_thread::yield();
  EXPECT_LE(submitted.load(), 3);
  gate.open();
  submitter.join();
  EXPECT_TRUE(executor.drain_group("g", 600s));
  EXPECT_EQ(executor.group_stats("g")->counters.count(TaskStatus::kSuccess), 11U);
}

TEST(GroupExecutorTest, TryRunHereRunsOnTheCallersThreadIfPermitsAreFree) {
  GroupExecutor executor({.threads = 1});
  const auto self = std::this_thread::get_id();
  auto here = executor.try_run_here("g", "t", [] { return std::this_thread::get_id(); });
  EXPECT_TRUE(here.is_done());
  EXPECT_EQ(here.await().value, self);
  Gate gate;
  executor.submit("g", "holds", [&] { gate.pass(); });
  gate.wait_for(1);
  auto later = executor.try_run_here("g", "t", [] { return std::this_thread::get_id(); });
  EXPECT_FALSE(later.is_done());
  gate.open();
  EXPECT_NE(later.await().value, self);
  auto nested = executor.try_run_here(
      "h", "t", [&] { return executor.submit("i", "inner", [] { return 3; }).await().value.value(); });
  EXPECT_EQ(nested.await().value, 3);
}

TEST(GroupExecutorTest, ATaskThatHasRunOutOfTimeMayStillRunABatch) {
  std::atomic<int> ran{0};
  GroupExecutor executor({.defaults = {.max_waiting = 2}, .threads = 1});
  auto outer = executor.submit("outer", "t",
                               [&](std::stop_token stop) {
                                 while (!stop.stop_requested()) std::this_thread::yield();
                                 std::vector<GroupTask<void>> tasks;
                                 for (int i = 0; i < 20; ++i) tasks.emplace_back("inner", "t", [&] { ++ran; });
                                 static_cast<void>(executor.execute_all(tasks));
                               },
                               {.run_timeout = 1ms});
  EXPECT_EQ(outer.await().status, TaskStatus::kTimedOutRunning);
  while (ran < 20) std::this_thread::yield();
}

TEST(GroupExecutorTest, CallablesAndResultsMayBeOverAligned) {
  struct alignas(128) Wide {
    std::array<char, 128> bytes{};
  };
  GroupExecutor executor;
  const Wide wide;
  const auto result = executor.submit("g", "t", [wide] { return wide; }).await();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&*result.value) % alignof(Wide), 0U);
}

TEST(GroupExecutorTest, AMillionGroupsComeAndGo) {
#ifdef NDEBUG
  constexpr int kGroups = 1'000'000;
#else
  constexpr int kGroups = 100'000;
#endif
  GroupExecutor executor({.threads = 2, .evict_after = 1ms});
  TaskHandle<void> last;
  for (int i = 0; i < kGroups; ++i) {
    last = executor.submit("group-" + std::to_string(i), "t", [] {});
    if (i % 1000 == 0) static_cast<void>(last.await());
  }
  ASSERT_TRUE(last.await().ok());
  while (executor.stats().groups != 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(executor.stats().counters.count(TaskStatus::kSuccess), static_cast<std::uint64_t>(kGroups));
}

TEST(GroupExecutorTest, AListenerMustNotDrainAGroup) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        GroupExecutor* self = nullptr;
        GroupExecutor executor({.listener = [&](const TaskEvent& event) {
          if (event.kind == TaskEvent::Kind::kStarted) static_cast<void>(self->drain_group("a", 1s));
        }});
        self = &executor;
        static_cast<void>(executor.submit("a", "1", [] {}).await());
      },
      "a listener must not drain a group");
}

TEST(GroupExecutorTest, AGroupCanBeEvictedAsSoonAsItsTasksHaveResults) {
  GroupExecutor executor({.threads = 2});
  for (int i = 0; i < 500; ++i) {
    static_cast<void>(executor.submit("a", "t", [] {}).await());
    const auto evicted = executor.evict_group("a");
    ASSERT_TRUE(evicted) << evicted.error().message;
  }
}

TEST(GroupExecutorTest, AGroupThatWasEvictedIsResolvedAnew) {
  std::atomic<std::uint32_t> concurrency{1};
  GroupExecutor executor(
      {.resolver = [&](std::string_view) -> GroupLimits { return {.max_concurrency = concurrency.load()}; },
       .threads = 2});
  for (std::uint32_t i = 1; i < 200; ++i) {
    static_cast<void>(executor.submit("a", "t", [] {}).await());
    EXPECT_EQ(executor.group_stats("a")->limits.max_concurrency, i);
    concurrency = i + 1;
    ASSERT_TRUE(executor.evict_group("a"));
  }
}

TEST(GroupExecutorTest, AResultThatCancelsItsScopeWhenItIsDestroyed) {
  GroupExecutor executor({.defaults = {.max_concurrency = 4}, .threads = 2});
  TaskScope scope(executor);
  std::atomic<int> destroyed{0};
  struct Cancels {
    Cancels(TaskScope& of, std::atomic<int>& counter) : scope(&of), count(&counter) {}
    Cancels(Cancels&& other) noexcept : scope(std::exchange(other.scope, nullptr)), count(other.count) {}
    Cancels& operator=(Cancels&&) = delete;
    ~Cancels() {
      if (scope == nullptr) return;
      scope->cancel();
      ++*count;
    }
    TaskScope* scope;
    std::atomic<int>* count;
  };
  for (int i = 0; i < 200; ++i) {
    scope.submit("g", "t", [&] { return Cancels(scope, destroyed); });
    while (i % 50 == 49 && executor.stats().waiting + executor.stats().running != 0) std::this_thread::yield();
  }
  EXPECT_TRUE(scope.join());
}

}  // namespace
}  // namespace cohort
