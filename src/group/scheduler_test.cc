// The scheduler as its drivers see it: events in, actions out.

#include "group/scheduler.h"

#include <algorithm>
#include <string>
#include <vector>

#include "group/scheduler_test_fixture.h"

namespace cohort::internal {
namespace {

// A shutdown of many tasks is done in portions, with other events in between.
TEST_F(SchedulerTest, AGroupThatIsBeingShutDownStartsNothing) {
  make({.threads = 2});
  std::vector<Ref<Record>> records;
  for (int i = 0; i < 1000; ++i) records.push_back(submit("a", std::to_string(i)));
  EndJob job;
  ASSERT_TRUE(scheduler->shutdown_group("a", job, now));
  records.push_back(submit("a", "later"));
  do_own();

  Turn turn;
  EXPECT_FALSE(scheduler->take(turn, now));
  while (scheduler->end_some(job, now)) EXPECT_FALSE(scheduler->take(turn, now));
  do_own();
  ASSERT_TRUE(scheduler->take(turn, now));
  EXPECT_EQ(turn.count, 1U);
  run(turn);

  const auto with = [&](TaskStatus status) {
    return std::ranges::count_if(records, [&](const Ref<Record>& each) { return each->status() == status; });
  };
  EXPECT_EQ(with(TaskStatus::kCancelled), 1000);
  EXPECT_EQ(with(TaskStatus::kSuccess), 1);
}

// A worker that finds a queue whose time is over passes over some of it, and does what follows from that.
TEST_F(SchedulerTest, OneTakeEndsABoundedNumberOfTasks) {
  make({.threads = 1});
  auto runs = submit("a", "runs");
  Turn turn;
  ASSERT_TRUE(scheduler->take(turn, now));
  std::vector<Ref<Record>> records;
  for (int i = 0; i < 5000; ++i) {
    records.push_back(Ref<Record>::adopt(new Record("a", std::to_string(i))));
    records.back()->extras().options.queue_timeout = 5ms;
    submit(*records.back());
  }
  now += 10ms;
  run(turn);

  std::uint64_t open = scheduler->present();
  while (scheduler->take(turn, now)) {
    ASSERT_TRUE(turn.of_chores);
    EXPECT_LE(open - scheduler->present(), 100U);
    open = scheduler->present();
    while (const Chore* chore = turn.begin_chore(now)) do_chore(*chore);
    turn.left_body = now;
    scheduler->finish(turn, now);
  }
  EXPECT_EQ(open, 0U);
  for (const auto& each : records) EXPECT_EQ(each->status(), TaskStatus::kTimedOutQueued);
}

// Half a million tasks with one deadline must not keep the sleeps of other groups waiting.
TEST_F(SchedulerTest, SleepsEndBeforeMassTimeOuts) {
  make({.threads = 1});
  ASSERT_TRUE((scheduler->set_paused("mass", true, now), true));
  std::vector<Ref<Record>> records;
  for (int i = 0; i < 5000; ++i) {
    records.push_back(Ref<Record>::adopt(new Record("mass", std::to_string(i))));
    records.back()->extras().options.deadline = now + 5ms;
    submit(*records.back());
  }
  auto sleeper = submit("other", "sleeps");
  sleeper->extras();
  Turn turn;
  ASSERT_TRUE(scheduler->take(turn, now));
  begin(turn);
  scheduler->sleep(turn, now + 6ms, now);

  now += 7ms;
  scheduler->tick(now);

  EXPECT_EQ(sleeper->phase, Phase::kContinuing);
  while (scheduler->take(turn, now) && turn.of_chores) {
    while (const Chore* chore = turn.begin_chore(now)) do_chore(*chore);
    turn.left_body = now;
    scheduler->finish(turn, now);
  }
  run(turn);
  while (scheduler->next_timer().value_or(Time::max()) <= now) scheduler->tick(now);
}

TEST_F(SchedulerTest, TasksThatCameBeforeTheResolverAnsweredAreTrimmedInPortions) {
  make({.resolver = [](std::string_view) -> GroupLimits { return {}; }, .defaults = {.max_waiting = 0}, .threads = 1});
  std::vector<Ref<Record>> records;
  for (int i = 0; i < 2000; ++i) records.push_back(submit("a", std::to_string(i)));
  for (const auto& each : records) ASSERT_FALSE(each->is_claimed()) << "nobody knows yet that there is no room";

  int portions = 1;
  while (scheduler->resolved("a", {.max_concurrency = 4, .max_waiting = 6}, now)) ++portions;
  EXPECT_GE(portions, 7);
  do_chores();

  const auto rejected = [](const Ref<Record>& each) { return each->status() == TaskStatus::kRejected; };
  EXPECT_EQ(std::ranges::count_if(records, [&](const auto& each) { return each->is_done() && rejected(each); }), 1990);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(records[static_cast<std::size_t>(i)]->is_done()) << "the first stay";
  shut_down("a");
}

TEST_F(SchedulerTest, AShutdownMayOvertakeTheResolver) {
  make({.resolver = [](std::string_view) -> GroupLimits { return {}; }, .threads = 1});
  std::vector<Ref<Record>> records;
  for (int i = 0; i < 1000; ++i) records.push_back(submit("a", std::to_string(i)));
  EndJob job;
  ASSERT_TRUE(scheduler->shutdown_group("a", job, now));
  while (scheduler->resolved("a", {.max_waiting = 300}, now)) {
  }
  while (scheduler->end_some(job, now)) {
  }
  do_own();
  do_chores();
  for (const auto& each : records) EXPECT_TRUE(each->is_done());
}

TEST_F(SchedulerTest, ATaskMayFollowOneWhoseGroupIsNotResolvedYet) {
  make({.resolver = [](std::string_view) -> GroupLimits { return {}; }, .threads = 1});
  auto first = submit("a", "first");
  auto second = Ref<Record>::adopt(new Record("a", "second"));
  second->home = first->home;
  second->add_executors_reference();
  scheduler->follow(*second, *first, Origin::kOutside, now);
  EXPECT_EQ(second->phase, Phase::kDependent);
  scheduler->resolved("a", {}, now);
  shut_down("a");
}

TEST_F(SchedulerTest, AGroupWhoseTasksHaveResultsCanBeEvicted) {
  make({.threads = 1});
  auto record = submit("a", "t");
  Turn turn;
  ASSERT_TRUE(scheduler->take(turn, now));
  end(*begin(turn));

  EXPECT_TRUE(scheduler->evict("a", GroupLimits(), now))
      << "its result is out, though its worker has not given the turn back";
  scheduler->finish(turn, now);
  now += 1ms;
  scheduler->tick(now);
  EXPECT_EQ(scheduler->group_of("a"), nullptr);
}

TEST_F(SchedulerTest, WakesOneIdleWorkerAtATime) {
  make({.threads = 3});
  Turn a;
  Turn b;
  Turn c;
  for (Turn* turn : {&a, &b, &c}) EXPECT_FALSE(scheduler->take(*turn, now));

  submit("x", "1");
  submit("y", "2");
  EXPECT_EQ(scheduler->take_actions().wake, 1) << "the one that comes will ask for the next";
  EXPECT_TRUE(scheduler->take(a, now));
  EXPECT_EQ(scheduler->take_actions().wake, 1);
  EXPECT_TRUE(scheduler->take(b, now));
  EXPECT_EQ(scheduler->take_actions().wake, 0);
  run(a);
  run(b);
}

TEST_F(SchedulerTest, WakesNobodyForWorkThatMayNotRun) {
  make({.global_max_in_flight = 1, .threads = 2});
  Turn a;
  Turn b;
  submit("x", "1");
  EXPECT_TRUE(scheduler->take(a, now));
  EXPECT_FALSE(scheduler->take(b, now));
  submit("y", "2");
  submit("x", "3");
  EXPECT_EQ(scheduler->take_actions().wake, 0);
  begin(a);
  end(*a.tasks[0]);
  scheduler->finish(a, now);
  EXPECT_EQ(scheduler->take_actions().wake, 1);
  EXPECT_TRUE(scheduler->take(a, now));
  run(a);
  EXPECT_TRUE(scheduler->take(a, now));
  run(a);
}

TEST_F(SchedulerTest, SaysWhenItWantsToBeToldTheTime) {
  make({.evict_after = 10s});
  EXPECT_EQ(scheduler->next_timer(), std::nullopt);
  auto record = Ref<Record>::adopt(new Record("x", "1"));
  record->extras().options.queue_timeout = 5ms;
  submit(*record);
  EXPECT_EQ(scheduler->next_timer(), now + 5ms);

  now += 5ms;
  scheduler->tick(now);
  EXPECT_EQ(scheduler->take_actions().own.size(), 0U) << "nobody's own call: a worker settles it";
  EXPECT_FALSE(record->is_done());
  do_chores();
  EXPECT_EQ(record->status(), TaskStatus::kTimedOutQueued);
  EXPECT_EQ(scheduler->next_timer(), now + 10s) << "the group is idle and will be forgotten";
}

TEST_F(SchedulerTest, ATurnTakesAShareFromEachReadyGroup) {
  make({.threads = 1});
  Turn turn;
  const auto fill = [&] {
    for (int i = 0; i < 40; ++i) {
      for (const char* group : {"a", "b", "c", "d"}) submit(group, std::to_string(i));
    }
  };
  fill();
  while (scheduler->take(turn, now)) run(turn);  // Now they are known to be short.
  fill();
  ASSERT_TRUE(scheduler->take(turn, now));
  EXPECT_EQ(turn.count, Turn::kMaxTasks);
  EXPECT_EQ(turn.segment_count, 4U);
  EXPECT_EQ(scheduler->global_running(), 1U) << "one task of a turn runs at a time";
  EXPECT_EQ(scheduler->stats().running, 4U);
  run(turn);
  while (scheduler->take(turn, now)) run(turn);
}

TEST_F(SchedulerTest, WhatATurnHasNotBegunGoesBackInOrderBeforeItsPermitsDo) {
  make({.threads = 2});
  Turn first;
  Turn second;
  submit("a", "0");
  ASSERT_TRUE(scheduler->take(first, now));
  run(first);
  for (int i = 1; i <= 5; ++i) submit("a", std::to_string(i));
  ASSERT_TRUE(scheduler->take(first, now));
  ASSERT_EQ(first.count, 5U);
  TaskRecord* current = begin(first);

  scheduler->give_back(first, now);
  EXPECT_EQ(scheduler->group_stats("a", now)->waiting, 4U);
  EXPECT_FALSE(scheduler->take(second, now)) << "the group's one permit is still with the first task";
  end(*current);
  scheduler->finish(first, now);
  ASSERT_EQ(scheduler->take_actions().wake, 1);
  ASSERT_TRUE(scheduler->take(second, now));
  std::string order;
  while (TaskRecord* record = begin(second)) {
    order += record->task_id();
    end(*record);
  }
  scheduler->finish(second, now);
  EXPECT_EQ(order, "2345");
}

TEST_F(SchedulerTest, WhatSeveralTurnsGiveBackIsInOrderAgain) {
  make({.groups = {{"a", {.max_concurrency = 4}}}, .threads = 2});
  Turn first;
  Turn second;
  submit("a", "x");
  ASSERT_TRUE(scheduler->take(first, now));
  run(first);
  for (int i = 100; i < 170; ++i) submit("a", std::to_string(i));
  ASSERT_TRUE(scheduler->take(first, now));
  ASSERT_TRUE(scheduler->take(second, now));
  end(*begin(first));
  end(*begin(second));
  scheduler->set_paused("a", true, now);
  scheduler->finish(first, now);
  scheduler->finish(second, now);
  scheduler->set_paused("a", false, now);

  std::vector<std::string> order;
  while (scheduler->take(first, now)) {
    while (TaskRecord* record = begin(first)) {
      order.push_back(record->task_id());
      end(*record);
    }
    scheduler->finish(first, now);
  }
  EXPECT_EQ(order.size(), 68U);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST_F(SchedulerTest, ARunLimitDoesNotOutliveATurnThatIsTakenBack) {
  make({.threads = 1});
  auto record = Ref<Record>::adopt(new Record("a", "1"));
  record->extras().options.run_timeout = 10ms;
  submit(*record);
  Turn turn;
  ASSERT_TRUE(scheduler->take(turn, now));
  scheduler->set_paused("a", true, now);
  scheduler->finish(turn, now);
  now += 20ms;
  scheduler->tick(now);
  EXPECT_FALSE(record->is_claimed());
  scheduler->set_paused("a", false, now);
  ASSERT_TRUE(scheduler->take(turn, now));
  run(turn);
}

TEST_F(SchedulerTest, WhatDidNotBeginWasNotStarted) {
  make({.groups = {{"a", {.rate = Rate{.count = 1, .period = 1h, .burst = 10}}}}, .threads = 1});
  Turn turn;
  submit("a", "x");
  ASSERT_TRUE(scheduler->take(turn, now));
  run(turn);
  for (int i = 0; i < 5; ++i) submit("a", std::to_string(i));
  ASSERT_TRUE(scheduler->take(turn, now));
  TaskRecord* current = begin(turn);
  shut_down("a");
  end(*current);
  scheduler->finish(turn, now);
  EXPECT_EQ(scheduler->group_stats("a", now)->counters.started, 2U);
  EXPECT_EQ(scheduler->group_stats("a", now)->counters.count(TaskStatus::kCancelled), 4U);
  for (int i = 0; i < 8; ++i) submit("a", std::to_string(i));
  while (scheduler->take(turn, now)) run(turn);
  EXPECT_EQ(scheduler->group_stats("a", now)->counters.started, 10U) << "the tokens came back";
}

TEST_F(SchedulerTest, APauseTakesBackWhatHasNotBegun) {
  make({.threads = 1});
  Turn turn;
  submit("a", "0");
  ASSERT_TRUE(scheduler->take(turn, now));
  run(turn);
  for (int i = 1; i <= 3; ++i) submit("a", std::to_string(i));
  ASSERT_TRUE(scheduler->take(turn, now));
  scheduler->set_paused("a", true, now);
  EXPECT_EQ(begin(turn), nullptr);
  scheduler->finish(turn, now);
  EXPECT_EQ(scheduler->group_stats("a", now)->waiting, 3U);
  EXPECT_FALSE(scheduler->take(turn, now));
  shut_down("a");
  EXPECT_EQ(do_own(), 3U);
}

TEST_F(SchedulerTest, ATaskCancelledInATurnIsTakenOutOfIt) {
  make({.threads = 1});
  Turn turn;
  submit("a", "0");
  ASSERT_TRUE(scheduler->take(turn, now));
  run(turn);
  auto one = submit("a", "1");
  auto two = submit("a", "2");
  ASSERT_TRUE(scheduler->take(turn, now));
  ASSERT_EQ(turn.count, 2U);
  scheduler->cancel(*one, now);
  EXPECT_EQ(do_own(), 1U);
  EXPECT_EQ(scheduler->global_running(), 0U);
  EXPECT_EQ(begin(turn), nullptr);
  scheduler->finish(turn, now);
  ASSERT_TRUE(scheduler->take(turn, now));
  EXPECT_EQ(turn.tasks[0], two.get());
  run(turn);
  EXPECT_EQ(scheduler->group_stats("a", now)->counters.count(TaskStatus::kCancelled), 1U);
}

TEST_F(SchedulerTest, WhatHasEndedInALongTurnGivesItsPermitsBack) {
  make({.threads = 2});
  Turn turn;
  for (const char* group : {"a", "b"}) submit(group, "0");
  while (scheduler->take(turn, now)) run(turn);  // Now both are known to be short.
  scheduler->remove_idle_worker();
  for (const char* group : {"a", "b"}) submit(group, "1");
  ASSERT_TRUE(scheduler->take(turn, now));
  ASSERT_EQ(turn.count, 2U);
  TaskRecord* first = begin(turn);
  end(*first);
  TaskRecord* second = begin(turn);  // It takes long.
  auto next = submit(first->group_key(), "2");
  Turn other;
  EXPECT_FALSE(scheduler->take(other, now));
  scheduler->remove_idle_worker();
  scheduler->give_back(turn, now);
  do_chores();  // What has ended is dropped by a worker.
  ASSERT_TRUE(scheduler->take(other, now));
  EXPECT_EQ(other.tasks[0], next.get());
  run(other);
  end(*second);
  scheduler->finish(turn, now);
}

TEST_F(SchedulerTest, WhatArrivesWithAWorkerAndCanRunGoesStraightIntoItsTurn) {
  make({.defaults = {.max_concurrency = 1}, .threads = 2});
  Turn turn;
  std::vector<Ref<Record>> made;
  const auto arrive = [&](std::initializer_list<std::pair<const char*, const char*>> labels) {
    std::vector<Arrival> arrivals;
    for (const auto& [group, id] : labels) {
      made.push_back(Ref<Record>::adopt(new Record(group, id)));
      made.back()->home = reinterpret_cast<ExecutorHome*>(this);
      made.back()->add_executors_reference();
      made.back()->submitted_at = now;
      arrivals.push_back({made.back().get(), Origin::kOutside, FullQueue::kAsGroupSays});
    }
    return arrivals;
  };
  const auto in_turn = [&] {
    std::string ids;
    for (std::uint32_t i = 0; i < turn.count; ++i) ids += turn.tasks[i]->task_id() + " ";
    return ids;
  };
  for (const char* group : {"a", "b", "c"}) submit(group, "0");
  while (scheduler->take(turn, now)) run(turn);  // Now they are known to be short.

  ASSERT_TRUE(scheduler->take(turn, arrive({{"a", "a1"}, {"b", "b1"}, {"a", "a2"}, {"new", "n1"}, {"c", "c1"}}), now));
  EXPECT_EQ(in_turn(), "a1 b1 ")
      << "a2 waits for its group's permit; c1 is not before n1, which comes as any new group";
  EXPECT_EQ(scheduler->group_stats("a", now)->waiting, 1U);
  run(turn);
  ASSERT_TRUE(scheduler->take(turn, arrive({{"a", "a3"}}), now));
  EXPECT_EQ(in_turn().find("a3"), std::string::npos) << "a2 is before it";
  run(turn);
  while (scheduler->take(turn, now)) run(turn);
  for (const auto& record : made) EXPECT_TRUE(record->is_done()) << record->task_id();
  for (const char* group : {"a", "b", "c", "new"}) {
    const auto stats = scheduler->group_stats(group, now);
    EXPECT_EQ(stats->counters.submitted, stats->counters.started) << group;
    EXPECT_EQ(stats->counters.submitted, stats->counters.count(TaskStatus::kSuccess)) << group;
  }
}

TEST_F(SchedulerTest, ALongTaskHasATurnOfItsOwn) {
  make({.threads = 1});
  Turn turn;
  submit("long", "0");
  ASSERT_TRUE(scheduler->take(turn, now));
  TaskRecord* task = begin(turn);
  now += 1ms;
  end(*task);
  scheduler->finish(turn, now);
  submit("short", "0");
  ASSERT_TRUE(scheduler->take(turn, now));
  run(turn);
  submit("short", "1");
  submit("long", "1");
  ASSERT_TRUE(scheduler->take(turn, now));
  EXPECT_EQ(turn.count, 1U);
  run(turn);
  ASSERT_TRUE(scheduler->take(turn, now));
  EXPECT_EQ(turn.count, 1U);
  run(turn);
}

TEST_F(SchedulerTest, ExplainNamesTheDoorOfAFullQueue) {
  make({.groups = {{"d", {.max_waiting = 0, .overflow = OverflowPolicy::kBlock}}}});
  auto queued = submit("d", "queued");
  auto at_door = submit("d", "at door");
  const Explanation why = scheduler->explain(*at_door, now);
  EXPECT_EQ(why.bound, Bound::kDoor);
  EXPECT_EQ(why.text, "group 'd' has 1 tasks waiting and 0 running (max_waiting 0, max_concurrency 1); 1 ahead");

  Turn turn;
  ASSERT_TRUE(scheduler->take(turn, now));
  run(turn);
  EXPECT_EQ(scheduler->take_actions().admit.size(), 1U);
  ASSERT_TRUE(scheduler->take(turn, now));
  run(turn);
}

// ---- on the thread that brings it

TEST_F(SchedulerTest, TakesATaskHereOnlyIfItCouldStart) {
  make({.defaults = {.max_concurrency = 1}, .threads = 1});
  const auto bring = [&](const char* id) {
    auto record = Ref<Record>::adopt(new Record("a", id));
    record->submitted_at = now;
    return record;
  };
  Turn here;
  const Ref<Record> first = bring("1");
  ASSERT_TRUE(scheduler->take_here(*first, here, now));
  EXPECT_EQ(scheduler->group_stats("a", now)->running, 1U);
  Turn other;
  const Ref<Record> second = bring("2");
  EXPECT_FALSE(scheduler->take_here(*second, other, now)) << "there is no permit";
  EXPECT_EQ(scheduler->group_stats("a", now)->counters.submitted, 1U) << "and it was never there";
  run(here);
  EXPECT_EQ(scheduler->group_stats("a", now)->running, 0U);
  EXPECT_EQ(scheduler->group_stats("a", now)->counters.settled_total(), 1U);
  const Ref<Record> waits = submit("a", "3");
  EXPECT_FALSE(scheduler->take_here(*second, other, now)) << "one came before it";
  ASSERT_TRUE(scheduler->take(other, now));
  run(other);
}

}  // namespace
}  // namespace cohort::internal
