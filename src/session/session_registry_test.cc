#include "cohort/session/session_registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cohort/group/group_executor.h"
#include "cohort/task/sleep.h"
#include "cohort/testing/world.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

SessionId session(std::string_view text) { return SessionId::parse(text).value(); }
GroupName name(std::string_view text) { return GroupName::parse(text).value(); }

template <class T>
ErrorCode code(const Result<T>& result) {
  return result ? ErrorCode::kInternal : result.error().code;
}

class SessionRegistryTest : public ::testing::Test {
 protected:
  using Registry = SessionRegistry<std::string>;

  Registry& make(SessionOptions options = {}) {
    options.executor = &world.executor;
    options.sweeps_itself = false;
    registry = std::make_unique<Registry>(
        std::move(options), [this](EndedSession<std::string> ended) { ended_by_itself.push_back(std::move(ended)); });
    return *registry;
  }
  GroupId group(std::string_view of, std::string_view called) {
    return registry->ensure_group(session(of), name(called)).value().id;
  }
  void pass(Duration duration) {
    world.executor.advance(duration);
    registry->sweep();
  }
  std::string names_of(std::string_view of) {
    std::string names;
    auto groups = registry->groups_of(session(of));
    if (!groups) return groups.error().message;
    for (const auto& each : *groups) names += each.name + " ";
    return names;
  }

  void TearDown() override {
    if (registry) {
      EXPECT_EQ(registry->check(), "");
    }
    registry.reset();
    EXPECT_EQ(world.leaks(), "");
  }

  World world;
  std::vector<EndedSession<std::string>> ended_by_itself;
  std::unique_ptr<Registry> registry;
};

// ---- create, update, delete

TEST_F(SessionRegistryTest, AGroupIsMadeOnceFoundAgainChangedAndRemoved) {
  make();
  auto first = registry->ensure_group(session("s"), name("g"), [] { return std::string("new"); });
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->created);
  auto again = registry->ensure_group(session("s"), name("g"), [] { return std::string("unused"); });
  EXPECT_FALSE(again->created);
  EXPECT_EQ(again->id, first->id);
  EXPECT_EQ(again->token, first->token);
  EXPECT_EQ(registry->find_group(session("s"), name("g"))->id, first->id);
  EXPECT_EQ(registry->find_group(first->id)->token, first->token);

  EXPECT_TRUE(registry->with_group(first->id, [](std::string& text) { text += " and improved"; }));
  EXPECT_EQ(registry->with_group(first->id, [](const std::string& text) { return text.size(); }).value(), 16U);

  const auto removed = registry->remove_group(first->id);
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->payload, "new and improved");
  EXPECT_EQ(removed->name, "g");
  EXPECT_EQ(removed->id, first->id);
  EXPECT_EQ(code(registry->remove_group(first->id)), ErrorCode::kNotFound);
  EXPECT_EQ(code(registry->with_group(first->id, [](std::string&) {})), ErrorCode::kNotFound);
  EXPECT_EQ(code(registry->find_group(session("s"), name("g"))), ErrorCode::kNotFound);
  EXPECT_EQ(registry->counts().sessions, 0U) << "a session without groups is forgotten";
}

TEST_F(SessionRegistryTest, AGroupThatIsMadeAgainIsAnother) {
  make();
  const GroupId first = group("s", "g");
  ASSERT_TRUE(registry->remove_group(first));
  const GroupId second = group("s", "g");
  EXPECT_NE(first, second);
  EXPECT_EQ(code(registry->remove_group(first)), ErrorCode::kNotFound);
  EXPECT_TRUE(registry->remove_group(second));
}

TEST_F(SessionRegistryTest, PayloadsMayBeMoveOnlyAndNotDefaultConstructible) {
  SessionRegistry<std::unique_ptr<int>> registry_of_pointers({.sweeps_itself = false});
  auto made = registry_of_pointers.ensure_group(session("s"), name("g"), [] { return std::make_unique<int>(7); });
  auto ended = registry_of_pointers.end_session(session("s"), "done");
  ASSERT_EQ(ended->groups.size(), 1U);
  EXPECT_EQ(*ended->groups[0].payload, 7);
}

