// That no process outlives its step or its node.

#include <gtest/gtest.h>

#include <spawn.h>
#include <sys/file.h>

#include <csignal>
#include <thread>

#include "plugin/exec_test_fixture.h"
#include "plugin/process_keeper.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Kind = PluginResult::Kind;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

using ExecProcessTest = ExecTest;

TEST_F(ExecProcessTest, WhatIsLeftOfTheGroupIsKilledAndNotWaitedFor) {
  const PluginResult result = run_script(R"(sleep 1000 & echo "{\"pid\": $!}")");

  ASSERT_EQ(result.kind(), Kind::kSuccess) << result.reason();
  EXPECT_TRUE(ends(result.outputs()["pid"].get<pid_t>()));
}

TEST_F(ExecProcessTest, AStrangerWithThePipesIsNotWaitedFor) {
  const PluginResult result = run_script(
      R"(mkfifo said; setsid sh -c 'echo $$ > said; exec sleep 1000' & read pid < said; echo "{\"pid\": $pid}")");

  ASSERT_EQ(result.kind(), Kind::kSuccess) << result.reason();
  EXPECT_EQ(::kill(result.outputs()["pid"].get<pid_t>(), SIGKILL), 0);
}

// --- stop

TEST_F(ExecProcessTest, AStopIsAskedForPolitely) {
  Fifo fifo(folder_ / "fifo");
  ExecProgram program = script(R"(trap 'echo bye >&2; exit 0' TERM; echo > "$FIFO"; while :; do sleep 0.01; done)");
  program.environment["FIFO"] = fifo.path().string();
  program.kill_after = 1h;
  offer(program);
  std::stop_source stop;
  std::jthread stopper([&] { fifo.line(), stop.request_stop(); });

  const PluginResult result = run({}, {}, stop.get_token());

  EXPECT_EQ(result.kind(), Kind::kRetry);
  EXPECT_TRUE(has(result.reason(), "stopped program 'it'")) << result.reason();
  ASSERT_FALSE(lines_.empty());
  EXPECT_EQ(lines_.back(), "bye");
}

TEST_F(ExecProcessTest, WhoDoesNotListenIsKilled) {
  Fifo fifo(folder_ / "fifo");
  ExecProgram program = script(R"(trap '' TERM; sleep 1000 & echo $! > "$FIFO"; wait)");
  program.environment["FIFO"] = fifo.path().string();
  program.kill_after = 20ms;
  offer(program);
  std::stop_source stop;
  pid_t grandchild = 0;
  std::jthread stopper([&] { grandchild = std::stoi(fifo.line()), stop.request_stop(); });

  const PluginResult result = run({}, {}, stop.get_token());
  stopper.join();

  EXPECT_EQ(result.kind(), Kind::kRetry);
  EXPECT_TRUE(has(result.reason(), "stopped program 'it'")) << result.reason();
  EXPECT_TRUE(ends(grandchild));
}

TEST_F(ExecProcessTest, NothingBeginsAfterAStop) {
  offer(script(R"(echo ran > "$OUT")"));
  std::stop_source stop;
  stop.request_stop();

  EXPECT_EQ(run({}, {}, stop.get_token()).kind(), Kind::kRetry);
  EXPECT_EQ(written(), "");
}

// --- threads and nodes that die

TEST_F(ExecProcessTest, ManyRunAtOnceStress) {
  offer(script(R"(sleep 1000 & echo "{\"attempt\": $COHORT_ATTEMPT}")"));
  task_.request.callbacks.front().parameters = R"({"program": "it"})";
  std::vector<std::jthread> threads;
  for (std::uint32_t i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] {
      ChainTask task = task_;
      task.attempt = i;
      for (int turn = 0; turn < 10; ++turn) {
        StepContext context(task, {}, {});
        EXPECT_EQ(plugin_->run(context).outputs(), (json{{"attempt", i}}));
      }
    });
  }
  threads.clear();
}

TEST_F(ExecProcessTest, NothingOutlivesANodeThatIsKilled) {
  Fifo fifo(folder_ / "fifo");
  const std::string program = script(R"(sleep 1000 & echo $$ > "$FIFO"; echo $! > "$FIFO"; wait)").path.string();
  std::string host = COHORT_EXEC_HOST;
  std::string path = fifo.path().string();
  std::string name = program;
  std::vector<char*> words = {host.data(), name.data(), path.data(), nullptr};
  pid_t node = 0;
  ASSERT_EQ(::posix_spawn(&node, host.c_str(), nullptr, nullptr, words.data(), ::environ), 0);
  const pid_t child = std::stoi(fifo.line());
  const pid_t grandchild = std::stoi(fifo.line());

  ::kill(node, SIGKILL);
  ::waitpid(node, nullptr, 0);

  EXPECT_TRUE(ends(child));
  EXPECT_TRUE(ends(grandchild));
  std::filesystem::remove_all(folder_ / "tmp");
  std::filesystem::create_directory(folder_ / "tmp");  // Its folder is left behind: it was killed.
}

TEST_F(ExecProcessTest, TheKeeperHoldsNoLockOfTheNode) {
  const std::string path = (folder_ / "lock").string();
  FileDescriptor held(::open(path.c_str(), O_CREAT | O_RDWR, 0600));
  ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
  offer(script(""));

  held.close();

  const FileDescriptor again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(::flock(again.get(), LOCK_EX | LOCK_NB), 0);
}

TEST_F(ExecProcessTest, AKeeperThatWasKilledIsReplaced) {
  auto keeper = ProcessKeeper::start();
  ASSERT_TRUE(keeper.ok()) << keeper.error();
  const pid_t first = (*keeper)->pid();
  ::kill(first, SIGTERM);  // Does nothing.
  EXPECT_TRUE((*keeper)->add(::getpid() + 1'000'000'000).ok());
  EXPECT_EQ((*keeper)->pid(), first);
  ::kill(first, SIGKILL);
  ASSERT_TRUE(ends(first));

  EXPECT_TRUE((*keeper)->add(::getpid() + 1'000'000'001).ok());

  EXPECT_NE((*keeper)->pid(), first);
}

}  // namespace
}  // namespace cohort
