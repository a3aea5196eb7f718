// The program under attack: clocks that jump, a process that is stopped, damaged and replaced files, no descriptors
// left, a node that is killed again and again.

#include <gtest/gtest.h>

#include <sqlite3.h>

#include <algorithm>

#include "integration/node_test_fixture.h"

namespace cohort {
namespace {

class NodeAttackTest : public NodeTest {
 protected:
  /// A step "until" that runs until a file is there, and notes each start in another.
  void write_patient_config(const std::string& more = "") {
    write_file(
        path("until.sh"),
        "#!/bin/sh\necho $$ > \"$1.pid\"\necho started >> \"$1.starts\"\nwhile ! [ -e \"$1\" ]; do sleep 0.02; done\n",
        true);
    write_file(path("art.sh"), "#!/bin/sh\nprintf abc > out/a.txt\nwc -c < out/a.txt\n", true);
    write_file(path("cohort.yaml"), more + R"(
groups: {defaults: {max_concurrency: 8}, narrow: {max_concurrency: 1}}
plugins:
  exec:
    programs:
      until: {path: )" + path("until.sh").string() +
                                        R"(, arguments: ["{parameters.file}"], output: ignore}
      art: {path: )" + path("art.sh").string() +
                                        R"(, output: text, artifacts: out}
      retries: {path: /bin/sh, arguments: ["-c", "[ -e )" +
                                        path("go").string() + R"( ] || exit 75"], output: ignore}
)");
  }
  std::string submit(const json& step, const std::string& group = "g", json more = json::object()) const {
    more["group"] = group;
    more["steps"] = json::array({step});
    const json made = post("/v1/tasks", more);
    EXPECT_TRUE(made.contains("id")) << made;
    return made.value("id", "");
  }
  [[nodiscard]] json until(const std::string& file) const {
    return {{"plugin", "exec"}, {"parameters", {{"program", "until"}, {"file", path(file).string()}}}};
  }
  void on_store(const std::string& sql) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open((path("data") / "cohort.db").c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  void stop_node() {
    node_->send(SIGTERM);
    EXPECT_EQ(node_->wait(), 0) << node_->said();
  }
  void kill_node() {
    node_->send(SIGKILL);
    EXPECT_EQ(node_->wait(), -SIGKILL);
  }
  int ready_status() const {
    RawClient client(port_);
    return RawClient::status_of(client.ask("GET", "/readyz"));
  }
  void jump_to(const std::string& offset) const {
    write_file(path("time.new"), offset + "\n");
    std::filesystem::rename(path("time.new"), path("time"));
  }
  /// The node sees a time of day that jump_to() moves; CLOCK_MONOTONIC and CLOCK_BOOTTIME stay true.
  void use_faketime() {
    jump_to("+0");
    before_ = {"/usr/bin/env", "LD_PRELOAD=" COHORT_FAKETIME, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
               "FAKETIME_TIMESTAMP_FILE=" + path("time").string()};
  }
};

TEST_F(NodeAttackTest, AJumpOfTheClockExpiresDelaysAndRepeatsNothing) {
  ASSERT_STRNE(COHORT_FAKETIME, "") << "install the package faketime, as ./dev test does";
  use_faketime();
  write_patient_config();
  for (const char* offset : {"+3600s", "-3600s"}) {
    jump_to("+0");
    std::filesystem::remove(path("go"));
    start_node();
    const std::string running = submit(until(std::string("file") + offset));
    wait_for_text(path(std::string("file") + offset + ".starts"), "started");
    const std::string behind = submit(until(std::string("behind") + offset), "narrow");
    wait_for_text(path(std::string("behind") + offset + ".starts"), "started");
    const std::string queued = submit({{"plugin", "exec"}, {"parameters", {{"program", "art"}}}}, "narrow");
    ASSERT_TRUE(post("/v1/groups/waits/pause", json::object()).contains("paused"));
    const std::string waiting = submit({{"plugin", "exec"}, {"parameters", {{"program", "art"}}}}, "waits");
    const std::string retried =
        submit({{"plugin", "exec"},
                {"parameters", {{"program", "retries"}}},
                {"retry", {{"backoff", "2s"}, {"multiplier", 1}, {"jitter", 0}, {"max_retries", 100}}}},
               "retries");
    while (get("/v1/tasks/" + retried).value("attempt", 0) < 1) std::this_thread::sleep_for(5ms);

    jump_to(offset);
    ASSERT_NE(node_->read_until("the time of day has jumped"), "");

    EXPECT_EQ(ready_status(), 200);
    EXPECT_EQ(get("/v1/tasks/" + running)["state"], "processing");
    EXPECT_EQ(get("/v1/tasks/" + queued)["state"], "ready");
    write_file(path("go"), "");
    write_file(path(std::string("file") + offset), "");
    write_file(path(std::string("behind") + offset), "");
    EXPECT_EQ(when_ended(behind)["state"], "completed") << offset;
    EXPECT_EQ(when_ended(queued)["state"], "completed") << offset;
    EXPECT_EQ(when_ended(running)["state"], "completed") << offset;
    EXPECT_EQ(text_of(path(std::string("file") + offset + ".starts")), "started\n") << "it ran once";
    ASSERT_TRUE(post("/v1/groups/waits/resume", json::object()).contains("paused"));
    EXPECT_EQ(when_ended(waiting)["state"], "completed") << offset;
    EXPECT_EQ(when_ended(retried)["state"], "completed") << offset;  // (An hour later would be a hang.)
    stop_node();
  }
}

TEST_F(NodeAttackTest, AProcessThatWasStoppedLosesNoLeaseAndRepeatsNothing) {
  write_patient_config("chains: {lease: 1s, renew_every: 100ms}");
  start_node();
  const std::string id = submit(until("file"));
  wait_for_text(path("file.starts"), "started");
  node_->send(SIGSTOP);
  std::this_thread::sleep_for(1500ms);  // Longer than the lease would have been.
  node_->send(SIGCONT);
  while (ready_status() != 200) std::this_thread::yield();
  write_file(path("file"), "");
  EXPECT_EQ(when_ended(id)["state"], "completed");
  EXPECT_EQ(text_of(path("file.starts")), "started\n");
}

TEST_F(NodeAttackTest, ADamagedRowIsPoisonAndStopsNobody) {
  write_patient_config();
  start_node();
  const json art = {{"plugin", "exec"}, {"parameters", {{"program", "art"}}}};
  post("/v1/groups/g/pause", json::object());
  const std::string broken = submit(art);
  const std::string good = submit(art);
  stop_node();
  on_store("UPDATE bodies SET request = '{broken' WHERE seq = 1; UPDATE events SET kind = x'00'");
  start_node();
  while (get("/v1/dead-letters/" + broken).value("state", "") != "poison") std::this_thread::sleep_for(5ms);
  EXPECT_EQ(get("/v1/tasks/" + broken)["state"], "poison");
  EXPECT_EQ(get("/v1/tasks")["tasks"].size(), 2U);
  EXPECT_GE(get("/v1/node")["damaged_rows"], 1);
  EXPECT_EQ(ready_status(), 200);
  post("/v1/groups/g/resume", json::object());
  EXPECT_EQ(when_ended(good)["state"], "completed");
  EXPECT_NE(cli({"dead-letters", "show", broken}).said.find("{broken"), std::string::npos);
  stop_node();
}

TEST_F(NodeAttackTest, AReplacedStoreEndsTheWorkAndEverybodySaysTheSame) {
  write_patient_config();
  start_node();
  submit(until("never"));
  wait_for_text(path("never.starts"), "started");
  const int running = std::stoi(text_of(path("never.pid")));
  const auto file = path("data") / "cohort.db";
  std::filesystem::rename(file, path("away"));
  while (ready_status() == 200) std::this_thread::sleep_for(5ms);
  const std::string problem = get("/readyz")["problem"];
  EXPECT_NE(problem.find("was removed"), std::string::npos) << problem;
  EXPECT_EQ(get("/v1/node")["problem"], problem);
  EXPECT_NE(node_->read_until(problem), "");
  EXPECT_EQ(post("/v1/tasks", {{"group", "g"}})["status"], 503);
  while (::kill(running, 0) == 0) std::this_thread::sleep_for(5ms);  // Its step could not be written any more.
  std::filesystem::rename(path("away"), file);
  stop_node();
  start_node();
  EXPECT_EQ(ready_status(), 200);
}

TEST_F(NodeAttackTest, ARemovedLockFileLetsNobodyIn) {
  write_patient_config();
  start_node();
  std::filesystem::remove(path("data") / "lock");
  Program second({COHORT_PROGRAM, "serve", "--folder", path("data"), "--port", "0"});
  EXPECT_EQ(second.wait(), 1) << second.said();
  EXPECT_NE(second.said().find("is in use"), std::string::npos) << second.said();
}

TEST_F(NodeAttackTest, IdleConnectionsTakeNoDescriptorFromASteps) {
  before_ = {"/bin/sh", "-c", "ulimit -n 256; exec \"$@\"", "sh"};
  write_patient_config();
  start_node();
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 400; ++i) idle.push_back(std::make_unique<RawClient>(port_));
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) ids.push_back(submit({{"plugin", "exec"}, {"parameters", {{"program", "art"}}}}));
  for (const std::string& id : ids) EXPECT_EQ(when_ended(id)["state"], "completed") << get("/v1/tasks/" + id);
}

TEST_F(NodeAttackTest, TooFewDescriptorsAreRefusedAtTheStart) {
  Program node({"/bin/sh", "-c", "ulimit -n 64; exec \"$@\"", "sh", COHORT_PROGRAM, "serve", "--folder", path("data"),
                "--port", "0"});
  EXPECT_EQ(node.wait(), 2);
  EXPECT_NE(node.said().find("Raise the limit"), std::string::npos) << node.said();
}

TEST_F(NodeAttackTest, ALongStepIsInnocentWhenItsNodeIsKilled) {
  write_patient_config();
  start_node();
  const std::string id = submit(until("file"));
  for (int kills = 1; kills <= 4; ++kills) {
    while (std::ranges::count(text_of(path("file.starts")), '\n') < kills) std::this_thread::sleep_for(5ms);
    const std::string quick = submit({{"plugin", "exec"}, {"parameters", {{"program", "art"}}}}, "other");
    EXPECT_EQ(when_ended(quick)["state"], "completed") << "it does not wait for the long one";
    kill_node();
    start_node();
  }
  while (std::ranges::count(text_of(path("file.starts")), '\n') < 5) std::this_thread::sleep_for(5ms);
  write_file(path("file"), "");
  EXPECT_EQ(when_ended(id)["state"], "completed");
  const json attempts = get("/v1/tasks/" + id + "/attempts")["attempts"];
  ASSERT_EQ(attempts.size(), 5U) << attempts;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(attempts[static_cast<std::size_t>(i)]["outcome"], "crashed");
  EXPECT_EQ(attempts[4]["outcome"], "succeeded");
  const std::string timeline = cli({"task", id}).said;
  EXPECT_NE(timeline.find("#4  crashed"), std::string::npos) << timeline;
  EXPECT_NE(timeline.find("#5  succeeded"), std::string::npos) << timeline;
}

TEST_F(NodeAttackTest, ArtifactsAreListedWithTheirTask) {
  write_patient_config();
  start_node();
  const std::string id = submit({{"plugin", "exec"}, {"parameters", {{"program", "art"}}}});
  const json task = when_ended(id);
  EXPECT_EQ(task["context"]["output"], "3\n") << task;
  ASSERT_EQ(task["artifacts"].size(), 1U) << task;
  EXPECT_EQ(task["artifacts"][0]["name"], "a.txt");
  EXPECT_EQ(text_of(task["artifacts"][0]["path"].get<std::string>()), "abc");
  EXPECT_NE(cli({"task", id}).said.find("a.txt"), std::string::npos);
}

TEST_F(NodeAttackTest, TheLogTellsWhatHappenedAndKeepsSecrets) {
  const auto log = path("log.json");
  write_patient_config(
      "log: {level: debug, format: json, file: " + log.string() +
      "}\nproviders: {p: {urls: "
      "['http://me:hunter2@127.0.0.1:1'], timeout: 100ms, breaker: {consecutive_failure_threshold: 2}}}");
  start_node();
  post("/v1/groups/g/pause", json::object());
  post("/v1/groups/g/resume", json::object());
  const std::string id = submit({{"plugin", "http"},
                                 {"parameters", {{"pool", "p"}, {"path", "/x?token=hunter2"}}},
                                 {"retry", {{"max_retries", 3}, {"backoff", "10ms"}}}},
                                "g", {{"payload", {{"password", "hunter2"}}}});
  EXPECT_EQ(when_ended(id)["state"], "failed");
  wait_for_text(log, "the task ended as failed");
  node_->send(SIGHUP);
  wait_for_text(log, "SIGHUP");
  EXPECT_EQ(ready_status(), 200);
  stop_node();
  const std::string text = text_of(log);
  for (const char* part : {"the node starts", "the node is ready", "the group is paused", "the step starts",
                           "the step is tried again", "the breaker of a provider is open", "draining", "drained"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("hunter2"), std::string::npos) << text;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const json entry = json::parse(line, nullptr, false);
    ASSERT_TRUE(entry.is_object()) << line;
    if (entry["message"] != "the step starts") continue;
    for (const char* field : {"task", "group", "step", "attempt", "node"}) EXPECT_TRUE(entry.contains(field)) << line;
  }
}

}  // namespace
}  // namespace cohort