TEST_F(SessionRegistryTest, AnExceptionOfTheMakerOrTheVisitorComesOutAndLeavesAllAsItWas) {
  make();
  const auto failing = []() -> std::string { throw std::runtime_error("no"); };
  EXPECT_THROW((void)registry->ensure_group(session("s"), name("g"), failing), std::runtime_error);
  EXPECT_EQ(registry->counts().groups, 0U);
  const GroupId id = group("s", "g");
  EXPECT_THROW((void)registry->with_group(id, [](std::string&) { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_TRUE(registry->with_group(id, [](std::string&) {})) << "the lock is free again";
}

TEST_F(SessionRegistryTest, TheVisitorMustNotCallTheRegistry) {
  make();
  const GroupId id = group("s", "g");
  EXPECT_DEATH((void)registry->with_group(id, [&](std::string&) { (void)registry->touch(session("s")); }),
               "must not call the registry");
}

// ---- index, active entry

TEST_F(SessionRegistryTest, ASessionListsItsGroupsInTheOrderOfTheirCreation) {
  make();
  for (const char* each : {"a", "b", "c", "d"}) group("s", each);
  group("other", "x");
  EXPECT_EQ(names_of("s"), "a b c d ");
  ASSERT_TRUE(registry->remove_group(group("s", "b")));
  group("s", "b");
  EXPECT_EQ(names_of("s"), "a c d b ");
  EXPECT_EQ(registry->counts().groups, 5U);
  EXPECT_EQ(registry->counts().sessions, 2U);
  EXPECT_EQ(code(registry->groups_of(session("nobody"))), ErrorCode::kNotFound);
}

TEST_F(SessionRegistryTest, TheActiveGroupGoesWithTheGroup) {
  make();
  const GroupId a = group("s", "a");
  const GroupId b = group("s", "b");
  EXPECT_EQ(code(registry->active_group(session("s"))), ErrorCode::kNotFound);
  ASSERT_TRUE(registry->set_active_group(a));
  EXPECT_EQ(registry->active_group(session("s")).value(), a);
  ASSERT_TRUE(registry->set_active_group(b));
  ASSERT_TRUE(registry->remove_group(a));
  EXPECT_EQ(registry->active_group(session("s")).value(), b);
  ASSERT_TRUE(registry->remove_group(b));
  EXPECT_EQ(code(registry->active_group(session("s"))), ErrorCode::kNotFound);
  EXPECT_EQ(code(registry->set_active_group(b)), ErrorCode::kNotFound);
}

// ---- ends

TEST_F(SessionRegistryTest, NothingOfAnEndedSessionIsLeft) {
  make();
  const GroupId a = group("s", "a");
  group("s", "b");
  const GroupId other = group("t", "a");
  ASSERT_TRUE(registry->set_active_group(a));
  ASSERT_TRUE(registry->with_group(a, [](std::string& text) { text = "kept"; }));

  const auto ended = registry->end_session(session("s"), "hung up");
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->session, "s");
  EXPECT_EQ(ended->reason, "hung up");
  ASSERT_EQ(ended->groups.size(), 2U);
  EXPECT_EQ(ended->groups[0].payload, "kept");
  EXPECT_EQ(ended->groups[1].name, "b");

  EXPECT_EQ(code(registry->find_group(a)), ErrorCode::kNotFound);
  EXPECT_EQ(code(registry->find_group(session("s"), name("a"))), ErrorCode::kEnded);
  EXPECT_EQ(code(registry->active_group(session("s"))), ErrorCode::kEnded);
  EXPECT_EQ(code(registry->groups_of(session("s"))), ErrorCode::kEnded);
  EXPECT_EQ(code(registry->touch(session("s"))), ErrorCode::kEnded);
  EXPECT_EQ(registry->counts().groups, 1U);
  EXPECT_EQ(registry->counts().sessions, 1U);
  EXPECT_EQ(registry->counts().ended, 1U);
  EXPECT_TRUE(registry->with_group(other, [](std::string&) {}));
}

TEST_F(SessionRegistryTest, WhoeverIsLateGetsEndedAndCreatesNothingUntilTheMarkExpires) {
  make({.remember_ended = 5min});
  const GroupId before = group("s", "g");
  ASSERT_TRUE(registry->end_session(session("s"), "done"));
  EXPECT_EQ(code(registry->ensure_group(session("s"), name("g"))), ErrorCode::kEnded);
  EXPECT_EQ(code(registry->end_session(session("s"), "again")), ErrorCode::kEnded);
  EXPECT_EQ(registry->counts().groups, 0U);
  pass(5min - 1ms);
  EXPECT_EQ(code(registry->ensure_group(session("s"), name("g"))), ErrorCode::kEnded);
  pass(1ms);
  EXPECT_EQ(registry->counts().ended, 0U);
  EXPECT_NE(group("s", "g"), before);
}

TEST_F(SessionRegistryTest, ASessionMayEndBeforeItsFirstGroup) {
  make();
  const auto ended = registry->end_session(session("s"), "never mind");
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->groups.empty());
  EXPECT_EQ(code(registry->ensure_group(session("s"), name("g"))), ErrorCode::kEnded);
}

TEST_F(SessionRegistryTest, ManyGroupsEndInSteps) {
  make();
  for (int i = 0; i < 1000; ++i) group("s", std::to_string(i));
  const auto ended = registry->end_session(session("s"), "done");
  ASSERT_EQ(ended->groups.size(), 1000U);
  for (std::size_t i = 0; i < 1000; ++i) EXPECT_EQ(ended->groups[i].name, std::to_string(i));
}

// Between the first look and the second anything may happen; here it happens while the payload is being made.

TEST_F(SessionRegistryTest, AnEndBetweenTheTwoLooksLeavesNoGhost) {
  make();
  const auto made = registry->ensure_group(session("s"), name("g"), [&] {
    EXPECT_TRUE(registry->end_session(session("s"), "meanwhile"));
    return std::string();
  });
  EXPECT_EQ(code(made), ErrorCode::kEnded);
  EXPECT_EQ(registry->counts().groups, 0U);
}

TEST_F(SessionRegistryTest, ACreationBetweenTheTwoLooksWins) {
  make();
  GroupId winner;
  const auto made = registry->ensure_group(session("s"), name("g"), [&] {
    winner = group("s", "g");
    return std::string("loser");
  });
  EXPECT_FALSE(made->created);
  EXPECT_EQ(made->id, winner);
  EXPECT_EQ(registry->with_group(winner, [](const std::string& text) { return text; }).value(), "");
}

TEST_F(SessionRegistryTest, ASessionThatGoesOrComesBetweenTheTwoLooksIsTheOneThatCounts) {
  make({.remember_ended = 1s});
  const GroupId old = group("s", "old");
  ASSERT_TRUE(registry->ensure_group(session("s"), name("g"), [&] {
    EXPECT_TRUE(registry->remove_group(old));  // The session is forgotten.
    return std::string();
  }));
  EXPECT_EQ(names_of("s"), "g ");
  EXPECT_EQ(registry->check(), "");

  int made = 0;
  ASSERT_TRUE(registry->ensure_group(session("s"), name("h"), [&] {
    if (made++ == 0) {
      EXPECT_TRUE(registry->end_session(session("s"), "meanwhile"));
      pass(1s);  // And it is forgotten.
      if (world.random.chance(0.5)) group("s", "first again");
    }
    return std::string();
  }));
  EXPECT_EQ(made, 2) << "what was made for the old session is no good for the new one";
  EXPECT_EQ(registry->counts().sessions, 1U);
}

// ---- time

TEST_F(SessionRegistryTest, AnIdleSessionEndsByItself) {
  make({.ttl = 30min});
  group("s", "g");
  pass(20min);
  ASSERT_TRUE(registry->touch(session("s")));
  pass(20min);
  group("s", "g");  // Looking it up is activity too.
  pass(30min - 1ms);
  EXPECT_TRUE(ended_by_itself.empty());
  pass(1ms);
  ASSERT_EQ(ended_by_itself.size(), 1U);
  EXPECT_EQ(ended_by_itself[0].reason, "idle");
  EXPECT_EQ(ended_by_itself[0].groups[0].name, "g");
  EXPECT_EQ(code(registry->ensure_group(session("s"), name("g"))), ErrorCode::kEnded);
}

TEST_F(SessionRegistryTest, WorkThatWaitsOrRunsIsActivity) {
  make({.ttl = 1min});
  const GroupToken token = registry->ensure_group(session("s"), name("g"))->token;
  for (int i = 0; i < 2; ++i) {
    world.executor.submit(token, "long", []() -> Task<void> { co_await sleep_for(90s); });
  }
  pass(170s);
  EXPECT_TRUE(ended_by_itself.empty()) << "the second one has waited for the first, and runs";
  pass(60s);
  EXPECT_TRUE(ended_by_itself.empty()) << "it has ended 50 s ago";
  pass(10s);
  EXPECT_EQ(ended_by_itself.size(), 1U);
}

TEST_F(SessionRegistryTest, ATtlOfZeroIsForEver) {
  make({.ttl = 0s});
  group("s", "g");
  EXPECT_EQ(registry->sweep(), std::nullopt);
  pass(24h * 365);
  EXPECT_EQ(registry->counts().sessions, 1U);
}

TEST_F(SessionRegistryTest, SessionsThatNobodyEndsDoNotPileUp) {
  make({.ttl = 30min, .remember_ended = 5min});
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 500; ++i) group(std::to_string(round * 1000 + i), "g");
    pass(5min);
    EXPECT_LE(registry->counts().sessions, 3500U);
  }
  pass(1h);
  pass(5min);
  EXPECT_EQ(ended_by_itself.size(), 10'000U);
  EXPECT_EQ(registry->counts().groups + registry->counts().sessions + registry->counts().ended, 0U);
  EXPECT_EQ(registry->sweep(), std::nullopt);
}

