#include "cli/commands.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "cli/client.h"
#include "cli/command_world_test_fixture.h"

namespace cohort {
namespace {

using nlohmann::json;
using Commands = CommandWorld;

const std::string kTasks = R"({"tasks": [
  {"id": "t2", "group": "media", "state": "failed", "step": 2, "steps_done": 1, "attempt": 3, "created_at": "2026-01-01T00:55:00Z",
   "steps": [{"plugin": "sha256"}, {"plugin": "resize"}], "error": "no\nsuch file"},
  {"id": "t1", "group": "media", "state": "completed", "steps_done": 2, "attempt": 0, "created_at": "2025-12-30T00:00:00Z",
   "steps": [{"plugin": "sha256"}, {"plugin": "resize"}]}]})";
const std::string kGroup =
    R"({"group": "a/b", "paused": true, "pending": 0, "ready": 4, "processing": 2, "running": 1, "max_concurrency": 8, "weight": 1.5})";

TEST_F(Commands, TasksAreATable) {
  node.on("GET /v1/tasks?group=a%26b&state=failed&limit=20", 200, kTasks);

  EXPECT_EQ(run({"tasks", "--group", "a&b", "--state", "failed"}), kExitDone) << error.str();

  EXPECT_EQ(out.str(),
            "TASK  GROUP  STATE      STEP        TRY  AGE  ERROR\n"
            "t2    media  failed     2/2 resize    3   5m  no such file\n"
            "t1    media  completed  2/2           0   2d\n");
}

TEST_F(Commands, OptionsOfAllCommandsStandBeforeOrAfter) {
  node.on("GET /v1/tasks?limit=20", 200, kTasks);
  EXPECT_EQ(run({"tasks", "--json"}), kExitDone);
  const std::string after = out.str();
  EXPECT_EQ(run({"--json", "tasks"}), kExitDone);
  EXPECT_EQ(out.str(), after);
  EXPECT_EQ(json::parse(after), json::parse(kTasks));
  EXPECT_EQ(after.find('\n'), after.size() - 1);
  be_terminal();
  EXPECT_EQ(run_as_is({"tasks", "--json", "--node", node.url()}), kExitDone);
  EXPECT_TRUE(says("{\n  \"tasks\": [\n"));
}

TEST_F(Commands, AllReadsPageAfterPage) {
  node.on("GET /v1/tasks?limit=1000", 200, R"({"tasks": [{"id": "t2"}], "cursor": "c/1"})");
  node.on("GET /v1/tasks?limit=1000&cursor=c%2F1", 200, R"({"tasks": [{"id": "t1"}]})");

  EXPECT_EQ(run({"tasks", "--all", "--json"}), kExitDone);

  EXPECT_EQ(json::parse(out.str()), json::parse(R"({"tasks": [{"id": "t2"}, {"id": "t1"}]})"));
}

TEST_F(Commands, ATerminalIsToldThatThereIsMore) {
  be_terminal(60);
  node.on("GET /v1/tasks?limit=1", 200, R"({"tasks": [{"id": "t2", "state": "ready"}], "cursor": "c"})");

  EXPECT_EQ(run({"tasks", "--limit", "1"}), kExitDone);

  EXPECT_TRUE(says("There are more"));
}

