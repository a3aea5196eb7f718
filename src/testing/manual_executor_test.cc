#include "cohort/testing/manual_executor.h"

#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cohort/task/sleep.h"
#include "cohort/task/when.h"
#include "testing/world_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class ManualExecutorTest : public WorldTest {};

TEST_F(ManualExecutorTest, RunsNothingUntilAskedTo) {
  make_world();
  auto handle = executor().submit("a", "1", [] { return 42; });
  EXPECT_FALSE(handle.is_done());

  executor().run();

  ASSERT_TRUE(handle.is_done());
  const TaskResult<int> result = handle.await();
  EXPECT_EQ(result.status, TaskStatus::kSuccess);
  EXPECT_EQ(result.value, 42);
  EXPECT_EQ(result.group, "a");
  EXPECT_EQ(result.task_id, "1");
  EXPECT_FALSE(result.error.has_value());
}

TEST_F(ManualExecutorTest, SpentTimeIsVirtual) {
  make_world();
  auto handle = executor().submit("a", "1", [&] { executor().spend(10ms); });
  executor().advance(9ms);
  EXPECT_FALSE(handle.is_done());

  executor().advance(1ms);

  ASSERT_TRUE(handle.is_done());
  EXPECT_EQ(handle.await().duration(), 10ms);
}

TEST_F(ManualExecutorTest, AwaitFromOutsideDrivesThroughTime) {
  make_world();
  const Time start = now();
  auto handle = executor().submit("a", "1", [&] {
    executor().spend(3h);
    return std::string("late");
  });

  EXPECT_EQ(handle.await().value, "late");
  EXPECT_EQ(now() - start, 3h);
}

TEST_F(ManualExecutorTest, AwaitForGivesUpAfterItsTime) {
  make_world();
  auto handle = executor().submit("a", "1", [&] { executor().spend(10ms); });
  EXPECT_FALSE(handle.await_for(4ms).has_value());
  EXPECT_TRUE(handle.await_for(6ms).has_value());
}

TEST_F(ManualExecutorTest, PlainBodiesThatAwaitHaveTheirOwnThread) {
  make_world({.threads = 1});
  auto outer = executor().submit("a", "outer", [&] {
    auto inner = executor().submit("b", "inner", [&] {
      executor().spend(5ms);
      return 7;
    });
    return inner.await().value.value() + 1;
  });

  EXPECT_EQ(outer.await().value, 8);
}

TEST_F(ManualExecutorTest, CoroutinesSleepAndAwait) {
  make_world({.threads = 1});
  const Time start = now();
  auto outer = executor().submit("a", "outer", [&]() -> Task<int> {
    co_await sleep_for(10ms);
    auto inner = executor().submit("b", "inner", [&]() -> Task<int> {
      co_await sleep_for(5ms);
      co_return 20;
    });
    const TaskResult<int> result = co_await inner;
    co_return *result.value + 1;
  });

  EXPECT_EQ(outer.await().value, 21);
  EXPECT_EQ(now() - start, 15ms);
}

Task<int> twice(int x) {
  co_await sleep_for(1ms);
  co_return 2 * x;
}

Task<int> failing() {
  co_await sleep_for(1ms);
  throw std::runtime_error("no luck");
}

TEST_F(ManualExecutorTest, CoroutinesCallCoroutines) {
  make_world();
  auto sum = executor().submit("a", "sum", []() -> Task<int> { co_return co_await twice(1) + co_await twice(2); });
  auto caught = executor().submit("a", "caught", []() -> Task<std::string> {
    try {
      co_await failing();
    } catch (const std::runtime_error& e) {
      co_return e.what();
    }
    co_return "nothing";
  });
  auto thrown = executor().submit("a", "thrown", [] { return failing(); });

  EXPECT_EQ(sum.await().value, 6);
  EXPECT_EQ(caught.await().value, "no luck");
  EXPECT_EQ(thrown.await().status, TaskStatus::kFailed);
  EXPECT_EQ(thrown.await().error->message, "no luck");
}