TEST_F(SessionRegistryTest, SweepSaysWhenItIsNeededNext) {
  make({.ttl = 30min, .remember_ended = 5min});
  EXPECT_EQ(registry->sweep(), std::nullopt);
  group("s", "g");
  EXPECT_EQ(registry->sweep(), world.clock.now() + 30min);
  ASSERT_TRUE(registry->end_session(session("t"), "done"));
  EXPECT_EQ(registry->sweep(), world.clock.now() + 5min);
}

TEST_F(SessionRegistryTest, WhatEndsTogetherHasEndedBeforeAnybodyIsTold) {
  std::vector<GroupToken> tokens;
  int told = 0;
  SessionRegistry<int> sessions({.executor = &world.executor, .ttl = 1s, .shards = 1, .sweeps_itself = false},
                                [&](const EndedSession<int>&) {
                                  ++told;
                                  for (const GroupToken& token : tokens) EXPECT_TRUE(token.is_closed());
                                });
  for (const char* each : {"a", "b", "c"}) tokens.push_back(sessions.ensure_group(session(each), name("g"))->token);
  world.clock.advance(1s);
  sessions.sweep();
  EXPECT_EQ(told, 3);
}

TEST_F(SessionRegistryTest, AMarkLastsItsTimeHoweverSlowTheCallbacksAre) {
  SessionRegistry<int> sessions(
      {.executor = &world.executor, .ttl = 1s, .remember_ended = 5min, .shards = 1, .sweeps_itself = false},
      [&](const EndedSession<int>&) { world.clock.advance(6s); });
  for (int i = 0; i < 65; ++i) ASSERT_TRUE(sessions.ensure_group(session(std::to_string(i)), name("g")));
  world.clock.advance(1s);
  sessions.sweep();
  sessions.sweep();
  EXPECT_EQ(sessions.counts().sessions, 0U);
  int remembered = 0;
  for (int i = 0; i < 65; ++i) {
    remembered += code(sessions.touch(session(std::to_string(i)))) == ErrorCode::kEnded ? 1 : 0;
  }
  EXPECT_GE(remembered, 1) << "the last one ended just now";
}

