// What every TaskStore promises, run on each of them.

#include "contract/task_store_contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <thread>

namespace cohort {
namespace {

TEST_P(TaskStoreContract, ATaskGoesThroughItsSteps) {
  ASSERT_EQ(submit(task("t"))->state, ChainState::kReady);
  const ClaimAnswer claimed = claim();
  ASSERT_TRUE(claimed.task);
  EXPECT_FALSE(claimed.more);
  EXPECT_EQ(claimed.task->state, ChainState::kProcessing);
  EXPECT_EQ(claimed.task->request, task("t"));
  EXPECT_EQ(claimed.task->attempt, 1U);
  EXPECT_TRUE(claimed.task->attempt_open);
  EXPECT_FALSE(claim().task);

  ASSERT_TRUE(write(*claimed.task, 0, StepReport{.progress = 0.5, .note = "half", .log = {"line"}}));
  EXPECT_EQ(get("t").progress, 0.5);
  EXPECT_EQ(
      write(*claimed.task, 1, Checkpoint{.step = 0, .context = R"({"a":1})", .ran = 3s, .begin_next = true})->state,
      ChainState::kProcessing);
  EXPECT_EQ(get("t").step, 1U);
  EXPECT_EQ(get("t").attempt, 1U);
  EXPECT_EQ(get("t").progress, 0);
  EXPECT_EQ(write(*claimed.task, 2, Checkpoint{.step = 1, .context = R"({"a":2})", .ran = 4s})->state,
            ChainState::kCompleted);
  world_->restart();
  const ChainTask ended = get("t");
  EXPECT_EQ(ended.state, ChainState::kCompleted);
  EXPECT_EQ(ended.context, R"({"a":2})");
  EXPECT_EQ(ended.ran, 7s);
  EXPECT_EQ(ended.log, std::vector<std::string>{"line"});
  EXPECT_PRED2(is_about, ended.ended_at, now());
  EXPECT_EQ(event_kinds(2), (std::vector<std::string>{"step_completed", "completed"}));
  EXPECT_TRUE(letters().empty());
}

TEST_P(TaskStoreContract, NothingIsLostOfARequest) {
  NewTask full{
      .id = "full",
      .group = "tenant \xC3\xA9",
      .session = "s1",
      .file = "https://example.org/x",
      .payload = R"({"deep":[1,2,{"x":null}],"text":"\u0000 \" ü"})",
      .steps = {{.plugin = "p", .parameters = R"({"n":1})", .timeout = 5s, .retry = RetryPolicy{.max_retries = 7}},
                {.plugin = "q"}},
      .deadline = 90min,
      .priority = Priority::kHigh,
      .tags = {"a", "b=c"},
      .start_at = now() + 1h,
      .idempotency_key = "key"};
  ASSERT_TRUE(submit(full));
  world_->restart();
  const ChainTask kept = get("full");
  EXPECT_EQ(kept.request, full);
  EXPECT_PRED2(is_about, kept.deadline_at, full.start_at.value() + 90min);
  EXPECT_EQ(kept.due_at, full.start_at);
}

TEST_P(TaskStoreContract, WithoutStepsItIsCompletedAtOnce) {
  EXPECT_EQ(submit(task("t", "g", 0))->state, ChainState::kCompleted);
  EXPECT_EQ(event_kinds(1), std::vector<std::string>{"completed"});
}

TEST_P(TaskStoreContract, BadRequestsAreRefusedOneByOne) {
  auto answers = wait<std::vector<Result<Submitted>>>([&](auto done) {
    store().submit({task("good"), task("", "g"), task("no group", ""), task(std::string(129, 'x'))}, std::move(done));
  });
  ASSERT_EQ(answers->size(), 4U);
  EXPECT_TRUE(answers->at(0));
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(answers->at(i).error().code, ErrorCode::kInvalid) << i;
  EXPECT_EQ(submit(task("@12")).error().code, ErrorCode::kInvalid) << "that names a task by its sequence number";
  EXPECT_EQ(submit(task("not \xFF UTF-8")).error().code, ErrorCode::kInvalid);
  NewTask big = task("big");
  big.payload.assign(NewTask::kMaxPayloadBytes + 1, ' ');
  EXPECT_EQ(submit(big).error().code, ErrorCode::kInvalid);
  NewTask endless = task("endless");
  endless.steps[0].retry = RetryPolicy{.multiplier = std::numeric_limits<double>::infinity()};
  EXPECT_EQ(submit(endless).error().code, ErrorCode::kInvalid);
}

