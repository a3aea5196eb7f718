#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "cli/command_world_test_fixture.h"

namespace cohort {
namespace {

using nlohmann::json;
using Events = CommandWorld;

std::string event(int sequence, const std::string& kind) {
  const json data = {{"sequence", sequence},  {"at", "2026-01-01T00:00:00Z"},
                     {"kind", kind},          {"task_id", "t1"},
                     {"group", "media"},      {"step", 2},
                     {"detail", "why\x1b[2J"}};
  return "id: " + std::to_string(sequence) + "\nevent: " + kind + "\ndata: " + data.dump() + "\n\n";
}

ScriptedNode::Answer stream(const std::string& body, bool stays_open = false) {
  return {.status = 200, .body = body, .type = "text/event-stream", .stays_open = stays_open};
}

bool has_header(const ScriptedNode::Request& request, const std::string& header) {
  return request.head.find("\r\n" + header) != std::string::npos;
}

TEST_F(Events, EachIsALineUntilThereAreEnough) {
  node.on("GET /v1/events?after=3&group=media&task=t1",
          stream(": ping\n\nevent: gap\ndata: {\"from\": 4, \"to\": 6}\n\n" + event(7, "completed") +
                     event(8, "failed") + event(9, "failed"),
                 true));

  node.on("GET /v1/tasks/t", 404, R"({"detail": "there is no task 't'"})");
  node.on("GET /v1/tasks?id_prefix=t&limit=3", 200, R"({"tasks": [{"id": "t1"}]})");
  node.on("GET /v1/tasks/t1", 200, R"({"id": "t1"})");

  EXPECT_EQ(run({"events", "--after", "3", "--group", "media", "--task", "t", "--count", "2"}), kExitDone);

  EXPECT_EQ(out.str(),
            "gap             events 4 to 6 were forgotten\n"
            "completed       2026-01-01T00:00:00Z  media  t1  why\xEF\xBF\xBD\n"
            "failed          2026-01-01T00:00:00Z  media  t1  step 2  why\xEF\xBF\xBD\n");
  EXPECT_TRUE(has_header(node.requests()[3], "Accept: text/event-stream"));
}

TEST_F(Events, WithJsonEachIsAnObjectOnALine) {
  be_terminal();
  node.on("GET /v1/events?after=0",
          stream("event: gap\ndata: {\"from\": 1, \"to\": 2}\n\n" + event(3, "completed"), true));

  EXPECT_EQ(run({"events", "--after", "0", "--count", "1", "--json"}), kExitDone);

  std::istringstream lines(out.str());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(json::parse(line), json::parse(R"({"kind": "gap", "from": 1, "to": 2})"));
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(json::parse(line)["sequence"], 3);
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(Events, AfterALossTheStreamGoesOnWhereItWas) {
  node.on("GET /v1/events", stream(event(7, "completed") + "id: 8\nevent: fai"));
  node.on("GET /v1/events", stream(event(8, "failed"), true));

  EXPECT_EQ(run({"events", "--count", "2"}), kExitDone);

  ASSERT_EQ(node.requests().size(), 2U);
  EXPECT_FALSE(has_header(node.requests()[0], "Last-Event-ID"));
  EXPECT_TRUE(has_header(node.requests()[1], "Last-Event-ID: 7")) << node.requests()[1].head;
  EXPECT_EQ(pauses, 10);
  EXPECT_TRUE(complains("asking again"));
}

TEST_F(Events, RetriesInARowAreCounted) {
  node.on("GET /v1/events", stream(event(7, "completed")));
  node.on("GET /v1/events", stream(""));

  EXPECT_EQ(run({"events", "--retries", "2"}), kExitUnreachable);

  EXPECT_EQ(node.requests().size(), 3U);
  EXPECT_TRUE(complains("were lost")) << error.str();
}

TEST_F(Events, ANodeThatWasNeverThereIsNotWaitedFor) {
  node.stop();
  EXPECT_EQ(run({"events", "--retries", "9"}), kExitUnreachable);
  EXPECT_EQ(pauses, 0);
}

TEST_F(Events, ARefusalIsTold) {
  node.on("GET /v1/tasks/x", 404, R"({"detail": "there is no task 'x'"})");
  node.on("GET /v1/tasks?id_prefix=x&limit=3", 200, R"({"tasks": []})");
  node.on("GET /v1/events?task=x", 404, R"({"detail": "there is no task 'x'"})");
  EXPECT_EQ(run({"events", "--task", "x"}), kExitNotFound);
  EXPECT_EQ(error.str(), "cohort: there is no task 'x'\n");
}

TEST_F(Events, AnInterruptEndsThemAsDone) {
  ScriptedNode::Answer answer = stream(event(7, "completed"), true);
  answer.then = [] { ::kill(::getpid(), SIGINT); };
  node.on("GET /v1/events", std::move(answer));

  EXPECT_EQ(run({"events"}), kExitDone);
}

}  // namespace
}  // namespace cohort
