// Events of the scheduler that deal with many tasks in several steps: what other events may do between two steps.

#include <algorithm>
#include <string>
#include <vector>

#include "group/scheduler_test_fixture.h"

namespace cohort::internal {
namespace {

class SchedulerBoundsTest : public SchedulerTest {
 protected:
  std::vector<Ref<Record>> make_sleepers(int count, Duration first, Duration step) {
    std::vector<Ref<Record>> sleepers;
    for (int i = 0; i < count; ++i) {
      sleepers.push_back(submit("a", std::to_string(i)));
      put_to_sleep(*sleepers.back(), now + first + i * step);
    }
    return sleepers;
  }
  // Runs everything that may run.
  void run_all() {
    Turn turn;
    while (scheduler->take(turn, now)) {
      if (turn.of_chores) {
        while (const Chore* chore = turn.begin_chore(now)) do_chore(*chore);
        turn.left_body = now;
        scheduler->finish(turn, now);
      } else {
        run(turn);
      }
    }
  }
};

// Sleepers that wake while a shutdown goes through them are asked to stop like all others.
TEST_F(SchedulerBoundsTest, AShutdownAsksSleepersThatWakeMeanwhileToStop) {
  make({.defaults = {.max_concurrency = kUnlimited}, .threads = 1});
  const auto sleepers = make_sleepers(600, 600ms, -1ms);  // The last ones wake first.
  EndJob job;
  bool more = scheduler->shutdown_group("a", job, now);
  ASSERT_TRUE(more) << "600 are more than one step";
  now += 300ms;
  while (scheduler->next_timer().value_or(Time::max()) <= now) scheduler->tick(now);

  while (more) more = scheduler->end_some(job, now);

  EXPECT_EQ(std::ranges::count_if(sleepers, [](const auto& each) { return each->asked_to_stop; }), 600);
  now += 1s;
  while (scheduler->next_timer().value_or(Time::max()) <= now) scheduler->tick(now);
  do_own();
  run_all();
}

// There are always sleeps that are due: time-outs of other groups come all the same.
TEST_F(SchedulerBoundsTest, SleepsWithoutEndKeepNoTimeOutWaiting) {
  make({.defaults = {.max_concurrency = kUnlimited}, .threads = 1});
  const auto sleepers = make_sleepers(2000, 1ms, 0ms);
  auto late = Ref<Record>::adopt(new Record("b", "late"));
  late->extras().options.queue_timeout = 1ms;
  submit(*late);
  now += 2ms;

  scheduler->tick(now);

  EXPECT_GT(scheduler->next_timer().value_or(Time::max()), now - 2ms) << "not all sleeps can have ended in one step";
  EXPECT_TRUE(late->is_claimed());
  while (scheduler->next_timer().value_or(Time::max()) <= now) scheduler->tick(now);
  run_all();
}

// Of two tasks of one group in a turn the first has ended and the second does not end.
TEST_F(SchedulerBoundsTest, WhatHasEndedBeforeALongTaskOfItsGroupLeavesItsPlace) {
  make({.defaults = {.max_concurrency = 2, .max_waiting = 0, .overflow = OverflowPolicy::kBlock}, .threads = 2});
  auto warm = submit("a", "warm");
  run_all();
  auto first = submit("a", "1");
  auto second = submit("a", "2");
  Turn turn;
  scheduler->remove_idle_worker();
  ASSERT_TRUE(scheduler->take(turn, now));
  ASSERT_EQ(turn.count, 2U) << "short tasks of one group share a turn";
  auto at_door = submit("a", "3");
  ASSERT_EQ(at_door->phase, Phase::kAtDoor);
  end(*begin(turn));
  begin(turn);  // It takes long.

  scheduler->give_back(turn, now);

  EXPECT_EQ(at_door->phase, Phase::kWaiting) << "two permits, and one task that has no result";
  EXPECT_EQ(scheduler->group_stats("a", now)->counters.count(TaskStatus::kSuccess), 2U);
  end(*second);
  scheduler->finish(turn, now);
  EXPECT_EQ(scheduler->group_stats("a", now)->counters.count(TaskStatus::kSuccess), 3U);
  EXPECT_EQ(scheduler->group_stats("a", now)->counters.started, 3U);
  run_all();
}

// An overrunning body is nothing to wait for, nor is a task of its turn that has ended before it.
TEST_F(SchedulerBoundsTest, ADrainDoesNotWaitForWhatEndedBeforeAnOverrunningBody) {
  make({.threads = 2});
  auto warm = submit("a", "warm");
  run_all();
  auto first = Ref<Record>::adopt(new Record("a", "1"));
  auto second = Ref<Record>::adopt(new Record("a", "2"));
  first->extras().options.deadline = now + 1h;
  second->extras().options.deadline = now + 10ms;
  submit(*first);
  submit(*second);
  Turn turn;
  scheduler->remove_idle_worker();
  ASSERT_TRUE(scheduler->take(turn, now));
  ASSERT_EQ(turn.count, 2U);
  end(*begin(turn));
  begin(turn);  // It does not end.
  now += 20ms;

  scheduler->tick(now);

  EXPECT_TRUE(scheduler->is_drained("a"));
  EXPECT_TRUE(scheduler->is_drained());
  do_chores();
  EXPECT_EQ(second->status(), TaskStatus::kTimedOutRunning);
  turn.left_body = now;
  scheduler->finish(turn, now);
}

// The submitters of that time did not know that the group lets them wait.
TEST_F(SchedulerBoundsTest, WhatCameBeforeTheResolverSaidBlockIsKept) {
  make({.resolver = [](std::string_view) -> GroupLimits { return {}; }, .threads = 1});
  std::vector<Ref<Record>> records;
  for (int i = 0; i < 1000; ++i) records.push_back(submit("a", std::to_string(i)));

  while (scheduler->resolved("a", {.max_waiting = 1, .overflow = OverflowPolicy::kCallerRuns}, now)) {
  }
  run_all();

  EXPECT_TRUE(std::ranges::all_of(records, [](const auto& each) { return each->status() == TaskStatus::kSuccess; }));
}

// More stand at the door, and stay there, than one step deals with.
TEST_F(SchedulerBoundsTest, ManyAtTheDoorOfAGroupThatIsNotResolvedYet) {
  make({.resolver = [](std::string_view) -> GroupLimits { return {}; }, .threads = 1});
  std::vector<Ref<Record>> records;
  for (int i = 0; i < 600; ++i) {
    records.push_back(Ref<Record>::adopt(new Record("a", std::to_string(i))));
    records.back()->home = reinterpret_cast<ExecutorHome*>(this);
    records.back()->add_executors_reference();
    scheduler->submit(*records.back(), Origin::kOutside, FullQueue::kBlock, now);
  }

  int steps = 0;
  while (steps < 100 && scheduler->resolved("a", {.max_waiting = 1}, now)) ++steps;
  EXPECT_LT(steps, 100) << "it comes to an end";
  run_all();

  EXPECT_TRUE(std::ranges::all_of(records, [](const auto& each) { return each->status() == TaskStatus::kSuccess; }));
}

// A body that waited for the executor's lock most of its time: only the rest of it is learned, and so it is no long
// task.
TEST_F(SchedulerBoundsTest, TheTimeThatABodyWaitsForTheExecutorIsNotLearned) {
  make({.threads = 1});
  const auto run_one = [&](Duration took, Duration outside) {
    const auto record = submit("a", "t");
    Turn turn;
    turn.measured = true;
    ASSERT_TRUE(scheduler->take(turn, now));
    ASSERT_EQ(begin(turn), record.get());
    now += took;
    turn.note_outside(outside);
    record->claim_by_body(TaskStatus::kSuccess);
    turn.measure(*record, TaskStatus::kSuccess, now);
    record->publish(now);
    turn.left_body = now;
    scheduler->finish(turn, now);
  };
  const auto turn_of_three = [&] {
    std::vector<Ref<Record>> records;
    for (int i = 0; i < 3; ++i) records.push_back(submit("a", "t"));
    Turn turn;
    EXPECT_TRUE(scheduler->take(turn, now));
    const std::uint32_t count = turn.count;
    run(turn);
    run_all();
    return count;
  };

  for (int i = 0; i < 50; ++i) run_one(1ms, 1ms - 1us);
  EXPECT_EQ(turn_of_three(), 3U) << "tasks of a microsecond share a turn";

  for (int i = 0; i < 50; ++i) run_one(1ms, 0us);
  EXPECT_EQ(turn_of_three(), 1U) << "a task of a millisecond has a turn of its own";
}

TEST_F(SchedulerBoundsTest, ExplainCountsNoFurtherThanAThousand) {
  make({.threads = 1});
  scheduler->set_paused("a", true, now);
  std::vector<Ref<Record>> records;
  for (int i = 0; i < 3000; ++i) records.push_back(submit("a", std::to_string(i)));

  EXPECT_EQ(scheduler->explain(*records[10], now).text, "group 'a' is paused; 10 ahead");
  EXPECT_EQ(scheduler->explain(*records.back(), now).text, "group 'a' is paused; at least 1000 ahead");
  shut_down("a");
}

}  // namespace
}  // namespace cohort::internal