TEST_P(TaskStoreContract, TheSameSubmitTwiceIsOneTask) {
  ASSERT_FALSE(submit(task("t"))->existed);
  EXPECT_TRUE(submit(task("t"))->existed) << "its answer was lost";
  NewTask other = task("t");
  other.payload = R"({"x":1})";
  EXPECT_EQ(submit(other).error().code, ErrorCode::kExists);
}

TEST_P(TaskStoreContract, AnIdempotencyKeyGivesTheSameTaskBack) {
  NewTask first = task("t1");
  first.idempotency_key = "order-7";
  ASSERT_TRUE(submit(first));
  NewTask again = first;
  again.id = "t2";
  EXPECT_EQ(submit(again)->task_id, "t1");
  again.payload = "[]";
  EXPECT_EQ(submit(again).error().code, ErrorCode::kConflict);
  NewTask elsewhere = first;
  elsewhere.id = "t3";
  elsewhere.group = "other tenant";
  EXPECT_EQ(submit(elsewhere)->task_id, "t3");
}

TEST_P(TaskStoreContract, ByPriorityThenByAge) {
  for (const char* id : {"n1", "n2"}) ASSERT_TRUE(submit(task(id)));
  NewTask high = task("h");
  high.priority = Priority::kHigh;
  NewTask low = task("l");
  low.priority = Priority::kLow;
  ASSERT_TRUE(submit(low));
  ASSERT_TRUE(submit(high));
  for (const char* id : {"h", "n1", "n2", "l"}) {
    const ClaimAnswer claimed = claim();
    EXPECT_EQ(claimed.task->id(), id);
    EXPECT_EQ(claimed.more, claimed.task->id() != "l");
  }
}

TEST_P(TaskStoreContract, NotBeforeItsTime) {
  NewTask later = task("later");
  later.start_at = now() + 10min;
  ASSERT_TRUE(submit(later));
  ASSERT_EQ(work().size(), 1U);
  EXPECT_PRED2(is_in, work()[0].next_in, 10min);
  const ClaimAnswer early = claim();
  EXPECT_FALSE(early.task);
  EXPECT_PRED2(is_in, early.next_in, 10min);
  advance(10min);
  ASSERT_TRUE(renew("boot-a"));
  EXPECT_TRUE(claim().task);
  EXPECT_TRUE(work().empty());
}

TEST_P(TaskStoreContract, AClaimTellsWhenTheNextIsDue) {
  for (const auto& [id, delay] : {std::pair{"b", 10min}, std::pair{"c", 20min}}) {
    NewTask later = task(id);
    later.start_at = now() + delay;
    ASSERT_TRUE(submit(later));
  }
  NewTask far = task("far");
  far.start_at = std::chrono::sys_days(std::chrono::year(9999) / 12 / 31);
  ASSERT_TRUE(submit(far));
  ASSERT_TRUE(join("boot-b", 2h));
  advance(10min);
  const ClaimAnswer first = claim("g", "boot-b");
  ASSERT_TRUE(first.task);
  EXPECT_FALSE(first.more);
  EXPECT_PRED2(is_in, first.next_in, 10min) << "also with a task";
  advance(10min);
  EXPECT_EQ(claim("g", "boot-b").next_in, 24h) << "not too far to be counted";
}

TEST_P(TaskStoreContract, ALostAnswerToAClaimCanBeAskedForAgain) {
  ASSERT_TRUE(submit(task("t")));
  ASSERT_TRUE(submit(task("u")));
  const ClaimRequest request{.id = "same", .boot = "boot-a", .group = "g"};
  const auto first = claim(request);
  const auto second = claim(request);
  EXPECT_EQ(first->task->id(), second->task->id());
  EXPECT_EQ(first->task->epoch, second->task->epoch);
  EXPECT_EQ(second->task->attempt, 1U);
}

