#pragma once

#include <string>
#include <vector>

#include "chain/chain_calls.h"
#include "chain/chain_random.h"
#include "cohort/chain/chain_options.h"
#include "cohort/chain/plugin.h"
#include "cohort/store/task_store.h"
#include "cohort/task/executor.h"

namespace cohort {

/// How tasks come in from this node's callers: checked against its plugins, then written to the store. The store tells
/// the engine of what became ready.
///
/// Thread-safety: thread-safe; it has no state of its own.
class ChainSubmit {
 public:
  ChainSubmit(TaskStore& store, Executor& executor, const PluginRegistry& plugins, const ChainOptions& options,
              ChainCalls& calls, ChainRandom& random)
      : store_(store), executor_(executor), plugins_(plugins), options_(options), calls_(calls), random_(random) {}

  TaskHandle<Submitted> submit(NewTask task);
  TaskHandle<std::vector<Result<Submitted>>> submit_all(std::vector<NewTask> tasks);
  TaskHandle<ChainTask> replay(ReplayRequest request);
  TaskHandle<ChainTask> ready(std::string task_id);

  /// Puts in what the configuration says of a task, and checks the task. kInvalid: this node could not run it.
  [[nodiscard]] Result<void> accept(NewTask& task) const;

 private:
  [[nodiscard]] Result<void> check(const NewTask& task) const;
  [[nodiscard]] Result<void> check_step(const ChainStep& step, std::size_t index) const;

  TaskStore& store_;
  Executor& executor_;
  const PluginRegistry& plugins_;
  const ChainOptions& options_;
  ChainCalls& calls_;
  ChainRandom& random_;
};

}  // namespace cohort
