#include <gtest/gtest.h>

#include <string>

#include "cli/command_world_test_fixture.h"

namespace cohort {
namespace {

using nlohmann::json;
using DeadLetters = CommandWorld;

TEST_F(DeadLetters, AreListedAndShown) {
  node.on(
      "GET /v1/dead-letters?group=media&state=poison&plugin=resize&limit=5", 200,
      R"({"dead_letters": [{"task_id": "t1", "group": "media", "state": "poison", "reason": "it died", "plugin": "resize",
              "step": 2, "attempts": 2, "failed_at": "2026-01-01T00:58:00Z"}]})");
  node.on("GET /v1/dead-letters/t1", 200,
          R"({"task_id": "t1", "state": "failed", "reason": "it died", "log": ["one"]})");

  EXPECT_EQ(
      run({"dead-letters", "list", "--group", "media", "--state", "poison", "--plugin", "resize", "--limit", "5"}),
      kExitDone);
  EXPECT_EQ(out.str(),
            "TASK  GROUP  STATE   STEP      TRIES  AGE  REASON\nt1    media  poison  2 resize      2   2m  it died\n");
  EXPECT_EQ(run({"dead-letters", "show", "t1"}), kExitDone);
  EXPECT_TRUE(says("Reason     it died\n\nLog\n  one\n")) << out.str();
}

TEST_F(DeadLetters, AreReplayedByNameOrByFilter) {
  node.on("POST /v1/dead-letters/t1/replay", 200,
          R"({"state": "ready", "step": 1, "steps_done": 0, "steps": [{"plugin": "a"}]})");
  node.on("POST /v1/dead-letters/replay", 200, R"({"matched": 2, "replayed": 1, "dry_run": false, "tasks": ["t1"],
      "failed": [{"task": "t2", "detail": "it is gone"}]})");

  EXPECT_EQ(run({"dead-letters", "replay", "t1"}), kExitDone);
  EXPECT_EQ(out.str(), "t1  ready  step 1/1 a\n");
  EXPECT_EQ(run({"dead-letters", "replay", "--all", "--group", "media", "--limit", "7", "--dry-run"}), kExitRefused);
  EXPECT_EQ(node.body(1), json::parse(R"({"group": "media", "limit": 7, "dry_run": true})"));
  EXPECT_EQ(error.str(), "cohort: 't2': it is gone\n");

  EXPECT_EQ(run({"dead-letters", "replay"}), kExitUsage);
  EXPECT_EQ(run({"dead-letters", "replay", "t1", "--all"}), kExitUsage);
  EXPECT_EQ(run({"dead-letters", "replay", "t1", "--group", "x"}), kExitUsage);
  EXPECT_EQ(run({"dead-letters"}), kExitUsage);
  EXPECT_EQ(node.requests().size(), 2U);
}

TEST_F(DeadLetters, DiscardAsksATerminalAndRefusesAProgram) {
  node.on("DELETE /v1/dead-letters/t1", 204, "");

  EXPECT_EQ(run({"dead-letters", "discard", "t1"}), kExitUsage);
  EXPECT_TRUE(complains("--yes"));
  be_terminal();
  in.str("n\n");
  EXPECT_EQ(run({"dead-letters", "discard", "t1"}), kExitRefused);
  EXPECT_TRUE(node.requests().empty());
  in.clear();
  in.str("y\n");
  EXPECT_EQ(run({"dead-letters", "discard", "t1"}), kExitDone);
  EXPECT_TRUE(says("Discard 1 dead letter for good? [y/N] t1  discarded\n")) << out.str();
  terminal.is_terminal = false;
  EXPECT_EQ(run({"dead-letters", "discard", "t1", "--yes"}), kExitDone);
  EXPECT_EQ(node.requests().size(), 2U);
}

}  // namespace
}  // namespace cohort