TEST_P(TaskStoreContract, ALostAnswerToAWriteCanBeAskedForAgain) {
  ASSERT_TRUE(submit(task("t")));
  const ChainTask claimed = *claim().task;
  const Checkpoint checkpoint{.step = 0, .context = R"({"x":1})", .ran = 1s, .begin_next = true};
  ASSERT_TRUE(write(claimed, 1, checkpoint));
  EXPECT_EQ(write(claimed, 1, checkpoint)->state, ChainState::kProcessing);
  EXPECT_EQ(get("t").step, 1U);
  EXPECT_EQ(get("t").ran, 1s);
  EXPECT_EQ(write(claimed, 3, AttemptBegun{}).error().code, ErrorCode::kStale) << "a number was left out";
  const ChainFailed failed{.reason = "no"};
  ASSERT_TRUE(write(claimed, 2, failed));
  EXPECT_EQ(write(claimed, 2, failed)->state, ChainState::kFailed);
  EXPECT_EQ(letters().size(), 1U);
}

TEST_P(TaskStoreContract, AStaleClaimWritesNothing) {
  ASSERT_TRUE(submit(task("t")));
  const ChainTask old = *claim().task;
  ASSERT_TRUE(join("boot-b"));
  EXPECT_EQ(outlive("boot-b"), std::vector<std::string>{"g"});
  const ChainTask current = *claim("g", "boot-b").task;
  EXPECT_GT(current.epoch, old.epoch);
  for (const RunnerWrite& each :
       {RunnerWrite(Checkpoint{.step = 0, .context = R"({"stale":1})"}), RunnerWrite(ChainFailed{.reason = "stale"}),
        RunnerWrite(AttemptEnded{.give_back = true}), RunnerWrite(AttemptBegun{})}) {
    EXPECT_EQ(write(old, 1, each).error().code, ErrorCode::kStale);
  }
  EXPECT_EQ(write(old, 0, StepReport{.progress = 1}).error().code, ErrorCode::kStale);
  EXPECT_EQ(get("t").context, "{}");
  EXPECT_EQ(get("t").owner, "boot-b");
  EXPECT_TRUE(write(current, 1, Checkpoint{.step = 0}));
  EXPECT_EQ(claim({.id = "c", .boot = "boot-a", .group = "g"}).error().code, ErrorCode::kStale);
  EXPECT_EQ(renew("boot-a").error().code, ErrorCode::kStale);
}

TEST_P(TaskStoreContract, ALeaseHoldsAsLongAsItIsRenewed) {
  ASSERT_TRUE(submit(task("t")));
  ASSERT_TRUE(claim().task);
  ASSERT_TRUE(join("boot-b", 1h));
  for (int i = 0; i < 10; ++i) {
    advance(10s);
    ASSERT_TRUE(renew("boot-a"));
    ASSERT_TRUE(renew("boot-b", 1h));
    EXPECT_TRUE(take_over("boot-b").empty());
  }
  EXPECT_EQ(outlive("boot-b").size(), 1U);
  EXPECT_EQ(renew("boot-a").error().code, ErrorCode::kStale);
}

TEST_P(TaskStoreContract, TheCheckpointSurvivesATakeOver) {
  ASSERT_TRUE(submit(task("t")));
  const ChainTask claimed = *claim().task;
  ASSERT_TRUE(write(claimed, 1, Checkpoint{.step = 0, .context = R"({"done":0})"}));
  world_->restart();
  ASSERT_TRUE(join("boot-b"));
  EXPECT_EQ(outlive("boot-b"), std::vector<std::string>{"g"});
  const ChainTask again = *claim("g", "boot-b").task;
  EXPECT_EQ(again.step, 1U);
  EXPECT_EQ(again.context, R"({"done":0})");
  EXPECT_EQ(write(claimed, 1, Checkpoint{.step = 0}).error().code, ErrorCode::kStale);
}

TEST_P(TaskStoreContract, WhoLeavesIsNotToBlame) {
  ASSERT_TRUE(submit(task("t")));
  ASSERT_TRUE(claim().task);
  ASSERT_TRUE(wait<void>([&](auto done) { store().leave("boot-a", std::move(done)); }));
  EXPECT_EQ(get("t").state, ChainState::kReady);
  EXPECT_TRUE(get("t").crashes.empty());
  EXPECT_EQ(join("boot-a").error().code, ErrorCode::kExists);
}

