// What earlier releases have written is understood: their databases and their configurations.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "backend/sqlite/store_test_fixture.h"
#include "cohort/backend/sqlite/sqlite_store.h"
#include "cohort/base/version.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/group/group_executor.h"
#include "cohort/node/node.h"
#include "cohort/node/node_config.h"
#include "cohort/testing/virtual_clock.h"
#include "cohort/testing/virtual_wall_clock.h"
#include "upgrade/release_tasks.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

const std::filesystem::path kReleases = std::filesystem::path(COHORT_SOURCE_DIR) / "tests/upgrade";

class UpgradeTest : public testing::TestWithParam<std::string> {
 protected:
  UpgradeTest() {
    std::filesystem::copy_file(kReleases / GetParam() / "cohort.db", folder_.path() / "cohort.db");
    clock_.advance(10s);  // After the database was written.
    auto opened = SqliteStore::open({.folder = folder_.path(),
                                     .synchronous = SqliteOptions::Synchronous::kOff,
                                     .clock = &wall_,
                                     .steady_clock = &clock_});
    if (!opened) throw std::runtime_error(opened.error().message);
    store_ = *std::move(opened);
  }

  ChainTask get(const std::string& id) {
    const auto task = wait<ChainTask>([&](auto done) { store_->get(id, std::move(done)); });
    EXPECT_TRUE(task) << id << ": " << task.error();
    return task ? *task : ChainTask();
  }
  StoreStats stats() {
    return *wait<StoreStats>([&](auto done) { store_->stats(std::move(done)); });
  }

  TemporaryFolder folder_;
  VirtualClock clock_;
  VirtualWallClock wall_{clock_};
  std::unique_ptr<SqliteStore> store_;
};

// Every release has a folder here.
std::vector<std::string> releases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kReleases)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Releases, UpgradeTest, testing::ValuesIn(releases()), [](const auto& of) {
  std::string name = of.param;
  std::ranges::replace(name, '.', '_');
  return "Of" + name;
});

TEST_P(UpgradeTest, NothingIsLostAndNothingIsPoisoned) {
  VirtualClock made_by;
  const std::vector<ReleaseTask> expected = release_tasks(VirtualWallClock(made_by).now());

  for (const ReleaseTask& each : expected) {
    const ChainTask task = get(each.request.id);
    EXPECT_EQ(task.state, each.state) << each.request.id;
    EXPECT_EQ(task.step, each.step) << each.request.id;
    EXPECT_TRUE(task.request == each.request) << each.request.id;
  }
  const StoreStats counts = stats();
  EXPECT_EQ(counts.damaged, 0U);
  EXPECT_EQ(counts.tasks[static_cast<std::size_t>(ChainState::kPoison)], 1U);
  EXPECT_EQ(counts.tasks[static_cast<std::size_t>(ChainState::kReady)], 5U);
  EXPECT_EQ(counts.dead_letters, 4U);
  EXPECT_EQ(counts.last_event, 11U);

  const ChainTask completed = get("completed");
  EXPECT_EQ(completed.context, R"({"a":1,"b":"two"})");
  EXPECT_EQ(completed.log, (std::vector<std::string>{"a line", "and another"}));
  EXPECT_EQ(completed.ran, 6s);
  const auto attempts =
      wait<std::vector<AttemptRecord>>([&](auto done) { store_->attempts("completed", std::move(done)); });
  ASSERT_TRUE(attempts);
  EXPECT_EQ(attempts->size(), 3U);
  EXPECT_EQ(get("poison").crashes, (std::vector<std::string>{"node/boot-1", "node/boot-2"}));
  EXPECT_TRUE(get("delayed").due_at.has_value());

  const auto letters =
      wait<std::vector<DeadLetter>>([&](auto done) { store_->dead_letters("", 100, std::move(done)); });
  ASSERT_TRUE(letters);
  const auto failed = std::ranges::find(*letters, "failed", &DeadLetter::task_id);
  ASSERT_NE(failed, letters->end());
  EXPECT_EQ(failed->plugin, "second");
  EXPECT_EQ(failed->reason, "the second step said no");
  const auto events = wait<std::vector<ChainEvent>>([&](auto done) { store_->events(0, 100, std::move(done)); });
  EXPECT_EQ(events->size(), 11U);
  const auto controls = wait<std::vector<GroupControl>>([&](auto done) { store_->controls("", 10, std::move(done)); });
  ASSERT_EQ(controls->size(), 2U);
  EXPECT_EQ(controls->at(0).group, "a");
  EXPECT_EQ(controls->at(0).limits, R"({"max_concurrency":2})");
  EXPECT_TRUE(controls->at(1).paused);
  const auto page = wait<TaskPage>([&](auto done) { store_->list({}, std::move(done)); });
  EXPECT_EQ(page->tasks.size(), expected.size());
  EXPECT_EQ(*wait<std::uint64_t>([&](auto done) { store_->cursor("relay", std::move(done)); }), 3U);
  const auto again = wait<std::vector<IntakeAnswer>>([&](auto done) {
    store_->take_in({{.message_id = "m-1", .refused = DeadLetter{.message_id = "m-1"}}}, std::move(done));
  });
  EXPECT_EQ(again->at(0).outcome, IntakeOutcome::kDuplicate) << "a refused message is remembered";
}

