// That no process outlives its step or its node.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "plugin/exec_helper.h"
#include "plugin/exec_test_fixture.h"

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

// Each of them was a way out once.
TEST_F(ExecProcessTest, NoDescendantEscapes) {
  for (const bool use_cgroups : {true, false}) {
    use_cgroups_ = use_cgroups;
    for (const char* way :
         {"setsid sh -c 'echo $$ > said; exec sleep 1000' &",
          "(sh -c 'sh -c \"echo \\$\\$ > said; exec sleep 1000\" &' &) ;",
          "(setsid sh -c 'sh -c \"echo \\$\\$ > said; exec setsid sleep 1000\" &' &) ;",
          "sh -c \"trap '' HUP TERM INT; echo \\$\\$ > said; while :; do sleep 1; done\" > /dev/null &"}) {
      const PluginResult result =
          run_script(std::string("mkfifo said; ") + way + R"( read pid < said; echo "{\"pid\": $pid}")");
      ASSERT_EQ(result.kind(), Kind::kSuccess) << way << ": " << result.reason();
      EXPECT_TRUE(has_ended(result.outputs()["pid"].get<pid_t>())) << way << ", cgroups " << use_cgroups;
    }
  }
}

TEST_F(ExecProcessTest, TheProcessThatEmbedsItIsNoSubreaper) {
  ASSERT_EQ(run_script("echo '{}'").kind(), Kind::kSuccess);
  int is_subreaper = 1;
  ASSERT_EQ(::prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper), 0);
  EXPECT_EQ(is_subreaper, 0);
}

// Where this process may make one, so may the helper, which is its child.
bool may_make_cgroup() {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string device, folder, type, rest; mounts >> device >> folder >> type && std::getline(mounts, rest);) {
    const std::string made = folder + "/cohort-test-" + std::to_string(::getpid());
    if (type == "cgroup2" && ::mkdir(made.c_str(), 0755) == 0) return ::rmdir(made.c_str()) == 0;
  }
  return false;
}