TEST_F(ManualExecutorTest, ManyReadyAwaitsDoNotGrowTheStack) {
  make_world();
  auto done = executor().submit("b", "done", [] { return 1; });
  executor().run();
  auto sum = executor().submit("a", "sum", [&]() -> Task<int> {
    int total = 0;
    for (int i = 0; i < 200'000; ++i) total += *(co_await done).value;
    co_return total;
  });

  EXPECT_EQ(sum.await().value, 200'000);
}

TEST_F(ManualExecutorTest, CallablesReturnWhatTheyLike) {
  make_world({.defaults = {.max_concurrency = kUnlimited}});
  auto nothing = executor().submit("a", "void", [] {});
  auto good = executor().submit("a", "good", []() -> Result<int> { return 1; });
  auto bad = executor().submit("a", "bad", []() -> Result<int> {
    return Error{ErrorCode::kNotFound, "no such row", {}};
  });
  auto thrown = executor().submit("a", "thrown", []() -> int { throw std::out_of_range("far"); });
  auto odd = executor().submit("a", "odd", []() -> int { throw 5; });
  auto own = executor().submit("a", "own", [] { return std::make_unique<int>(9); });

  EXPECT_TRUE(nothing.await().ok());
  EXPECT_EQ(good.await().value, 1);
  EXPECT_EQ(bad.await().status, TaskStatus::kFailed);
  EXPECT_EQ(bad.await().error->code, ErrorCode::kNotFound);
  EXPECT_EQ(thrown.await().error->message, "far");
  EXPECT_THROW(std::rethrow_exception(thrown.await().error->cause), std::out_of_range);
  EXPECT_EQ(odd.await().status, TaskStatus::kFailed);
  EXPECT_EQ(**own.take().value, 9);
  EXPECT_FALSE(own.take().value.has_value());
}

TEST_F(ManualExecutorTest, ThenFollowsInTheSameGroup) {
  make_world();
  auto first = executor().submit("a", "first", [&] {
    executor().spend(1ms);
    return 20;
  });
  auto second = first.then([](int value) { return value + 1; });
  auto third = second.then("third", [](const TaskResult<int>& result) { return std::to_string(*result.value); });

  EXPECT_EQ(third.await().value, "21");
  EXPECT_EQ(second.task_id(), "first+");
  EXPECT_EQ(third.group(), "a");
}

TEST_F(ManualExecutorTest, ThenPassesFailuresOn) {
  make_world();
  auto failed = executor().submit("a", "f", []() -> int { throw std::runtime_error("broken"); });
  auto after = failed.then([](int value) { return value; });
  auto informed = failed.then([](const TaskResult<int>& result) { return result.ok(); });
  auto cancelled = executor().submit("b", "c", [] { return 1; });
  cancelled.cancel();
  auto after_cancelled = cancelled.then([](int value) { return value; });

  EXPECT_EQ(after.await().status, TaskStatus::kFailed);
  EXPECT_NE(after.await().error->message.find("broken"), std::string::npos);
  EXPECT_EQ(informed.await().value, false);
  EXPECT_EQ(after_cancelled.await().status, TaskStatus::kCancelled);
}

TEST_F(ManualExecutorTest, WhenAllAndWhenAny) {
  make_world({.defaults = {.max_concurrency = 8}, .threads = 8});
  const auto timed = [&](int ms) {
    return executor().submit("a", std::to_string(ms), [&executor = executor(), ms] {
      executor.spend(std::chrono::milliseconds(ms));
      return ms;
    });
  };
  auto all = when_all(std::vector{timed(3), timed(1), timed(2)}).await();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].value, 3);
  EXPECT_EQ(all[2].value, 2);

  EXPECT_EQ(when_any(timed(3), timed(1), timed(2)).await(), 1U);
  EXPECT_TRUE(when_all(std::vector<TaskHandle<int>>{}).await().empty());

  auto inside = executor().submit("b", "inside", [&]() -> Task<int> {
    const auto results = co_await when_all(timed(3), timed(4));
    co_return *results[0].value + *results[1].value + static_cast<int>(co_await when_any(timed(9), timed(1)));
  });
  EXPECT_EQ(inside.await().value, 8);
}

TEST_F(ManualExecutorTest, TryRunHereRunsAtOnceWhenPermitsAreFree) {
  make_world();
  auto now_done = executor().try_run_here("a", "1", [] { return 1; });
  EXPECT_TRUE(now_done.is_done());

  auto busy = executor().submit("a", "2", [&] { executor().spend(1ms); });
  executor().run();
  auto queued = executor().try_run_here("a", "3", [] { return 3; });
  EXPECT_FALSE(queued.is_done());
  EXPECT_EQ(queued.await().value, 3);
  EXPECT_TRUE(busy.is_done());
}

struct ThrowsWhenMoved {
  ThrowsWhenMoved() = default;
  ThrowsWhenMoved(const ThrowsWhenMoved&) { throw std::runtime_error("does not move"); }
};

TEST_F(ManualExecutorTest, AResultThatCannotBeMovedIsAFailure) {
  make_world();
  auto task = executor().submit("a", "1", [] { return ThrowsWhenMoved(); });
  executor().run();
  ASSERT_TRUE(task.is_done());
  EXPECT_EQ(task.take().status, TaskStatus::kFailed);
  EXPECT_EQ(task.take().error->message, "does not move");
}

