#include <gtest/gtest.h>

#include <string>

#include "cli/command_world_test_fixture.h"
#include "cli/task_input.h"

namespace cohort {
namespace {

using nlohmann::json;
using Submit = CommandWorld;

const std::string kAccepted = R"({"id": "t1", "state": "ready", "existed": false})";

std::string task_in(const std::string& state, int step, double progress, const json& more = json::object()) {
  json task = {{"id", "t1"},
               {"state", state},
               {"steps_done", step},
               {"attempt", 1},
               {"progress", progress},
               {"group", "media"},
               {"steps", {{{"plugin", "sha256"}}, {{"plugin", "thumbnail"}}}}};
  task.update(more);
  return task.dump();
}

TEST_F(Submit, SendsWhatTheOptionsSay) {
  node.on("POST /v1/tasks", 201, kAccepted);

  const int code = run({"submit",
                        "--group",
                        "media",
                        "--file",
                        "https://x/y.jpg",
                        "--payload",
                        "[1, 2]",
                        "--step",
                        "sha256",
                        "--step",
                        R"(resize:{"width": 320})",
                        "--tag",
                        "a",
                        "--tag",
                        "b",
                        "--priority",
                        "high",
                        "--deadline",
                        "1h",
                        "--start-at",
                        "2026-11-16T05:00:00Z",
                        "--id",
                        "t1",
                        "--key",
                        "k",
                        "--session",
                        "s"});

  EXPECT_EQ(code, kExitDone) << error.str();
  EXPECT_EQ(node.body(0), json::parse(R"({"group": "media", "file": "https://x/y.jpg", "payload": [1, 2],
      "steps": [{"plugin": "sha256"}, {"plugin": "resize", "parameters": {"width": 320}}], "tags": ["a", "b"],
      "priority": "high", "deadline": "1h", "start_at": "2026-11-16T05:00:00Z", "id": "t1", "idempotency_key": "k",
      "session": "s"})"));
  EXPECT_NE(node.requests()[0].head.find("Content-Type: application/json"), std::string::npos);
  EXPECT_EQ(out.str(), "t1  ready\n");
}

TEST_F(Submit, ANamedChainIsSentWithItsValuesAsText) {
  node.on("POST /v1/tasks", 201,
          R"({"id": "t1", "state": "ready", "existed": false, "deadline": "1h", "warning": "it will expire"})");

  const int code = run({"submit", "--group", "media", "--chain", "thumbnails", "--param", "width=200", "--param",
                        "label=a=b", "--param", "to="});

  EXPECT_EQ(code, kExitDone) << error.str();
  EXPECT_EQ(node.body(0), json::parse(R"({"group": "media", "chain": "thumbnails",
                                          "parameters": {"width": "200", "label": "a=b", "to": ""}})"));
  EXPECT_EQ(out.str(), "t1  ready  (deadline 1h)\n");
  EXPECT_TRUE(complains("warning: it will expire")) << error.str();
}

TEST_F(Submit, AFileThatExistsBecomesAnAbsoluteUrl) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a cat.jpg", "x");
  node.on("POST /v1/tasks", 201, kAccepted);

  const std::string relative = std::filesystem::relative(path).string();
  ASSERT_EQ(run({"submit", "--group", "g", "--file", relative}), kExitDone);

