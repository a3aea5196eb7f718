#pragma once

#include <atomic>
#include <cstdint>

namespace cohort {

class Executor;

namespace internal {

class TaskRecord;

/// Where handles find the executor of their task, even after the executor's end: an ExecutorHome is never freed, only
/// reused for another executor.
///
/// Why a handle may be used while its executor is destroyed:
/// 1. A thread that wants to call the executor for a task first adds itself to the visitor counter. Only then it checks
///    whether the task is done, and if so it does not call.
/// 2. The executor's destructor waits until every task is done. Then it adds 0 to the visitor counter until it reads 0.
/// 3. The destructor waits for each visitor that counted itself before that. A later visitor reads the value that the
///    destructor wrote, so it sees that the task is done and does not call.
/// 4. After the home has gone to another executor, visitors of done tasks may still change the counter. This is
///    harmless.
///
/// Thread-safety: thread-safe, but open and close are the executor's.
class ExecutorHome {
 public:
  static ExecutorHome& open(Executor& executor);
  /// Waits for visitors. All tasks must be done. The thread must not be a visitor itself.
  void close();

  /// Call it only during a Visit that has an executor, or inside a task of the executor.
  [[nodiscard]] Executor& executor() const { return *executor_.load(std::memory_order_relaxed); }

  /// Keeps the executor of a task alive for a scope, so that the scope can call the executor.
  class Visit {
   public:
    explicit Visit(const TaskRecord& record);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    /// Null if the task is done (the executor may not exist any more), or if the record has no home.
    [[nodiscard]] Executor* executor() const { return executor_; }

   private:
    friend class ExecutorHome;
    ExecutorHome* home_;
    Executor* executor_;
    Visit* outer_;  // Of this thread.
  };

 private:
  [[nodiscard]] bool is_visited_by_this_thread() const;

  std::atomic<Executor*> executor_{nullptr};
  std::atomic<std::uint32_t> visitors_{0};
};

}  // namespace internal
}  // namespace cohort
