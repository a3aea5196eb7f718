#pragma once

#include <functional>
#include <string>

#include "chain/chain_calls.h"
#include "cohort/base/mutex.h"
#include "cohort/store/task_store.h"
#include "cohort/task/executor.h"
#include "cohort/task/group_limits.h"

namespace cohort {

/// What operators ask of all nodes: pauses and sizes of groups, cancels. It is written to the store first; each node,
/// the one that was asked included, then does its part.
///
/// Thread-safety: thread-safe. The lock guards how many commands have been followed. Store, executor and the two
/// callbacks are called without it.
class ChainControl {
 public:
  struct Callbacks {
    std::function<void(const std::string& group)> wake;        ///< The group may have something to start.
    std::function<void(const std::string& task_id)> stop_run;  ///< Asks the task's step to stop, if it runs here.
    std::function<bool(const std::string& task_id)> has_run;   ///< The task runs here.
    std::function<void()> look_again;                          ///< The commands could not be read: read them later.
  };

  ChainControl(TaskStore& store, Executor& executor, ChainCalls& calls, Callbacks callbacks)
      : store_(store), executor_(executor), calls_(calls), callbacks_(std::move(callbacks)) {}

  /// What was asked before this node began, as far as it still holds: sizes and pauses. Under a later boot: pauses.
  void begin(bool is_first_boot, Completion<void> done);
  /// Follows the commands that have come since.
  void follow();

  TaskHandle<void> set_paused(std::string group, bool paused);
  TaskHandle<void> resize(std::string group, const GroupLimits& limits);
  TaskHandle<ChainRow> cancel(std::string task_id, std::string reason);

 private:
  void take_sizes(Completion<void> done);
  void take_pauses(Completion<void> done);
  void put(Command command, Completion<void> done);
  void apply(const Command& command);
  void apply_size(const Command& command);
  [[nodiscard]] std::uint64_t followed() const {
    MutexLock lock(mutex_);
    return followed_;
  }
  /// False: it was followed before.
  bool note_followed(std::uint64_t sequence);

  TaskStore& store_;
  Executor& executor_;
  ChainCalls& calls_;
  const Callbacks callbacks_;
  mutable Mutex mutex_;
  std::uint64_t followed_ COHORT_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
