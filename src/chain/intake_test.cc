// The way in from a broker and the way out to it, in virtual time.

#include <algorithm>

#include "chain/chain_world_test_fixture.h"
#include "cohort/base/log.h"
#include "cohort/chain/task_json.h"
#include "cohort/testing/memory_broker.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class IntakeTest : public ChainWorldTest {
 protected:
  IntakeTest() {
    make_world();
    broker = std::make_unique<MemoryBroker>(*wall);
    outside = broker->member();
    outside->close();
    member = broker->member();
    engine = std::make_unique<ChainEngine>(*store, world->executor, plugins,
                                           ChainOptions{.lease_clock = &world->clock, .seed = 1}, member.get());
  }
  ~IntakeTest() override { engine.reset(); }

  void start_engine() { ASSERT_TRUE(engine->start().await().ok()); }
  void publish(const json& message) { publish_text(message.dump()); }
  void publish_text(const std::string& text) {
    outside->publish(Topic::kTasks, {{"key", text}}, [](const Result<void>& published) { EXPECT_TRUE(published); });
  }
  std::vector<json> published(Topic topic) {
    std::vector<json> all;
    for (const OutMessage& each : broker->published(topic)) all.push_back(json::parse(each.value));
    return all;
  }

  std::unique_ptr<MemoryBroker> broker;
  std::unique_ptr<Broker> outside;
  std::unique_ptr<Broker> member;
};

TEST_F(IntakeTest, AWholeTaskComesInRunsAndIsTold) {
  start_engine();
  publish({{"message_id", "m1"}, {"task", {{"id", "t"}, {"group", "g"}, {"steps", {"note"}}}}});
  advance(2s);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  EXPECT_EQ(get("t").message_id, "m1");
  EXPECT_EQ(broker->unacknowledged(), 0U);
  ASSERT_EQ(published(Topic::kEvents).size(), 1U);
  EXPECT_EQ(published(Topic::kEvents)[0]["kind"], "completed");
  EXPECT_TRUE(published(Topic::kDeadLetters).empty());
  EXPECT_EQ(engine->intake_status().consumed, 1U);
}

TEST_F(IntakeTest, AMessageMayNameARowThatWaitsForIt) {
  start_engine();
  NewTask pending = chain("t", {{.plugin = "note"}});
  pending.pending = true;
  submit(pending);
  advance(1s);
  EXPECT_EQ(get("t").state, ChainState::kPending);
  publish({{"message_id", "m1"}, {"task_id", "t"}});
  publish({{"message_id", "m1"}, {"task_id", "t"}});
  advance(1s);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  EXPECT_EQ(ran.size(), 1U);
}

struct CollectedLog final : LogSink {
  void write(LogLevel, std::string_view, std::string_view message, std::span<const LogField>) override {
    lines.push_back(std::string(message));
  }
  std::vector<std::string> lines;
};

TEST_F(IntakeTest, FormerNamesOfMembersAreUnderstoodWithAWarning) {
  CollectedLog log;
  set_log_sink(&log, LogLevel::kWarning);
  start_engine();
  publish({{"messageId", "m1"},
           {"publishedAt", "2026-01-01T00:00:00Z"},
           {"sourceNode", "old"},
           {"task", {{"id", "t"}, {"group", "g"}, {"callbacks", {"note", "ok"}}}}});
  advance(2s);
  set_log_sink(nullptr);

  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  EXPECT_EQ(get("t").message_id, "m1");
  EXPECT_EQ(get("t").request.steps.size(), 2U);
  EXPECT_TRUE(letters().empty());
  EXPECT_EQ(
      std::ranges::count(log.lines, "a message uses former names of members; use 'steps', 'message_id' and so on"), 1);
}

TEST_F(IntakeTest, AMessageMayNameAChain) {
  ChainTemplate shrink;
  shrink.steps = {{.plugin = "note"}};
  engine = std::make_unique<ChainEngine>(
      *store, world->executor, plugins,
      ChainOptions{.templates = {{"shrink", shrink}}, .lease_clock = &world->clock, .seed = 1}, member.get());
  start_engine();
  publish({{"message_id", "m1"}, {"task", {{"id", "t"}, {"group", "g"}, {"chain", "shrink"}}}});
  publish({{"message_id", "m2"}, {"task", {{"id", "u"}, {"group", "g"}, {"chain", "grow"}}}});
  advance(2s);

  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  ASSERT_EQ(letters().size(), 1U);
  EXPECT_NE(letters()[0].reason.find("there is no chain 'grow'"), std::string::npos) << letters()[0].reason;
}

