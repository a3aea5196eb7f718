#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cohort/base/result.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/chain/plugin.h"
#include "cohort/node/node_config.h"
#include "cohort/store/task_store.h"
#include "cohort/task/executor.h"

namespace cohort {

/// A node: durable chains on a store of their own, with the built-in steps and yours, behind an HTTP API. `cohort
/// serve` is one; this is the same inside your program.
///
///     PluginRegistry plugins;
///     plugins.add("greet", [](StepContext&) { return PluginResult::success({{"greeted", true}}); });
///     auto node = Node::start({.store = {.sqlite = {.folder = "my-data"}}}, std::move(plugins));
///     auto submitted = (*node)->chains().submit({.group = "tenant", .steps = {{.plugin = "greet"}}}).await();
///     auto ended = (*node)->wait(submitted.value->task_id).await();
///
/// The built-in steps are exec, http and sha256; a plugin of yours may not have one of these names.
///
/// Thread-safety: thread-safe.
/// Example: examples/12_node.cc
class Node {
 public:
  /// Opens the store, takes over what was left unfinished, and listens. kConflict: the folder or the port is another's.
  /// kInvalid: the configuration cannot be.
  static Result<std::unique_ptr<Node>> start(NodeConfig config, PluginRegistry plugins = {});
  /// Checks what start() would refuse of a configuration, without opening or starting anything that lasts. kInvalid,
  /// with the place in cohort.yaml where there is one.
  static Result<void> check(NodeConfig config, PluginRegistry plugins = {});
  /// As drain(0).
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Takes no more tasks, is no longer ready, and waits for what runs; after `grace` that is asked to stop, and goes on
  /// from its last checkpoint when a node starts here again. Then the API ends too. Blocks; a second call waits for the
  /// first.
  void drain(Duration grace);

  [[nodiscard]] ChainEngine& chains();
  /// As ChainEngine::wait(): the task when it has ended.
  TaskHandle<ChainTask> wait(const std::string& task_id) { return chains().wait(task_id); }
  [[nodiscard]] TaskStore& store();
  [[nodiscard]] Executor& executor();
  /// Where the tasks are kept, for people: "sqlite, cohort-data".
  [[nodiscard]] std::string store_place() const;
  /// "http://127.0.0.1:7070"
  [[nodiscard]] std::string address() const;
  [[nodiscard]] std::uint16_t port() const;

 private:
  class Impl;
  explicit Node(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