TEST_F(Commands, TaskShowsAllOfIt) {
  node.on("GET /v1/tasks/a%2Fb", 200,
          R"({"id": "a/b", "group": "media", "state": "failed", "step": 2, "steps_done": 1, "attempt": 3,
    "progress": 0.5, "priority": "high", "tags": ["x", "y"], "created_at": "2026-01-01T00:55:00Z", "error": "first\nsecond",
    "steps": [{"plugin": "sha256"}, {"plugin": "resize"}], "context": {"sha256": "abc"}, "payload": {},
    "log": ["one", "two \u001b[2J"]})");

  EXPECT_EQ(run({"task", "a/b"}), kExitDone);

  EXPECT_TRUE(says("Task       a/b\nState      failed\nGroup      media\nPriority   high\nTags       x, y\n"))
      << out.str();
  EXPECT_TRUE(says("Created    2026-01-01T00:55:00Z (5m ago)\n"));
  EXPECT_TRUE(says("\nSteps\n  \xE2\x9C\x93 sha256"));
  EXPECT_TRUE(says("\nError\n  first\n  second\n"));
  EXPECT_TRUE(says("\nOutputs\n  {\n    \"sha256\": \"abc\"\n  }\n"));
  EXPECT_TRUE(says("\nLog\n  one\n  two \xEF\xBF\xBD\n"));
  EXPECT_FALSE(says("Payload"));
}

TEST_F(Commands, TaskShowsWhenItsTimeRunsOut) {
  node.on("GET /v1/tasks/t1", 200, R"({"id": "t1", "group": "g", "state": "ready", "created_at": "2026-01-01T00:55:00Z",
    "deadline": "1h", "deadline_at": "2026-01-01T01:55:00Z", "steps": [{"plugin": "sha256"}]})");
  node.on("GET /v1/tasks/t2", 200, R"({"id": "t2", "group": "g", "state": "ready", "created_at": "2026-01-01T00:55:00Z",
    "deadline": "none", "steps": [{"plugin": "sha256"}]})");

  EXPECT_EQ(run({"task", "t1"}), kExitDone);
  EXPECT_TRUE(says("Deadline   2026-01-01T01:55:00Z")) << out.str();
  EXPECT_EQ(run({"task", "t2"}), kExitDone);
  EXPECT_TRUE(says("Deadline   none")) << out.str();
}

TEST_F(Commands, CancelTellsOfEachAndGoesOn) {
  node.on("POST /v1/tasks/t1/cancel", 200, R"({"state": "cancelled", "cancel_requested": true})");
  node.on("POST /v1/tasks/t2/cancel", 404, R"({"detail": "there is no task 't2'"})");
  node.on("POST /v1/tasks/tasks/cancel", 200, R"({"state": "processing", "cancel_requested": true})");

  EXPECT_EQ(run({"cancel", "t1", "t2", "tasks", "--reason", "wrong"}), kExitNotFound);

  EXPECT_EQ(out.str(), "t1  cancelled\ntasks  processing  (it was asked to stop)\n");
  EXPECT_EQ(error.str(), "cohort: there is no task 't2'\n");
  EXPECT_EQ(node.body(0), json({{"reason", "wrong"}}));
}

TEST_F(Commands, RetryCountsStepsFromOne) {
  node.on("POST /v1/tasks/t1/retry", 200,
          R"({"state": "ready", "step": 2, "steps_done": 1, "steps": ["a", {"plugin": "b"}]})");

  EXPECT_EQ(run({"retry", "t1", "--from-step", "2", "--deadline", "5m"}), kExitDone);

  EXPECT_EQ(node.body(0), json::parse(R"({"from_step": 2, "deadline": "5m"})"));
  EXPECT_EQ(out.str(), "t1  ready  step 2/2 b\n");
  EXPECT_EQ(run({"retry", "t1", "--from-step", "0"}), kExitUsage);
}

TEST_F(Commands, ExplainGivesTheReasons) {
  node.on("GET /v1/tasks/t1/explain", 200,
          R"({"task": "t1", "text": "It waits.", "reasons": ["the group is paused"]})");

  EXPECT_EQ(run({"explain", "t1"}), kExitDone);

  EXPECT_EQ(out.str(), "It waits.\n  - the group is paused\n");
}