TEST_F(IntakeTest, WhatCannotBeUnderstoodBecomesADeadLetter) {
  start_engine();
  publish_text("{");
  publish_text(std::string(2'000'000, 'x'));
  publish({{"message_id", "m1"}});
  publish({{"message_id", "m2"}, {"task", {{"group", "g"}, {"steps", {"nobody"}}}}});
  publish({{"message_id", "m3"}, {"task", {{"group", "g"}, {"colour", "red"}}}});
  publish({{"message_id", "m4"}, {"task", {{"id", "late"}, {"group", "g"}}}, {"deadline", "2020-01-01T00:00:00Z"}});
  publish({{"message_id", "m5"}, {"task_id", "unknown"}});
  advance(2s);
  EXPECT_EQ(letters().size(), 7U);
  EXPECT_EQ(broker->unacknowledged(), 0U);
  EXPECT_EQ(published(Topic::kDeadLetters).size(), 7U);
  EXPECT_EQ(engine->intake_status().failed, 7U);
  EXPECT_TRUE(store->all().empty());
}

TEST_F(IntakeTest, NestingWithoutEndIsRefused) {
  start_engine();
  publish_text(R"({"message_id":"m1","task":{"group":"g","payload":)" + std::string(400'000, '[') +
               std::string(400'000, ']') + "}}");
  publish({{"message_id", std::string(300, 'x')}, {"task", {{"group", "g"}}}});
  publish({{"message_id", ""}, {"task", {{"group", "g"}}}});
  advance(2s);
  EXPECT_EQ(letters().size(), 3U);
  EXPECT_EQ(broker->unacknowledged(), 0U);
}

TEST_F(IntakeTest, APluginThatThrowsWhenAskedRefuses) {
  struct Picky final : Plugin {
    [[nodiscard]] Result<void> check(const json& parameters) const override {
      static_cast<void>(parameters.at("url"));
      return {};
    }
    PluginResult run(StepContext&) override { return PluginResult::success(); }
  };
  ASSERT_TRUE(plugins.add("picky", std::make_shared<Picky>()));
  start_engine();
  publish({{"message_id", "m1"}, {"task", {{"group", "g"}, {"steps", {"picky"}}}}});
  advance(1s);
  ASSERT_EQ(letters().size(), 1U);
  EXPECT_NE(letters()[0].reason.find("cannot use its parameters"), std::string::npos);
}

TEST_F(IntakeTest, RedeliveryHasNoEffect) {
  start_engine();
  publish({{"message_id", "m1"}, {"task", {{"id", "t"}, {"group", "g"}, {"steps", {"note"}}}}});
  advance(1s);
  publish({{"message_id", "m1"}, {"task", {{"id", "t"}, {"group", "g"}, {"steps", {"note"}}}}});
  advance(1s);
  EXPECT_EQ(ran.size(), 1U);
}

TEST_F(IntakeTest, PausedItLeavesMessagesWhereTheyAre) {
  start_engine();
  engine->pause_intake();
  publish({{"message_id", "m1"}, {"task", {{"id", "t1"}, {"group", "g"}, {"steps", {"note"}}}}});
  publish({{"message_id", "m2"}, {"task", {{"id", "t2"}, {"group", "g"}, {"steps", {"note"}}}}});
  advance(10s);
  EXPECT_TRUE(engine->intake_status().paused);
  EXPECT_LE(ran.size(), 1U) << "at most what had been asked for";
  engine->resume_intake();
  advance(1s);
  EXPECT_EQ(ran.size(), 2U);
}

TEST(TaskJsonTest, ATaskComesBackAsItWas) {
  NewTask task{.id = "t",
               .group = "g",
               .session = "s",
               .file = "file:x",
               .payload = R"({"a":[1,2]})",
               .steps = {{.plugin = "p",
                          .parameters = R"({"b":1})",
                          .timeout = 90s,
                          .retry = RetryPolicy{.max_retries = 1, .backoff = 2s}}},
               .deadline = 2h,
               .priority = Priority::kHigh,
               .tags = {"x"},
               .start_at = std::chrono::sys_days(std::chrono::year(2027) / 1 / 2),
               .idempotency_key = "k"};
  const auto back = task_from_json(to_json(task));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, task);
}

TEST(TaskJsonTest, ErrorsNameThePlace) {
  const auto error_of = [](const char* text) { return task_from_json(json::parse(text)).error().message; };
  EXPECT_EQ(error_of(R"([])"), "the task must be an object");
  EXPECT_EQ(error_of(R"({"group":1})"), "'group' must be a text");
  EXPECT_NE(error_of(R"({"group":"g","deadlin":"1h"})").find("'deadlin' is not known"), std::string::npos);
  EXPECT_NE(error_of(R"({"group":"g","deadline":"soon"})").find("'deadline': 'soon' is not a duration"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"group":"g","steps":[{"plugin":"p","retry":{"jitter":7}}]})").find("step 1.retry.jitter"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"group":"g","priority":"urgent"})").find("\"high\""), std::string::npos);
  EXPECT_NE(error_of(R"({})").find("names no group"), std::string::npos);
}

}  // namespace
}  // namespace cohort
