// A node on a PostgreSQL store that is there to be killed, stopped and cut off:
//
//   postgres_worker FOLDER NAME URL run|finish SEED
//
// It runs real chains, and submits some of its own unless it is to finish. ledger.h says what it writes into FOLDER.

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "cohort/backend/postgres/postgres_store.h"
#include "cohort/base/random.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/group/group_executor.h"
#include "crash/ledger.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr int kGroups = 4;
constexpr std::uint32_t kConcurrency = 3;

int work(const std::string& folder, const std::string& name, const std::string& url, bool submits, std::uint64_t seed) {
  const Ledger acks(folder + "/acks-" + name, false);
  const Ledger ledger(folder + "/ledger-" + name, false);
  const Ledger wrong(folder + "/wrong-" + name, false);
  Result<std::unique_ptr<PostgresStore>> store = PostgresStore::open({.url = url});
  while (!store) {  // The server may be away just now.
    std::this_thread::sleep_for(50ms);
    store = PostgresStore::open({.url = url});
  }
  GroupExecutor executor({.groups = {{"g0", {.max_concurrency = 1}}},
                          .defaults = {.max_concurrency = kConcurrency},
                          .global_max_in_flight = kConcurrency});
  std::array<std::atomic<int>, kGroups> running{};
  PluginRegistry plugins;
  const auto step = [&](StepContext& context) {
    const auto group = static_cast<std::size_t>(context.group()[1] - '0');
    if (++running[group] > (group == 0 ? 1 : static_cast<int>(kConcurrency))) wrong.add("more run than a limit allows");
    const std::string what =
        context.task_id() + " " + std::to_string(context.step()) + " " + std::to_string(context.epoch()) + " .";
    ledger.add("B " + what);
    std::this_thread::sleep_for(2ms);
    ledger.add("E " + what);
    --running[group];
    return PluginResult::success({{"step" + std::to_string(context.step()), true}});
  };
  if (!plugins.add("step", step)) return 2;
  ChainOptions options{.node = name, .concurrency = kConcurrency, .lease = 3s, .renew_every = 1s, .look_every = 2s};
  for (;;) {
    ChainEngine engine(**store, executor, plugins, options);
    if (!engine.start().await().ok()) continue;  // As above.
    Random random(seed);
    for (int i = 0;; ++i) {
      if (!submits) {
        std::this_thread::sleep_for(1s);
        continue;
      }
      const std::string id = name + "-" + std::to_string(seed) + "-" + std::to_string(i);
      NewTask task{.id = id, .group = "g" + std::to_string(random.below(kGroups)), .deadline = 24h};
      const std::uint64_t steps = 1 + random.below(4);
      for (std::uint64_t s = 0; s < steps; ++s) task.steps.push_back({.plugin = "step"});
      if (engine.submit(task).await().ok()) acks.add(id + " " + std::to_string(steps) + " .");
      std::this_thread::sleep_for(20ms);
    }
  }
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  if (argc != 6) return 64;
  return cohort::work(argv[1], argv[2], argv[3], std::strcmp(argv[4], "run") == 0, std::strtoull(argv[5], nullptr, 10));
}
