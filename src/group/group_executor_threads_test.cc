// GroupExecutor's own threads: blocked bodies, how many threads there are, and what ends on them.

#include <gtest/gtest.h>

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/group/group_executor.h"
#include "cohort/task/sleep.h"
#include "cohort/task/task.h"
#include "cohort/task/task_scope.h"
#include "cohort/task/this_task.h"
#include "cohort/task/when.h"
#include "group/gate_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

// Blocks in read() until something is written.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Pipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  void read_one() {
    char byte = 0;
    while (read(ends_[0], &byte, 1) < 0) {
    }
  }
  void write_many(int count) {
    const std::string bytes(static_cast<std::size_t>(count), 'x');
    EXPECT_EQ(write(ends_[1], bytes.data(), bytes.size()), count);
  }

 private:
  std::array<int, 2> ends_{};
};

// Waits in its destructor.
struct Slow {
  explicit Slow(Gate* at) : gate(at) {}
  Slow(Slow&& other) noexcept : gate(std::exchange(other.gate, nullptr)) {}
  ~Slow() {
    if (gate != nullptr) gate->pass();
  }
  Gate* gate;
};

TEST(GroupExecutorThreadsTest, TasksBlockedInASystemCallDoNotKeepAnotherGroupsTaskFromStarting) {
  Pipe pipe;
  std::atomic<int> started{0};
  GroupExecutor executor({.groups = {{"stuck", {.max_concurrency = 64}}}, .threads = 2});
  std::vector<TaskHandle<void>> stuck;
  for (int i = 0; i < 64; ++i) {
    stuck.push_back(executor.submit("stuck", std::to_string(i), [&] {
      ++started;
      pipe.read_one();
    }));
  }
  EXPECT_EQ(executor.submit("other", "t", [] { return 1; }).await().value, 1);
  while (started < 64) std::this_thread::yield();
  EXPECT_EQ(executor.submit("other", "t", [] { return 2; }).await().value, 2);
  EXPECT_GE(executor.thread_count(), 64U);
  pipe.write_many(64);
  for (auto& handle : stuck) EXPECT_TRUE(handle.await().ok());
}

TEST(GroupExecutorThreadsTest, OneGroupThatBlocksCannotTakeTheLastThreads) {
  Pipe pipe;
  std::atomic<int> started{0};
  GroupExecutor executor({.groups = {{"stuck", {.max_concurrency = kUnlimited}}}, .threads = 2, .max_threads = 8});
  std::vector<TaskHandle<void>> stuck;
  for (int i = 0; i < 100; ++i) {
    stuck.push_back(executor.submit("stuck", std::to_string(i), [&] {
      ++started;
      pipe.read_one();
    }));
  }
  while (started < 5) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(executor.submit("other", "t", [] {}).await().ok());
  EXPECT_EQ(started, 5);  // 8 - (2 + 1)
  EXPECT_LE(executor.thread_count(), 8U);
  pipe.write_many(100);
  for (auto& handle : stuck) EXPECT_TRUE(handle.await().ok());
}

TEST(GroupExecutorThreadsTest, ShortTasksNeedNoMoreThreadsThanAskedFor) {
  // The probe says that nobody ever blocks, so only the rule counts, not how busy the machine is.
  GroupExecutor executor(
      {.defaults = {.max_concurrency = 100}, .threads = 2, .blocked_probe = [](int) { return false; }});
  std::size_t most = 0;
  std::vector<TaskHandle<void>> handles;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 200; ++i) {
      handles.push_back(executor.submit("g" + std::to_string(i % 10), "t", [] { std::this_thread::yield(); }));
    }
    most = std::max(most, executor.thread_count());
  }
  for (auto& handle : handles) ASSERT_TRUE(handle.await().ok());
  // threads + 1 for tasks; where the machine is slow, a few more that end what tasks have left.
  EXPECT_LE(most, 8U);
}

TEST(GroupExecutorThreadsTest, ATaskThatBlocksUnexpectedlyDoesNotKeepThoseBehindItInItsTurn) {
  GroupExecutor executor({.defaults = {.max_concurrency = 2}, .threads = 2});
  for (int i = 0; i < 2000; ++i) static_cast<void>(executor.submit("g", "short", [] {}).await());
  for (int round = 0; round < 3; ++round) {
    Gate gate;
    ASSERT_TRUE(executor.pause_group("g"));
    auto waits = executor.submit("g", "waits", [&] { gate.pass(); });
    auto opens = executor.submit("g", "opens", [&] { gate.open(); });
    ASSERT_TRUE(executor.resume_group("g"));
    EXPECT_TRUE(opens.await().ok());
    EXPECT_TRUE(waits.await().ok());
  }
}

TEST(GroupExecutorThreadsTest, AResultThatIsSlowToDestroyHoldsNobodyUp) {
  for (const std::uint32_t threads : {1U, 2U}) {
    Gate gate;
    GroupExecutor executor({.threads = threads});
    // The handle is gone before it ends: a worker destroys the result.
    std::atomic<bool> dropped{false};
    executor.submit("g", "slow", [&] {
      while (!dropped) std::this_thread::yield();
      return Slow(&gate);
    });
    dropped = true;
    gate.wait_for(1);
    EXPECT_EQ(executor.submit("h", "t", [] { return 1; }).await().value, 1);
    gate.open();
  }
}