TEST_P(TaskStoreContract, AStepThatTakesNodesDownIsSuspectThenPoison) {
  ASSERT_TRUE(submit(task("t")));
  crash(1);
  EXPECT_EQ(get("t").crashes.size(), 1U);
  crash(1);
  ASSERT_TRUE(join("boot-y"));
  ClaimAnswer suspect = claim("g", "boot-y");
  EXPECT_TRUE(suspect.suspect);
  EXPECT_FALSE(suspect.task->attempt_open) << "it must wait until it is alone";
  ASSERT_TRUE(write(*suspect.task, 1, AttemptBegun{.alone = true}));
  ASSERT_TRUE(join("boot-z"));
  if (store().is_shared()) {  // No proof of death: the boot has a minute to write again.
    outlive("boot-z", 24h);
    EXPECT_EQ(get("t").state, ChainState::kReady);
    advance(1min);
    EXPECT_FALSE(claim("g", "boot-z").task);
  } else {
    take_over("boot-z", true);
  }
  EXPECT_EQ(get("t").state, ChainState::kPoison);
  ASSERT_EQ(letters().size(), 1U);
  EXPECT_EQ(letters()[0].state, ChainState::kPoison);

  ASSERT_TRUE(replay({.task_id = "t"}));
  EXPECT_TRUE(claim("g", "boot-z").suspect) << "a replayed poison task starts as a suspect";
}

TEST_P(TaskStoreContract, ASuspectIsConvictedOnlyIfItsNodeStaysSilent) {
  for (const bool comes_back : {true, false}) {
    const std::string id = comes_back ? "innocent" : "guilty";
    ASSERT_TRUE(submit(task(id)));
    crash(2);
    const std::string boot = "cut-off-" + id;
    ASSERT_TRUE(join(boot));
    const ClaimAnswer suspect = claim("g", boot);
    ASSERT_TRUE(write(*suspect.task, 1, AttemptBegun{.alone = true}));
    outlive(last_boot_);
    EXPECT_EQ(get(id).state, ChainState::kReady);
    EXPECT_FALSE(claim("g", last_boot_).task) << "not before it is known";
    if (comes_back) {
      ASSERT_TRUE(wait<void>([&](auto done) {
        store().join({.node = "node", .boot = boot + "-again", .formerly = boot}, 1h, std::move(done));
      }));
    }
    advance(1min);
    const ClaimAnswer again = claim("g", last_boot_);
    EXPECT_EQ(again.task.has_value(), comes_back);
    EXPECT_EQ(get(id).state, comes_back ? ChainState::kProcessing : ChainState::kPoison);
  }
}

TEST_P(TaskStoreContract, ASuspectThatSucceedsIsForgiven) {
  ASSERT_TRUE(submit(task("t")));
  crash(2);
  const ClaimAnswer suspect = claim("g", last_boot_);
  ASSERT_TRUE(write(*suspect.task, 1, AttemptBegun{.alone = true}));
  ASSERT_TRUE(write(*suspect.task, 2, Checkpoint{.step = 0, .ran = 10s}));
  EXPECT_TRUE(get("t").crashes.empty());
  ASSERT_TRUE(write(*suspect.task, 3, AttemptEnded{.failed = false, .give_back = true}));
  EXPECT_FALSE(claim("g", last_boot_).suspect);
}

TEST_P(TaskStoreContract, ABootThatComesBackHadNotCrashed) {
  ASSERT_TRUE(submit(task("t")));
  ASSERT_TRUE(claim().task);
  ASSERT_TRUE(join("boot-b", 24h));
  outlive("boot-b");
  crash(1);
  EXPECT_EQ(get("t").crashes.size(), 2U);
  EXPECT_EQ(renew("boot-a").error().code, ErrorCode::kStale);
  EXPECT_FALSE(claim("g", last_boot_).suspect);
}

