#pragma once

#include <string>
#include <vector>

#include "chain/chain_calls.h"
#include "chain/chain_random.h"
#include "chain/wait_forecast.h"
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
              ChainCalls& calls, ChainRandom& random, const WaitForecast& forecast)
      : store_(store),
        executor_(executor),
        plugins_(plugins),
        options_(options),
        calls_(calls),
        random_(random),
        forecast_(forecast) {}

  TaskHandle<Submitted> submit(NewTask task);
  TaskHandle<std::vector<Result<Submitted>>> submit_all(std::vector<NewTask> tasks);
  TaskHandle<ChainTask> replay(ReplayRequest request);
  TaskHandle<ChainTask> ready(std::string task_id);

  /// Puts in what the configuration says of a task, and checks the task. kInvalid: this node could not run it.
  [[nodiscard]] Result<void> accept(NewTask& task) const;

 private:
  // What the answer to a submit says of the task, beside what the store says.
  struct Notes {
    std::string group;
    std::optional<Duration> deadline;
  };
  static Notes notes_of(const NewTask& task);
  void add_notes(Submitted& submitted, const Notes& notes) const;
  [[nodiscard]] Result<void> expand_chain(NewTask& task) const;
  [[nodiscard]] Result<void> check(const NewTask& task) const;

  TaskStore& store_;
  Executor& executor_;
  const PluginRegistry& plugins_;
  const ChainOptions& options_;
  ChainCalls& calls_;
  ChainRandom& random_;
  const WaitForecast& forecast_;
};

}  // namespace cohort
