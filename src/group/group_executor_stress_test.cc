// GroupExecutor under real threads that do everything at once; under the thread sanitizer these are its proof. What
// they check holds in any order: limits are never passed, everything settles once, nothing is left. A failure prints
// its seed.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/random.h"
#include "cohort/group/group_executor.h"
#include "cohort/task/promise.h"
#include "cohort/task/sleep.h"
#include "cohort/task/task.h"
#include "cohort/task/task_scope.h"
#include "cohort/task/when.h"
#include "testing/seed_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

// What comes from outside every executor: promises that a thread of their own keeps, a moment after they were made.
class WorldOutside {
 public:
  WorldOutside() : thread_([this](const std::stop_token& stop) { keep(stop); }) {}

  TaskHandle<int> promise() {
    Promise<int> made("outside");
    TaskHandle<int> handle = made.handle();
    MutexLock lock(mutex_);
    open_.push_back(std::move(made));
    return handle;
  }

 private:
  void keep(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(50us);
      std::vector<Promise<int>> due;
      {
        MutexLock lock(mutex_);
        due = std::move(open_);
        open_.clear();
      }
      for (Promise<int>& each : due) each.settle(1);
    }
  }

  Mutex mutex_;
  std::vector<Promise<int>> open_ COHORT_GUARDED_BY(mutex_);
  std::jthread thread_;
};

// Random programs from several threads at once.
class Storm {
 public:
  explicit Storm(std::uint64_t seed) : seed_(seed), executor_(make_options(seed)) {}

