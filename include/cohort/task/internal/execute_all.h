#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string_view>

#include "cohort/base/mutex.h"
#include "cohort/task/executor.h"

namespace cohort::internal {

/// One call of execute_all. A group has at most `window` of the batch's tasks open at a time; the next is handed in
/// when the oldest of them is done, so the batch does not overflow the queue by itself.
template <class T>
class Batch {
 public:
  Batch(Executor& executor, std::vector<GroupTask<T>>& tasks) : executor_(executor), tasks_(tasks) {}

  std::vector<TaskResult<T>> run(std::stop_token stop) {
    std::stop_callback cancel_rest(stop, [this] { cancel(); });
    for (GroupTask<T>& task : tasks_) {
      if (stop.stop_requested()) break;
      submit(task);
    }
    std::vector<TaskResult<T>> results;
    results.reserve(tasks_.size());
    const std::vector<TaskHandle<T>> submitted = handles();
    wait_for_all(submitted);
    for (const TaskHandle<T>& handle : submitted) results.push_back(handle.take());
    for (std::size_t i = submitted.size(); i < tasks_.size(); ++i) results.push_back(never_submitted(tasks_[i]));
    return results;
  }

 private:
  static constexpr std::uint32_t kLongestWindow = 1024;
  struct Open {
    std::size_t window = 0;
    std::deque<TaskHandle<T>> handles;
  };

  void submit(GroupTask<T>& task) {
    Open& open = open_of(task.group());
    while (open.handles.size() >= open.window) {
      wait_for(open.handles.front());
      open.handles.pop_front();
    }
    TaskHandle<T> handle = ExecutorAccess::submit_paced(executor_, task);
    open.handles.push_back(handle);
    bool stopped = false;
    {
      MutexLock lock(mutex_);
      handles_.push_back(handle);
      stopped = stopped_;
    }
    if (stopped) handle.cancel();
  }

  Open& open_of(const std::string& group) {
    auto [place, is_new] = open_.try_emplace(group);
    if (is_new) place->second.window = std::clamp(executor_.resolve(group).max_waiting, 1U, kLongestWindow);
    return place->second;
  }

  static void wait_for(const TaskHandle<T>& handle) {
    if (handle.is_done()) return;
    auto state = AwaitState::make(handle.record());
    ExecutorAccess::await(*state, std::nullopt);
  }

  // All in one wait: inside a task each of them is then known to be awaited from the beginning.
  static void wait_for_all(const std::vector<TaskHandle<T>>& handles) {
    std::vector<TaskRef> records;
    for (const TaskHandle<T>& handle : handles) {
      if (!handle.is_done()) records.emplace_back(handle.record());
    }
    const std::size_t need = records.size();
    if (need != 0) ExecutorAccess::await(*AwaitState::make(std::move(records), need), std::nullopt);
  }

  void cancel() {
    std::vector<TaskHandle<T>> open;
    {
      MutexLock lock(mutex_);
      stopped_ = true;
      open = handles_;
    }
    for (TaskHandle<T>& handle : open) handle.cancel();
  }

  std::vector<TaskHandle<T>> handles() {
    MutexLock lock(mutex_);
    return handles_;
  }

  TaskResult<T> never_submitted(const GroupTask<T>& task) {
    const Time now = executor_.clock().now();
    return {task.group(),
            task.task_id(),
            TaskStatus::kCancelled,
            std::nullopt,
            Error{ErrorCode::kCancelled, "the batch was asked to stop before this task was submitted", {}},
            now,
            now,
            now};
  }

  Executor& executor_;
  std::vector<GroupTask<T>>& tasks_;
  std::map<std::string, Open> open_;
  Mutex mutex_;
  std::vector<TaskHandle<T>> handles_ COHORT_GUARDED_BY(mutex_);
  bool stopped_ COHORT_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort::internal

namespace cohort {

template <class T>
std::vector<TaskResult<T>> Executor::execute_all(std::vector<GroupTask<T>>& tasks, std::stop_token stop) {
  return internal::Batch<T>(*this, tasks).run(std::move(stop));
}

}  // namespace cohort