TEST_P(TaskStoreContract, GivenBackItWaitsAndMayBeKept) {
  ASSERT_TRUE(submit(task("t")));
  ASSERT_TRUE(join("boot-b", 1h));
  const ChainTask claimed = *claim().task;
  ASSERT_TRUE(write(claimed, 1, AttemptEnded{.error = "busy", .give_back = true, .delay = 5min, .keep = 10min}));
  EXPECT_EQ(get("t").failures, 1U);
  EXPECT_EQ(get("t").error, "busy");
  EXPECT_FALSE(claim().task);
  advance(5min);
  EXPECT_FALSE(claim("g", "boot-b").task) << "boot-a keeps it";
  const ClaimAnswer again = claim();
  ASSERT_TRUE(again.task);
  EXPECT_EQ(again.task->attempt, 2U);
  ASSERT_TRUE(write(*again.task, 1, AttemptEnded{.give_back = true, .keep = 5min}));
  advance(5min);
  EXPECT_TRUE(claim("g", "boot-b").task) << "not for longer than it said";
}

TEST_P(TaskStoreContract, PausedPluginsAndGroupsWait) {
  ASSERT_TRUE(submit(task("t")));
  NewTask other = task("u");
  other.steps[0].plugin = "q";
  ASSERT_TRUE(submit(other));
  EXPECT_EQ(claim({.id = "", .boot = "boot-a", .group = "g", .without_plugins = {"p0"}})->task->id(), "u");
  EXPECT_FALSE(claim({.id = "", .boot = "boot-a", .group = "g", .without_plugins = {"p0"}})->task);
  pause("g", true);
  EXPECT_FALSE(claim().task);
  EXPECT_TRUE(work().empty());
  world_->restart();
  ASSERT_EQ(controls().size(), 1U);
  EXPECT_TRUE(controls()[0].paused);
  pause("g", false);
  EXPECT_EQ(claim().task->id(), "t");
}

TEST_P(TaskStoreContract, ADeadlineExpiresWhatIsNotStarted) {
  NewTask brief = task("t");
  brief.deadline = 10min;
  ASSERT_TRUE(submit(brief));
  NewTask next = task("next");
  ASSERT_TRUE(submit(next));
  advance(10min);
  EXPECT_EQ(claim().task->id(), "next");
  EXPECT_EQ(get("t").state, ChainState::kExpired);
  ASSERT_EQ(letters().size(), 1U);
  EXPECT_EQ(letters()[0].task_id, "t");
  EXPECT_EQ(event_kinds(1), std::vector<std::string>{"expired"});
}

TEST_P(TaskStoreContract, APauseExtendsDeadlinesByItsLength) {
  NewTask brief = task("t");
  brief.deadline = 10min;
  ASSERT_TRUE(submit(brief));
  advance(5min);
  pause("g", true);
  advance(1h);
  pause("g", false);
  advance(4min);
  ASSERT_TRUE(join("boot-b", 1h));
  EXPECT_TRUE(claim("g", "boot-b").task);
}

TEST_P(TaskStoreContract, CancelWhereverItIs) {
  ASSERT_TRUE(submit(task("waiting")));
  EXPECT_EQ(cancel("waiting")->state, ChainState::kCancelled);
  EXPECT_EQ(cancel("waiting")->state, ChainState::kCancelled);
  EXPECT_FALSE(claim().task);

  ASSERT_TRUE(submit(task("running")));
  const ChainTask running = *claim().task;
  EXPECT_EQ(cancel("running")->state, ChainState::kProcessing);
  const auto written = write(running, 1, Checkpoint{.step = 0, .begin_next = true});
  EXPECT_EQ(written->state, ChainState::kCancelled);
  EXPECT_EQ(get("running").step, 1U) << "what was done counts";
  EXPECT_FALSE(get("running").attempt_open);

  ASSERT_TRUE(submit(task("last", "g", 1)));
  const ChainTask last = *claim().task;
  ASSERT_TRUE(cancel("last"));
  EXPECT_EQ(write(last, 1, Checkpoint{.step = 0})->state, ChainState::kCompleted);
  EXPECT_EQ(cancel("last").error().code, ErrorCode::kConflict);
  EXPECT_EQ(cancel("nobody").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(letters().empty());
}

TEST_P(TaskStoreContract, FailedTasksCanBeReplayed) {
  ASSERT_TRUE(submit(task("t")));
  const ChainTask claimed = *claim().task;
  EXPECT_EQ(replay({.task_id = "t"}).error().code, ErrorCode::kConflict);
  ASSERT_TRUE(write(claimed, 1, Checkpoint{.step = 0, .context = R"({"a":1})"}));
  ASSERT_TRUE(write(claimed, 2, AttemptBegun{}));
  ASSERT_TRUE(write(claimed, 3, ChainFailed{.reason = "step 1 says no"}));
  const DeadLetter letter = letters().at(0);
  EXPECT_EQ(letter.reason, "step 1 says no");
  EXPECT_EQ(letter.plugin, "p1");
  EXPECT_EQ(letter.step, 1U);
  EXPECT_EQ(letter.node, "boot-a");
  EXPECT_EQ(replay({.task_id = "t", .from_step = 2}).error().code, ErrorCode::kInvalid);
  const auto again = replay({.task_id = "t", .deadline = 5min, .message_id = "m2"});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->step, 1U);
  EXPECT_PRED2(is_about, again->deadline_at, now() + 5min);
  EXPECT_EQ(again->message_id, "m2");
  EXPECT_TRUE(letters().empty());
  const ClaimAnswer reclaimed = claim();
  EXPECT_GT(reclaimed.task->epoch, claimed.epoch);
  EXPECT_EQ(reclaimed.task->context, R"({"a":1})");
  ASSERT_TRUE(write(*reclaimed.task, 1, Checkpoint{.step = 1}));
  EXPECT_EQ(replay({.task_id = "t"}).error().code, ErrorCode::kInvalid) << "there is nothing left to do";
  EXPECT_EQ(replay({.task_id = "t", .from_step = 0})->step, 0U);
}