  // What is wrong; empty when nothing is.
  std::string run() {
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) threads.emplace_back([this, t] { outside(seed_ * 10 + t); });
    for (std::thread& thread : threads) thread.join();
    for (int g = 0; g < kGroups; ++g) static_cast<void>(executor_.resume_group(key(g)));
    if (!executor_.shutdown(600s)) return "it did not end";
    const ExecutorStats stats = executor_.stats();
    if (stats.waiting != 0 || stats.parked != 0) return "tasks were left";
    if (stats.counters.submitted != stats.counters.settled_total()) return "not everything has settled once";
    if (stats.counters.submitted != submitted_) return "the counters missed a submit";
    return too_many_ ? "more ran than a limit allows" : "";
  }

 private:
  static constexpr int kGroups = 4;
  static constexpr std::uint64_t kThreads = 3;
  static constexpr std::array<int, kGroups> kLimits = {1, 2, 3, 100};

  static GroupExecutorOptions make_options(std::uint64_t seed) {
    Random random(seed);
    const auto some = [&](std::uint32_t most) { return static_cast<std::uint32_t>(1 + random.below(most)); };
    GroupExecutorOptions options{.defaults = {.max_in_flight = some(6)},
                                 .global_max_in_flight = random.chance(0.5) ? kUnlimited : some(5),
                                 .threads = some(3),
                                 .max_threads = 16,
                                 .evict_after = 1ms};
    if (random.chance(0.3)) options.defaults.max_waiting = some(20);
    if (random.chance(0.3)) options.defaults.overflow = static_cast<OverflowPolicy>(random.below(4));
    for (int g = 0; g < kGroups; ++g) {
      options.groups[key(g)].max_concurrency = static_cast<std::uint32_t>(kLimits[static_cast<std::size_t>(g)]);
    }
    return options;
  }

  static std::string key(int group) { return "g" + std::to_string(group); }

  void outside(std::uint64_t seed) {
    Random random(seed);
    std::vector<TaskHandle<int>> handles;
    for (int i = 0; i < 120; ++i) {
      handles.push_back(submit(random, 0));
      const TaskHandle<int>& some = handles[random.below(handles.size())];
      switch (random.below(12)) {
        case 0: some.cancel(); break;
        case 1: static_cast<void>(some.await_for(100us)); break;
        case 2: static_cast<void>(executor_.explain(some)); break;
        case 3: static_cast<void>(executor_.group_stats(some.group())); break;
        case 4:
          ++submitted_;
          static_cast<void>(some.then([](const TaskResult<int>&) { return 1; }));
          break;
        case 5: control(random); break;
        default: break;
      }
    }
    for (const auto& handle : handles) {
      // A paused group would keep its tasks for ever.
      if (random.chance(0.5)) handle.cancel();
    }
  }

  void control(Random& random) {
    const std::string group = key(static_cast<int>(random.below(kGroups)));
    switch (random.below(5)) {
      case 0: static_cast<void>(executor_.pause_group(group)); break;
      case 1: static_cast<void>(executor_.shutdown_group(group)); break;
      case 2: static_cast<void>(executor_.drain_group(group, 200us)); break;
      default: break;
    }
    static_cast<void>(executor_.resume_group(group));
  }

  TaskHandle<int> submit(Random& random, int depth) {
    const int group = static_cast<int>(random.below(kGroups));
    const std::uint64_t seed = random.next();
    SubmitOptions options;
    if (random.chance(0.05)) options.queue_timeout = std::chrono::microseconds(random.below(2000));
    if (random.chance(0.05)) options.run_timeout = std::chrono::microseconds(1 + random.below(2000));
    options.priority = static_cast<Priority>(random.below(kPriorityCount));
    ++submitted_;
    if (random.chance(0.3)) {
      return executor_.submit(
          key(group), "co", [this, seed, depth] { return coroutine(seed, depth); }, options);
    }
    if (random.chance(0.1)) {
      return executor_.try_run_here(key(group), "here", [] { return 1; });
    }
    // What has a time limit gives its permits back before its body ends, so only others are counted.
    const bool counted = !options.run_timeout;
    return executor_.submit(
        key(group), "plain", [this, seed, depth, group, counted] { return body(seed, depth, group, counted); },
        options);
  }

  int body(std::uint64_t seed, int depth, int group, bool counted) {
    Random random(seed);
    const Counted running(*this, group, counted);
    if (random.chance(0.05)) throw std::runtime_error("on purpose");
    if (random.chance(0.1)) std::this_thread::sleep_for(std::chrono::microseconds(random.below(300)));
    if (random.chance(0.1)) static_cast<void>(world_.promise().await_for(std::chrono::microseconds(random.below(200))));
    if (random.chance(0.1)) static_cast<void>(world_.promise().await());  // Counted: it keeps its permits.
    if (depth < 3 && random.chance(0.3)) {
      const TaskHandle<int> inner = submit(random, depth + 1);
      const NotCounted parked(*this, group, counted);
      if (random.chance(0.3)) static_cast<void>(inner.await_for(200us));
      if (random.chance(0.7)) static_cast<void>(inner.await());
    }
    if (depth < 2 && random.chance(0.05)) {
      TaskScope scope(executor_);
      ++submitted_;
      scope.submit(key(3), "child", [] {});
      const NotCounted parked(*this, group, counted);
      static_cast<void>(scope.join());
    }
    return 1;
  }

  Task<int> coroutine(std::uint64_t seed, int depth) {
    Random random(seed);
    if (random.chance(0.4)) co_await sleep_for(std::chrono::microseconds(random.below(500)));
    if (random.chance(0.2)) static_cast<void>(co_await world_.promise());
    if (depth < 3 && random.chance(0.4)) {
      const TaskHandle<int> inner = submit(random, depth + 1);
      static_cast<void>(co_await inner);
    }
    co_return 2;
  }

  void count(int group, int change) {
    const auto place = static_cast<std::size_t>(group);
    if ((running_[place] += change) > kLimits[place]) too_many_ = true;
  }
  struct Counted {
    Counted(Storm& owner, int in_group, bool counts) : storm(owner), group(in_group), on(counts) {
      if (on) storm.count(group, 1);
    }
    ~Counted() {
      if (on) storm.count(group, -1);
    }
    Storm& storm;
    int group;
    bool on;
  };
  struct NotCounted {
    NotCounted(Storm& owner, int in_group, bool counts) : storm(owner), group(in_group), on(counts) {
      if (on) storm.count(group, -1);
    }
    ~NotCounted() {
      if (on) storm.count(group, 1);
    }
    Storm& storm;
    int group;
    bool on;
  };

  std::uint64_t seed_;
  std::array<std::atomic<int>, kGroups> running_{};
  std::atomic<bool> too_many_{false};
  std::atomic<std::uint64_t> submitted_{0};
  WorldOutside world_;
  GroupExecutor executor_;  // The last: its destructor waits for bodies that use the rest.
};

