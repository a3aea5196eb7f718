#pragma once

#include "chain/chain_calls.h"
#include "cohort/base/mutex.h"
#include "cohort/store/task_store.h"
#include "cohort/task/executor.h"

namespace cohort {

/// Has the store forget what ended long ago, in small steps with pauses, so that other calls to the store do not wait.
///
/// Thread-safety: thread-safe. The lock guards whether a round is under way. The store is called without it.
class Retention {
 public:
  /// `retention` of zero: nothing is forgotten.
  Retention(TaskStore& store, Executor& executor, ChainCalls& calls, Duration retention)
      : store_(store), executor_(executor), calls_(calls), retention_(retention) {}

  /// Begins a round if the last one began a minute ago or earlier, and has ended.
  void tick();
  /// Ends the round under way with its next step.
  void stop();

 private:
  void step();
  void end();
  [[nodiscard]] bool is_stopped() const {
    MutexLock lock(mutex_);
    return is_stopped_;
  }

  TaskStore& store_;
  Executor& executor_;
  ChainCalls& calls_;
  const Duration retention_;
  mutable Mutex mutex_;
  bool is_stopped_ COHORT_GUARDED_BY(mutex_) = false;
  bool is_under_way_ COHORT_GUARDED_BY(mutex_) = false;
  Time began_ COHORT_GUARDED_BY(mutex_){};
};

}  // namespace cohort