TEST_F(ManualExecutorTest, AResultMayUseTheExecutorWhenItIsDestroyed) {
  make_world();
  int destroyed = 0;
  struct Submits {
    Submits(ManualExecutor* executor, int* count) : executor_(executor), count_(count) {}
    Submits(Submits&& other) noexcept : executor_(std::exchange(other.executor_, nullptr)), count_(other.count_) {}
    ~Submits() {
      if (executor_ == nullptr) return;
      ++*count_;
      executor_->submit("b", "last words", [] {});
    }
    ManualExecutor* executor_;
    int* count_;
  };
  executor().submit("a", "detached", [&] { return Submits(&executor(), &destroyed); });
  executor().run();
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(executor().group_stats("b")->counters.count(TaskStatus::kSuccess), 1U);
}

TEST_F(ManualExecutorTest, ATaskOfAnotherExecutorIsOutside) {
  make_world();
  World other;
  ASSERT_TRUE(other.executor.shutdown(0ms));
  auto refused = executor().submit("a", "1", [&] { return other.executor.submit("b", "2", [] {}).await().status; });
  EXPECT_EQ(refused.await().value, TaskStatus::kRejected);
}

TEST_F(ManualExecutorTest, MoveOnlyResultsGoThroughThenAndWhenAll) {
  make_world({.threads = 2});
  const auto one = [&] { return executor().submit("a", "1", [] { return std::make_unique<int>(1); }); };
  EXPECT_EQ(one().then([](std::unique_ptr<int> value) { return *value + 1; }).await().value, 2);
  EXPECT_EQ(**when_all(one(), one()).await()[1].value, 1);
}

TEST_F(ManualExecutorTest, AValueThatHasBeenTakenIsAnErrorForWhoFollows) {
  make_world();
  auto task = executor().submit("a", "1", [] { return std::make_unique<int>(1); });
  auto first = task.then([](const std::unique_ptr<int>& value) { return *value; });
  auto second = task.then([](const std::unique_ptr<int>& value) { return *value; });
  EXPECT_EQ(first.await().value, 1);
  EXPECT_EQ(second.await().status, TaskStatus::kFailed);
  EXPECT_EQ(second.await().error->code, ErrorCode::kConflict);
}

TEST_F(ManualExecutorTest, ThenTakesGenericCallablesAndMembers) {
  make_world();
  auto text = executor().submit("a", "1", [] { return std::string("four"); });
  EXPECT_EQ(text.then([](auto value) { return value + "!"; }).await().value, "four!");
  EXPECT_EQ(text.then(&std::string::size).await().value, 4U);
}

TEST_F(ManualExecutorTest, ACallableThatReturnsAnErrorMakesAFailedTask) {
  make_world();
  const auto fails = [] { return Error{ErrorCode::kUnavailable, "not today"}; };
  const TaskHandle<void> plain = executor().submit("a", "1", fails);
  EXPECT_EQ(plain.await().status, TaskStatus::kFailed);
  EXPECT_EQ(plain.await().error->message, "not today");
  const TaskHandle<void> coroutine = executor().submit("a", "2", [&]() -> Task<Error> { co_return fails(); });
  EXPECT_EQ(coroutine.await().error->code, ErrorCode::kUnavailable);
  const auto after = executor().submit("a", "3", [] { return 1; }).then([&](int) { return fails(); });
  EXPECT_EQ(after.await().error->message, "not today");
}

TEST_F(ManualExecutorTest, AnOnDoneOfAHandleThatIsGivenAwayMovesTheResult) {
  struct Counted {
    Counted() = default;
    Counted(const Counted& other) : copies(other.copies + 1) {}
    Counted(Counted&&) = default;
    Counted& operator=(const Counted&) = delete;
    Counted& operator=(Counted&&) = delete;
    int copies = 0;
  };
  make_world();
  std::vector<int> copies;
  auto task = executor().submit("a", "1", [] { return Counted(); });
  task.on_done([&](const TaskResult<Counted>& result) { copies.push_back(result.value->copies); });
  std::move(task).on_done([&](const TaskResult<Counted>& result) { copies.push_back(result.value->copies); });
  executor().run();
  EXPECT_EQ(copies, (std::vector<int>{1, 0}));
}

TEST_F(ManualExecutorTest, AnExplanationCanBePrinted) {
  make_world({.groups = {{"vip", {.max_concurrency = 1}}}});
  auto first = executor().submit("vip", "first", [&] { executor().spend(1s); });
  auto second = executor().submit("vip", "second", [] {});
  executor().run();
  std::ostringstream out;
  out << executor().explain(second);
  EXPECT_EQ(out.str(), "group 'vip' runs 1 of 1; 0 ahead (held by first)");
  executor().run_until_idle();
}