TEST(GroupExecutorThreadsTest, SurplusThreadsRetire) {
  Pipe pipe;
  std::atomic<int> started{0};
  GroupExecutor executor({.groups = {{"stuck", {.max_concurrency = 32}}}, .threads = 2});
  std::vector<TaskHandle<void>> stuck;
  for (int i = 0; i < 32; ++i) {
    stuck.push_back(executor.submit("stuck", std::to_string(i), [&] {
      ++started;
      pipe.read_one();
    }));
  }
  while (started < 32) std::this_thread::yield();
  pipe.write_many(32);
  for (auto& handle : stuck) ASSERT_TRUE(handle.await().ok());
  while (executor.thread_count() > 3) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(executor.submit("g", "t", [] {}).await().ok());
}

TEST(GroupExecutorThreadsTest, AWorkerThatRestsKeepsNothing) {
  GroupExecutor executor({.threads = 1});
  std::weak_ptr<int> seen;
  static_cast<void>(executor
                        .submit("parent", "",
                                [&] {
                                  const auto child =
                                      executor.submit("child", "", [] { return std::make_shared<int>(7); });
                                  seen = *child.await().value;
                                })
                        .await());
  while (!seen.expired()) std::this_thread::yield();
}

TEST(GroupExecutorThreadsTest, ItCannotBeDestroyedOnAThreadOfItsOwn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto executor = std::make_unique<GroupExecutor>();
        static_cast<void>(executor->submit("g", "t", [&] { executor.reset(); }).await());
      },
      "cannot be destroyed on a thread of its own");
}

TEST(GroupExecutorThreadsTest, ItCannotBeDestroyedInACallToOneOfItsHandles) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto executor = std::make_unique<GroupExecutor>();
        static_cast<void>(executor->pause_group("g"));
        const auto handle = executor->submit("g", "t", [] {});
        handle.on_done([&](const TaskResult<void>&) { executor.reset(); });
        handle.cancel();
      },
      "cannot be destroyed inside a call to one of its handles");
}

// With two threads and a probe that finds nobody blocked, both in reads: only the region brings a third thread.
TEST(GroupExecutorThreadsTest, ABlockingRegionBringsAnotherThreadAtOnce) {
  GroupExecutor executor(
      {.defaults = {.max_concurrency = 8}, .threads = 2, .blocked_probe = [](std::int32_t) { return false; }});
  std::latch end(1);
  std::vector<TaskHandle<void>> blocking;
  for (int i = 0; i < 4; ++i) {
    blocking.push_back(executor.submit("g", "blocks", [&] {
      const BlockingRegion region;
      const BlockingRegion inner;  // Which changes nothing.
      end.wait();
    }));
  }
  EXPECT_TRUE(executor.submit("other", "t", [] {}).await().ok());
  end.count_down();
  for (const auto& each : blocking) EXPECT_TRUE(each.await().ok());
  const BlockingRegion outside;  // Outside every task it does nothing.
}

TEST(GroupExecutorThreadsTest, AnInnerBlockingRegionDoesNotEndTheOuterOne) {
  GroupExecutor executor({.threads = 1, .blocked_probe = [](std::int32_t) { return false; }});
  std::atomic<bool> may_end{false};
  std::atomic<bool> blocks{false};
  auto blocked = executor.submit("a", "blocks", [&] {
    const BlockingRegion outer;
    { const BlockingRegion inner; }
    blocks = true;
    may_end.wait(false);
  });
  while (!blocks) std::this_thread::yield();
  EXPECT_TRUE(executor.submit("b", "runs", [] {}).await().ok());
  may_end = true;
  may_end.notify_all();
  EXPECT_TRUE(blocked.await().ok());
}

// A body's own call destroys users' code that blocks: the rest of the body's turn must not wait for that.
TEST(GroupExecutorThreadsTest, ADestructorThatBlocksInsideABodyHoldsNoOtherTaskUp) {
  Gate gate;
  GroupExecutor executor({.defaults = {.max_concurrency = 2}, .threads = 1});
  for (int i = 0; i < 2000; ++i) static_cast<void>(executor.submit("warm", "t", [] {}).await());  // Known as short.
  static_cast<void>(executor.pause_group("later"));
  struct Blocks {
    explicit Blocks(Gate& of) : gate(&of) {}
    Blocks(Blocks&& other) noexcept : gate(std::exchange(other.gate, nullptr)) {}
    ~Blocks() {
      if (gate != nullptr) gate->pass();
    }
    Gate* gate;
  };
  auto waiting = executor.submit("later", "w", [blocks = Blocks(gate)] {});
  std::vector<GroupTask<void>> tasks;
  tasks.emplace_back("warm", "cancels", [&] { waiting.cancel(); });
  tasks.emplace_back("warm", "next", [] {});
  auto handles = executor.submit_all(std::move(tasks));
  gate.wait_for(1);
  static_cast<void>(handles[1].await());
  EXPECT_FALSE(handles[0].is_done());
  gate.open();
  static_cast<void>(handles[0].await());
}

TEST(GroupExecutorThreadsTest, ItsThreadsHaveNames) {
  GroupExecutor executor;
  const auto name = executor.submit("g", "t", [] {
    std::array<char, 16> text{};
    pthread_getname_np(pthread_self(), text.data(), text.size());
    return std::string(text.data());
  });
  EXPECT_EQ(name.await().value, "cohort-worker");
}

}  // namespace
}  // namespace cohort
