// The real program, end to end: real files, a real HTTP server that fails when told to, kill -9 in the middle.

#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "integration/node_test_fixture.h"

namespace cohort {
namespace {

TEST_F(NodeTest, AFileGoesThroughItsChain) {
  Webhooks hooks(2);
  write_config(hooks.port());
  write_file(path("in") / "photo.txt", "a picture");
  start_node();

  const json task = {{"group", "alice"},
                     {"file", "file://" + (path("in") / "photo.txt").string()},
                     {"steps",
                      {{{"plugin", "sha256"}},
                       {{"plugin", "exec"}, {"parameters", {{"program", "thumbnail"}, {"to", path("small").string()}}}},
                       {{"plugin", "http"}, {"parameters", {{"pool", "hooks"}, {"path", "/done"}}}}}}};
  write_file(path("task.json"), task.dump());
  const Ended submitted = cli({"submit", path("task.json"), "--wait"});
  EXPECT_EQ(submitted.code, 0) << submitted.said;

  const json done = get("/v1/tasks?state=completed&group=alice")["tasks"][0];
  const json whole = get("/v1/tasks/" + done["id"].get<std::string>());
  EXPECT_EQ(whole["context"]["bytes"], 9) << whole;
  EXPECT_EQ(whole["context"]["thumbnail"], path("small").string());
  EXPECT_EQ(whole["context"]["response"]["status"], 200);
  EXPECT_EQ(hooks.calls()[done["id"]], 3) << "two failed, the third was taken";
  EXPECT_EQ(run_folders(), 0) << "private folders are removed";
}

TEST_F(NodeTest, WhatIsNotAllowedIsRefusedOrFails) {
  write_config();
  start_node();
  const auto submit = [&](const json& step, const std::string& file) {
    json task = {{"group", "g"}, {"steps", {step}}};
    if (!file.empty()) task["file"] = file;
    return post("/v1/tasks", task);
  };
  EXPECT_EQ(submit({{"plugin", "exec"}, {"parameters", {{"program", "/bin/sh"}}}}, "")["status"], 422);
  EXPECT_EQ(submit({{"plugin", "nobody"}}, "")["status"], 422);
  EXPECT_EQ(submit({{"plugin", "http"}, {"parameters", {{"url", "ftp://x"}}}}, "")["status"], 422);
  const json outside = submit({{"plugin", "sha256"}}, "file:///etc/passwd");
  EXPECT_EQ(outside["status"], 422);
  EXPECT_EQ(outside["detail"], "'file': '/etc/passwd' lies in none of the folders that files may come from");
  EXPECT_EQ(submit({{"plugin", "sha256"}}, "file://" + (path("in") / "../cohort.yaml").string())["status"], 422);
  const json misspelt = submit({{"plugin", "exec"}, {"parameters", {{"program", "coppy"}}}}, "");
  EXPECT_TRUE(misspelt["detail"].get<std::string>().starts_with(
      "step 1 ('exec'): parameters.program: there is no program 'coppy'; "))
      << misspelt;
  const json inward = submit({{"plugin", "http"}, {"parameters", {{"url", "http://127.0.0.1:1/"}}}}, "");
  const json refused = when_ended(inward["id"]);
  EXPECT_EQ(refused["state"], "failed");
  EXPECT_NE(refused["error"].get<std::string>().find("private"), std::string::npos) << refused;
}

TEST_F(NodeTest, AKilledNodeIsFollowedByOneThatGoesOn) {
  Webhooks hooks(0);
  write_config(hooks.port());
  write_file(path("in") / "f", "x");
  start_node();
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) {
    const json slow = {{"program", "slow"}, {"log", path("log").string()}, {"seconds", "0.05"}};
    const json task = {{"group", "g" + std::to_string(i % 3)},
                       {"file", "file://" + (path("in") / "f").string()},
                       {"steps",
                        {{{"plugin", "sha256"}},
                         {{"plugin", "exec"}, {"parameters", slow}},
                         {{"plugin", "http"}, {"parameters", {{"pool", "hooks"}}}}}}};
    ids.push_back(post("/v1/tasks", task)["id"]);
  }
  for (int kill = 0; kill < 2; ++kill) {  // A third time in the same step, and that would be put aside as poison.
    wait_for_text(path("log"), "started");
    node_->send(SIGKILL);
    EXPECT_EQ(node_->wait(), -SIGKILL);
    std::filesystem::remove(path("log"));
    start_node();
  }
  for (const std::string& id : ids) {
    const json task = when_ended(id);
    EXPECT_EQ(task["state"], "completed") << task;
    EXPECT_GE(hooks.calls()[id], 1);
  }
  while (run_folders() > 0) std::this_thread::sleep_for(5ms);  // A run cleans up after its last write.
}

TEST_F(NodeTest, ChildrenDieWithTheNode) {
  write_config();
  start_node();
  submit_slow(path("log"), "1000");
  wait_for_text(path("log"), "started");
  const int group = std::stoi(text_of(path("log.group")));
  while (members_of(group) < 2) std::this_thread::sleep_for(5ms);  // The script, and the sleep that it started.
  node_->send(SIGKILL);
  EXPECT_EQ(node_->wait(), -SIGKILL);
  while (members_of(group) > 0) std::this_thread::sleep_for(5ms);
}

TEST_F(NodeTest, ADrainFinishesWhatRunsAndTakesNothingNew) {
  write_config();
  start_node();
  const std::string id = submit_slow(path("log"), "0.3");
  wait_for_text(path("log"), "started");
  RawClient client(port_);
  EXPECT_EQ(RawClient::status_of(client.ask("GET", "/readyz")), 200);
  node_->send(SIGTERM);
  while (RawClient::status_of(client.ask("GET", "/readyz")) == 200) std::this_thread::yield();
  EXPECT_EQ(node_->wait(), 0) << node_->said();
  EXPECT_EQ(text_of(path("log")), "started\nended\n");
  start_node();
  EXPECT_EQ(get("/v1/tasks/" + id)["state"], "completed");
}

TEST_F(NodeTest, ADrainThatTakesTooLongLeavesTheRestForLater) {
  write_config();
  start_node("50ms");
  const std::string id = submit_slow(path("log"), "1000");
  wait_for_text(path("log"), "started");
  node_->send(SIGTERM);
  EXPECT_EQ(node_->wait(), 0) << node_->said();
  start_node();
  wait_for_text(path("log"), "started\nstarted");
  EXPECT_EQ(get("/v1/tasks/" + id)["state"], "processing");
}

TEST_F(NodeTest, ASecondSignalLeavesAtOnce) {
  write_config();
  start_node();
  const std::string id = submit_slow(path("log"), "1000");
  wait_for_text(path("log"), "started");
  const auto begun = std::chrono::steady_clock::now();
  node_->send(SIGTERM);
  node_->send(SIGTERM);  // In the same second: the same signal.
  EXPECT_NE(node_->read_until("stopping"), "");
  EXPECT_EQ(get("/healthz")["status"], "ok");
  std::jthread insists([&](const std::stop_token& enough) {
    while (!enough.stop_requested()) {
      std::this_thread::sleep_for(100ms);
      node_->send(SIGTERM);
    }
  });
  EXPECT_NE(node_->read_until("leaving at once"), "");
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 1s);
  insists.request_stop();
  insists.join();
  EXPECT_EQ(node_->wait(), 1);
  start_node();
  EXPECT_NE(get("/v1/tasks/" + id)["state"], "failed");
}

TEST_F(NodeTest, AFolderAndAPortHaveOneNode) {
  write_config();
  start_node();
  Program same_folder({COHORT_PROGRAM, "serve", "--folder", path("data"), "--port", "0"});
  EXPECT_EQ(same_folder.wait(), 1);
  EXPECT_NE(same_folder.said().find("node 'node'"), std::string::npos) << same_folder.said();
  Program same_port({COHORT_PROGRAM, "serve", "--folder", path("other"), "--port", std::to_string(port_)});
  EXPECT_EQ(same_port.wait(), 1);
  EXPECT_NE(same_port.said().find("choose another port"), std::string::npos) << same_port.said();
}

TEST_F(NodeTest, TheCommandsSayWhatHappened) {
  write_config();
  start_node();
  const std::string id = submit_slow(path("log"), "nonsense");
  EXPECT_EQ(when_ended(id)["state"], "failed");
  EXPECT_NE(cli({"tasks"}).said.find("failed"), std::string::npos);
  EXPECT_NE(cli({"task", id}).said.find("exec"), std::string::npos);
  EXPECT_NE(cli({"dead-letters", "list"}).said.find(id.substr(0, 8)), std::string::npos);
  EXPECT_EQ(cli({"explain", id}).code, 0);
  EXPECT_EQ(cli({"pause", "g"}).code, 0);
  EXPECT_NE(cli({"groups"}).said.find("paused"), std::string::npos);
  EXPECT_EQ(cli({"retry", id}).code, 0);
  EXPECT_EQ(cli({"cancel", id}).code, 0);
  EXPECT_EQ(cli({"resume", "g"}).code, 0);
  EXPECT_EQ(cli({"task", "nobody"}).code, 4);
  EXPECT_EQ(cli({"dead-letters", "list", "--json"}).said, "{\"dead_letters\":[]}\n");
  EXPECT_EQ(cli({"nonsense"}).code, 2);
  EXPECT_EQ(cli({"events", "--after", "0", "--count", "1"}).code, 0);
  node_.reset();
  EXPECT_EQ(cli({"tasks"}).code, 3);
}

TEST_F(NodeTest, AConfigurationIsCheckedWithoutANode) {
  write_config();
  Program good({COHORT_PROGRAM, "check-config", path("cohort.yaml")});
  EXPECT_EQ(good.wait(), 0) << good.said();
  write_file(path("bad.yaml"), "chains:\n  concurency: 4\n");
  Program bad({COHORT_PROGRAM, "check-config", path("bad.yaml")});
  EXPECT_EQ(bad.wait(), 2);
  EXPECT_NE(bad.said().find("bad.yaml:2:3"), std::string::npos) << bad.said();
  EXPECT_NE(bad.said().find("'concurrency'"), std::string::npos) << bad.said();
  const std::string chain = "chains:\n  templates:\n    c:\n      steps:\n        - sha256\n        - nobody\n";
  write_file(path("bad.yaml"), chain);
  Program unknown({COHORT_PROGRAM, "check-config", path("bad.yaml")});
  EXPECT_EQ(unknown.wait(), 2);
  EXPECT_NE(unknown.said().find("bad.yaml:6:11: chain 'c': step 2 ('nobody'): there is no plugin 'nobody'"),
            std::string::npos)
      << unknown.said();
  write_file(path("bad.yaml"), "plugins:\n  exec:\n    programs:\n      gone: {path: /nowhere/gone}\n");
  Program missing({COHORT_PROGRAM, "check-config", path("bad.yaml")});
  EXPECT_EQ(missing.wait(), 2);
  EXPECT_NE(missing.said().find("bad.yaml:4:"), std::string::npos) << missing.said();
  EXPECT_NE(missing.said().find("the program 'gone' cannot be offered"), std::string::npos) << missing.said();
}

TEST_F(NodeTest, ABackupIsMadeWhileTheNodeWorks) {
  write_config();
  start_node();
  const std::string id = post("/v1/tasks", {{"group", "g"}})["id"];
  Program backup({COHORT_PROGRAM, "backup", "--folder", path("data"), path("copy.db")});
  EXPECT_EQ(backup.wait(), 0) << backup.said();
  Program again({COHORT_PROGRAM, "backup", "--folder", path("data"), path("copy.db")});
  EXPECT_EQ(again.wait(), 1);
  node_.reset();
  std::filesystem::create_directories(path("restored"));
  std::filesystem::rename(path("copy.db"), path("restored") / "cohort.db");
  std::filesystem::rename(path("data"), path("old"));
  std::filesystem::rename(path("restored"), path("data"));
  start_node();
  EXPECT_EQ(get("/v1/tasks/" + id)["state"], "completed");
}

// Nothing of this can be a good request: each kind is broken in its own way.
std::string malformed(std::mt19937& random) {
  const auto some = [&](std::size_t count) { return random() % count; };
  const std::string good = R"({"group": "g", "steps": [{"plugin": "sha256"}]})";
  const auto post = [](const std::string& body) { return RawClient::request("POST", "/v1/tasks", body); };
  switch (some(9)) {
    case 0: {
      std::string noise(1 + some(300), '\0');
      for (char& c : noise) c = static_cast<char>(random());
      noise[0] = '\x01';
      return noise;
    }
    case 1: return post(good).substr(0, 1 + some(post(good).size() - 1));
    case 2: return post(good.substr(0, some(good.size() - 1)) + "\x01");
    case 3: return post(std::string(100 + some(5000), '[') + "1");
    case 4:
      return "POST /v1/tasks HTTP/1.1\r\nHost: a.example\r\nContent-Type: application/json\r\nContent-Length: " +
             std::to_string(good.size()) + "\r\n\r\n" + good;
    case 5:
      return "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(some(100)) +
             "\r\nContent-Length: 7\r\n\r\n" + good;
    case 6: return RawClient::request(some(2) == 0 ? "BREW" : "DELETE", "/v1/tasks?limit=" + std::to_string(random()));
    case 7: return post(R"({"group": "g", "surprise": )" + std::to_string(random()) + "}");
    default: return "GET /v1/tasks/%" + std::to_string(some(10)) + "z HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
}

TEST_F(NodeTest, TenThousandMalformedRequestsChangeNothing) {
  write_config();
  start_node();
  post("/v1/tasks", {{"group", "g"}});
  const auto seen = [&] {
    json node = get("/v1/node");
    return json{node["tasks"], node["dead_letters"], get("/v1/groups"), get("/v1/tasks")};
  };
  const json before = seen();
  std::mt19937 random(42);
  for (int i = 0; i < 10'000; ++i) {
    RawClient client(port_);
    ASSERT_TRUE(client.is_connected()) << i;
    const std::string request = malformed(random);
    client.send(request);
    client.finish_sending();
    if (i % 4 != 0) continue;  // Most go away without waiting for an answer.
    const std::string answer = client.read_all();
    EXPECT_TRUE(answer.empty() || RawClient::status_of(answer) >= 400) << request << "\n" << answer;
  }
  EXPECT_EQ(seen(), before);
  EXPECT_EQ(get("/healthz")["status"], "ok");
  EXPECT_EQ(get("/readyz")["status"], "ready");
  node_->send(SIGTERM);
  EXPECT_EQ(node_->wait(), 0) << node_->said();
}

}  // namespace
}  // namespace cohort
