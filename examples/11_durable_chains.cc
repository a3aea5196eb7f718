// A file-processing service in small: each upload is a durable chain of three steps. The node is "killed" in the middle
// (here: it goes out of scope) and another one goes on from the last checkpoint.

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "cohort/backend/sqlite/sqlite_store.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/group/group_executor.h"

using namespace std::chrono_literals;
using cohort::ChainEngine;
using cohort::PluginResult;
using cohort::StepContext;

namespace {

cohort::PluginRegistry make_plugins() {
  cohort::PluginRegistry plugins;
  const auto add = [&](const char* name, std::function<PluginResult(StepContext&)> run) {
    if (!plugins.add(name, std::move(run))) std::abort();
  };
  add("checksum", [](StepContext& step) {
    std::printf("  checksum  of %s, attempt %u\n", step.task_id().c_str(), step.attempt());
    return PluginResult::success({{"checksum", "c0ffee"}});
  });
  add("thumbnail", [](StepContext& step) {
    std::printf("  thumbnail of %s, attempt %u\n", step.task_id().c_str(), step.attempt());
    step.report_progress(0.5, "half of it");
    if (step.attempt() == 1) return PluginResult::retry("the converter is busy", 50ms);
    return PluginResult::success({{"width", step.parameters().value("width", 100)}});
  });
  add("webhook", [](StepContext& step) {
    // Whoever is called can tell by the token that it is the same call, should it come twice.
    std::printf("  webhook   of %s, token %s, context %s\n", step.task_id().c_str(), step.idempotency_token().c_str(),
                step.context().dump().c_str());
    return PluginResult::success();
  });
  return plugins;
}

bool all_completed(cohort::TaskStore& store, std::uint64_t count) {
  std::atomic<int> done{-1};
  store.stats([&](cohort::Result<cohort::StoreStats> stats) {
    done = stats && stats->tasks[static_cast<std::size_t>(cohort::ChainState::kCompleted)] == count ? 1 : 0;
  });
  while (done < 0) std::this_thread::yield();
  return done == 1;
}

}  // namespace

int main() {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("cohort-example-" + std::to_string(::getpid()));
  auto store = cohort::SqliteStore::open({.folder = folder});
  if (!store) {
    std::fprintf(stderr, "%s\n", store.error().message.c_str());
    return 1;
  }
  const cohort::PluginRegistry plugins = make_plugins();
  constexpr std::uint64_t kUploads = 4;
  for (int life = 1; life <= 2; ++life) {
    std::printf("node, life %d\n", life);
    // Two uploads of a tenant at a time, three over all tenants.
    cohort::GroupExecutor executor({.defaults = {.max_concurrency = 2}, .global_max_in_flight = 3});
    ChainEngine engine(**store, executor, plugins, {.node = "example"});
    if (!engine.start().await().ok()) return 1;
    for (std::uint64_t i = 0; life == 1 && i < kUploads; ++i) {
      const auto submitted = engine
                                 .submit({.id = "upload-" + std::to_string(i),
                                          .group = i % 2 == 0 ? "alice" : "bob",
                                          .steps = {{.plugin = "checksum"},
                                                    {.plugin = "thumbnail", .parameters = R"({"width": 320})"},
                                                    {.plugin = "webhook"}},
                                          .tags = {"photo"}})
                                 .await();
      if (!submitted.ok()) return 1;  // From here on it is not lost, whatever happens.
    }
    if (life == 1) continue;  // The first node leaves with everything half done.
    while (!all_completed(**store, kUploads)) std::this_thread::sleep_for(5ms);
  }
  store->reset();
  std::filesystem::remove_all(folder);
  std::puts("every upload has been processed");
  return 0;
}