TEST_P(UpgradeTest, AResizedGroupKeepsItsSize) {
  PluginRegistry plugins;
  GroupExecutor executor({.threads = 2});
  ChainEngine engine(*store_, executor, plugins);
  ASSERT_TRUE(engine.start().await().ok());
  EXPECT_EQ(executor.resolve("a").max_concurrency, 2U);
  static_cast<void>(engine.drain(0s).await());
}

TEST_P(UpgradeTest, AKeyStillBelongsToItsRequest) {
  VirtualClock made_by;
  for (const ReleaseTask& each : release_tasks(VirtualWallClock(made_by).now())) {
    if (each.request.idempotency_key.empty()) continue;
    NewTask again = each.request;
    again.id = "another";
    auto answer = wait<std::vector<Result<Submitted>>>([&](auto done) { store_->submit({again}, std::move(done)); });
    ASSERT_TRUE(answer && answer->at(0)) << answer->at(0).error();
    EXPECT_TRUE(answer->at(0)->existed);
    EXPECT_EQ(answer->at(0)->task_id, each.request.id);
  }
}

TEST_P(UpgradeTest, ANodeStartsOnItsFolder) {
  store_.reset();
  const TemporaryFolder folder;
  std::filesystem::copy_file(kReleases / GetParam() / "cohort.db", folder.path() / "cohort.db");
  PluginRegistry plugins;
  for (const char* name : {"first", "second"}) {
    ASSERT_TRUE(plugins.add(name, [](StepContext&) { return PluginResult::success(); }));
  }
  NodeConfig config;
  config.store.sqlite.folder = folder.path();
  config.admin.port = 0;
  config.chains.retention = Duration::zero();  // The database was written long ago.

  const auto node = Node::start(config, plugins);

  ASSERT_TRUE(node) << node.error();
  const auto counts = wait<StoreStats>([&](auto done) { (*node)->store().stats(std::move(done)); });
  EXPECT_EQ(counts->damaged, 0U);
  EXPECT_EQ(counts->tasks[static_cast<std::size_t>(ChainState::kPoison)], 1U);
  const TaskResult<ChainTask> completed = (*node)->wait("completed").await();
  ASSERT_TRUE(completed.ok());
  EXPECT_EQ(completed.value->context, R"({"a":1,"b":"two"})");
}

TEST_P(UpgradeTest, WhatWasOpenRunsToItsEnd) {
  PluginRegistry plugins;
  std::atomic<int> ran{0};
  for (const char* name : {"first", "second"}) {
    ASSERT_TRUE(plugins.add(name, [&](StepContext&) {
      ++ran;
      return PluginResult::success({{"done", true}});
    }));
  }
  GroupExecutor executor({.threads = 2});
  ChainOptions options;
  options.work_folder = folder_.path() / "work";
  options.fetch = [](const std::string&, const std::filesystem::path& to,
                     const std::stop_token&) -> Result<std::filesystem::path> { return to; };
  ChainEngine engine(*store_, executor, plugins, options);
  ASSERT_TRUE(engine.start().await().ok());
  ASSERT_TRUE(engine.resume_group("paused").await().ok());
  ASSERT_TRUE(engine.ready("pending").await().ok());

  for (const char* id : {"pending", "processing", "paused", "full", "large"}) {
    while (!is_final(get(id).state)) std::this_thread::yield();
    EXPECT_EQ(get(id).state, ChainState::kCompleted) << id << ": " << get(id).error;
  }
  EXPECT_GE(ran, 9) << "all steps but the first of 'processing', which has its checkpoint";
  EXPECT_EQ(get("processing").ran >= 2s, true);
  EXPECT_EQ(stats().tasks[static_cast<std::size_t>(ChainState::kPoison)], 1U);
  static_cast<void>(engine.drain(0s).await());
}

TEST_P(UpgradeTest, ItsConfigurationIsGood) {
  const auto config = read_config(kReleases / GetParam() / "cohort.yaml");
  ASSERT_TRUE(config) << config.error();
  EXPECT_EQ(config->chains.step_timeout, 30s);
  EXPECT_EQ(config->store.sqlite.folder, "cohort-data");
}

// Every release adds its database: see make_database.cc.
TEST(ReleasesTest, EveryReleaseHasItsDatabase) {
  for (const std::string& release : releases()) {
    EXPECT_TRUE(std::filesystem::exists(kReleases / release / "cohort.db")) << release;
  }
  EXPECT_TRUE(std::filesystem::exists(kReleases / COHORT_VERSION)) << "make the database of this release";
}

}  // namespace
}  // namespace cohort