TEST(GroupExecutorStormTest, NoRuleIsBroken) {
  const Seeds seeds(60);
  for (std::uint64_t seed = seeds.first(); seed <= seeds.last(); ++seed) {
    ASSERT_EQ(Storm(seed).run(), "") << "replay with ./dev sim " << seed;
  }
}

// One at a time: every submit finds everybody asleep, spinning, or on the way to sleep.
TEST(GroupExecutorStressTest, NoWakeUpIsLost) {
  for (std::uint32_t threads = 1; threads <= 3; ++threads) {
    GroupExecutor executor({.threads = threads});
    Random random(threads);
    for (int i = 0; i < 3000; ++i) {
      ASSERT_EQ(executor.submit("g", "t", [i] { return i; }).await().value, i);
      for (std::uint64_t pause = random.below(2000); pause > 0; --pause) pause_processor();
    }
  }
}

TEST(GroupExecutorStressTest, NoTaskOfABurstIsForgotten) {
  Random random(7);
  GroupExecutor executor({.defaults = {.max_concurrency = 4}, .threads = 2});
  std::atomic<int> done{0};
  int submitted = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::thread> producers;
    for (int p = 0; p < 2; ++p) {
      const int count = static_cast<int>(random.below(300));
      submitted += count;
      producers.emplace_back([&, count] {
        for (int i = 0; i < count; ++i) executor.submit("g" + std::to_string(i % 7), "t", [&] { ++done; });
      });
    }
    for (std::thread& producer : producers) producer.join();
    // Nobody submits any more: whoever has to look must do so by himself.
    while (done < submitted) std::this_thread::yield();
  }
}

TEST(GroupExecutorStressTest, AFullInboxSlowsItsSubmittersDown) {
  GroupExecutor executor({.defaults = {.max_waiting = kUnlimited}, .threads = 1});
  std::atomic<int> done{0};
  std::vector<std::thread> producers;
  for (int p = 0; p < 4; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < 10'000; ++i) executor.submit("g" + std::to_string(p), "t", [&] { ++done; });
    });
  }
  for (std::thread& producer : producers) producer.join();
  ASSERT_TRUE(executor.shutdown(600s));
  EXPECT_EQ(done, 40'000);
}

TEST(GroupExecutorStressTest, HandlesMayBeUsedWhileTheirExecutorIsDestroyed) {
  for (int round = 0; round < 100; ++round) {
    auto executor = std::make_unique<GroupExecutor>(GroupExecutorOptions{.threads = 2});
    std::vector<TaskHandle<int>> handles;
    for (int i = 0; i < 50; ++i) {
      handles.push_back(executor->submit("g" + std::to_string(i % 3), "t", [](std::stop_token stop) {
        for (int spin = 0; spin < 1000 && !stop.stop_requested(); ++spin) pause_processor();
        return 1;
      }));
    }
    std::vector<std::thread> users;
    users.emplace_back([&] {
      for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle) handle->cancel();
    });
    users.emplace_back([&] {
      for (const auto& handle : handles) static_cast<void>(handle.await_for(10us));
    });
    users.emplace_back([&] {
      for (const auto& handle : handles) static_cast<void>(handle.await());
    });
    executor.reset();
    for (std::thread& user : users) user.join();
    for (const auto& handle : handles) EXPECT_TRUE(handle.is_done());
  }
}