TEST_F(ExecProcessTest, ACgroupIsUsedWhereOneMayBeMade) {
  auto with = ExecHelper::start({}, true);
  auto without = ExecHelper::start({}, false);
  ASSERT_TRUE(with && without);
  EXPECT_FALSE((*without)->has_cgroups());
  EXPECT_TRUE((*with)->has_cgroups() || !may_make_cgroup());
  const PluginResult result = run_script(R"(echo "{\"cgroup\": \"$(grep ^0:: /proc/self/cgroup)\"}")");
  ASSERT_EQ(result.kind(), Kind::kSuccess) << result.reason();
  EXPECT_EQ(has(result.outputs()["cgroup"], "cohort-steps-"), (*with)->has_cgroups());
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
  task_.request.steps.front().parameters = R"({"program": "it"})";
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
  const std::string program = script(R"(setsid sleep 1000 & echo $$ > "$FIFO"; echo $! > "$FIFO"; wait)").path.string();
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

TEST_F(ExecProcessTest, TheHelperHoldsWhatItIsGivenUntilTheLastProgramHasEnded) {
  const std::string path = (folder_ / "lock").string();
  Fifo fifo(folder_ / "fifo");
  std::string program = script(R"(trap '' TERM; setsid sleep 1000 & echo $! > "$FIFO"; wait)").path.string();
  std::string host = COHORT_EXEC_HOST;
  std::string fifo_path = fifo.path().string();
  std::string lock_path = path;
  std::vector<char*> words = {host.data(), program.data(), fifo_path.data(), lock_path.data(), nullptr};
  pid_t node = 0;
  ASSERT_EQ(::posix_spawn(&node, host.c_str(), nullptr, nullptr, words.data(), ::environ), 0);
  const pid_t program_pid = std::stoi(fifo.line());
  const FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_NE(::flock(lock.get(), LOCK_EX | LOCK_NB), 0) << "the node has it";

  ::kill(node, SIGKILL);
  ::waitpid(node, nullptr, 0);
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);

  EXPECT_TRUE(has_ended(program_pid)) << "nothing runs any more when the lock is free";
  std::filesystem::remove_all(folder_ / "tmp");
  std::filesystem::create_directory(folder_ / "tmp");
}

TEST_F(ExecProcessTest, AHelperThatDiesIsReplacedAndCountsNowhere) {
  Fifo fifo(folder_ / "fifo");
  ExecProgram program = script(R"(setsid sleep 1000 & echo $! > "$FIFO"; wait)");
  program.environment["FIFO"] = fifo.path().string();
  offer(program);
  const pid_t helper = exec_helper_pid(*plugin_);
  pid_t escaped = 0;
  std::jthread killer([&] {
    escaped = std::stoi(fifo.line());
    ::kill(helper, SIGKILL);
  });
  const PluginResult lost = run();
  killer.join();
  EXPECT_EQ(lost.kind(), Kind::kInterrupted) << lost.reason();
  EXPECT_TRUE(ends(escaped));

  static_cast<void>(script("echo '{}'"));  // The same path, another program.
  const PluginResult again = run();
  EXPECT_EQ(again.kind(), Kind::kSuccess) << again.reason();
  EXPECT_NE(exec_helper_pid(*plugin_), helper);
}

TEST_F(ExecProcessTest, AStepWhoseOwnProcessIsKilledLeavesNothingBehind) {
  Fifo fifo(folder_ / "fifo");
  ExecProgram program = script(R"(setsid sleep 1000 & echo $! > "$FIFO"; kill -9 $PPID; sleep 1000)");
  program.environment["FIFO"] = fifo.path().string();
  offer(program);
  const PluginResult lost = run();
  EXPECT_EQ(lost.kind(), Kind::kRetry) << "it is the program's fault, so it counts: " << lost.reason();
  EXPECT_TRUE(has_ended(std::stoi(fifo.line()))) << "nothing is left when the step has ended";
}

TEST_F(ExecProcessTest, ASignalToItsParentMeansNothing) {
  const PluginResult result = run_script(R"(kill -USR1 $PPID; sleep 0.05; echo '{"done": true}')");
  EXPECT_EQ(result.kind(), Kind::kSuccess) << result.reason();
}

// Its state is shown as that of a process that has ended.
TEST_F(ExecProcessTest, AProcessWhoseMainThreadHasEndedIsKilledToo) {
  use_cgroups_ = false;
  const PluginResult result = run_script(R"(mkfifo said
python3 -c '
import ctypes, os, threading, time
threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
threading.Thread(target=lambda: (time.sleep(0.1), open("said", "w").write("%d\n" % os.getpid())), daemon=True).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)' &
read pid < said; echo "{\"pid\": $pid}")");
  ASSERT_EQ(result.kind(), Kind::kSuccess) << result.reason();
  EXPECT_TRUE(has_ended(result.outputs()["pid"].get<pid_t>()));
}

TEST_F(ExecProcessTest, OutOfDescriptorsIsWaiting) {
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
  // The sanitizer opens a pipe for every type of object that it sees for the first time.
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors of its own";
#endif
#endif
  offer(script("echo '{}'"));
  ASSERT_EQ(run().kind(), Kind::kSuccess);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  std::vector<FileDescriptor> taken;  // Every number below the limit, so that none is free but the spare ones.
  while (taken.size() < 64) taken.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const rlimit low{static_cast<rlim_t>(taken.back().get()) + 1, before.rlim_max};
  for (int spare = 0; spare < 8; ++spare) {
    ::setrlimit(RLIMIT_NOFILE, &low);
    const PluginResult result = run();
    ::setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_TRUE(result.kind() == Kind::kInterrupted || result.kind() == Kind::kSuccess) << result.reason();
    if (spare == 0) {
      EXPECT_EQ(result.kind(), Kind::kInterrupted) << result.reason();
    }
    taken.pop_back();
  }
  taken.clear();
  EXPECT_EQ(run().kind(), Kind::kSuccess);
}

}  // namespace
}  // namespace cohort