TEST_P(TaskStoreContract, AMessageReadiesItsRowOnce) {
  NewTask pending = task("t");
  pending.pending = true;
  EXPECT_EQ(submit(pending)->state, ChainState::kPending);
  EXPECT_FALSE(claim().task);
  EXPECT_EQ(take_in({.message_id = "m1", .task_id = "t"}), IntakeOutcome::kReadied);
  EXPECT_EQ(take_in({.message_id = "m1", .task_id = "t"}), IntakeOutcome::kDuplicate);
  EXPECT_EQ(take_in({.message_id = "m2", .task_id = "t"}), IntakeOutcome::kNotCurrent);
  EXPECT_EQ(take_in({.message_id = "m1", .task_id = "t", .deadline = now() - 1h}), IntakeOutcome::kDuplicate);
  EXPECT_TRUE(claim().task);
  EXPECT_EQ(take_in({.message_id = "m3", .task_id = "nobody"}), IntakeOutcome::kUnknown);
  EXPECT_EQ(take_in({.message_id = "m3", .task_id = "nobody"}), IntakeOutcome::kDuplicate);
  EXPECT_EQ(letters().size(), 1U);
}

TEST_P(TaskStoreContract, ALostAnswerToAnIntakeCanBeAskedForAgain) {
  for (int i = 0; i < 2; ++i) {
    const auto answers = wait<std::vector<IntakeAnswer>>(
        [&](auto done) { store().take_in({{.message_id = "m1", .task = task("t")}}, std::move(done)); });
    EXPECT_EQ(answers->at(0).group, "g") << "whoever asks again must wake the group";
  }
  ASSERT_TRUE(claim().task);
  const auto answers = wait<std::vector<IntakeAnswer>>(
      [&](auto done) { store().take_in({{.message_id = "m1", .task = task("t")}}, std::move(done)); });
  EXPECT_EQ(answers->at(0).group, "");
}

TEST_P(TaskStoreContract, AMessageMayCarryAWholeTask) {
  EXPECT_EQ(take_in({.message_id = "m1", .task = task("t")}), IntakeOutcome::kCreated);
  EXPECT_EQ(take_in({.message_id = "m1", .task = task("t")}), IntakeOutcome::kDuplicate);
  EXPECT_EQ(get("t").message_id, "m1");
  EXPECT_EQ(take_in({.message_id = "m2", .task = task("late"), .deadline = now()}), IntakeOutcome::kExpired);
  EXPECT_EQ(take_in({.message_id = "m3", .task = task("bad", "")}), IntakeOutcome::kRefused);
  EXPECT_EQ(take_in({.message_id = "m4", .refused = DeadLetter{.reason = "not JSON", .original = "{"}}),
            IntakeOutcome::kRefused);
  EXPECT_EQ(letters().size(), 3U);
  NewTask pending = task("p");
  pending.pending = true;
  pending.deadline = 10min;
  ASSERT_TRUE(submit(pending));
  advance(20min);
  EXPECT_EQ(take_in({.message_id = "m5", .task_id = "p"}), IntakeOutcome::kExpired);
  EXPECT_EQ(get("p").state, ChainState::kExpired);
}