TEST_F(SessionRegistryTest, AGroupWhosePayloadTookLongToMakeIsNotBornIdle) {
  make({.ttl = 1s});
  ASSERT_TRUE(registry->ensure_group(session("s"), name("g"), [&] {
    world.clock.advance(2s);
    return std::string();
  }));
  registry->sweep();
  EXPECT_EQ(registry->counts().groups, 1U);
}

TEST_F(SessionRegistryTest, ABodyPastItsTimeOutIsActivityUntilItEnds) {
  make({.ttl = 200ms});
  const GroupToken token = registry->ensure_group(session("s"), name("g"))->token;
  world.executor.submit(token, "slow", [&] { world.executor.spend(400ms); }, {.run_timeout = 10ms});
  pass(550ms);
  EXPECT_EQ(registry->counts().groups, 1U) << "it ended 150 ms ago";
  pass(50ms);
  EXPECT_EQ(registry->counts().groups, 0U);
}

TEST_F(SessionRegistryTest, ALateSubmitDoesNotKeepASessionAlive) {
  make({.ttl = 1s});
  const auto removed = registry->ensure_group(session("s"), name("old")).value();
  group("s", "other");
  ASSERT_TRUE(registry->remove_group(removed.id));
  pass(900ms);
  EXPECT_EQ(world.executor.submit(removed.token, "late", [] {}).await().status, TaskStatus::kRejected);
  pass(100ms);
  EXPECT_EQ(ended_by_itself.size(), 1U);
}

