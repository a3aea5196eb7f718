// What every TaskStore promises about clocks, attempts and crashes; see task_store_contract_test.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <thread>

#include "contract/task_store_contract.h"

namespace cohort {
namespace {

// --- clocks

TEST_P(TaskStoreContract, AJumpOfTheWallClockExpiresAndDelaysNothing) {
  if (!world_->has_two_clocks()) return;  // The server's clock is all there is.
  ASSERT_TRUE(submit(task("running")));
  const ChainTask running = *claim().task;
  ASSERT_TRUE(submit(task("waiting")));
  ASSERT_TRUE(submit(task("delayed", "d")));
  ASSERT_TRUE(write(*claim("d").task, 1, AttemptEnded{.error = "busy", .give_back = true, .delay = 5min}));
  for (const Duration jump : {Duration(2h), Duration(-2h)}) {
    world_->wall.set_skew(jump);
    ASSERT_TRUE(renew("boot-a")) << "a lease is no time of day";
    EXPECT_TRUE(write(running, 0, StepReport{.progress = 0.5}));
    EXPECT_EQ(claim("d").next_in, 5min);
    world_->restart();
    EXPECT_EQ(claim("d").next_in, 5min) << "nor does it matter when the node restarts";
  }
  EXPECT_TRUE(write(running, 1, Checkpoint{.step = 0, .begin_next = true})->state == ChainState::kProcessing);
  EXPECT_EQ(claim().task->id(), "waiting");
  ASSERT_TRUE(join("boot-b", 1h));
  advance(5min);
  EXPECT_EQ(claim("d", "boot-b").task->id(), "delayed");
}

TEST_P(TaskStoreContract, TimesOfDayFollowTheWallClock) {
  if (!world_->has_two_clocks()) return;
  NewTask later = task("later");
  later.start_at = now() + 1h;
  ASSERT_TRUE(submit(later));
  NewTask until = task("until", "h");
  until.deadline_at = now() + 30min;
  ASSERT_TRUE(submit(until));
  EXPECT_FALSE(claim().task);
  world_->wall.set_skew(90min);
  EXPECT_EQ(claim().task->id(), "later");
  EXPECT_FALSE(claim("h").task);
  EXPECT_EQ(get("until").state, ChainState::kExpired);
}

TEST_P(TaskStoreContract, ADeadlineOfADelayedTaskCountsFromItsStart) {
  NewTask later = task("later");
  later.start_at = now() + 1h;
  later.deadline = 10min;
  ASSERT_TRUE(submit(later));
  ASSERT_TRUE(join("boot-b", 24h));
  advance(1h + 5min);
  EXPECT_TRUE(claim("g", "boot-b").task);
  NewTask late = task("late", "h");
  late.start_at = now() + 1h;
  late.deadline = 10min;
  ASSERT_TRUE(submit(late));
  advance(1h + 11min);
  EXPECT_FALSE(claim("h", "boot-b").task);
  EXPECT_EQ(get("late").state, ChainState::kExpired);
}

TEST_P(TaskStoreContract, APendingTaskWithAStartTimeExpiresByItsOwnLength) {
  if (world_->has_two_clocks()) world_->wall.set_skew(-2h);
  NewTask later = task("t");
  later.pending = true;
  later.start_at = now() + 1min;
  ASSERT_TRUE(submit(later));
  advance(61s);
  EXPECT_EQ(take_in({.message_id = "m", .task_id = "t"}), IntakeOutcome::kReadied);
}

TEST_P(TaskStoreContract, ADeadlineThatPassesBetweenStepsEndsTheChain) {
  NewTask brief = task("t", "g", 3);
  brief.deadline = 10min;
  ASSERT_TRUE(submit(brief));
  const ChainTask claimed = *claim().task;
  EXPECT_EQ(write(claimed, 1, Checkpoint{.step = 0, .begin_next = true})->state, ChainState::kProcessing);
  advance(10min);
  EXPECT_EQ(write(claimed, 2, Checkpoint{.step = 1, .begin_next = true})->state, ChainState::kExpired);
  EXPECT_EQ(get("t").step, 2U) << "what was done counts";
  EXPECT_EQ(letters().size(), 1U);
}

// --- attempts

TEST_P(TaskStoreContract, AttemptsAreKeptAcrossCrashesAndNodes) {
  ASSERT_TRUE(submit(task("t")));
  ASSERT_TRUE(claim().task);
  ASSERT_TRUE(join("boot-b", 24h));
  outlive("boot-b");
  const ChainTask second = *claim("g", "boot-b").task;
  ASSERT_TRUE(write(second, 0, StepReport{.log = {"a line"}}));
  ASSERT_TRUE(write(second, 1, AttemptEnded{.error = "busy"}));
  ASSERT_TRUE(write(second, 2, AttemptBegun{}));
  ASSERT_TRUE(write(second, 3, Checkpoint{.step = 0, .begin_next = true}));
  ASSERT_TRUE(write(second, 4, ChainFailed{.reason = "no"}));
  world_->restart();
  const auto attempts = *wait<std::vector<AttemptRecord>>([&](auto done) { store().attempts("t", std::move(done)); });
  ASSERT_EQ(attempts.size(), 4U);
  const auto expect = [&](std::size_t i, const char* outcome, const char* node, std::uint32_t step,
                          std::uint32_t attempt) {
    EXPECT_EQ(attempts[i].outcome, outcome) << i;
    EXPECT_EQ(attempts[i].node, node) << i;
    EXPECT_EQ(attempts[i].step, step) << i;
    EXPECT_EQ(attempts[i].attempt, attempt) << i;
    EXPECT_LE(attempts[i].began_at, attempts[i].ended_at) << i;
  };
  expect(0, "crashed", "boot-a", 0, 1);
  expect(1, "retried", "boot-b", 0, 2);
  expect(2, "succeeded", "boot-b", 0, 3);
  expect(3, "failed", "boot-b", 1, 1);
  EXPECT_GE(attempts[0].ended_at - attempts[0].began_at, 16s);
  EXPECT_EQ(attempts[1].log, std::vector<std::string>{"a line"});
  EXPECT_EQ(attempts[1].error, "busy");
  EXPECT_TRUE(attempts[2].log.empty());
  EXPECT_EQ(attempts[3].error, "no");
  EXPECT_EQ(wait<std::vector<AttemptRecord>>([&](auto done) { store().attempts("x", std::move(done)); }).error().code,
            ErrorCode::kNotFound);
}

TEST_P(TaskStoreContract, OnlyTheLastAttemptsAreKept) {
  ASSERT_TRUE(submit(task("t")));
  const ChainTask claimed = *claim().task;
  std::uint64_t number = 0;
  for (std::uint32_t i = 0; i < kMaxAttempts + 5; ++i) {
    ASSERT_TRUE(write(claimed, ++number, AttemptEnded{.error = "busy"}));
    ASSERT_TRUE(write(claimed, ++number, AttemptBegun{}));
  }
  const auto attempts = *wait<std::vector<AttemptRecord>>([&](auto done) { store().attempts("t", std::move(done)); });
  EXPECT_EQ(attempts.size(), kMaxAttempts);
  EXPECT_EQ(attempts.back().number, kMaxAttempts + 5);
}

TEST_P(TaskStoreContract, ACompletedTaskShowsNoOldError) {
  ASSERT_TRUE(submit(task("t", "g", 1)));
  const ChainTask claimed = *claim().task;
  ASSERT_TRUE(write(claimed, 1, AttemptEnded{.error = "busy"}));
  EXPECT_EQ(get("t").error, "busy");
  ASSERT_TRUE(write(claimed, 2, AttemptBegun{}));
  ASSERT_TRUE(write(claimed, 3, Checkpoint{.step = 0}));
  EXPECT_EQ(get("t").error, "");
}

TEST_P(TaskStoreContract, APendingTaskIsMadeReadyWithoutAMessage) {
  const auto ready = [&](const char* id) {
    return wait<ChainTask>([&](auto done) { store().ready(id, std::move(done)); });
  };
  NewTask pending = task("t");
  pending.pending = true;
  ASSERT_TRUE(submit(pending));
  EXPECT_EQ(ready("t")->state, ChainState::kReady);
  EXPECT_EQ(ready("t").error().code, ErrorCode::kConflict);
  EXPECT_EQ(ready("nobody").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(take_in({.message_id = "m1", .task_id = "t"}), IntakeOutcome::kNotCurrent);
  EXPECT_TRUE(claim().task);
}

// --- steps in processes of their own

TEST_P(TaskStoreContract, AStepInAProcessOfItsOwnIsNoSuspectAndPoisonLate) {
  ASSERT_TRUE(submit(task("t")));
  const auto ask = [&](const std::string& boot) {
    return *claim({.id = "", .boot = boot, .group = "g", .own_process_plugins = {"p0"}, .poison_after = 4});
  };
  for (int i = 1; i <= 4; ++i) {
    const ClaimAnswer claimed = ask(i == 1 ? "boot-a" : "b" + std::to_string(i - 1));
    ASSERT_TRUE(claimed.task) << i;
    EXPECT_FALSE(claimed.suspect) << i;
    EXPECT_TRUE(claimed.task->attempt_open) << i;
    ASSERT_TRUE(join("b" + std::to_string(i)));
    outlive("b" + std::to_string(i), 15s);
  }
  EXPECT_FALSE(ask("b4").task);
  EXPECT_EQ(get("t").state, ChainState::kPoison);
}

TEST_P(TaskStoreContract, WhatWaitsInVainForItsMessageExpires) {
  NewTask pending = task("t");
  pending.pending = true;
  pending.deadline = 1min;
  ASSERT_TRUE(submit(pending));
  advance(2min);
  ASSERT_TRUE(wait<std::uint64_t>([&](auto done) { store().remove_ended(168h, 100, std::move(done)); }));
  EXPECT_EQ(get("t").state, ChainState::kExpired);
  EXPECT_EQ(take_in({.message_id = "m", .refused = DeadLetter{.reason = "no"}}), IntakeOutcome::kRefused);
  EXPECT_EQ(letters().size(), 2U);
  advance(200h);
  ASSERT_TRUE(wait<std::uint64_t>([&](auto done) { store().remove_ended(168h, 100, std::move(done)); }));
  EXPECT_TRUE(letters().empty());
}

TEST_P(TaskStoreContract, ConcurrentClaimsNeverGetTheSameTask) {
  constexpr int kTasks = 200;
  std::vector<NewTask> tasks;
  for (int i = 0; i < kTasks; ++i) tasks.push_back(task("t" + std::to_string(i)));
  ASSERT_TRUE(wait<std::vector<Result<Submitted>>>([&](auto done) { store().submit(tasks, std::move(done)); }));
  Mutex mutex;
  std::multiset<std::string> claimed;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    const std::string boot = "boot-" + std::to_string(t);
    ASSERT_TRUE(join(boot));
    threads.emplace_back([&, boot, t] {
      for (int i = 0;; ++i) {
        const auto answer = wait<ClaimAnswer>([&](auto done) {
          store().claim({.id = std::to_string(t) + "/" + std::to_string(i), .boot = boot, .group = "g"},
                        std::move(done));
        });
        if (!answer->task) return;
        MutexLock lock(mutex);
        claimed.insert(answer->task->id());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(claimed.size(), static_cast<std::size_t>(kTasks));
  EXPECT_EQ(std::set<std::string>(claimed.begin(), claimed.end()).size(), static_cast<std::size_t>(kTasks));
}

}  // namespace
}  // namespace cohort