TEST_P(TaskStoreContract, ListsByFilterNewestFirst) {
  for (int i = 0; i < 5; ++i) {
    NewTask made = task("t" + std::to_string(i), i % 2 == 0 ? "even" : "odd");
    made.tags = {"n" + std::to_string(i)};
    ASSERT_TRUE(submit(made));
  }
  const auto list = [&](TaskFilter filter) {
    std::vector<std::string> ids;
    const auto page = wait<TaskPage>([&](auto done) { store().list(filter, std::move(done)); });
    for (const ChainTask& each : page->tasks) ids.push_back(each.id());
    EXPECT_EQ(page->next != 0, filter.limit == 2 && ids.back() != "t0") << "there is more";
    return ids;
  };
  EXPECT_EQ(list({.group = "odd"}), (std::vector<std::string>{"t3", "t1"}));
  EXPECT_EQ(list({.tag = "n2"}), std::vector<std::string>{"t2"});
  EXPECT_EQ(list({.limit = 2}), (std::vector<std::string>{"t4", "t3"}));
  EXPECT_EQ(list({.before = get("t3").sequence, .limit = 2}), (std::vector<std::string>{"t2", "t1"}));
  ASSERT_TRUE(cancel("t0"));
  EXPECT_EQ(list({.state = ChainState::kCancelled}), std::vector<std::string>{"t0"});
  const auto stats = wait<StoreStats>([&](auto done) { store().stats(std::move(done)); });
  EXPECT_EQ(stats->tasks[static_cast<std::size_t>(ChainState::kReady)], 4U);
}

TEST_P(TaskStoreContract, AWriteAnswersWithTheRowItLeaves) {
  ASSERT_TRUE(submit(task("t")));
  const ChainTask claimed = *claim().task;
  const auto checkpointed = write(claimed, 1, Checkpoint{.step = 0, .context = R"({"a":1})", .ran = 3s});
  ASSERT_TRUE(checkpointed);
  EXPECT_EQ(checkpointed->step, 1U);
  EXPECT_EQ(checkpointed->context, R"({"a":1})");
  EXPECT_EQ(checkpointed->ran, 3s);
  EXPECT_FALSE(checkpointed->attempt_open);
  const auto begun = write(claimed, 2, AttemptBegun());
  EXPECT_EQ(begun->attempt, 1U);
  EXPECT_TRUE(begun->attempt_open);
  const auto repeated = write(claimed, 2, AttemptBegun());
  EXPECT_EQ(repeated->attempt, 1U) << "its answer was lost";
  const auto cancelled = cancel("t");
  EXPECT_TRUE(cancelled->cancel_requested);
  EXPECT_EQ(cancelled->state, ChainState::kProcessing);
  EXPECT_EQ(write(claimed, 3, Checkpoint{.step = 1})->state, ChainState::kCompleted);
}

TEST_P(TaskStoreContract, WhatEndedLongAgoIsForgottenInSteps) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(submit(task("old" + std::to_string(i), "g", 0)));
  advance(168h);
  ASSERT_TRUE(submit(task("new", "g", 0)));
  ASSERT_TRUE(submit(task("open")));
  const auto remove = [&] {
    return *wait<std::uint64_t>([&](auto done) { store().remove_ended(168h, 3, std::move(done)); });
  };
  EXPECT_EQ(remove(), 3U);
  EXPECT_EQ(remove(), 2U);
  EXPECT_EQ(remove(), 0U);
  EXPECT_EQ(get("new").state, ChainState::kCompleted);
  EXPECT_EQ(get("open").state, ChainState::kReady);
  EXPECT_EQ(event_kinds(1), std::vector<std::string>{"completed"});
  ASSERT_TRUE(submit(task("old0", "g", 0))) << "its id is free again";
}

}  // namespace
}  // namespace cohort
