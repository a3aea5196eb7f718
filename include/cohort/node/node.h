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

/// A node inside your program: durable chains on a store, with the built-in steps and yours, behind an HTTP API.
/// `cohort serve` runs one of these.
///
///     PluginRegistry plugins;
///     plugins.add("greet", [](StepContext&) { return PluginResult::success({{"greeted", true}}); });
///     auto node = Node::start({.store = {.sqlite = {.folder = "my-data"}}}, std::move(plugins));
///     auto submitted = (*node)->chains().submit({.group = "tenant", .steps = {{.plugin = "greet"}}}).await();
///     auto ended = (*node)->wait(submitted.value->task_id).await();
///
/// The built-in plugins are exec, http and sha256. Your own plugins must have other names.
///
/// Thread-safety: thread-safe.
/// Example: examples/12_node.cc
class Node {
 public:
  /// Opens the store, takes over unfinished tasks, and listens for HTTP. kConflict: another process has the folder or
  /// the port. kInvalid: the configuration has an error.
  static Result<std::unique_ptr<Node>> start(NodeConfig config, PluginRegistry plugins = {});
  /// Checks a configuration as start() does, without opening the store or listening. kInvalid: the configuration has an
  /// error. The message has the place in cohort.yaml if the configuration came from a file.
  static Result<void> check(NodeConfig config, PluginRegistry plugins = {});
  /// Calls drain() with a grace of 0.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Starts no more tasks, answers /readyz with 503, and waits for running tasks. After `grace`, running steps are
  /// asked to stop; their tasks go on from their last checkpoint when a node starts on this store again. Then the HTTP
  /// API ends. Blocks; a second call waits for the first.
  void drain(Duration grace);

  [[nodiscard]] ChainEngine& chains();
  /// Gives the task when it has ended; see ChainEngine::wait().
  TaskHandle<ChainTask> wait(const std::string& task_id) { return chains().wait(task_id); }
  [[nodiscard]] TaskStore& store();
  [[nodiscard]] Executor& executor();
  /// A text for people that names the store: "sqlite, cohort-data".
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
