// Random programs through the public API: plain bodies and coroutines that submit, await, sleep, follow, join scopes,
// cancel and time out. Whatever they do, everything ends and nothing is left.

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "cohort/task/sleep.h"
#include "cohort/task/task_scope.h"
#include "cohort/task/when.h"
#include "cohort/testing/world.h"
#include "testing/seed_test_fixture.h"

namespace cohort {
namespace {

class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed), world_(make_options(random_), seed) {}

  // What is wrong at the end; empty when nothing is.
  std::string run() {
    for (int i = 0; i < 25; ++i) {
      submit(0);
      if (random_.chance(0.3)) executor().advance(some_time());
      if (random_.chance(0.1)) control();
    }
    ending_ = true;
    for (int g = 0; g < kGroups; ++g) {
      static_cast<void>(executor().resume_group(key(g)));
      static_cast<void>(executor().resize(key(g), 2));
    }
    const bool idle = executor().run_until_idle();
    for (const TaskHandle<int>& handle : handles_) {
      if (!handle.is_done()) return handle.task_id() + " has not ended: " + executor().explain(handle).text;
    }
    return idle ? world_.leaks() : "not idle";
  }

 private:
  static constexpr int kGroups = 4;

  static GroupExecutorOptions make_options(Random& random) {
    const auto some = [&](std::uint32_t most) { return static_cast<std::uint32_t>(1 + random.below(most)); };
    GroupExecutorOptions options{.defaults = {.max_concurrency = some(3), .max_in_flight = some(4)},
                                 .global_max_in_flight = some(6),
                                 .threads = some(3),
                                 .max_parked = some(40),
                                 .evict_after = std::chrono::milliseconds(some(100))};
    if (random.chance(0.3)) options.defaults.max_waiting = some(8);
    if (random.chance(0.3)) options.defaults.overflow = OverflowPolicy::kDiscardOldest;
    return options;
  }

  static std::string key(int group) { return "g" + std::to_string(group); }
  ManualExecutor& executor() { return world_.executor; }
  Duration some_time() { return std::chrono::microseconds(random_.below(5000)); }
  std::string some_group() { return key(static_cast<int>(random_.below(kGroups))); }

  TaskHandle<int> submit(int depth) {
    SubmitOptions options{.priority = static_cast<Priority>(random_.below(3))};
    if (random_.chance(0.2)) options.run_timeout = some_time();
    if (random_.chance(0.1)) options.queue_timeout = some_time();
    const std::string id = "t" + std::to_string(handles_.size());
    TaskHandle<int> handle;
    if (random_.chance(0.5)) {
      handle = executor().submit(
          some_group(), id, [this, depth] { return plain(depth); }, options);
    } else {
      handle = executor().submit(
          some_group(), id, [this, depth] { return coroutine(depth); }, options);
    }
    if (random_.chance(0.2)) handles_.push_back(handle.then([](int value) { return value + 1; }));
    handles_.push_back(handle);
    return handle;
  }

  TaskHandle<int> some_handle(int depth) {
    if (depth < 4 && random_.chance(0.5)) return submit(depth + 1);
    return handles_[random_.below(handles_.size())];
  }

  void control() {
    if (ending_) return;  // Or somebody stays paused for ever.
    const std::string group = some_group();
    switch (random_.below(6)) {
      case 0: static_cast<void>(executor().pause_group(group)); break;
      case 1: static_cast<void>(executor().resume_group(group)); break;
      case 2: static_cast<void>(executor().resize(group, static_cast<std::uint32_t>(random_.below(4)))); break;
      case 3: static_cast<void>(executor().shutdown_group(group)); break;
      case 4: handles_[random_.below(handles_.size())].cancel(); break;
      default: static_cast<void>(executor().explain(handles_[random_.below(handles_.size())])); break;
    }
  }

  int plain(int depth) {
    for (std::uint64_t steps = random_.below(4); steps > 0; --steps) {
      switch (random_.below(8)) {
        case 0: executor().spend(some_time()); break;
        case 1: static_cast<void>(some_handle(depth).await()); break;
        case 2: static_cast<void>(some_handle(depth).await_for(some_time())); break;
        case 3: static_cast<void>(when_all(some_handle(depth), some_handle(depth)).await()); break;
        case 4: static_cast<void>(when_any(some_handle(depth), some_handle(depth)).await()); break;
        case 5: join_scope(depth); break;
        case 6: static_cast<void>(executor().drain_group(some_group(), some_time())); break;
        default: control(); break;
      }
    }
    if (random_.chance(0.1)) throw std::runtime_error("by chance");
    return 1;
  }

  Task<int> coroutine(int depth) {
    for (std::uint64_t steps = random_.below(4); steps > 0; --steps) {
      switch (random_.below(7)) {
        case 0: co_await sleep_for(some_time()); break;
        case 1: static_cast<void>(co_await some_handle(depth)); break;
        case 2: static_cast<void>(co_await when_all(some_handle(depth), some_handle(depth))); break;
        case 3: static_cast<void>(co_await when_any(some_handle(depth), some_handle(depth))); break;
        case 4: join_scope(depth); break;
        case 5: static_cast<void>(some_handle(depth).await()); break;
        default: control(); break;
      }
    }
    co_return 1;
  }

  // Its children only spend time, so that none awaits the task that owns the scope.
  void join_scope(int depth) {
    if (depth >= 4) return;
    TaskScope scope(executor());
    for (std::uint64_t i = random_.below(3); i > 0; --i) {
      scope.submit(some_group(), "child", [this] { executor().spend(some_time()); });
    }
    if (random_.chance(0.5)) static_cast<void>(scope.join());
  }

  Random random_;
  World world_;
  std::vector<TaskHandle<int>> handles_;
  bool ending_ = false;
};

TEST(ManualExecutorStormTest, WhateverProgramsDoEverythingEnds) {
  const Seeds seeds(300);
  for (std::uint64_t seed = seeds.first(); seed <= seeds.last(); ++seed) {
    Program program(seed);
    ASSERT_EQ(program.run(), "") << "replay with ./dev sim " << seed;
  }
}

}  // namespace
}  // namespace cohort
