#pragma once

// A scheduler whose events and actions a test plays by hand, with records that have no bodies.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "group/scheduler.h"

namespace cohort::internal {

using namespace std::chrono_literals;

class Record final : public TaskRecord {
 public:
  Record(const std::string& key, const std::string& id) : TaskRecord(key, id) {}
  bool run() override { return true; }
};

class SchedulerTest : public ::testing::Test {
 protected:
  void make(GroupExecutorOptions options) { scheduler = std::make_unique<Scheduler<>>(std::move(options), now); }

  Ref<Record> submit(const std::string& group, const std::string& id) {
    auto record = Ref<Record>::adopt(new Record(group, id));
    submit(*record);
    return record;
  }

  void submit(Record& record) {
    record.home = reinterpret_cast<ExecutorHome*>(this);
    record.add_executors_reference();
    record.special = record.extras_if_any() != nullptr;
    const SubmitOptions* const options = record.special ? &record.extras().options : nullptr;
    record.timed = options != nullptr && (options->run_timeout || options->deadline);
    scheduler->submit(record, Origin::kOutside, FullQueue::kAsGroupSays, now);
  }

  TaskRecord* begin(Turn& turn) { return turn.begin(now); }

  void end(TaskRecord& record) {
    record.claim_by_body(TaskStatus::kSuccess);
    record.publish(now);
  }

  // Runs all of a turn that has been taken.
  void run(Turn& turn) {
    while (TaskRecord* record = begin(turn)) end(*record);
    scheduler->finish(turn, now);
  }

  void do_chore(const Chore& chore) {
    if (chore.kind == Chore::Kind::kResolve || chore.kind == Chore::Kind::kCall) return;  // Of no task.
    TaskRecord& record = *chore.record;
    if (chore.kind == Chore::Kind::kSettle) {
      record.set_error(error_of(record, chore.reason));
      record.publish(now);
    }
    chore.kind == Chore::Kind::kDrop || chore.forgets ? record.drop_executors_reference(now) : record.unref();
  }
  // What the caller has to do himself; says how much that is.
  std::size_t do_own() {
    const Actions actions = scheduler->take_actions();
    for (const Chore& chore : actions.own) do_chore(chore);
    return actions.own.size();
  }
  // All that is left to workers.
  void do_chores() {
    Turn turn;
    while (scheduler->take_chores(turn, now)) {
      while (const Chore* chore = turn.begin_chore(now)) do_chore(*chore);
      turn.left_body = now;
      scheduler->finish(turn, now);
    }
  }
  void shut_down(const std::string& group) {
    EndJob job;
    for (bool more = scheduler->shutdown_group(group, job, now); more;) more = scheduler->end_some(job, now);
  }

  // Takes the next task, which must not be a chore's, and lets it sleep.
  void put_to_sleep(Record& record, Time until) {
    record.extras();
    Turn turn;
    ASSERT_TRUE(scheduler->take(turn, now));
    ASSERT_EQ(begin(turn), &record);
    scheduler->sleep(turn, until, now);
  }

  void TearDown() override {
    if (!scheduler) return;
    do_own();
    do_chores();
    EXPECT_EQ(scheduler->present(), 0U);
    EXPECT_EQ(scheduler->global_running(), 0U);
  }

  Time now{1h};
  std::unique_ptr<Scheduler<>> scheduler;
};

}  // namespace cohort::internal