TEST(GroupExecutorStressTest, SubmittersRaceWithShutdown) {
  for (int round = 0; round < 20; ++round) {
    GroupExecutor executor({.threads = 2});
    std::atomic<bool> go_on{true};
    std::atomic<int> ran{0};
    std::atomic<int> succeeded{0};
    std::vector<std::thread> submitters;
    for (int t = 0; t < 2; ++t) {
      submitters.emplace_back([&] {
        std::vector<TaskHandle<void>> handles;
        for (int i = 0; i < 2000 && go_on; ++i) handles.push_back(executor.submit("g", "t", [&] { ++ran; }));
        for (const auto& handle : handles) {
          const auto result = handle.await();
          if (result.ok())
            ++succeeded;
          else if (result.status != TaskStatus::kRejected)
            ADD_FAILURE() << result.status;
        }
      });
    }
    static_cast<void>(executor.submit("g", "t", [] {}).await());
    EXPECT_TRUE(executor.shutdown(600s));
    go_on = false;
    for (std::thread& submitter : submitters) submitter.join();
    EXPECT_EQ(ran, succeeded);
  }
}

// Counts how often it is asked.
class CountingClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override {
    ++reads;
    return system_clock().now();
  }
  mutable std::atomic<std::uint64_t> reads{0};
};

TEST(GroupExecutorStressTest, AnIdleExecutorPollsNothing) {
  CountingClock clock;
  GroupExecutor executor({.threads = 2, .clock = &clock});
  for (int i = 0; i < 100; ++i) static_cast<void>(executor.submit("g", "t", [] {}).await());
  // Whatever wakes up looks at the clock. When surplus threads have gone and nobody has for a while, nobody does later.
  std::uint64_t before = 0;
  do {
    before = clock.reads;
    std::this_thread::sleep_for(50ms);
  } while (clock.reads != before || executor.thread_count() > 2);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(clock.reads, before);
}

// A turn gives the permits of many tasks back together; what has its result counts no more.
TEST(AdmissionStressTest, WhatFindsFreePermitsIsTakenIn) {
  GroupExecutor executor({.groups = {{"two", {.max_concurrency = 2, .max_waiting = 1}},
                                     {"eight", {.max_concurrency = 8, .max_waiting = 0}}},
                          .threads = 2});
  std::uint64_t ended = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<TaskHandle<void>> handles;
    for (int i = 0; i < 3; ++i) handles.push_back(executor.submit("two", "t", [] {}));
    for (int i = 0; i < 8; ++i) handles.push_back(executor.submit("eight", "t", [] {}));
    for (const auto& handle : handles) ASSERT_TRUE(handle.await().ok()) << handle.await().error->message;
    ended += 8;
    const auto stats = executor.group_stats("eight");
    ASSERT_EQ(stats->running, 0U) << "all have been awaited";
    ASSERT_EQ(stats->in_flight, 0U);
    ASSERT_EQ(stats->counters.count(TaskStatus::kSuccess), ended);
    ASSERT_EQ(executor.stats().running, 0U);
  }
  EXPECT_TRUE(executor.active_groups().empty());
}

// A thread may use an executor until its very end, when its thread-local objects go one after the other.
TEST(ThreadEndStressTest, AThreadLocalObjectMaySubmitWhenItGoes) {
  static GroupExecutor* used = nullptr;
  struct LastWords {
    ~LastWords() {
      for (int i = 0; i < 100; ++i) used->submit("g", "last", [] {}).cancel();
    }
  };
  GroupExecutor executor({.threads = 2});
  used = &executor;
  for (int round = 0; round < 20; ++round) {
    std::thread([&] {
      thread_local LastWords words;  // Made before what the executor keeps for this thread, so it goes after that.
      static_cast<void>(&words);
      for (int i = 0; i < 100; ++i) executor.submit("g", "first", [] {}).cancel();
    }).join();
  }
}

}  // namespace
}  // namespace cohort