TEST_F(SessionRegistryTest, PayloadsGoWithTheirGroupsWhoeverHasATokenStill) {
  const auto payload = std::make_shared<int>(1);
  std::vector<GroupToken> tokens;
  {
    SessionRegistry<std::shared_ptr<int>> sessions({.executor = &world.executor, .ttl = 1s, .sweeps_itself = false});
    tokens.push_back(sessions.ensure_group(session("s"), name("g"), [&] { return payload; })->token);
    world.clock.advance(1s);
    sessions.sweep();
    EXPECT_EQ(payload.use_count(), 1);
    tokens.push_back(sessions.ensure_group(session("t"), name("g"), [&] { return payload; })->token);
    EXPECT_EQ(payload.use_count(), 2);
  }
  EXPECT_EQ(payload.use_count(), 1);
}

// ---- the executor

TEST_F(SessionRegistryTest, AnEndCancelsWhatWaitsAndStopsWhatRuns) {
  make();
  const GroupToken token = registry->ensure_group(session("s"), name("g"))->token;
  const GroupToken other = registry->ensure_group(session("t"), name("g"))->token;
  bool stopped = false;
  const auto running = world.executor.submit(token, "running", [&](std::stop_token stop) -> Task<void> {
    co_await sleep_for(1s);
    stopped = stop.stop_requested();
  });
  const auto waiting = world.executor.submit(token, "waiting", [] { return 1; });
  const auto untouched = world.executor.submit(other, "untouched", [] { return 2; });
  world.executor.run_one();
  EXPECT_EQ(token.open_tasks(), 2U);

  ASSERT_TRUE(registry->end_session(session("s"), "done"));
  EXPECT_TRUE(token.is_closed());
  EXPECT_EQ(waiting.await().status, TaskStatus::kCancelled);
  EXPECT_EQ(running.await().status, TaskStatus::kSuccess) << "it returned a value all the same";
  EXPECT_TRUE(stopped);
  EXPECT_EQ(untouched.await().value, 2);

  const auto late = world.executor.submit(token, "late", [] { return 3; }).await();
  EXPECT_EQ(late.status, TaskStatus::kRejected);
  EXPECT_EQ(late.error->code, ErrorCode::kEnded);
  world.executor.run_until_idle();
  EXPECT_EQ(token.open_tasks(), 0U);
}

