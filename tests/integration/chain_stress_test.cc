// Durable chains on threads, an executor and a file: submits, cancels, replays, pauses and ends all at once. Under the
// thread and address sanitizers this is the proof that nothing is used after its end.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/sqlite/store_test_fixture.h"
#include "cohort/backend/sqlite/sqlite_store.h"
#include "cohort/base/random.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/group/group_executor.h"
#include "cohort/testing/memory_broker.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

PluginRegistry make_plugins() {
  PluginRegistry plugins;
  const auto add = [&](const char* name, std::function<PluginResult(StepContext&)> run) {
    ASSERT_TRUE(plugins.add(name, std::move(run)));
  };
  add("quick", [](StepContext& step) {
    step.log("here");
    return PluginResult::success({{"attempt", step.attempt()}});
  });
  add("slow", [](StepContext& step) {
    for (int i = 0; i < 5 && !step.stop_token().stop_requested(); ++i) std::this_thread::sleep_for(200us);
    return PluginResult::success();
  });
  add("flaky", [](StepContext& step) {
    return step.attempt() == 1 ? PluginResult::retry("once more", 1ms) : PluginResult::success();
  });
  add("late", [](StepContext& step) {
    while (!step.stop_token().stop_requested()) std::this_thread::sleep_for(100us);
    return step.attempt() < 3 ? PluginResult::retry("out of time") : PluginResult::success();
  });
  return plugins;
}

NewTask some_task(Random& random, const std::string& id) {
  static constexpr const char* kSteps[] = {"quick", "slow", "flaky", "late"};
  NewTask task{.id = id, .group = "g" + std::to_string(random.below(4)), .deadline = 24h};
  for (std::uint64_t i = 0; i < 1 + random.below(3); ++i) {
    task.steps.push_back({.plugin = kSteps[random.below(20) == 0 ? 3 : random.below(3)],
                          .timeout = 5ms,
                          .retry = RetryPolicy{.max_retries = 100, .backoff = 1ms, .max_backoff = 2ms}});
  }
  return task;
}

TEST(ChainStressTest, NodesComeAndGoWhileEverybodyIsBusy) {
  const TemporaryFolder folder;
  auto store =
      std::move(*SqliteStore::open({.folder = folder.path(), .synchronous = SqliteOptions::Synchronous::kOff}));
  const PluginRegistry plugins = make_plugins();
  MemoryBroker broker(system_wall_clock());
  std::atomic<int> acknowledged{0};
  for (int round = 0; round < 12; ++round) {
    const std::unique_ptr<Broker> member = broker.member();
    GroupExecutor executor({.defaults = {.max_concurrency = 2}, .global_max_in_flight = 4, .threads = 2});
    ChainEngine engine(*store, executor, plugins, {.node = "stress", .overrun_grace = 50ms}, member.get());
    ASSERT_TRUE(engine.start().await().ok());
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        Random random(static_cast<std::uint64_t>(round * 10 + t + 1));
        for (int i = 0; i < 30; ++i) {
          const std::string id = std::to_string(round) + "-" + std::to_string(t) + "-" + std::to_string(i);
          TaskHandle<Submitted> submitted = engine.submit(some_task(random, id));
          switch (random.below(8)) {
            case 0: static_cast<void>(engine.cancel(id, "no longer wanted")); break;
            case 1: static_cast<void>(engine.replay({.task_id = id})); break;
            case 2: static_cast<void>(engine.pause_group("g0")); break;
            case 3: static_cast<void>(engine.resume_group("g0")); break;
            case 4: static_cast<void>(engine.stats()); break;
            default: break;
          }
          if (submitted.await().ok()) ++acknowledged;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // And out it goes, with whatever is under way.
  }
  GroupExecutor executor({.defaults = {.max_concurrency = 4}, .global_max_in_flight = 8, .threads = 2});
  ChainEngine last(*store, executor, plugins, {.node = "stress"});
  ASSERT_TRUE(last.start().await().ok());
  for (int group = 0; group < 4; ++group) ASSERT_TRUE(last.resume_group("g" + std::to_string(group)).await().ok());
  for (;;) {
    const auto stats = wait<StoreStats>([&](auto done) { store->stats(std::move(done)); });
    ASSERT_TRUE(stats);
    std::uint64_t open = 0;
    std::uint64_t ended = 0;
    for (std::size_t state = 0; state < kChainStates; ++state) {
      (is_final(static_cast<ChainState>(state)) ? ended : open) += stats->tasks[state];
    }
    if (open == 0) {
      EXPECT_EQ(ended, static_cast<std::uint64_t>(acknowledged));
      break;
    }
    std::this_thread::sleep_for(5ms);
  }
}

}  // namespace
}  // namespace cohort
