// A node that is there to be killed: it runs real chains on a real store, and writes down what it has promised and
// done.
//
//   crash_worker FOLDER run|finish SEED [FAILPOINT COUNT] [power-loss] [no-sync]
//
// ledger.h says what it writes into FOLDER.

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "cohort/backend/sqlite/sqlite_store.h"
#include "cohort/base/failpoint.h"
#include "cohort/base/random.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/group/group_executor.h"
#include "contract/stores.h"
#include "crash/ledger.h"
#include "crash/power_loss_vfs.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr int kGroups = 4;
constexpr std::uint32_t kConcurrency = 3;

int wait_for_the_end(TaskStore& store, const Ledger& wrong) {
  for (;;) {
    const auto stats = wait<StoreStats>([&](auto done) { store.stats(std::move(done)); });
    if (!stats) {
      wrong.add("stats: " + stats.error().message);
      return 2;
    }
    std::uint64_t open = 0;
    for (std::size_t state = 0; state < static_cast<std::size_t>(ChainState::kCompleted); ++state)
      open += stats->tasks[state];
    if (open == 0) return 0;
    std::this_thread::sleep_for(5ms);
  }
}

int work(const std::string& folder, bool finish, std::uint64_t seed, bool power_loss, bool no_sync) {
  const Ledger acks(folder + "/acks");
  const Ledger ledger(folder + "/ledger");
  const Ledger wrong(folder + "/wrong");
  SqliteOptions store_options{.folder = folder + "/data", .who = "crash test"};
  if (power_loss) {
    register_power_loss_vfs(seed);
    store_options.vfs = "power-loss";
    std::error_code ignored;
    std::filesystem::remove(folder + "/data/cohort.db-shm", ignored);  // Memory: not there after the power was cut.
  }
  if (no_sync) store_options.synchronous = SqliteOptions::Synchronous::kOff;
  auto store = SqliteStore::open(store_options);
  if (!store) {
    wrong.add("open: " + store.error().message);
    return 2;
  }
  GroupExecutor executor({.groups = {{"g0", {.max_concurrency = 1}}},
                          .defaults = {.max_concurrency = kConcurrency},
                          .global_max_in_flight = kConcurrency});
  std::array<std::atomic<int>, kGroups> running{};
  std::atomic<int> all{0};
  PluginRegistry plugins;
  const auto step = [&](StepContext& context) {
    const auto group = static_cast<std::size_t>(context.group()[1] - '0');
    const int limit = group == 0 ? 1 : static_cast<int>(kConcurrency);
    if (++running[group] > limit || ++all > static_cast<int>(kConcurrency)) wrong.add("more run than a limit allows");
    const std::string what =
        context.task_id() + " " + std::to_string(context.step()) + " " + std::to_string(context.epoch()) + " .";
    ledger.add("B " + what);
    ledger.add("E " + what);
    --running[group];
    --all;
    return PluginResult::success({{"step" + std::to_string(context.step()), true}});
  };
  if (!plugins.add("step", step)) return 2;
  ChainEngine engine(**store, executor, plugins, {.node = "crash", .concurrency = kConcurrency});
  if (const auto started = engine.start().await(); !started.ok()) {
    wrong.add("start: " + started.error->message);
    return 2;
  }
  Random random(seed);
  if (finish) return wait_for_the_end(**store, wrong);
  for (int i = 0;; ++i) {
    const std::string id = std::to_string(seed) + "-" + std::to_string(i);
    NewTask task{.id = id, .group = "g" + std::to_string(random.below(kGroups)), .deadline = 24h};
    const std::uint64_t steps = 1 + random.below(4);
    for (std::uint64_t s = 0; s < steps; ++s) task.steps.push_back({.plugin = "step"});
    if (engine.submit(task).await().ok()) acks.add(id + " " + std::to_string(steps) + " .");
    if (i >= 60) std::this_thread::sleep_for(1ms);
  }
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  if (argc < 4) return 64;
  bool power_loss = false;
  bool no_sync = false;
  std::unique_ptr<cohort::Failpoint> failpoint;
  std::atomic<int> left{0};
  for (int i = 4; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "power-loss") {
      power_loss = true;
    } else if (argument == "no-sync") {
      no_sync = true;
    } else if (i + 1 < argc) {
      left = std::atoi(argv[++i]);
      failpoint = std::make_unique<cohort::Failpoint>(argument, [&left] {
        if (--left == 0) ::raise(SIGKILL);
        return false;
      });
    }
  }
  return cohort::work(argv[1], std::strcmp(argv[2], "finish") == 0, std::strtoull(argv[3], nullptr, 10), power_loss,
                      no_sync);
}
