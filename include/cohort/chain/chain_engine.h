#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/broker/broker.h"
#include "cohort/chain/chain_options.h"
#include "cohort/chain/plugin.h"
#include "cohort/store/task_store.h"
#include "cohort/task/executor.h"

namespace cohort {

/// Counters and state of the chains of one node.
struct ChainStats {
  std::string boot;           ///< The name of this life of the node with the store.
  bool has_lease = false;     ///< The node may claim tasks.
  bool draining = false;      ///< drain() was called; nothing new is started.
  std::uint32_t running = 0;  ///< Tasks that are claimed and whose steps run.
  std::uint32_t kept = 0;     ///< Tasks whose claim is kept until their next attempt.
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;  ///< Tasks that failed on this node. Expired and poison tasks are in StoreStats.
  std::uint64_t retried = 0;
  std::uint64_t lost_leases = 0;
};

/// The tasks whose steps must run alone on their node because they may kill it (docs/concepts/chains.md, poison).
struct GateStatus {
  std::string alone = {};                  ///< The task whose step runs alone now. Empty: no step runs alone.
  std::vector<std::string> suspects = {};  ///< Tasks that wait to run alone.
  std::vector<std::string> inside = {};    ///< Tasks whose steps run now.
  bool is_clear = true;                    ///< True: other steps may begin.
};

/// What a node has read from its broker.
struct IntakeStatus {
  bool paused = false;
  std::uint32_t active_executions = 0;  ///< Tasks that run on this node, from the broker or from callers.
  std::uint64_t consumed = 0;           ///< Messages that made a task or readied one, repeated messages included.
  std::uint64_t failed = 0;             ///< Messages that became dead letters.
};

/// Runs durable chains. A task is a row of a store and a list of steps; the steps run in the groups of an executor.
///
///     GroupExecutor executor({.defaults = {.max_concurrency = 4}, .global_max_in_flight = 4});
///     PluginRegistry plugins;
///     plugins.add("greet", [](StepContext&) { return PluginResult::success({{"greeted", true}}); });
///     ChainEngine engine(*store, executor, plugins, {.node = "a"});
///     engine.start().await();
///     engine.submit({.group = "tenant", .steps = {{.plugin = "greet"}}}).await();
///
/// A task whose submit succeeded is not lost when a process or a machine dies. Each of its steps runs at least once and
/// has exactly one accepted checkpoint. No claim taken after a checkpoint repeats the step of that checkpoint. See
/// docs/concepts/chains.md.
///
/// The executor must serve this engine alone: the groups of the tasks are its groups. Store, executor and plugins must
/// outlive the engine. The destructor asks running steps to stop, waits for them, and gives their tasks back.
///
/// Thread-safety: thread-safe. A task that awaits a handle of the engine keeps its permits (see cohort/task/promise.h).
/// Example: examples/11_durable_chains.cc
class ChainEngine {
 public:
  /// With a broker, the engine reads tasks from it and publishes events and dead letters to it.
  ChainEngine(TaskStore& store, Executor& executor, const PluginRegistry& plugins, ChainOptions options = {},
              Broker* broker = nullptr);
  ~ChainEngine();
  ChainEngine(const ChainEngine&) = delete;
  ChainEngine& operator=(const ChainEngine&) = delete;

  /// Joins the store, takes over unfinished tasks of dead nodes, and begins to run tasks. Fails with the store's error.
  TaskHandle<void> start();
  /// Starts no more tasks and waits for the running ones. After `grace`, running steps are asked to stop; their tasks
  /// go on from their last checkpoint, on another node or after a restart. Done when no task runs here any more.
  /// submit() still works meanwhile.
  TaskHandle<void> drain(Duration grace);

  /// The task is durable when the handle succeeds. kInvalid: an unknown plugin, bad parameters or a bad request.
  TaskHandle<Submitted> submit(NewTask task);
  TaskHandle<std::vector<Result<Submitted>>> submit_all(std::vector<NewTask> tasks);
  /// Cancels a waiting task at once. If the task runs, on this node or another, its step is asked to stop.
  TaskHandle<ChainRow> cancel(std::string task_id, std::string reason);
  /// Makes an ended task ready again, from the step at which it stopped or from an earlier step.
  TaskHandle<ChainTask> replay(ReplayRequest request);
  /// Makes a pending task ready without a message. kConflict: the task is not pending.
  TaskHandle<ChainTask> ready(std::string task_id);
  /// Gives the task when it has ended, in any final state. kNotFound: there is no task of that id. kEnded: the engine
  /// was drained before the task ended. Cancelling the handle ends the wait and not the task. A caller that gives up
  /// after await_for() should cancel the handle, because at most 100,000 waits may be open.
  TaskHandle<ChainTask> wait(const std::string& task_id);
  /// Stops starting tasks of the group, on every node and also after restarts. Running tasks go on, and the deadlines
  /// of waiting tasks are extended by the length of the pause.
  TaskHandle<void> pause_group(std::string group);
  TaskHandle<void> resume_group(std::string group);
  /// Changes the given limits of the group, on every node and also after restarts.
  TaskHandle<void> resize_group(std::string group, GroupLimits limits);

  /// Stop and resume reading messages from the broker. No effect without a broker.
  void pause_intake();
  void resume_intake();
  [[nodiscard]] IntakeStatus intake_status() const;

  [[nodiscard]] ChainStats stats() const;
  /// Estimates how long a new task of the group will wait on this node, from the group's backlog and the rate of starts
  /// over about the last ten minutes. Nothing: there is no backlog, or too few tasks have started yet.
  [[nodiscard]] std::optional<Duration> estimated_wait(const std::string& group) const;
  [[nodiscard]] GateStatus gate() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