TEST_F(ManualExecutorTest, AListenerHearsWhyAndHowLong) {
  struct Heard {
    TaskEvent::Kind kind;
    std::string error;
    Duration queued;
    Duration ran;
  };
  std::vector<Heard> heard;
  make_world(
      {.groups = {{"a", {.max_waiting = 1}}}, .listener = [&](const TaskEvent& event) {
         heard.push_back({event.kind, event.error != nullptr ? event.error->message : "", event.queued, event.ran});
       }});
  auto first = executor().submit("a", "1", [&] { executor().spend(30ms); });
  auto second = executor().submit("a", "2", [] { throw std::runtime_error("broken"); });
  auto third = executor().submit("a", "3", [] {});
  executor().run_until_idle();
  EXPECT_TRUE(third.is_done());
  ASSERT_EQ(heard.size(), 8U);
  EXPECT_EQ(heard[3].kind, TaskEvent::Kind::kSettled);
  EXPECT_NE(heard[3].error.find("raise max_waiting"), std::string::npos) << heard[3].error;
  EXPECT_EQ(heard[5].ran, 30ms);
  EXPECT_EQ(heard[7].error, "broken");
  EXPECT_EQ(heard[7].queued, 30ms);
}

TEST_F(ManualExecutorTest, AListenerMustNotWait) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        VirtualClock clock;
        TaskHandle<void> other;
        ManualExecutor listened(clock, {.listener = [&](const TaskEvent& event) {
                                  if (event.kind == TaskEvent::Kind::kStarted) static_cast<void>(other.await());
                                }});
        static_cast<void>(listened.pause_group("b"));
        other = listened.submit("b", "other", [] {});
        static_cast<void>(listened.submit("a", "1", [] {}).await());
      },
      "a listener must not wait for tasks");
}

TEST_F(ManualExecutorTest, ReferencesAndConstantsAreCopied) {
  make_world();
  const std::string name = "held";
  EXPECT_EQ(executor().submit("a", "1", [&]() -> const std::string& { return name; }).await().value, "held");
  EXPECT_EQ(executor().submit("a", "2", [&]() -> Result<std::string> { return "text"; }).await().value, "text");
}

TEST_F(ManualExecutorTest, RunCatchesUpWithAClockThatSomebodyElseMoved) {
  World& world = make_world();
  auto spends = executor().submit("a", "1", [&] { executor().spend(10ms); });
  auto sleeps = executor().submit("b", "2", []() -> Task<> { co_await sleep_for(10ms); });
  executor().run();
  world.clock.advance(20ms);
  executor().run();
  EXPECT_TRUE(spends.is_done());
  EXPECT_TRUE(sleeps.is_done());
}

TEST_F(ManualExecutorTest, ALeakIsNamed) {
  World world;
  ASSERT_TRUE(world.executor.pause_group("a"));
  auto handle = world.executor.submit("a", "1", [] {});

  EXPECT_NE(world.executor.leaks().find("1 tasks left"), std::string::npos);

  handle.cancel();
  EXPECT_EQ(world.executor.leaks(), "");
}

TEST(ManualExecutorDeathTest, ATaskAwaitsOnlyWhatTheExecutorKnows) {
  EXPECT_DEATH(
      {
        VirtualClock clock;
        ManualExecutor executor(clock);
        executor.submit("a", "1", []() -> Task<> { co_await std::suspend_always(); });
        executor.run();
      },
      "a Task awaits Tasks, handles, scopes and sleeps, nothing else");
}

TEST(ManualExecutorDeathTest, MisuseIsNamed) {
  EXPECT_DEATH(TaskHandle<int>().cancel(), "a default-constructed TaskHandle refers to no task");
  EXPECT_DEATH(
      {
        World world;
        std::vector<GroupTask<int>> tasks;
        tasks.emplace_back("a", "1", [] { return 1; });
        static_cast<void>(world.executor.execute_all(tasks));
        static_cast<void>(world.executor.execute_all(tasks));
      },
      "an empty Function cannot be called");
}

TEST(ManualExecutorDeathTest, ADeadlockIsAnAssertionThatSaysWhoWaits) {
  EXPECT_DEATH(
      {
        VirtualClock clock;
        ManualExecutor executor(clock);
        static_cast<void>(executor.pause_group("a"));
        auto handle = executor.submit("a", "stuck", [] {});
        static_cast<void>(handle.await());
      },
      "deadlock in virtual time.*'stuck'.*'a' is paused");
}

TEST(ManualExecutorListenerTest, HearsOfEveryTask) {
  std::vector<std::string> heard;
  World world({.listener = [&](const TaskEvent& event) {
    heard.push_back(std::string(event.task_id) + "/" + std::to_string(static_cast<int>(event.kind)));
  }});
  auto first = world.executor.submit("g", "a", [] { return 1; });
  auto then = first.then("b", [](int value) { return value; });
  EXPECT_EQ(then.await().value, 1);
  EXPECT_EQ(heard, (std::vector<std::string>{"a/0", "b/0", "a/1", "a/2", "b/1", "b/2"}));
}

}  // namespace
}  // namespace cohort