TEST_F(Commands, GroupsAreListedAndShown) {
  node.on("GET /v1/groups", 200, R"({"groups": [)" + kGroup + "]}");
  node.on("GET /v1/groups/a%2Fb", 200, kGroup);

  EXPECT_EQ(run({"groups"}), kExitDone);
  const std::string all = out.str();
  EXPECT_EQ(all,
            "GROUP  STATE   READY  PROCESSING  RUNNING  LIMIT  WEIGHT\n"
            "a/b    paused      4           2        1      8     1.5\n");
  EXPECT_EQ(run({"groups", "a/b"}), kExitDone);
  EXPECT_EQ(out.str(), all);
}

TEST_F(Commands, GroupsArePausedResumedAndResized) {
  node.on("POST /v1/groups/tasks/pause", 200, kGroup);
  node.on("POST /v1/groups/tasks/resume", 200, kGroup);
  node.on("POST /v1/groups/tasks/resize", 200, kGroup);

  // The group is called like a command.
  EXPECT_EQ(run({"pause", "tasks", "--reason", "full"}), kExitDone);
  EXPECT_EQ(run({"resume", "tasks"}), kExitDone);
  EXPECT_EQ(run({"resize", "tasks", "--concurrency", "8", "--in-flight", "9", "--weight", "1.5"}), kExitDone);

  EXPECT_EQ(node.body(0), json({{"reason", "full"}}));
  EXPECT_EQ(node.body(1), json::object());
  EXPECT_EQ(node.body(2), json::parse(R"({"max_concurrency": 8, "max_in_flight": 9, "weight": 1.5})"));
  EXPECT_EQ(run({"resize", "tasks"}), kExitUsage);
  EXPECT_EQ(run({"resize", "tasks", "--concurrency", "0"}), kExitUsage);
  EXPECT_EQ(run({"resize", "tasks", "--weight", "0"}), kExitUsage);
  EXPECT_EQ(node.requests().size(), 3U);
}

TEST_F(Commands, NodeIsASummary) {
  node.on("GET /v1/node", 200, R"({"node": "n1", "version": "1.0.0", "boot": "b", "state": "running", "uptime_s": 90,
    "store": {"kind": "sqlite", "folder": "/data"}, "plugins": ["sha256", "http"], "chains": {"running": 1, "kept": 0},
    "tasks": {"ready": 0, "failed": 2}, "dead_letters": 2})");

  EXPECT_EQ(run({"node"}), kExitDone);

  EXPECT_EQ(out.str(),
            "Node          n1\nState         running, up 1m30s\nVersion       1.0.0\nBoot          b\n"
            "Store         sqlite in /data\nPlugins       sha256, http\n"
            "Chains        running 1\nTasks         failed 2\nDead letters  2\n");
}

TEST_F(Commands, ColoursCanBeSwitchedOff) {
  terminal.colour = true;
  node.on("GET /v1/groups", 200, R"({"groups": [)" + kGroup + "]}");

  EXPECT_EQ(run({"groups"}), kExitDone);
  EXPECT_TRUE(says("\x1b[33mpaused\x1b[0m"));
  EXPECT_EQ(run({"groups", "--no-colour"}), kExitDone);
  EXPECT_FALSE(says("\x1b"));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_EQ(run({"groups"}), kExitDone);
  ::unsetenv("NO_COLOR");
  EXPECT_FALSE(says("\x1b"));
}

TEST_F(Commands, TheEnvironmentMayNameTheNode) {
  node.on("GET /v1/groups", 200, R"({"groups": []})");
  ::setenv("COHORT_NODE", node.url().c_str(), 1);
  EXPECT_EQ(run_as_is({"groups"}), kExitDone);
  ::unsetenv("COHORT_NODE");
  EXPECT_TRUE(says("There are no groups yet"));
}

TEST_F(Commands, WithoutANodeTheWayOutIsTold) {
  node.stop();
  EXPECT_EQ(run({"node"}), kExitUnreachable);
  EXPECT_EQ(error.str(), "cohort: no node answers at " + node.url() + "; start one with `cohort serve`\n");
  EXPECT_EQ(run_as_is({"node", "--node", "ftp://x"}), kExitUsage);
}

