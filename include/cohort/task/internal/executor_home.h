#pragma once

#include <atomic>
#include <cstdint>

namespace cohort {

class Executor;

namespace internal {

class TaskRecord;

/// Where the handles of an executor's tasks find it, also after its end: an ExecutorHome is never freed, only used
/// again for another executor.
///
/// Why a handle may be used while its executor is destroyed. Whoever calls the executor for a task counts himself as a
/// visitor first and only then looks whether the task is done. The executor's destructor waits until every task is
/// done, and then adds 0 to the same counter until it reads 0. A visitor who counted himself before that is waited for;
/// one who does so later reads what the destructor wrote, so he sees the task done and does not call. A home that has
/// been given to another executor may still be counted up and down by visitors of done tasks, which harms nobody.
///
/// Thread-safety: thread-safe, but open and close are the executor's.
class ExecutorHome {
 public:
  static ExecutorHome& open(Executor& executor);
  /// All tasks are done. Waits for visitors.
  void close();

  /// Only while a Visit says so, or inside one of its tasks.
  [[nodiscard]] Executor& executor() const { return *executor_.load(std::memory_order_relaxed); }

  /// Keeps the executor of a task alive while it is called for it.
  class Visit {
   public:
    explicit Visit(const TaskRecord& record);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    /// Null: the task is done, and there may be none.
    [[nodiscard]] Executor* executor() const { return executor_; }

   private:
    ExecutorHome* home_;
    Executor* executor_;
  };

 private:
  std::atomic<Executor*> executor_{nullptr};
  std::atomic<std::uint32_t> visitors_{0};
};

}  // namespace internal
}  // namespace cohort