TEST_F(SessionRegistryTest, WhatIsLateHitsNoGroupThatWasMadeAgain) {
  make();
  const auto old = registry->ensure_group(session("s"), name("g")).value();
  auto running = world.executor.submit(old.token, "old", []() -> Task<void> { co_await sleep_for(1s); });
  world.executor.run();
  ASSERT_TRUE(registry->remove_group(old.id));
  const auto fresh = registry->ensure_group(session("s"), name("g")).value();
  EXPECT_EQ(fresh.token.key(), old.token.key());
  const auto waiting = world.executor.submit(fresh.token, "new", [] { return 1; });

  world.executor.close_group(old.token);                                                 // A late shutdown,
  const auto late = world.executor.submit(old.token, "late", [] { return 2; }).await();  // a late submit,
  EXPECT_EQ(late.status, TaskStatus::kRejected);
  const auto followed = running.then([] { return 3; }).await();  // and a late follower.
  EXPECT_EQ(followed.status, TaskStatus::kRejected);
  EXPECT_EQ(waiting.await().value, 1);
  EXPECT_EQ(waiting.await().started_at, running.await().ended_at) << "the old body still counts for the group's limit";
}

TEST_F(SessionRegistryTest, BatchesGoThroughTokensToo) {
  make();
  const auto made = registry->ensure_group(session("s"), name("g")).value();
  std::vector<GroupTask<int>> tasks;
  for (int i = 0; i < 3; ++i)
    tasks.emplace_back(made.token, "task-with-a-long-id-" + std::to_string(i), [i] { return i; });
  const auto results = world.executor.execute_all(tasks);
  EXPECT_EQ(results[2].value, 2);
  EXPECT_EQ(results[2].group, "s/g");
  EXPECT_EQ(results[2].task_id, "task-with-a-long-id-2");
  ASSERT_TRUE(registry->end_session(session("s"), "done"));
  std::vector<GroupTask<int>> late;
  late.emplace_back(made.token, "late", [] { return 1; });
  EXPECT_EQ(world.executor.execute_all(late)[0].status, TaskStatus::kRejected);
}

TEST_F(SessionRegistryTest, TheLimitsOfAGroupComeFromItsKey) {
  World other({.groups = {{"a%2Fb/c", {.max_concurrency = 7}}}});
  SessionRegistry<int> sessions({.executor = &other.executor, .sweeps_itself = false});
  const auto made = sessions.ensure_group(session("a/b"), name("c")).value();
  EXPECT_EQ(other.executor.resolve(made.token.key()).max_concurrency, 7U);
}

TEST_F(SessionRegistryTest, ItsDestructorCancelsTheWork) {
  make();
  const GroupToken token = registry->ensure_group(session("s"), name("g"))->token;
  const auto waiting = world.executor.submit(token, "t", [] { return 1; });
  registry.reset();
  EXPECT_EQ(waiting.await().status, TaskStatus::kCancelled);
  EXPECT_TRUE(token.is_closed());
}

// ---- names and limits

TEST_F(SessionRegistryTest, TwoGroupsNeverHaveOneKey) {
  EXPECT_EQ(executor_key(session("s"), name("g")), "s/g");
  EXPECT_EQ(executor_key(session("a/b"), name("c")), "a%2Fb/c");
  EXPECT_EQ(executor_key(session("a"), name("b/c")), "a/b/c");
  EXPECT_EQ(executor_key(session("a%2Fb"), name("c")), "a%252Fb/c");
  EXPECT_LE(executor_key(session(std::string(256, '/')), name(std::string(255, '/'))).size(), 1024U);
  EXPECT_EQ(code(SessionId::parse(std::string(257, 'x'))), ErrorCode::kInvalid);
  EXPECT_EQ(code(GroupName::parse(std::string(256, 'x'))), ErrorCode::kInvalid);
  EXPECT_EQ(code(SessionId::parse("")), ErrorCode::kInvalid);
}

TEST_F(SessionRegistryTest, ThereIsALimitOnGroupsAndSessions) {
  make({.max_sessions = 2, .max_groups_per_session = 2});
  group("s", "a");
  group("s", "b");
  EXPECT_EQ(code(registry->ensure_group(session("s"), name("c"))), ErrorCode::kRejected);
  group("t", "a");
  EXPECT_EQ(code(registry->ensure_group(session("u"), name("a"))), ErrorCode::kRejected);
  ASSERT_TRUE(registry->remove_group(group("t", "a")));
  group("u", "a");
}