TEST_F(Commands, WhatIsNotANodeIsToldSo) {
  node.on("GET /v1/node", {.status = 404, .body = "<html>", .type = "text/html"});
  node.on("GET /v1/groups", {.status = 200, .body = "<html>", .type = "text/html"});
  EXPECT_EQ(run({"node"}), kExitRefused);
  EXPECT_TRUE(complains("said 404 and not why; is it a Cohort node?")) << error.str();
  EXPECT_EQ(run({"groups"}), kExitRefused);
  EXPECT_TRUE(complains("does not speak Cohort's API")) << error.str();
  EXPECT_EQ(out.str(), "");
}

TEST_F(Commands, UnexpectedJsonIsShownAsFarAsItGoes) {
  for (const char* body : {"[]", "1", "null", R"({"tasks": 1})", R"({"tasks": [1, {"steps": [1], "id": {}}]})"}) {
    ScriptedNode strange;
    strange.on("GET /v1/tasks?limit=20", 200, body);
    strange.on("GET /v1/tasks/x", 200, body);
    EXPECT_EQ(run_as_is({"tasks", "--node", strange.url()}), kExitDone) << body;
    EXPECT_EQ(run_as_is({"task", "x", "--node", strange.url()}), kExitDone) << body;
  }
}

TEST_F(Commands, WrongUsageIsTwoAndHelpIsZero) {
  EXPECT_EQ(run_as_is({"fly"}), kExitUsage);
  EXPECT_EQ(run_as_is({"tasks", "--limit", "0"}), kExitUsage);
  EXPECT_EQ(run_as_is({"tasks", "--state", "odd"}), kExitUsage);
  EXPECT_EQ(run_as_is({"--help"}), kExitDone);
  EXPECT_TRUE(says("Exit codes:\n  0  done\n")) << out.str();
  EXPECT_TRUE(says("Dead letters:"));
  EXPECT_EQ(run_as_is({"submit", "--help"}), kExitDone);
  EXPECT_TRUE(says("Example:\n  cohort submit"));
}

TEST_F(Commands, TheProgramAloneAndHelpShowHelp) {
  EXPECT_EQ(run_as_is({}), kExitDone);
  EXPECT_TRUE(says("Exit codes:"));
  EXPECT_EQ(run_as_is({"help"}), kExitDone);
  EXPECT_TRUE(says("Exit codes:"));
  EXPECT_EQ(run_as_is({"help", "submit"}), kExitDone);
  EXPECT_TRUE(says("Example:\n  cohort submit")) << out.str();
  EXPECT_EQ(run_as_is({"help", "dead-letters", "replay"}), kExitDone);
  EXPECT_TRUE(says("replay")) << out.str();
  EXPECT_EQ(run_as_is({"help", "submti"}), kExitUsage);
  EXPECT_TRUE(complains("there is no command 'submti'; did you mean 'submit'?")) << error.str();
}

TEST_F(Commands, AMisspeltWordIsSaidWithTheOneThatIsMeant) {
  const auto said = [&](std::vector<std::string> words) {
    EXPECT_EQ(run_as_is(std::move(words)), kExitUsage);
    return error.str().substr(0, error.str().find('\n'));
  };
  EXPECT_EQ(said({"tasksx"}), "cohort: there is no command 'tasksx'; did you mean 'tasks'?");
  EXPECT_EQ(said({"kafka"}), "cohort: there is no command 'kafka'");
  EXPECT_EQ(said({"tasks", "--gruop", "a"}), "cohort: 'tasks' has no option '--gruop'; did you mean '--group'?");
  EXPECT_EQ(said({"--nod", "x", "tasks"}), "cohort: cohort has no option '--nod'; did you mean '--node'?");
  EXPECT_EQ(said({"dead-letters", "reply", "x"}),
            "cohort: there is no command 'reply' of 'dead-letters'; did you mean 'replay'?");
  EXPECT_EQ(said({"task", "t", "--josn"}), "cohort: 'task' has no option '--josn'; did you mean '--json'?");
}

