// Real processes on a real store, killed over and over; then what they wrote down is held against what they promised.

#include <gtest/gtest.h>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/random.h"
#include "contract/stores.h"

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
    std::ifstream wrong(folder_.path() / "wrong");
    for (std::string line; std::getline(wrong, line);) return line;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return "the last process did not end well";
    return check();
  }

  std::string check() {
    struct Step {
      std::uint64_t first_epoch = 0;
      std::uint64_t last_epoch = 0;
      bool ended = false;
    };
    std::map<std::string, std::map<std::uint32_t, Step>> steps;
    std::ifstream ledger(folder_.path() / "ledger");
    for (std::string line; std::getline(ledger, line);) {
      std::istringstream words(line);
      std::string kind;
      std::string id;
      std::uint32_t step = 0;
      std::uint64_t epoch = 0;
      std::string end;
      if (!(words >> kind >> id >> step >> epoch >> end) || end != ".") continue;  // Half a line: it died in it.
      Step& of = steps[id][step];
      if (of.first_epoch == 0) of.first_epoch = epoch;
      of.last_epoch = std::max(of.last_epoch, epoch);
      of.ended = of.ended || kind == "E";
    }
    for (const auto& [id, of] : steps) {
      for (const auto& [step, seen] : of) {
        const auto next = of.find(step + 1);
        if (next != of.end() && seen.last_epoch > next->second.first_epoch) {
          return id + ": a claim taken after a checkpoint has repeated step " + std::to_string(step);
        }
        if (step > 0 && !of.at(step - 1).ended) return id + ": a step began before the one before it had ended";
      }
    }
    auto store = SqliteStore::open({.folder = folder_.path() / "data"});
    if (!store) return store.error().message;
    if (auto whole = wait<void>([&](auto done) { (*store)->check_integrity(std::move(done)); }); !whole) {
      return whole.error().message;
    }
    std::ifstream acks(folder_.path() / "acks");
    for (std::string line; std::getline(acks, line);) {
      std::istringstream words(line);
      std::string id;
      std::uint32_t count = 0;
      std::string end;
      if (!(words >> id >> count >> end) || end != ".") continue;
      const auto task = wait<ChainTask>([&](auto done) { (*store)->get(id, std::move(done)); });
      if (!task) return id + ": it was acknowledged and is lost";
      if (!is_final(task->state)) return id + ": it did not end";
      ++ends_[task->state];
      for (std::uint32_t step = 0; task->state == ChainState::kCompleted && step < count; ++step) {
        if (!steps[id][step].ended) return id + ": it is completed without the effect of step " + std::to_string(step);
      }
    }
    return "";
  }

  TemporaryFolder folder_;
  std::map<ChainState, int> ends_;
};

TEST_F(CrashTest, KilledAtRandom) {
  Random random(1);
  const std::uint64_t times = rounds(250);
  for (std::uint64_t i = 1; i <= times; ++i) {
    run_and_kill(i, std::chrono::milliseconds(10 + random.below(120)));
  }
  EXPECT_EQ(finish(), "");
  EXPECT_GT(ends_[ChainState::kCompleted], 100) << "it has been running at all";
  RecordProperty("completed", ends_[ChainState::kCompleted]);
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
  EXPECT_GT(ends_[ChainState::kCompleted], 50);
}

TEST_F(CrashTest, PowerIsCut) {
  Random random(3);
  const std::uint64_t times = rounds(100);
  for (std::uint64_t i = 1; i <= times; ++i) {
    run_and_kill(20'000 + i, std::chrono::milliseconds(10 + random.below(120)), {"power-loss"});
  }
  EXPECT_EQ(finish({"power-loss"}), "");
  EXPECT_GT(ends_[ChainState::kCompleted], 50);
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