TEST_F(SessionRegistryTest, AnIdThatIsNobodysIsNotFound) {
  make();
  EXPECT_EQ(code(registry->find_group(GroupId{})), ErrorCode::kNotFound);
  EXPECT_EQ(code(registry->remove_group(GroupId{.shard = 99'999, .hash = 1, .generation = 1})), ErrorCode::kNotFound);
}

// ---- listeners

TEST_F(SessionRegistryTest, TheListenerHearsOfEverythingAndMayCallBackAndThrow) {
  std::vector<std::string> heard;
  make({.listener = [&](const SessionEvent& event) {
    std::string text(event.session);
    if (event.kind == SessionEvent::Kind::kGroupCreated) text += " + " + std::string(event.group);
    if (event.kind == SessionEvent::Kind::kGroupRemoved) text += " - " + std::string(event.group);
    if (event.kind == SessionEvent::Kind::kSessionEnded) {
      text += " ended: " + std::string(event.reason) + ", " + std::to_string(event.groups);
      EXPECT_EQ(code(registry->ensure_group(session("s"), name("revived"))), ErrorCode::kEnded);
    }
    heard.push_back(text);
    throw std::runtime_error("ignored");
  }});
  group("s", "a");
  group("s", "a");
  const GroupId b = group("s", "b");
  ASSERT_TRUE(registry->remove_group(b));
  ASSERT_TRUE(registry->end_session(session("s"), "done"));
  EXPECT_EQ(heard, (std::vector<std::string>{"s + a", "s + b", "s - b", "s ended: done, 1"}));
}

TEST(SessionRegistryThreadsTest, NobodyWaitsForASlowListener) {
  std::promise<void> entered;
  std::promise<void> leave;
  SessionRegistry<int> registry({.shards = 1,
                                 .listener =
                                     [&](const SessionEvent& event) {
                                       if (event.kind != SessionEvent::Kind::kSessionEnded) return;
                                       entered.set_value();
                                       leave.get_future().wait();
                                     },
                                 .sweeps_itself = false});
  ASSERT_TRUE(registry.ensure_group(session("slow"), name("g")));
  std::thread ending([&] { EXPECT_TRUE(registry.end_session(session("slow"), "done")); });
  entered.get_future().wait();
  const auto made = registry.ensure_group(session("quick"), name("g"));
  ASSERT_TRUE(made);
  EXPECT_TRUE(registry.with_group(made->id, [](int& value) { ++value; }));
  EXPECT_TRUE(registry.remove_group(made->id));
  EXPECT_EQ(code(registry.ensure_group(session("slow"), name("g"))), ErrorCode::kEnded);
  leave.set_value();
  ending.join();
}

TEST(SessionRegistryThreadsTest, AnExecutorsListenerMayLookWhileTheRegistryEnds) {
  SessionRegistry<int>* looks_at = nullptr;
  GroupExecutor executor({.threads = 1, .listener = [&](const TaskEvent& event) {
                            if (event.kind != TaskEvent::Kind::kSettled || looks_at == nullptr) return;
                            EXPECT_EQ(code(looks_at->find_group(session("s"), name("1"))), ErrorCode::kNotFound);
                          }});
  ASSERT_TRUE(executor.pause_group("s/0"));
  {
    SessionRegistry<int> registry({.executor = &executor, .shards = 1});
    for (int i = 0; i < 3; ++i) {
      const auto group = registry.ensure_group(session("s"), name(std::to_string(i)));
      if (i == 0) executor.submit(group->token, "waits", [] {});
    }
    looks_at = &registry;
  }
  looks_at = nullptr;
}

TEST(SessionRegistryThreadsTest, ItSweepsByItself) {
  std::atomic<int> ended{0};
  GroupExecutor executor({.threads = 1});
  SessionRegistry<int> registry({.executor = &executor, .ttl = 1ms, .remember_ended = 1ms},
                                [&](const EndedSession<int>&) { ++ended; });
  for (int round = 1; round <= 5; ++round) {
    const auto group = registry.ensure_group(session("s" + std::to_string(round)), name("g"));
    ASSERT_TRUE(group);
    executor.submit(group->token, "t", [] {});
    while (ended < round) std::this_thread::yield();
    while (registry.counts().ended != 0) std::this_thread::yield();
    EXPECT_EQ(registry.counts().groups, 0U);
  }
}

}  // namespace
}  // namespace cohort