TEST_F(Commands, AUniquePrefixOfAnIdIsEnough) {
  node.on("GET /v1/tasks/01J", 404, R"({"detail": "there is no task '01J'"})");
  node.on("GET /v1/tasks?id_prefix=01J&limit=3", 200, R"({"tasks": [{"id": "01JD6Q2V"}]})");
  node.on("GET /v1/tasks/01JD6Q2V/explain", 200, R"({"text": "it waits"})");
  node.on("GET /v1/tasks/01J/explain", 404, R"({"detail": "there is no task '01J'"})");
  EXPECT_EQ(run({"explain", "01J"}), kExitDone) << error.str();
  EXPECT_TRUE(says("it waits"));

  node.on("POST /v1/tasks/01J/cancel", 404, R"({"detail": "there is no task '01J'"})");
  node.on("POST /v1/tasks/01JD6Q2V/cancel", 200, R"({"state": "cancelled"})");
  EXPECT_EQ(run({"cancel", "01J\xE2\x80\xA6"}), kExitDone) << "as a narrow table shows it: " << error.str();
  EXPECT_EQ(out.str(), "01JD6Q2V  cancelled\n");

  node.on("POST /v1/tasks/a/cancel", 404, R"({"detail": "there is no task 'a'"})");
  node.on("GET /v1/tasks?id_prefix=a&limit=3", 200, R"({"tasks": [{"id": "a1"}, {"id": "a2"}, {"id": "a3"}]})");
  EXPECT_EQ(run({"cancel", "a"}), kExitUsage);
  EXPECT_TRUE(complains("more than one task has an id that begins with 'a': a1, a2, a3")) << error.str();
}

TEST_F(Commands, AGroupThatIsNotThereIsNotFound) {
  node.on("GET /v1/groups/nosuch", 404, R"({"detail": "there is no group 'nosuch'"})");

  EXPECT_EQ(run({"groups", "nosuch"}), kExitNotFound);

  EXPECT_TRUE(complains("there is no group 'nosuch'")) << error.str();
}

TEST_F(Commands, ChainsAreATable) {
  node.on("GET /v1/chains", 200, R"({"chains": [{"name": "shrink", "description": "Makes it small",
    "parameters": [{"name": "to", "type": "string", "required": true},
                   {"name": "width", "type": "integer", "required": false, "default": 200}],
    "steps": [{"plugin": "sha256"}, {"plugin": "exec"}]}]})");

  EXPECT_EQ(run({"chains"}), kExitDone) << error.str();

  EXPECT_EQ(out.str(),
            "CHAIN   STEPS         PARAMETERS                         DESCRIPTION\n"
            "shrink  sha256, exec  to (string), width (integer, 200)  Makes it small\n");
}

TEST_F(Commands, TheReferenceHasEveryCommandWithAnExample) {
  int exit_code = 0;
  CLI::App app("Tasks in groups", "cohort");
  add_commands(app, terminal, exit_code);

  const std::string text = commands_reference(app);

  const auto all = [](const CLI::App*) { return true; };
  for (const CLI::App* command : app.get_subcommands(all)) {
    EXPECT_NE(text.find("\n## cohort " + command->get_name() + "\n"), std::string::npos) << command->get_name();
    EXPECT_TRUE(command->get_footer().starts_with("Example:\n  cohort ")) << command->get_name();
  }
  EXPECT_NE(text.find("\n### cohort dead-letters replay\n"), std::string::npos);
  EXPECT_NE(text.find("cohort dead-letters replay [OPTIONS] [TASK...]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("| `--limit N` | How many at most | `20` |"), std::string::npos) << text;
  EXPECT_NE(text.find("(environment: `COHORT_NODE`) | `http://127.0.0.1:7070` |"), std::string::npos);
  EXPECT_EQ(text.find("--rounds"), std::string::npos);
}

}  // namespace
}  // namespace cohort
