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

/// What a node does with chains at the moment.
struct ChainStats {
  std::string boot;
  bool has_lease = false;
  bool draining = false;
  std::uint32_t running = 0;  ///< Tasks that are claimed and under way.
  std::uint32_t kept = 0;     ///< Tasks whose claim is kept until their next attempt.
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;  ///< By this node; expired and poison are the store's to tell.
  std::uint64_t retried = 0;
  std::uint64_t lost_leases = 0;
};

/// Which steps have, or want, the node to themselves (see docs/concepts/chains.md, poison).
struct GateStatus {
  std::string alone = {};                  ///< The task whose step runs alone now; empty: none does.
  std::vector<std::string> suspects = {};  ///< Tasks that wait to run alone.
  std::vector<std::string> inside = {};    ///< Tasks whose steps run now.
  bool is_clear = true;                    ///< Steps that need not be alone may begin.
};

/// What a node has taken in from its broker.
struct IntakeStatus {
  bool paused = false;
  std::uint32_t active_executions = 0;  ///< Tasks that run here, wherever they came from.
  std::uint64_t consumed = 0;           ///< Messages that had their effect, now or before.
  std::uint64_t failed = 0;             ///< Messages that became dead letters.
};

/// Runs durable chains: tasks that are rows of a store, each a list of steps, in the groups of an executor.
///
///     GroupExecutor executor({.defaults = {.max_concurrency = 4}, .global_max_in_flight = 4});
///     PluginRegistry plugins;
///     plugins.add("greet", [](StepContext&) { return PluginResult::success({{"greeted", true}}); });
///     ChainEngine engine(*store, executor, plugins, {.node = "a"});
///     engine.start().await();
///     engine.submit({.group = "tenant", .steps = {{.plugin = "greet"}}}).await();
///
/// A task that was acknowledged is not lost, whatever dies. Each of its steps runs at least once and has exactly one
/// accepted checkpoint; no claim taken after that repeats it. See docs/concepts/chains.md.
///
/// It uses the executor for its tasks' groups, and nobody else should. Store, executor and plugins must outlive it; its
/// destructor asks what runs to stop, waits for it, and gives it back.
///
/// Thread-safety: thread-safe. Handles are those of promises: a task that awaits one keeps its permits.
/// Example: examples/11_durable_chains.cc
class ChainEngine {
 public:
  /// With a broker it takes in what comes from there, and tells there what became of tasks.
  ChainEngine(TaskStore& store, Executor& executor, const PluginRegistry& plugins, ChainOptions options = {},
              Broker* broker = nullptr);
  ~ChainEngine();
  ChainEngine(const ChainEngine&) = delete;
  ChainEngine& operator=(const ChainEngine&) = delete;

  /// Joins, takes over what was left unfinished, and begins to run. Fails as the store does.
  TaskHandle<void> start();
  /// Runs nothing new and waits for what runs; after `grace` that is asked to stop, and goes on elsewhere or later from
  /// its last checkpoint. Done when nothing of it runs here any more. Submits are still taken.
  TaskHandle<void> drain(Duration grace);

  /// Durable when it succeeds. An unknown plugin, bad parameters or a bad request: kInvalid.
  TaskHandle<Submitted> submit(NewTask task);
  TaskHandle<std::vector<Result<Submitted>>> submit_all(std::vector<NewTask> tasks);
  /// Waiting: at once. Running, here or on another node: its step is asked to stop.
  TaskHandle<ChainRow> cancel(std::string task_id, std::string reason);
  /// An ended task once more, from the step it stopped at or an earlier one.
  TaskHandle<ChainTask> replay(ReplayRequest request);
  /// A pending task becomes ready without a message. kConflict: it is not pending.
  TaskHandle<ChainTask> ready(std::string task_id);
  /// The task when it has ended, in whatever state, or at once if it has. kNotFound: there is no such task. kEnded: the
  /// engine was drained first. Cancelling the handle ends the wait, not the task; a caller that gives up after
  /// await_for() should do so, because 100,000 waits may be open.
  TaskHandle<ChainTask> wait(const std::string& task_id);
  /// On every node, and after a restart too. What runs goes on; deadlines wait.
  TaskHandle<void> pause_group(std::string group);
  TaskHandle<void> resume_group(std::string group);
  /// Changes those limits of the group that are given; likewise.
  TaskHandle<void> resize_group(std::string group, GroupLimits limits);

  /// Stops taking messages in, and goes on with it. Without a broker nothing happens.
  void pause_intake();
  void resume_intake();
  [[nodiscard]] IntakeStatus intake_status() const;

  [[nodiscard]] ChainStats stats() const;
  /// How long a new task of the group will wait on this node, by the group's backlog and the rate of starts over about
  /// the last ten minutes. Nothing: there is no backlog, or it is too early to tell.
  [[nodiscard]] std::optional<Duration> estimated_wait(const std::string& group) const;
  [[nodiscard]] GateStatus gate() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