  EXPECT_EQ(node.body(0)["file"], "file://" + folder.path().string() + "/a%20cat.jpg");
}

TEST_F(Submit, APayloadMayStandInAFile) {
  const TemporaryFolder folder;
  node.on("POST /v1/tasks", 200, R"({"id": "t1", "state": "completed", "existed": true})");

  EXPECT_EQ(run({"submit", "--group", "g", "--payload", "@" + folder.write("p.json", R"({"a": 1})")}), kExitDone);

  EXPECT_EQ(node.body(0)["payload"], json({{"a", 1}}));
  EXPECT_EQ(out.str(), "t1  completed  (it existed)\n");
}

TEST_F(Submit, WrongUsageIsToldBeforeAnythingIsSent) {
  EXPECT_EQ(run({"submit"}), kExitUsage);
  EXPECT_TRUE(complains("--group")) << error.str();
  EXPECT_EQ(run({"submit", "--group", "g", "--payload", "{"}), kExitUsage);
  EXPECT_TRUE(complains("--payload cannot be used: it is not JSON")) << error.str();
  EXPECT_EQ(run({"submit", "--group", "g", "--payload", "@/nowhere"}), kExitUsage);
  EXPECT_EQ(run({"submit", "--group", "g", "--step", "resize:[1]"}), kExitUsage);
  EXPECT_EQ(run({"submit", "--group", "g", "--step", ":{}"}), kExitUsage);
  EXPECT_EQ(run({"submit", "--group", "g", "--deadline", "soon"}), kExitUsage);
  EXPECT_EQ(run({"submit", "--group", "g", "--start-at", "monday"}), kExitUsage);
  EXPECT_EQ(run({"submit", "--group", "g", "--priority", "urgent"}), kExitUsage);
  EXPECT_EQ(run({"submit", "--group", "g", "--timeout", "5s"}), kExitUsage);
  EXPECT_EQ(run({"submit", "--group", "g", "--param", "a=1"}), kExitUsage) << "of which chain?";
  EXPECT_EQ(run({"submit", "--group", "g", "--chain", "c", "--step", "sha256"}), kExitUsage);
  EXPECT_EQ(run({"submit", "--group", "g", "--chain", "c", "--param", "width"}), kExitUsage);
  EXPECT_TRUE(complains("--param 'width' gives no value; write NAME=VALUE")) << error.str();
  EXPECT_EQ(run({"submit", "--group", "g", "--chain", "c", "--param", "a=1", "--param", "a=2"}), kExitUsage);
  EXPECT_EQ(run({"submit", "tasks.json", "--group", "g"}), kExitUsage);
  in.str("[]");
  EXPECT_EQ(run({"submit", "-"}), kExitUsage);
  EXPECT_TRUE(node.requests().empty());
}

TEST_F(Submit, StandardInputMayHoldOneTask) {
  node.on("POST /v1/tasks", 201, kAccepted);
  in.str(R"({"group": "g", "payload": 1})");

  EXPECT_EQ(run({"submit", "-", "--json"}), kExitDone);

  EXPECT_EQ(node.body(0), json::parse(R"({"group": "g", "payload": 1})"));
  EXPECT_EQ(json::parse(out.str()), json::parse(kAccepted));
}

TEST_F(Submit, ARefusedTaskOfAListIsToldAndTheOthersAreSubmitted) {
  node.on(
      "POST /v1/tasks", 200,
      R"({"results": [{"id": "t1", "state": "ready", "existed": false}, {"error": {"detail": "'group' is empty"}}]})");
  in.str(R"({"tasks": [{"group": "g"}, {"group": ""}]})");

  EXPECT_EQ(run({"submit", "-"}), kExitRefused);

  EXPECT_EQ(node.body(0)["tasks"].size(), 2U);
  EXPECT_EQ(out.str(), "t1  ready\n");
  EXPECT_EQ(error.str(), "cohort: task 2 of 2 was refused: 'group' is empty\n");
}

TEST_F(Submit, AProblemIsToldInItsOwnWordsWithAllItsLines) {
  node.on("POST /v1/tasks", 400,
          R"({"status": 400, "detail": "the task is wrong", "problems": ["no \u001b[31mplugin", "no group"]})");

  EXPECT_EQ(run({"submit", "--group", "g"}), kExitRefused);

  EXPECT_EQ(error.str(), "cohort: the task is wrong\n  - no \xEF\xBF\xBDplugin\n  - no group\n");
  EXPECT_EQ(out.str(), "");
}

TEST(Batches, HoldAtMostFiveHundredTasksAndFourMebibytes) {
  const auto many = batches_of(std::vector<json>(1201, json{{"group", "g"}}));
  ASSERT_EQ(many.size(), 3U);
  EXPECT_EQ(many[0]["tasks"].size(), 500U);
  EXPECT_EQ(many[2]["tasks"].size(), 201U);

  const auto large = batches_of(std::vector<json>(3, json{{"payload", std::string(3U << 20U, 'x')}}));
  EXPECT_EQ(large.size(), 3U);
}

TEST_F(Submit, WaitTellsEachChangeAndEndsWithTheOutputs) {
  node.on("POST /v1/tasks", 201, kAccepted);
  node.on("GET /v1/tasks/t1", 200, task_in("processing", 0, 0.5));
  node.on("GET /v1/tasks/t1", 200, task_in("processing", 0, 0.5));
  node.on("GET /v1/tasks/t1", 200, task_in("completed", 2, 0, {{"context", {{"sha256", "abc"}}}}));

  EXPECT_EQ(run({"submit", "--group", "media", "--wait"}), kExitDone);

  EXPECT_EQ(pauses, 2);
  EXPECT_EQ(out.str(),
            "t1  ready\n"
            "processing: step 1/2 sha256, 50 %\n"
            "completed\n"
            "completed t1\n"
            "  {\n    \"sha256\": \"abc\"\n  }\n");
}

TEST_F(Submit, WaitOnATerminalRedrawsTheSteps) {
  be_terminal();
  node.on("POST /v1/tasks", 201, kAccepted);
  node.on("GET /v1/tasks/t1", 200, task_in("processing", 0, 0.5));
  node.on("GET /v1/tasks/t1", 200, task_in("completed", 2, 0));

  EXPECT_EQ(run({"submit", "--group", "media", "--wait"}), kExitDone);

  EXPECT_TRUE(says("\x1b[2A\r\x1b[2K  \xE2\x9C\x93 sha256")) << out.str();
}

TEST_F(Submit, WaitForATaskThatFailsEndsWithItsErrorAndTheEndOfItsLog) {
  json log = json::array();
  for (int i = 0; i < 12; ++i) log.push_back("line " + std::to_string(i));
  node.on("POST /v1/tasks", 201, kAccepted);
  node.on("GET /v1/tasks/t1", 200, task_in("failed", 1, 0.5, {{"error", "no such file"}, {"log", log}}));

  EXPECT_EQ(run({"submit", "--group", "media", "--wait"}), kExitRefused);

  EXPECT_TRUE(complains("cohort: task 't1' is failed at step 2/2 thumbnail: no such file\n")) << error.str();
  EXPECT_TRUE(complains("2 lines before\n  line 2\n"));
  EXPECT_TRUE(complains("line 11\n"));
}

TEST_F(Submit, WaitWithJsonPrintsTheTaskAndNothingElse) {
  node.on("POST /v1/tasks", 201, kAccepted);
  node.on("GET /v1/tasks/t1", 200, task_in("completed", 2, 0));

  EXPECT_EQ(run({"submit", "--group", "media", "--wait", "--json"}), kExitDone);

  EXPECT_EQ(json::parse(out.str())["state"], "completed");
}

TEST_F(Submit, WaitIsOverAfterItsTimeout) {
  node.on("POST /v1/tasks", 201, kAccepted);
  node.on("GET /v1/tasks/t1", 200, task_in("processing", 0, 0));

  EXPECT_EQ(run({"submit", "--group", "media", "--wait", "--timeout", "1s"}), kExitRefused);

  EXPECT_EQ(pauses, 5);
  EXPECT_TRUE(complains("--timeout is over")) << error.str();
}

TEST_F(Submit, WaitEndsWhenTheNodeStaysAway) {
  node.on("POST /v1/tasks", 201, kAccepted);
  node.on("GET /v1/tasks/t1", 200, task_in("processing", 0, 0));
  terminal.pause = [this](std::chrono::milliseconds) {
    ++pauses;
    node.stop();
  };

  EXPECT_EQ(run({"submit", "--group", "media", "--wait"}), kExitUnreachable);

  EXPECT_EQ(pauses, 51);
}

}  // namespace
}  // namespace cohort
