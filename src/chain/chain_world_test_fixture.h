#pragma once

// A node of durable chains in virtual time, on a store in memory.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cohort/chain/chain_engine.h"
#include "cohort/task/sleep.h"
#include "cohort/testing/memory_store.h"
#include "cohort/testing/virtual_wall_clock.h"
#include "cohort/testing/world.h"

namespace cohort {

/// A plugin that is a coroutine, so that it takes virtual time without a thread.
class CoroutinePlugin final : public Plugin {
 public:
  using Body = std::function<Task<PluginResult>(StepContext&)>;
  explicit CoroutinePlugin(Body body) : body_(std::move(body)) {}
  Task<PluginResult> run_async(StepContext& context) override { return body_(context); }

 private:
  Body body_;
};

class ChainWorldTest : public testing::Test {
 protected:
  ChainWorldTest() {
    add("ok", [](StepContext&) { return PluginResult::success(); });
    add("note", [this](StepContext& step) {
      ran.push_back(step.idempotency_token());
      return PluginResult::success({{step.parameters().value("as", "x"), step.attempt()}});
    });
    add("fail", [](StepContext&) { return PluginResult::failure("it says no"); });
    add("skip", [](StepContext&) { return PluginResult::skip("not today"); });
    add_async("sleep", [this](StepContext& step) -> Task<PluginResult> {
      ++sleeping;
      most_sleeping = std::max(most_sleeping, sleeping);
      const Duration duration = std::chrono::milliseconds(step.parameters().value("ms", 1000));
      co_await sleep_for(duration);
      --sleeping;
      ran.push_back(step.idempotency_token());
      co_return PluginResult::success();
    });
  }
  ~ChainWorldTest() override {
    engine.reset();
    EXPECT_EQ(world->leaks(), "");
  }

  void add(const std::string& name, std::function<PluginResult(StepContext&)> run) {
    ASSERT_TRUE(plugins.add(name, std::move(run)));
  }
  void add_async(const std::string& name, CoroutinePlugin::Body run) {
    ASSERT_TRUE(plugins.add(name, std::make_shared<CoroutinePlugin>(std::move(run))));
  }
  void start(ChainOptions options = {}, std::uint32_t concurrency = 4) {
    if (!world) make_world(concurrency);
    options.lease_clock = &world->clock;
    options.seed = ++boots;
    engine = std::make_unique<ChainEngine>(*store, world->executor, plugins, options);
    ASSERT_TRUE(engine->start().await().ok());
  }
  void make_world(std::uint32_t concurrency = 4) {
    world = std::make_unique<World>(
        GroupExecutorOptions{.defaults = {.max_concurrency = concurrency}, .global_max_in_flight = concurrency});
    wall = std::make_unique<VirtualWallClock>(world->clock);
    store = std::make_unique<MemoryStore>(*wall);
  }
  void advance(Duration duration) { world->executor.advance(duration); }

  static NewTask chain(const std::string& id, std::vector<ChainStep> steps, const std::string& group = "g") {
    return {.id = id, .group = group, .steps = std::move(steps)};
  }
  Submitted submit(NewTask task) {
    const TaskResult<Submitted> submitted = engine->submit(std::move(task)).await();
    EXPECT_TRUE(submitted.ok()) << submitted.error->message;
    return submitted.value.value_or(Submitted());
  }
  ChainTask get(const std::string& id) {
    ChainTask task;
    store->get(id, [&](Result<ChainTask> found) { task = *found; });
    return task;
  }
  std::vector<DeadLetter> letters() {
    std::vector<DeadLetter> all;
    store->dead_letters("", 1000, [&](Result<std::vector<DeadLetter>> found) { all = *found; });
    return all;
  }

  std::vector<std::string> ran;
  std::uint64_t boots = 0;
  int sleeping = 0;
  int most_sleeping = 0;
  PluginRegistry plugins;
  std::unique_ptr<World> world;
  std::unique_ptr<VirtualWallClock> wall;
  std::unique_ptr<MemoryStore> store;
  std::unique_ptr<ChainEngine> engine;
};

}  // namespace cohort
