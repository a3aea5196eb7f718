#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "chain/chain_calls.h"
#include "cohort/base/mutex.h"
#include "cohort/store/task_store.h"
#include "cohort/task/executor.h"
#include "cohort/task/promise.h"

namespace cohort {

/// The callers that wait for tasks to end (ChainEngine::wait).
///
/// A wait reads the row of its task. Then the events of the store tell which rows to read again. look() reads some rows
/// in case an event was missed.
///
/// Thread-safety: thread-safe. The lock guards the waits and how far the events have been read. Promises are settled
/// without it.
class EndWaits : public std::enable_shared_from_this<EndWaits> {
 public:
  static constexpr std::size_t kMostWaits = 100'000;

  EndWaits(TaskStore& store, Executor& executor, ChainCalls& calls)
      : store_(store), executor_(executor), calls_(calls) {}

  /// kNotFound: there is no such task. kRejected: kMostWaits are open. kEnded: close() came first. kCancelled: the
  /// handle was cancelled; the task is not.
  [[nodiscard]] TaskHandle<ChainTask> wait(const std::string& task_id);
  /// Events up to this one came before the first wait.
  void skip_to(std::uint64_t last_event);
  /// The store has events up to this one.
  void hear(std::uint64_t last_event);
  /// To be called now and then.
  void look();
  void close();

 private:
  struct Wait {
    std::uint64_t number;
    Promise<ChainTask> promise;
  };
  using Waits = std::multimap<std::string, Wait>;

  void read_row(const std::string& task_id);
  void read_events();
  void take(const std::vector<ChainEvent>& events);
  void settle(const std::string& task_id, const Result<ChainTask>& result);
  void cancel(const std::string& task_id, std::uint64_t number);

  TaskStore& store_;
  Executor& executor_;
  ChainCalls& calls_;

  Mutex mutex_;
  bool closed_ COHORT_GUARDED_BY(mutex_) = false;
  Waits waits_ COHORT_GUARDED_BY(mutex_);
  std::uint64_t last_number_ COHORT_GUARDED_BY(mutex_) = 0;
  std::string looked_at_ COHORT_GUARDED_BY(mutex_);  // look() goes on behind this task.
  std::uint64_t read_to_ COHORT_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_event_ COHORT_GUARDED_BY(mutex_) = 0;
  bool is_reading_ COHORT_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort
