#pragma once

// A node as a program, with a configuration, a folder and steps that tests can watch.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "admin/http_server.h"
#include "admin/raw_client_test_fixture.h"
#include "backend/sqlite/store_test_fixture.h"
#include "integration/program.h"

namespace cohort {

using namespace std::chrono_literals;
using nlohmann::json;

/// Takes webhooks; the first calls of each task fail.
class Webhooks {
 public:
  explicit Webhooks(int failures) {
    server_ = *HttpServer::start({}, [this, failures](const ServerRequest& request, Respond respond) {
      const std::lock_guard lock(mutex_);
      const json body = json::parse(request.body, nullptr, false);
      const std::string task = body.is_object() ? body.value("task_id", "?") : "?";
      if (calls_[task]++ < failures) {
        return respond(ServerResponse{.status = 503, .headers = {{"Retry-After", "0"}}});
      }
      respond({.body = R"({"received": true})"});
    });
  }
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  [[nodiscard]] std::map<std::string, int> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> calls_;
  std::unique_ptr<HttpServer> server_;
};

class NodeTest : public ::testing::Test {
 protected:
  struct Ended {
    int code;
    std::string said;
  };
  [[nodiscard]] std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  void write_config(std::uint16_t webhooks = 1) {
    std::filesystem::create_directories(path("in"));
    write_file(path("thumbnail.sh"), "#!/bin/sh\nwc -c < \"$1\" > \"$2\"\necho \"{\\\"thumbnail\\\": \\\"$2\\\"}\"\n",
               true);
    write_file(
        path("slow.sh"),
        "#!/bin/sh\necho $$ > \"$1.group\"\necho started >> \"$1\"\nsleep \"$2\" || exit 1\necho ended >> \"$1\"\n",
        true);
    write_file(path("cohort.yaml"), R"(
chains: {concurrency: 8, retry: {backoff: 10ms, max_backoff: 50ms, max_retries: 5}}
groups: {defaults: {max_concurrency: 8}}
plugins:
  exec:
    programs:
      thumbnail: {path: )" + path("thumbnail.sh").string() +
                                        R"(, arguments: ["{file}", "{parameters.to}"]}
      slow: {path: )" + path("slow.sh").string() +
                                        R"(, arguments: ["{parameters.log}", "{parameters.seconds}"], kill_after: 1s}
  files: {roots: [)" + path("in").string() +
                                        R"(]}
providers:
  hooks: {urls: ["http://127.0.0.1:)" + std::to_string(webhooks) +
                                        R"("], breaker: {min_calls: 1000, consecutive_failure_threshold: 1000}}
)");
  }

  [[nodiscard]] int run_folders() const {
    int count = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator(path("data") / "work")) {
      count += each.path().filename().string().starts_with("run-") ? 1 : 0;
    }
    return count;
  }

  void start_node(const std::string& grace = "30s") {
    write_file(path("node.yaml"), [&] {
      std::ifstream in(path("cohort.yaml"));
      return "node: {drain_grace: " + grace + "}\n" + std::string(std::istreambuf_iterator<char>(in), {});
    }());
    std::vector<std::string> words = before_;
    words.insert(words.end(),
                 {COHORT_PROGRAM, "serve", "--config", path("node.yaml"), "--folder", path("data"), "--port", "0"});
    node_ = std::make_unique<Program>(std::move(words));
    const std::string said = node_->read_until("stop ");
    ASSERT_NE(said, "") << node_->said();
    const std::size_t at = said.find("http://127.0.0.1:");
    ASSERT_NE(at, std::string::npos) << said;
    port_ = static_cast<std::uint16_t>(std::stoi(said.substr(at + 17)));
  }
  Ended cli(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), COHORT_PROGRAM);
    arguments.insert(arguments.end(), {"--node", "http://127.0.0.1:" + std::to_string(port_)});
    Program program(std::move(arguments));
    const int code = program.wait();
    return {code, program.said()};
  }
  json get(const std::string& target) const {
    RawClient client(port_);
    return json::parse(RawClient::body_of(client.ask("GET", target)), nullptr, false);
  }
  json post(const std::string& target, const json& body) const {
    RawClient client(port_);
    return json::parse(RawClient::body_of(client.ask("POST", target, body.dump())), nullptr, false);
  }
  std::string submit_slow(const std::string& log, const std::string& seconds) const {
    const json step = {{"plugin", "exec"}, {"parameters", {{"program", "slow"}, {"log", log}, {"seconds", seconds}}}};
    return post("/v1/tasks", {{"group", "g"}, {"steps", {step}}})["id"];
  }
  json when_ended(const std::string& id) const {
    for (;;) {
      json task = get("/v1/tasks/" + id);
      if (!task.is_object() || !task.contains("state")) return task;
      const std::string state = task["state"];
      if (state != "ready" && state != "processing") return task;
      std::this_thread::sleep_for(5ms);
    }
  }
  // How many processes of a process group live.
  static int members_of(int group) {
    int members = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc")) {
      std::string stat;
      std::ifstream file(each.path() / "stat");
      std::getline(file, stat);                 // Nothing, if it has ended meanwhile or is no process.
      const std::size_t end = stat.rfind(')');  // Behind it: state, parent, group.
      char state = 'Z';
      int parent = 0;
      int of = 0;
      if (end == std::string::npos || std::sscanf(stat.c_str() + end + 1, " %c %d %d", &state, &parent, &of) != 3)
        continue;
      if (of == group && state != 'Z') ++members;
    }
    return members;
  }
  static std::string text_of(const std::filesystem::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void wait_for_text(const std::filesystem::path& file, const std::string& text) const {
    while (text_of(file).find(text) == std::string::npos) std::this_thread::sleep_for(5ms);
  }

  std::vector<std::string> before_;  // Words before the node's own: a program that starts it.
  TemporaryFolder folder_;
  std::unique_ptr<Program> node_;
  std::uint16_t port_ = 0;
};

}  // namespace cohort
