#include <cohort/backend/sqlite/sqlite_store.h>
#include <cohort/chain/chain_engine.h>
#include <cohort/group/group_executor.h>

int main() {
  auto store = cohort::SqliteStore::open({.folder = "package-test-data"});
  if (!store) return 1;
  cohort::GroupExecutor executor;
  cohort::PluginRegistry plugins;
  if (!plugins.add("nothing", [](cohort::StepContext&) { return cohort::PluginResult::success(); })) return 1;
  cohort::ChainEngine engine(**store, executor, plugins);
  if (!engine.start().await().ok()) return 1;
  return engine.submit({.group = "g", .steps = {{.plugin = "nothing"}}}).await().ok() ? 0 : 1;
}
