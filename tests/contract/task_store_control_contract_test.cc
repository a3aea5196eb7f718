// What every TaskStore promises about controls, news, events, counts and texts; see task_store_contract_test.cc.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "contract/task_store_contract.h"

namespace cohort {
namespace {

// News in the order in which they came, as one text.
class Heard {
 public:
  explicit Heard(TaskStore& store)
      : watch_(store.watch([this](const StoreNews& news) {
          MutexLock lock(mutex_);
          for (const ReadyGroup& each : news.ready) {
            text_ += each.group + "*" + std::to_string(each.count);
            if (each.next_in > Duration::zero()) text_ += " later";
            text_ += " ";
          }
          if (news.control) text_ += "control ";
          if (news.last_event == 0) return;
          ++events_;
          told_.notify_all();
        })) {}
  void stop() { watch_.reset(); }
  std::string take() {
    MutexLock lock(mutex_);
    return std::exchange(text_, {});
  }
  // Events are told when they have their numbers, which may be after the call that made them.
  void wait_for_event() {
    MutexLock lock(mutex_);
    while (events_ == 0) told_.wait(mutex_);
    events_ = 0;
  }

 private:
  Mutex mutex_;
  CondVar told_;
  int events_ COHORT_GUARDED_BY(mutex_) = 0;
  std::string text_ COHORT_GUARDED_BY(mutex_);
  std::shared_ptr<void> watch_;
};

TEST_P(TaskStoreContract, CursorsAndLettersAreKept) {
  ASSERT_TRUE(wait<void>([&](auto done) { store().set_cursor("relay", 42, std::move(done)); }));
  world_->restart();
  EXPECT_EQ(*wait<std::uint64_t>([&](auto done) { store().cursor("relay", std::move(done)); }), 42U);
  EXPECT_EQ(*wait<std::uint64_t>([&](auto done) { store().cursor("other", std::move(done)); }), 0U);
  EXPECT_EQ(wait<void>([&](auto done) { store().discard_dead_letter("t", std::move(done)); }).error().code,
            ErrorCode::kNotFound);
}

TEST_P(TaskStoreContract, ControlsStandUntilTheyAreChanged) {
  const auto set = [&](const char* group, const char* limits) {
    ASSERT_TRUE(wait<void>([&](auto done) { store().set_limits(group, limits, std::move(done)); }));
  };
  set("g", "1");
  const std::uint64_t first = controls().at(0).version;
  set("g", "2");
  EXPECT_GT(controls().at(0).version, first);
  set("h", "3");
  pause("h", true);
  advance(200h);
  ASSERT_TRUE(wait<std::uint64_t>([&](auto done) { store().remove_ended(168h, 100, std::move(done)); }));
  world_->restart();
  ASSERT_EQ(controls().size(), 2U);
  EXPECT_EQ(controls()[0].limits, "2");
  EXPECT_FALSE(controls()[0].paused);
  EXPECT_EQ(controls()[1].limits, "3");
  EXPECT_TRUE(controls()[1].paused);
  EXPECT_EQ(controls("g").size(), 1U);
  set("g", "");
  ASSERT_EQ(controls().size(), 1U);
  EXPECT_EQ(controls()[0].group, "h");
}

TEST_P(TaskStoreContract, ABootSeesWhatItHasClaimed) {
  ASSERT_TRUE(submit(task("t")));
  ASSERT_TRUE(submit(task("u")));
  const ClaimRequest request{.id = "mine", .boot = "boot-a", .group = "g"};
  const ChainTask claimed = *claim(request)->task;
  ASSERT_TRUE(write(claimed, 1, AttemptEnded{.error = "busy"}));
  ASSERT_TRUE(cancel("t"));
  const auto claims = wait<std::vector<HeldClaim>>([&](auto done) { store().claims_of("boot-a", std::move(done)); });
  ASSERT_EQ(claims->size(), 1U);
  EXPECT_EQ(claims->at(0).task_id, "t");
  EXPECT_EQ(claims->at(0).epoch, claimed.epoch);
  EXPECT_EQ(claims->at(0).claim_id, "mine");
  EXPECT_EQ(claims->at(0).writes, 1U);
  EXPECT_TRUE(claims->at(0).cancel_requested);
  EXPECT_TRUE(wait<std::vector<HeldClaim>>([&](auto done) { store().claims_of("nobody", std::move(done)); })->empty());
}

TEST_P(TaskStoreContract, TextsThatNobodyCanStoreAreRefusedOrCleaned) {
  const std::string bad = std::string("a\0b\xFF", 4);
  NewTask tagged = task("tagged");
  tagged.tags = {bad};
  NewTask keyed = task("keyed");
  keyed.idempotency_key = bad;
  NewTask loaded = task("loaded");
  loaded.payload = "\"" + bad + "\"";
  for (const NewTask& each : {tagged, keyed, loaded, task("in-bad", bad), task(bad)}) {
    EXPECT_EQ(submit(each).error().code, ErrorCode::kInvalid) << each.id;
  }
  ASSERT_TRUE(submit(task("t")));
  const ChainTask claimed = *claim().task;
  ASSERT_TRUE(write(claimed, 0, StepReport{.note = bad, .log = {bad}}));
  ASSERT_TRUE(write(claimed, 1, ChainFailed{.reason = bad}));
  const std::string clean =
      "a\xEF\xBF\xBD"
      "b\xEF\xBF\xBD";
  world_->restart();
  EXPECT_EQ(get("t").error, clean);
  EXPECT_EQ(get("t").log, std::vector<std::string>{clean});
  EXPECT_EQ(take_in({.message_id = bad, .refused = DeadLetter{.reason = bad, .original = bad}}),
            IntakeOutcome::kRefused);
  EXPECT_EQ(take_in({.message_id = bad, .refused = DeadLetter{.reason = bad, .original = bad}}),
            IntakeOutcome::kDuplicate);
  EXPECT_EQ(take_in({.message_id = "m", .task = loaded}), IntakeOutcome::kRefused);
}

TEST_P(TaskStoreContract, EventsOfATaskAreCounted) {
  ASSERT_TRUE(submit(task("t")));
  ASSERT_TRUE(submit(task("u", "g", 0)));
  const ChainTask claimed = *claim().task;
  ASSERT_TRUE(write(claimed, 1, Checkpoint{.step = 0, .begin_next = true}));
  ASSERT_TRUE(write(claimed, 2, Checkpoint{.step = 1}));
  ASSERT_TRUE(replay({.task_id = "t", .from_step = 0}));
  std::vector<std::uint64_t> ordinals;
  for (const ChainEvent& each : events(4)) {
    if (each.task_id == "t") ordinals.push_back(each.ordinal);
  }
  EXPECT_EQ(ordinals, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_P(TaskStoreContract, WatchersHearOfControlAndEvents) {
  ASSERT_TRUE(submit(task("t")));
  Heard heard(store());
  pause("g", true);
  EXPECT_EQ(heard.take(), "control ") << "nothing is ready by that";
  pause("g", false);
  EXPECT_EQ(heard.take(), "g*1 control ");
  ASSERT_TRUE(wait<void>([&](auto done) { store().set_limits("g", "{}", std::move(done)); }));
  EXPECT_EQ(heard.take(), "control ");
  ASSERT_TRUE(cancel("t"));
  heard.wait_for_event();
  EXPECT_EQ(heard.take(), "");
  ASSERT_TRUE(replay({.task_id = "t"}));
  heard.wait_for_event();
  EXPECT_EQ(heard.take(), "g*1 ");
  ASSERT_TRUE(claim().task);
  ASSERT_TRUE(cancel("t"));
  EXPECT_EQ(heard.take(), "control ") << "its node is to stop it";
  EXPECT_EQ(take_in({.message_id = "m", .refused = DeadLetter{.task_id = "x", .message_id = "m"}}),
            IntakeOutcome::kRefused);
  heard.wait_for_event();
}

TEST_P(TaskStoreContract, WatchersHearWhatBecomesReady) {
  if (GetParam() == StoreKind::kPostgresSql) return;  // Nobody is told of those at once.
  Heard heard(store());
  const auto both = wait<std::vector<Result<Submitted>>>([&](auto done) {
    store().submit({task("a"), task("b")}, std::move(done));
  });
  ASSERT_TRUE(both);
  EXPECT_EQ(heard.take(), "g*2 ");
  NewTask late = task("c");
  late.start_at = now() + 60min;
  ASSERT_TRUE(submit(late));
  EXPECT_EQ(heard.take(), "g*1 later ");
  ASSERT_TRUE(submit(task("a")));
  EXPECT_EQ(heard.take(), "") << "it was there already";

  const ChainTask claimed = *claim().task;
  EXPECT_EQ(heard.take(), "");
  ASSERT_TRUE(write(claimed, 1, AttemptEnded{.give_back = true, .delay = 5min, .keep = 60min}));
  EXPECT_EQ(heard.take(), "g*1 later ");
  const ChainTask next = *claim().task;
  ASSERT_TRUE(write(next, 1, AttemptEnded{.failed = false, .give_back = true}));
  EXPECT_EQ(heard.take(), "g*1 ");

  ASSERT_TRUE(wait<void>([&](auto done) { store().leave("boot-a", std::move(done)); }));
  EXPECT_EQ(heard.take(), "g*1 later ") << "what it kept is free";
  heard.stop();
  ASSERT_TRUE(submit(task("d")));
  EXPECT_EQ(heard.take(), "");
}

TEST_P(TaskStoreContract, AGroupShowsWhatItHasOpen) {
  NewTask pending = task("pending");
  pending.pending = true;
  NewTask later = task("later");
  later.start_at = world_->wall.now() + 1h;
  for (const NewTask& each : {pending, later, task("a"), task("b"), task("done", "g", 0), task("else", "h")}) {
    ASSERT_TRUE(submit(each));
  }
  ASSERT_TRUE(claim().task);
  pause("idle", true);
  const auto counts =
      wait<std::vector<GroupCounts>>([&](auto done) { store().group_counts("", 100, std::move(done)); });
  ASSERT_EQ(counts->size(), 3U);
  EXPECT_EQ(counts->at(0).group, "g");
  EXPECT_EQ(counts->at(0).pending, 1U);
  EXPECT_EQ(counts->at(0).ready, 2U);
  EXPECT_EQ(counts->at(0).processing, 1U);
  EXPECT_FALSE(counts->at(0).paused);
  EXPECT_EQ(counts->at(1).group, "h");
  EXPECT_EQ(counts->at(2).group, "idle");
  EXPECT_TRUE(counts->at(2).paused);
  const auto page = wait<std::vector<GroupCounts>>([&](auto done) { store().group_counts("g", 1, std::move(done)); });
  ASSERT_EQ(page->size(), 1U);
  EXPECT_EQ(page->at(0).group, "h");
  const auto one = wait<GroupCounts>([&](auto done) { store().group_count("g", std::move(done)); });
  EXPECT_EQ(one->processing, 1U);
  EXPECT_EQ(wait<GroupCounts>([&](auto done) { store().group_count("nobody", std::move(done)); })->ready, 0U);
}

}  // namespace
}  // namespace cohort
