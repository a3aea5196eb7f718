// Real processes on a real store, killed over and over; then what they wrote down is held against what they promised.

#include <gtest/gtest.h>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/random.h"
#include "contract/stores.h"
#include "crash/ledger.h"

extern char** environ;

namespace cohort {
namespace {

using namespace std::chrono_literals;

// How often; `./dev soak` sets it higher.
std::uint64_t rounds(std::uint64_t usual) {
  const char* factor = std::getenv("COHORT_SOAK");
  return usual * (factor != nullptr ? std::strtoull(factor, nullptr, 10) : 1);
}

class CrashTest : public testing::Test {
 protected:
  pid_t start(const std::string& mode, std::uint64_t seed, const std::vector<std::string>& more) {
    std::vector<std::string> words = {COHORT_CRASH_WORKER, folder_.path().string(), mode, std::to_string(seed)};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t pid = 0;
    EXPECT_EQ(::posix_spawn(&pid, COHORT_CRASH_WORKER, nullptr, nullptr, arguments.data(), environ), 0);
    return pid;
  }
  static int wait_for(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status;
  }
  void run_and_kill(std::uint64_t seed, Duration after, const std::vector<std::string>& more = {}) {
    const pid_t pid = start("run", seed, more);
    std::this_thread::sleep_for(after);
    ::kill(pid, SIGKILL);
    wait_for(pid);
  }
  // Lets a last process bring everything to its end, and looks at what is left. What is wrong; empty: nothing.
  std::string finish(const std::vector<std::string>& more = {}) {
    const int status = wait_for(start("finish", 999'999, more));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return "the last process did not end well";
    return check();
  }

  std::string check() {
    auto store = SqliteStore::open({.folder = folder_.path() / "data"});
    if (!store) return store.error().message;
    if (auto whole = wait<void>([&](auto done) { (*store)->check_integrity(std::move(done)); }); !whole) {
      return whole.error().message;
    }
    LedgerCheck ledger(folder_.path());
    const std::string wrong = ledger.check(**store);
    completed_ = ledger.ended_as(ChainState::kCompleted);
    return wrong;
  }

  TemporaryFolder folder_;
  int completed_ = 0;
};

TEST_F(CrashTest, KilledAtRandom) {
  Random random(1);
  const std::uint64_t times = rounds(250);
  for (std::uint64_t i = 1; i <= times; ++i) {
    run_and_kill(i, std::chrono::milliseconds(10 + random.below(120)));
  }
  EXPECT_EQ(finish(), "");
  EXPECT_GT(completed_, 100) << "it has been running at all";
  RecordProperty("completed", completed_);
}

TEST_F(CrashTest, KilledAtEveryFailpoint) {
  const std::uint64_t times = rounds(15);
  std::uint64_t seed = 10'000;
  for (std::uint64_t i = 1; i <= times; ++i) {
    for (const char* point :
         {"store.commit", "store.committed", "chain.claimed", "chain.step_done", "chain.checkpointed"}) {
      const pid_t pid = start("run", ++seed, {point, std::to_string(i * i)});
      const int status = wait_for(pid);
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << point;
    }
  }
  EXPECT_EQ(finish(), "");
  EXPECT_GT(completed_, 50);
}

TEST_F(CrashTest, PowerIsCut) {
  Random random(3);
  const std::uint64_t times = rounds(100);
  for (std::uint64_t i = 1; i <= times; ++i) {
    run_and_kill(20'000 + i, std::chrono::milliseconds(10 + random.below(120)), {"power-loss"});
  }
  EXPECT_EQ(finish({"power-loss"}), "");
  EXPECT_GT(completed_, 50);
}

TEST_F(CrashTest, WithoutSyncingTheSameIsNoticed) {
  Random random(4);
  std::string wrong;
  for (std::uint64_t i = 1; i <= 40 && wrong.empty(); ++i) {
    run_and_kill(30'000 + i, std::chrono::milliseconds(30 + random.below(100)), {"power-loss", "no-sync"});
    if (i % 5 == 0) wrong = finish({"power-loss", "no-sync"});
  }
  EXPECT_NE(wrong, "");
}

}  // namespace
}  // namespace cohort
